"""`worldfork reproduce`: from an empty folder to the page, every stage by the wall clock."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from worldfork.cli.stages import Stages, spoken
from worldfork.errors import WorldforkError
from worldfork.progress import Progress

if TYPE_CHECKING:
    from worldfork.ledger.verify import Verdict
    from worldfork.registration import Registration


# What tables and page need beside the lab's packages: a machine that only computes may lack it.
ANALYSIS: Final = {"jinja2", "markupsafe", "matplotlib", "polars", "river", "scipy", "threadpoolctl"}


def reproduce(
    registration: str = typer.Argument(help="A registration's file, or the name of one that comes with worldfork."),
    output: Path = typer.Option(..., "-o", "--output", help="A new folder, or one to carry on with."),
    task: list[str] = typer.Option([], help="Only this task. May be repeated. Default: all."),
    workers: int | None = typer.Option(
        None, min=1, help="Processes that compute the study's blocks; else this one."
    ),
    side_by_side: bool = typer.Option(
        False,
        "--side-by-side",
        help="Run a task as soon as its checkpoints are there, beside the pretraining of the others.",
    ),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bars."),
) -> None:
    """Pretrain what a registration needs, run it, verify it, write its tables and its page; say what took how long.

    Example: worldfork reproduce demo -o runs/reproduced

    The folder then holds registrations/, checkpoints/, study/ (the ledger), tables.md, index.html (the page) and
    stages.jsonl (the seconds). Interrupt it whenever you like: the same command carries on, here or on another
    machine. Checkpoints in checkpoints/NAME come from the recipe pretrain-NAME, which lies beside the registration
    or comes with worldfork; worldfork's own studies with power have recipes with more seeds, which it knows.
    """
    from worldfork.cli.interruptible import interruptible
    from worldfork.executors.base import opened
    from worldfork.executors.local import shared
    from worldfork.progress import bars
    from worldfork.registration import authored, open_authored
    from worldfork.registration.reading import only_tasks

    text, root = open_authored(registration)
    if task:
        restricted = only_tasks(text.registration, tuple(dict.fromkeys(task)))
        text = text if restricted is text.registration else authored(restricted)
    stages = Stages(output / "stages.jsonl", typer.echo)
    study = output / "study"
    again = " ".join(
        [
            *("worldfork", "reproduce", registration, "-o", str(output)),
            *(word for name in task for word in ("--task", name)),
            *(["--side-by-side"] if side_by_side else []),
        ]
    )
    with interruptible(f"what is finished is kept. To carry on: {again}") as check:
        if not _finished(study, text.registration):
            # Beside the folder of checkpoints, so that relative paths mean what they mean where it comes from.
            written = output / "registrations" / f"{text.registration.name}.toml"
            _write(written, text.text)
            recipes = _recipes(text.registration, written.parent, beside=root, within=output)
            side_by_side = side_by_side and len(recipes) > 1
            sharing = shared(1 + (workers or 1)) if side_by_side else contextlib.nullcontext()
            settings = {} if workers is None else {"workers": workers}
            with sharing, opened("local", settings) as executor, bars(quiet=quiet) as draw:

                def progress(what: str, done: int, total: int) -> None:
                    check()
                    draw(what, done, total)

                pretrain = _pretrain_side_by_side if side_by_side else _pretrain_in_turn
                for ready in pretrain(recipes, text.registration, stages, progress):
                    named = f" ({', '.join(ready)})" if side_by_side else ""
                    with stages.stage(f"run {text.registration.name}{named}"):
                        import worldfork as wf

                        wf.run(written, study, tasks=ready, executor=executor, progress=progress, notify=_whisper)
        with stages.stage("verify"), bars(quiet=quiet) as draw:
            _require_sound(_verified(study, draw))
        try:
            _write_tables_and_page(study, output, stages, quiet=quiet)
        except ModuleNotFoundError as error:
            if str(error.name).split(".")[0] not in ANALYSIS:
                raise
            typer.echo(_table(stages))
            raise WorldforkError(
                f"the study is in {study}, complete and verified. Its tables and its page need the analysis, and "
                f"`{error.name}` is not installed here: install worldfork, or copy {output} to where it is and run "
                f"the same command there: {again}"
            ) from None
    typer.echo(
        f"\n{_table(stages)}\n\n{output / 'index.html'}: open it in a browser. Tables: {output / 'tables.md'}"
    )


@dataclasses.dataclass(frozen=True)
class _Job:
    """A recipe, and the folder that its checkpoints go to."""

    recipe: Path
    folder: Path
    tasks: frozenset[str] = frozenset()  # of the registration that need it

    @property
    def stage(self) -> str:
        return f"pretrain {self.recipe.stem}"

    @property
    def log(self) -> Path:
        return self.folder / "pretraining.log"

    def begin(self) -> "subprocess.Popen[bytes]":
        """Train it in a process of its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        words = ["pretrain", str(self.recipe), "-o", str(self.folder), "--quiet"]
        command = [sys.executable, "-m", "worldfork.cli.main", *words]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)  # noqa: S603 - this interpreter, our own verb


def _recipes(registration: "Registration", root: Path, *, beside: Path, within: Path) -> list[_Job]:
    """Return the recipes to train before a registration that lies at `root` can run, copied there from `beside` or
    from worldfork. Checkpoints that are there already, bundled or generated need none."""
    from worldfork.lab.forks.checkpoints import checkpoint_source
    from worldfork.registration import cells
    from worldfork.registration.library import recipe_of

    jobs: dict[Path, _Job] = {}
    for task, index in sorted({(cell.task, cell.checkpoint) for cell in cells(registration)}):
        registered = registration.tasks[task].checkpoints
        source = checkpoint_source(registration, task, index, root=root)
        if registered in ("generated", "bundled") or source is None:
            continue
        folder = Path(os.path.normpath(source.parent))
        if not folder.is_relative_to(Path(os.path.normpath(within))):
            if source.is_file():
                continue
            raise WorldforkError(
                f"`{registered}` of {task} is no file and lies outside the output folder. What is to be pretrained "
                "is registered as ../checkpoints/NAME/{task}-{checkpoint}.safetensors, with a recipe pretrain-NAME."
            )
        if folder not in jobs:
            recipe = recipe_of(registration.name, folder.name)
            jobs[folder] = _Job(_copied_recipe(recipe, root, beside=beside), folder)
        jobs[folder] = dataclasses.replace(jobs[folder], tasks=jobs[folder].tasks | {task})
        _require_promised(jobs[folder].recipe, task, index)
    return list(jobs.values())


def _copied_recipe(name: str, root: Path, *, beside: Path) -> Path:
    from worldfork.registration.library import find_recipe

    recipe = beside / f"{name}.toml"
    source = recipe if recipe.is_file() else find_recipe(name)
    copy = root / f"{name}.toml"
    if source.resolve() != copy.resolve():
        _write(copy, source.read_text(encoding="utf-8"))
    return copy


def _require_promised(recipe: Path, task: str, index: int) -> None:
    """Refuse before an hour is spent what a recipe can not give."""
    from worldfork.lab.tools.pretraining import read_recipe

    trained = read_recipe(recipe).tasks.get(task)
    if trained is None or index >= min(trained.wanted, len(trained.seeds)):
        kept = 0 if trained is None else min(trained.wanted, len(trained.seeds))
        raise WorldforkError(
            f"The registration names checkpoint {index} of {task}; {recipe.name} trains {kept} of it. Name another "
            "folder in `checkpoints` (../checkpoints/NAME/...), and write the recipe pretrain-NAME for it."
        )


def _pretrain_in_turn(
    jobs: list[_Job], registration: "Registration", stages: Stages, progress: Progress
) -> Iterator[tuple[str, ...]]:
    """Everything first; then all tasks can be run."""
    import worldfork as wf

    for job in jobs:
        with stages.stage(job.stage):
            wf.pretrain(job.recipe, job.folder, progress=progress, notify=_whisper)
    yield tuple(registration.tasks)


def _pretrain_side_by_side(
    jobs: list[_Job],
    registration: "Registration",
    stages: Stages,
    progress: Progress,
) -> Iterator[tuple[str, ...]]:
    """Train recipe after recipe in a process beside this one, first the one that most tasks wait for.

    Yields tasks as soon as their checkpoints are there and the next training has begun, so that they run beside it.
    Digits do not depend on what else is computed.
    """
    queue = sorted(jobs, key=lambda job: -len(job.tasks))
    waiting = list(registration.tasks)
    failed: list[_Job] = []
    training: _Training | None = _Training.begin(queue.pop(0))
    try:
        while waiting:
            if training is not None and (code := training.process.poll()) is not None:
                seconds = time.monotonic() - training.began
                failed += [training.job] if code else []
                stages.keep(training.job.stage, seconds, finished=code == 0)
                typer.echo(f"{training.job.stage}: {spoken(seconds)}")
                training = _Training.begin(queue.pop(0)) if queue else None
            untrained = [*queue, *failed, *([] if training is None else [training.job])]
            lacking = {task for job in untrained for task in job.tasks}
            # Thresholds of closed-loop deployments are fitted on all forks, and need all tasks at once.
            ready = () if registration.deployment and lacking else tuple(t for t in waiting if t not in lacking)
            if ready:
                waiting = [task for task in waiting if task not in ready]
                yield ready
            elif training is None:
                break
            else:
                progress("recipes", len(jobs) - len(queue) - 1, len(jobs))
                time.sleep(0.2)
    finally:
        if training is not None:
            training.process.terminate()  # where one is still there, this command was interrupted
    if failed:
        logs = ", ".join(str(job.log) for job in failed)
        raise WorldforkError(
            f"Pretraining failed; what was saved is kept, and the same command goes on. See {logs}"
        )


@dataclasses.dataclass(frozen=True)
class _Training:
    """A recipe that is being trained, and since when."""

    job: _Job
    process: Any  # a subprocess.Popen
    began: float

    @classmethod
    def begin(cls, job: _Job) -> "_Training":
        return cls(job, job.begin(), time.monotonic())


def _finished(study: Path, registration: "Registration") -> bool:
    """Return True if the ledger of this registration is complete: then nothing of the lab is needed."""
    from worldfork.ledger.store import Study

    if not (study / "registration.json").is_file() or Study(study).registration_digest != registration.digest:
        return False
    return _verified(study, lambda what, done, total: None).complete


def _verified(study: Path, progress: Callable[[str, int, int], None]) -> "Verdict":
    from worldfork.ledger.verify import verify

    return verify(study, progress=lambda done, total: progress("cells", done, total))


def _require_sound(verdict: "Verdict") -> None:
    for line in (*verdict.problems, *verdict.notes):
        typer.echo(line)
    if verdict.problems or not verdict.complete:
        state = f"{len(verdict.problems)} problems" if verdict.problems else "not complete"
        raise WorldforkError(f"{verdict.rows} of {verdict.expected} forks, {state}: no tables of that.")
    typer.echo(f"{verdict.rows} forks in {verdict.cells} cells, complete; 0 problems.")


def _write_tables_and_page(study: Path, output: Path, stages: Stages, *, quiet: bool) -> None:
    from worldfork.analysis.present import tables
    from worldfork.analysis.present.page import gather, render
    from worldfork.analysis.present.render import markdown
    from worldfork.ledger.pretraining import read_seeds
    from worldfork.ledger.store import Study
    from worldfork.progress import bars

    with stages.stage("score"), bars(quiet=quiet, transient=True) as progress:
        material = gather(study, progress=progress)
        chosen = tables.all_tables(material.score, seeds=read_seeds(Study(study)), paper=True)
        _write(output / "tables.md", "\n".join(map(markdown, chosen)))
    with stages.stage("page"):
        render(material).save(output / "index.html")


def _write(path: Path, text: str) -> None:
    from worldfork.ledger import files

    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, text.encode())


def _table(stages: Stages) -> str:
    rows = [("stage", "this call", "all calls"), *stages.table()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}".rstrip() for a, b, c in rows)


def _whisper(sentence: str) -> None:
    typer.echo(sentence, err=True)
