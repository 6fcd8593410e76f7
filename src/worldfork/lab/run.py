"""A whole study as calls in order: the file to read first.

    registration -> streams -> blocks of forks -> rows in a ledger

What is computed comes from `worldfork.lab.forks.work.perform`, which touches no file and can run anywhere; what is
written goes through `worldfork.ledger.store`, and only this process writes. An interrupted run is carried on by the
same call: what is in the ledger stays, what is missing is done.
"""

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from worldfork.errors import WorldforkError
from worldfork.lab.forks.bench import Bench, checkpoint_source
from worldfork.lab.forks.blocks import fork_blocks, places, stream_batches
from worldfork.lab.forks.work import BlockWork, Failed, Forked, Streamed, StreamWork, perform
from worldfork.lab.stream import columns
from worldfork.ledger import files
from worldfork.ledger.pretraining import keep_record
from worldfork.ledger.row import ForkRow
from worldfork.ledger.store import Study, writing
from worldfork.registration import Cell, canonical, cells, hold_owner, parse, stream_owner

__all__ = ["Execute", "Report", "in_turn", "run"]

Execute = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[tuple[int, Any]]]
Report = Callable[[str, int, int], None]  # of what, how many are done, of how many
Rows = dict[Cell, list[ForkRow]]


def in_turn(function: Callable[[Any], Any], works: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """The simplest executor: one piece of work after another, here. Others may answer in any order."""
    return ((index, function(work)) for index, work in enumerate(works))


def run(
    path: Path,
    folder: Path,
    *,
    amend: str | None = None,
    execute: Execute = in_turn,
    report: Report = lambda what, done, total: None,
    say: Callable[[str], None] = lambda line: None,
) -> Study:
    """Run the registration at `path` into the study at `folder`, or carry on where it stopped."""
    authored = path.read_text(encoding="utf-8")
    registration = parse(authored, name=str(path))
    with writing(folder, registration, authored=authored, amend=amend) as study:
        bench = Bench(registration, study.path / "checkpoints")
        collect_checkpoints(bench, study, root=path.parent)
        rows = begin_cells(bench, study, say)
        run_streams(bench, study, execute=execute, report=report)
        run_forks(bench, study, rows, execute=execute, report=report)
    return study


def collect_checkpoints(bench: Bench, study: Study, *, root: Path) -> None:
    """Put a copy of every checkpoint and its manifest into the study, and of the record of the seeds they were
    chosen from: a ledger needs its models."""
    for task, index in sorted({(cell.task, cell.checkpoint) for cell in cells(bench.registration)}):
        source = checkpoint_source(bench.registration, task, index, root=root)
        if source is None:
            continue
        keep_record(study, source.parent)
        for suffix in (".safetensors", ".json"):
            target, original = bench.checkpoints / f"{task}-{index}{suffix}", source.with_suffix(suffix)
            if not target.exists():
                if not original.exists():
                    raise WorldforkError(f"There is no checkpoint `{original}`: pretrain it, or correct its path.")
                target.parent.mkdir(exist_ok=True)
                files.replace(target, original.read_bytes())


def begin_cells(bench: Bench, study: Study, say: Callable[[str], None]) -> Rows:
    """Open every cell and read what is there; refuse what was made under another configuration."""
    amended = [entry["before"] for entry in study.amendments()]
    host = {"host": platform.node(), "machine": platform.machine(), "python": platform.python_version()}
    places = dict.fromkeys((cell.task, cell.checkpoint) for cell in cells(bench.registration))
    remarks = {place: bench.checkpoint(*place).remark for place in places}
    rows = {}
    for cell in cells(bench.registration):
        folder = study.cell(cell.id)
        rows[cell], note = folder.begin(bench.configuration(cell), amended=amended)
        files.replace(folder.path / "execution.json", (canonical({**host, "began": time.time()}) + "\n").encode())
        for line in filter(None, (note, remarks.pop((cell.task, cell.checkpoint), ""))):
            say(line)
    return rows


def run_streams(bench: Bench, study: Study, *, execute: Execute, report: Report) -> None:
    """Stage 1: every stream that is not on disk yet. Cells that share one take it from its owner."""
    registration, failures = bench.registration, []
    missing = [
        batch
        for batch in stream_batches(registration)
        if not all(study.cell(cell.id).has_stream() for cell in batch)
    ]
    spelled = canonical(registration.model_dump(mode="json", by_alias=True))
    report("streams", 0, len(missing))
    works = [StreamWork(spelled, bench.checkpoints, batch) for batch in missing]
    for done, (index, result) in enumerate(execute(perform, works), start=1):
        if isinstance(result, Failed):
            failures.append(f"{missing[index][0].id} and its batch: {result.reason}")
            continue
        assert isinstance(result, Streamed)
        for cell, (log, recording) in zip(missing[index], result.streams, strict=True):
            study.cell(cell.id).write_stream(columns(log), columns(recording))
            study.cell(cell.id).note("timings.jsonl", {"what": "streams", "seconds": result.seconds})
        report("streams", done, len(missing))
    tell(failures, "streams")
    for cell, owner in stream_owner(registration).items():
        if cell != owner:
            study.cell(cell.id).share_stream(study.cell(owner.id))


def run_forks(bench: Bench, study: Study, rows: Rows, *, execute: Execute, report: Report) -> None:
    """Stage 2: first the forks that evaluate HOLD themselves, then those of arms that share it with them."""
    registration, owners, failures = bench.registration, hold_owner(bench.registration), []
    spelled = canonical(registration.model_dump(mode="json", by_alias=True))
    total = sum(registration.arm(cell.arm).stream.decision_points for cell in rows)
    report("forks", sum(map(len, rows.values())), total)
    for shared in (False, True):
        missing = [
            block
            for block in fork_blocks(registration, shared=shared)
            if any(k > len(rows[cell]) for cell, k in block)
            and all(k <= len(rows[owners[cell]]) for cell, k in block if shared)
        ]
        early: dict[tuple[Cell, int], ForkRow] = {}
        works = (
            BlockWork(spelled, bench.checkpoints, places(study, block, rows=rows, owners=owners))
            for block in missing
        )
        for index, result in execute(perform, works):
            if isinstance(result, Failed):
                failures.append(f"{missing[index][0][0].id} from fork {missing[index][0][1]} on: {result.reason}")
                continue
            assert isinstance(result, Forked)
            early.update(zip(missing[index], result.rows, strict=True))
            for cell in dict.fromkeys(cell for cell, _ in missing[index]):
                write_in_order(study, cell, rows[cell], early)
            took = {"what": "block", "seconds": result.seconds, **result.spent}
            study.cell(missing[index][0][0].id).note("timings.jsonl", took)
            report("forks", sum(map(len, rows.values())), total)
    tell(failures, "blocks of forks")


def write_in_order(study: Study, cell: Cell, known: list[ForkRow], early: dict[tuple[Cell, int], ForkRow]) -> None:
    """Append what follows on what is there; a row that came early waits for those before it.

    A block that a kill cut short is computed again as a whole, and what it already wrote must come out again.
    """
    for row in known:
        again = early.pop((cell, row.k), None)
        if again is not None and again.model_copy(update={"prev": row.prev, "digest": row.digest}) != row:
            raise WorldforkError(
                f"{cell.id}, fork {row.k} came out differently when it was computed again: this machine or its "
                "libraries do not reproduce what the study began with. Go on where it began, or use a new folder."
            )
    ready: list[ForkRow] = []
    while (cell, len(known) + len(ready) + 1) in early:
        ready.append(early.pop((cell, len(known) + len(ready) + 1)))
    known += study.cell(cell.id).append(ready)


def tell(failures: Sequence[str], what: str) -> None:
    """Say what failed, once everything else is safe."""
    if failures:
        raise WorldforkError(
            f"{len(failures)} {what} failed; the rest is in the ledger, and the same command tries them again:\n  "
            + "\n  ".join(failures)
        )
