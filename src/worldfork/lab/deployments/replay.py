"""One episode of a deployment again, beside the same episode of never, from the ledger and the checkpoint alone.

The models that the episode began with are made again: the updates that fired before it are trained on the
transitions that the ledger has. For an agent whose digits depend on its batches the whole batch is rebuilt, on the
kind of machine that made the ledger; else the two deployments alone.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

from worldfork.errors import WorldforkError
from worldfork.lab.deployments.history import Batch, deployment_batches, read_history, read_thresholds
from worldfork.lab.deployments.segment import roll_episode
from worldfork.lab.deployments.state import begin, rebuild, shape_of
from worldfork.lab.deployments.tasks import describe
from worldfork.lab.episodes import Film
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.replay import Branch
from worldfork.ledger.deployments import DeploymentRow
from worldfork.ledger.store import Study
from worldfork.registration import Cell, deployments

__all__ = ["FollowedReplay", "Moment", "find_episode", "replay_episode"]


@dataclasses.dataclass(frozen=True)
class Moment:
    """Which episode of which deployment."""

    policy: str
    cell: Cell
    row: DeploymentRow


@dataclasses.dataclass(frozen=True)
class FollowedReplay:
    """A deployment's episode, and never's."""

    policy: Branch
    never: Branch
    levels: Float64[np.ndarray, " moments"]  # the drift level at each moment
    whole_batch: bool  # whether it ran in the ledger's batch

    @property
    def exact(self) -> bool:
        """Whether both returned what the ledger says, bit for bit."""
        return self.policy.exact and self.never.exact


def find_episode(study: Study, cell: str, *, policy: str, k: int) -> Moment:
    """The episode, or an error that says which ones there are."""
    known = {(name, one.id): one for name, one in deployments(study.registration)}
    if (policy, cell) not in known:
        named = sorted({name for name, _ in known}) or ["none: the registration has no [deployment]"]
        cells = sorted({one for name, one in known if name == policy})
        listed = f"its cells are {', '.join(cells)}" if cells else f"its policies are {', '.join(named)}"
        raise WorldforkError(f"There is no deployment of `{cell}` under `{policy}` in `{study.path}`; {listed}.")
    rows = study.deployment(policy, cell).rows()
    if not 1 <= k <= len(rows):
        raise WorldforkError(f"{cell} under `{policy}` has the episodes 1 to {len(rows)}; k = {k} is none of them.")
    return Moment(policy, known[policy, cell], rows[k - 1])


def replay_episode(
    study: Study,
    context: Context,
    moment: Moment,
    *,
    whole_batch: bool | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> FollowedReplay:
    """Run the episode again, in the ledger's batch or beside never alone (`whole_batch`); by default in the batch
    where that decides whether the digits come out again."""
    place, k = (moment.policy, moment.cell), moment.row.k
    if whole_batch is None:
        sensitive = context.agent(moment.cell.task).shape_sensitive
        there = study.deployment(moment.policy, moment.cell.id).configuration["device"]
        here = next(iter(describe(context).configurations))["device"] if sensitive else there
        whole_batch = sensitive and there == here
    filed = next(batch for batch in deployment_batches(context.registration) if place in batch.sets)
    never = _never(filed, place)
    batch = filed if whole_batch else _alone(place, never)
    shape = shape_of(context, batch, read_thresholds(study))
    if k == 1:
        state = begin(context, shape)
    else:
        rows = {(name, one.id): study.deployment(name, one.id).rows() for name, one in batch.sets}
        history = read_history(study.path, batch, rows, done=k - 1, filed=filed)
        state = rebuild(context, shape, history.streams, history.rows)
    steps = context.environment(moment.cell.task).episode_steps
    sets = [shape.real[batch.sets.index(one)] for one in (place, never)]
    film = Film(sets, episode=0, progress=lambda moment: progress(moment, steps))
    roll_episode(context, shape, state, record=film)
    held = study.deployment(never[0], never[1].id).rows()[k - 1]
    return FollowedReplay(
        policy=Branch(film.physics[0], film.returns[0], moment.row.episode_return),
        never=Branch(film.physics[1], film.returns[1], held.episode_return),
        levels=_levels(context, moment.cell, k),
        whole_batch=whole_batch,
    )


def _never(filed: Batch, place: tuple[str, Cell]) -> tuple[str, Cell]:
    """The same cell under never."""
    wanted = dataclasses.replace(place[1], arm="")
    return next(one for one in filed.sets if one[0] == "never" and dataclasses.replace(one[1], arm="") == wanted)


def _alone(place: tuple[str, Cell], never: tuple[str, Cell]) -> Batch:
    pair = dict.fromkeys((never, place))
    return Batch(tuple(policy for policy, _ in pair), tuple((cell,) for _, cell in pair), size=1)


def _levels(context: Context, cell: Cell, k: int) -> Float64[np.ndarray, " moments"]:
    environment = context.environment(cell.task)
    steps = (k - 1) * environment.episode_steps + np.arange(environment.episode_steps + 1)
    return context.schedule(cell).level(steps * environment.action_repeat)
