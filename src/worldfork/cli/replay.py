"""`worldfork replay`: one matched episode as a video, UPDATE beside HOLD."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from worldfork.cli import options

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
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Run one matched episode again in both branches, from the ledger, and show it: UPDATE left, HOLD right.

    Example: worldfork replay runs/demo --cell demo-cartpole-swingup-c0-away-s0 --k 6 --episode 3 -o pair.gif

    Without a cell it shows three forks, as GIFs in STUDY/report: the most helpful, the most harmful and a median
    one, each by the episode that is nearest to the fork's dR. `worldfork report STUDY` then plays them.

    On a machine of the kind that made the ledger the returns are the ledger's, bit for bit; it says so, or shows
    the difference. It needs a renderer, not a display: on Debian, libosmesa6 will do.
    """
    import worldfork as wf
    from worldfork.errors import WorldforkError
    from worldfork.progress import bars

    if cell is None:
        if k is not None or policy is not None:
            raise WorldforkError("--k and --policy are of a cell: name it with --cell, or leave all of them out.")
        chosen = _notable(study, output)
    elif k is None:
        raise WorldforkError(f"Which decision point of {cell}? Say --k, from 1.")
    else:
        chosen = [("", cell, k, episode, output or Path(f"{cell}-k{k}-{policy or f'e{episode}'}.mp4"))]
    videos = []
    for about, cell, k, episode, path in chosen:
        with bars(quiet=quiet or as_json) as progress:
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
        branches = {name.upper() if policy is None else name: each for name, each in shown.branches.items()}
        if as_json:
            pair = {"video": path, "cell": cell, "k": k, "episode": episode, "policy": policy, "exact": shown.exact}
            videos.append({**pair, "branches": {name: _record(branch) for name, branch in branches.items()}})
            continue
        lines = [about, f"{path}: {path.stat().st_size / 1000:.0f} kB."]
        lines += [f"{name:>7}  {_compared(branch)}" for name, branch in branches.items()]
        lines += [] if shown.exact else [_why(shown)]
        typer.echo("\n".join(filter(None, lines)))
    if as_json:
        options.print_json({"schema": "worldfork.replay/1", "videos": videos})


def _notable(study: Path, folder: Path | None) -> list[tuple[str, str, int, int, Path]]:
    """Return the most helpful, the most harmful and a median fork: a line, cell, k, episode and file for each."""
    from worldfork.lab.replay import notable_pairs
    from worldfork.lab.tools.film import refuse_copies
    from worldfork.ledger import files
    from worldfork.ledger.store import Study

    opened = Study(study)
    refuse_copies(opened)
    target = folder or opened.path / "report"
    pairs = notable_pairs(opened)
    files.make_folders(target)
    return [
        (
            f"{what}: dR {pair.row.delta:+.1f}, {pair.cell.id}, k = {pair.row.k}, episode {pair.episode}",
            pair.cell.id,
            pair.row.k,
            pair.episode,
            target / f"{pair.cell.id}-k{pair.row.k}-e{pair.episode}.gif",
        )
        for what, pair in pairs.items()
    ]


def _record(branch: "Branch") -> dict[str, Any]:
    returned = float(branch.returns[-1])
    finite = returned if math.isfinite(returned) else None  # JSON has no other numbers
    return {"returned": finite, "recorded": branch.recorded, "exact": branch.exact}


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
