"""The contract of an agent: every method is pure, a belief is data, and everything random comes from the keys."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Agent, AgentPlugin, Arrays, Checkpoint, Fit, Window, needs_full_blocks
from worldfork.lab.agents.stateful import StatefulPlugin
from worldfork.lab.agents.training import black_box
from worldfork.lab.environments.base import Environment, EnvironmentPlugin, can_end
from worldfork.lab.stream import LOGGED
from worldfork.randomness import Purpose
from worldfork.testing.agents_inside import GIVES_ITSELF_AWAY, examine_stateful
from worldfork.testing.attempts import BEGINS_ANEW, begins_anew, reads_attempts_apart
from worldfork.testing.deployments import (
    EPISODES,
    SETS,
    Stage,
    Step,
    agent_plugin,
    checkpoints_of,
    episodes,
    fields,
    frozen,
    half_steps,
    keys,
    kinds,
    pick_steps,
    random_window,
    spoil,
    spoil_set,
    take_window,
)
from worldfork.testing.environments import environment_plugin
from worldfork.testing.mechanisms import begins_afresh, offers_training
from worldfork.testing.report import Report, Rule, demand, difference, examine, has_shape, no_global_draws

__all__ = ["check_agent"]

ROWS: Final = 96  # transitions of a window
SIZES: Final = (96, 64, 80)  # of which are real
TRAINED: Final = 2  # gradient steps
PLAN_KEYS = "Draw from `plan_keys` alone: they seed any generator, and `randomness.fold_in` derives more."
BATCH_KEYS = "Draw minibatches from `batch_keys` alone."
IN_BELIEF = "Put what carries over into the belief that is returned, and leave the one that came as it is."
SHAPES = (
    "Compute every set and episode alone (explicit sums, no batched product), or say shape_sensitive = True, "
    "and the block's shape becomes part of the ledger."
)


def check_agent(
    agent: str | type[AgentPlugin] | AgentPlugin | Agent,
    environment: str | type[EnvironmentPlugin] | EnvironmentPlugin | Environment,
    *,
    settings: Mapping[str, Any] | None = None,
    environment_settings: Mapping[str, Any] | None = None,
    checkpoints: Sequence[Checkpoint | Path | str] = (),
    precision: str = "float32",
) -> Report:
    """Examine an agent in a world: a name of the registry, a plug-in class or record, or an agent that is built.

    `checkpoints` are files of the agent, or `Checkpoint` records; without them it generates its own. Examine the
    world first, with `check_environment`: an agent is judged by what the world answers. Raises `ContractError`.
    """
    worlds = environment_plugin(environment, environment_settings)
    world: Any = environment if worlds is None else worlds.build(scale=0.5, threads=1)
    plugin = agent_plugin(agent, settings)
    name = agent if isinstance(agent, str) else (agent if isinstance(agent, type) else type(agent)).__name__
    bench = _Bench(plugin, world, tuple(checkpoints), precision, None if plugin else agent)  # type: ignore[arg-type]
    rules = [
        Rule("An agent says what it is", bench.says_what_it_is, foundation=True),
        Rule("A checkpoint comes back the same", bench.comes_back, foundation=True),
        Rule("Actions are a function of parameters, belief and keys", bench.acts_purely, foundation=True),
        Rule("A belief is data and is not kept inside", bench.keeps_no_belief, foundation=True),
        Rule("A set acts the same whoever its neighbours are", bench.ignores_neighbours, foundation=True),
        Rule("Actions that are not finite are zero and flagged", bench.flags_what_is_not_finite),
        Rule("What is measured has a name, a shape, and `error`", bench.measures),
        Rule("Training changes nothing that it is given", bench.leaves_its_arguments, foundation=True),
        Rule("Training draws from its keys alone", bench.trains_purely, foundation=True),
        Rule("Rows beyond a window's size are not read", bench.reads_no_padding, foundation=True),
        Rule(
            "Nothing is read across from one attempt to the next",
            lambda: reads_attempts_apart(
                bench.agent, world, bench.stacked(), fit=lambda window: bench.fit(window=window)
            ),
        ),
        Rule("A set is trained the same whoever its neighbours are", bench.trains_alone, foundation=True),
        Rule("A scope that it does not know is refused", bench.refuses_scopes),
    ]
    if isinstance(plugin, StatefulPlugin):  # the agent inside, before the shim around it
        rules.insert(0, Rule(GIVES_ITSELF_AWAY, lambda: examine_stateful(plugin, world), foundation=True))
    if bench.composes():
        rules += [
            Rule("What it offers to mechanisms is what `fit` does", bench.offers_its_training),
            Rule("Fresh parameters are like the others, and drawn from the keys", bench.begins_afresh),
        ]
    skipped = [] if plugin else ["A precision that it does not know is refused"]
    if bench.can_begin_again():
        rules.append(Rule(BEGINS_ANEW, lambda: begins_anew(bench.agent, world, bench.stage())))
    elif can_end(world):
        skipped.append(f'{BEGINS_ANEW} (it has no `begin_again`: register after_end = "wait")')
    if plugin:
        rules.append(Rule("A precision that it does not know is refused", bench.refuses_precisions))
    return examine(f"The agent `{name}`", rules, not_examined=skipped)


class _Bench:
    """An agent in its world with a few checkpoints, and what the examinations share."""

    def __init__(
        self,
        plugin: AgentPlugin | None,
        world: Environment,
        checkpoints: tuple[Checkpoint | Path | str, ...],
        precision: str,
        agent: Agent | None,
    ) -> None:
        self.plugin, self.world, self.precision = plugin, world, precision
        self.given, self.built = checkpoints, agent
        self.checkpoints: list[Checkpoint] = []

    @functools.cached_property
    def agent(self) -> Agent:
        if self.built is not None:
            return self.built
        assert self.plugin is not None
        return self.plugin.build(self.world, precision=self.precision)

    def says_what_it_is(self) -> None:
        agent = self.agent
        members = [name for name in vars(Agent) if not name.startswith("_")]
        missing = [name for name in members if not hasattr(agent, name)]
        demand(not missing, f"it has no `{', '.join(missing)}`.", "Add what worldfork.lab.agents.base asks for.")
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
        remedy = 'It lists what `fit` can be asked to train, as in ("model",).'
        demand(texts, f"`scopes` is {names!r}.", remedy)

    def comes_back(self) -> None:
        """Loaded or generated twice it is the same, with a leading axis of one, in arrays that can be stacked."""
        with no_global_draws("loading or generating", "Draw from the `event` that `generate` is given."):
            self.checkpoints = self._checkpoints()
        for before, after in zip(self.checkpoints, self._checkpoints(), strict=True):
            for part in ("parameters", "optimiser"):
                text = difference(getattr(before, part), getattr(after, part))
                remedy = "`load` is a function of the files, `generate` of the event."
                demand(not text, f"the `{part}` are others the second time ({text}).", remedy)
            same = before.digest == after.digest and bool(before.digest)
            demand(same, f"`digest` is {before.digest!r}, then {after.digest!r}.", "It stands for the arrays.")
        first = self.checkpoints[0]
        for name, array in (*first.parameters.items(), *first.optimiser.items()):
            stackable = hasattr(array, "__array_namespace__")
            demand(
                stackable, f"`{name}` is a {type(array).__name__}.", "Keep parameters as NumPy or JAX arrays here."
            )
            demand(
                len(array) == 1,
                f"`{name}` has shape {array.shape}.",
                "A checkpoint's arrays have a leading axis of one.",
            )
        demand(
            isinstance(first.clean_return, float) and bool(np.isfinite(first.clean_return)),
            f"`clean_return` is {first.clean_return!r}.",
            "It is the mean return at drift level 0, a finite float.",
        )

    def acts_purely(self) -> None:
        stage = self.stage()
        with no_global_draws("`act` or another method", PLAN_KEYS):
            before = self.play(stage)
        has_shape("the action", before[0].action, (SETS, EPISODES, self.world.action_size))
        has_shape("`replaced`", before[0].replaced, (SETS, EPISODES))
        text = _steps(before, self.play(stage))
        demand(not text, f"the same episodes with the same keys were played otherwise ({text}).", PLAN_KEYS)
        start = self.world.reset(stage.seeds.reshape(-1)).observation.reshape(*stage.seeds.shape, -1)
        belief = self.agent.begin(stage.parameters, start)
        actions = [np.array(self.agent.act(stage.parameters, belief, stage.plan_keys).action) for _ in range(2)]
        text = difference(*actions)
        demand(not text, f"the same belief with the same keys gave another action ({text}).", IN_BELIEF)

    def keeps_no_belief(self) -> None:
        """Two groups of episodes on one agent, turn by turn, also between `act` and `observe`: each goes on as it
        does alone."""
        stage = self.stage()
        other = dataclasses.replace(stage, seeds=stage.seeds + 1000, plan_keys=stage.plan_keys[::-1])
        alone = self.play(stage)
        turns = itertools.zip_longest(*(half_steps(self.agent, self.world, group) for group in (stage, other)))
        text = _steps(alone, [step for step, _ in turns if step is not None])
        demand(not text, f"other episodes in between changed what it did ({text}).", IN_BELIEF)

    def ignores_neighbours(self) -> None:
        stage, whole = self.stage(), self.play(self.stage())
        order, copies = [2, 0, 1], [1] * SETS
        remedy = (
            "Compute every parameter set from its own arrays: UPDATE and HOLD lie at different places of a block."
        )
        for chosen in (order, copies):
            text = _steps([pick_steps(step, chosen) for step in whole], self.play(stage.take(chosen)))
            demand(not text, f"sets {order} acted otherwise at the places {chosen} ({text}).", remedy)
        if needs_full_blocks(self.agent):
            return
        every = list(range(EPISODES)) if self.agent.shape_sensitive else None
        for sets, rows in (([1], every or [0]), ([2, 0], every or [1, 0]), ([0, 1, 2, 2, 1], every or [1])):
            expected = [pick_steps(step, sets, rows) for step in whole]
            text = _steps(expected, self.play(stage.take(sets, rows)))
            demand(not text, f"a batch of {len(sets)} sets by {len(rows)} acts otherwise ({text}).", SHAPES)

    def flags_what_is_not_finite(self) -> None:
        broken = self.stage(parameters=spoil_set(self.stacked(), 1))
        with np.errstate(all="ignore"):
            steps = self.play(broken)
        remedy = "Replace the action by zero and set `replaced` there: divergence is an outcome, never an error."
        demand(
            bool(np.isfinite(steps[0].action).all()), "parameters of NaN gave an action that is not finite.", remedy
        )
        if not steps[0].replaced[1].all():
            unmoved = not difference(steps[0].action[1], np.zeros_like(steps[0].action[1]))
            demand(not unmoved, "parameters of NaN gave a zero action without saying so in `replaced`.", remedy)
            demand(False, "parameters of NaN gave an action as if nothing were wrong.", remedy)
        demand(not steps[0].replaced[[0, 2]].any(), "sets that are finite were flagged too.", remedy)

    def measures(self) -> None:
        for step in self.play(self.stage()):
            names = sorted(step.signals)
            demand(
                "error" in names or not getattr(self.agent, "predicts", True),
                f"`observe` measured {names}.",
                "`error`, the one-step error, is there unless the agent says `predicts = False`.",
            )
            taken = sorted(set(names) & set(LOGGED))
            demand(
                not taken, f"`{', '.join(taken)}` is a column of the stream's log already.", "Choose another name."
            )
            for name, values in step.signals.items():
                has_shape(f"the signal `{name}`", values, (SETS, EPISODES))

    def leaves_its_arguments(self) -> None:
        parameters, optimiser = frozen(self.stacked()), frozen(self.stacked("optimiser"))
        window, batch_keys = frozen(self.window), frozen(keys(Purpose.UPDATE_BATCH, SETS))
        arguments = {"parameters": parameters, "optimiser": optimiser, "window": fields(window)}
        before = _copies(arguments)
        remedy = "Copy before you write: HOLD goes on with the same arrays."
        try:
            fit = self.fit(parameters, optimiser, window, batch_keys)
            self.agent.loss(parameters, window)
        except ValueError as error:
            demand("read-only" not in str(error), "`fit` writes into what it is given.", remedy)
            raise
        text = difference(before, _copies(arguments))
        demand(not text, f"`fit` changed what it was given ({text}).", remedy)
        for part, group in (("parameters", parameters), ("optimiser", optimiser)):
            expected, came = kinds(group), kinds(getattr(fit, part))
            demand(came == expected, f"`fit` returned other {part}: {came}.", f"They are as they came: {expected}.")
        for name in ("loss_before", "loss_after", "grad_norm"):
            has_shape(f"`{name}`", np.asarray(getattr(fit, name)), (SETS,))

    def trains_purely(self) -> None:
        with no_global_draws("`fit`", BATCH_KEYS):
            before = self.fit()
        text = difference(fields(before), fields(self.fit()))
        demand(not text, f"the same training with the same keys came out otherwise ({text}).", BATCH_KEYS)

    def reads_no_padding(self) -> None:
        window = self.window
        spoilt = spoil(window, np.arange(ROWS) >= window.size[:, None])
        remedy = "Rows from `size` on are padding: leave them out of every minibatch and sum."
        losses = [np.asarray(self.agent.loss(self.stacked(), seen)) for seen in (window, spoilt)]
        demand(not (text := difference(*losses)), f"`loss` reads them ({text}).", remedy)
        text = difference(*(fields(self.fit(window=seen)) for seen in (window, spoilt)))
        demand(not text, f"`fit` reads them ({text}).", remedy)

    def can_begin_again(self) -> bool:
        """Whether it can be deployed where episodes end; one that can not be built is somebody else's rule."""
        try:
            return getattr(self.agent, "begin_again", None) is not None
        except Exception:
            return False

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
            text = difference(fields(expected), fields(part))
            demand(not text, f"sets {sets} were trained otherwise than among others ({text}).", SHAPES)

    def composes(self) -> bool:
        """Whether it offers more than `fit`; an agent that can not be built is somebody else's rule to tell."""
        try:
            return not black_box(self.agent)
        except Exception:
            return False

    def offers_its_training(self) -> None:
        offers_training(self.agent, self.stacked(), self.stacked("optimiser"), self.window, plain_fit=self.fit)

    def begins_afresh(self) -> None:
        begins_afresh(self.agent, self.stacked(), self.stacked("optimiser"))

    def refuses_scopes(self) -> None:
        for scope in self.agent.scopes:
            self.fit(scope=scope)
        try:
            self.fit(scope="no such scope")
        except Exception:
            return
        remedy = f"Raise WorldforkError and name those that are known: {', '.join(self.agent.scopes)}."
        demand(False, "`fit(scope='no such scope')` trained something.", remedy)

    def refuses_precisions(self) -> None:
        assert self.plugin is not None
        try:
            self.plugin.build(self.world, precision="no such precision")
        except Exception:
            return
        remedy = "Raise WorldforkError and name those that are known: the ledger says which one was used."
        demand(False, "`build(precision='no such precision')` gave an agent.", remedy)

    def stage(self, *, parameters: Arrays | None = None) -> Stage:
        seeds = np.arange(SETS * EPISODES).reshape(SETS, EPISODES)
        plan_keys = keys(Purpose.PLANNING, SETS, EPISODES)
        return Stage(self.stacked() if parameters is None else parameters, seeds, plan_keys)

    def play(self, stage: Stage) -> list[Step]:
        return list(episodes(self.agent, self.world, stage))

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
            rate=0.5,
        )

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


def _steps(before: Sequence[Step], after: Sequence[Step]) -> str:
    """How two plays of the same episodes differ; empty where they do not."""
    return difference(
        *([{"action": s.action, "replaced": s.replaced, **s.signals} for s in steps] for steps in (before, after))
    )


def _copies(groups: Mapping[str, Arrays]) -> dict[str, dict[str, np.ndarray]]:
    return {part: {name: np.array(array) for name, array in group.items()} for part, group in groups.items()}
