"""A conformal test martingale on the error stream (Vovk et al., 2021, "Retrain or not retrain").

Each error gets a conformal p-value: its randomised rank among the errors so far. While errors are exchangeable
these are independent and uniform, and betting against uniformity gains nothing: by Ville's inequality the capital
ever reaches 100 with probability at most 1 in 100. When it does, that is the alarm, and the test starts afresh.
"""

import bisect
import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from pydantic import Field

from worldfork.randomness import Event, generator
from worldfork.triggers.base import CellKey
from worldfork.triggers.detectors import SteppedDetector

PIECE: Final = 255  # errors of many deployments that are compared with one another at a time: a byte counts them
BETS: Final = (-1.0, 0.0, 1.0)  # slopes: small p-values are likely, nothing, large p-values are likely


@dataclasses.dataclass(frozen=True)
class _Betting:
    """The errors since the last alarm, in order of size, and the capital on each bet."""

    draws: np.random.Generator
    seen: Float[np.ndarray, "seen"] = dataclasses.field(default_factory=lambda: np.zeros(0))
    capital: tuple[float, float, float] = (1 / len(BETS),) * 3


class ConformalMartingale(SteppedDetector):
    """The Simple Jumper: three linear bets on the p-value, a little capital moving between them.

    Args:
        capital: what the capital must reach for an alarm; its inverse bounds the probability of a false one.
        jump: the share that is dealt out anew over the bets at each step.

    >>> trigger = ConformalMartingale(capital=20.0)
    """

    capital: float = Field(default=100.0, gt=1)  # what the capital must reach
    jump: float = Field(default=0.01, ge=0, le=1)  # share that is dealt out anew over the bets at each step

    def begin(self, cell: CellKey, *, event: Event) -> _Betting:
        return _Betting(generator(event))

    def show(self, memory: _Betting, errors: Float[np.ndarray, "shown"]) -> tuple[_Betting, bool]:
        alarmed, enough, jump, stay = False, self.capital, self.jump, 1 - self.jump
        seen, (low, flat, high) = memory.seen.tolist(), memory.capital
        count, bets, bisect_left, bisect_right = len(seen), len(BETS), bisect.bisect_left, bisect.bisect_right
        total = low + flat + high
        for error, tie in zip(errors.tolist(), memory.draws.random(len(errors)).tolist(), strict=True):
            place = bisect_right(seen, error)
            # Large errors are strange: small p. The error is among those of its own size.
            if place and seen[place - 1] == error:
                rank = count - place + tie * (place + 1 - bisect_left(seen, error))
            else:
                rank = count - place + tie
            seen.insert(place, error)
            count += 1
            centred = rank / count - 0.5
            dealt = jump * total / bets
            # A bet of slope b multiplies its capital by 1 + b (p - 1/2).
            low = (stay * low + dealt) * (1 - centred)
            flat = stay * flat + dealt
            high = (stay * high + dealt) * (1 + centred)
            total = low + flat + high
            if total >= enough:
                alarmed = True
                seen, count, (low, flat, high) = [], 0, _Betting.capital
                total = low + flat + high
        return _Betting(memory.draws, np.array(seen), (low, flat, high)), alarmed

    def step_together(
        self, memories: Sequence[_Betting], errors: Sequence[Float[np.ndarray, "steps"]]
    ) -> list[tuple[_Betting, bool]]:
        ties = np.array([memory.draws.random(len(errors[0])) for memory in memories]).T
        ever = np.zeros(len(memories), dtype=bool)
        for start in range(0, len(ties), PIECE):
            piece = slice(start, start + PIECE)
            memories, alarmed = self._bet_on_piece(memories, [shown[piece] for shown in errors], ties[piece])
            ever |= alarmed
        return list(zip(memories, ever.tolist(), strict=True))

    def _bet_on_piece(
        self,
        memories: Sequence[_Betting],
        errors: Sequence[Float[np.ndarray, "steps"]],
        ties: Float[np.ndarray, "steps deployments"],
    ) -> tuple[list[_Betting], Bool[np.ndarray, "deployments"]]:
        # Of the errors since the last alarm, how many are larger than each new one, and how many as large: those
        # seen before, and those of this piece, which are counted as they are passed.
        logged = np.array(errors)
        orders = np.argsort(logged, axis=1)
        ascending = np.take_along_axis(logged, orders, axis=1)
        larger, equal = _compared([memory.seen for memory in memories], ascending, orders)
        ranks = _ranked(ascending, orders)
        passed_larger, passed_equal = np.zeros_like(ranks), np.zeros_like(ranks)
        tied = bool(equal.any()) or bool((ranks.max(axis=0) < len(ranks) - 1).any())
        counts = np.array([len(memory.seen) for memory in memories])
        capital = np.array([memory.capital for memory in memories]).T.copy()
        total = capital[0] + capital[1] + capital[2]
        alarms = np.full(len(memories), -1)  # the step of the last one
        for step, (rank, tie) in enumerate(zip(ranks, ties, strict=True)):
            later = slice(step + 1, None)
            counts += 1
            strange = larger[step] + passed_larger[step]
            of_its_size = tie * (equal[step] + passed_equal[step] + 1) if tied else tie
            centred = (strange + of_its_size) / counts - 0.5
            capital *= 1 - self.jump
            capital += self.jump * total / len(BETS)
            capital[0] *= 1 - centred
            capital[2] *= 1 + centred
            total = capital[0] + capital[1] + capital[2]
            passed_larger[later] += (rank > ranks[later]).view(np.uint8)
            if tied:
                passed_equal[later] += (rank == ranks[later]).view(np.uint8)
            alarmed = total >= self.capital
            if alarmed.any():
                alarms[alarmed], counts[alarmed] = step, 0
                for compared in (larger, equal, passed_larger, passed_equal):
                    compared[later, alarmed] = 0
                capital[:, alarmed] = 1 / len(BETS)
                total = capital[0] + capital[1] + capital[2]
        bets = [(low, flat, high) for low, flat, high in capital.T.tolist()]
        return [
            _Betting(
                memory.draws, np.sort(shown[alarm + 1 :]) if alarm >= 0 else _merged(memory.seen, in_order), bet
            )
            for memory, shown, in_order, alarm, bet in zip(
                memories, errors, ascending, alarms.tolist(), bets, strict=True
            )
        ], alarms >= 0


def _compared(
    seen: Sequence[Float[np.ndarray, "_"]],
    ascending: Float[np.ndarray, "deployments steps"],
    orders: Int[np.ndarray, "deployments steps"],
) -> tuple[Int[np.ndarray, "steps deployments"], Int[np.ndarray, "steps deployments"]]:
    """Count the errors seen that are larger than each new one, and those as large.

    New ones are looked up in order of size, since each is then near the last.
    """
    larger, equal = (np.zeros(ascending.shape, dtype=np.int64) for _ in range(2))
    for index, (earlier, values, order) in enumerate(zip(seen, ascending, orders, strict=True)):
        up_to = earlier.searchsorted(values, "right")
        larger[index, order] = len(earlier) - up_to
        if len(earlier) and (earlier[up_to - 1] == values).any():  # as good as never
            equal[index, order] = up_to - earlier.searchsorted(values)
    return np.ascontiguousarray(larger.T), np.ascontiguousarray(equal.T)


def _ranked(
    ascending: Float[np.ndarray, "deployments steps"], orders: Int[np.ndarray, "deployments steps"]
) -> UInt8[np.ndarray, "steps deployments"]:
    """Return the place of each new error by size among those of its deployment; equal ones share one."""
    places, ranks = np.zeros((2, *ascending.shape), dtype=np.uint8)
    np.cumsum(ascending[:, 1:] > ascending[:, :-1], axis=1, dtype=np.uint8, out=places[:, 1:])
    np.put_along_axis(ranks, orders, places, axis=1)
    return np.ascontiguousarray(ranks.T)


def _merged(seen: Float[np.ndarray, "_"], new: Float[np.ndarray, "steps"]) -> Float[np.ndarray, "_"]:
    """Merge two sequences that are in order of size: what a stable sort does in one pass."""
    return np.sort(np.concatenate([seen, new]), kind="stable")
