"""Promises of a contract, the examination of each, and the report: what is kept, what is wrong, what to do."""

import contextlib
import dataclasses
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

import numpy as np

from worldfork import registry
from worldfork.built_in import Group
from worldfork.errors import WorldforkError
from worldfork.registry import Plugin

Kind = TypeVar("Kind", bound=Plugin)
Examination = Callable[[Any], None]
OURS: Final = ("worldfork", "numpy")  # what a promise is examined with


@dataclasses.dataclass(frozen=True)
class Problem:
    """Breach of a contract: the rule, what was seen, and how to repair it."""

    rule: str
    seen: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.seen} {self.remedy}"


@dataclasses.dataclass(frozen=True)
class Report:
    """Outcome of an examination, rule by rule.

    `not_examined` are the rules that do not apply to the subject or could not be tried on it; `not_reached` are
    those behind a broken rule on which they build. `examined` says how much was tried, where that is counted.
    """

    subject: str
    kept: tuple[str, ...]
    not_examined: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    not_reached: tuple[str, ...] = ()
    examined: str = ""

    def __str__(self) -> str:
        if self.problems:
            ways = "one way" if len(self.problems) == 1 else f"{len(self.problems)} ways"
            return "\n- ".join([f"{self.subject} breaks its contract in {ways}:", *map(str, self.problems)])
        much = f" ({self.examined})" if self.examined else ""
        lines = [f"{self.subject} keeps its contract{much}:", *(f"  {promise}" for promise in self.kept)]
        return "\n".join([*lines, *(f"  (not examined) {promise}" for promise in self.not_examined)])


class ContractError(WorldforkError):
    """A contract that is not kept. `report` says all that was examined, `problems` what is wrong."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report, self.problems = report, report.problems


@dataclasses.dataclass(frozen=True)
class _Rule:
    """A promise and the method that examines it."""

    promise: str
    examine: Examination
    foundation: bool
    applies: Callable[[Any], bool | str]


def rule(
    promise: str, *, foundation: bool = False, applies: Callable[[Any], bool | str] = lambda bench: True
) -> Callable[[Examination], Examination]:
    """Mark a method as the examination of a promise: it calls `demand`, or fails by itself.

    Args:
        promise: what the author of a class promises, as the report says it.
        foundation: nothing that is examined later means anything once this is broken, and the examination ends.
        applies: answers True if the bench's subject is asked, False if the promise does not concern it, or a text
            that says why it can not be examined.
    """

    def mark(examination: Examination) -> Examination:
        examination.rule = _Rule(promise, examination, foundation, applies)  # type: ignore[attr-defined]
        return examination

    return mark


class Unfit(WorldforkError):
    """A subject that can not be examined as it was asked for; no promise is broken by that."""


class _Broken(Exception):
    def __init__(self, seen: str, remedy: str) -> None:
        super().__init__(seen)
        self.seen, self.remedy = seen, remedy


def examine(subject: str, bench: Any) -> Report:
    """Go through a bench's rules in the order of their definition.

    Raises:
        ContractError: with everything that is wrong.
        Unfit: where the bench says so.
    """
    problems: list[Problem] = []
    kept, not_examined = [], []
    cause: Exception | None = None
    not_reached: list[str] = []
    rules: list[_Rule] = [method.rule for method in vars(type(bench)).values() if hasattr(method, "rule")]
    ended = False
    for asked in rules:
        try:
            applies = asked.applies(bench)
        except Exception:  # a subject that can not even be built is another rule's matter
            applies = True
        if applies is not True:
            not_examined += [f"{asked.promise} ({applies})"] if applies else []
            continue
        if ended:
            not_reached.append(asked.promise)
            continue
        try:
            asked.examine(bench)
            kept.append(asked.promise)
            continue
        except _Broken as broken:
            problems.append(Problem(asked.promise, broken.seen, broken.remedy))
        except Unfit:
            raise
        except Exception as error:  # whatever somebody else's class raises is its author's to read
            seen = f"it raised {type(error).__name__}: {error}".rstrip(".") + "."
            problems.append(Problem(asked.promise, seen, place(error)))
            cause = cause or error
        ended = asked.foundation
    report = Report(
        subject,
        tuple(kept),
        tuple(not_examined),
        tuple(problems),
        tuple(not_reached),
        getattr(bench, "examined", ""),
    )
    if problems:
        raise ContractError(report) from cause
    return report


def demand(kept: bool, seen: str, remedy: str) -> None:
    """Break the rule unless `kept`: `seen` says what came, `remedy` what to do."""
    if not kept:
        raise _Broken(seen, remedy)


def demand_same(before: Any, after: Any, seen: str, remedy: str) -> None:
    """Break the rule unless both are the same digits; `seen` is followed by how they differ."""
    text = difference(before, after)
    demand(not text, f"{seen} ({text}).", remedy)


def demand_pure(call: Callable[[], Any], name: str, seen: str, remedy: str) -> Any:
    """Break the rule unless two calls return the same digits and draw from no shared generator; return them."""
    with no_global_draws(name, remedy):
        before = call()
    demand_same(before, call(), seen, remedy)
    return before


def demand_refusal(call: Callable[[], Any], seen: str, remedy: str) -> None:
    """Break the rule unless the call raises."""
    try:
        call()
    except Exception:
        return
    demand(False, seen, remedy)


def demand_kinds(before: Mapping[str, Any], after: Mapping[str, Any], seen: str) -> None:
    """Break the rule unless arrays came back with the same names, shapes and types; `seen` is followed by what is
    not the same."""
    wanted, came = (
        {name: (np.shape(array), str(np.asarray(array).dtype)) for name, array in group.items()}
        for group in (before, after)
    )
    others = sorted(name for name in {*wanted, *came} if wanted.get(name) != came.get(name))[:5]
    shown, expected = ({name: group.get(name) for name in others} for group in (came, wanted))
    demand(not others, f"{seen}: {shown}.", f"They are as they came: {expected}.")


def difference(before: Any, after: Any) -> str:
    """Return how two arrays, records, mappings or sequences differ in their digits; empty where they do not."""
    if dataclasses.is_dataclass(before) and not isinstance(before, type):
        before, after = vars(before), vars(after)
    if isinstance(before, Mapping):
        if before.keys() != after.keys():
            return f"the names {sorted(before)} became {sorted(after)}"
        return _first(f"`{name}`: {text}" for name in before if (text := difference(before[name], after[name])))
    if isinstance(before, list | tuple):
        if len(before) != len(after):
            return f"{len(before)} items became {len(after)}"
        return _first(text for old, new in zip(before, after, strict=True) if (text := difference(old, new)))
    old, new = np.asarray(before), np.asarray(after)
    if (old.shape, old.dtype) != (new.shape, new.dtype):
        return f"{old.dtype} of shape {old.shape} became {new.dtype} of shape {new.shape}"
    same = (old == new) | ((old != old) & (new != new))  # a NaN is the same digit as a NaN
    if same.all():
        return ""
    place = np.unravel_index(np.flatnonzero(~same)[0], same.shape)
    return f"{np.sum(~same)} of {same.size} numbers differ, the first {old[place]} and {new[place]}"


def _first(lines: Iterator[str]) -> str:
    return next(lines, "")


def has_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    """Demand an array of that shape of an agent."""
    seen = f"{name} has shape {array.shape}."
    demand(array.shape == shape, seen, f"It is {shape}: sets, episodes, and the rest.")


def demand_unwritten(
    call: Callable[..., Any], *given: Any, subject: str, remedy: str, thing: str = "what it is given"
) -> Any:
    """Break the rule where a call writes into what it is given; return what it returned."""
    read_only = [_read_only(argument) for argument in given]
    try:
        result = call(*read_only)
    except ValueError as error:
        demand("read-only" not in str(error), f"{subject} writes into {thing}.", remedy)
        raise
    demand_same(list(given), read_only, f"{subject} changed {thing}", remedy)
    return result


def _read_only(values: Any) -> Any:
    """Return arrays, and whatever holds them, as copies; those of NumPy can not be written to."""
    if isinstance(values, np.ndarray):
        values = values.copy()
        values.flags.writeable = False
    elif isinstance(values, Mapping):
        return {name: _read_only(value) for name, value in values.items()}
    elif isinstance(values, list | tuple):
        return type(values)(map(_read_only, values))
    elif dataclasses.is_dataclass(values) and not isinstance(values, type):
        return dataclasses.replace(values, **_read_only(vars(values)))
    return values


@contextlib.contextmanager
def no_global_draws(call: str, remedy: str) -> Iterator[None]:
    """Break the rule where a generator that everybody shares moves in here."""
    before = _shared_generators()
    yield
    for name, state in _shared_generators().items():
        demand(before.get(name, state) == state, f"{call} draws from {name}, which everybody shares.", remedy)


def _shared_generators() -> dict[str, Any]:
    """Return the states of shared generators. Python's is left out: libraries draw from it for purposes that no
    result depends on."""
    shared: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    states: dict[str, Any] = {
        "NumPy's global generator": [part.tobytes() if isinstance(part, np.ndarray) else part for part in shared]
    }
    if (torch := sys.modules.get("torch")) is not None:
        states["PyTorch's global generator"] = torch.get_rng_state().numpy().tobytes()
    return states


def resolved(group: Group, subject: Any, contract: type[Kind], settings: Mapping[str, Any] | None) -> Any:
    """Return the record that a name of the registry or a plug-in class stands for; anything else as it is."""
    if isinstance(subject, str):
        return registry.build(group, subject, contract, settings=settings)
    if isinstance(subject, type) and issubclass(subject, contract):
        return subject.model_validate(dict(settings or {}))
    return subject


def name_of(subject: Any) -> str:
    """Return what a report calls a name, a class or an object."""
    if isinstance(subject, str):
        return subject
    return (subject if isinstance(subject, type) else type(subject)).__name__


def place(error: Exception) -> str:
    """Return a sentence that says where an error was raised: the last line of somebody else's code on the way
    there, whose mistake it is. A line of worldfork's or NumPy's would help nobody."""
    frames = list(traceback.walk_tb(error.__traceback__))
    others = [step for step in frames if _module(step[0]) not in OURS]
    written = [step for step in others if "site-packages" not in Path(step[0].f_code.co_filename).parts]
    called = [step for step in frames[-1:] if step in others]  # a library's class that is examined as it is
    if not (written or called):
        return "None of its own lines was running: look at what its methods returned."
    frame, line = (written or called)[-1]
    return f"It happened in `{frame.f_code.co_qualname}` ({frame.f_code.co_filename}, line {line})."


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
