"""The contract of a mechanism: no steps is no update, and nothing outside its window and replay is read."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from worldfork import registry
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Agent, Arrays, Checkpoint, Fit, Window, needs_full_blocks
from worldfork.lab.agents.linear_quadratic import LinearQuadraticPlugin as ExampleAgent
from worldfork.lab.agents.training import TrainingPlan, Trainable
from worldfork.lab.environments.base import Environment
from worldfork.lab.environments.linear_quadratic import World
from worldfork.lab.mechanisms.base import Mechanism, Origin, Update
from worldfork.randomness import Purpose
from worldfork.testing.deployments import (
    SETS,
    checkpoints_of,
    ending,
    fields,
    frozen,
    keys,
    kinds,
    random_window,
    spoil,
    take_window,
    watched,
)
from worldfork.testing.report import Report, Rule, demand, difference, examine, no_global_draws

ROWS: Final = 60
SIZES: Final = (60, 15, 40)
LENGTH: Final = 20  # of the window that the mechanism may see
DRAWS = "Draw from `batch_keys` alone."


def check_mechanism(
    mechanism: str | type[Mechanism] | Mechanism,
    *,
    settings: Mapping[str, Any] | None = None,
    agent: Agent | None = None,
    environment: Environment | None = None,
    checkpoint: Checkpoint | None = None,
) -> Report:
    """Examine a mechanism: a name of the registry, a plug-in class, or a record.

    It is tried on the linear-quadratic agent, or on `agent` in its `environment` from its `checkpoint` where the
    mechanism needs one of yours. Raises `ContractError` with everything that is wrong.
    """
    if isinstance(mechanism, str):
        record = registry.build("mechanisms", mechanism, Mechanism, settings=settings)
    elif isinstance(mechanism, type):
        record = mechanism.model_validate(dict(settings or {}))
    else:
        record = mechanism
    bench = _Bench(record, *_deployment(agent, environment, checkpoint))
    name = mechanism if isinstance(mechanism, str) else type(record).__name__
    rules = [
        Rule("An update changes nothing that it is given", bench.leaves_its_arguments, foundation=True),
        Rule("An update says what it did", bench.says_what_it_did, foundation=True),
        Rule("An update is a function of its arguments", bench.updates_purely, foundation=True),
        Rule("Nothing older than the window is read", bench.reads_nothing_older),
        Rule("Rows beyond a window's size are not read", bench.reads_no_padding),
        Rule("A set is updated the same whoever its neighbours are", bench.ignores_neighbours),
        Rule("What is trained on led where the window says, and ended where it says", bench.keeps_ends),
        Rule("It objects to an agent before it is asked to update one", bench.objects_in_words),
    ]
    skipped = []
    # What begins elsewhere than from the current parameters says so: it moves them without a step.
    for rule, applies in (
        (Rule("No steps is the identity", bench.does_nothing_in_no_steps), record.rests_without_steps),
        (Rule("Rows beyond the replay's size are not read", bench.reads_no_padding_of_the_replay), bench.rehearses),
    ):
        if applies:
            rules.append(rule)
        else:
            skipped.append(rule.promise)
    return examine(f"The mechanism `{name}`", rules, not_examined=skipped)


def _deployment(
    agent: Agent | None, environment: Environment | None, checkpoint: Checkpoint | None
) -> tuple[Agent, Environment, list[Checkpoint]]:
    if agent is not None and environment is not None and checkpoint is not None:
        return agent, environment, [checkpoint] * SETS
    world, plugin = World(scale=2.0), ExampleAgent()
    example = plugin.build(world, precision="float64")
    return example, world, checkpoints_of(plugin, example, world, ())


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

    def says_what_it_did(self) -> None:
        update = self.update()
        for part in ("parameters", "optimiser"):
            before, after = getattr(self, part), getattr(update, part)
            expected, came = kinds(before), kinds(after)
            demand(came == expected, f"it returned other {part}: {came}.", f"They are as they came: {expected}.")
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
        demand(
            right, f"`transitions` says that {update.transitions} transitions were seen, of {seen} allowed.", remedy
        )

    def updates_purely(self) -> None:
        with no_global_draws("`update`", DRAWS):
            before = self.update()
        text = _updates(before, self.update())
        demand(not text, f"the same arguments gave another update ({text}).", DRAWS)

    def leaves_its_arguments(self) -> None:
        arguments = {"parameters": frozen(self.parameters), "optimiser": frozen(self.optimiser)}
        origin = {"parameters": frozen(self.origin.parameters), "optimiser": arguments["optimiser"]}
        window = frozen(self.window)
        before = {name: {key: np.array(a) for key, a in group.items()} for name, group in arguments.items()}
        remedy = "Copy before you write: HOLD goes on with the same arrays."
        try:
            self.update(window, **arguments, origin=dataclasses.replace(self.origin, **origin))
        except ValueError as error:
            demand("read-only" not in str(error), "`update` writes into what it is given.", remedy)
            raise
        after = {name: {key: np.array(a) for key, a in group.items()} for name, group in arguments.items()}
        text = difference(before, after) or difference(fields(self.window), fields(window))
        text = text or difference(_plain(self.origin.parameters), _plain(origin["parameters"]))
        demand(not text, f"`update` changed what it was given ({text}).", remedy)

    def does_nothing_in_no_steps(self) -> None:
        update = self.update(steps=0)
        text = difference(_plain(self.parameters), _plain(update.parameters))
        text = text or difference(_plain(self.optimiser), _plain(update.optimiser))
        remedy = "`worldfork.lab.mechanisms.base.unchanged` is the update that changes nothing."
        demand(not text, f"with steps = 0 something changed ({text}).", remedy)
        demand(not np.any(update.param_shift), f"with steps = 0 `param_shift` is {update.param_shift}.", remedy)

    def reads_nothing_older(self) -> None:
        older = np.arange(ROWS) < (self.window.size - LENGTH)[:, None]
        text = _updates(self.update(), self.update(spoil(self.window, older)))
        remedy = "Cut it first: `worldfork.lab.mechanisms.base.last(window, self.window)`."
        demand(not text, f"spoiling what is older than {LENGTH} transitions changed the update ({text}).", remedy)

    def reads_no_padding(self) -> None:
        beyond = np.arange(ROWS) >= self.window.size[:, None]
        text = _updates(self.update(), self.update(spoil(self.window, beyond)))
        remedy = "Rows from `size` on are padding: leave them out of every minibatch and sum."
        demand(not text, f"spoiling the padding changed the update ({text}).", remedy)

    def keeps_ends(self) -> None:
        """Every row that the agent is handed is a row of the window, with what it led to and whether it ended."""
        window = ending(self.window)
        known = {row: (led_to, ended) for row, led_to, ended in _rows(window)}
        handed: list[Window] = []
        self.update(window, agent=watched(self.agent, handed))
        for seen in handed:
            demand(
                seen.terminated is not None,
                "a window that says where episodes ended is handed to the agent without `terminated`.",
                "Cut every one of `window.columns`, as `worldfork.lab.mechanisms.base.last` does.",
            )
            for row, led_to, ended in _rows(seen):
                expected, was_end = known.get(row, (led_to, ended))
                demand(
                    ended == was_end and np.allclose(led_to, expected, rtol=1e-3, atol=1e-3),
                    "the agent is handed a row of the window with another `next_observation` or `terminated`.",
                    "Keep the columns of a row together: after an end, the next row is another attempt's.",
                )

    @property
    def rehearses(self) -> bool:
        return self.mechanism.reads_replay

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
        demand(not (text := _updates(before, after)), f"spoiling them changed the update ({text}).", remedy)

    def objects_in_words(self) -> None:
        said = self.mechanism.objection(self.agent, shortest=min(SIZES), longest=max(SIZES))
        remedy = "`objection` returns a sentence for whoever registered it, and nothing where all is well."
        demand(isinstance(said, str), f"`objection` returned {said!r}.", remedy)
        demand(
            not said,
            f"it objects to the agent that it is tried on: {said}",
            "Pass `agent=` one that it can update.",
        )
        unknown = self.mechanism.model_copy(update={"scope": "no such scope"})
        refused = bool(unknown.objection(self.agent, shortest=min(SIZES), longest=max(SIZES)))
        demand(refused, "it accepts a scope that the agent does not have.", "Ask `super().objection` first.")

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
            text = difference(arrays.take(_plain(whole.parameters), chosen), _plain(part.parameters))
            remedy = "Update every parameter set from its own arrays, window and key."
            demand(not text, f"sets {sets} were updated otherwise than among others ({text}).", remedy)

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
    """Of every real row its observation and action, as a key; what they led to; and whether that was an end."""
    ended = np.zeros(window.reward.shape, np.bool_) if window.terminated is None else window.terminated
    for p, t in np.argwhere(np.arange(window.reward.shape[1]) < np.asarray(window.size)[:, None]):
        key = window.observation[p, t].tobytes() + window.action[p, t].tobytes()
        yield key, window.next_observation[p, t], bool(ended[p, t])


def _updates(before: Update, after: Update) -> str:
    return difference(fields(before), fields(after))


def _moved(array: Any) -> Any:
    """A little away from the checkpoint, in the same type."""
    return (array * 1.01).astype(array.dtype) if np.asarray(array).dtype.kind == "f" else array


def _plain(group: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(array) for name, array in group.items()}


STEPS: Final = 2
RATE: Final = 0.5
BATCH_KEYS = "Draw from the keys that it is given alone."


def offers_training(
    agent: Agent, parameters: Arrays, optimiser: Arrays, window: Window, *, plain_fit: Callable[[], Fit]
) -> None:
    """`plain_fit` calls `fit` on the same arguments with `STEPS` steps at `RATE`."""
    assert isinstance(agent, Trainable)
    names, scope = sorted(parameters), agent.scopes[0]

    def train(plan: TrainingPlan) -> Fit:
        batch_keys = keys(Purpose.UPDATE_BATCH, SETS)
        return agent.train(parameters, optimiser, window, plan=plan, batch_keys=batch_keys)

    for group, prefixes in agent.groups.items():
        held = any(name.startswith(prefixes) for name in names)
        demand(held, f"no parameter begins with {prefixes}, the group `{group}`.", f"There are {names[:9]}.")
    counted = all(isinstance(count, int) and count > 0 for count in agent.minibatch)
    remedy = "It is (sequences, transitions of a sequence), and `passes` are counted by it."
    demand(counted, f"`minibatch` is {agent.minibatch!r}.", remedy)
    plain = TrainingPlan(STEPS, scope, RATE)
    text = difference(fields(plain_fit()), fields(train(plain)))
    remedy = "Let `fit` call `train` with `TrainingPlan(steps, scope, rate)`."
    demand(not text, f"a plan of nothing but steps trains otherwise than `fit` ({text}).", remedy)
    group = next(name for name, starts in agent.groups.items() if any(agent.trained(scope, s) for s in starts))
    for chosen in dict.fromkeys((group, *list(agent.groups)[-1:])):
        after = train(dataclasses.replace(plain, groups=(chosen,))).parameters
        others = [name for name in names if not name.startswith(agent.groups[chosen])]
        text = difference(*({name: arrays[name] for name in others} for arrays in (parameters, after)))
        remedy = "Train the parameters of `plan.groups` alone."
        demand(not text, f"training the group `{chosen}` changed others ({text}).", remedy)


def begins_afresh(agent: Agent, parameters: Arrays, optimiser: Arrays) -> None:
    """What `fresh` gives is like what a checkpoint holds, and the same for the same keys."""
    assert isinstance(agent, Trainable)
    batch_keys = keys(Purpose.UPDATE_BATCH, SETS)
    with no_global_draws("`fresh`", BATCH_KEYS):
        before, after = (agent.fresh(parameters, batch_keys) for _ in range(2))
    held = {"parameters": parameters, "optimiser": optimiser}
    for (part, like), group, again in zip(held.items(), before, after, strict=True):
        expected, came = kinds(like), kinds(group)
        others = {name for name in {*expected, *came} if expected.get(name) != came.get(name)}
        shown = {name: came.get(name) for name in sorted(others)[:5]}
        wanted = {name: expected.get(name) for name in shown}
        demand(not others, f"`fresh` has other {part}: {shown}.", f"They are as a checkpoint's: {wanted}.")
        text = difference(group, again)
        demand(not text, f"the same keys gave other {part} ({text}).", BATCH_KEYS)
