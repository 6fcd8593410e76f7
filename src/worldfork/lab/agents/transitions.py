"""The transitions that an update of one parameter set may learn from, without padding."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

from worldfork.lab.agents.base import Window

__all__ = ["Transitions", "transitions_of"]


@dataclasses.dataclass(frozen=True)
class Transitions:
    """What one update may learn from, oldest first.

    `first` marks the first row of an episode, and of every attempt where an episode begins anew once it has ended.
    `terminated` marks rows that led to the task's own end, after which nothing is earned; a time limit is none, and
    in a world whose episodes never end it is False everywhere.
    """

    observation: Float[np.ndarray, "T O"]
    action: Float[np.ndarray, "T A"]
    reward: Float[np.ndarray, " T"]
    next_observation: Float[np.ndarray, "T O"]
    first: Bool[np.ndarray, " T"]
    terminated: Bool[np.ndarray, " T"]

    def __len__(self) -> int:
        return len(self.reward)


def transitions_of(window: Window, p: int) -> Transitions:
    """What parameter set p may learn from, without padding."""
    size = int(window.size[p])
    rows = {name: values[p, :size].copy() for name, values in window.columns.items()}
    return Transitions(**{"terminated": np.zeros(size, np.bool_), **rows})
