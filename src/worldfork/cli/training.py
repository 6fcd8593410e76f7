"""The progress of a training run: time left, returns and losses as they are now."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["training_bar"]


@contextlib.contextmanager
def training_bar(episodes: int, *, quiet: bool) -> Iterator[Callable[[int, list[dict[str, Any]]], None]]:
    """A bar over episodes on a terminal; one line per episode where there is none."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if quiet or not console.is_terminal:

        def say(episode: int, rows: list[dict[str, Any]]) -> None:
            if not quiet:
                print(f"episode {episode + 1}/{episodes}  {_summary(rows)}", file=sys.stderr, flush=True)

        yield say
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("the first episode is random", total=episodes)

        def advance(episode: int, rows: list[dict[str, Any]]) -> None:
            progress.update(bar, completed=episode + 1, description=_summary(rows))

        yield advance


def _summary(rows: list[dict[str, Any]]) -> str:
    """Every task's planned returns and mean model loss."""
    parts = []
    for task in dict.fromkeys(row["task"] for row in rows):
        mine = [row for row in rows if row["task"] == task]
        returns = " ".join(f"{row['planned_return']:.0f}|{row['actor_return']:.0f}" for row in mine)
        losses = [row["model_loss"] for row in mine if "model_loss" in row]
        loss = f" loss {sum(losses) / len(losses):.2f}" if losses else ""
        parts.append(f"{task} {returns}{loss}")
    return "; ".join(parts)
