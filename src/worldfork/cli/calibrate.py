"""`worldfork calibrate`: the instrument against a known answer."""

from pathlib import Path
from typing import Any

import typer

from worldfork.cli import options
from worldfork.counting import plural

KINDS = (".pdf", ".png", ".svg")


def calibrate(
    registration: str = typer.Argument("linear-quadratic", help="A registration of the linear-quadratic world."),
    forks: int = typer.Option(
        240, min=1, help="At least so many forks: more stream seeds are run until there are."
    ),
    episodes: int = typer.Option(200, min=3, help="Episodes per branch and fork (m)."),
    figure: Path | None = typer.Option(None, help="Also draw it: a .pdf, .png or .svg file."),
    pinning: bool = typer.Option(
        False, "--pinning", help="Instead: which way pinning biases dR, in the toy model."
    ),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Also every fork."),
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure dR where it is known: a linear world with quadratic costs, whose answer has a closed form.

    Example: worldfork calibrate --forks 4000 --figure calibration.pdf

    Prints the mean of the true and of the measured dR, how often a 95% interval contains the truth, how the error
    falls with m, and what common random numbers buy.
    """
    if pinning:
        return _pinning(as_json)
    from worldfork.errors import WorldforkError
    from worldfork.lab.tools.calibration import calibrate as measure
    from worldfork.ledger.files import writable
    from worldfork.progress import bars

    if figure is not None and writable(figure).suffix not in KINDS:
        raise WorldforkError(f"A figure is a {', '.join(KINDS)} file; got `{figure}`.")
    with bars(quiet=quiet or as_json) as progress:
        found = measure(registration, forks=forks, episodes=episodes, progress=progress)
    summary: dict[str, Any] = {
        "forks": len(found.truth),
        "episodes": episodes,
        "true_mean": float(found.truth.mean()),
        "measured_mean": float(found.measured(episodes).mean()),
        "coverage": {str(m): float(found.covered(m).mean()) for m in found.sizes},
        "error_times_sqrt_m": {str(m): found.relative_error(m) * m**0.5 for m in found.sizes},
        "crn_gain": found.gain(),
    }
    columns = (found.k, found.truth, found.measured(episodes), found.standard_error(episodes))
    rows = list(zip(found.cell, *(column.tolist() for column in columns), strict=True))
    if as_json:
        keys = ("cell", "k", "closed_form", "measured", "standard_error")
        listed = [dict(zip(keys, row, strict=True)) for row in rows]
        options.print_json({"schema": "worldfork.calibration/1", **summary, "rows": listed})
    else:
        _show(rows if verbose else [], summary)
    if figure is not None:
        found.figure().savefig(figure)
        typer.echo(f"Figure: {figure}", err=True)


def _show(rows: list[tuple[str, int, float, float, float]], summary: dict[str, Any]) -> None:
    typer.echo(
        f"{plural(summary['forks'], 'fork')}: mean dR {summary['true_mean']:+.4f} by the closed form, "
        f"{summary['measured_mean']:+.4f} measured."
    )
    typer.echo("Forks whose 95% Student-t interval on the paired differences contains the truth:")
    for m, share in summary["coverage"].items():
        scaled = summary["error_times_sqrt_m"][m]
        typer.echo(f"  m = {m:>4}: {share:7.2%}    error x sqrt(m), in units of one pair's spread: {scaled:.3f}")
    typer.echo(f"Without common random numbers m would have to be {summary['crn_gain']:.2f} times as large.")
    if rows:
        typer.echo(f"\n{'cell':<48}{'k':>4}{'closed form':>14}{'measured':>12}{'s.e.':>10}{'off by':>9}")
    for cell, k, truth, measured, error in rows:
        off = f"{(measured - truth) / error:+.2f} se" if error > 0 else "exact" if measured == truth else "wrong"
        typer.echo(f"{cell:<48}{k:>4}{truth:>14.4f}{measured:>12.4f}{error:>10.4f}{off:>9}")


def _pinning(as_json: bool) -> None:
    """The paper's toy staleness model: forward over pinned value, by curvature of the loss and drift."""
    import dataclasses

    from worldfork.analysis.score.pinning import pinning_table

    entries = pinning_table()
    if as_json:
        listed = [{**dataclasses.asdict(entry), "ratio": entry.ratio} for entry in entries]
        options.print_json({"schema": "worldfork.pinning/1", "rows": listed})
        return
    typer.echo(f"{'loss':<12}{'drift per step':>15}{'pinned':>10}{'forward':>10}{'forward / pinned':>19}")
    for entry in entries:
        typer.echo(
            f"{entry.loss:<12}{entry.drift:>15g}{entry.pinned:>10.4f}{entry.forward:>10.4f}{entry.ratio:>19.3f}"
        )
