"""What every trigger must keep, as functions over any trigger: each says what was broken in an AssertionError."""

import math
import random
from collections.abc import Callable, Sequence

import numpy as np

from worldfork.desk.reading.prefork import CellKey
from worldfork.desk.triggers.base import Answer, Segment, Trigger
from worldfork.desk.triggers.reading import draw_event, feed

SEGMENT, FORKS = 120, 6
CELLS = (CellKey("0", "away", 0), CellKey("0", "toward", 0), CellKey("1", "away", 3))


def deployment(cell: int, *, seed: int = 0, jump: float = 1.0) -> list[Segment]:
    """One deployment whose error jumps after the third segment; everything a trigger can ask for is there."""
    draws = np.random.default_rng([seed, cell])
    steps = SEGMENT * FORKS
    columns = {
        "error": draws.gamma(4, 0.05, steps) + jump * (np.arange(steps) >= SEGMENT * 3),
        "kl": draws.gamma(2, 1.0, steps),
        "reward": draws.random(steps),
    }
    signals = {name: draws.normal(size=FORKS) for name in ("residual", "return_deficit")}
    return [
        Segment(
            k=k,
            level=k / FORKS,
            steps={name: column[SEGMENT * (k - 1) : SEGMENT * k].copy() for name, column in columns.items()},
            signals={name: float(values[k - 1]) for name, values in signals.items()},
        )
        for k in range(1, FORKS + 1)
    ]


def check_same_digits_twice(trigger: Trigger) -> None:
    """A second run gives the same, whatever the global generators are doing: draws come from the event alone."""
    first, again, other = (_with_global_seed(trigger, state) for state in (1, 1, 2))
    assert _same(first, again), f"{trigger!r} answers otherwise when it is asked again: {first}, {again}"
    assert _same(first, other), (
        f"{trigger!r} draws from a global generator. Draw from `event` (worldfork.randomness.generator)."
    )


def check_interleaved(trigger: Trigger) -> None:
    """Deployments that run side by side are read as if each were alone: all memory is in what `begin` returns."""
    alone = [_feed(trigger, deployment(cell), cell) for cell in range(len(CELLS))]
    memories = [trigger.begin(cell, event=_event(cell)) for cell in CELLS]
    side_by_side: list[list[Answer]] = [[] for _ in CELLS]
    for segments in zip(*(deployment(cell) for cell in range(len(CELLS))), strict=True):
        for cell, segment in enumerate(segments):
            memories[cell], answer = trigger.decide(memories[cell], segment)
            side_by_side[cell].append(answer)
    assert _same(alone, side_by_side), f"{trigger!r} lets one deployment say something about another."


def check_past_alone(trigger: Trigger) -> None:
    """Cutting the future off, or going on in quite another way, changes no answer that was given."""
    whole = _feed(trigger, deployment(0), 0)
    for k in (1, 3, FORKS - 1):
        cut = _feed(trigger, deployment(0)[:k], 0)
        assert _same([cut], [whole[:k]]), f"{trigger!r} answers otherwise at k <= {k} where the stream ends there."
        other = _feed(trigger, [*deployment(0)[:k], *deployment(0, seed=9, jump=-5.0)[k:]], 0)
        assert _same([other[:k]], [whole[:k]]), f"{trigger!r} answers otherwise at k <= {k} where {k + 1} differs."


def check_gaps(trigger: Trigger) -> None:
    """Errors that are not finite break nothing, and leave the future unread."""
    broken = deployment(0)
    for segment in broken[:2]:
        for column in segment.steps.values():
            column[::3] = math.nan
    whole = _feed(trigger, broken, 0)
    assert _same([_feed(trigger, broken[:1], 0)], [whole[:1]]), f"{trigger!r} reads ahead over missing errors."


def check_one_kind(trigger: Trigger) -> None:
    """Numbers, or True and False; never both, never infinite."""
    answers = [answer for answer in _feed(trigger, deployment(0), 0) if answer is not None]
    alarms = [isinstance(answer, bool | np.bool_) for answer in answers]
    assert all(alarms) or not any(alarms), f"{trigger!r} answers with numbers and with alarms: {answers}"
    assert not any(math.isinf(answer) for answer in answers), f"{trigger!r} answers with infinity: {answers}"


def check_settings(trigger: Trigger) -> None:
    """Settings survive being written down."""
    again = type(trigger).model_validate_json(trigger.model_dump_json())
    assert again == trigger, f"{trigger!r} comes back from its own JSON as {again!r}."


CHECKS: Sequence[Callable[[Trigger], None]] = (
    check_same_digits_twice,
    check_interleaved,
    check_past_alone,
    check_gaps,
    check_one_kind,
    check_settings,
)


def _with_global_seed(trigger: Trigger, state: int) -> list[list[Answer]]:
    random.seed(state)
    np.random.seed(state)  # noqa: NPY002  (a trigger may use it: that is what is looked for)
    return [_feed(trigger, deployment(cell), cell) for cell in range(len(CELLS))]


def _feed(trigger: Trigger, segments: Sequence[Segment], cell: int) -> list[Answer]:
    return feed(trigger, segments, cell=CELLS[cell], event=_event(CELLS[cell]))


def _event(cell: CellKey):
    return draw_event("checked", task="t", cell=cell, seed=0)


def _same(first: Sequence[Sequence[Answer]], second: Sequence[Sequence[Answer]]) -> bool:
    """Equal to the last digit; NaN equals NaN."""
    return repr([list(map(_plain, row)) for row in first]) == repr([list(map(_plain, row)) for row in second])


def _plain(answer: Answer) -> Answer:
    return answer.item() if isinstance(answer, np.generic) else answer
