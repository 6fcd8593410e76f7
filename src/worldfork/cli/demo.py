"""`worldfork demo`: the whole instrument in a few seconds, or on cartpole in a few minutes."""

from pathlib import Path
from typing import Final

import typer

from worldfork.cli import options

KNOWN: Final = """\
A controller is deployed while its world drifts. At each of 24 decision points the deployment is forked: one copy
updates its controller, the other holds it, and both meet the same episodes. 16 controllers, each deployed twice,
make 768 forks. In this world the value of every update is known in closed form: see whether the answer is right."""
CARTPOLE: Final = """\
Three small pretrained world models balance a cartpole while gravity drifts: 36 forks, 4 paired episodes each.
Three models show how it works and can not resolve whether updating pays: an exact test needs six of them, and more
where they differ as much as these. For a resolved answer: worldfork score results/power-cartpole"""


def demo(
    output: Path | None = typer.Option(
        None, "-o", "--output", help="The study folder. Default: runs/ and the name of the study."
    ),
    cartpole: bool = typer.Option(
        False, "--cartpole", help="Fork a drifting cartpole instead, with three small world models (needs the lab)."
    ),
    deployment: bool = typer.Option(
        False,
        "--deployment",
        help="Deploy four policies on cartpole instead: what they fire persists (needs the lab).",
    ),
    quiet: options.Quiet = False,
) -> None:
    """Run a small study whose answer is known, score it, compare it with the truth, and write the page.

    Example: worldfork demo

    The folder is a study like any other: `worldfork verify`, `score`, `report` and `export` take it.
    """
    import os

    from worldfork.cli.main import app
    from worldfork.errors import WorldforkError

    if cartpole and deployment:
        raise WorldforkError("--cartpole and --deployment are two demonstrations: choose one.")
    name = "deployment-demo" if deployment else "demo" if cartpole else "known-answer"
    command = typer.main.get_command(app)
    workers = str(min(2, os.cpu_count() or 1))  # blocks side by side: the same digits, sooner
    folder = str(output or Path("runs") / name)
    silent = ["--quiet"] if quiet else []
    verbs = [
        ["run", name, "-o", folder, "--workers", workers, *silent],
        ["verify", folder, *silent],
        ["score", folder],
        ["report", folder],
    ]
    if name == "known-answer":
        verbs.insert(3, ["calibrate", name, "--forks", "768", "--episodes", "30", *silent])
    typer.echo(KNOWN if name == "known-answer" else CARTPOLE)
    for arguments in verbs:
        typer.secho(f"\n$ worldfork {' '.join(arguments)}", bold=True)
        if code := command.main(arguments, standalone_mode=False):
            raise typer.Exit(code)
    if name == "known-answer":
        typer.echo(f"\n{_compared(folder)}")
        typer.echo("\nNext, with the lab: worldfork demo --cartpole. Your own numbers: worldfork new forks.csv")


def _compared(folder: str) -> str:
    """Return whether the interval of the study contains the true mean dR of its forks."""
    import worldfork as wf
    from worldfork.analysis.score.undefined import Undefined
    from worldfork.lab.tools.calibration import calibrate

    effect = wf.score(folder, permutations=1)["linear_quadratic"].effect.all_attempted
    assert not isinstance(effect.student_t, Undefined)
    truth = float(calibrate("known-answer", forks=768, episodes=3).truth.mean())
    inside = effect.student_t.low <= truth <= effect.student_t.high
    return (
        f"The truth, by the closed form, is {truth:+.3f}: the interval [{effect.student_t.low:+.3f}, "
        f"{effect.student_t.high:+.3f}] {'contains' if inside else 'does not contain'} it."
    )
