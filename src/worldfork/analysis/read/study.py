"""A study's own rows and deployments as arrays, and no data frame: whatever needs no more needs no polars.

Rows come out of `ledger.store` checked against their digests and against the one before; nothing here checks them
again. A branch with a return that is not finite has failed: it counts as what the registration says, and is listed.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.analysis.read.outcomes import Draw, Forks, ForkTable, over_draws, require_scorable
from worldfork.analysis.read.prefork import Prefork, StreamLog
from worldfork.errors import WorldforkError
from worldfork.ledger.arrays import parquet_columns, read_bytes
from worldfork.ledger.closed_loop import DeploymentRow, cell_key
from worldfork.ledger.documents import read_json
from worldfork.ledger.publish import STREAMS, Answers, left_out, ran_by, read_answers
from worldfork.ledger.row import ForkRow, Rows
from worldfork.ledger.store import Study
from worldfork.registration import Cell, Registration, cells, deployments
from worldfork.registration.schema import Mechanism
from worldfork.triggers import Answer, Asked, CellKey


def read_rows(study: Study) -> Rows:
    """Return every registered cell with the rows it has so far."""
    rows = {cell: study.cell(cell.id).rows() for cell in cells(study.registration)}
    if not any(rows.values()):
        raise WorldforkError(f"`{study.path}` has no forks yet. Run the study first.")
    return rows


def _require_scorable(registration: Registration, rows: Rows) -> None:
    require_scorable([registration.scoring.failure_return], where="[scoring] failure_return")
    for cell, in_order in rows.items():
        for row in in_order:
            require_scorable((*row.hold, *row.update), where=f"{cell.id}, fork {row.k}")


def study_table(study: Study, rows: Rows) -> ForkTable:
    """Return the forks by arm and task, in the order registered: doses ascend as their author wrote them."""
    registration = study.registration
    _require_scorable(registration, rows)
    signals = list(dict.fromkeys(name for in_order in rows.values() for row in in_order for name in row.signals))
    arms: dict[str, dict[str, Forks]] = {}
    logs: dict[str, StreamLog] = {}
    answers = _stored_answers(study, rows)
    failures = failure_returns(registration, rows)
    for arm in registration.arms:
        for task in arm.tasks:
            group = {cell: in_order for cell, in_order in rows.items() if (cell.arm, cell.task) == (arm.name, task)}
            forks = _forks(study, group, signals, logs=logs, answers=answers, failure=failures.get(task, 0.0))
            if forks is not None:
                forks = dataclasses.replace(forks, gradient_steps=_gradient_steps(arm.mechanism))
                arms.setdefault(arm.name, {})[task] = forks
    failed = tuple(
        _failed(cell, row, failures[cell.task])
        for cell, in_order in rows.items()
        for row in in_order
        if None in (row.r_hold, row.r_update)
    )
    return ForkTable(arms, failed=failed)


def _gradient_steps(mechanism: Mechanism) -> int | None:
    """Return N of one update; None where it follows the window, a number of passes over it."""
    in_passes = mechanism.settings.get("passes") is not None and mechanism.steps > 0
    return None if in_passes else mechanism.steps


def failure_returns(registration: Registration, rows: Rows) -> dict[str, float]:
    """Return the value of a branch without a finite return, by task."""
    returns: dict[str, list[float | None]] = {}
    for cell, in_order in rows.items():
        for row in in_order:
            returns.setdefault(cell.task, []).extend((*row.hold, *row.update))
    return {task: _failure_return(registration, of_task) for task, of_task in returns.items()}


def _failure_return(registration: Registration, returns: Iterable[float | None]) -> float:
    """Return the value of a return that is not finite: as registered, or else 0, or the lowest return of all
    where some are below 0, so that failing is never the best that could happen."""
    registered = registration.scoring.failure_return
    return min([0.0, *(value for value in returns if value is not None)]) if registered is None else registered


def _forks(
    study: Study,
    rows: Rows,
    signals: Sequence[str],
    *,
    logs: dict[str, StreamLog],
    answers: Answers | None,
    failure: float,
) -> Forks | None:
    """Return the forks of one arm and task, cells in order of their keys; None where there are none yet.

    Cells that differ in the draw of their updates alone are one deployment, and their forks one fork: what an
    update was worth is its mean over draws.
    """
    draws: dict[CellKey, list[Cell]] = {}
    for cell in sorted(rows, key=lambda cell: cell.update_seed):
        draws.setdefault(cell_key(cell), []).append(cell)
    scored = [
        (key, drawn) for key in sorted(draws) for drawn in zip(*(rows[cell] for cell in draws[key]), strict=False)
    ]
    keys = list(dict.fromkeys(key for key, _ in scored))
    number = {key: index for index, key in enumerate(keys)}
    if not keys:
        return None
    first = [drawn[0] for _, drawn in scored]
    streams = tuple(_stream(study, draws[key][0], logs) for key in keys)
    return Forks(
        prefork=Prefork(
            task=next(iter(rows)).task,
            cells=tuple(keys),
            cell=np.array([number[key] for key, _ in scored], dtype=np.int64),
            k=np.array([row.k for row in first], dtype=np.int64),
            level=_floats([row.level for row in first]),
            signals={name: _floats([row.signals.get(name) for row in first]) for name in signals},
            step=np.array([row.step for row in first], dtype=np.int64),
            streams=streams if any(stream is not None for stream in streams) else (),
            answers=_answers(study, [draws[key][0] for key in keys], streams, answers),
        ),
        outcomes=over_draws([[_draw(row, failure) for row in drawn] for _, drawn in scored]),
        clean=_clean_returns(study, [draws[key][0] for key in keys]),
        failure_return=failure,
    )


def _draw(row: ForkRow, failure: float) -> Draw:
    return Draw(
        failure if row.r_hold is None else row.r_hold,
        failure if row.r_update is None else row.r_update,
        row.hold,
        row.update,
        failed_hold=row.r_hold is None,
        failed_update=row.r_update is None,
    )


def _clean_returns(study: Study, begun: Sequence[Cell]) -> dict[str, float]:
    """Return the clean return of each checkpoint, where its cells say so."""
    clean: dict[str, float] = {}
    for cell in begun:
        if str(cell.checkpoint) in clean:
            continue  # its cells all say the same
        checkpoint = read_json(study.cell(cell.id).path / "cell.json").get("checkpoint")
        value = checkpoint.get("clean_return") if isinstance(checkpoint, dict) else None
        if isinstance(value, float):
            require_scorable([value], where=f"{cell.id}, clean_return of its checkpoint")
            clean[str(cell.checkpoint)] = value
    return clean


def _failed(cell: Cell, row: ForkRow, failure: float) -> str:
    branches = " and ".join(name for name, mean in (("HOLD", row.r_hold), ("UPDATE", row.r_update)) if mean is None)
    return (
        f"{cell.arm}, {cell.task}, checkpoint {cell.checkpoint}, {cell.direction}, stream seed {cell.stream_seed}, "
        f"k = {row.k}: an episode's return is not finite, so {branches} counts as a failure with return {failure:g}"
    )


def _floats(values: Sequence[float | None]) -> Float[np.ndarray, "values"]:
    """Return numbers, NaN for what is stored as null."""
    return np.array(values, dtype=np.float64)


def _stream(study: Study, cell: Cell, logs: dict[str, StreamLog]) -> StreamLog | None:
    """Return a cell's step log; what an agent does not have (a KL, say) is not in it. Arms that share one hold
    one."""
    path, _ = study.cell(cell.id).stream_files()
    if not path.exists():
        return None
    content = read_bytes(path)
    digest = hashlib.sha256(content).hexdigest()
    if digest not in logs:
        columns = parquet_columns(content, path)
        logs[digest] = StreamLog({name: np.array(column, dtype=np.float64) for name, column in columns.items()})
    return logs[digest]


def _stored_answers(study: Study, rows: Rows) -> Answers | None:
    """Return what a copy that leaves its streams out says was answered on them."""
    if STREAMS not in left_out(study):
        return None
    return read_answers(study, {cell.id: in_order for cell, in_order in rows.items()})


def _answers(
    study: Study, begun: Sequence[Cell], streams: Sequence[StreamLog | None], stored: Answers | None
) -> tuple[dict[Asked, tuple[Answer, ...]], ...]:
    """Return what was answered on the stream of each cell that has none here."""
    if stored is None:
        return ()
    return tuple(
        stored.on(ran_by(study.cell(cell.id))) if stream is None else {}
        for cell, stream in zip(begun, streams, strict=True)
    )


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
    tried: frozenset[str]  # policies that try their updates
    decided: Bool[np.ndarray, "policies cells episodes"]  # a trial ended with the episode
    kept: Bool[np.ndarray, "policies cells episodes"]  # and its update stayed


def read_deployments(study: Study) -> dict[str, Deployed]:
    """Return every task that has a deployment, or nothing where none is registered or begun."""
    rows = deployment_rows(study)
    return {task: _task(study, task, rows) for task in dict.fromkeys(cell.task for _, cell in rows)}


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
    returns = np.full(shape, np.nan)
    fired, decided, kept = (np.zeros(shape, bool) for _ in range(3))
    steps, failed = np.zeros(shape, np.int64), np.zeros(shape[:2], bool)
    evaluations = np.full((*shape[:2], len(registered.evaluate_at), registered.episodes), np.nan)
    of_rows = (row for in_order in mine.values() for row in in_order)
    every = [value for row in of_rows for value in (row.episode_return, *(row.evaluation or ()))]
    failure = _failure_return(registration, every)
    for j, place in enumerate(places):
        count = min(len(by_place[name, place]) for name in names)
        for i, name in enumerate(names):
            for row in by_place[name, place][:count]:
                where = f"{row.cell} under `{name}`, episode {row.k}"
                require_scorable((row.episode_return, *(row.evaluation or ())), where=where)
                value = row.episode_return
                returns[i, j, row.k - 1] = failure if value is None else value
                fired[i, j, row.k - 1], steps[i, j, row.k - 1] = row.fired, row.gradient_steps
                if row.trial is not None and row.trial.kept is not None:
                    decided[i, j, row.k - 1], kept[i, j, row.k - 1] = True, row.trial.kept
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
        tried=frozenset(name for name, policy in registered.every().items() if policy.trial),
        decided=decided,
        kept=kept,
    )


def _place(cell: Cell) -> tuple[CellKey, int]:
    return cell_key(cell), cell.update_seed
