"""The randomness of a batch of episodes: event-keyed, a matter of which episode it is, never of which branch.

Axes: P parameter sets, E episodes each, A actions.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64, UInt32

from worldfork.randomness import Event, Purpose, consume, fold_in, normals, root

__all__ = ["Draws"]


@dataclasses.dataclass(frozen=True)
class Draws:
    """One seed and two keys per episode; what a step needs is folded out of the keys when it comes.

    Three streams, as the paper pins them: initial states, action noise, planner and model sampling.
    """

    seeds: Int64[np.ndarray, "P E"]  # of the initial states
    start_keys: UInt32[np.ndarray, "P E 2"]  # that they come from
    noise_keys: UInt32[np.ndarray, "P E 2"]
    plan_keys: UInt32[np.ndarray, "P E 2"]

    @classmethod
    def of(cls, events: Sequence[Event], episodes: Int64[np.ndarray, " E"]) -> "Draws":
        """The draws of these episodes of each event (its purpose is replaced, its fork kept)."""
        known = {event: place for place, event in enumerate(dict.fromkeys(events))}  # policies share their episodes
        place, forks = [known[event] for event in events], np.array([event.fork for event in known])

        def keys(purpose: Purpose) -> UInt32[np.ndarray, "P E 2"]:
            roots = np.stack([root(dataclasses.replace(event, purpose=purpose)) for event in known])
            return fold_in(fold_in(roots, forks)[:, None], episodes)[place]

        by_purpose = {
            purpose: keys(purpose) for purpose in (Purpose.INITIAL_STATE, Purpose.ACTION_NOISE, Purpose.PLANNING)
        }
        starts = by_purpose[Purpose.INITIAL_STATE]
        seeds = _seeds(starts, np.zeros(starts.shape[:-1], np.int64))
        return cls(seeds, starts, by_purpose[Purpose.ACTION_NOISE], by_purpose[Purpose.PLANNING])

    def attempts(self, number: Int64[np.ndarray, "P E"]) -> Int64[np.ndarray, "P E"]:
        """The seeds of the initial states of these attempts of each episode, counted from 0: that of attempt j is a
        matter of the episode and j, however long the attempts before it lasted."""
        return _seeds(self.start_keys, number)

    def planning(self, step: int) -> UInt32[np.ndarray, "P E 2"]:
        """The planner's keys at a control step; the planner folds its iterations in itself."""
        return fold_in(self.plan_keys, step)

    def plannings(self, begin: int, end: int) -> UInt32[np.ndarray, "steps P E 2"]:
        """The same at several control steps; of a small batch they cost no more than those of one."""
        return fold_in(self.plan_keys[None], np.arange(begin, end)[:, None, None])

    def noise(self, step: int, size: int) -> Float64[np.ndarray, "P E {size}"]:
        """The standard normals that sigma_a scales at a control step."""
        return normals(fold_in(self.noise_keys, step, 0), size, Purpose.ACTION_NOISE)

    def __getitem__(self, index: slice) -> "Draws":
        """The draws of some of the episodes."""
        names = (field.name for field in dataclasses.fields(self))
        return Draws(**{name: getattr(self, name)[:, index] for name in names})


def _seeds(keys: UInt32[np.ndarray, "P E 2"], attempt: Int64[np.ndarray, "P E"]) -> Int64[np.ndarray, "P E"]:
    """The same integers as `randomness.seed` gives event by event: step 0, and the attempt as the iteration."""
    drawn = fold_in(fold_in(keys, 0), attempt)
    consume(drawn, Purpose.INITIAL_STATE)
    return np.asarray(drawn[..., 0].astype(np.int64))
