"""A film of one episode: its physics at every moment and what it had earned by then, for a renderer.

Axes: B the parameter sets that are watched, T control steps, S numbers of physical state.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float64

__all__ = ["Film"]


class Film:
    """Records one episode of some parameter sets while a batch is rolled out: `roll_out(..., record=film)`."""

    def __init__(
        self, sets: Sequence[int], *, episode: int, progress: Callable[[int], None] = lambda moment: None
    ) -> None:
        """`episode` counts within the batch, from 0; `progress` is told every moment as it passes."""
        self._sets, self._episode, self._progress = list(sets), episode, progress
        self._physics: list[np.ndarray] = []
        self._earned: list[np.ndarray] = []

    def __call__(self, episodes: slice, moment: int, physics: np.ndarray, reward: np.ndarray) -> None:
        if episodes.start <= self._episode < episodes.stop:
            mine = (self._sets, self._episode - episodes.start)
            self._physics.append(physics[mine])
            self._earned.append(reward[mine])
            self._progress(moment)

    @property
    def physics(self) -> Float64[np.ndarray, "B moments S"]:
        """The state before the first control step and after each: T + 1 moments."""
        return np.stack(self._physics, axis=1)

    @property
    def returns(self) -> Float64[np.ndarray, "B moments"]:
        """The return up to each moment, added up as a roll-out adds: the last is the episode's, exactly."""
        return np.cumsum(np.stack(self._earned, axis=1), axis=1)
