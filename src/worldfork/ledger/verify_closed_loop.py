"""Verification of closed-loop deployments: every chain as registered, and all policies on common random numbers."""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.ledger.arrays import content_digest
from worldfork.ledger.closed_loop import (
    SEGMENTS,
    THRESHOLDS,
    DeploymentFolder,
    DeploymentRow,
    Part,
    Thresholds,
    is_kept,
    policy_of,
    read_log_parts,
    read_recording_parts,
    segment_files,
    titled,
)
from worldfork.ledger.consistency import Expected, check_configuration, expected
from worldfork.ledger.documents import check, read_json
from worldfork.ledger.row import Number
from worldfork.ledger.store import Deployed, Study
from worldfork.registration import Cell, Registration, deployments, difference

DeploymentRows = Mapping[Deployed, list[DeploymentRow]]
READERS: tuple[tuple[str, str, Callable[[Path], Iterator[Part]]], ...] = (
    (".parquet", "stream", read_log_parts),
    (".npz", "window", read_recording_parts),
)


@dataclasses.dataclass(frozen=True)
class DeployedFindings:
    """Findings of `verify_deployments`: damage, and the number of episodes found and registered."""

    episodes: int
    expected: int
    problems: tuple[str, ...]
    whole: tuple[DeploymentFolder, ...]  # without problems of their own
    segments: frozenset[str] = frozenset()  # paths of the segment files that rows point to


def verify_deployments(
    study: Study, registration: Registration, *, registrations: set[str], left_out: Collection[str] = ()
) -> DeployedFindings:
    """Check every chain of [deployment].

    Args:
        study: the study to check.
        registration: its registration.
        registrations: digests of the registrations that a chain may point to.
        left_out: patterns of the files that a published copy lacks.
    """
    grid = {(policy, cell.id): cell for policy, cell in deployments(registration)}
    registered = sum(registration.arm(cell.arm).stream.decision_points for cell in grid.values())
    problems: list[str] = []
    rows: dict[Deployed, list[DeploymentRow]] = {}
    calculated: dict[Deployed, Expected] = {}
    whole = []
    try:
        thresholds = _thresholds(study)
    except WorldforkError as error:
        return DeployedFindings(0, registered, (str(error),), ())
    for folder in study.deployments():
        place = folder.policy, folder.id
        try:
            if place not in grid:
                raise WorldforkError(f"{folder.title} is not a deployment of the registration.")
            _check_policy(folder, study, registration, grid[place], registrations=registrations)
            rows[place] = _checked_rows(folder, registration, grid[place], thresholds)
            stream = registration.arm(grid[place].arm).stream
            calculated[place] = expected(folder.configuration, stream, signals=registration.signals)
            whole.append(folder)
        except WorldforkError as error:
            problems.append(str(error))
    problems += _draw_problems(rows, grid)
    for place, of_place in rows.items():
        found = ((row.k, calculated[place].of_row(row)) for row in of_place)
        problems += [f"{titled(*place)}, episode {k}: {wrong}." for k, wrong in found if wrong][:1]
    damaged, segments = _segment_problems(study, rows, calculated, left_out=left_out)
    episodes = sum(map(len, rows.values()))
    return DeployedFindings(episodes, registered, (*problems, *damaged), tuple(whole), frozenset(segments))


def _thresholds(study: Study) -> Thresholds:
    path = study.path / THRESHOLDS
    return check(read_json(path), Thresholds, where=f"`{path}`") if path.exists() else Thresholds()


def _check_policy(
    folder: DeploymentFolder, study: Study, registration: Registration, cell: Cell, *, registrations: set[str]
) -> None:
    """Raise unless cell.json is of this policy and cell, and as registered."""
    assert registration.deployment is not None
    configuration = folder.configuration
    if (configuration["policy"].get("name"), configuration["cell"]) != (folder.policy, folder.id):
        raise WorldforkError(f"{folder.title}: cell.json belongs to another deployment.")
    policy = registration.deployment.every()[folder.policy]
    wanted = {
        "policy": {"name": folder.policy, **policy.model_dump(mode="json")},
        "deployment": registration.deployment.model_dump(mode="json", include={"evaluate_at", "episodes"}),
    }
    executed = {name: configuration[name] for name in wanted}
    check_configuration(folder, study, cell, registrations=registrations, more=difference(wanted, executed))


def _checked_rows(
    folder: DeploymentFolder, registration: Registration, cell: Cell, thresholds: Thresholds
) -> list[DeploymentRow]:
    """Return the rows of a deployment, each checked against its policy."""
    registered = registration.deployment
    assert registered is not None
    rows, points = folder.rows(), registration.arm(cell.arm).stream.decision_points
    if not rows:
        return []
    if len(rows) > points:
        raise WorldforkError(f"{folder.title}: {plural(len(rows), 'row')} where {points} are registered.")
    fitted = thresholds.of(folder.policy, cell.task, cell.checkpoint)
    threshold = policy_of(registration, folder.policy, threshold=fitted).threshold
    for row in rows:
        where = f"{folder.title}, episode {row.k}"
        if row.policy != folder.policy:
            raise WorldforkError(f"{where}: the row is of the policy `{row.policy}`.")
        if row.fired != (row.fit is not None) or (not row.fired and row.gradient_steps):
            raise WorldforkError(f"{where}: an update is recorded where none fired, or none where one did.")
        if row.threshold != threshold:
            raise WorldforkError(f"{where}: its threshold is {row.threshold}, and the policy's is {threshold}.")
        wanted = registered.episodes if row.k in registered.evaluate_at else None
        if (None if row.evaluation is None else len(row.evaluation)) != wanted:
            raise WorldforkError(f"{where}: its evaluation has not the episodes that are registered.")
    if problem := _trial_problem(rows, episodes=registered.every()[folder.policy].trial):
        raise WorldforkError(f"{folder.title}, {problem}")
    return rows


def _trial_problem(rows: Sequence[DeploymentRow], *, episodes: int) -> str | None:
    """Return the problem of the first row whose trial, decision or model does not follow from the rows before it.

    Args:
        rows: those of one deployment.
        episodes: for which its policy tries an update; 0 where it keeps every one.
    """
    returns: list[tuple[Number, Number]] | None = None  # of the update on trial and of its incumbent
    incumbent = state = None  # digests; that of the checkpoint is in no row
    for row in rows:
        where = f"episode {row.k}:"
        if row.trial is None and returns is not None:
            return f"{where} an update is on trial, and what its incumbent returned is missing."
        if row.trial is not None:
            if returns is None:
                return f"{where} it has the return of an incumbent, and no update is on trial."
            returns.append((row.episode_return, row.trial.incumbent_return))
            kept = is_kept(*zip(*returns, strict=True)) if len(returns) == episodes else None
            if row.trial.kept != kept:
                return f"{where} `kept` is {row.trial.kept}, and {kept} by the returns of the trial."
            if kept is not None:
                returns, state = None, state if kept else incumbent
        if row.fired:
            if returns is not None:
                return f"{where} an update fired while another one was on trial."
            incumbent, returns = state, [] if episodes else None
        elif state not in (None, row.state):
            return (
                f"{where} no update fired, and `state` is not that of the model which the deployment goes on with."
            )
        state = row.state
    return None


def _segment_problems(
    study: Study, rows: DeploymentRows, calculated: Mapping[Deployed, Expected], *, left_out: Collection[str]
) -> tuple[list[str], set[str]]:
    """Check every row's log and transitions; return the problems, and the files that rows point to."""
    problems: list[str] = []
    used: set[str] = set()
    for suffix, name, read in READERS:
        missing = {(*place, row.k): getattr(row, name) for place, of_place in rows.items() for row in of_place}
        if f"{SEGMENTS}/*{suffix}" in left_out and not segment_files(study.path, suffix=suffix):
            continue
        for k, path in segment_files(study.path, suffix=suffix):
            try:
                for part in read(path):
                    place = part.policy, part.cell
                    recorded = missing.pop((*place, k), None)
                    if recorded is None:
                        continue
                    used.add(path.relative_to(study.path).as_posix())
                    where = f"{titled(*place)}, episode {k}"
                    if content_digest(part.columns) != recorded:
                        problems.append(f"{where}: {path.name} is not what this row was made from.")
                    elif name == "stream":
                        row, of_place = rows[place][k - 1], calculated[place]
                        wrong = of_place.of_log(part.columns) or of_place.beside_log(row, part.columns)
                        problems += [f"{where}: {wrong}."] if wrong else []
            except WorldforkError as error:
                problems.append(str(error))
        if missing:
            policy, cell, k = next(iter(missing))
            problems.append(f"{titled(policy, cell)}, episode {k}: no {suffix} file of segments has it.")
    return problems, used


def _draw_problems(rows: DeploymentRows, grid: Mapping[Deployed, Cell]) -> list[str]:
    """Check that every policy met the draws that the first one met in the same cell and episode."""
    first: dict[tuple[object, ...], tuple[str, str | None, str]] = {}
    problems = []
    for place, of_place in rows.items():
        coordinates = dataclasses.replace(grid[place], arm="", update_seed=0)
        for row in of_place:
            met = first.setdefault((coordinates, row.k), (row.draws, row.evaluation_draws, place[0]))
            if met[:2] != (row.draws, row.evaluation_draws):
                problems.append(
                    f"{titled(*place)}, episode {row.k}: it received other random draws than `{met[2]}` did."
                )
                break
    return problems
