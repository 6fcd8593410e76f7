"""The instrument against a known answer: measured dR beside the closed form, fork by fork.

In the linear-quadratic world the expected return of a gain is known, so the true dR of every fork is. The forks are
made by the same functions as any study's; only the answer is computed elsewhere.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float64, Int64

from worldfork.errors import WorldforkError
from worldfork.lab.agents.linear_quadratic import LinearQuadratic
from worldfork.lab.environments.closed_form import expected_return
from worldfork.lab.environments.drift import evaluation_levels
from worldfork.lab.environments.linear_quadratic import World
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.label import Fork, label
from worldfork.lab.forks.plan import fork_blocks, stream_batches
from worldfork.lab.forks.tasks import run_streams
from worldfork.lab.stream import Stream
from worldfork.progress import Progress, silent
from worldfork.registration import Cell

__all__ = ["Calibration", "calibrate"]


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Forks whose answer is known, and what the instrument said."""

    cell: list[str]
    k: Int64[np.ndarray, " F"]
    truth: Float64[np.ndarray, " F"]  # the closed form
    hold: Float64[np.ndarray, "F m"]  # returns, episodes paired
    update: Float64[np.ndarray, "F m"]

    def measured(self, episodes: int) -> Float64[np.ndarray, " F"]:
        """dR from the first `episodes` pairs."""
        return np.mean(self.update[:, :episodes] - self.hold[:, :episodes], axis=1)

    def standard_error(self, episodes: int) -> Float64[np.ndarray, " F"]:
        """Of `measured`, from the spread of the pairs."""
        pairs = self.update[:, :episodes] - self.hold[:, :episodes]
        return np.std(pairs, axis=1, ddof=1) / np.sqrt(episodes)

    def covered(self, episodes: int) -> Bool[np.ndarray, " F"]:
        """Whether the 95% Student-t interval on the paired differences holds the truth."""
        from scipy.stats import t

        reach = t.ppf(0.975, episodes - 1) * self.standard_error(episodes)
        return np.abs(self.measured(episodes) - self.truth) <= reach

    def relative_error(self, episodes: int) -> float:
        """Root mean square of (measured - truth) in units of one pair's spread: 1 / sqrt(m) if all is well."""
        spread = np.std(self.update - self.hold, axis=1, ddof=1)
        return float(np.sqrt(np.mean(((self.measured(episodes) - self.truth) / spread) ** 2)))

    def gain(self) -> float:
        """What common random numbers buy: the factor by which m would have to grow without them."""
        apart = np.var(self.hold, axis=1, ddof=1) + np.var(self.update, axis=1, ddof=1)
        return float(np.mean(apart) / np.mean(np.var(self.update - self.hold, axis=1, ddof=1)))


def calibrate(context: Context, *, progress: Progress = silent) -> Calibration:
    """Label every fork of a linear-quadratic registration and compute the true dR of each."""
    registration = context.registration
    streams: dict[Cell, Stream] = {}
    batches, blocks = stream_batches(registration), fork_blocks(registration, shared=False)
    for number, batch in enumerate(batches, start=1):
        streams.update(zip(batch, run_streams(context, batch), strict=True))
        progress("streams", number, len(batches))
    forks = []
    for number, block in enumerate(blocks, start=1):
        labelled = label(context, [Fork(cell, k, streams[cell]) for cell, k in block])
        cell = block[0][0]
        agent = context.agent(cell.task, registration.arm(cell.arm))
        if not isinstance(agent, LinearQuadratic):
            raise WorldforkError(f"Only the linear-quadratic world has a closed form; {cell.id} is another.")
        updated = agent.gain(labelled.updated)
        for (cell, k), row, gain in zip(block, labelled.rows, updated, strict=True):
            frozen = agent.gain(context.checkpoint(cell.task, cell.checkpoint).parameters)[0]
            truth = _expected(context, cell, k, gain) - _expected(context, cell, k, frozen)
            forks.append((cell.id, k, truth, row.hold, row.update))
        progress("forks", number, len(blocks))
    cells, ks, truths, hold, update = zip(*forks, strict=True)
    # A return that is not finite is null in a row: here it becomes NaN, and its fork is not covered.
    returns = [np.array(branch, dtype=np.float64) for branch in (hold, update)]
    return Calibration(list(cells), np.array(ks), np.array(truths), *returns)


def _expected(context: Context, cell: Cell, k: int, gain: Float64[np.ndarray, " 2"]) -> float:
    """The expected return of a gain at fork k of the cell, by the closed form."""
    arm, world = context.registration.arm(cell.arm), context.environment(cell.task)
    assert isinstance(world, World)
    schedule = context.schedule(cell)
    levels = evaluation_levels(
        schedule,
        k * world.episode_steps * world.action_repeat,
        control_steps=world.episode_steps,
        action_repeat=world.action_repeat,
        mode=arm.evaluation.mode,
    )
    return expected_return(
        world.matrices, gain[None], levels=schedule.felt(levels), action_noise=arm.stream.action_noise
    )
