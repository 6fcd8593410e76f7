"""One matched episode again, in both branches, from the ledger and the checkpoint alone (paper, "Paired labels").

Results of a shape-sensitive agent depend on the batch shape, so its block is rebuilt as the ledger's run built it:
the same forks, the same padding, all m episodes. On a machine of the kind that made the ledger the episode then
returns what the ledger says, bit for bit. Where that can not be (another device), or where the shape makes no
difference, the pair runs alone, which costs two episodes instead of a block.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float64

from worldfork.errors import WorldforkError
from worldfork.lab.environments.drift import evaluation_levels
from worldfork.lab.episodes import Film
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.label import Fork, evaluate_block, parts_of
from worldfork.lab.forks.plan import Block, fork_blocks, read_stream
from worldfork.lab.forks.tasks import describe
from worldfork.ledger.row import ForkRow
from worldfork.ledger.store import Study
from worldfork.registration import Cell, cells, difference, hold_owner

__all__ = ["Branch", "Pair", "Replay", "find", "notable", "replay"]

# What of cell.json names the run rather than determines its digits.
NAMES = ("schema", "registration")


@dataclasses.dataclass(frozen=True)
class Pair:
    """Which matched episode of a study: `episode` counts from 1, as decision points do."""

    cell: Cell
    row: ForkRow
    episode: int


@dataclasses.dataclass(frozen=True)
class Branch:
    """What one branch did in the episode."""

    physics: Float64[np.ndarray, "moments S"]  # before the first control step and after each
    returns: Float64[np.ndarray, " moments"]  # the return up to each moment
    recorded: float | None  # the episode's return in the ledger

    @property
    def exact(self) -> bool:
        """Whether the episode returned what the ledger says, bit for bit."""
        returned = float(self.returns[-1])
        return self.recorded == (returned if np.isfinite(returned) else None)


@dataclasses.dataclass(frozen=True)
class Replay:
    """Both branches of one matched episode."""

    update: Branch
    hold: Branch
    levels: Float64[np.ndarray, " moments"]  # the drift level at each moment
    whole_block: bool  # whether it ran in the ledger's block
    differences: tuple[str, ...]  # of what determines the digits: there -> here

    @property
    def exact(self) -> bool:
        """Whether both branches returned what the ledger says."""
        return self.update.exact and self.hold.exact


def find(study: Study, cell: str, *, k: int, episode: int) -> Pair:
    """The matched episode, or an error that says which ones there are."""
    known = {one.id: one for one in cells(study.registration)}
    begun = [folder.id for folder in study.cells() if folder.id in known and folder.has_rows()]
    if cell not in begun:
        told = "\n  ".join(begun) or "none: no fork has been written yet"
        raise WorldforkError(f"There are no forks of a cell `{cell}` in `{study.path}`. Its cells:\n  {told}")
    rows = study.cell(cell).rows()
    if not 1 <= k <= len(rows):
        raise WorldforkError(f"{cell} has the decision points 1 to {len(rows)}; k = {k} is not one of them.")
    count = len(rows[k - 1].hold)
    if not 1 <= episode <= count:
        raise WorldforkError(f"A fork of {cell} has the episodes 1 to {count}; {episode} is not one of them.")
    return Pair(known[cell], rows[k - 1], episode)


def notable(study: Study) -> dict[str, Pair]:
    """The most helpful, the most harmful and a median fork of a study, each with the episode whose difference is
    nearest to the fork's dR: the one that shows best what the fork is about."""
    known = {one.id: one for one in cells(study.registration)}
    forks = [
        (row.delta, cell.id, row)
        for cell in study.cells()
        if cell.id in known
        for row in cell.rows()
        if row.delta is not None
    ]
    if not forks:
        raise WorldforkError(f"There is no fork in `{study.path}` yet.")
    forks.sort(key=lambda fork: fork[:2])
    chosen = {"harmful": forks[0], "median": forks[(len(forks) - 1) // 2], "helpful": forks[-1]}
    return {what: Pair(known[cell], row, _typical(row)) for what, (_, cell, row) in chosen.items()}


def _typical(row: ForkRow) -> int:
    differences = [
        math.inf if update is None or hold is None else abs(update - hold - (row.delta or 0.0))
        for update, hold in zip(row.update, row.hold, strict=True)
    ]
    return 1 + differences.index(min(differences))


def replay(
    study: Study,
    context: Context,
    pair: Pair,
    *,
    whole_block: bool | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Replay:
    """Run the pair again, in the ledger's block or alone (`whole_block`); by default in the block where that
    decides whether the digits come out again. `progress` is told control steps: how many are done, of how many."""
    cell, k, row = pair.cell, pair.row.k, pair.row
    there, (here,) = study.cell(cell.id).configuration, describe(context, (cell,)).configurations
    differences = tuple(difference(_digits(there), _digits(here)))
    if whole_block is None:
        sensitive = context.agent(cell.task, context.registration.arm(cell.arm)).shape_sensitive
        whole_block = sensitive and there["device"] == here["device"]
    owner = hold_owner(context.registration)[cell]
    # Each run: where to look for which branches. A shared HOLD was evaluated in its owner's block.
    runs: list[tuple[Cell, tuple[str, ...]]] = [(cell, ("update", "hold"))]
    if whole_block and owner != cell:
        runs = [(cell, ("update",)), (owner, ("hold",))]
    steps = context.environment(cell.task).episode_steps
    recorded = {"update": row.update[pair.episode - 1], "hold": row.hold[pair.episode - 1]}
    branches: dict[str, Branch] = {}
    progress(0, len(runs) * steps)
    for number, (where, names) in enumerate(runs):

        def advance(moment: int, before: int = number * steps) -> None:
            progress(before + moment, len(runs) * steps)

        block: Block = _block(context, where, k) if whole_block else ((where, k),)
        film = _film(
            study, context, block, pair, fork=(where, k), names=names, alone=not whole_block, advance=advance
        )
        for index, name in enumerate(names):
            branches[name] = Branch(film.physics[index], film.returns[index], recorded[name])
    return Replay(**branches, levels=_levels(context, cell, k), whole_block=whole_block, differences=differences)


def _film(
    study: Study,
    context: Context,
    block: Block,
    pair: Pair,
    *,
    fork: tuple[Cell, int],
    names: tuple[str, ...],
    alone: bool,
    advance: Callable[[int], None],
) -> Film:
    """Run a block, or one fork alone, and film the episode in the branches of `fork` that are named."""
    owners = hold_owner(context.registration)
    streams = {cell: read_stream(study, cell) for cell in dict.fromkeys(cell for cell, _ in block)}
    rows = {owner: study.cell(owner.id).rows() for owner in dict.fromkeys(owners[cell] for cell, _ in block)}
    forks = [
        # Alone, a fork evaluates its own HOLD.
        Fork(cell, k, streams[cell], held=None if alone or owners[cell] == cell else rows[owners[cell]][k - 1])
        for cell, k in block
    ]
    index = block.index(fork)
    if fork[0] == pair.cell and forks[index].stream.digests != (pair.row.stream, pair.row.window):
        raise WorldforkError(
            f"The stream of {pair.cell.id} is not the one its rows were made from: `worldfork verify {study.path}` "
            "says where the study was changed."
        )
    size = 1 if alone else context.registration.forks_per_block(fork[0].arm)
    updated = sum(map(len, parts_of(context, forks, size=size)))
    sets = {"update": index, "hold": updated + index}  # where nothing is shared, HOLD follows UPDATE
    every = np.arange(context.registration.arm(fork[0].arm).evaluation.episodes)
    film = Film([sets[name] for name in names], episode=0 if alone else pair.episode - 1, progress=advance)
    episodes = every[[pair.episode - 1]] if alone else every
    evaluate_block(context, forks, size=size, episodes=episodes, record=film)
    return film


def _block(context: Context, cell: Cell, k: int) -> Block:
    """The block in which the ledger's run evaluated this fork."""
    shared = hold_owner(context.registration)[cell] != cell
    return next(block for block in fork_blocks(context.registration, shared=shared) if (cell, k) in block)


def _levels(context: Context, cell: Cell, k: int) -> Float64[np.ndarray, " moments"]:
    """The level at each moment of the evaluation."""
    environment = context.environment(cell.task)
    return evaluation_levels(
        context.schedule(cell),
        k * environment.episode_steps * environment.action_repeat,
        control_steps=environment.episode_steps + 1,
        action_repeat=environment.action_repeat,
        mode=context.registration.arm(cell.arm).evaluation.mode,
    )


def _digits(configuration: Mapping[str, object]) -> dict[str, object]:
    """What of a cell's configuration the digits depend on."""
    return {name: value for name, value in configuration.items() if name not in NAMES}
