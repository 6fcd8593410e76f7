"""Replay of one episode of a study beside its counterpart, from the ledger and the checkpoints alone.

A pair is a matched episode of a fork, in both branches (paper, "Paired labels"); a deployed episode is one of a
closed-loop deployment, beside the same episode under `never`. For the latter the models that the episode began with
are made again: the updates that fired before it are trained on the transitions that the ledger has.

Results of a shape-sensitive agent depend on the batch shape, so its block or batch is rebuilt as the ledger's run
built it: the same forks, the same padding, all episodes. On a machine of the kind that made the ledger the episode
then returns what the ledger says, bit for bit. On another device, or where the shape makes no difference, the two
run alone, which costs two episodes instead of a block.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

from worldfork.errors import WorldforkError
from worldfork.lab.closed_loop.batches import Batch, deployment_batches, read_history, read_thresholds
from worldfork.lab.closed_loop.jobs import describe_deployments
from worldfork.lab.closed_loop.segment import roll_episode
from worldfork.lab.closed_loop.state import begin, rebuild, shape_of
from worldfork.lab.environments.drift import evaluation_levels
from worldfork.lab.episode_log import Film
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.jobs import describe
from worldfork.lab.forks.label import Fork, parts_of, update_and_evaluate
from worldfork.lab.forks.plan import Block, fork_blocks, stored_stream
from worldfork.ledger.closed_loop import DeploymentRow
from worldfork.ledger.row import ForkRow
from worldfork.ledger.store import Study
from worldfork.progress import Progress, silent
from worldfork.registration import Cell, cells, deployments, difference, hold_owner

NAMES = ("schema", "registration")  # fields of cell.json that name the run and do not determine its digits


@dataclasses.dataclass(frozen=True)
class Pair:
    """A matched episode of a study: `episode` counts from 1, as decision points do."""

    cell: Cell
    row: ForkRow
    episode: int


@dataclasses.dataclass(frozen=True)
class DeployedEpisode:
    """An episode of a closed-loop deployment."""

    policy: str
    cell: Cell
    row: DeploymentRow


@dataclasses.dataclass(frozen=True)
class Branch:
    """Physics and returns of one of the two episodes."""

    physics: Float64[np.ndarray, "moments S"]  # before the first control step and after each
    returns: Float64[np.ndarray, " moments"]  # the return up to each moment
    recorded: float | None  # the episode's return in the ledger

    @property
    def exact(self) -> bool:
        """True if the episode returned what the ledger says, bit for bit."""
        returned = float(self.returns[-1])
        return self.recorded == (returned if np.isfinite(returned) else None)


@dataclasses.dataclass(frozen=True)
class Replay:
    """An episode and its counterpart."""

    branches: dict[str, Branch]  # by name: update and hold, or the policy's name and never
    levels: Float64[np.ndarray, " moments"]  # the drift level at each moment
    whole_block: bool  # True if it ran in the ledger's block or batch
    differences: tuple[str, ...] = ()  # in what determines the digits: in the ledger -> here

    @property
    def update(self) -> Branch:
        return self.branches["update"]

    @property
    def hold(self) -> Branch:
        return self.branches["hold"]

    @property
    def exact(self) -> bool:
        """True if both returned what the ledger says, bit for bit."""
        return all(branch.exact for branch in self.branches.values())


def find_pair(study: Study, cell: str, *, k: int, episode: int) -> Pair:
    """Return the matched episode, or raise an error that lists those there are."""
    registered = {cell.id: cell for cell in cells(study.registration)}
    begun = [folder.id for folder in study.cells() if folder.id in registered and folder.has_rows()]
    if cell not in begun:
        listed = "\n  ".join(begun) or "none: no fork has been written yet"
        raise WorldforkError(f"There are no forks of a cell `{cell}` in `{study.path}`. Its cells:\n  {listed}")
    rows = study.cell(cell).rows()
    if not 1 <= k <= len(rows):
        raise WorldforkError(f"{cell} has the decision points 1 to {len(rows)}; k = {k} is not one of them.")
    count = len(rows[k - 1].hold)
    if not 1 <= episode <= count:
        raise WorldforkError(f"A fork of {cell} has the episodes 1 to {count}; {episode} is not one of them.")
    return Pair(registered[cell], rows[k - 1], episode)


def notable_pairs(study: Study) -> dict[str, Pair]:
    """Return the most helpful, the most harmful and a median fork of a study.

    Each is shown by the episode whose difference is nearest to the fork's dR.
    """
    registered = {cell.id: cell for cell in cells(study.registration)}
    forks = [
        (row.delta, cell.id, row)
        for cell in study.cells()
        if cell.id in registered
        for row in cell.rows()
        if row.delta is not None
    ]
    if not forks:
        raise WorldforkError(f"There is no fork in `{study.path}` yet.")
    forks.sort(key=lambda fork: fork[:2])
    chosen = {"harmful": forks[0], "median": forks[(len(forks) - 1) // 2], "helpful": forks[-1]}
    return {what: Pair(registered[cell], row, _typical(row)) for what, (_, cell, row) in chosen.items()}


def _typical(row: ForkRow) -> int:
    differences = [
        math.inf if update is None or hold is None else abs(update - hold - (row.delta or 0.0))
        for update, hold in zip(row.update, row.hold, strict=True)
    ]
    return 1 + differences.index(min(differences))


def find_deployed(study: Study, cell: str, *, policy: str, k: int) -> DeployedEpisode:
    """Return the episode of a deployment, or raise an error that lists those there are."""
    registered = {(name, cell.id): cell for name, cell in deployments(study.registration)}
    if (policy, cell) not in registered:
        policies = sorted({name for name, _ in registered}) or ["none: the registration has no [deployment]"]
        of_policy = sorted({other for name, other in registered if name == policy})
        listed = f"its cells are {', '.join(of_policy)}" if of_policy else f"its policies are {', '.join(policies)}"
        raise WorldforkError(f"There is no deployment of `{cell}` under `{policy}` in `{study.path}`; {listed}.")
    rows = study.deployment(policy, cell).rows()
    if not 1 <= k <= len(rows):
        raise WorldforkError(f"{cell} under `{policy}` has the episodes 1 to {len(rows)}; k = {k} is none of them.")
    return DeployedEpisode(policy, registered[policy, cell], rows[k - 1])


def replay_pair(
    study: Study,
    context: Context,
    pair: Pair,
    *,
    whole_block: bool | None = None,
    progress: Progress = silent,
) -> Replay:
    """Run the pair again, in the ledger's block or alone (`whole_block`).

    By default it runs in the block where that decides whether the digits come out again.
    """
    cell, k, row = pair.cell, pair.row.k, pair.row
    there, (here,) = study.cell(cell.id).configuration, describe(context, (cell,)).configurations
    written, here_now = ({name: x for name, x in side.items() if name not in NAMES} for side in (there, here))
    differences = tuple(difference(written, here_now))
    if whole_block is None:
        sensitive = context.agent(cell.task, context.registration.arm(cell.arm)).shape_sensitive
        whole_block = sensitive and there["device"] == here["device"]
    owner = hold_owner(context.registration)[cell]
    # Each run: the cell whose block it is, and the branches to film. A shared HOLD ran in its owner's block.
    runs: list[tuple[Cell, tuple[str, ...]]] = [(cell, ("update", "hold"))]
    if whole_block and owner != cell:
        runs = [(cell, ("update",)), (owner, ("hold",))]
    steps = context.environment(cell.task).episode_steps
    recorded = {"update": row.update[pair.episode - 1], "hold": row.hold[pair.episode - 1]}
    branches: dict[str, Branch] = {}
    progress("steps", 0, len(runs) * steps)
    for number, (where, names) in enumerate(runs):

        def advance(moment: int, before: int = number * steps) -> None:
            progress("steps", before + moment, len(runs) * steps)

        film = _film(study, context, pair, where, names=names, alone=not whole_block, advance=advance)
        for index, name in enumerate(names):
            branches[name] = Branch(film.physics[index], film.returns[index], recorded[name])
    environment = context.environment(cell.task)
    levels = evaluation_levels(
        context.schedule(cell),
        k * environment.episode_steps * environment.action_repeat,
        control_steps=environment.episode_steps + 1,
        action_repeat=environment.action_repeat,
        mode=context.registration.arm(cell.arm).evaluation.mode,
    )
    return Replay(branches, levels=levels, whole_block=whole_block, differences=differences)


def _film(
    study: Study,
    context: Context,
    pair: Pair,
    where: Cell,
    *,
    names: tuple[str, ...],
    alone: bool,
    advance: Callable[[int], None],
) -> Film:
    """Run the ledger's block of this fork of the cell `where`, or the fork alone, and film the named branches."""
    owners, fork = hold_owner(context.registration), (where, pair.row.k)
    block: Block = (fork,)
    if not alone:
        blocks = fork_blocks(context.registration, shared=owners[where] != where)
        block = next(block for block in blocks if fork in block)
    streams = {cell: stored_stream(study, cell) for cell in dict.fromkeys(cell for cell, _ in block)}
    rows = {owner: study.cell(owner.id).rows() for owner in dict.fromkeys(owners[cell] for cell, _ in block)}
    forks = [
        # Alone, a fork evaluates its own HOLD.
        Fork(cell, k, streams[cell], held=None if alone or owners[cell] == cell else rows[owners[cell]][k - 1])
        for cell, k in block
    ]
    index = block.index(fork)
    if where == pair.cell and forks[index].stream.digests != (pair.row.stream, pair.row.window):
        raise WorldforkError(
            f"The stream of {pair.cell.id} is not the one its rows were made from: `worldfork verify {study.path}` "
            "says where the study was changed."
        )
    size = 1 if alone else context.registration.forks_per_block(where.arm)
    updated = sum(map(len, parts_of(context, forks, size=size)))
    sets = {"update": index, "hold": updated + index}  # where nothing is shared, HOLD follows UPDATE
    every = np.arange(context.registration.arm(where.arm).evaluation.episodes)
    film = Film([sets[name] for name in names], episode=0 if alone else pair.episode - 1, progress=advance)
    episodes = every[[pair.episode - 1]] if alone else every
    update_and_evaluate(context, forks, size=size, episodes=episodes, record=film)
    return film


def replay_deployed(
    study: Study,
    context: Context,
    episode: DeployedEpisode,
    *,
    whole_block: bool | None = None,
    progress: Progress = silent,
) -> Replay:
    """Run the deployed episode again, in the ledger's batch or beside `never` alone (`whole_block`).

    By default it runs in the batch where that decides whether the digits come out again.
    """
    place, k = (episode.policy, episode.cell), episode.row.k
    if whole_block is None:
        sensitive = context.agent(episode.cell.task).shape_sensitive
        there = study.deployment(episode.policy, episode.cell.id).configuration["device"]
        here = describe_deployments(context).configurations[0]["device"] if sensitive else there
        whole_block = sensitive and there == here
    filed = next(batch for batch in deployment_batches(context.registration) if place in batch.sets)
    wanted = dataclasses.replace(episode.cell, arm="")  # policies may train in arms of their own
    never = next(
        (policy, cell)
        for policy, cell in filed.sets
        if policy == "never" and dataclasses.replace(cell, arm="") == wanted
    )
    both = dict.fromkeys((never, place))
    alone = Batch(tuple(policy for policy, _ in both), tuple((cell,) for _, cell in both), size=1)
    batch = filed if whole_block else alone
    shape = shape_of(context, batch, read_thresholds(study))
    if k == 1:
        state = begin(shape)
    else:
        rows = {(name, cell.id): study.deployment(name, cell.id).rows() for name, cell in batch.sets}
        history = read_history(study.path, batch, rows, done=k - 1, filed=filed)
        state = rebuild(shape, history.streams, history.rows)
    environment = context.environment(episode.cell.task)
    sets = [shape.real[batch.sets.index(deployment)] for deployment in (place, never)]
    film = Film(sets, episode=0, progress=lambda moment: progress("steps", moment, environment.episode_steps))
    roll_episode(shape, state, record=film)
    held = study.deployment(never[0], never[1].id).rows()[k - 1]
    moments = (k - 1) * environment.episode_steps + np.arange(environment.episode_steps + 1)
    return Replay(
        {
            episode.policy: Branch(film.physics[0], film.returns[0], episode.row.episode_return),
            "never": Branch(film.physics[1], film.returns[1], held.episode_return),
        },
        levels=context.schedule(episode.cell).level(moments * environment.action_repeat),
        whole_block=whole_block,
    )
