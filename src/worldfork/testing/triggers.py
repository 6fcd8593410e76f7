"""The contract of a trigger: fed segment by segment, it answers from the past of its own deployment alone."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from worldfork import registry
from worldfork.randomness import Event
from worldfork.testing.report import Report, Rule, demand, examine, no_global_draws
from worldfork.triggers import Answer, CellKey, Segment, Trigger, draw_event, feed, feed_together

__all__ = ["check_trigger"]

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
    """Examine a trigger: a name of the registry, a plug-in class, or a record.

    It is fed deployments that log `error`, `kl`, `reward`, what it `needs`, and what you name in `logged`. Raises
    `ContractError` with everything that is wrong.
    """
    if isinstance(trigger, str):
        record = registry.build("triggers", trigger, Trigger, settings=settings)
    elif isinstance(trigger, type):
        record = trigger.model_validate(dict(settings or {}))
    else:
        record = trigger
    bench = _Bench(record, tuple(dict.fromkeys(("error", "kl", "reward", *record.needs, *logged))))
    rules = [
        Rule("A trigger answers with numbers, or with alarms", bench.answers_in_one_kind, foundation=True),
        Rule("It draws no randomness of its own", bench.draws_from_the_event, foundation=True),
        Rule("It does not see the future", bench.reads_the_past, foundation=True),
        Rule("It reads each deployment alone", bench.reads_alone),
        Rule("Numbers that are missing break nothing", bench.survives_gaps),
        Rule("It leaves the segments as they are", bench.leaves_the_segments),
        Rule("Its settings survive being written down", bench.survives_writing),
    ]
    name = trigger if isinstance(trigger, str) else type(record).__name__
    return examine(f"The trigger `{name}`", rules)


class _Bench:
    """A trigger, and deployments whose error jumps half-way. Each rule begins on one that was not seen before."""

    def __init__(self, trigger: Trigger, columns: tuple[str, ...]) -> None:
        self.trigger, self.columns = trigger, columns

    def answers_in_one_kind(self) -> None:
        remedy = "Answer with a finite float each time, or with True and False each time; None is nothing to say."
        try:
            answers = self.feed(self.deployment(0), 0)
        except KeyError as error:
            needed = f"Logged here: {', '.join(self.columns)}. What must be there is named in `needs`."
            demand(False, f"it reads `{error.args[0]}`, which is not there.", needed)
        spoken = [answer for answer in answers if answer is not None]
        numbers = [
            a for a in spoken if isinstance(a, float | int | np.number) and not isinstance(a, bool | np.bool_)
        ]
        alarms = [answer for answer in spoken if isinstance(answer, bool | np.bool_)]
        others = [answer for answer in spoken if not isinstance(answer, float | int | np.number | np.bool_)]
        demand(not others, f"it answered {others[:1]!r:.60}.", remedy)
        demand(not (numbers and alarms), f"it answered with numbers and with alarms: {spoken}.", remedy)
        demand(not any(map(math.isinf, numbers)), f"it answered with infinity: {spoken}.", remedy)

    def draws_from_the_event(self) -> None:
        with no_global_draws("`begin` or `decide`", DRAWS):
            first = self.feed(self.deployment(1), 1)
        again = self.feed(self.deployment(1), 1)
        seen = f"asked again about the same deployment it answered {again}, not {first}: it draws, or remembers it."
        demand(_same(first, again), seen, f"{DRAWS} {IN_MEMORY}")

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
        deployments = [self.deployment(cell) for cell in range(len(CELLS))]
        events = [_event(cell) for cell in CELLS]
        for before, after in zip(
            alone, feed_together(self.trigger, deployments, cells=CELLS, events=events), strict=True
        ):
            seen = f"asked of several deployments at once it answered {after}, and {before} of one alone."
            demand(_same(before, after), seen, "`decide_together` answers for each deployment as `decide` does.")

    def survives_gaps(self) -> None:
        broken = self.deployment(0)
        for segment in broken[:2]:
            for column in segment.steps.values():
                column[::3] = math.nan
        whole, cut = self.feed(broken, 0), self.feed(broken[:1], 0)
        demand(_same(cut, whole[:1]), f"with missing errors it answered {cut}, then {whole[:1]}.", IN_MEMORY)

    def leaves_the_segments(self) -> None:
        segments = self.deployment(0)
        for segment in segments:
            for column in segment.steps.values():
                column.flags.writeable = False
        try:
            self.feed(segments, 0)
        except ValueError as error:
            remedy = "Copy before you write: the next trigger reads the same arrays."
            demand("read-only" not in str(error), "`decide` writes into the segment.", remedy)
            raise

    def survives_writing(self) -> None:
        again = type(self.trigger).model_validate_json(self.trigger.model_dump_json())
        remedy = "Settings are fields with types that JSON can hold."
        demand(again == self.trigger, f"it comes back from its own JSON as {again!r}.", remedy)

    def feed(self, segments: Sequence[Segment], cell: int) -> list[Answer]:
        return feed(self.trigger, segments, cell=CELLS[cell], event=_event(CELLS[cell]))

    def deployment(self, cell: int, *, seed: int = 0, jump: float = 1.0) -> list[Segment]:
        """One deployment; everything that a trigger can ask for is there."""
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
    """Equal to the last digit, and of one kind; NaN equals NaN."""
    return [repr(_plain(answer)) for answer in before] == [repr(_plain(answer)) for answer in after]


def _plain(answer: Any) -> Any:
    return answer.item() if isinstance(answer, np.generic) else answer
