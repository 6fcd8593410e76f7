"""How drift moves along a stream, beside the ramp of the paper: steps, cycles, saws, walks.

The words are those of the Real World RL suite (Dulac-Arnold et al., "Challenges of real-world reinforcement
learning", 2021), where they fit: `cyclic` rises over a period and begins again, `saw_wave` rises and falls,
`random_walk` and `uniform` draw. Its `drift_pos` and `drift_neg` are the ramp in its two directions.

A shape is pure: where the level is depends on the step and the stream's key alone, so that a fork can go on from
any step. It is registered in [stream] as `schedule`, with `schedule_settings`; `module:attribute` is one of yours.
"""

import abc
import dataclasses

import numpy as np
from jaxtyping import Float64, Integer, UInt32
from pydantic import Field

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.lab.environments.drift import Direction, Schedule
from worldfork.randomness import Event, Purpose, fold_in, normals, words
from worldfork.registry import Plugin

__all__ = ["Constant", "Cyclic", "DriftShape", "Ramp", "RandomWalk", "SawWave", "Step", "Uniform", "schedule"]

Key = UInt32[np.ndarray, "2"]


class DriftShape(Plugin):
    """Where the level is after some periods of a stream that leaves nominal physics; `toward` mirrors it."""

    @abc.abstractmethod
    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        """The level in [0, 1]; `periods` is the environment step divided by `drift_period`."""


class Ramp(DriftShape):
    """From one end to the other in one period, and then it stays there."""

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        return np.minimum(1.0, periods)


class Constant(DriftShape):
    """At the far end from the beginning: a world that is simply another one."""

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        return np.ones_like(periods)


class Step(DriftShape):
    """Nothing, and then all of it at once."""

    at: float = Field(default=1.0, ge=0)  # in periods

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        return np.where(periods >= self.at, 1.0, 0.0)


class Cyclic(DriftShape):
    """Rises over a period, falls back at once, and rises again."""

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        return periods % 1.0


class SawWave(DriftShape):
    """Rises over a period, falls over the next, and so on."""

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        return _folded(periods)


class RandomWalk(DriftShape):
    """Starts at the near end and moves by chance, reflected at both ends; UPDATE and HOLD meet the same walk."""

    spread: float = Field(default=0.5, gt=0)  # standard deviation of what a period moves it by, but for the ends
    moves: int = Field(default=20, ge=1)  # per period

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        place = np.floor(periods * self.moves).astype(np.int64)
        drawn = _draws(key, int(place.max(initial=0)) + 1)
        walked = np.concatenate([[0.0], np.cumsum(drawn)]) * self.spread / np.sqrt(self.moves)
        return _folded(walked[place])


class Uniform(DriftShape):
    """Anywhere, and somewhere else from time to time."""

    moves: int = Field(default=1, ge=1)  # per period

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        from scipy.special import ndtr  # type: ignore[import-untyped,unused-ignore]  # slow to import

        place = np.floor(periods * self.moves).astype(np.int64)
        return np.asarray(ndtr(_draws(key, int(place.max(initial=0)) + 1))[place])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShapedSchedule(Schedule):
    """A schedule of another shape than the ramp."""

    shape: DriftShape
    key: tuple[int, int]

    def level(self, env_step: int | Integer[np.ndarray, "*n"]) -> Float64[np.ndarray, "*n"]:
        """The drift level in [0, 1]."""
        steps = self._steps(env_step)
        periods = (steps / self.period).reshape(-1)
        level = np.asarray(self.shape.level(periods, np.array(self.key, np.uint32)), np.float64)
        if level.shape != periods.shape or not ((level >= 0.0) & (level <= 1.0)).all():
            raise WorldforkError(
                f"The schedule `{type(self.shape).__name__}` gave levels of shape {level.shape} from "
                f"{level.min()} to {level.max()}; expected {periods.shape}, each in [0, 1]."
            )
        return (level if self.direction == "away" else 1.0 - level).reshape(steps.shape)

    def rate(self, env_step: int | Integer[np.ndarray, "*n"]) -> Float64[np.ndarray, "*n"]:
        """The level's change over the environment step from `env_step` on."""
        return np.asarray(self.level(np.asarray(env_step) + 1) - self.level(env_step))


def schedule(
    name: str,
    direction: Direction,
    period: int,
    *,
    event: Event,
    log_scale: float | None = None,
    settings: dict[str, object] | None = None,
) -> Schedule:
    """The registered schedule along one stream; what it draws comes from `event`."""
    shape = registry.build("schedules", name, DriftShape, settings=settings, where="[stream.schedule_settings]")
    if isinstance(shape, Ramp):
        return Schedule(direction, period, log_scale)
    high, low = (int(word) for word in words(event))
    return ShapedSchedule(direction, period, log_scale, shape=shape, key=(high, low))


def _draws(key: Key, count: int) -> Float64[np.ndarray, " {count}"]:
    """One standard normal for each move, whatever the number of moves that is asked for."""
    return normals(fold_in(key, np.arange(count)), 1, Purpose.DRIFT)[:, 0]


def _folded(values: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """Reflected at 0 and at 1."""
    return 1.0 - np.abs(1.0 - np.mod(values, 2.0))
