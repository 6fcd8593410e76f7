"""A study's deployments as arrays: what every policy returned, fired and spent, episode by episode."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.analysis.read.outcomes import require_scorable
from worldfork.ledger.closed_loop import DeploymentRow
from worldfork.ledger.store import Study
from worldfork.registration import Cell, deployments
from worldfork.triggers import CellKey


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deployed:
    """A task under every policy. Axes: policies, cells, episodes; evaluations also points and their episodes.

    Cells have the episodes that all policies have: in a study that is still running some have fewer, and what is
    missing is NaN. A return that is not finite counts as a failure does.
    """

    task: str
    policies: tuple[str, ...]
    arms: Mapping[str, str]  # whose mechanism each policy fires
    cells: tuple[CellKey, ...]
    draws: tuple[int, ...]  # of each cell's updates
    returns: Float[np.ndarray, "policies cells episodes"]
    fired: Bool[np.ndarray, "policies cells episodes"]
    steps: Int[np.ndarray, "policies cells episodes"]  # gradient steps
    points: tuple[int, ...]  # decision points at which models were evaluated
    evaluations: Float[np.ndarray, "policies cells points m"]
    failed: Bool[np.ndarray, "policies cells"]  # some return of it was not finite


def read_deployments(study: Study) -> dict[str, Deployed]:
    """Return every task that has a deployment, or nothing where none is registered or begun."""
    registered = study.registration.deployment
    rows = deployment_rows(study)
    tasks = dict.fromkeys(cell.task for _, cell in rows)
    return {} if registered is None else {task: _task(study, task, rows) for task in tasks}


def deployment_rows(study: Study) -> dict[tuple[str, Cell], list[DeploymentRow]]:
    """Return the rows of every policy on every cell that has begun."""
    return {
        (policy, cell): in_order
        for policy, cell in deployments(study.registration)
        if (in_order := study.deployment(policy, cell.id).rows())
    }


def _task(study: Study, task: str, rows: Mapping[tuple[str, Cell], list[DeploymentRow]]) -> Deployed:
    registration = study.registration
    registered = registration.deployment
    assert registered is not None
    mine = {place: in_order for place, in_order in rows.items() if place[1].task == task}
    names = tuple(name for name in registered.every() if any(policy == name for policy, _ in mine))
    by_place = {(policy, _place(cell)): in_order for (policy, cell), in_order in mine.items()}
    common = list(dict.fromkeys(_place(cell) for _, cell in mine))
    places = [place for place in common if all((name, place) in by_place for name in names)]
    points = registration.arm(next(iter(mine))[1].arm).stream.decision_points
    shape = (len(names), len(places), points)
    returns, fired = np.full(shape, np.nan), np.zeros(shape, bool)
    steps, failed = np.zeros(shape, np.int64), np.zeros(shape[:2], bool)
    evaluations = np.full((*shape[:2], len(registered.evaluate_at), registered.episodes), np.nan)
    failure = _failure(registration.scoring.failure_return, mine)
    for j, place in enumerate(places):
        count = min(len(by_place[name, place]) for name in names)
        for i, name in enumerate(names):
            for row in by_place[name, place][:count]:
                where = f"{row.cell} under `{name}`, episode {row.k}"
                require_scorable((row.episode_return, *(row.evaluation or ())), where=where)
                value = row.episode_return
                returns[i, j, row.k - 1] = failure if value is None else value
                fired[i, j, row.k - 1], steps[i, j, row.k - 1] = row.fired, row.gradient_steps
                failed[i, j] |= None in (value, *(row.evaluation or ()))
                if row.evaluation is not None:
                    found = [failure if value is None else value for value in row.evaluation]
                    evaluations[i, j, registered.evaluate_at.index(row.k)] = found
    return Deployed(
        task=task,
        policies=names,
        arms={policy: cell.arm for policy, cell in mine},
        cells=tuple(key for key, _ in places),
        draws=tuple(draw for _, draw in places),
        returns=returns,
        fired=fired,
        steps=steps,
        points=registered.evaluate_at,
        evaluations=evaluations,
        failed=failed,
    )


def _place(cell: Cell) -> tuple[CellKey, int]:
    return CellKey(str(cell.checkpoint), cell.direction, cell.stream_seed), cell.update_seed


def _failure(registered: float | None, rows: Mapping[tuple[str, Cell], list[DeploymentRow]]) -> float:
    """Return what a return that is not finite counts as: as registered, or else 0, or the lowest return where some
    are below 0."""
    if registered is not None:
        return registered
    found = [
        value
        for in_order in rows.values()
        for row in in_order
        for value in (row.episode_return, *(row.evaluation or ()))
        if value is not None
    ]
    return min([0.0, *found])
