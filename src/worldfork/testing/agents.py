"""Contract of an agent: every method is pure, a belief is data, and everything random comes from the keys."""

import contextlib
import dataclasses
import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import (
    Agent,
    AgentPlugin,
    Arrays,
    Checkpoint,
    Fit,
    Window,
    needs_full_blocks,
    taken_by,
)
from worldfork.lab.agents.stateful import StatefulPlugin
from worldfork.lab.agents.training import Trainable, TrainingPlan, black_box
from worldfork.lab.environments.base import Environment, EnvironmentPlugin, can_end
from worldfork.lab.stream import LOGGED
from worldfork.randomness import Purpose, fold_in
from worldfork.testing.contract import (
    ContractError,
    Report,
    Unfit,
    demand,
    demand_kinds,
    demand_pure,
    demand_refusal,
    demand_same,
    demand_unwritten,
    examine,
    has_shape,
    name_of,
    no_global_draws,
    place,
    resolved,
    rule,
)
from worldfork.testing.samples import (
    EPISODES,
    SETS,
    Stage,
    Step,
    checkpoints_of,
    half_steps,
    keys,
    pick_steps,
    random_window,
    sizes_of,
    spoil,
    spoil_set,
    take_window,
)
from worldfork.testing.stateful_agents import GIVES_ITSELF_AWAY, examine_stateful

ROWS: Final = 96  # transitions of a window
SIZES: Final = (96, 64, 80)  # of which are real
TRAINED: Final = 2  # gradient steps
RATE: Final = 0.5
PLAN_KEYS = "Draw from `plan_keys` alone: they seed any generator, and `randomness.fold_in` derives more."
BATCH_KEYS = "Draw minibatches from `batch_keys` alone."
IN_BELIEF = "Put what carries over into the belief that is returned, and leave the one that came as it is."
FLAGGED = "Replace the action by zero and set `replaced` there: divergence is an outcome, never an error."
COPY = "Copy before you write: HOLD goes on with the same arrays."
ACTS = "Actions are a function of parameters, belief and keys"
SIZE_ERRORS = (ValueError, IndexError, RuntimeError, TypeError)  # of an agent that is made for another world
SIZE_WORDS = re.compile(r"shape|size|dimension|broadcast|aligned|mat1|out of bounds|unpack")
SHAPES = (
    "Compute every set and episode alone (explicit sums, no batched product), or say shape_sensitive = True, "
    "and the block's shape becomes part of the ledger."
)


def check_agent(
    agent: str | type[AgentPlugin] | AgentPlugin | Agent,
    environment: str | type[EnvironmentPlugin] | EnvironmentPlugin | Environment,
    *,
    settings: Mapping[str, Any] | None = None,
    checkpoints: Sequence[Checkpoint | Path | str] = (),
    precision: str = "float32",
) -> Report:
    """Examine an agent in a world. Examine the world first: an agent is judged by what the world answers.

    Args:
        agent: a name of the registry, a plug-in class or record, or an agent that is built.
        environment: the world, likewise.
        settings: settings of the agent's name or class.
        checkpoints: files of the agent, or `Checkpoint` records. Without them it generates its own, and one that
            keeps its state inside is examined as it is made.
        precision: the precision to build it in.

    Raises:
        ContractError: with everything that is wrong.

    Example:
        >>> check_agent("linear_quadratic", "linear_quadratic", precision="float64").problems
        ()
    """
    worlds = resolved("environments", environment, EnvironmentPlugin, None)
    world: Any = worlds.build(scale=0.5, threads=1) if isinstance(worlds, EnvironmentPlugin) else worlds
    subject = resolved("agents", agent, AgentPlugin, settings)
    bench = _Bench(subject, world, tuple(checkpoints), precision)
    name = f"The agent `{name_of(agent)}`"
    try:
        return examine(name, bench)
    except ContractError as refusal:
        cause = refusal.__cause__
        if ACTS not in refusal.report.kept and isinstance(cause, SIZE_ERRORS) and SIZE_WORDS.search(str(cause)):
            reason = f"{type(cause).__name__}: {str(cause).rstrip(' .')}. {place(cause)}"
            raise Unfit(f"{name} can not be tried here: {sizes_of(world)}. It raised {reason}") from cause
        raise


def _composes(bench: "_Bench") -> bool:
    """Return True for an agent that offers more than `fit`."""
    return not black_box(bench.agent)


def _begins_again(bench: "_Bench") -> bool | str:
    if getattr(bench.agent, "begin_again", None) is not None:
        return True
    return can_end(bench.world) and 'it has no `begin_again`: register after_end = "wait"'


class _Bench:
    """An agent in its world with a few checkpoints, and what the examinations share."""

    def __init__(
        self, subject: Any, world: Environment, given: tuple[Checkpoint | Path | str, ...], precision: str
    ) -> None:
        self.plugin = subject if isinstance(subject, AgentPlugin) else None
        self.world, self.given, self.precision, self._subject = world, given, precision, subject
        self.checkpoints: list[Checkpoint] = []
        counts = (plural(world.observation_size, "observation"), plural(world.action_size, "action"))
        self.examined = f"in `{world.name}`: {counts[0]}, {counts[1]}"

    @functools.cached_property
    def agent(self) -> Agent:
        if self.plugin is None:
            return self._subject
        return self.plugin.build(self.world, precision=self.precision)

    @rule(GIVES_ITSELF_AWAY, foundation=True, applies=lambda bench: isinstance(bench.plugin, StatefulPlugin))
    def gives_its_state_away(self) -> None:
        """Ask the agent inside, before the shim around it is examined."""
        assert isinstance(self.plugin, StatefulPlugin)
        examine_stateful(self.plugin, self.world)

    @rule("An agent says what it is", foundation=True)
    def says_what_it_is(self) -> None:
        agent = self.agent
        missing = ", ".join(name for name in vars(Agent) if not name.startswith("_") and not hasattr(agent, name))
        demand(not missing, f"it has no `{missing}`.", "Add what worldfork.lab.agents.base asks for.")
        demand(
            isinstance(agent.device, str) and bool(agent.device),
            f"`device` is {agent.device!r}.",
            'Say in words what it computes on ("cpu", "NVIDIA H200"): it is part of a ledger\'s identity.',
        )
        demand(
            isinstance(agent.shape_sensitive, bool),
            f"`shape_sensitive` is {agent.shape_sensitive!r}.",
            "True if digits depend on the batch's shape, False if you know that they do not.",
        )
        names = agent.scopes
        texts = isinstance(names, tuple) and bool(names) and all(isinstance(name, str) for name in names)
        demand(texts, f"`scopes` is {names!r}.", 'It lists what `fit` can be asked to train, as in ("model",).')

    @rule("A checkpoint comes back the same", foundation=True)
    def comes_back(self) -> None:
        """Loaded or generated twice it is the same, with a leading axis of one, in arrays that can be stacked."""
        with no_global_draws("loading or generating", "Draw from the `event` that `generate` is given."):
            self.checkpoints = self._checkpoints()
        for before, after in zip(self.checkpoints, self._checkpoints(), strict=True):
            for part in ("parameters", "optimiser"):
                seen = f"the `{part}` are others the second time"
                remedy = "`load` is a function of the files, `generate` of the event."
                demand_same(getattr(before, part), getattr(after, part), seen, remedy)
            same = before.digest == after.digest and bool(before.digest)
            demand(same, f"`digest` is {before.digest!r}, then {after.digest!r}.", "It stands for the arrays.")
        first = self.checkpoints[0]
        for name, array in (*first.parameters.items(), *first.optimiser.items()):
            seen = f"`{name}` is a {type(array).__name__}."
            demand(hasattr(array, "__array_namespace__"), seen, "Keep parameters as NumPy or JAX arrays here.")
            seen = f"`{name}` has shape {array.shape}."
            demand(len(array) == 1, seen, "A checkpoint's arrays have a leading axis of one.")
        clean = first.clean_return
        seen, remedy = f"`clean_return` is {clean!r}.", "It is the mean return at drift level 0, a finite float."
        demand(isinstance(clean, float) and bool(np.isfinite(clean)), seen, remedy)

    @rule(ACTS, foundation=True)
    def acts_purely(self) -> None:
        stage = self.stage()
        first = self.play(stage)[0]
        has_shape("the action", first.action, (SETS, EPISODES, self.world.action_size))
        has_shape("`replaced`", first.replaced, (SETS, EPISODES))
        seen = "the same episodes with the same keys were played otherwise"
        demand_pure(lambda: self.play(stage), "`act` or another method", seen, PLAN_KEYS)
        belief = self.agent.begin(stage.parameters, self.starts(stage.seeds))
        once, again = (np.array(self.agent.act(stage.parameters, belief, stage.plan_keys).action) for _ in range(2))
        demand_same(once, again, "the same belief with the same keys gave another action", IN_BELIEF)

    @rule("A belief is data and is not kept inside", foundation=True)
    def keeps_no_belief(self) -> None:
        """Two groups of episodes on one agent, turn by turn, also between `act` and `observe`: each goes on as it
        does alone."""
        stage = self.stage()
        other = dataclasses.replace(stage, seeds=stage.seeds + 1000, plan_keys=stage.plan_keys[::-1])
        alone = self.play(stage)
        turns = itertools.zip_longest(*(half_steps(self.agent, self.world, group) for group in (stage, other)))
        played = [step for step, _ in turns if step is not None]
        demand_same(alone, played, "other episodes in between changed what it did", IN_BELIEF)

    @rule("A set acts the same whoever its neighbours are", foundation=True)
    def ignores_neighbours(self) -> None:
        stage, whole = self.stage(), self.play(self.stage())
        order, copies = [2, 0, 1], [1] * SETS
        remedy = (
            "Compute every parameter set from its own arrays: UPDATE and HOLD lie at different places of a block."
        )
        for chosen in (order, copies):
            expected = [pick_steps(step, chosen) for step in whole]
            seen = f"sets {order} acted otherwise at the places {chosen}"
            demand_same(expected, self.play(stage.take(chosen)), seen, remedy)
        if needs_full_blocks(self.agent):
            return
        every = list(range(EPISODES)) if self.agent.shape_sensitive else None
        for sets, rows in (([1], every or [0]), ([2, 0], every or [1, 0]), ([0, 1, 2, 2, 1], every or [1])):
            expected = [pick_steps(step, sets, rows) for step in whole]
            seen = f"a batch of {len(sets)} sets by {len(rows)} acts otherwise"
            demand_same(expected, self.play(stage.take(sets, rows)), seen, SHAPES)

    @rule("Actions that are not finite are zero and flagged")
    def flags_what_is_not_finite(self) -> None:
        with np.errstate(all="ignore"):
            first = self.play(dataclasses.replace(self.stage(), parameters=spoil_set(self.stacked(), 1)))[0]
        finite = bool(np.isfinite(first.action).all())
        demand(finite, "parameters of NaN gave an action that is not finite.", FLAGGED)
        if not first.replaced[1].all():
            given = "a zero action without saying so in `replaced`" if not first.action[1].any() else "an action"
            demand(False, f"parameters of NaN gave {given}, as if nothing were wrong.", FLAGGED)
        demand(not first.replaced[[0, 2]].any(), "sets that are finite were flagged too.", FLAGGED)

    @rule("What is measured has a name, a shape, and `error`")
    def measures(self) -> None:
        for step in self.play(self.stage()):
            names = sorted(step.signals)
            demand(
                "error" in names or not getattr(self.agent, "predicts", True),
                f"`observe` measured {names}.",
                "`error`, the one-step error, is there unless the agent says `predicts = False`.",
            )
            taken = ", ".join(sorted(set(names) & set(LOGGED)))
            demand(not taken, f"`{taken}` is a column of the stream's log already.", "Choose another name.")
            for name, values in step.signals.items():
                has_shape(f"the signal `{name}`", values, (SETS, EPISODES))

    @rule("Training changes nothing that it is given", foundation=True)
    def leaves_its_arguments(self) -> None:
        parameters, optimiser = self.stacked(), self.stacked("optimiser")
        given = (parameters, optimiser, self.window, keys(Purpose.UPDATE_BATCH, SETS))
        fit = demand_unwritten(self.fit, *given, subject="`fit`", remedy=COPY)
        demand_unwritten(self.agent.loss, parameters, self.window, subject="`loss`", remedy=COPY)
        for part, group in (("parameters", parameters), ("optimiser", optimiser)):
            demand_kinds(group, getattr(fit, part), f"`fit` returned other {part}")
        for name in ("loss_before", "loss_after", "grad_norm"):
            has_shape(f"`{name}`", np.asarray(getattr(fit, name)), (SETS,))

    @rule("Training draws from its keys alone", foundation=True)
    def trains_purely(self) -> None:
        demand_pure(self.fit, "`fit`", "the same training with the same keys came out otherwise", BATCH_KEYS)

    @rule("Rows beyond a window's size are not read", foundation=True)
    def reads_no_padding(self) -> None:
        spoilt = spoil(self.window, np.arange(ROWS) >= self.window.size[:, None])
        remedy = "Rows from `size` on are padding: leave them out of every minibatch and sum."
        before, after = (np.asarray(self.agent.loss(self.stacked(), seen)) for seen in (self.window, spoilt))
        demand_same(before, after, "`loss` reads them", remedy)
        demand_same(self.fit(), self.fit(window=spoilt), "`fit` reads them", remedy)

    @rule("Nothing is read across from one attempt to the next")
    def reads_attempts_apart(self) -> None:
        """Attempts of one row each, some of them falls: their order means nothing."""
        length = self.agent.minibatch[1] if isinstance(self.agent, Trainable) else 1
        rows = ROWS // length * length
        whole = random_window(self.world, rows=rows, sizes=(rows,) * SETS)
        alone = np.ones((SETS, rows), np.bool_)
        apart = dataclasses.replace(whole, first=alone, terminated=alone & (np.arange(rows) % 5 == 0))
        turned = Window(**{name: values[:, ::-1] for name, values in apart.columns.items()}, size=apart.size)
        before, after = (np.asarray(self.agent.loss(self.stacked(), seen)) for seen in (apart, turned))
        demand(
            np.allclose(before, after, rtol=1e-3, atol=1e-6, equal_nan=True),
            f"`loss` depends on the order of attempts: {before}, and turned round {after}.",
            "Take what an action led to from `next_observation`, and carry nothing over where `first` is True: the "
            "next row may be another attempt.",
        )
        with contextlib.suppress(WorldforkError):  # an agent may say that such attempts are too short to learn from
            self.fit(window=apart)

    @rule("A set is trained the same whoever its neighbours are", foundation=True)
    def trains_alone(self) -> None:
        whole, order = self.fit(), [2, 0, 1]
        for sets in [order] if needs_full_blocks(self.agent) else [order, [1], [2, 0]]:
            chosen = np.array(sets)
            part = self.fit(
                arrays.take(self.stacked(), chosen),
                arrays.take(self.stacked("optimiser"), chosen),
                take_window(self.window, sets),
                keys(Purpose.UPDATE_BATCH, SETS)[chosen],
            )
            expected = Fit(
                arrays.take(whole.parameters, chosen),
                arrays.take(whole.optimiser, chosen),
                *(np.asarray(getattr(whole, name))[chosen] for name in ("loss_before", "loss_after", "grad_norm")),
            )
            demand_same(expected, part, f"sets {sets} were trained otherwise than among others", SHAPES)

    @rule("A scope that it does not know is refused")
    def refuses_scopes(self) -> None:
        for scope in self.agent.scopes:
            self.fit(scope=scope)
        remedy = f"Raise WorldforkError and name those that are known: {', '.join(self.agent.scopes)}."
        seen = "`fit(scope='no such scope')` trained something."
        demand_refusal(lambda: self.fit(scope="no such scope"), seen, remedy)

    @rule("What it offers to mechanisms is what `fit` does", applies=_composes)
    def offers_its_training(self) -> None:
        agent, parameters = self.agent, self.stacked()
        assert isinstance(agent, Trainable)
        names, scope = sorted(parameters), agent.scopes[0]
        for group, prefixes in agent.groups.items():
            held = any(name.startswith(prefixes) for name in names)
            demand(held, f"no parameter begins with {prefixes}, the group `{group}`.", f"There are {names[:9]}.")
        counted = all(isinstance(count, int) and count > 0 for count in agent.minibatch)
        remedy = "It is (sequences, transitions of a sequence), and `passes` are counted by it."
        demand(counted, f"`minibatch` is {agent.minibatch!r}.", remedy)
        plain = TrainingPlan(TRAINED, scope, RATE)
        seen = "a plan of nothing but steps trains otherwise than `fit`"
        demand_same(
            self.fit(), self.train(plain), seen, "Let `fit` call `train` with `TrainingPlan(steps, scope, rate)`."
        )
        group = next(name for name, starts in agent.groups.items() if any(agent.trained(scope, s) for s in starts))
        for chosen in dict.fromkeys((group, *list(agent.groups)[-1:])):
            after = self.train(dataclasses.replace(plain, groups=(chosen,))).parameters
            others = [name for name in names if not name.startswith(agent.groups[chosen])]
            before, changed = ({name: values[name] for name in others} for values in (parameters, after))
            seen = f"training the group `{chosen}` changed others"
            demand_same(before, changed, seen, "Train the parameters of `plan.groups` alone.")

    @rule("Fresh parameters are like the others, and drawn from the keys", applies=_composes)
    def begins_afresh(self) -> None:
        agent, batch_keys = self.agent, keys(Purpose.UPDATE_BATCH, SETS)
        assert isinstance(agent, Trainable)
        seen = "the same keys gave other parameters or another optimiser"
        fresh = demand_pure(lambda: agent.fresh(self.stacked(), batch_keys), "`fresh`", seen, BATCH_KEYS)
        for part, group in zip(("parameters", "optimiser"), fresh, strict=True):
            demand_kinds(self.stacked(part), group, f"`fresh` has other {part} than a checkpoint")

    @rule("Where an episode begins anew a belief does, and nowhere else", applies=_begins_again)
    def begins_anew(self) -> None:
        """Some episodes of a stage that has gone on for a while begin anew."""
        stage, agent = self.stage(), self.agent
        shape, parameters = stage.seeds.shape, stage.parameters
        belief: Any = agent.begin(parameters, self.starts(stage.seeds))
        for step in range(2):
            decision = agent.act(parameters, belief, fold_in(stage.plan_keys, step))
            seen = self.starts(stage.seeds + step + 1)
            outcome = {"reward": np.ones(shape), "terminated": np.zeros(shape, np.bool_)}
            named = {name: outcome[name] for name in taken_by(agent.observe, *outcome)}
            belief = agent.observe(parameters, decision.belief, seen, **named).belief
        where = np.arange(shape[0] * shape[1]).reshape(shape) % 3 == 0
        observation = np.where(where[..., None], self.starts(stage.seeds + 500), seen)
        begun = agent.begin_again(parameters, belief, observation, where)  # type: ignore[attr-defined]
        whole = agent.begin(parameters, observation)
        acted, going_on, anew = (
            np.array(agent.act(parameters, held, fold_in(stage.plan_keys, 9)).action)
            for held in (begun, belief, whole)
        )
        remedy = "`begin_again` gives the episodes in `where` the belief that `begin` would, and leaves the others."
        other = "an episode that begins anew acts otherwise than one that begins"
        demand_same(anew[where], acted[where], other, remedy)
        other = "an episode that goes on acts otherwise beside one that begins anew"
        demand_same(going_on[~where], acted[~where], other, remedy)

    @rule(
        "A precision that it does not know is refused",
        applies=lambda bench: bench.plugin is not None or "an agent that is built already has its precision",
    )
    def refuses_precisions(self) -> None:
        plugin = self.plugin
        assert plugin is not None
        remedy = "Raise WorldforkError and name those that are known: the ledger says which one was used."
        seen = "`build(precision='no such precision')` gave an agent."
        demand_refusal(lambda: plugin.build(self.world, precision="no such precision"), seen, remedy)

    def starts(self, seeds: np.ndarray) -> np.ndarray:
        """Return first observations [P, E, O]."""
        return self.world.reset(seeds.reshape(-1)).observation.reshape(*seeds.shape, -1)

    def stage(self) -> Stage:
        seeds = np.arange(SETS * EPISODES).reshape(SETS, EPISODES)
        return Stage(self.stacked(), seeds, keys(Purpose.PLANNING, SETS, EPISODES))

    def play(self, stage: Stage) -> list[Step]:
        return [step for step in half_steps(self.agent, self.world, stage) if step is not None]

    def fit(
        self,
        parameters: Arrays | None = None,
        optimiser: Arrays | None = None,
        window: Window | None = None,
        batch_keys: np.ndarray | None = None,
        *,
        scope: str | None = None,
    ) -> Fit:
        return self.agent.fit(
            self.stacked() if parameters is None else parameters,
            self.stacked("optimiser") if optimiser is None else optimiser,
            self.window if window is None else window,
            steps=TRAINED,
            scope=scope or self.agent.scopes[0],
            batch_keys=keys(Purpose.UPDATE_BATCH, SETS) if batch_keys is None else batch_keys,
            rate=RATE,
        )

    def train(self, plan: TrainingPlan) -> Fit:
        assert isinstance(self.agent, Trainable)
        given = self.stacked(), self.stacked("optimiser"), self.window
        return self.agent.train(*given, plan=plan, batch_keys=keys(Purpose.UPDATE_BATCH, SETS))

    def stacked(self, part: str = "parameters") -> Arrays:
        return arrays.concatenate([getattr(checkpoint, part) for checkpoint in self.checkpoints])

    @functools.cached_property
    def window(self) -> Window:
        return random_window(self.world, rows=ROWS, sizes=SIZES)

    def _checkpoints(self) -> list[Checkpoint]:
        records = [item for item in self.given if isinstance(item, Checkpoint)]
        if records:
            return [records[index % len(records)] for index in range(SETS)]
        if self.plugin is None:
            raise WorldforkError("An agent that is built already is examined with `checkpoints=[Checkpoint(...)]`.")
        files = [item for item in self.given if not isinstance(item, Checkpoint)]
        return checkpoints_of(self.plugin, self.agent, self.world, files)
