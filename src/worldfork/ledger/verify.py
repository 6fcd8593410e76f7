"""Verification of a study: every chain, every digest, every pair, and the registration that they point to."""

import collections
import contextlib
import dataclasses
import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.ledger.arrays import Columns, content_digest, read_parquet
from worldfork.ledger.closed_loop import segment_files
from worldfork.ledger.consistency import (
    check_configuration,
    counted_twice,
    expected,
    model_of,
    of_another_registration,
    unlisted,
)
from worldfork.ledger.documents import as_file, read_json
from worldfork.ledger.publish import (
    ANSWERS,
    DEPLOYED_RECORDINGS,
    DEPLOYED_STREAMS,
    RECORDINGS,
    STREAMS,
    Answers,
    read_answers,
    read_published,
)
from worldfork.ledger.recorded import RecordedLedger, deployments_of, is_recorded
from worldfork.ledger.row import ForkRow, gain, mean
from worldfork.ledger.store import CellFolder, Study
from worldfork.ledger.verify_closed_loop import verify_deployments
from worldfork.ledger.verify_looks import verify_looks
from worldfork.progress import Progress, shows_progress, silent
from worldfork.registration import Cell, Registration, cells, digest, parse


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Findings of `verify`. `problems` are damage, which an unfinished study has none of; `notes` name what is not
    here and so could not be checked."""

    rows: int
    expected: int
    cells: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    episodes: int = 0  # rows of deployments
    expected_episodes: int = 0
    stopping: str = ""  # of a study with [stopping]: after how many checkpoints it stopped, or how far it has come
    looks_ahead: bool = False  # it has [stopping], and neither its questions are answered nor its budget is spent
    recorded: bool = False  # by a loop of its own: nothing says how many rows there should be

    @property
    def complete(self) -> bool:
        """Return whether every row is there: as registered, or up to the look at which the study stopped.

        A recorded ledger is never complete: it registers no number of rows.
        """
        counted = (self.rows, self.episodes) == (self.expected, self.expected_episodes)
        return counted and not self.looks_ahead and not self.recorded


@shows_progress
def verify(study: Study | Path | str, *, progress: Progress | None = None) -> Verdict:
    """Check every chain, digest and pair of a study; of each damaged cell the first problem is named with its row.

    Args:
        study: a study or a recorded ledger: its folder, or its file NAME.tar.xz.
        progress: called with (what, done, total); by default bars in a terminal or notebook.

    >>> import worldfork as wf
    >>> wf.verify("results/demo").problems
    ()
    """
    progress = progress or silent
    if not isinstance(study, Study):
        if is_recorded(Path(study)):
            return _verify_recorded(RecordedLedger(study))
        study = Study(study)
    registration = _registered(study)
    problems = _beside_the_rows(study, arrays=True)
    grid = {cell.id: cell for cell in cells(registration)}
    registrations = _registration_digests(study)
    published = read_published(study)
    left_out = None if published is None else published.left_out
    begun = study.cells()
    rows: dict[str, list[ForkRow]] = {}
    for number, cell in enumerate(begun, start=1):
        try:
            rows[cell.id] = _checked_rows(
                cell, study, registration, grid, registrations=registrations, left_out=left_out
            )
        except WorldforkError as error:
            problems.append(str(error))
        progress("cells", number, len(begun))
    whole = [cell for cell in begun if cell.id in rows]
    problems += [line for cell in whole for line in _shared_problems(cell, rows)]
    deployed = verify_deployments(study, registration, registrations=registrations, left_out=left_out or ())
    problems += deployed.problems
    computed = [cell.configuration for cell in whole if rows[cell.id]]
    computed += [folder.configuration for folder in deployed.whole if folder.has_rows()]
    problems += _source_problems(study, computed)
    problems += counted_twice(model_of(configuration) for configuration in computed)
    damaged, notes = _models(study, whole)
    answers = None
    if len(whole) == len(begun):  # answers are checked against rows, so damage to rows is named alone
        try:
            answers = _stored_answers(study, rows, left_out=left_out or ())
        except WorldforkError as error:
            problems.append(str(error))
    notes += _left_out_notes(study, whole, answers, left_out=left_out or (), episodes=deployed.episodes)
    with contextlib.suppress(WorldforkError):  # of an unreadable kept.json, which is a problem named above
        notes += unlisted(study, deployed.segments)
    looked = None
    if registration.stopping is not None:
        by_cell = {cell: rows.get(cell.id, []) for cell in grid.values()}
        looked = verify_looks(
            study, registration, by_cell, registrations=registrations, damaged=len(whole) < len(begun)
        )
        damaged, notes = [*damaged, *looked.problems], [*notes, *looked.notes]
    due = grid.values() if looked is None else looked.due
    return Verdict(
        rows=sum(map(len, rows.values())),
        expected=sum(registration.arm(cell.arm).stream.decision_points for cell in due),
        cells=len(begun),
        problems=(*problems, *damaged),
        notes=tuple(notes),
        episodes=deployed.episodes,
        expected_episodes=deployed.expected,
        stopping="" if looked is None else looked.outcome,
        looks_ahead=looked is not None and not looked.ended,
    )


def _verify_recorded(ledger: RecordedLedger) -> Verdict:
    rows, problems, notes = ledger.findings()
    return Verdict(len(rows), len(rows), deployments_of(rows), tuple(problems), tuple(notes), recorded=True)


def _left_out_notes(
    study: Study,
    whole: Collection[CellFolder],
    answers: Answers | None,
    *,
    left_out: Collection[str],
    episodes: int,
) -> list[str]:
    """Return a note on each kind of file that a published copy leaves out."""
    notes = []
    absent = [cell for cell in whole if not (cell.path / "window.npz").exists()]
    if RECORDINGS in left_out and absent:
        notes.append(f"The windows of {plural(len(absent), 'cell')} are not here; their rows hold the digests.")
    unlogged = {cell.stream_owner() or cell.path for cell in whole if not cell.stream_files()[0].exists()}
    if STREAMS in left_out and unlogged:
        are = "is" if len(unlogged) == 1 else "are"
        note = f"{plural(len(unlogged), 'stream')} {are} not here; rows hold their digests. "
        answered = {path.name for path in unlogged} & set(answers.streams if answers is not None else ())
        if answers is None or not answered:
            note += "The detectors that read them can not be scored from this copy."
        else:
            detectors = ", ".join(dict.fromkeys(asked.trigger for asked in answers.triggers))
            on = "them" if len(answered) == len(unlogged) else f"{len(answered)} of them"
            note += f"What {detectors} answered on {on} is in {ANSWERS}, as the publisher's word: no row holds its "
            note += "digest."
        notes.append(note)
    for pattern, what in ((DEPLOYED_RECORDINGS, "transitions"), (DEPLOYED_STREAMS, "logs")):
        if episodes and pattern in left_out and not segment_files(study.path, suffix=Path(pattern).suffix):
            notes.append(f"The {what} of the deployments are not here; their rows hold the digests.")
    return notes


def root(study: Study) -> str:
    """Return one digest over the whole ledger: registration, amendments, kept files, and the end of every chain.

    A forger who computes every digest anew passes `verify`, but can not keep the root. Publish it where it can not
    be changed together with the ledger.
    """
    ends = sorted([cell.id, cell.last_digest()] for cell in study.cells())
    amendments = [amendment.digest for amendment in study.amendments()]
    followed = sorted([folder.policy, folder.id, folder.last_digest()] for folder in study.deployments())
    looks = study.looks()
    return digest(
        {
            "registration": study.registration_digest,
            "amendments": amendments,
            "kept": study.kept().files,
            "cells": ends,
            **({"deployments": followed} if followed else {}),
            **({"looks": looks[-1].digest} if looks else {}),
        }
    )


def identity(folder: Path | str) -> tuple[str, str, str]:
    """Return the name of a ledger, the digest of its registration or its recorder's settings, and its root."""
    if is_recorded(Path(folder)):
        ledger = RecordedLedger(folder)
        return Path(folder).resolve().name, ledger.settings.digest, ledger.root()
    study = Study(folder)
    return study.registration.name, study.registration_digest, root(study)


def require_as_registered(study: Study) -> None:
    """Raise if the registration, or a file beside the cells, is not the one that the rows were made under.

    For readers that score: rows are checked as they are read, and models, which no score reads, are not hashed.
    """
    registrations = _registration_digests(study)
    problems = _beside_the_rows(study, arrays=False)
    problems += filter(None, (of_another_registration(cell, registrations) for cell in study.cells()))
    if problems:
        raise WorldforkError(f"`{study.path}`: {problems[0]} Run `worldfork verify {study.path}`.")


def _beside_the_rows(study: Study, *, arrays: bool) -> list[str]:
    """Return the problems of the registration, its amendments and the files beside the cells."""
    return [
        *_registration_problems(study, _registered(study)),
        *_amendment_problems(study),
        *_copy_problems(study),
        *_kept_problems(study, arrays=arrays),
    ]


def _registered(study: Study) -> Registration:
    """Return the registration; of one that was edited, name that and not the contradictions that followed."""
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
    """Check registration.json against its digest and against registration.toml."""
    stored = study.registered()
    written = as_file(stored.model_dump(mode="json"))
    if not stored.intact or (study.path / "registration.json").read_bytes() != written:
        return ["registration.json is not what was written: its digest does not match."]
    try:
        authored = parse((study.path / "registration.toml").read_text(encoding="utf-8"), name="registration.toml")
    except (OSError, UnicodeDecodeError, WorldforkError) as error:
        return [f"registration.toml can not be read: {error}"]
    return [] if authored == registration else ["registration.toml is not the one that was registered."]


def _amendment_problems(study: Study) -> list[str]:
    """Check that the amendments lead, one after the other, to the registration."""
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
    """Check that published.json names this study's registration."""
    published = read_published(study)
    if published is not None and published.registration != study.registration_digest:
        return ["published.json belongs to another study."]
    return []


def _kept_problems(study: Study, *, arrays: bool) -> list[str]:
    """Check the files beside the cells against kept.json; a published copy may lack those it leaves out."""
    path = study.path / "kept.json"
    try:
        kept, published = study.kept(), read_published(study)
    except WorldforkError as error:
        return [str(error)]
    if not kept.intact or (path.exists() and path.read_bytes() != as_file(kept.model_dump(mode="json"))):
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


def _registration_digests(study: Study) -> set[str]:
    """Return the digests that a cell may point to: of the registration, and of those before its amendments."""
    try:
        earlier = {amendment.before for amendment in study.amendments()}
    except WorldforkError:  # named already
        earlier = set()
    return {study.registration_digest, *earlier}


def _checked_rows(
    folder: CellFolder,
    study: Study,
    registration: Registration,
    grid: Mapping[str, Cell],
    *,
    registrations: set[str],
    left_out: Collection[str] | None,
) -> list[ForkRow]:
    """Return the rows of a cell, each checked against the files that it names and the registration.

    `left_out` are the patterns of the files that a published copy lacks; None for a study that is no copy.
    """
    if folder.id not in grid:
        raise WorldforkError(f"{folder.id} is not a cell of the registration.")
    arm = registration.arm(grid[folder.id].arm)
    check_configuration(folder, study, grid[folder.id], registrations=registrations)
    rows, points = folder.rows(), arm.stream.decision_points
    if len(rows) > points:
        raise WorldforkError(f"{folder.id}: {plural(len(rows), 'row')} where {points} are registered.")
    if not rows:
        return rows
    log = _log(folder, left_out=left_out)
    stream, recording = rows[0].stream if log is None else content_digest(log), rows[0].window
    if (folder.path / "window.npz").exists() or left_out is None or RECORDINGS not in left_out:
        recording = content_digest(folder.read_recording())
    calculated = expected(folder.configuration, arm.stream, signals=registration.signals)
    for row in rows:
        where = f"{folder.id}, fork {row.k}"
        if (row.stream, row.window) != (stream, recording):
            raise WorldforkError(f"{where}: stream.parquet or window.npz is not the one this row was made from.")
        if row.draws.hold != row.draws.update:
            raise WorldforkError(f"{where}: the branches received different random draws; the pair is no pair.")
        if {len(row.hold), len(row.update)} != {arm.evaluation.episodes}:
            raise WorldforkError(
                f"{where}: {len(row.hold)} episodes of HOLD and {len(row.update)} of UPDATE where "
                f"{arm.evaluation.episodes} are registered."
            )
        means = mean(row.hold), mean(row.update)
        if (row.r_hold, row.r_update, row.delta) != (*means, gain(*means)):
            raise WorldforkError(f"{where}: the means or their difference do not follow from the episodes.")
        if wrong := calculated.of_row(row):
            raise WorldforkError(f"{where}: {wrong}.")
    if log is not None:
        if wrong := calculated.of_log(log):
            raise WorldforkError(f"{folder.id}: {wrong}.")
        for row in rows:
            if wrong := calculated.beside_log(row, log):
                raise WorldforkError(f"{folder.id}, fork {row.k}: {wrong}.")
    return rows


def _log(folder: CellFolder, *, left_out: Collection[str] | None) -> Columns | None:
    """Return the log that the rows were made from, in a copy perhaps the owner's; None if it was left out."""
    log, _ = folder.stream_files()
    if left_out is None:  # only a copy keeps a shared stream once
        log = folder.path / log.name
    elif STREAMS in left_out and not log.exists():
        return None
    return read_parquet(log)


def _stored_answers(
    study: Study, rows: Mapping[str, list[ForkRow]], *, left_out: Collection[str]
) -> Answers | None:
    """Return the answers that stand in for streams; raise if a study with streams has such a file."""
    answers = read_answers(study, rows)
    if answers is not None and STREAMS not in left_out:
        raise WorldforkError(f"{ANSWERS} is for copies that were published without streams, and this is none.")
    return answers


def _shared_problems(cell: CellFolder, rows: Mapping[str, list[ForkRow]]) -> list[str]:
    """Check that a cell which took its HOLD branch from another has the other's returns and draws."""
    owner = cell.configuration["shares"]["hold"]
    for row, held in zip(rows[cell.id], rows.get(owner, []), strict=False):
        if (row.hold, row.draws.hold, row.stream) != (held.hold, held.draws.hold, held.stream):
            return [f"{cell.id}, fork {row.k}: HOLD is not that of {owner}, from which it was taken."]
    return []


def _source_problems(study: Study, configurations: list[dict[str, Any]]) -> list[str]:
    """Check that the list of modules is there for every digest of source that the cells name."""
    named = {configuration["source"] for configuration in configurations}
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
    """Return the problems of the models that were deployed, and a note on those that are not here."""
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
        # An agent chooses the files of a checkpoint; the digest is of one of them.
        models = sorted(path for path in folder.glob(f"{name}.*") if path.suffix != ".json")
        if models:
            sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in models]
            named.add(next((found for found in sums if found in digests), sums[0]))
        else:
            absent.append("the digests in their manifests" if manifest.exists() else "the digests in the cells")
        if len(named) > 1:
            problems.append(f"checkpoint {name}: the model, its manifest and the cells do not name one digest.")
    return problems, [
        f"{count} of {len(wanted)} models are not here: there are {stand_in} alone."
        for stand_in, count in collections.Counter(absent).items()
    ]


def _digests_in(manifest: Path) -> set[str]:
    """Return the digest that a manifest names; none for a .json in which an agent keeps something else."""
    if not manifest.exists():
        return set()
    try:
        record = read_json(manifest)
    except WorldforkError:
        return {"unreadable"}
    return {str(record["digest"])} if "digest" in record else set()
