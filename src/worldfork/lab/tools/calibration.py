"""The instrument against a known answer: measured dR beside the closed form, fork by fork.

In the linear-quadratic world the expected return of a gain is known, so the true dR of every fork is. The forks are
made by the same functions as any study's; only the answer is computed elsewhere.
"""

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float64, Int64

from worldfork.errors import WorldforkError
from worldfork.lab.agents.linear_quadratic import LinearQuadratic
from worldfork.lab.environments.closed_form import expected_return
from worldfork.lab.environments.linear_quadratic import World
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.jobs import run_streams
from worldfork.lab.forks.label import Fork, fork_levels, rows_of, update_and_evaluate
from worldfork.lab.forks.plan import fork_blocks, stream_batches
from worldfork.lab.stream import Stream
from worldfork.progress import Progress, silent
from worldfork.registration import Cell, Registration, read
from worldfork.registration.library import find

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Forks whose answer is known, and what the instrument said."""

    cell: list[str]
    k: Int64[np.ndarray, " F"]
    truth: Float64[np.ndarray, " F"]  # the closed form
    hold: Float64[np.ndarray, "F m"]  # returns, episodes paired
    update: Float64[np.ndarray, "F m"]

    def measured(self, episodes: int) -> Float64[np.ndarray, " F"]:
        """Return dR from the first `episodes` pairs."""
        return np.mean(self.update[:, :episodes] - self.hold[:, :episodes], axis=1)

    def standard_error(self, episodes: int) -> Float64[np.ndarray, " F"]:
        """Return the standard error of `measured`, from the spread of the pairs."""
        pairs = self.update[:, :episodes] - self.hold[:, :episodes]
        return np.std(pairs, axis=1, ddof=1) / np.sqrt(episodes)

    def covered(self, episodes: int) -> Bool[np.ndarray, " F"]:
        """Return True if the 95% Student-t interval on the paired differences holds the truth."""
        from scipy.stats import t

        reach = t.ppf(0.975, episodes - 1) * self.standard_error(episodes)
        return np.abs(self.measured(episodes) - self.truth) <= reach

    def relative_error(self, episodes: int) -> float:
        """Root mean square of (measured - truth) in units of one pair's spread: 1 / sqrt(m) if all is well."""
        spread = np.std(self.update - self.hold, axis=1, ddof=1)
        return float(np.sqrt(np.mean(((self.measured(episodes) - self.truth) / spread) ** 2)))

    def gain(self) -> float:
        """Return what common random numbers buy: the factor by which m would have to grow without them."""
        apart = np.var(self.hold, axis=1, ddof=1) + np.var(self.update, axis=1, ddof=1)
        return float(np.mean(apart) / np.mean(np.var(self.update - self.hold, axis=1, ddof=1)))

    @property
    def sizes(self) -> list[int]:
        """Numbers of episodes to look at it with, up to all there are."""
        return sorted({m for m in (10, 30, 100, self.hold.shape[1]) if m <= self.hold.shape[1]})

    def figure(self) -> "Figure":
        """Measured against true dR, and the error against m."""
        from matplotlib.figure import Figure

        canvas = Figure(figsize=(9, 4), layout="constrained")
        left, right = canvas.subplots(1, 2)
        m = self.sizes[-1]
        bars = {"yerr": 2 * self.standard_error(m), "fmt": ".", "ms": 3, "lw": 0.5, "alpha": 0.6}
        left.errorbar(self.truth, self.measured(m), **bars)
        ends = [float(self.truth.min()), float(self.truth.max())]
        left.plot(ends, ends, color="black", lw=1)
        left.set(xlabel="closed-form dR", ylabel=f"measured dR, m = {m}", title=f"{len(self.truth)} forks")
        right.loglog(self.sizes, [self.relative_error(size) for size in self.sizes], "o-", label="measured")
        right.loglog(self.sizes, [size**-0.5 for size in self.sizes], color="black", lw=1, label="1 / sqrt(m)")
        right.set(xlabel="episodes per branch, m", ylabel="error, in units of one pair's spread")
        right.legend()
        return canvas


def calibrate(
    registration: Registration | Path | str = "linear-quadratic",
    *,
    forks: int = 240,
    episodes: int = 200,
    progress: Progress = silent,
) -> Calibration:
    """Measure dR where it is known: at least so many forks of a linear-quadratic registration's first arm (as many
    stream seeds as that takes), with so many episodes per branch."""
    registered = registration if isinstance(registration, Registration) else read(find(registration))
    arm, grid = registered.arms[0], registered.grid
    for task in arm.tasks:
        if (registered.tasks[task].environment or task) != "linear_quadratic":
            raise WorldforkError(
                f"Only the linear-quadratic world has a closed form to calibrate against; `{registered.name}` runs "
                f"{task}. Try `linear-quadratic`."
            )
    per_seed = arm.stream.decision_points * len(grid.checkpoints) * len(grid.directions) * len(arm.tasks)
    chosen = arm.model_copy(
        update={
            "stream_seeds": tuple(range(math.ceil(forks / per_seed))),
            "evaluation": arm.evaluation.model_copy(update={"episodes": episodes}),
        }
    )
    return measure(Context(registered.model_copy(update={"arms": (chosen,)}), {}), progress=progress)


def measure(context: Context, *, progress: Progress = silent) -> Calibration:
    """Label every fork of a linear-quadratic registration and compute the true dR of each."""
    registration = context.registration
    streams: dict[Cell, Stream] = {}
    batches, blocks = stream_batches(registration), fork_blocks(registration, shared=False)
    for number, batch in enumerate(batches, start=1):
        streams.update(zip(batch, run_streams(context, batch), strict=True))
        progress("streams", number, len(batches))
    forks = []
    for number, block in enumerate(blocks, start=1):
        together = [Fork(cell, k, streams[cell]) for cell, k in block]
        rolled = update_and_evaluate(context, together)
        cell = block[0][0]
        agent = context.agent(cell.task, registration.arm(cell.arm))
        if not isinstance(agent, LinearQuadratic):
            raise WorldforkError(f"Only the linear-quadratic world has a closed form; {cell.id} is another.")
        updated = agent.gain(rolled.updated)[: len(block)]
        for fork, row, gain in zip(together, rows_of(context, together, rolled), updated, strict=True):
            frozen = agent.gain(context.checkpoint(cell.task, fork.cell.checkpoint).parameters)[0]
            truth = _expected(context, fork, gain) - _expected(context, fork, frozen)
            forks.append((fork.cell.id, fork.k, truth, row.hold, row.update))
        progress("forks", number, len(blocks))
    cells, ks, truths, hold, update = zip(*forks, strict=True)
    # A return that is not finite is null in a row: here it becomes NaN, and its fork is not covered.
    returns = [np.array(branch, dtype=np.float64) for branch in (hold, update)]
    return Calibration(list(cells), np.array(ks), np.array(truths), *returns)


def _expected(context: Context, fork: Fork, gain: Float64[np.ndarray, " 2"]) -> float:
    """Return the expected return of a gain in the evaluations of a fork, by the closed form."""
    noise, world = context.registration.arm(fork.cell.arm).stream.action_noise, context.environment(fork.cell.task)
    assert isinstance(world, World)
    return expected_return(world.matrices, gain[None], levels=fork_levels(context, fork), action_noise=noise)
