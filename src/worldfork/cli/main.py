"""The `worldfork` command: gathers the verbs and turns user errors into one clear line."""

import functools
import io
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from worldfork import __version__
from worldfork.cli.benchmark import benchmark
from worldfork.cli.calibrate import calibrate
from worldfork.cli.calibrate_drift import calibrate_drift
from worldfork.cli.check import check
from worldfork.cli.dataset import dataset
from worldfork.cli.demo import demo
from worldfork.cli.evaluate import evaluate
from worldfork.cli.export import export
from worldfork.cli.list import list_names
from worldfork.cli.new import new
from worldfork.cli.pretrain import pretrain
from worldfork.cli.replay import replay
from worldfork.cli.report import report
from worldfork.cli.reproduce import reproduce
from worldfork.cli.run import run
from worldfork.cli.score import score
from worldfork.cli.test import examine
from worldfork.cli.verify import verify
from worldfork.errors import WorldforkError, printable

# A verb's module is light to import; what it needs from the lab or the analysis is imported when it runs.
VERBS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "score": score,
    "report": report,
    "new": new,
    "list": list_names,
    "test": examine,
    "check": check,
    "run": run,
    "verify": verify,
    "reproduce": reproduce,
    "replay": replay,
    "export": export,
    "dataset": dataset,
    "benchmark": benchmark,
    "calibrate": calibrate,
    "pretrain": pretrain,
    "evaluate": evaluate,
    "calibrate-drift": calibrate_drift,
}

# What an installation without the extra `lab` leaves out: the analysis works without it.
LAB = {"av", "dm_control", "jax", "mujoco", "optax", "safetensors"}

app = typer.Typer(
    name="worldfork",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> bool:
    if asked:
        typer.echo(f"worldfork {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _verbs(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_show_version, help="Say which this is."
    ),
) -> None:
    """Was this model update worth it? Fork a deployment into matched UPDATE and HOLD continuations."""


def _not_ended_by_others(verb: Callable[..., None]) -> Callable[..., None]:
    """Return the verb, with `sys.exit` in somebody's module, world or agent made an error: no verb calls it."""

    @functools.wraps(verb)
    def call(**options: Any) -> None:
        try:
            verb(**options)
        except SystemExit as error:
            if isinstance(error.__context__, BrokenPipeError):  # its reader, such as `head`, has left
                raise
            place = traceback.extract_tb(error.__traceback__)[-1]
            raise WorldforkError(
                f"{Path(place.filename).name}, line {place.lineno}, called sys.exit: nothing more was done. Raise "
                'an error there instead, and keep a program of the module under `if __name__ == "__main__":`.'
            ) from error

    return call


for name, verb in VERBS.items():
    app.command(name)(_not_ended_by_others(verb))


def _run_and_flush() -> None:
    """Run a verb, and see what it printed to its place: a disk that is full says so only then."""
    try:
        app()
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tries once more at its end
            raise


def main() -> None:
    """Run a verb. Exit codes: 0 done, 1 a check did not pass, 2 wrong use or bad input, 130 interrupted, 143 ended
    by SIGTERM."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # where a character can not be written, its number is
            stream.reconfigure(errors="backslashreplace")
    try:
        _run_and_flush()
    except WorldforkError as error:
        if os.environ.get("WORLDFORK_TRACEBACK"):
            raise
        print(f"worldfork: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] not in LAB:
            raise
        missing = f"this needs the lab, and `{error.name}` is not installed"
        print(f"worldfork: {missing}: pip install '.[lab]' in a clone of worldfork", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if os.environ.get("WORLDFORK_TRACEBACK"):
            raise
        about = f"`{error.filename}`" if error.filename else "standard output, or a file,"
        print(f"worldfork: {printable(about)} can not be read or written ({error.strerror}).", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("worldfork: interrupted; run the same command again to resume.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
