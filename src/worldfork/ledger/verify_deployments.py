"""Are a study's deployments what was written, as registered, and on common random numbers?"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.ledger.arrays import Columns, content_digest
from worldfork.ledger.cell import departures
from worldfork.ledger.consistency import Expected, expected
from worldfork.ledger.deployments import (
    SEGMENTS,
    THRESHOLDS,
    DeploymentFolder,
    DeploymentRow,
    Part,
    Thresholds,
    policy_of,
    read_log_parts,
    read_window_parts,
    segment_files,
)
from worldfork.ledger.records import check, read_json
from worldfork.ledger.store import Deployed, Study
from worldfork.registration import Cell, Registration, canonical, deployments, difference

__all__ = ["Followed", "verify_deployments"]


@dataclasses.dataclass(frozen=True)
class Followed:
    """What was found: damage, and how many episodes there are of how many."""

    episodes: int
    expected: int
    problems: tuple[str, ...]
    whole: tuple[DeploymentFolder, ...]  # those in which nothing was found
    segments: frozenset[str] = frozenset()  # the files, by their places, that rows point to


def verify_deployments(
    study: Study, registration: Registration, *, known: set[str], left_out: Collection[str] = ()
) -> Followed:
    """Check every chain of [deployment]; `known` are the digests of registrations that a row may point to, and
    `left_out` is what a published copy is without."""
    grid = {(policy, cell.id): cell for policy, cell in deployments(registration)}
    problems: list[str] = []
    rows: dict[Deployed, list[DeploymentRow]] = {}
    whole = []
    try:
        thresholds = _thresholds(study)
    except WorldforkError as error:
        return Followed(0, _expected(registration, grid), (str(error),), ())
    for folder in study.deployments():
        place = folder.policy, folder.id
        try:
            if place not in grid:
                raise WorldforkError(f"{_named(place)} is not a deployment of the registration.")
            _check_configuration(folder, study, grid[place], known=known)
            rows[place] = _checked_rows(folder, registration, grid[place], thresholds)
            whole.append(folder)
        except WorldforkError as error:
            problems.append(str(error))
    problems += _draw_problems(rows, grid)
    said = {
        (folder.policy, folder.id): expected(
            folder.configuration,
            registration.arm(grid[folder.policy, folder.id].arm).stream,
            signals=registration.signals,
        )
        for folder in whole
    }
    problems += _row_problems(rows, said)
    damaged, segments = _segment_problems(study, rows, left_out=left_out, said=said)
    return Followed(
        sum(map(len, rows.values())),
        _expected(registration, grid),
        (*problems, *damaged),
        tuple(whole),
        frozenset(segments),
    )


def _expected(registration: Registration, grid: Mapping[Deployed, Cell]) -> int:
    return sum(registration.arm(cell.arm).stream.decision_points for cell in grid.values())


def _thresholds(study: Study) -> Thresholds:
    path = study.path / THRESHOLDS
    return check(read_json(path), Thresholds, where=f"`{path}`") if path.exists() else Thresholds()


def _check_configuration(folder: DeploymentFolder, study: Study, cell: Cell, *, known: set[str]) -> None:
    configuration, named = folder.configuration, _named((folder.policy, folder.id))
    if (folder.path / "cell.json").read_bytes() != (canonical(configuration) + "\n").encode():
        raise WorldforkError(f"{named}: cell.json is not in canonical form; it was edited.")
    if (configuration["policy"].get("name"), configuration["cell"]) != (folder.policy, folder.id):
        raise WorldforkError(f"{named}: cell.json belongs to another deployment.")
    if configuration["registration"] not in known:
        raise WorldforkError(f"{named}: cell.json belongs to another registration, which no amendment names.")
    registered = study.registered().registration
    block = configuration["block"]
    batched = ("cells_per_batch", "policies")
    if block is not None:  # of an agent whose digits depend on the shape of its batches
        block = {name: value for name, value in block.items() if name not in batched}
    differing = departures({**configuration, "block": block}, cell, registered)
    differing += difference(_decisive(study.registration, folder.policy), _executed(configuration))
    if differing:
        raise WorldforkError(f"{named}: its rows were not made as registered: {'; '.join(differing)}.")


def _decisive(registration: Registration, policy: str) -> dict[str, Any]:
    assert registration.deployment is not None
    return {
        "policy": {"name": policy, **registration.deployment.every()[policy].model_dump(mode="json")},
        "deployment": registration.deployment.model_dump(mode="json", include={"evaluate_at", "episodes"}),
    }


def _executed(configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {"policy": configuration["policy"], "deployment": configuration["deployment"]}


def _checked_rows(
    folder: DeploymentFolder, registration: Registration, cell: Cell, thresholds: Thresholds
) -> list[DeploymentRow]:
    registered = registration.deployment
    assert registered is not None
    rows, points = folder.rows(spelling=True), registration.arm(cell.arm).stream.decision_points
    if not rows:
        return []
    if len(rows) > points:
        raise WorldforkError(
            f"{_named((folder.policy, folder.id))}: {plural(len(rows), 'row')} where {points} are registered."
        )
    fitted = thresholds.of(folder.policy, cell.task, cell.checkpoint)
    threshold = policy_of(registration, folder.policy, threshold=fitted).threshold
    for row in rows:
        where = f"{_named((folder.policy, folder.id))}, episode {row.k}"
        if row.policy != folder.policy:
            raise WorldforkError(f"{where}: the row is of the policy `{row.policy}`.")
        if row.fired != (row.fit is not None) or (not row.fired and row.gradient_steps):
            raise WorldforkError(f"{where}: an update is recorded where none fired, or none where one did.")
        if row.threshold != threshold:
            raise WorldforkError(f"{where}: its threshold is {row.threshold}, and the policy's is {threshold}.")
        wanted = registered.episodes if row.k in registered.evaluate_at else None
        if (None if row.evaluation is None else len(row.evaluation)) != wanted:
            raise WorldforkError(f"{where}: its evaluation has not the episodes that are registered.")
    return rows


def _row_problems(rows: Mapping[Deployed, list[DeploymentRow]], said: Mapping[Deployed, Expected]) -> list[str]:
    """What can not be so in a row, whatever its log says: the first of each deployment."""
    problems = []
    for place, of_place in rows.items():
        found = ((row.k, said[place].of_row(row)) for row in of_place)
        problems += [f"{_named(place)}, episode {k}: {wrong}." for k, wrong in found if wrong][:1]
    return problems


def _segment_problems(
    study: Study,
    rows: Mapping[Deployed, list[DeploymentRow]],
    *,
    left_out: Collection[str],
    said: Mapping[Deployed, Expected],
) -> tuple[list[str], set[str]]:
    """Every row has its log and its transitions, they are those that it was made from, and log and row agree. Also
    the files that rows point to."""
    problems: list[str] = []
    used: set[str] = set()
    readers: tuple[tuple[str, str, Callable[[Path], Iterator[Part]]], ...] = (
        (".parquet", "stream", read_log_parts),
        (".npz", "recording", read_window_parts),
    )
    for suffix, name, read in readers:
        missing = {(*place, row.k): getattr(row, name) for place, of in rows.items() for row in of}
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
                    named = f"{_named(place)}, episode {k}"
                    if content_digest(part.columns) != recorded:
                        problems.append(f"{named}: {path.name} is not what this row was made from.")
                    elif name == "stream" and (wrong := _beside(said[place], rows[place][k - 1], part.columns)):
                        problems.append(f"{named}: {wrong}.")
            except WorldforkError as error:
                problems.append(str(error))
        if missing:
            policy, cell, k = next(iter(missing))
            problems.append(f"{_named((policy, cell))}, episode {k}: no {suffix} file of segments has it.")
    return problems, used


def _beside(said: Expected, row: DeploymentRow, log: Columns) -> str | None:
    return said.of_log(log) or said.beside_log(row, log)


def _draw_problems(rows: Mapping[Deployed, list[DeploymentRow]], grid: Mapping[Deployed, Cell]) -> list[str]:
    """Every policy met the draws that `never` met in the same cell and episode."""
    first: dict[tuple[object, ...], tuple[str, str | None, str]] = {}
    problems = []
    for place, of_place in rows.items():
        coordinates = dataclasses.replace(grid[place], arm="", update_seed=0)
        for row in of_place:
            met = first.setdefault((coordinates, row.k), (row.draws, row.evaluation_draws, place[0]))
            if met[:2] != (row.draws, row.evaluation_draws):
                problems.append(
                    f"{_named(place)}, episode {row.k}: it received other random draws than `{met[2]}` did."
                )
                break
    return problems


def _named(place: Deployed) -> str:
    return f"{place[1]} under `{place[0]}`"
