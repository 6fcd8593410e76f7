"""What was said beforehand: held, falsified or unresolved (paper, "a registered mechanism, falsified")."""

import dataclasses
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Final, Literal, Union, get_args, get_origin, get_type_hints

from worldfork.desk.scoring.records import PredictionAnswer, TaskScore
from worldfork.desk.scoring.undefined import Bounds, Figure, Interval, Undefined

__all__ = ["Prediction", "answer", "prediction_problems"]

NO_INTERVAL: Final = Undefined("this figure has no interval: it stands for itself")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prediction:
    """A figure said to lie between two bounds, or on one side of what would falsify it.

    `figure` is `mean` (mean dR of all attempted forks) or a path into a task's score, such as
    `effect.retained.mean` or `contraction.crossing`.
    """

    name: str
    task: str
    arm: str | None = None
    figure: str = "mean"
    between: tuple[float, float] | None = None
    falsified_below: float | None = None
    falsified_above: float | None = None


def answer(prediction: Prediction, figures: object) -> PredictionAnswer:
    """Held when all of the figure's interval is where it was said to be, falsified when all of it is where it was
    said not to be (outside `between`, unless thresholds say further), and else unresolved. A figure without an
    interval stands for its own. `figures` is a task's score, or a mapping in its place."""
    value, interval = _look_up(figures, _path(prediction))
    return PredictionAnswer(
        name=prediction.name,
        figure=prediction.figure,
        between=prediction.between,
        falsified_below=prediction.falsified_below,
        falsified_above=prediction.falsified_above,
        value=value,
        interval=interval,
        answer="unresolved" if isinstance(value, Undefined) else _compare(prediction, value, interval),
    )


def prediction_problems(predictions: Iterable[Prediction]) -> list[str]:
    """What keeps predictions from ever being answered, one line each: to be asked before anything is run.

    >>> prediction_problems([Prediction(name="up", task="t", figure="effect.retaind.mean", between=(0.0, 1.0))])
    ['the prediction `up`: no score has `effect.retaind.mean`: no `retaind` among all_attempted, retained']
    """
    problems = []
    for prediction in predictions:
        bounds = (prediction.between, prediction.falsified_below, prediction.falsified_above)
        if all(bound is None for bound in bounds):
            problems.append(f"the prediction `{prediction.name}` states no bound: nothing could falsify it")
        if prediction.between is not None and prediction.between[0] > prediction.between[1]:
            problems.append(f"the prediction `{prediction.name}` lies between {prediction.between}: nothing does")
        if problem := _figure_problem(_path(prediction)):
            problems.append(f"the prediction `{prediction.name}`: {problem}")
    return problems


def _path(prediction: Prediction) -> str:
    return "effect.all_attempted.mean" if prediction.figure == "mean" else prediction.figure


def _compare(prediction: Prediction, value: float, interval: Bounds) -> Literal["held", "falsified", "unresolved"]:
    low, high = (value, value) if isinstance(interval, Undefined) else interval
    # A band alone is falsified outside itself; a threshold, where given, says how far outside.
    floor, ceiling = prediction.falsified_below, prediction.falsified_above
    if prediction.between is not None and floor is None and ceiling is None:
        floor, ceiling = prediction.between
    inside_low, inside_high = prediction.between or (floor, ceiling)
    if (floor is not None and high < floor) or (ceiling is not None and low > ceiling):
        return "falsified"
    if inside_low is None and inside_high is None:
        return "unresolved"  # nothing was said
    held = (inside_low is None or low >= inside_low) and (inside_high is None or high <= inside_high)
    return "held" if held else "unresolved"


def _look_up(figures: object, path: str) -> tuple[Figure, Bounds]:
    """A figure and the interval beside it: `student_t` next to a mean, `<figure>_interval` elsewhere."""
    *parents, leaf = path.split(".")
    node = figures
    for part in parents:
        node = _entry(node, part, path)
    value = _entry(node, leaf, path)
    if isinstance(value, Undefined):
        return value, value
    if isinstance(value, bool) or not isinstance(value, int | float):
        not_a_number = Undefined(f"`{path}` is not a number")
        return not_a_number, not_a_number
    beside = _entries(node).get("student_t" if leaf == "mean" else f"{leaf}_interval", NO_INTERVAL)
    return float(value), beside if isinstance(beside, Interval | Undefined) else NO_INTERVAL


def _entry(node: object, part: str, path: str) -> object:
    entries = _entries(node)
    return node if isinstance(node, Undefined) else entries.get(part, _nothing(path, part, entries))


def _entries(node: object) -> dict[str, object]:
    if isinstance(node, Mapping):
        return {str(key): entry for key, entry in node.items()}
    if dataclasses.is_dataclass(node):
        return {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    return {}


def _nothing(path: str, part: str, known: Iterable[str]) -> Undefined:
    listed = ", ".join(known)
    return Undefined(f"no score has `{path}`: no `{part}`{f' among {listed}' if listed else ', and nothing below'}")


def _figure_problem(path: str) -> str | None:
    """Why no score has a figure at this path, told from the records' types alone; None where one may have it."""
    kinds: list[object] = [TaskScore]
    for part in path.split("."):
        known: dict[str, object] = {}
        anything = False
        for kind in kinds:
            if get_origin(kind) in (Mapping, dict):
                known, anything = {part: get_args(kind)[1]}, True
            elif dataclasses.is_dataclass(get_origin(kind) or kind):
                known |= _fields(kind)
        if part not in known and not anything:
            return _nothing(path, part, known).why
        kinds = _parts(known[part])
    return None if any(kind in (float, int) for kind in kinds) else f"`{path}` is not a number"


def _fields(kind: object) -> dict[str, object]:
    """The fields of a record and their types; those of `Estimands[Effect]` with Effect in the place of T."""
    record = get_origin(kind) or kind
    assert isinstance(record, type)
    hints = get_type_hints(record)
    given = dict(zip(getattr(record, "__parameters__", ()), get_args(kind), strict=False))
    return {field.name: given.get(hints[field.name], hints[field.name]) for field in dataclasses.fields(record)}


def _parts(kind: object) -> list[object]:
    """The alternatives of a union, or the one kind there is."""
    return list(get_args(kind)) if isinstance(kind, UnionType) or get_origin(kind) is Union else [kind]
