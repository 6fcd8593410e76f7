"""Contract of a mechanism: no steps is no update, and nothing outside its window and replay is read."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Agent, Checkpoint, Window, needs_full_blocks
from worldfork.lab.agents.linear_quadratic import LinearQuadraticPlugin as ExampleAgent
from worldfork.lab.environments.base import Environment
from worldfork.lab.environments.linear_quadratic import World
from worldfork.lab.mechanisms.base import Mechanism, Origin, Update
from worldfork.randomness import Purpose
from worldfork.testing.contract import (
    Report,
    demand,
    demand_kinds,
    demand_pure,
    demand_same,
    demand_unwritten,
    examine,
    name_of,
    resolved,
    rule,
)
from worldfork.testing.samples import (
    SETS,
    checkpoints_of,
    ending,
    keys,
    random_window,
    spoil,
    take_window,
    watched,
)

ROWS: Final = 60
SIZES: Final = (60, 15, 40)
LENGTH: Final = 20  # of the window that the mechanism may see
DRAWS = "Draw from `batch_keys` alone."
COPY = "Copy before you write: HOLD goes on with the same arrays."
UNCHANGED = "`worldfork.lab.mechanisms.base.unchanged` is the update that changes nothing."


def check_mechanism(
    mechanism: str | type[Mechanism] | Mechanism,
    *,
    settings: Mapping[str, Any] | None = None,
    agent: Agent | None = None,
    environment: Environment | None = None,
    checkpoint: Checkpoint | None = None,
) -> Report:
    """Examine a mechanism.

    Args:
        mechanism: a name of the registry, a plug-in class, or a record.
        settings: settings of a name or class.
        agent: an agent to try it on, if it needs one of yours; the linear-quadratic one otherwise.
        environment: the world of `agent`.
        checkpoint: a checkpoint of `agent`.

    Raises:
        ContractError: with everything that is wrong.

    Example:
        >>> check_mechanism("finetune").kept[-1]
        'No steps is the identity'
    """
    record = resolved("mechanisms", mechanism, Mechanism, settings)
    name = f"The mechanism `{name_of(mechanism)}`"
    if agent is not None and environment is not None and checkpoint is not None:
        return examine(name, _Bench(record, agent, environment, [checkpoint] * SETS))
    world, plugin = World(scale=2.0), ExampleAgent()
    example = plugin.build(world, precision="float64")
    return examine(name, _Bench(record, example, world, checkpoints_of(plugin, example, world, ())))


class _Bench:
    """A mechanism, and three parameter sets with a window each: long, short, in between.

    The current parameters are not quite their checkpoints', as in a deployment whose updates persist.
    """

    def __init__(
        self, mechanism: Mechanism, agent: Agent, environment: Environment, checkpoints: list[Checkpoint]
    ) -> None:
        self.mechanism, self.agent = mechanism, agent
        self.origin = Origin.of(checkpoints, replay=mechanism.reads_replay)
        self.parameters = {name: _moved(array) for name, array in self.origin.parameters.items()}
        self.optimiser = self.origin.optimiser
        self.window = random_window(environment, rows=ROWS, sizes=SIZES)

    @rule("An update changes nothing that it is given", foundation=True)
    def leaves_its_arguments(self) -> None:
        demand_unwritten(
            lambda window, parameters, optimiser, origin: self.update(
                window, parameters=parameters, optimiser=optimiser, origin=origin
            ),
            *(self.window, self.parameters, self.optimiser, self.origin),
            subject="`update`",
            remedy=COPY,
        )

    @rule("An update says what it did", foundation=True)
    def says_what_it_did(self) -> None:
        update = self.update()
        for part in ("parameters", "optimiser"):
            demand_kinds(getattr(self, part), getattr(update, part), f"it returned other {part}")
        for name in ("loss_before", "loss_after", "grad_norm", "param_shift", "transitions", "non_finite", "steps"):
            shape = np.shape(getattr(update, name))
            demand(shape == (SETS,), f"`{name}` has shape {shape}.", f"One number per parameter set: ({SETS},).")
        shift = arrays.shift(self.parameters, update.parameters)
        right = np.allclose(update.param_shift, shift, equal_nan=True)
        remedy = "`worldfork.lab.mechanisms.base.updated` counts and measures for you."
        demand(right, f"`param_shift` is {update.param_shift}, the parameters moved by {shift}.", remedy)
        count = arrays.count_non_finite(update.parameters)
        right = np.array_equal(update.non_finite, count)
        demand(right, f"`non_finite` is {update.non_finite}, and {count} parameters are not finite.", remedy)
        seen = np.minimum(SIZES, LENGTH)
        right = bool((np.asarray(update.transitions) <= seen).all())
        remedy = "Cut it with `worldfork.lab.mechanisms.base.last(window, self.window)` and count its `size`."
        seen_too_many = f"`transitions` says that {update.transitions} transitions were seen, of {seen} allowed."
        demand(right, seen_too_many, remedy)

    @rule("An update is a function of its arguments", foundation=True)
    def updates_purely(self) -> None:
        demand_pure(self.update, "`update`", "the same arguments gave another update", DRAWS)

    @rule("Nothing older than the window is read")
    def reads_nothing_older(self) -> None:
        older = np.arange(ROWS) < (self.window.size - LENGTH)[:, None]
        seen = f"spoiling what is older than {LENGTH} transitions changed the update"
        remedy = "Cut it first: `worldfork.lab.mechanisms.base.last(window, self.window)`."
        demand_same(self.update(), self.update(spoil(self.window, older)), seen, remedy)

    @rule("Rows beyond a window's size are not read")
    def reads_no_padding(self) -> None:
        beyond = np.arange(ROWS) >= self.window.size[:, None]
        remedy = "Rows from `size` on are padding: leave them out of every minibatch and sum."
        seen = "spoiling the padding changed the update"
        demand_same(self.update(), self.update(spoil(self.window, beyond)), seen, remedy)

    @rule("A set is updated the same whoever its neighbours are")
    def ignores_neighbours(self) -> None:
        whole = self.update()
        for sets in [[2, 0, 1]] if needs_full_blocks(self.agent) else [[2, 0, 1], [1]]:
            chosen = np.array(sets)
            part = self.update(
                take_window(self.window, sets),
                parameters=arrays.take(self.parameters, chosen),
                optimiser=arrays.take(self.optimiser, chosen),
                origin=self.origin.take(chosen),
                batch_keys=keys(Purpose.UPDATE_BATCH, SETS)[chosen],
            )
            demand_same(
                arrays.take(whole.parameters, chosen),
                part.parameters,
                f"sets {sets} were updated otherwise than among others",
                "Update every parameter set from its own arrays, window and key.",
            )

    @rule("What is trained on led where the window says, and ended where it says")
    def keeps_ends(self) -> None:
        """Every row that the agent is handed is a row of the window, with what it led to and whether it ended."""
        window = ending(self.window)
        rows = {row: (led_to, ended) for row, led_to, ended in _rows(window)}
        handed: list[Window] = []
        self.update(window, agent=watched(self.agent, handed))
        for seen in handed:
            demand(
                seen.terminated is not None,
                "a window that says where episodes ended is handed to the agent without `terminated`.",
                "Cut every one of `window.columns`, as `worldfork.lab.mechanisms.base.last` does.",
            )
            for row, led_to, ended in _rows(seen):
                expected, was_end = rows.get(row, (led_to, ended))
                demand(
                    ended == was_end and np.allclose(led_to, expected, rtol=1e-3, atol=1e-3),
                    "the agent is handed a row of the window with another `next_observation` or `terminated`.",
                    "Keep the columns of a row together: after an end, the next row is another attempt's.",
                )

    @rule("It objects to an agent before it is asked to update one")
    def objects_in_words(self) -> None:
        objection = self.mechanism.objection(self.agent, shortest=min(SIZES), longest=max(SIZES))
        remedy = "`objection` returns a sentence for whoever registered it, and nothing where all is well."
        demand(isinstance(objection, str), f"`objection` returned {objection!r}.", remedy)
        seen = f"it objects to the agent that it is tried on: {objection}"
        demand(not objection, seen, "Pass `agent=` one that it can update.")
        unknown = self.mechanism.model_copy(update={"scope": "no such scope"})
        refused = bool(unknown.objection(self.agent, shortest=min(SIZES), longest=max(SIZES)))
        demand(refused, "it accepts a scope that the agent does not have.", "Ask `super().objection` first.")

    @rule(
        "No steps is the identity",
        applies=lambda bench: (
            bench.mechanism.rests_without_steps or "it begins elsewhere than from the current parameters"
        ),
    )
    def does_nothing_in_no_steps(self) -> None:
        update = self.update(steps=0)
        before, after = (self.parameters, self.optimiser), (update.parameters, update.optimiser)
        demand_same(before, after, "with steps = 0 something changed", UNCHANGED)
        moved = bool(np.any(update.param_shift))
        demand(not moved, f"with steps = 0 `param_shift` is {update.param_shift}.", UNCHANGED)

    @rule(
        "Rows beyond the replay's size are not read",
        applies=lambda bench: bench.mechanism.reads_replay or "it reads no replay",
    )
    def reads_no_padding_of_the_replay(self) -> None:
        replay = self.origin.replay
        assert replay is not None
        short = dataclasses.replace(replay, size=np.maximum(1, replay.size - 8))
        beyond = np.arange(replay.reward.shape[1]) >= short.size[:, None]
        before, after = (
            self.update(origin=dataclasses.replace(self.origin, replay=seen))
            for seen in (short, spoil(short, beyond))
        )
        remedy = "Rows from `size` on are padding, of the replay as of the window."
        demand_same(before, after, "spoiling them changed the update", remedy)

    def update(self, window: Window | None = None, *, steps: int = 5, **arguments: Any) -> Update:
        record = self.mechanism.model_copy(update={"steps": steps, "window": LENGTH, "scope": self.agent.scopes[0]})
        update = record.update(
            arguments.get("agent", self.agent),
            arguments.get("parameters", self.parameters),
            optimiser=arguments.get("optimiser", self.optimiser),
            origin=arguments.get("origin", self.origin),
            window=self.window if window is None else window,
            batch_keys=arguments.get("batch_keys", keys(Purpose.UPDATE_BATCH, SETS)),
        )
        remedy = "`worldfork.lab.mechanisms.base.updated` makes one of what `fit` returned."
        demand(isinstance(update, Update), f"`update` returned a {type(update).__name__}, not an Update.", remedy)
        return update


def _rows(window: Window) -> Iterator[tuple[bytes, np.ndarray, bool]]:
    """Yield of every real row its observation and action, as a key; what they led to; and if that was an end."""
    ended = np.zeros(window.reward.shape, np.bool_) if window.terminated is None else window.terminated
    for p, t in np.argwhere(np.arange(window.reward.shape[1]) < np.asarray(window.size)[:, None]):
        key = window.observation[p, t].tobytes() + window.action[p, t].tobytes()
        yield key, window.next_observation[p, t], bool(ended[p, t])


def _moved(array: Any) -> Any:
    """Return parameters a little away from the checkpoint's, in the same type."""
    return (array * 1.01).astype(array.dtype) if np.asarray(array).dtype.kind == "f" else array
