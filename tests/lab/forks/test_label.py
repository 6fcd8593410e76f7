"""Rows of a block against answers known beforehand: drift, noise, counts, and which branch they belong to."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from kill_and_resume import REGISTRATION

from worldfork.lab.agents import linear_quadratic as lq
from worldfork.lab.agents.base import Fit
from worldfork.lab.environments import linear_quadratic as world
from worldfork.lab.environments.base import State
from worldfork.lab.episodes import Draws, roll_out
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.jobs import run_streams
from worldfork.lab.forks.label import Fork, label
from worldfork.lab.mechanisms.base import last
from worldfork.lab.stream import window
from worldfork.ledger.row import Counts, ForkRow
from worldfork.randomness import Purpose, words
from worldfork.registration import Cell, parse

TASK = "linear_quadratic"
AWAY = Cell("few", TASK, 0, "away", 0)
STEPS = world.World.episode_steps


def context_of(*changes: tuple[str, str]) -> Context:
    """The study of the kills (two arms, four decision points, five episodes), changed."""
    text = REGISTRATION
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return Context(parse(text), {})


def rows_of(context: Context, *ks: int, cell: Cell = AWAY) -> list[ForkRow]:
    (stream,) = run_streams(context, (cell,))
    return label(context, [Fork(cell, k, stream) for k in ks])[0]


@pytest.mark.parametrize(
    ("period", "level", "rate"),
    [
        (2 * STEPS, 1.0, 1 / (2 * STEPS)),  # it arrives with the step before the fork: that one still moved
        (2 * STEPS - 1, 1.0, 0.0),  # it arrived one step earlier: the step before the fork stood still
        (2 * STEPS + 1, 2 * STEPS / (2 * STEPS + 1), 1 / (2 * STEPS + 1)),
    ],
)
def test_level_and_rate_are_those_at_the_fork_and_of_the_step_before_it(
    period: int, level: float, rate: float
) -> None:
    (row,) = rows_of(context_of(("drift_period = 100", f"drift_period = {period}")), 2)
    assert row.level == pytest.approx(level)
    assert row.rate == pytest.approx(rate, abs=1e-12)
    assert (row.step, row.env_step) == (2 * STEPS, 2 * STEPS)


def test_both_branches_are_evaluated_with_the_noise_of_the_stream() -> None:
    """The null mechanism: HOLD and UPDATE are the same roll-out, made here by hand at one level and noise."""
    context = context_of(
        ("[evaluation]", "action_noise = 0.5\n[evaluation]"), ("[mechanism]", '[mechanism]\nname = "none"')
    )
    (row,) = rows_of(context, 1)
    checkpoint, environment = context.checkpoint(TASK, 0), context.environment(TASK)
    event = AWAY.event(Purpose.INITIAL_STATE, 0).at(fork=1)

    def by_hand(noise: float) -> list[float]:
        levels = np.full((1, STEPS), row.level)
        draws = Draws.of([event], np.arange(5))
        agent = context.agent(TASK)
        rolled = roll_out(agent, environment, checkpoint.parameters, draws, levels=levels, action_noise=noise)
        return rolled.returns[0].tolist()

    assert list(row.hold) == list(row.update) == by_hand(0.5)
    assert np.mean(by_hand(0.0)) > np.mean(by_hand(0.5))  # and noise costs return


@dataclasses.dataclass(frozen=True)
class Spoiled(lq.LinearQuadratic):
    """An agent whose updates leave no finite parameter: its actions are then zero."""

    def fit(self, parameters: Any, optimiser: Any, window: Any, **settings: Any) -> Fit:
        fit = super().fit(parameters, optimiser, window, **settings)
        return dataclasses.replace(fit, parameters={k: np.full_like(v, np.nan) for k, v in fit.parameters.items()})


class SpoiledPlugin(lq.LinearQuadraticPlugin):
    """It, by name."""

    def build(self, environment: Any, *, precision: str) -> Spoiled:
        return Spoiled(environment.matrices, **self.model_dump())


class Idle(world.World):
    """A world that earns nothing finite, and warns, while the motor is off."""

    def step(self, state: State, action: Any, level: Any = 0.0) -> Any:
        after, observation, reward = super().step(state, action, level)
        off = action[:, 0] == 0.0
        after = dataclasses.replace(after, unstable=after.unstable | off)
        return after, observation, np.where(off, np.inf, reward)


class IdlePlugin(world.LinearQuadraticPlugin):
    """It, by name."""

    def build(self, *, scale: float, threads: int) -> Idle:
        return Idle(scale=scale)


def test_what_went_wrong_is_counted_in_the_branch_where_it_did() -> None:
    context = context_of(
        ('agent = "linear_quadratic"', f'agent = "{__name__}:SpoiledPlugin"\nenvironment = "{__name__}:IdlePlugin"')
    )
    (row,) = rows_of(context, 1)
    assert row.nonfinite_returns == Counts(hold=0, update=5)
    assert row.nonfinite_actions == Counts(hold=0, update=5 * STEPS)
    assert row.unstable_episodes == Counts(hold=0, update=5)
    assert row.update == (None,) * 5
    assert row.r_hold == pytest.approx(np.mean(row.hold))  # type: ignore[arg-type]
    assert (row.r_update, row.delta) == (None, None)


class Rich(world.World):
    """A world whose episodes return the largest numbers there are: finite, while the sum of two is not."""

    def step(self, state: State, action: Any, level: Any = 0.0) -> Any:
        after, observation, reward = super().step(state, action, level)
        return after, observation, np.full_like(reward, 1.7e308 / STEPS)


class RichPlugin(world.LinearQuadraticPlugin):
    """It, by name."""

    def build(self, *, scale: float, threads: int) -> Rich:
        return Rich(scale=scale)


def test_a_mean_whose_sum_overflows_is_undefined_and_no_failure() -> None:
    context = context_of(
        ('agent = "linear_quadratic"', f'agent = "linear_quadratic"\nenvironment = "{__name__}:RichPlugin"')
    )
    (row,) = rows_of(context, 1)
    assert row.hold == row.update == (pytest.approx(1.7e308),) * 5
    assert row.nonfinite_returns == Counts(hold=0, update=0)
    assert (row.r_hold, row.r_update, row.delta) == (None, None, None)


def test_a_shared_hold_is_the_owners_in_every_part() -> None:
    context = context_of()
    many = dataclasses.replace(AWAY, arm="many")
    (stream,) = run_streams(context, (AWAY,))
    rows = label(context, [Fork(AWAY, k, stream) for k in (1, 2, 3)])[0]
    held = [
        row.model_copy(
            update={
                "nonfinite_actions": Counts(hold=7, update=1),
                "unstable_episodes": Counts(hold=3, update=2),
                "hold": (None, *row.hold[1:]),
            }
        )
        for row in rows
    ]
    shared = label(context, [Fork(many, row.k, stream, held=row) for row in held])[0]
    for row, owner, evaluated in zip(shared, held, rows, strict=True):
        assert (row.hold, row.draws.hold) == (owner.hold, owner.draws.hold)
        assert row.nonfinite_actions == Counts(hold=7, update=0)
        assert row.unstable_episodes == Counts(hold=3, update=0)
        assert row.nonfinite_returns == Counts(hold=1, update=0)
        assert row.draws.update == evaluated.draws.update  # its own, and the same
        assert row.fit.window == min(100, STEPS * row.k)


SEEN: set[tuple[str, int]] = set()


@dataclasses.dataclass(frozen=True)
class Counting(lq.LinearQuadratic):
    """An agent that notes how many parameter sets it is given at a time."""

    shape_sensitive: bool = False

    def begin(self, parameters: Any, observation: Any) -> Any:
        SEEN.add(("act", len(parameters["A"])))
        return super().begin(parameters, observation)

    def fit(self, parameters: Any, optimiser: Any, window: Any, **settings: Any) -> Fit:
        SEEN.add(("fit", len(parameters["A"])))
        return super().fit(parameters, optimiser, window, **settings)

    def loss(self, parameters: Any, window: Any) -> Any:
        SEEN.add(("loss", len(parameters["A"])))
        return super().loss(parameters, window)


class CountingPlugin(lq.LinearQuadraticPlugin):
    """It, by name."""

    sensitive: bool = True

    def build(self, environment: Any, *, precision: str) -> Counting:
        return Counting(environment.matrices, shape_sensitive=self.sensitive)


@pytest.mark.parametrize("ks", [(1, 2), (1, 2, 3)])
def test_blocks_have_one_shape_whether_full_or_not_and_whether_hold_is_shared_or_not(ks: tuple[int, ...]) -> None:
    """Digits of an agent that feels its batch's shape may not depend on which forks were left to do."""
    context = context_of(('agent = "linear_quadratic"', f'agent = "{__name__}:CountingPlugin"'))
    (stream,) = run_streams(context, (AWAY,))
    shape = {("fit", 3), ("loss", 3), ("act", 6)}
    SEEN.clear()
    rows = label(context, [Fork(AWAY, k, stream) for k in ks])[0]
    assert shape == SEEN
    SEEN.clear()
    many = dataclasses.replace(AWAY, arm="many")
    assert len(label(context, [Fork(many, row.k, stream, held=row) for row in rows])[0]) == len(ks)
    assert shape == SEEN


@pytest.mark.parametrize("count", [1, 2, 4])
def test_no_place_of_a_block_is_filled_for_an_agent_that_does_not_feel_its_neighbours(count: int) -> None:
    counting = f'agent = "{__name__}:CountingPlugin"\nsettings = {{ sensitive = false }}'
    context = context_of(('agent = "linear_quadratic"', counting))
    (stream,) = run_streams(context, (AWAY,))
    SEEN.clear()
    rows = label(context, [Fork(AWAY, k, stream) for k in (1, 2, 3)[:count]])[0]
    assert {("fit", len(rows)), ("loss", len(rows)), ("act", 2 * len(rows))} == SEEN
    SEEN.clear()
    many = dataclasses.replace(AWAY, arm="many")
    shared = [Fork(many, row.k, stream, held=row) for row in [*rows, rows[0]][:count]]
    assert len(label(context, shared)[0]) == count
    parts = {1: {1}, 2: {2}, 4: {3, 1}}[
        count
    ]  # where HOLD is shared, a block has room for 6 and trains 3 at a time
    assert {("act", count), *((what, part) for what in ("fit", "loss") for part in parts)} == SEEN


def test_an_update_is_given_its_checkpoints_optimiser_its_own_window_and_its_own_draws() -> None:
    """Every fork of a block against the agent's own training on what belongs to that fork."""
    context = context_of()
    checkpoint, agent = context.checkpoint(TASK, 0), context.agent(TASK)
    velocity = {name: np.full_like(x, 0.01) for name, x in checkpoint.optimiser.items()}
    moving = dataclasses.replace(checkpoint, optimiser=velocity)
    context.checkpoint = lambda task, index: moving  # type: ignore[assignment]
    (stream,) = run_streams(context, (AWAY,))
    rows = label(context, [Fork(AWAY, k, stream) for k in (1, 2, 4)])[0]
    for row in rows:
        seen = last(window([stream.recording], [row.k]), 100)
        key = words(AWAY.update_event(0).at(fork=row.k))[None]
        fit = agent.fit(checkpoint.parameters, velocity, seen, steps=5, scope="model", batch_keys=key)
        assert (row.fit.loss_before, row.fit.loss_after) == (fit.loss_before[0], fit.loss_after[0])
        assert row.fit.grad_norm == fit.grad_norm[0]
        assert row.fit.window == seen.size[0] == min(100, STEPS * row.k)
