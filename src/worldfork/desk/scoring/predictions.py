"""What was said beforehand: held, falsified or unresolved (paper, "a registered mechanism, falsified")."""

import dataclasses
from typing import Any

from worldfork.desk.scoring.undefined import Undefined
from worldfork.errors import WorldforkError

__all__ = ["Prediction", "answer"]


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


def answer(said: Prediction, figures: dict[str, Any]) -> dict[str, Any]:
    """Held when all of the figure's interval is where it was said to be, falsified when all of it is where it was
    said not to be (outside `between`, unless thresholds say further), and else unresolved. A figure without an
    interval stands for its own."""
    path = "effect.all_attempted.mean" if said.figure == "mean" else said.figure
    value, interval = _look_up(figures, path, said.name)
    given = {key: value for key, value in dataclasses.asdict(said).items() if key not in ("task", "arm")}
    if isinstance(value, Undefined):
        return {**given, "value": value, "interval": value, "answer": "unresolved"}
    low, high = (value, value) if interval is None or isinstance(interval, Undefined) else interval
    # A band alone is falsified outside itself; a threshold, where given, says how far outside.
    floor, ceiling = said.falsified_below, said.falsified_above
    if said.between is not None and floor is None and ceiling is None:
        floor, ceiling = said.between
    inside_low, inside_high = said.between or (floor, ceiling)
    falsified = (floor is not None and high < floor) or (ceiling is not None and low > ceiling)
    held = (inside_low is None or low >= inside_low) and (inside_high is None or high <= inside_high)
    shown = "falsified" if falsified else "held" if held else "unresolved"
    return {**given, "value": value, "interval": interval, "answer": shown}


def _look_up(figures: dict[str, Any], path: str, name: str) -> tuple[Any, Any]:
    """A figure and the interval beside it: `student_t` next to a mean, `<figure>_interval` elsewhere."""
    *parents, leaf = path.split(".")
    node: Any = figures
    for part in parents:
        if isinstance(node, Undefined):
            return node, None
        if not isinstance(node, dict) or part not in node:
            raise WorldforkError(f"The prediction `{name}` is about `{path}`, which no score has: no `{part}`.")
        node = node[part]
    if isinstance(node, Undefined):
        return node, None
    if not isinstance(node, dict) or leaf not in node:
        raise WorldforkError(f"The prediction `{name}` is about `{path}`, which no score has: no `{leaf}`.")
    return node[leaf], node.get("student_t") if leaf == "mean" else node.get(f"{leaf}_interval")
