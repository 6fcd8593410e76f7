"""A whole study as calls in order: the file to read first.

    registration -> what determines the rows -> streams -> blocks of forks -> rows in a ledger
                                                        -> closed-loop deployments, where registered
                                   with [stopping]: a look, then the next checkpoints, until all is answered

Forks are computed by the jobs of `worldfork.lab.forks.jobs` and deployments by those of `lab.closed_loop.jobs`,
which an executor performs here or elsewhere. Everything is written through `worldfork.ledger.store`, and only this
process writes. An interrupted run is carried on by the same call: what is in the ledger stays, what is missing is
done.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from worldfork.errors import Failed, WorldforkError
from worldfork.executors.base import Answers, Executor, opened
from worldfork.lab.closed_loop import jobs as closed_loop
from worldfork.lab.closed_loop.stage import FitThresholds, run_deployments
from worldfork.lab.determinism import as_recorded, require_again
from worldfork.lab.forks.checkpoints import checkpoint_files, keep_checkpoints
from worldfork.lab.forks.context import outside_code
from worldfork.lab.forks.jobs import (
    Describe,
    Described,
    Identity,
    Job,
    Label,
    Labelled,
    RunStreams,
    Setting,
    Streamed,
    identity_of,
    perform,
)
from worldfork.lab.forks.label import Fork
from worldfork.lab.forks.plan import Block, StoredStream, fork_blocks, stored_stream, stream_batches
from worldfork.lab.tools.probe import outside_tasks, probe_setting
from worldfork.ledger import files
from worldfork.ledger.cell import ChainFolder
from worldfork.ledger.consistency import counted_twice, model_of
from worldfork.ledger.looks import follow, outcome
from worldfork.ledger.row import ForkRow, Rows
from worldfork.ledger.store import Deployed, Study, StudyWriter, writing
from worldfork.progress import Notify, Progress, ignore, silent
from worldfork.registration import (
    Cell,
    Registration,
    canonical,
    cells,
    deployments,
    difference,
    hold_owner,
    open_authored,
    stream_owner,
)
from worldfork.registration.reading import require_tasks

Result = TypeVar("Result", Described, Streamed, Labelled, closed_loop.Ended)
FAILURES: Final = "failures.log"  # tracebacks, for whoever wrote the code that failed


def run(
    registration: Registration | Path | str,
    folder: Path | str,
    *,
    executor: Executor | str = "local",
    workers: int | None = None,
    settings: Mapping[str, Any] | None = None,
    amend: str | None = None,
    tasks: Collection[str] | None = None,
    probe: bool = True,
    fit_thresholds: FitThresholds | None = None,
    progress: Progress = silent,
    notify: Notify = ignore,
) -> Study:
    """Run a registration into the study at `folder`, or carry on where an earlier run stopped.

    Args:
        registration: a file, the name of one that comes with worldfork, or a record. Relative paths in it start
            where its file lies.
        folder: the study's folder: new, or that of an earlier run.
        executor: a name of the registry, or an object with its method `map`.
        workers: a setting of a named executor.
        settings: its other settings.
        amend: why the registration changed after rows existed.
        tasks: run these alone. The others are left to a later run of the same registration, which needs their
            checkpoints only then.
        probe: try a new study first on one small block where its agent, world or mechanism does not come with
            worldfork.
        fit_thresholds: fits the thresholds of [deployment] on the one-step rows of other checkpoints.
        progress: called with (what, done, total).
        notify: called with a sentence worth knowing.
    """
    text, root = open_authored(registration)
    for located in outside_code(text.registration):
        notify(f"This registration runs code that does not come with worldfork: {located}")
    with (
        opened(executor, {**(settings or {}), **({} if workers is None else {"workers": workers})}) as chosen,
        writing(folder, text.registration, authored=text.text, amend=amend) as study,
    ):
        this = _Run(text.registration, root, study, chosen, progress=progress, notify=notify)
        due = _first_cells(study, text.registration, _tasks(text.registration, tasks))
        rows: Rows = {}
        while due:
            this.reach(due)
            described = this.describe()
            if probe and not any(cell.has_rows() for cell in study.cells()):
                this.probe(here=getattr(chosen, "here", False))
            rows |= this.begin(described)
            this.run_streams()
            this.run_forks(rows)
            due = this.look(rows)
        if this.registration.deployment is not None:
            run_deployments(
                study,
                this.registration,
                setting=this.setting,
                identities=this.deployed_identities,
                fit=fit_thresholds,
                map_jobs=lambda jobs: this.map(jobs, closed_loop.Ended),
                progress=progress,
            )
    return study


class _Run:
    """A call of `run`: what is to be done, and the executor that does it."""

    def __init__(
        self,
        registration: Registration,
        root: Path,
        study: StudyWriter,
        executor: Executor,
        *,
        progress: Progress,
        notify: Notify,
    ) -> None:
        self.registration, self.study = registration, study
        self.executor, self.progress, self.notify = executor, progress, notify
        self._root = root  # where relative paths start
        self.deployments: Described | None = None  # what determines the rows of [deployment]
        self.identities: dict[Cell, Identity] = {}  # what workers must be
        self.deployed_identities: dict[Deployed, Identity] = {}
        self._stream_of = stream_owner(self.registration)
        self._named: dict[Cell, StoredStream] = {}

    def reach(self, reached: tuple[Cell, ...]) -> None:
        """Take up these cells: all of them, or with [stopping] those before the next look."""
        self.cells = reached
        copies = self.study.path / "checkpoints"
        self.models = checkpoint_files(self.registration, root=self._root, copies=copies, of=reached)
        self.setting = Setting.of(self.registration, self.models)

    def describe(self) -> Described:
        """Return what will determine every row, as the workers describe it. Nothing has been written yet."""
        jobs: list[Job] = [Describe(self.setting, self.cells)]
        if self.registration.deployment is not None:
            jobs.append(closed_loop.DescribeDeployments(self.setting))
        results = dict(self.map(jobs, Described))
        self.deployments = results.get(1)
        return results[0]

    def probe(self, *, here: bool) -> None:
        """Try what does not come with worldfork before time is spent on it (`worldfork.lab.tools.probe`)."""
        if tasks := outside_tasks(self.registration):
            self.notify(
                f"probing {', '.join(tasks)} on one small block first, since not all of the code comes with "
                "worldfork; --no-probe leaves that out, in Python probe=False"
            )
            trial = probe_setting(self.setting, tasks=tasks, executor=None if here else self.executor)
            if not trial.passed:
                raise WorldforkError(f"{trial}\n(--no-probe, in Python probe=False, runs the study all the same.)")
            self.notify(f"probed: {trial}")

    def begin(self, described: Described) -> Rows:
        """Open every cell and read what is there; refuse what was made under another configuration. Then keep what
        a ledger needs: its models, the record of the seeds they were chosen from, and which source computed it."""
        configurations = {
            cell.id: _as_begun(self.study.cell(cell.id), resolved)
            for cell, resolved in zip(self.cells, described.configurations, strict=True)
        }
        self._require_one_kind(configurations)
        begun = [cell.configuration for cell in self.study.cells() if cell.id not in configurations]
        if equal := counted_twice(map(model_of, [*begun, *configurations.values()])):
            raise WorldforkError("\n".join(equal))
        places = [(policy, cell.id) for policy, cell in deployments(self.registration)]
        deployed = {
            place: _as_begun(self.study.deployment(*place), resolved)
            for place, resolved in zip(
                places, self.deployments.configurations if self.deployments else [], strict=True
            )
        }
        sources = {**described.sources, **(self.deployments.sources if self.deployments else {})}
        rows, notes = self.study.begin(configurations, deployed=deployed, sources=sources)
        self.identities |= {cell: identity_of(configurations[cell.id]) for cell in self.cells}
        self.deployed_identities = {place: identity_of(resolved) for place, resolved in deployed.items()}
        for cell in self.cells:
            self.study.cell(cell.id).write_execution({**described.host, "began": time.time()})
        for line in (*notes, *described.remarks):
            self.notify(line)
        for digest, modules in sources.items():
            self.study.keep(f"sources/{digest}.json", (canonical(modules) + "\n").encode())
        keep_checkpoints(self.study, self.models)
        return {cell: rows[cell.id] for cell in self.cells}

    def _require_one_kind(self, configurations: Mapping[str, dict[str, Any]]) -> None:
        """Raise if the cells after a look were described by a worker of another kind than those before it."""
        before = {(cell.arm, cell.task): identity for cell, identity in self.identities.items()}
        for cell in self.cells:
            identity = identity_of(configurations[cell.id])
            if changes := difference(dict(before.get((cell.arm, cell.task), identity)), dict(identity)):
                raise WorldforkError(
                    f"{cell.id} would be computed by a worker of another kind than the checkpoints before it:\n  "
                    + "\n  ".join(changes)
                    + "\nRows of two kinds are never mixed: give the study workers of one kind, and run it again."
                )

    def run_streams(self) -> None:
        """Stage 1: every stream that is not on disk yet. Cells that share one take it from its owner."""
        batches = [batch for batch in stream_batches(self.registration) if batch[0] in self.identities]
        missing = [batch for batch in batches if not all(self.study.cell(cell.id).has_stream() for cell in batch)]
        done, total = sum(map(len, batches)) - sum(map(len, missing)), sum(map(len, batches))
        self.progress("streams", done, total)
        jobs = [RunStreams(self.setting.only(batch), batch, self.identities[batch[0]]) for batch in missing]
        for index, result in self.map(jobs, Streamed):
            for cell, stream in zip(missing[index], result.streams, strict=True):
                self.study.cell(cell.id).write_stream(stream.log, stream.recording)
                took = {"what": "streams", "seconds": result.seconds, "worker": result.worker}
                self.study.cell(cell.id).note("timings.jsonl", took)
            done += len(missing[index])
            self.progress("streams", done, total)
        for cell, owner in self._stream_of.items():
            if cell != owner and cell in self.identities:
                self.study.cell(cell.id).share_stream(self.study.cell(owner.id))

    def run_forks(self, rows: Rows) -> None:
        """Stage 2: first the forks that evaluate HOLD themselves, then those of arms that share it with them."""
        owners = hold_owner(self.registration)
        total = sum(self.registration.arm(cell.arm).stream.decision_points for cell in rows)
        self.progress("forks", sum(map(len, rows.values())), total)
        for shared in (False, True):
            # The whole block is computed again even if some of its rows exist: a batch of another size could round
            # differently. Rows that exist are compared, and not written again (`_write_in_order`).
            missing = [
                block
                for block in fork_blocks(self.registration, shared=shared)
                if block[0][0] in rows
                and any(k > len(rows[cell]) for cell, k in block)
                and all(k <= len(rows[owners[cell]]) for cell, k in block if shared)
            ]
            missing = _tasks_in_turn(missing)
            early: dict[tuple[Cell, int], ForkRow] = {}
            jobs = (self._label(block, rows, owners) for block in missing)
            for index, result in self.map(jobs, Labelled):
                if [(cell.id, k) for cell, k in missing[index]] != [(row.cell, row.k) for row in result.rows]:
                    (first, k), *_ = missing[index]
                    raise Answers(self.executor).wrong(
                        f"answered {first.id} from fork {k} on with the rows of another block"
                    )
                early.update(zip(missing[index], result.rows, strict=True))
                for cell in dict.fromkeys(cell for cell, _ in missing[index]):
                    _write_in_order(self.study, cell, rows=rows[cell], early=early)
                took = {"what": "block", "seconds": result.seconds, **result.spent, "worker": result.worker}
                self.study.cell(missing[index][0][0].id).note("timings.jsonl", took)
                self.progress("forks", sum(map(len, rows.values())), total)

    def look(self, rows: Rows) -> tuple[Cell, ...]:
        """Record what the rows now say of the questions of [stopping]; return the cells that come next, if any."""
        if self.registration.stopping is None:
            return ()
        course = follow(self.registration, rows)
        if beyond := [cell.id for cell in rows if cell not in course.due]:
            raise WorldforkError(
                f"{beyond[0]} was begun, and by the rows its task had stopped before. Use a new study folder."
            )
        self.study.record_looks(course.looks)
        if course.ended:
            self.notify(outcome(self.registration, course.looks))
        return tuple(cell for cell in course.due if cell not in rows)

    def map(self, jobs: Iterable[Job], expected: type[Result]) -> Iterator[tuple[int, Result]]:
        """Have the jobs done. What fails is told once everything else is safe, and its traceback is kept; so is
        what an executor lost."""
        failures: list[tuple[str, str]] = []  # the job's name, and the reason
        answers = Answers(self.executor)
        names = answers.names
        begun = self.study.path.joinpath("registration.json").exists()  # a refused run leaves nothing behind
        for index, result in answers.of(jobs, function=perform):
            if isinstance(result, Failed):
                failures.append((names[index], result.reason))
                if begun:
                    files.append(self.study.path / FAILURES, f"{names[index]}\n{result.details}\n".encode())
            elif isinstance(result, expected):
                yield index, result
            else:
                raise answers.wrong(f"answered {names[index]} with a {type(result).__name__}")
        failures += [(names[index], "the executor did not bring it back") for index in answers.missing()]
        if failures and not begun:
            reasons = dict.fromkeys(reason for _, reason in failures)  # several set-ups fail for one reason
            raise WorldforkError("The study could not begin, and nothing was written:\n  " + "\n  ".join(reasons))
        if failures:
            raise WorldforkError(
                f"{len(failures)} of the study's tasks failed; what is finished is in the ledger, and the same "
                f"command tries the rest again (tracebacks: {self.study.path / FAILURES}):\n  "
                + "\n  ".join(f"{name}: {reason}" for name, reason in failures)
            )

    def _label(self, block: Sequence[tuple[Cell, int]], rows: Rows, owners: Mapping[Cell, Cell]) -> Label:
        forks = tuple(
            Fork(
                cell,
                k,
                self._stream(cell),
                held=rows[owners[cell]][k - 1] if owners[cell] != cell else None,
            )
            for cell, k in block
        )
        together = [cell for cell, _ in block]
        return Label(self.setting.only(together), forks, self.identities[together[0]])

    def _stream(self, cell: Cell) -> StoredStream:
        owner = self._stream_of[cell]
        if owner not in self._named:
            self._named[owner] = stored_stream(self.study, owner)
        return self._named[owner]


def _tasks(registration: Registration, wanted: Collection[str] | None) -> Collection[str]:
    """Return the tasks that this call runs."""
    if wanted is None or set(wanted) == set(registration.tasks):
        return registration.tasks.keys()
    require_tasks(registration, wanted)
    if registration.deployment is not None:
        raise WorldforkError(
            f"`{registration.name}` deploys policies in closed loop, with thresholds that are fitted once all "
            "forks are there: run all of its tasks together."
        )
    if registration.stopping is not None:
        raise WorldforkError(
            f"`{registration.name}` has looks at all of its tasks ([stopping]): run them together."
        )
    return wanted


def _first_cells(study: Study, registration: Registration, tasks: Collection[str]) -> tuple[Cell, ...]:
    """Return the cells to begin with: all, or with [stopping] those before the first look and those that an earlier
    run went on to."""
    every = tuple(cell for cell in cells(registration) if cell.task in tasks)
    if registration.stopping is None:
        return every
    groups = registration.stopping.groups(registration.grid.checkpoints)
    group_of = {checkpoint: number for number, group in enumerate(groups) for checkpoint in group}
    begun = {folder.id for folder in study.cells()}
    reached = {(cell.task, group_of[cell.checkpoint]) for cell in every if cell.id in begun}
    return tuple(
        cell
        for cell in every
        if group_of[cell.checkpoint] == 0 or (cell.task, group_of[cell.checkpoint]) in reached
    )


def _tasks_in_turn(blocks: Sequence[Block]) -> list[Block]:
    """Return the first block of every task, then the second of every task: workers that share a machine are then
    mostly at different ones, and while one waits for its physics another plans."""
    counted: Counter[str] = Counter()

    def turn(block: Block) -> int:
        counted[block[0][0].task] += 1
        return counted[block[0][0].task]

    return sorted(blocks, key=turn)


def _as_begun(folder: ChainFolder[Any], resolved: dict[str, Any]) -> dict[str, Any]:
    """Return a cell's configuration on the processor that it was begun on, if this one is known to give its
    digits."""
    begun = (folder.path / "cell.json").exists()
    return as_recorded(resolved, folder.configuration) if begun else resolved


def _write_in_order(
    study: Study, cell: Cell, *, rows: list[ForkRow], early: dict[tuple[Cell, int], ForkRow]
) -> None:
    """Append what follows on what is there; a row that came early waits for those before it.

    A block that a kill cut short is computed again as a whole, and what it already wrote must come out again.
    """
    for row in rows:
        again = early.pop((cell, row.k), None)
        if again is not None:
            require_again(f"{cell.id}, fork {row.k}", row, again)
    ready: list[ForkRow] = []
    while (cell, len(rows) + len(ready) + 1) in early:
        ready.append(early.pop((cell, len(rows) + len(ready) + 1)))
    rows += study.cell(cell.id).append(ready)
