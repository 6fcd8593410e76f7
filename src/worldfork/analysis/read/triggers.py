"""Readings of triggers at every fork of a table: numbers, alarms, or nothing and why."""

import dataclasses
import functools
import math
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from worldfork import registry
from worldfork.analysis.read.prefork import ForkFlags, ForkValues, Prefork
from worldfork.built_in import BUILT_IN
from worldfork.errors import WorldforkError
from worldfork.randomness import Event
from worldfork.triggers import Answer, Asked, Segment, Trigger, draw_event, feed
from worldfork.triggers.feeding import naming


@dataclasses.dataclass(frozen=True)
class Signal:
    """A number per fork; NaN is a missing signal, which never fires."""

    values: ForkValues


@dataclasses.dataclass(frozen=True)
class Alarms:
    """A decision per fork."""

    fired: ForkFlags


@dataclasses.dataclass(frozen=True)
class Unavailable:
    """Nothing to read, and why."""

    why: str


Reading = Signal | Alarms | Unavailable


def lacking(prefork: Prefork, cell: int, name: str, trigger: Trigger, *, seed: int) -> str | None:
    """Return what a trigger needs and a cell does not have: a column of its stream, or, where the stream is not
    here, what this trigger answered on it. None where it can be asked."""
    stream = prefork.stream(cell)
    if stream is not None:
        missing = [column for column in trigger.needs if column not in stream.columns]
        if not missing:
            return None
        return f"needs `{missing[0]}` at every step of the stream, which has {', '.join(stream.columns)}"
    if not trigger.needs or stored_answers(prefork, cell, name, trigger, seed=seed) is not None:
        return None
    answered = [who for who in prefork.answered(cell) if who.trigger == name and who.seed is not None]
    alike = [who for who in answered if dataclasses.replace(who, seed=seed) == Asked.of(name, trigger, seed=seed)]
    if seeds := sorted(str(who.seed) for who in alike):
        return (
            "draws random numbers: this copy was published without streams, and has what it answered under seed "
            f"{' and '.join(seeds)}, not under seed {seed}"
        )
    needed = " and the ".join(trigger.needs)
    return (
        f"needs the {needed} of every step of the stream, which a flat table has not, nor a copy that was "
        "published without streams"
    )


def stored_answers(
    prefork: Prefork, cell: int, name: str, trigger: Trigger, *, seed: int
) -> Sequence[Answer] | None:
    """Return what a trigger that reads a cell's stream answered on it at k = 1, 2, ..., where a copy has that
    instead of the stream. Where the stream is here, it is asked itself."""
    answered = prefork.answered(cell)
    if prefork.stream(cell) is not None or not trigger.needs or not any(who.trigger == name for who in answered):
        return None
    return answered.get(Asked.of(name, trigger, seed=seed))


# The signals that a study records, in the paper's order; others come after the detectors.
RECORDED: Final = ("residual", "running_variance", "percentile", "kl", "validation_loss", "return_deficit")
# The triggers of worldfork that every score reads. The registry may offer more: a registration enrols those that it
# names as candidates, so that a new one changes no published score.
ENROLLED: Final = ("adwin", "page_hinkley", "kswin", "conformal", "drift", "periodic", "clock", "random")


def read_triggers(prefork: Prefork, **how: Any) -> dict[str, Reading]:
    """Return what `read_triggers_together` reads on one table."""
    return read_triggers_together([prefork], **how)[0]


def read_triggers_together(
    preforks: Sequence[Prefork],
    *,
    names: Iterable[str | Trigger] | None = None,
    candidates: Collection[str] = (),
    seed: int = 0,
) -> list[dict[str, Reading]]:
    """Return the reading of every enrolled trigger and recorded signal, or of those in `names`, on each table.

    `candidates` are registered: those among worldfork's own triggers are enrolled besides. A recorded
    `signal_<name>` is the trigger of that name, also where one could be computed: the ledger's word stands. A
    trigger of yours is named as an entry point or as `module:attribute`, or given itself; nobody else's code is
    imported unless it is named. Where arms have one stream, a trigger is fed it once.
    """
    asked = None if names is None else list(dict.fromkeys(names))
    wanted = [_default_names(prefork, candidates) if asked is None else asked for prefork in preforks]
    triggers: dict[str, Trigger] = {}
    fed: dict[str, list[int]] = {}  # by trigger, the tables that have no recorded signal of its name
    for index, prefork in enumerate(preforks):
        for given in wanted[index]:
            if (name := _name(given)) not in prefork.signals:
                triggers[name] = given if isinstance(given, Trigger) else _build(given, prefork)
                fed.setdefault(name, []).append(index)
    tables = [_deployments(prefork) for prefork in preforks]
    computed: dict[tuple[str, int], Reading] = {}
    for name, trigger in triggers.items():
        read = _read(trigger, name, [tables[index] for index in fed[name]], seed=seed)
        computed |= {(name, index): reading for index, reading in zip(fed[name], read, strict=True)}
    return [
        {
            name: _recorded(prefork.signals[name]) if name in prefork.signals else computed[name, index]
            for name in map(_name, wanted[index])
        }
        for index, prefork in enumerate(preforks)
    ]


def chosen_triggers(given: object) -> tuple[str | Trigger, ...]:
    """Return the triggers that are asked for: names (one text may hold several, with commas), objects, or both.

    >>> chosen_triggers("residual, adwin")
    ('residual', 'adwin')
    """
    if isinstance(given, str):
        return tuple(name.strip() for name in given.split(","))
    if isinstance(given, Trigger | type):
        given = (given,)
    if not isinstance(given, Iterable):
        raise WorldforkError(f"`triggers` are names, or objects that derive from Trigger; got {given!r:.60}.")
    chosen: list[str | Trigger] = []
    for trigger in given:
        if isinstance(trigger, type):
            name = trigger.__name__
            raise WorldforkError(
                f"`triggers` has the class {name} itself: give an instance, {name}(), or its name, "
                f"`{trigger.__module__}:{name}`."
            )
        if not isinstance(trigger, str | Trigger):
            raise WorldforkError(
                f"`triggers` are names, or objects that derive from Trigger; one is {trigger!r:.60}."
            )
        chosen.append(trigger)
    return tuple(chosen)


def unread_candidates(candidates: Sequence[str], prefork: Prefork) -> dict[str, Unavailable]:
    """Return the registered candidates that are not read unless somebody names them, or not at all, each with the
    reason.

    Those that are code of others are read by whoever names them: a study may come from a stranger.
    """
    default = _default_names(prefork, candidates)
    unread = [name for name in candidates if name not in default]
    outside = [name for name in unread if ":" in name or name in registry.names("triggers")]
    all_named = ",".join(name for name in candidates if name in default or name in outside)
    reasons = {}
    for name in unread:
        if name in outside:
            why = f"does not come with worldfork, and is imported only where it is named: --triggers {all_named}"
        elif name in registry.names("signals"):
            why = "is registered as a candidate, and its values were not recorded"
        else:
            why = "is registered as a candidate, and nothing has this name: no recorded signal and no trigger"
        reasons[name] = Unavailable(why)
    return reasons


def is_reference(name: str) -> bool:
    """Return whether a trigger is a reference (schedule, clock, coin, oracle), not a candidate rule. Code of others
    is asked only where it was imported before."""
    if name not in registry.names("triggers") and ":" not in name:
        return False
    return imports_nothing_new(name) and registry.load("triggers", name, Trigger).reference


def imports_nothing_new(name: str) -> bool:
    """Return whether a trigger can be asked without importing code of others that nobody on this machine has named:
    it comes with worldfork, was imported before, or is no trigger of the registry but a recorded signal.

    A study may come from a stranger: what its registration names is not even looked for.
    """
    if comes_with_worldfork(name):
        return True
    if ":" in name:
        module = name.partition(":")[0]
        # Nothing else of worldfork's is a trigger to name: a `Policy` would import the one that its settings name.
        return module in sys.modules and module.partition(".")[0] != "worldfork"
    return name not in registry.names("triggers") or registry.locate("triggers", name).module in sys.modules


def comes_with_worldfork(name: str) -> bool:
    """Return whether a trigger is one of worldfork's own, called by its name or by its module."""
    return name in BUILT_IN["triggers"] or name in BUILT_IN["triggers"].values()


def answers_by_cell(
    preforks: Sequence[Prefork], name: str, trigger: Trigger, *, seed: int
) -> list[list[Sequence[Answer] | None]]:
    """Return what a trigger answers at every fork, by table and cell that has forks; None where it can not be
    asked."""
    tables = [
        [(each, lacking(prefork, each.index, name, trigger, seed=seed) is None) for each in _deployments(prefork)]
        for prefork in preforks
    ]
    with naming(trigger):
        given = iter(_answers(name, trigger, [each for of in tables for each, able in of if able], seed=seed))
    return [[each.at_forks(next(given)) if able else None for each, able in table] for table in tables]


def segments(prefork: Prefork, index: int, span: slice) -> Iterator[Segment]:
    """Yield the segments of one cell in order: one for each fork of `span`."""
    stream, start = prefork.stream(index), 0
    for fork in range(span.start, span.stop):
        stop = int(prefork.step[fork])
        yield Segment(
            k=int(prefork.k[fork]),
            level=float(prefork.level[fork]),
            steps={} if stream is None else stream.between(start, stop),
            signals={name: float(values[fork]) for name, values in prefork.signals.items()},
        )
        start = stop


@dataclasses.dataclass(frozen=True)
class _Deployment:
    """A cell, as it is fed to every trigger: the forks in `span`."""

    prefork: Prefork
    index: int
    span: slice

    @functools.cached_property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(segments(self.prefork, self.index, self.span))

    @functools.cached_property
    def content(self) -> tuple[object, ...]:
        """The stream and the rows that are fed, as a key."""
        table = self.prefork
        columns = (table.k, table.step, table.level, *table.signals.values())
        rows = (column[self.span].tobytes() for column in columns)
        return (table.stream(self.index), *table.signals, *rows)

    def at_forks(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        """Return the answer at each fork. A copy has answers at k = 1, 2, ..., which may go further than an arm."""
        if len(answers) == self.span.stop - self.span.start:
            return answers
        return [answers[k - 1] for k in self.prefork.k[self.span].tolist()]


def _deployments(prefork: Prefork) -> list[_Deployment]:
    return [_Deployment(prefork, index, span) for index, span in prefork.spans()]


def _read(trigger: Trigger, name: str, tables: Sequence[Sequence[_Deployment]], *, seed: int) -> list[Reading]:
    """Return the reading of a trigger at every fork of each table."""
    lacks = [[lacking(each.prefork, each.index, name, trigger, seed=seed) for each in table] for table in tables]
    reasons = [next(filter(None, of_table), None) for of_table in lacks]
    able = [each for table, why in zip(tables, reasons, strict=True) if why is None for each in table]
    with naming(trigger):
        given = iter(_answers(name, trigger, able, seed=seed))
    return [
        _reading(
            [answer for each in table for answer in each.at_forks(next(given))], name, why_silent=trigger.silent
        )
        if why is None
        else Unavailable(why)
        for table, why in zip(tables, reasons, strict=True)
    ]


def _answers(
    name: str, trigger: Trigger, deployments: Sequence[_Deployment], *, seed: int
) -> list[Sequence[Answer]]:
    """Return what a trigger answers on each deployment: as a copy has it, or else fed. Arms on one stream are fed
    the same: a detector that reads thousands of steps does so once."""
    answers: dict[int, Sequence[Answer]] = {}
    distinct: dict[tuple[Event, tuple[object, ...]], list[int]] = {}
    for place, each in enumerate(deployments):
        stored = stored_answers(each.prefork, each.index, name, trigger, seed=seed)
        if stored is not None:
            answers[place] = stored
            continue
        cell = each.prefork.cells[each.index]
        event = draw_event(name, task=each.prefork.task, cell=cell, seed=seed)
        distinct.setdefault((event, each.content), []).append(place)
    for (event, _), places in distinct.items():
        first = deployments[places[0]]
        cell = first.prefork.cells[first.index]
        answers |= dict.fromkeys(places, feed(trigger, first.segments, cell=cell, event=event))
    return [answers[place] for place in range(len(deployments))]


def _reading(answers: Sequence[Answer], name: str, *, why_silent: str) -> Reading:
    """Return numbers or alarms, whichever the trigger answered with."""
    spoken = [answer for answer in answers if answer is not None]
    if not spoken:
        return Unavailable(why_silent)
    if all(isinstance(answer, bool | np.bool_) for answer in spoken):
        return Alarms(np.array([bool(answer) for answer in answers]))  # nothing to say is no alarm
    if wrong := [answer for answer in spoken if not _is_signal(answer)]:
        raise WorldforkError(
            f"The trigger `{name}` answered {wrong[0]!r:.40}. Expected finite numbers at every fork, or True and "
            "False at every fork, or None where there is nothing to say."
        )
    return Signal(np.array([math.nan if answer is None else answer for answer in answers], dtype=np.float64))


def _is_signal(answer: Answer) -> bool:
    """Return whether an answer is a number that is not infinite; NaN is a missing signal."""
    if isinstance(answer, bool | np.bool_) or not isinstance(answer, float | int | np.number):
        return False
    return not math.isinf(answer)


def _default_names(prefork: Prefork, candidates: Collection[str] = ()) -> list[str]:
    """Return everything that is read unless asked otherwise, references last."""
    recorded = [name for name in RECORDED if name in prefork.signals]
    enrolled = [name for name in candidates if name not in recorded and comes_with_worldfork(name)]
    named = dict.fromkeys([*recorded, *ENROLLED, *enrolled, *prefork.signals])
    return sorted(named, key=is_reference)


def _build(name: str, prefork: Prefork) -> Trigger:
    if name not in registry.names("triggers") and ":" not in name:
        names = [
            *_default_names(prefork),
            *(other for other in registry.names("triggers") if other not in _default_names(prefork)),
        ]
        raise WorldforkError(
            f"No trigger is called `{name}`; known here: {', '.join(names)}. One of your own is named as "
            "`module:attribute`."
        )
    return registry.build("triggers", name, Trigger)


def _recorded(values: ForkValues) -> Reading:
    return Unavailable("every value of the signal is missing") if np.isnan(values).all() else Signal(values)


def _name(trigger: str | Trigger) -> str:
    """Return the name of a trigger; of one that was given itself its class, with the settings that are not the
    usual."""
    if isinstance(trigger, str):
        return trigger
    settings = ", ".join(f"{name}={getattr(trigger, name)!r}" for name in sorted(trigger.model_fields_set))
    return f"{type(trigger).__name__}({settings})" if settings else type(trigger).__name__
