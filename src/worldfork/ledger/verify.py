"""Is a study what was written? Every chain, every digest, every pair, and the registration they all point to."""

import collections
import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.ledger.answers import ANSWERS, Answers, read_answers
from worldfork.ledger.arrays import Columns, content_digest, read_parquet
from worldfork.ledger.cell import departures
from worldfork.ledger.consistency import Expected, expected, unlisted
from worldfork.ledger.deployments import segment_files
from worldfork.ledger.publish import DEPLOYED_STREAMS, DEPLOYED_WINDOWS, STREAMS, WINDOWS, read_published
from worldfork.ledger.records import read_json
from worldfork.ledger.row import ForkRow, gain, mean
from worldfork.ledger.store import CellFolder, Study
from worldfork.ledger.verify_deployments import verify_deployments
from worldfork.registration import Cell, Registration, canonical, cells, digest, parse

__all__ = ["Verdict", "require_as_registered", "root", "verify"]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What was found. `problems` are damage; a study that is merely unfinished has none. `notes` say what is not
    here, and so could not be checked."""

    rows: int
    expected: int
    cells: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    episodes: int = 0  # rows of deployments
    expected_episodes: int = 0

    @property
    def complete(self) -> bool:
        return (self.rows, self.episodes) == (self.expected, self.expected_episodes)


def verify(folder: Path | str, *, progress: Callable[[int, int], None] = lambda done, total: None) -> Verdict:
    """Check the whole study; the first problem of each cell is named with its row."""
    study = Study(folder)
    registration = _registered(study)
    problems = _beside_the_rows(study, arrays=True)
    grid = {cell.id: cell for cell in cells(registration)}
    begun = study.cells()
    known = _known_registrations(study)
    rows: dict[str, list[ForkRow]] = {}
    published = read_published(study)
    left_out = None if published is None else published.left_out
    windowless = left_out is not None and WINDOWS in left_out
    for number, folder_of_cell in enumerate(begun, start=1):
        try:
            cell = grid.get(folder_of_cell.id)
            if cell is None:
                raise WorldforkError(f"{folder_of_cell.id} is not a cell of the registration.")
            _check_configuration(folder_of_cell, study, cell, known=known)
            episodes = registration.arm(cell.arm).evaluation.episodes
            points = registration.arm(cell.arm).stream.decision_points
            said = expected(
                folder_of_cell.configuration, registration.arm(cell.arm).stream, signals=registration.signals
            )
            rows[cell.id] = _checked_rows(folder_of_cell, points, episodes=episodes, left_out=left_out, said=said)
        except WorldforkError as error:
            problems.append(str(error))
        progress(number, len(begun))
    whole = [cell for cell in begun if cell.id in rows]
    problems += [line for cell in whole for line in _shared_problems(cell, rows)]
    followed = verify_deployments(study, registration, known=known, left_out=left_out or ())
    problems += followed.problems
    computed = [cell.configuration for cell in whole if rows[cell.id]]
    computed += [folder.configuration for folder in followed.whole if folder.has_rows()]
    problems += _source_problems(study, computed)
    damaged, notes = _models(study, whole)
    absent = [cell for cell in whole if not (cell.path / "window.npz").exists()]
    if windowless and absent:
        notes.append(f"The windows of {plural(len(absent), 'cell')} are not here; their rows hold the digests.")
    answers = None
    if len(whole) == len(begun):  # where a row is damaged, that is named, and what is said of its stream is not
        try:
            answers = _stored_answers(study, rows, left_out=left_out or ())
        except WorldforkError as error:
            problems.append(str(error))
    unlogged = {cell.stream_owner() or cell.path for cell in whole if not cell.stream_files()[0].exists()}
    if left_out is not None and STREAMS in left_out and unlogged:
        notes.append(_streams_note([path.name for path in unlogged], answers))
    for pattern, what in ((DEPLOYED_WINDOWS, "transitions"), (DEPLOYED_STREAMS, "logs")):
        absent_of_all = not segment_files(study.path, suffix=Path(pattern).suffix)
        if followed.episodes and absent_of_all and left_out is not None and pattern in left_out:
            notes.append(f"The {what} of the deployments are not here; their rows hold the digests.")
    with contextlib.suppress(WorldforkError):  # where kept.json can not be read, which is a problem named above
        notes += unlisted(study, followed.segments)
    registered = sum(registration.arm(cell.arm).stream.decision_points for cell in grid.values())
    count = sum(map(len, rows.values()))
    found = (*problems, *damaged)
    return Verdict(count, registered, len(begun), found, tuple(notes), followed.episodes, followed.expected)


def root(study: Study) -> str:
    """One digest over the whole ledger: the registration, its amendments, what was kept, and the end of every
    cell's chain.

    Who rewrites a ledger and computes every digest anew passes `verify`, but can not keep its root. Publish it
    where it can not be changed together with the ledger.
    """
    ends = sorted([cell.id, cell.last_digest()] for cell in study.cells())
    amendments = [amendment.digest for amendment in study.amendments()]
    followed = sorted([folder.policy, folder.id, folder.last_digest()] for folder in study.deployments())
    return digest(
        {
            "registration": study.registration_digest,
            "amendments": amendments,
            "kept": study.kept().files,
            "cells": ends,
            **({"deployments": followed} if followed else {}),
        }
    )


def require_as_registered(study: Study) -> None:
    """Refuse a study whose rows would be read by something else than what they were made by. Whoever scores it
    checks the rows as they are read; models are not hashed, which takes a while and which no score reads."""
    known = _known_registrations(study)
    problems = _beside_the_rows(study, arrays=False)
    problems += filter(None, (_of_another_registration(cell, known) for cell in study.cells()))
    if problems:
        raise WorldforkError(f"`{study.path}`: {problems[0]} Run `worldfork verify {study.path}`.")


def _beside_the_rows(study: Study, *, arrays: bool) -> list[str]:
    """What does not hold of the registration, its amendments and what was kept beside the cells."""
    return [
        *_registration_problems(study, _registered(study)),
        *_amendment_problems(study),
        *_copy_problems(study),
        *_kept_problems(study, arrays=arrays),
    ]


def _registered(study: Study) -> Registration:
    """The registration; one that was changed may well contradict itself, which is not what is wrong with it."""
    try:
        return study.registration
    except WorldforkError as error:
        if study.registered().intact:
            raise
        raise WorldforkError(
            f"`{study.path}`: registration.json is not what was written: its digest does not match, and nothing "
            "else can be checked without it."
        ) from error


def _registration_problems(study: Study, registration: Registration) -> list[str]:
    """registration.json says its own digest and is what registration.toml says."""
    stored = study.registered()
    spelled = _spelled(stored.model_dump(mode="json"))
    if not stored.intact or (study.path / "registration.json").read_bytes() != spelled:
        return ["registration.json is not what was written: its digest does not match."]
    try:
        authored = parse((study.path / "registration.toml").read_text(encoding="utf-8"), name="registration.toml")
    except (OSError, UnicodeDecodeError, WorldforkError) as error:
        return [f"registration.toml can not be read: {error}"]
    return [] if authored == registration else ["registration.toml is not the one that was registered."]


def _amendment_problems(study: Study) -> list[str]:
    """The amendments lead, one after the other, to the registration."""
    try:
        amendments = study.amendments()
    except WorldforkError as error:
        return [str(error)]
    for number, amendment in enumerate(amendments, start=1):
        following = amendments[number].before if number < len(amendments) else study.registration_digest
        if amendment.after != following:
            return [
                f"amendments.jsonl, line {number}: it does not lead to the registration that followed. Where a run "
                "was interrupted just then, run the same command again."
            ]
    return []


def _copy_problems(study: Study) -> list[str]:
    """A published copy names the registration that it is a copy of."""
    published = read_published(study)
    if published is not None and published.registration != study.registration_digest:
        return ["published.json belongs to another study."]
    return []


def _kept_problems(study: Study, *, arrays: bool) -> list[str]:
    """What lies beside the cells is what was put there; a published copy may leave some of it out."""
    path = study.path / "kept.json"
    try:
        kept, published = study.kept(), read_published(study)
    except WorldforkError as error:
        return [str(error)]
    if not kept.intact or (path.exists() and path.read_bytes() != _spelled(kept.model_dump(mode="json"))):
        return ["kept.json is not what was written: its digest does not match."]
    problems = []
    for name, written in kept.files.items():
        file = study.path / name
        if not arrays and file.suffix in (".npz", ".safetensors"):
            continue
        if not file.exists():
            if published is None or not any(Path(name).match(pattern) for pattern in published.left_out):
                problems.append(f"{name} is missing.")
        elif hashlib.sha256(file.read_bytes()).hexdigest() != written:
            problems.append(f"{name} is not what was written.")
    return problems


def _spelled(value: Any) -> bytes:
    return (canonical(value) + "\n").encode()


def _of_another_registration(folder: CellFolder, known: set[str]) -> str | None:
    named = read_json(folder.path / "cell.json").get("registration")
    if named in known:
        return None
    return f"{folder.id}: cell.json belongs to another registration, {str(named)[:12]}, which no amendment names."


def _known_registrations(study: Study) -> set[str]:
    """The digests that a cell may point to: that of the registration, and of those that were amended."""
    try:
        earlier = {amendment.before for amendment in study.amendments()}
    except WorldforkError:  # named already
        earlier = set()
    return {study.registration_digest, *earlier}


def _check_configuration(folder: CellFolder, study: Study, cell: Cell, *, known: set[str]) -> None:
    configuration = folder.configuration
    if (folder.path / "cell.json").read_bytes() != _spelled(configuration):
        raise WorldforkError(f"{folder.id}: cell.json is not in canonical form; it was edited.")
    if configuration["cell"] != folder.id:
        raise WorldforkError(f"{folder.id}: cell.json belongs to another cell, {configuration['cell']}.")
    if problem := _of_another_registration(folder, known):
        raise WorldforkError(problem)
    if differing := departures(configuration, cell, study.registered().registration):
        raise WorldforkError(f"{folder.id}: its rows were not made as registered: {'; '.join(differing)}.")


def _checked_rows(
    folder: CellFolder, points: int, *, episodes: int, left_out: Collection[str] | None, said: Expected
) -> list[ForkRow]:
    """The rows, each held against what it names, and against what is `said` of them elsewhere; `left_out` is what a
    published copy is without."""
    rows = folder.rows(spelling=True)
    if len(rows) > points:
        raise WorldforkError(f"{folder.id}: {plural(len(rows), 'row')} where {points} are registered.")
    if not rows:
        return rows
    log = _log(folder, left_out=left_out)
    stream, window = rows[0].stream if log is None else content_digest(log), rows[0].recording
    if (folder.path / "window.npz").exists() or left_out is None or WINDOWS not in left_out:
        window = content_digest(folder.read_window())
    for row in rows:
        where = f"{folder.id}, fork {row.k}"
        if (row.stream, row.recording) != (stream, window):
            raise WorldforkError(f"{where}: stream.parquet or window.npz is not the one this row was made from.")
        if row.draws.hold != row.draws.update:
            raise WorldforkError(f"{where}: the branches received different random draws; the pair is no pair.")
        if {len(row.hold), len(row.update)} != {episodes}:
            raise WorldforkError(
                f"{where}: {len(row.hold)} episodes of HOLD and {len(row.update)} of UPDATE where {episodes} are "
                "registered."
            )
        means = mean(row.hold), mean(row.update)
        if (row.r_hold, row.r_update, row.delta) != (*means, gain(*means)):
            raise WorldforkError(f"{where}: the means or their difference do not follow from the episodes.")
        if wrong := said.of_row(row):
            raise WorldforkError(f"{where}: {wrong}.")
    if log is not None:
        if wrong := said.of_log(log):
            raise WorldforkError(f"{folder.id}: {wrong}.")
        for row in rows:
            if wrong := said.beside_log(row, log):
                raise WorldforkError(f"{folder.id}, fork {row.k}: {wrong}.")
    return rows


def _log(folder: CellFolder, *, left_out: Collection[str] | None) -> Columns | None:
    """The stream that the rows were made from: of the cell's own file, or of its owner's in a copy. None where it
    was left out, so that all that can be asked is that the rows name one."""
    log, _ = folder.stream_files()
    if left_out is None:  # only a copy keeps a shared stream once
        log = folder.path / log.name
    elif STREAMS in left_out and not log.exists():
        return None
    return read_parquet(log)


def _stored_answers(
    study: Study, rows: Mapping[str, list[ForkRow]], *, left_out: Collection[str]
) -> Answers | None:
    """What stands in for streams that a copy leaves out. Nothing else has such a file."""
    answers = read_answers(study, rows)
    if answers is not None and STREAMS not in left_out:
        raise WorldforkError(f"{ANSWERS} is for copies that were published without streams, and this is none.")
    return answers


def _streams_note(absent: Collection[str], answers: Answers | None) -> str:
    """How many streams are not here, and what stands in for them."""
    known = set(absent) & set(answers.streams if answers is not None else ())
    note = (
        f"{plural(len(absent), 'stream')} {'is' if len(absent) == 1 else 'are'} not here; rows hold their digests. "
    )
    if answers is None or not known:
        return f"{note}The detectors that read them can not be scored from this copy."
    who = ", ".join(dict.fromkeys(asked.trigger for asked in answers.triggers))
    on = "them" if len(known) == len(absent) else f"{len(known)} of them"
    return f"{note}What {who} answered on {on} is in {ANSWERS}, as the publisher's word: no row holds its digest."


def _shared_problems(cell: CellFolder, rows: Mapping[str, list[ForkRow]]) -> list[str]:
    """A cell that took its HOLD branch from another has the other's returns and draws."""
    owner = cell.configuration["shares"]["hold"]
    for row, held in zip(rows[cell.id], rows.get(owner, []), strict=False):
        if (row.hold, row.draws.hold, row.stream) != (held.hold, held.draws.hold, held.stream):
            return [f"{cell.id}, fork {row.k}: HOLD is not that of {owner}, from which it was taken."]
    return []


def _source_problems(study: Study, configurations: list[dict[str, Any]]) -> list[str]:
    """The modules that rows were computed with are listed, by the digest that the cells name."""
    named = {made["source"] for made in configurations if made["schema"] != "worldfork.cell/1"}  # it kept no list
    problems = []
    for source in sorted(named):
        path = study.path / "sources" / f"{source}.json"
        try:
            if digest(read_json(path)) != source:
                problems.append(f"sources/{source[:12]}....json is not the list of modules that the cells name.")
        except WorldforkError as error:
            problems.append(str(error))
    return problems


def _models(study: Study, begun: list[CellFolder]) -> tuple[list[str], list[str]]:
    """Every model that the cells were made from: damage, and a note on those that are not here.

    A study that is passed on may leave its models behind; their manifests then stand for them.
    """
    wanted: dict[str, set[str]] = {}
    for cell in begun:
        configuration = cell.configuration
        if configuration["task"].get("checkpoints", "generated") != "generated":
            place = f"{configuration['coordinates']['task']}-{configuration['coordinates']['checkpoint']}"
            wanted.setdefault(place, set()).add(configuration["checkpoint"]["digest"])
    problems, absent = [], []
    for name, digests in wanted.items():
        folder = study.path / "checkpoints"
        manifest = folder / f"{name}.json"
        named = digests | _digests_in(manifest)
        # An agent says itself which files a checkpoint has; the first of them is the one that the digest is of.
        models = sorted(path for path in folder.glob(f"{name}.*") if path.suffix != ".json")
        if models:
            sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in models]
            named.add(next((one for one in sums if one in digests), sums[0]))
        else:
            absent.append("the digests in their manifests" if manifest.exists() else "the digests in the cells")
        if len(named) > 1:
            problems.append(f"checkpoint {name}: the model, its manifest and the cells do not name one digest.")
    return problems, [
        f"{count} of {len(wanted)} models are not here: there are {stand_in} alone."
        for stand_in, count in collections.Counter(absent).items()
    ]


def _digests_in(manifest: Path) -> set[str]:
    """The digest that a manifest names. An agent from elsewhere may keep something else in a .json of its own; that
    it is what was put there is kept.json's to say."""
    if not manifest.exists():
        return set()
    try:
        record = read_json(manifest)
    except WorldforkError:
        return {"unreadable"}
    return {str(record["digest"])} if "digest" in record else set()
