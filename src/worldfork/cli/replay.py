"""`worldfork replay`: one matched episode as a video, UPDATE beside HOLD."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from worldfork.lab.replay import Branch, Replay


def replay(
    study: Path = typer.Argument(help="A study folder."),
    cell: str | None = typer.Option(None, help="A cell's id, as the ledger and the report name it."),
    k: int | None = typer.Option(None, min=1, help="The decision point, from 1."),
    episode: int = typer.Option(1, min=1, help="Which of its matched episodes, from 1."),
    policy: str | None = typer.Option(
        None, help="A policy of [deployment]: its closed-loop episode k, beside that of never."
    ),
    output: Path | None = typer.Option(
        None, "-o", "--output", help="An .mp4 or .gif file; else named after the pair. Without a cell, a folder."
    ),
    whole_block: bool | None = typer.Option(
        None,
        "--block/--alone",
        help="Rebuild the ledger's whole block, or run this pair alone; by default whatever the digits need.",
    ),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bars."),
) -> None:
    """Run one matched episode again in both branches, from the ledger, and show it: UPDATE left, HOLD right.

    Example: worldfork replay runs/demo --cell demo-cartpole-swingup-c0-away-s0 --k 6 --episode 3 -o pair.gif

    Without a cell it shows three forks, as GIFs in STUDY/report: the most helpful, the most harmful and a median
    one, each by the episode that is nearest to the fork's dR. `worldfork report STUDY` then plays them.

    On a machine of the kind that made the ledger the returns are the ledger's, bit for bit; it says so, or shows
    the difference. It needs a renderer, not a display: on Debian, libosmesa6 will do.
    """
    from worldfork.errors import WorldforkError

    if cell is None:
        if k is not None or policy is not None:
            raise WorldforkError("--k and --policy are of a cell: name it with --cell, or leave all of them out.")
        _replay_notable(study, output, whole_block=whole_block, quiet=quiet)
        return
    if k is None:
        raise WorldforkError(f"Which decision point of {cell}? Say --k, from 1.")
    path = output or Path(f"{cell}-k{k}-{policy or f'e{episode}'}.mp4")
    _replay(study, cell, k, episode, path, policy=policy, whole_block=whole_block, quiet=quiet)


def _replay_notable(study: Path, folder: Path | None, *, whole_block: bool | None, quiet: bool) -> None:
    """The most helpful, the most harmful and a median fork."""
    from worldfork.lab.replay import notable_pairs
    from worldfork.lab.tools.film import refuse_copies
    from worldfork.ledger import files
    from worldfork.ledger.store import Study

    opened = Study(study)
    refuse_copies(opened)
    target = folder or files.confined(opened.path / "report", within=opened.path)
    pairs = notable_pairs(opened)
    files.make_folders(target)
    for what, pair in pairs.items():
        typer.echo(f"{what}: dR {pair.row.delta:+.1f}, {pair.cell.id}, k = {pair.row.k}, episode {pair.episode}")
        path = target / f"{pair.cell.id}-k{pair.row.k}-e{pair.episode}.gif"
        _replay(study, pair.cell.id, pair.row.k, pair.episode, path, whole_block=whole_block, quiet=quiet)


def _replay(
    study: Path,
    cell: str,
    k: int,
    episode: int,
    path: Path,
    *,
    policy: str | None = None,
    whole_block: bool | None,
    quiet: bool,
) -> None:
    import worldfork as wf
    from worldfork.progress import bars

    with bars(quiet=quiet) as progress:
        shown = wf.replay(
            study,
            cell,
            k=k,
            episode=episode,
            policy=policy,
            video=path,
            whole_block=whole_block,
            progress=progress,
        )
    typer.echo(f"{path}: {path.stat().st_size / 1000:.0f} kB.")
    for name, branch in shown.branches.items():
        typer.echo(f"{name.upper() if policy is None else name:>7}  {_compared(branch)}")
    if not shown.exact:
        typer.echo(_why(shown))


def _compared(branch: "Branch") -> str:
    returned = float(branch.returns[-1])
    if branch.exact:
        return f"returned {returned!r}, as in the ledger, bit for bit"
    if branch.recorded is None:
        return f"returned {returned!r}; the ledger's was not finite"
    return (
        f"returned {returned!r}; the ledger has {branch.recorded!r} (difference {returned - branch.recorded:+.6g})"
    )


def _why(shown: "Replay") -> str:
    reasons = list(shown.differences)
    if not shown.whole_block:
        reasons.insert(0, "the pair ran alone, and an agent's digits may depend on its batch; --block rebuilds it")
    return "What differs from the run that made the ledger:\n  " + "\n  ".join(
        reasons or ["nothing that was recorded: perhaps another processor, which rounds in another order"]
    )
