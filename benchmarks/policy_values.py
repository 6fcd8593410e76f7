"""Policies against a known answer: what following one is worth in the linear-quadratic world, in closed form.

Given the parameters along its path, the expected return of every episode of a deployment is known, and so is that
of an evaluation. Paths differ, from stream to stream and from checkpoint to checkpoint; the mean of the closed form
over many of them is the policy's value, and what the instrument says has to agree with it
(benchmarks/deployment.py).
"""

import dataclasses

import numpy as np
from jaxtyping import Float64

from worldfork.errors import WorldforkError
from worldfork.lab.agents.linear_quadratic import LinearQuadratic
from worldfork.lab.closed_loop.batches import deployment_batches
from worldfork.lab.closed_loop.segment import advance
from worldfork.lab.closed_loop.state import Shape, State, begin, shape_of
from worldfork.lab.environments.drift import evaluation_levels
from worldfork.lab.environments.linear_quadratic import Matrices, World
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.jobs import run_streams
from worldfork.lab.forks.label import Fork, label
from worldfork.lab.forks.plan import fork_blocks, stream_batches
from worldfork.lab.stream import Stream
from worldfork.ledger.closed_loop import Thresholds
from worldfork.ledger.row import ForkRow, mean
from worldfork.progress import Progress, silent
from worldfork.registration import Cell, Registration

__all__ = ["PolicyValues", "expected_returns", "expected_returns_of", "follow", "one_step_rows"]


@dataclasses.dataclass(frozen=True)
class PolicyValues:
    """Mean returns of one episode. Axes: policies, cells (in the order of the grid)."""

    policies: tuple[str, ...]
    cells: tuple[Cell, ...]
    returned: Float64[np.ndarray, "policies cells"]  # by the deployment's own episodes
    expected: Float64[np.ndarray, "policies cells"]  # in closed form, given the parameters along the path
    evaluated: Float64[np.ndarray, "policies cells"]  # on the matched episodes, over all registered points
    expected_evaluated: Float64[np.ndarray, "policies cells"]
    updates: Float64[np.ndarray, "policies cells"]


def follow(
    registration: Registration, *, thresholds: Thresholds | None = None, progress: Progress = silent
) -> PolicyValues:
    """Follow every policy of a linear-quadratic registration, without a ledger, and say what was to be expected."""
    context = Context(registration, {})
    batches = deployment_batches(registration)
    parts = []
    for number, batch in enumerate(batches, start=1):
        shape = shape_of(context, batch, thresholds or Thresholds())
        parts.append(_follow(context, shape))
        progress("batches", number, len(batches))
    cells = tuple(cell for batch in batches for cell in batch.cells[0])
    columns = [np.concatenate(column, axis=1) for column in zip(*parts, strict=True)]
    return PolicyValues(batches[0].policies, cells, *columns)


def one_step_rows(registration: Registration) -> dict[Cell, list[ForkRow]]:
    """Every fork of a registration, without a ledger: what thresholds are fitted on."""
    context = Context(registration, {})
    streams: dict[Cell, Stream] = {}
    rows: dict[Cell, list[ForkRow]] = {}
    for cells in stream_batches(registration):
        streams.update(zip(cells, run_streams(context, cells), strict=True))
    for block in fork_blocks(registration, shared=False):
        labelled, _ = label(context, [Fork(cell, k, streams[cell]) for cell, k in block])
        for (cell, _), row in zip(block, labelled, strict=True):
            rows.setdefault(cell, []).append(row)
    return rows


def _follow(context: Context, shape: Shape) -> tuple[np.ndarray, ...]:
    registered = context.registration.deployment
    assert registered is not None
    points = context.registration.arm(shape.batch.cells[0][0].arm).stream.decision_points
    state = begin(shape)
    own, expected, evaluated, expected_evaluated, fired = [], [], [], [], []
    for k in range(1, points + 1):
        expected.append(expected_returns_of(context, shape, state, evaluation=False))
        done = advance(shape, state)
        state = done.state
        own.append([row.episode_return for row in done.rows])
        fired.append([row.fired for row in done.rows])
        if k in registered.evaluate_at:
            evaluated.append([mean(row.evaluation or ()) for row in done.rows])
            expected_evaluated.append(expected_returns_of(context, shape, state, evaluation=True))

    def folded(values: list[object]) -> np.ndarray:
        """The mean over segments, policy by cell."""
        found = np.array(values, dtype=np.float64).reshape(len(values), len(shape.batch.policies), -1)
        return found.mean(axis=0) if len(values) else np.full((len(shape.batch.policies), found.shape[-1]), np.nan)

    values = (own, expected, evaluated, expected_evaluated)
    return (*(folded(list(each)) for each in values), points * folded(list(fired)))


def expected_returns_of(
    context: Context, shape: Shape, state: State, *, evaluation: bool
) -> Float64[np.ndarray, " P"]:
    """Of the next episode of every deployment, or of an evaluation of the models as they are."""
    agent, world = context.agent(shape.batch.task), context.environment(shape.batch.task)
    if not isinstance(agent, LinearQuadratic) or not isinstance(world, World):
        raise WorldforkError(f"Only the linear-quadratic world has a closed form; {shape.batch.task} is another.")
    arm = context.registration.arm(shape.batch.cells[0][0].arm)
    start = state.k * world.episode_steps * world.action_repeat
    levels = []
    for _, cell in shape.batch.sets:
        schedule = context.schedule(cell)
        met = evaluation_levels(
            schedule,
            start,
            control_steps=world.episode_steps,
            action_repeat=world.action_repeat,
            mode=arm.evaluation.mode if evaluation else "forward",
        )
        levels.append(schedule.felt(met))
    gains = agent.gain(state.models.parameters)
    return expected_returns(world.matrices, gains, levels=np.stack(levels), action_noise=arm.stream.action_noise)


def expected_returns(
    matrices: Matrices,
    gains: Float64[np.ndarray, "n 2"],
    *,
    levels: Float64[np.ndarray, "n steps"],
    action_noise: float = 0.0,
) -> Float64[np.ndarray, " n"]:
    """Return the expected returns of many gains at once, each along its own levels."""
    gain = np.where(np.isfinite(gains).all(axis=1)[:, None], gains, 0.0)[:, None, :]
    turned = np.swapaxes(gain, 1, 2)
    moment = np.broadcast_to(np.diag(matrices.start**2), (len(gains), 2, 2))
    spread = np.diag(matrices.noise**2) + action_noise**2 * matrices.control @ matrices.control.T
    price = matrices.state_cost + turned @ matrices.action_cost @ gain
    total = np.zeros(len(gains))
    for level in levels.T:
        total -= np.einsum("nij,nji->n", price, moment) + action_noise**2 * np.trace(matrices.action_cost)
        closed_loop = matrices.transition + level[:, None, None] * matrices.slope - matrices.control @ gain
        moment = closed_loop @ moment @ np.swapaxes(closed_loop, 1, 2) + spread
    return total
