"""The grid of cells that a registration spells out, and which of them share a stream or their HOLD evaluations."""

import dataclasses
from collections.abc import Callable

from worldfork.randomness import Event, Purpose
from worldfork.registration.canonical import canonical
from worldfork.registration.records import Arm, Direction, Registration

__all__ = ["Cell", "cells", "hold_owner", "stream_owner"]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One arm on one task, checkpoint, direction and stream seed."""

    arm: str
    task: str
    checkpoint: int
    direction: Direction
    stream_seed: int

    @property
    def id(self) -> str:
        """Stable and readable: `corrected-cartpole-c0-away-s0`."""
        return f"{self.arm}-{self.task}-c{self.checkpoint}-{self.direction}-s{self.stream_seed}"

    def event(self, purpose: Purpose, seed: int) -> Event:
        """The address of this cell's draws. The arm is no part of it: arms share their draws."""
        return Event(
            purpose=purpose,
            seed=seed,
            task=self.task,
            checkpoint=str(self.checkpoint),
            direction=self.direction,
            stream_seed=self.stream_seed,
        )


def cells(registration: Registration) -> tuple[Cell, ...]:
    """Every cell, arm by arm in the order registered."""
    grid = registration.grid
    return tuple(
        Cell(arm.name, task, checkpoint, direction, stream_seed)
        for arm in registration.arms
        for task in arm.tasks
        for stream_seed in arm.stream_seeds
        for checkpoint in grid.checkpoints
        for direction in grid.directions
    )


def stream_owner(registration: Registration) -> dict[Cell, Cell]:
    """For each cell the first one with the same stream: the one that runs it."""
    return _owners(registration, lambda arm: canonical(arm.stream.model_dump()))


def hold_owner(registration: Registration) -> dict[Cell, Cell]:
    """For each cell the first one whose HOLD branch is the same computation."""
    return _owners(registration, lambda arm: canonical(arm.model_dump(include=HOLD)))


HOLD = {"stream", "evaluation", "precision", "settings"}


def _owners(registration: Registration, key: Callable[[Arm], str]) -> dict[Cell, Cell]:
    keys = {arm.name: key(arm) for arm in registration.arms}
    first: dict[tuple[str, Cell], Cell] = {}
    return {
        cell: first.setdefault((keys[cell.arm], dataclasses.replace(cell, arm="")), cell)
        for cell in cells(registration)
    }
