"""From a block of forks to ledger rows: update, evaluate, and say what was seen before and what followed."""

import dataclasses
import time
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Arrays
from worldfork.lab.episodes import Record, Rolled
from worldfork.lab.forks import pairs
from worldfork.lab.forks.bench import Bench
from worldfork.lab.forks.pairs import Fork
from worldfork.lab.mechanisms.base import Update
from worldfork.lab.stream import Recording, StreamLog, signals
from worldfork.ledger.row import Counts, Digests, FitRecord, ForkRow, finite, mean
from worldfork.randomness import Purpose
from worldfork.registration import Cell

__all__ = ["Evaluated", "Labelled", "Place", "evaluate", "label"]


@dataclasses.dataclass(frozen=True)
class Place:
    """One fork of one cell, with its stream; `held` is the row of the cell that HOLD is shared with, if any."""

    cell: Cell
    k: int
    log: StreamLog
    recording: Recording
    digests: tuple[str, str]  # of stream.parquet and window.npz
    held: ForkRow | None = None


@dataclasses.dataclass(frozen=True)
class Labelled:
    """The rows of a block, not yet chained, the parameters that UPDATE led to, and the seconds of either part."""

    rows: list[ForkRow]
    updated: Arrays
    spent: dict[str, float]


def label(bench: Bench, places: Sequence[Place]) -> Labelled:
    """Label the forks of one block: one arm, one task, HOLD shared by all of them or by none."""
    arm, size = bench.registration.arm(places[0].cell.arm), bench.registration.execution.forks_per_block
    block = evaluate(bench, places, size=size, episodes=np.arange(arm.evaluation.episodes))
    agent = bench.agent(places[0].cell.task, arm)
    losses = np.concatenate([pairs.validation_loss(agent, part) for part in block.parts])
    branches = _branches(block.rolled)
    rows = []
    for index, place in enumerate(places):
        hold = _held(place.held) if place.held else branches[block.hold + index]
        fit = _fit(block.updates[index // size], index % size)
        rows.append(_row(bench, place, hold, branches[index], fit, float(losses[index])))
    return Labelled(rows, arrays.take(block.updated, np.arange(len(places))), block.spent)


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """A block that was run: set i is UPDATE of fork i, and set `hold` + i its HOLD, unless that is shared."""

    parts: list[list[Fork]]  # the forks, as many at a time as are updated together
    updates: list[Update]
    updated: Arrays
    rolled: Rolled
    hold: int
    spent: dict[str, float]  # seconds by what was done


def evaluate(
    bench: Bench,
    places: Sequence[Place],
    *,
    size: int,
    episodes: Int64[np.ndarray, " E"],
    record: Record | None = None,
) -> Evaluated:
    """Update the forks of one block, `size` at a time, and evaluate both branches (UPDATE alone where HOLD is
    shared) on these episodes."""
    arm = bench.registration.arm(places[0].cell.arm)
    task = places[0].cell.task
    agent, environment, mechanism = bench.agent(task, arm), bench.environment(task), bench.mechanism(arm)
    share = places[0].held is not None
    full = pairs.padded([_fork(bench, place) for place in places], size * (2 if share else 1))
    # Training and validation always see `size` forks at a time, whatever is shared: one shape, one set of digits.
    parts = [full[start : start + size] for start in range(0, len(full), size)]
    began = time.perf_counter()
    updates = [pairs.update(agent, mechanism, part) for part in parts]
    updated = arrays.concatenate([update.parameters for update in updates])
    trained = time.perf_counter()
    frozen = [] if share else [arrays.concatenate([fork.parameters for fork in full])]
    rolled = pairs.evaluate(
        agent,
        environment,
        arrays.concatenate([updated, *frozen]),
        full if share else [*full, *full],
        mode=arm.evaluation.mode,
        episodes=episodes,
        action_noise=arm.stream.action_noise,
        halves=bench.registration.execution.halves,
        record=record,
    )
    spent = {"updates": trained - began, "evaluations": time.perf_counter() - trained}
    return Evaluated(parts, updates, updated, rolled, hold=len(full), spent=spent)


@dataclasses.dataclass(frozen=True)
class _Branch:
    returns: tuple[float | None, ...]
    replaced: int
    unstable: int
    draws: str


def _branches(rolled: Rolled) -> list[_Branch]:
    columns = zip(rolled.returns, rolled.replaced, rolled.unstable, rolled.received.digests(), strict=True)
    return [
        _Branch(finite(returns), int(replaced.sum()), int(unstable.sum()), draws)
        for returns, replaced, unstable, draws in columns
    ]


def _held(row: ForkRow) -> _Branch:
    return _Branch(row.hold, row.nonfinite_actions.hold, row.unstable_episodes.hold, row.draws.hold)


def _fork(bench: Bench, place: Place) -> Fork:
    checkpoint = bench.checkpoint(place.cell.task, place.cell.checkpoint)
    event = place.cell.event(Purpose.INITIAL_STATE, bench.registration.seed).at(fork=place.k)
    schedule = bench.schedule(place.cell)
    return Fork(event, schedule, place.recording, checkpoint.parameters, checkpoint.optimiser)


def _fit(update: Update, index: int) -> FitRecord:
    measured = (update.loss_before, update.loss_after, update.grad_norm, update.param_shift)
    before, after, norm, shift = finite(float(values[index]) for values in measured)
    return FitRecord(
        loss_before=before,
        loss_after=after,
        grad_norm=norm,
        param_shift=shift,
        window=int(update.window[index]),
        non_finite=int(update.non_finite[index]),
    )


def _row(bench: Bench, place: Place, hold: _Branch, update: _Branch, fit: FitRecord, loss: float) -> ForkRow:
    cell, environment = place.cell, bench.environment(place.cell.task)
    step = place.k * environment.episode_steps
    level = float(bench.schedule(cell).level(step * environment.action_repeat))
    clean = bench.checkpoint(cell.task, cell.checkpoint).clean_return
    seen = signals(place.log, place.k, level=level, clean_return=clean, validation_loss=loss)
    r_hold, r_update = mean(hold.returns), mean(update.returns)
    return ForkRow(
        cell=cell.id,
        k=place.k,
        step=step,
        env_step=step * environment.action_repeat,
        level=level,
        rate=float(place.log.rate[step - 1]),
        signals=dict(zip(seen, finite(seen.values()), strict=True)),
        hold=hold.returns,
        update=update.returns,
        r_hold=r_hold,
        r_update=r_update,
        delta=None if r_hold is None or r_update is None else r_update - r_hold,
        fit=fit,
        nonfinite_actions=Counts(hold=hold.replaced, update=update.replaced),
        nonfinite_returns=Counts(hold=hold.returns.count(None), update=update.returns.count(None)),
        unstable_episodes=Counts(hold=hold.unstable, update=update.unstable),
        draws=Digests(hold=hold.draws, update=update.draws),
        stream=place.digests[0],
        window=place.digests[1],
        prev="",
        digest="",
    )
