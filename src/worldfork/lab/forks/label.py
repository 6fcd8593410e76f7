"""Stage 2, paired labels (paper, "Paired labels"): a block of forks is updated, evaluated, and becomes ledger rows.

A block evaluates 2F parameter sets: UPDATE and HOLD of F forks, or, where the HOLD branch is already in the ledger
because another arm shares it, UPDATE of 2F forks. For an agent whose digits depend on the shape, what is missing to
a full block is padded with the last fork: one shape, one set of digits.
"""

import dataclasses
import time
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64

from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Arrays, needs_full_blocks
from worldfork.lab.environments.drift import evaluation_levels
from worldfork.lab.episode_log import Rolled
from worldfork.lab.episodes import Draws, Record, roll_out
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.plan import StoredStream
from worldfork.lab.mechanisms.base import Origin, Update, within_window
from worldfork.lab.signals import Episode, read_signal
from worldfork.lab.stream import LOGGED, Stream, logged, segment, window
from worldfork.ledger.row import Counts, Digests, FitRecord, ForkRow, finite, gain, mean
from worldfork.randomness import Purpose, words
from worldfork.registration import Cell


@dataclasses.dataclass(frozen=True)
class Fork:
    """A decision point of a cell; `held` is the row of the cell that HOLD is shared with, if any."""

    cell: Cell
    k: int
    stream: Stream | StoredStream
    held: ForkRow | None = None


@dataclasses.dataclass(frozen=True)
class Branch:
    """The outcome of one side of a fork."""

    returns: tuple[float | None, ...]
    replaced: int  # actions that were not finite
    unstable: int  # episodes in which the simulator warned
    draws: str


@dataclasses.dataclass(frozen=True)
class RolledBlock:
    """A block that was updated and rolled out.

    Parameter set i is fork i's UPDATE, and set `first_hold` + i its HOLD. Where HOLD comes from the rows of another
    arm there are no such sets.
    """

    updates: list[Update]  # of `size` forks each
    size: int
    updated: Arrays  # the parameters that UPDATE led to
    rolled: Rolled
    first_hold: int
    seconds: dict[str, float]  # spent on updates and on evaluations


def branches_of(rolled: Rolled) -> list[Branch]:
    """Return every parameter set's outcome."""
    columns = zip(rolled.returns, rolled.replaced, rolled.unstable, rolled.received.digests(), strict=True)
    return [
        Branch(finite(returns), int(replaced.sum()), int(unstable.sum()), draws)
        for returns, replaced, unstable, draws in columns
    ]


def label(context: Context, forks: Sequence[Fork]) -> tuple[list[ForkRow], dict[str, float]]:
    """Train the UPDATE branches of one block, evaluate it, and return its rows and the seconds by kind of work.

    The rows are in the order of the block and not yet chained. Its forks are of one arm and one task, and HOLD
    is shared by all of them or by none.
    """
    block = update_and_evaluate(context, forks)
    return rows_of(context, forks, block), block.seconds


def rows_of(context: Context, forks: Sequence[Fork], block: RolledBlock) -> list[ForkRow]:
    """Return the rows of a rolled-out block, in its order and not yet chained."""
    branches, size = branches_of(block.rolled), block.size
    losses = np.concatenate([validation_losses(context, part) for part in parts_of(context, forks, size=size)])
    rows = []
    for index, fork in enumerate(forks):
        hold = _held(fork.held) if fork.held else branches[block.first_hold + index]
        fit = fit_record(block.updates[index // size], index % size)
        loss = float(losses[index])
        rows.append(_row(context, fork, hold=hold, update=branches[index], fit=fit, validation_loss=loss))
    return rows


def update_and_evaluate(
    context: Context,
    forks: Sequence[Fork],
    *,
    size: int | None = None,
    episodes: Int64[np.ndarray, " E"] | None = None,
    record: Record | None = None,
) -> RolledBlock:
    """Update the forks, `size` at a time, and evaluate both branches, or UPDATE alone where HOLD is shared.

    `size` and `episodes` (from 0) are as registered unless they are given.
    """
    arm = context.registration.arm(forks[0].cell.arm)
    size = context.registration.forks_per_block(arm.name) if size is None else size
    episodes = np.arange(arm.evaluation.episodes) if episodes is None else episodes
    share = forks[0].held is not None
    parts = parts_of(context, forks, size=size)
    full = [fork for part in parts for fork in part]
    began = time.perf_counter()
    updates = [update_forks(context, part) for part in parts]
    updated = arrays.concatenate([update.parameters for update in updates])
    trained = time.perf_counter()
    # Which branch a parameter set is enters nowhere: both receive the draws of their fork.
    evaluated = full if share else [*full, *full]
    parameters = arrays.concatenate([updated, *([] if share else [_parameters(context, full)])])
    rolled = roll_forks(context, evaluated, parameters, episodes=episodes, record=record)
    seconds = {"updates": trained - began, "evaluations": time.perf_counter() - trained}
    return RolledBlock(updates, size, updated, rolled, first_hold=len(full), seconds=seconds)


def roll_forks(
    context: Context,
    forks: Sequence[Fork],
    parameters: Arrays,
    *,
    episodes: Int64[np.ndarray, " E"],
    record: Record | None = None,
) -> Rolled:
    """Roll out these episodes of forks of one arm and one task, each with its own parameter set."""
    arm, task = context.registration.arm(forks[0].cell.arm), forks[0].cell.task
    seed = context.registration.seed
    return roll_out(
        context.agent(task, arm),
        context.environment(task),
        parameters,
        Draws.of([fork.cell.event(Purpose.INITIAL_STATE, seed).at(fork=fork.k) for fork in forks], episodes),
        levels=np.stack([fork_levels(context, fork) for fork in forks]),
        action_noise=arm.stream.action_noise,
        halves=context.registration.execution.halves,
        record=record,
        after_end=context.after_end(task) or "reset",
    )


def parts_of(context: Context, forks: Sequence[Fork], *, size: int) -> list[list[Fork]]:
    """Return the forks of a block in parts that are trained and validated together, at most `size` in each.

    Where the agent needs full blocks, the last fork fills this one up: `size` forks, or twice as many where HOLD is
    shared.
    """
    agent = context.agent(forks[0].cell.task, context.registration.arm(forks[0].cell.arm))
    full = list(forks)
    if needs_full_blocks(agent):
        share = forks[0].held is not None
        full += [forks[-1]] * (size * (2 if share else 1) - len(forks))
    return [full[start : start + size] for start in range(0, len(full), size)]


def update_forks(
    context: Context, forks: Sequence[Fork], *, parameters: Arrays | None = None, optimiser: Arrays | None = None
) -> Update:
    """Run the mechanism on each fork's window; its minibatches are the only draws that HOLD has no part in.

    Parameters and optimiser are the checkpoints' unless they are given.
    """
    arm, task = context.registration.arm(forks[0].cell.arm), forks[0].cell.task
    seed, mechanism = context.registration.seed, context.mechanism(arm)
    checkpoints = [context.checkpoint(task, fork.cell.checkpoint) for fork in forks]
    origin = Origin.of(checkpoints, replay=mechanism.reads_replay)
    update = mechanism.update(
        context.agent(task, arm),
        origin.parameters if parameters is None else parameters,
        optimiser=origin.optimiser if optimiser is None else optimiser,
        origin=origin,
        window=window([fork.stream.recording for fork in forks], [fork.k for fork in forks]),
        batch_keys=np.stack([words(fork.cell.update_event(seed).at(fork=fork.k)) for fork in forks]),
    )
    return within_window(mechanism, update)


def validation_losses(context: Context, forks: Sequence[Fork]) -> Float64[np.ndarray, " F"]:
    """Return the frozen model's training loss on the episode before each fork: all of it is held out."""
    agent = context.agent(forks[0].cell.task, context.registration.arm(forks[0].cell.arm))
    episodes = segment([fork.stream.recording for fork in forks], [fork.k for fork in forks])
    return np.asarray(agent.loss(_parameters(context, forks), episodes), np.float64)


def _parameters(context: Context, forks: Sequence[Fork]) -> Arrays:
    return arrays.concatenate([context.checkpoint(f.cell.task, f.cell.checkpoint).parameters for f in forks])


def fork_levels(context: Context, fork: Fork) -> Float64[np.ndarray, " T"]:
    """Return the level that the world is set to at each step of a fork's evaluations."""
    environment, schedule = context.environment(fork.cell.task), context.schedule(fork.cell)
    levels = evaluation_levels(
        schedule,
        fork.k * environment.episode_steps * environment.action_repeat,
        control_steps=environment.episode_steps,
        action_repeat=environment.action_repeat,
        mode=context.registration.arm(fork.cell.arm).evaluation.mode,
    )
    return schedule.felt(levels)


def _held(row: ForkRow) -> Branch:
    return Branch(row.hold, row.nonfinite_actions.hold, row.unstable_episodes.hold, row.draws.hold)


def fit_record(update: Update, index: int) -> FitRecord:
    """Return what the mechanism did to parameter set `index`, as a ledger records it."""
    measured = (update.loss_before, update.loss_after, update.grad_norm, update.param_shift)
    before, after, norm, shift = finite(float(values[index]) for values in measured)
    return FitRecord(
        loss_before=before,
        loss_after=after,
        grad_norm=norm,
        param_shift=shift,
        window=int(update.transitions[index]),
        non_finite=int(update.non_finite[index]),
    )


def read_signals(context: Context, fork: Fork, *, level: float, validation_loss: float) -> dict[str, float | None]:
    """Return every registered signal on the episode before a fork."""
    steps = logged(fork.stream.log, fork.k)
    episode = Episode(
        k=fork.k,
        steps={name: values for name, values in steps.items() if name == "reward" or name not in LOGGED},
        level=level,
        clean_return=context.checkpoint(fork.cell.task, fork.cell.checkpoint).clean_return,
        validation_loss=validation_loss,
    )
    with np.errstate(over="ignore", invalid="ignore"):
        values = {name: read_signal(name, signal, episode) for name, signal in context.signals.items()}
    return dict(zip(values, finite(values.values()), strict=True))


def _row(
    context: Context, fork: Fork, *, hold: Branch, update: Branch, fit: FitRecord, validation_loss: float
) -> ForkRow:
    cell, environment = fork.cell, context.environment(fork.cell.task)
    step = fork.k * environment.episode_steps
    level = float(context.schedule(cell).level(step * environment.action_repeat))
    r_hold, r_update = mean(hold.returns), mean(update.returns)
    stream, recording = fork.stream.digests
    return ForkRow(
        cell=cell.id,
        k=fork.k,
        step=step,
        env_step=step * environment.action_repeat,
        level=level,
        rate=float(fork.stream.log["rate"][step - 1]),
        signals=read_signals(context, fork, level=level, validation_loss=validation_loss),
        hold=hold.returns,
        update=update.returns,
        r_hold=r_hold,
        r_update=r_update,
        delta=gain(r_hold, r_update),
        fit=fit,
        nonfinite_actions=Counts(hold=hold.replaced, update=update.replaced),
        nonfinite_returns=Counts(hold=hold.returns.count(None), update=update.returns.count(None)),
        unstable_episodes=Counts(hold=hold.unstable, update=update.unstable),
        draws=Digests(hold=hold.draws, update=update.draws),
        stream=stream,
        window=recording,
        prev="",
        digest="",
    )
