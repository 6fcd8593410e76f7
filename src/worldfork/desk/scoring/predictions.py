"""What was said beforehand: held, falsified or unresolved (paper, "a registered mechanism, falsified")."""

import dataclasses
from collections.abc import Mapping
from typing import Final, Literal

from worldfork.desk.scoring.records import PredictionAnswer
from worldfork.desk.scoring.undefined import Bounds, Figure, Interval, Undefined
from worldfork.errors import WorldforkError

__all__ = ["Prediction", "answer"]

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
    path = "effect.all_attempted.mean" if prediction.figure == "mean" else prediction.figure
    value, interval = _look_up(figures, path, prediction.name)
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


def _compare(prediction: Prediction, value: float, interval: Bounds) -> Literal["held", "falsified", "unresolved"]:
    low, high = (value, value) if isinstance(interval, Undefined) else interval
    # A band alone is falsified outside itself; a threshold, where given, says how far outside.
    floor, ceiling = prediction.falsified_below, prediction.falsified_above
    if prediction.between is not None and floor is None and ceiling is None:
        floor, ceiling = prediction.between
    inside_low, inside_high = prediction.between or (floor, ceiling)
    if (floor is not None and high < floor) or (ceiling is not None and low > ceiling):
        return "falsified"
    held = (inside_low is None or low >= inside_low) and (inside_high is None or high <= inside_high)
    return "held" if held else "unresolved"


def _look_up(figures: object, path: str, name: str) -> tuple[Figure, Bounds]:
    """A figure and the interval beside it: `student_t` next to a mean, `<figure>_interval` elsewhere."""
    *parents, leaf = path.split(".")
    node = figures
    for part in parents:
        if isinstance(node, Undefined):
            return node, node
        node = _entry(node, part, path, name)
    if isinstance(node, Undefined):
        return node, node
    value = _entry(node, leaf, path, name)
    if isinstance(value, Undefined):
        return value, value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WorldforkError(f"The prediction `{name}` is about `{path}`, which is not a number.")
    beside = _entries(node).get("student_t" if leaf == "mean" else f"{leaf}_interval", NO_INTERVAL)
    return float(value), beside if isinstance(beside, Interval | Undefined) else NO_INTERVAL


def _entry(node: object, part: str, path: str, name: str) -> object:
    entries = _entries(node)
    if part not in entries:
        raise WorldforkError(
            f"The prediction `{name}` is about `{path}`, which no score has: no `{part}`. "
            f"There {'are ' + ', '.join(entries) if entries else 'is nothing below'}."
        )
    return entries[part]


def _entries(node: object) -> dict[str, object]:
    if isinstance(node, Mapping):
        return {str(key): entry for key, entry in node.items()}
    if dataclasses.is_dataclass(node):
        return {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    return {}
