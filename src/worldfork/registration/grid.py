"""The grid of cells of a registration, and the cells that share a stream or a HOLD branch."""

import dataclasses
from collections.abc import Callable

from worldfork.randomness import Event, Purpose
from worldfork.registration.schema import Arm, Direction, Registration, canonical


@dataclasses.dataclass(frozen=True)
class Cell:
    """An arm on a task, checkpoint, direction and stream seed, with one draw of its updates."""

    arm: str
    task: str
    checkpoint: int
    direction: Direction
    stream_seed: int
    update_seed: int = 0

    @property
    def id(self) -> str:
        """Return the id, `corrected-cartpole-c0-away-s0`, or `...-s0-u1` for another draw of the updates."""
        name = f"{self.arm}-{self.task}-c{self.checkpoint}-{self.direction}-s{self.stream_seed}"
        return f"{name}-u{self.update_seed}" if self.update_seed else name

    @property
    def coordinates(self) -> dict[str, str | int]:
        """Return the position in the grid, as in cell.json."""
        return dataclasses.asdict(self)

    def event(self, purpose: Purpose, seed: int) -> Event:
        """Return the address of this cell's draws.

        Arms share their draws, so the arm is no part of it. Nor is the update seed, which enters the keys of
        minibatches alone (`update_event`).
        """
        return Event(
            purpose=purpose,
            seed=seed,
            task=self.task,
            checkpoint=str(self.checkpoint),
            direction=self.direction,
            stream_seed=self.stream_seed,
        )

    def update_event(self, seed: int) -> Event:
        """Return the address of the minibatches of this cell's updates; `episode` is the update seed."""
        return self.event(Purpose.UPDATE_BATCH, seed).at(episode=self.update_seed)


def cells(registration: Registration) -> tuple[Cell, ...]:
    """Return every cell, arm by arm in the order registered."""
    grid = registration.grid
    return tuple(
        Cell(arm.name, task, checkpoint, direction, stream_seed, update_seed)
        for arm in registration.arms
        for task in arm.tasks
        for update_seed in arm.update_seeds
        for stream_seed in arm.stream_seeds
        for checkpoint in grid.checkpoints
        for direction in grid.directions
    )


def deployments(registration: Registration) -> tuple[tuple[str, Cell], ...]:
    """Return every policy of [deployment] with every cell, policy by policy.

    A cell is named after the arm whose mechanism the policy fires.
    """
    registered = registration.deployment
    if registered is None:
        return ()
    base = registered.arm or registration.arms[0].name
    deployed = [cell for cell in cells(registration) if cell.arm == base]
    return tuple(
        (name, dataclasses.replace(cell, arm=policy.arm or base))
        for name, policy in registered.every().items()
        for cell in deployed
    )


def stream_owner(registration: Registration) -> dict[Cell, Cell]:
    """Return for each cell the first cell with the same stream, which runs it."""
    return _owners(registration, lambda arm: canonical(arm.stream.model_dump()))


def hold_owner(registration: Registration) -> dict[Cell, Cell]:
    """Return for each cell the first cell whose HOLD branch is the same computation."""
    return _owners(registration, lambda arm: canonical(arm.model_dump(include=HOLD)))


HOLD = {"stream", "evaluation", "precision", "settings", "forks_per_block"}


def _owners(registration: Registration, key: Callable[[Arm], str]) -> dict[Cell, Cell]:
    keys = {arm.name: key(arm) for arm in registration.arms}
    first: dict[tuple[str, Cell], Cell] = {}
    return {
        cell: first.setdefault((keys[cell.arm], dataclasses.replace(cell, arm="", update_seed=0)), cell)
        for cell in cells(registration)
    }
