"""`worldfork reproduce`: from an empty folder to the page, every stage by the wall clock."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from worldfork.cli import options
from worldfork.errors import WorldforkError
from worldfork.ledger import files

if TYPE_CHECKING:
    from worldfork.ledger.verify import Verdict
    from worldfork.registration import Registration

# What tables and page need beside the lab's packages: a machine that only computes may lack it.
ANALYSIS: Final = {"jinja2", "markupsafe", "matplotlib", "polars", "scipy", "threadpoolctl"}


def reproduce(
    registration: options.Registration,
    output: Path = typer.Option(..., "-o", "--output", help="A new folder, or one to carry on with."),
    task: list[str] = typer.Option([], help="Only this task. May be repeated. Default: all."),
    workers: options.Workers = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Pretrain what a registration needs, run it, verify it, write its tables and its page; say what took how long.

    Example: worldfork reproduce demo -o runs/reproduced

    The folder then holds registrations/, checkpoints/, study/ (the ledger), tables.md, index.html (the page) and
    stages.jsonl (the seconds). Interrupt it whenever you like: the same command carries on, here or on another
    machine. Checkpoints in checkpoints/NAME come from the recipe pretrain-NAME, which lies beside the registration
    or comes with worldfork; worldfork's own studies with power have recipes with more seeds, which it knows.
    """
    from worldfork.registration import authored, open_authored
    from worldfork.registration.reading import only_tasks

    text, root = open_authored(registration)
    if task:
        restricted = only_tasks(text.registration, tuple(dict.fromkeys(task)))
        text = text if restricted is text.registration else authored(restricted)
    quiet = quiet or as_json
    stages = Stages(output / "stages.jsonl", options.print_note if as_json else typer.echo)
    study = output / "study"
    if not _finished(study, text.registration):
        written = output / "registrations" / f"{text.registration.name}.toml"
        _write(written, text.text)
        _pretrain_and_run(written, root, output, stages, workers=workers, quiet=quiet)
    with stages.stage("verify"):
        verdict = _verified(study, quiet=quiet)
        for line in (*verdict.problems, *verdict.notes):
            options.print_note(line)
        if verdict.problems or not verdict.complete:
            state = f"{len(verdict.problems)} problems" if verdict.problems else "not complete"
            raise WorldforkError(f"{verdict.rows} of {verdict.expected} forks, {state}: no tables of that.")
        stages.announce(f"{verdict.rows} forks in {verdict.cells} cells, complete; 0 problems.")
    page, tables = output / "index.html", output / "tables.md"
    try:
        _write_tables_and_page(study, tables, page, stages, quiet=quiet)
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] not in ANALYSIS:
            raise
        stages.announce(stages.table())
        raise WorldforkError(
            f"the study is in {study}, complete and verified. Its tables and its page need the analysis, and "
            f"`{error.name}` is not installed here: install worldfork, or copy {output} to where it is and run "
            "the same command there."
        ) from None
    if as_json:
        paths = {"study": study, "tables": tables, "page": page}
        counts = {"forks": verdict.rows, "cells": verdict.cells, "seconds": stages.seconds()}
        options.print_json({"schema": "worldfork.reproduce/1", **paths, **counts})
    else:
        typer.echo(f"\n{stages.table()}\n\n{page}: open it in a browser. Tables: {tables}")


class Stages:
    """Wall clock of the stages of all calls, in a file."""

    def __init__(self, path: Path, announce: Callable[[str], None]) -> None:
        self.announce = announce
        self._path = path
        files.cut_torn_line(path)  # of a call that was killed

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage. One that is interrupted is kept too, as not finished."""
        self.announce(f"\n{name}")
        began, finished = time.monotonic(), False
        try:
            yield
            finished = True
        finally:
            seconds = time.monotonic() - began
            entry = {"stage": name, "seconds": round(seconds, 3), "finished": finished, "ended": time.time()}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            files.append(self._path, (json.dumps(entry) + "\n").encode())
            self.announce(f"{name}: {format_duration(seconds)}" + ("" if finished else ", not finished"))

    def seconds(self) -> dict[str, float]:
        """Return the seconds of every stage in all calls together."""
        sums: dict[str, float] = {}
        for line in self._path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            sums[entry["stage"]] = sums.get(entry["stage"], 0.0) + entry["seconds"]
        return sums

    def table(self) -> str:
        """Return the duration of every stage in all calls, and their sum, as text."""
        seconds = self.seconds()
        rows = {**seconds, "sum of the stages": sum(seconds.values())}
        width = max(map(len, rows))
        return "\n".join(f"{name:<{width}}  {format_duration(spent):>12}" for name, spent in rows.items())


def format_duration(seconds: float) -> str:
    """Return a duration as people say it.

    >>> format_duration(0.04), format_duration(59.6), format_duration(161.0)
    ('0.0 s', '59.6 s', '2 min 41 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _pretrain_and_run(
    registration: Path, root: Path, output: Path, stages: Stages, *, workers: int | None, quiet: bool
) -> None:
    """Train the checkpoints that the registration in the folder needs, and run it; `root` is where it came from."""
    import worldfork as wf
    from worldfork.cli.interruptible import interruptible_bars
    from worldfork.lab.tools.needed_recipes import needed_recipes
    from worldfork.registration import read

    with interruptible_bars("what is finished", quiet=quiet) as progress:
        for recipe, folder in needed_recipes(read(registration), registration.parent, beside=root, within=output):
            with stages.stage(f"pretrain {recipe.stem}"):
                wf.pretrain(recipe, folder, progress=progress, notify=options.print_note)
        with stages.stage(f"run {registration.stem}"):
            wf.run(registration, output / "study", workers=workers, progress=progress, notify=options.print_note)


def _finished(study: Path, registration: "Registration") -> bool:
    """Return True if the ledger of this registration is complete: then nothing of the lab is needed."""
    from worldfork.ledger.store import Study

    if not (study / "registration.json").is_file() or Study(study).registration_digest != registration.digest:
        return False
    return _verified(study, quiet=True).complete


def _verified(study: Path, *, quiet: bool) -> "Verdict":
    from worldfork.ledger.verify import verify
    from worldfork.progress import bars

    with bars(quiet=quiet) as progress:
        return verify(study, progress=progress)


def _write_tables_and_page(study: Path, tables: Path, page: Path, stages: Stages, *, quiet: bool) -> None:
    from worldfork.analysis.present.page import gather, render
    from worldfork.analysis.present.render import markdown
    from worldfork.analysis.present.tables import all_tables
    from worldfork.ledger.pretraining import read_seeds
    from worldfork.ledger.store import Study
    from worldfork.progress import bars

    with stages.stage("score"), bars(quiet=quiet, transient=True) as progress:
        material = gather(study, progress=progress)
        chosen = all_tables(material.score, seeds=read_seeds(Study(study)), paper=True)
        _write(tables, "\n".join(map(markdown, chosen)))
    with stages.stage("page"):
        render(material).save(page)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, text.encode())
