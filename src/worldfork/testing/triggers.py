"""Contract of a trigger: fed segment by segment, it answers from the past of its own deployment alone."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from worldfork.randomness import Event
from worldfork.testing.contract import (
    Report,
    demand,
    demand_unwritten,
    examine,
    name_of,
    no_global_draws,
    resolved,
    rule,
)
from worldfork.triggers import (
    Answer,
    CellKey,
    LabelledDeployment,
    Segment,
    Trigger,
    draw_event,
    feed,
)

SEGMENT: Final = 120  # control steps
POINTS: Final = 6
CELLS: Final = (CellKey("0", "away", 0), CellKey("0", "toward", 0), CellKey("1", "away", 3))
DRAWS = "Draw from the `event` that `begin` is given (worldfork.randomness.generator, words, normals)."
IN_MEMORY = "Keep what you need in the memory that `begin` and `decide` return, and nothing anywhere else."


def check_trigger(
    trigger: str | type[Trigger] | Trigger,
    *,
    settings: Mapping[str, Any] | None = None,
    logged: Sequence[str] = (),
) -> Report:
    """Examine a trigger on deployments that log `error`, `kl`, `reward`, and what it `needs`.

    Args:
        trigger: a name of the registry, a plug-in class, or a record.
        settings: settings of a name or class.
        logged: other columns that your agent logs.

    Raises:
        ContractError: with everything that is wrong.

    Example:
        >>> check_trigger("adwin").kept[2]
        'It does not see the future'
    """
    record = resolved("triggers", trigger, Trigger, settings)
    columns = tuple(dict.fromkeys(("error", "kl", "reward", *record.needs, *logged)))
    return examine(f"The trigger `{name_of(trigger)}`", _Bench(record, columns))


class _Bench:
    """A trigger, and deployments whose error jumps half-way. Each rule begins on one that was not seen before.

    A trigger that learns is fitted first, so that every rule holds for what it learnt.
    """

    def __init__(self, trigger: Trigger, columns: tuple[str, ...]) -> None:
        self.columns, self.unfitted = columns, trigger
        self.trigger = trigger.fit(self.labelled())

    @rule("A trigger answers with numbers, or with alarms", foundation=True)
    def answers_in_one_kind(self) -> None:
        remedy = "Answer with a finite float each time, or with True and False each time; None is nothing to say."
        try:
            answers = self.feed(self.deployment(0), 0)
        except KeyError as error:
            needed = f"Logged here: {', '.join(self.columns)}. What must be there is named in `needs`."
            demand(False, f"it reads `{error.args[0]}`, which is not there.", needed)
        spoken = [answer for answer in answers if answer is not None]
        alarms = [answer for answer in spoken if isinstance(answer, bool | np.bool_)]
        numbers = [answer for answer in spoken if isinstance(answer, float | int | np.number)]
        numbers = [answer for answer in numbers if not isinstance(answer, bool)]
        others = [answer for answer in spoken if not isinstance(answer, float | int | np.number | np.bool_)]
        demand(not others, f"it answered {others[:1]!r:.60}.", remedy)
        demand(not (numbers and alarms), f"it answered with numbers and with alarms: {spoken}.", remedy)
        demand(not any(map(math.isinf, numbers)), f"it answered with infinity: {spoken}.", remedy)

    @rule("It draws no randomness of its own", foundation=True)
    def draws_from_the_event(self) -> None:
        with no_global_draws("`begin` or `decide`", DRAWS):
            first = self.feed(self.deployment(1), 1)
        again = self.feed(self.deployment(1), 1)
        seen = f"asked again about the same deployment it answered {again}, not {first}: it draws, or remembers it."
        demand(_same(first, again), seen, f"{DRAWS} {IN_MEMORY}")

    @rule("It does not see the future", foundation=True)
    def reads_the_past(self) -> None:
        """Cutting the future off, or going on in quite another way, changes no answer that was given."""
        whole = self.feed(self.deployment(2), 2)
        for k in (1, 3, POINTS - 1):
            cut = self.feed(self.deployment(2)[:k], 2)
            seen = f"where the stream ends after segment {k}, it answered {cut}, not {whole[:k]}."
            demand(_same(cut, whole[:k]), seen, IN_MEMORY)
            other = self.feed([*self.deployment(2)[:k], *self.deployment(2, seed=9, jump=-5.0)[k:]], 2)[:k]
            seen = f"where segment {k + 1} is another, it answered {other} before it, not {whole[:k]}."
            demand(_same(other, whole[:k]), seen, IN_MEMORY)

    @rule("It reads each deployment alone")
    def reads_alone(self) -> None:
        alone = [self.feed(self.deployment(cell), cell) for cell in range(len(CELLS))]
        memories = [self.trigger.begin(cell, event=_event(cell)) for cell in CELLS]
        together: list[list[Answer]] = [[] for _ in CELLS]
        for segments in zip(*(self.deployment(cell) for cell in range(len(CELLS))), strict=True):
            for cell, segment in enumerate(segments):
                memories[cell], answer = self.trigger.decide(memories[cell], segment)
                together[cell].append(answer)
        for before, after in zip(alone, together, strict=True):
            seen = f"beside other deployments it answered {after}, and {before} alone."
            demand(_same(before, after), seen, IN_MEMORY)

    @rule("It learns from what it is given, and from nothing else")
    def learns_from_labels(self) -> None:
        with no_global_draws("`fit`", "Take a seed as a setting."):
            given = self.labelled()
            again = demand_unwritten(self.unfitted.fit, given, subject="`fit`", remedy=IN_MEMORY)
        seen = f"fitted twice on the same labels it came out as {again!r:.200}, and as {self.trigger!r:.200}."
        demand(
            again == self.trigger, seen, "Return `self.model_copy(update=...)` with what was learnt, and keep none."
        )

    @rule("Numbers that are missing break nothing")
    def survives_gaps(self) -> None:
        broken = self.deployment(0)
        for segment in broken[:2]:
            for column in segment.steps.values():
                column[::3] = math.nan
        whole, cut = self.feed(broken, 0), self.feed(broken[:1], 0)
        demand(_same(cut, whole[:1]), f"with missing errors it answered {cut}, then {whole[:1]}.", IN_MEMORY)

    @rule("It leaves the segments as they are")
    def leaves_the_segments(self) -> None:
        remedy = "Copy before you write: the next trigger reads the same arrays."
        demand_unwritten(
            lambda segments: self.feed(segments, 0),
            self.deployment(0),
            subject="`decide`",
            thing="the segment",
            remedy=remedy,
        )

    @rule("Its settings survive being written down")
    def survives_writing(self) -> None:
        again = type(self.trigger).model_validate_json(self.trigger.model_dump_json())
        remedy = "Settings are fields with types that JSON can hold."
        demand(again == self.trigger, f"it comes back from its own JSON as {again!r}.", remedy)

    def labelled(self) -> list[LabelledDeployment]:
        """Return deployments of other models, in which updates pay once the error has jumped."""
        delta = np.where(np.arange(POINTS) >= 3, 50.0, -20.0)
        return [LabelledDeployment(tuple(self.deployment(cell)), delta + cell) for cell in range(10, 20)]

    def feed(self, segments: Sequence[Segment], cell: int) -> list[Answer]:
        return feed(self.trigger, segments, cell=CELLS[cell], event=_event(CELLS[cell]))

    def deployment(self, cell: int, *, seed: int = 0, jump: float = 1.0) -> list[Segment]:
        """Return a deployment with everything that a trigger can ask for."""
        draws = np.random.default_rng([seed, cell])
        steps = SEGMENT * POINTS
        columns = {name: draws.gamma(4, 0.05, steps) for name in self.columns}
        columns["error"] += jump * (np.arange(steps) >= SEGMENT * 3)
        signals = {name: draws.normal(size=POINTS) for name in ("residual", "return_deficit")}
        return [
            Segment(
                k=k,
                level=k / POINTS,
                steps={name: column[SEGMENT * (k - 1) : SEGMENT * k].copy() for name, column in columns.items()},
                signals={name: float(values[k - 1]) for name, values in signals.items()},
            )
            for k in range(1, POINTS + 1)
        ]


def _event(cell: CellKey) -> Event:
    return draw_event("testing", task="testing", cell=cell, seed=0)


def _same(before: Sequence[Answer], after: Sequence[Answer]) -> bool:
    """Return True for answers that are equal to the last digit and of one kind; NaN equals NaN."""
    return [repr(_plain(answer)) for answer in before] == [repr(_plain(answer)) for answer in after]


def _plain(answer: Any) -> Any:
    return answer.item() if isinstance(answer, np.generic) else answer
