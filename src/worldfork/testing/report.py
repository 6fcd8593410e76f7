"""What a contract kit answers: every rule that was kept, or one error that says what is wrong and what to do."""

import contextlib
import dataclasses
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from worldfork.errors import WorldforkError

__all__ = [
    "ContractError",
    "Problem",
    "Report",
    "Rule",
    "demand",
    "difference",
    "examine",
    "has_shape",
    "no_global_draws",
]


@dataclasses.dataclass(frozen=True)
class Problem:
    """One way in which a contract is broken."""

    rule: str
    seen: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.seen} {self.remedy}"


class ContractError(WorldforkError):
    """A contract that is not kept; `problems` are its parts."""

    def __init__(self, subject: str, problems: Sequence[Problem]) -> None:
        ways = "one way" if len(problems) == 1 else f"{len(problems)} ways"
        super().__init__("\n- ".join([f"{subject} breaks its contract in {ways}:", *map(str, problems)]))
        self.problems = tuple(problems)


@dataclasses.dataclass(frozen=True)
class Report:
    """What was examined and kept, rule by rule, and which rules could not be examined."""

    subject: str
    kept: tuple[str, ...]
    not_examined: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.subject} keeps its contract:", *(f"  {rule}" for rule in self.kept)]
        lines += [f"  (not examined) {rule}" for rule in self.not_examined]
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Rule:
    """A promise in words, and what examines it: it calls `demand`, or fails by itself.

    What is computed after a broken `foundation` means nothing: the examination ends there.
    """

    promise: str
    examine: Callable[[], None]
    foundation: bool = False


class _Broken(Exception):
    def __init__(self, seen: str, remedy: str) -> None:
        super().__init__(seen)
        self.seen, self.remedy = seen, remedy


def demand(kept: bool, seen: str, remedy: str) -> None:
    """Unless `kept`, the rule is broken: `seen` says what came, `remedy` what to do."""
    if not kept:
        raise _Broken(seen, remedy)


def examine(subject: str, rules: Sequence[Rule], *, not_examined: Sequence[str] = ()) -> Report:
    """Go through the rules; raises one `ContractError` with everything that is wrong."""
    problems: list[Problem] = []
    cause: Exception | None = None
    for rule in rules:
        try:
            rule.examine()
            continue
        except _Broken as broken:
            problems.append(Problem(rule.promise, broken.seen, broken.remedy))
        except Exception as error:  # whatever somebody else's class raises is its author's to read
            seen = f"it raised {type(error).__name__}: {error}".rstrip(".") + "."
            problems.append(Problem(rule.promise, seen, f"It happened in {_place(error)}."))
            cause = cause or error
        if rule.foundation:
            break
    if problems:
        raise ContractError(subject, problems) from cause
    return Report(subject, tuple(rule.promise for rule in rules), tuple(not_examined))


def difference(before: Any, after: Any) -> str:
    """How two arrays, or mappings and sequences of them, differ in their digits; empty where they do not."""
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


def has_shape(what: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    """Demand an array of that shape, of an agent's."""
    demand(
        array.shape == shape, f"{what} has shape {array.shape}.", f"It is {shape}: sets, episodes, and the rest."
    )


@contextlib.contextmanager
def no_global_draws(call: str, remedy: str) -> Iterator[None]:
    """Within this, no generator that everybody shares may move."""
    before = _shared_generators()
    yield
    for name, state in _shared_generators().items():
        demand(before.get(name, state) == state, f"{call} draws from {name}, which everybody shares.", remedy)


def _shared_generators() -> dict[str, Any]:
    """Python's own is not among them: libraries draw from it for purposes that no result depends on."""
    shared: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    states: dict[str, Any] = {
        "NumPy's global generator": [part.tobytes() if isinstance(part, np.ndarray) else part for part in shared]
    }
    if (torch := sys.modules.get("torch")) is not None:
        states["PyTorch's global generator"] = torch.get_rng_state().numpy().tobytes()
    return states


def _first(lines: Iterator[str]) -> str:
    return next(lines, "")


def _place(error: Exception) -> str:
    """Where it was raised: the last line of somebody else's code on the way there, for that is whose mistake it is,
    or else the last line of all."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return "somewhere"
    outside = [place for place in frames if not place[0].f_globals.get("__name__", "").startswith("worldfork.")]
    written = [place for place in outside if "site-packages" not in Path(place[0].f_code.co_filename).parts]
    frame, line = (written or outside or frames)[-1]
    return f"`{frame.f_code.co_qualname}` ({frame.f_code.co_filename}, line {line})"
