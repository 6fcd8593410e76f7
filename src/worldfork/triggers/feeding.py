"""Feeding a trigger one deployment, and where its own draws come from."""

import zlib
from collections.abc import Iterable, Mapping
from typing import Final

from worldfork.randomness import Event, Purpose
from worldfork.triggers.base import Answer, CellKey, Segment, Trigger

__all__ = ["draw_event", "feed"]

# Where worldfork's own triggers draw, fixed when the first ledgers were scored; any other trigger draws where its
# name says.
DRAWS: Final[Mapping[str, Mapping[str, int]]] = {
    "random": {"episode": 1},
    "kswin": {"episode": 2, "iteration": 1},
    "conformal": {"episode": 2, "iteration": 2},
}


def feed(trigger: Trigger, deployment: Iterable[Segment], *, cell: CellKey, event: Event) -> list[Answer]:
    """The answer of a trigger at every decision point of one deployment."""
    memory = trigger.begin(cell, event=event)
    answers: list[Answer] = []
    for segment in deployment:
        memory, answer = trigger.decide(memory, segment)
        answers.append(answer)
    return answers


def draw_event(name: str, *, task: str, cell: CellKey, seed: int) -> Event:
    """Where a trigger's own draws live in one deployment: no two triggers share a key."""
    return Event(
        purpose=Purpose.RESAMPLING,
        seed=seed,
        task=task,
        checkpoint=cell.checkpoint,
        direction=cell.direction,
        stream_seed=cell.stream_seed,
    ).at(**DRAWS.get(name, {"episode": 3, "step": zlib.crc32(name.encode())}))
