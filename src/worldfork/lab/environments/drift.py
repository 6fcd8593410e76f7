"""Drift and noise: a level that moves along a stream, the parameter that it moves, and the noise on actions.

Paper, "Deployment stream": volatility is drift in a physics parameter, stochasticity is noise on the executed
action. Both are pure functions: to go on from a fork takes no more than the step at which it was taken.
"""

import abc
import dataclasses
import itertools
from typing import Final, Literal

import numpy as np
from jaxtyping import Float, Float64, Integer, UInt32
from pydantic import Field, field_validator

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.randomness import Event, Purpose, fold_in, normals, words
from worldfork.registry import Plugin

Direction = Literal["toward", "away"]
EvaluationMode = Literal["pinned", "forward"]

# Environment steps a schedule takes from one end to the other.
PERIODS: Final = {"corrected": 20_000, "legacy": 2_000}


Key = UInt32[np.ndarray, "2"]


class DriftShape(Plugin):
    """The level after some periods of a stream that leaves nominal physics; `toward` mirrors it."""

    @abc.abstractmethod
    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        """Return the level in [0, 1]; `periods` is the environment step divided by `drift_period`."""


class Ramp(DriftShape):
    """Go from one end to the other in one period, and stay there."""

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        return np.minimum(1.0, periods)


class Constant(DriftShape):
    """Stay at the far end from the beginning: a world that is simply another one."""

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        return np.ones_like(periods)


class Step(DriftShape):
    """Jump from the near end to the far one."""

    at: float = Field(default=1.0, ge=0)  # in periods

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        return np.where(periods >= self.at, 1.0, 0.0)


class Cyclic(DriftShape):
    """Rise over a period, fall back at once, and rise again."""

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        return periods % 1.0


class SawWave(DriftShape):
    """Rise over a period, fall over the next, and so on."""

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        return _folded(periods)


class RandomWalk(DriftShape):
    """Move by chance from the near end on, reflected at both ends; UPDATE and HOLD meet the same walk."""

    spread: float = Field(default=0.5, gt=0)  # standard deviation of what a period moves it by, but for the ends
    moves: int = Field(default=20, ge=1)  # per period

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        place = np.floor(periods * self.moves).astype(np.int64)
        drawn = _draws(key, int(place.max(initial=0)) + 1)
        walked = np.concatenate([[0.0], np.cumsum(drawn)]) * self.spread / np.sqrt(self.moves)
        return _folded(walked[place])


class Uniform(DriftShape):
    """Jump to a new uniform level `moves` times a period."""

    moves: int = Field(default=1, ge=1)  # per period

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        from scipy.special import ndtr  # type: ignore[import-untyped,unused-ignore]  # slow to import

        place = np.floor(periods * self.moves).astype(np.int64)
        return np.asarray(ndtr(_draws(key, int(place.max(initial=0)) + 1))[place])


class Table(DriftShape):
    """Follow a table of levels: straight lines between its points, or the level of the last point passed.

    >>> shape = Table(points=((0.0, 0.0), (0.5, 1.0), (2.0, 0.4)))
    >>> shape.level(np.array([0.25, 0.5, 1.25, 9.0]), np.zeros(2, np.uint32))
    array([0.5, 1. , 0.7, 0.4])
    """

    points: tuple[tuple[float, float], ...] = ((0.0, 0.0), (1.0, 1.0))  # period and level, from period 0 on
    between: Literal["lines", "steps"] = "lines"

    @field_validator("points")
    @classmethod
    def _in_order(cls, points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        periods = [period for period, _ in points]
        in_order = all(before < after for before, after in itertools.pairwise(periods))
        if not (periods[:1] == [0.0] and in_order and all(0.0 <= level <= 1.0 for _, level in points)):
            raise ValueError(
                "expected periods that rise from 0 and levels in [0, 1], as in [[0, 0], [0.5, 1], [2, 0.4]]"
            )
        return points

    def level(self, periods: Float64[np.ndarray, " n"], key: Key) -> Float64[np.ndarray, " n"]:
        at, levels = np.array(self.points).T
        if self.between == "lines":
            return np.interp(periods, at, levels)
        return levels[np.searchsorted(at, periods, side="right") - 1]


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The level at each environment step since the stream began: a ramp, if no other shape is given.

    `away` leaves nominal physics (a ramp: level 0 to 1); `toward` mirrors it and returns there. The level of a
    ramp's `toward` at step t is that of `away` at `period` - t, to the last bit.

    >>> Schedule("away", PERIODS["corrected"]).level(np.array([0, 1000, 30_000]))
    array([0.  , 0.05, 1.  ])
    """

    direction: Direction
    period: int
    log_scale: float | None = None  # the parameter's scale at level 1, where it moves by its logarithm
    shape: DriftShape = dataclasses.field(default_factory=Ramp)
    key: tuple[int, int] = (0, 0)  # what the shape draws comes from it

    def level(self, env_step: int | Integer[np.ndarray, "*n"]) -> Float64[np.ndarray, "*n"]:
        """Return the drift level in [0, 1]."""
        steps = np.asarray(env_step)
        if isinstance(self.shape, Ramp):
            travelled = np.minimum(steps, self.period)
            # A whole number of steps is divided in both directions: 1 - t / P would miss (P - t) / P by rounding.
            from_nominal = travelled if self.direction == "away" else self.period - travelled
            return np.asarray(from_nominal / self.period)
        periods = (steps / self.period).reshape(-1)
        level = np.asarray(self.shape.level(periods, np.array(self.key, np.uint32)), np.float64)
        if level.shape != periods.shape or not ((level >= 0.0) & (level <= 1.0)).all():
            raise WorldforkError(
                f"The schedule `{type(self.shape).__name__}` gave levels of shape {level.shape} from "
                f"{level.min()} to {level.max()}; expected {periods.shape}, each in [0, 1]."
            )
        return (level if self.direction == "away" else 1.0 - level).reshape(steps.shape)

    def felt(self, level: Float64[np.ndarray, "*n"]) -> Float64[np.ndarray, "*n"]:
        """Return the level to set a world to, whose parameter is linear in it.

        By the logarithm the parameter is nominal * scale**level, so that a small one is felt before the end:

        >>> Schedule("away", 20_000, log_scale=0.25).felt(np.array([0.0, 0.5, 1.0]))  # 1, a half, a quarter
        array([0.        , 0.66666667, 1.        ])
        """
        if self.log_scale is None or self.log_scale == 1.0:
            return level
        return np.asarray((self.log_scale**level - 1.0) / (self.log_scale - 1.0) + 0.0)  # no negative zero


def schedule(
    name: str,
    direction: Direction,
    period: int,
    *,
    event: Event,
    log_scale: float | None = None,
    settings: dict[str, object] | None = None,
) -> Schedule:
    """Return the registered schedule along one stream; what it draws comes from `event`."""
    shape = registry.build("schedules", name, DriftShape, settings=settings, where="[stream.schedule_settings]")
    if isinstance(shape, Ramp):
        return Schedule(direction, period, log_scale)
    high, low = (int(word) for word in words(event))
    return Schedule(direction, period, log_scale, shape, key=(high, low))


def evaluation_levels(
    schedule: Schedule, fork_env_step: int, *, control_steps: int, action_repeat: int, mode: EvaluationMode
) -> Float64[np.ndarray, " {control_steps}"]:
    """Return the level at each control step of an evaluation episode that starts at the fork.

    Paper, "Pinned-physics bias and the forward-window arm": `pinned` holds the level of the fork; `forward` goes on
    from there along the schedule.
    """
    moving = action_repeat if mode == "forward" else 0
    return schedule.level(fork_env_step + moving * np.arange(control_steps))


def factor(level: Float64[np.ndarray, "*n"], scale: float) -> Float64[np.ndarray, "*n"]:
    """Return the multiple of the drifting parameter's nominal value; exactly 1 at level 0."""
    return 1.0 + level * (scale - 1.0)


def noisy_action(
    planned: Float[np.ndarray, "*n A"], normal: Float64[np.ndarray, "*n A"], *, sigma_a: float, bound: float
) -> Float64[np.ndarray, "*n A"]:
    """Return the executed action: noise added, then clipped to [-bound, bound]. The model sees the planned one."""
    return np.clip(planned.astype(np.float64) + sigma_a * normal, -bound, bound)


def _draws(key: Key, count: int) -> Float64[np.ndarray, " {count}"]:
    """Return one standard normal for each move, whatever the number of moves that is asked for."""
    return normals(fold_in(key, np.arange(count)), 1, Purpose.DRIFT)[:, 0]


def _folded(values: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """Reflect values at 0 and at 1."""
    return 1.0 - np.abs(1.0 - np.mod(values, 2.0))
