"""The section on policies that were followed all the way: each one's deployment as a line against never."""

from collections.abc import Sequence
from typing import Final

from worldfork.desk.page.material import Material
from worldfork.desk.scoring.deployment_records import Advantage, PolicyOutcome, TaskDeployment
from worldfork.desk.scoring.undefined import Figure, Undefined
from worldfork.desk.wording import known, number, rate, span

__all__ = ["deployment_section", "followed"]

WIDTH: Final = 300
HEIGHT: Final = 130
LEFT: Final = 46
BASE: Final = 104  # where the plot ends; updates are marked below
TOP: Final = 10


def followed(material: Material) -> bool:
    """Whether this ledger has deployments."""
    return bool(material.score.deployment)


def deployment_section(material: Material) -> object:
    """Everything that the section prints and draws, task by task, as plain values."""
    return [_task(task, one) for task, one in material.score.deployment.items()]


def _task(task: str, one: TaskDeployment) -> dict[str, object]:
    digits = _digits(one)
    values = [value for outcome in one.policies.values() for value in _numbers(outcome.by_episode)]
    low, high = min([0.0, *values]), max([0.0, *values])
    reach = (high - low) or 1.0
    forecast = one.forecast
    return {
        "task": task,
        "best": one.best,
        "cells": one.cells,
        "checkpoints": one.checkpoints,
        "episodes": one.episodes,
        "family": one.family,
        "points": list(one.points),
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "base": BASE,
        "zero": _y(0.0, low, reach),
        "low": {"y": _y(low, low, reach), "text": number(low, digits)},
        "high": {"y": _y(high, low, reach), "text": number(high, digits)},
        "panels": [
            _panel(name, outcome, low=low, reach=reach) for name, outcome in one.policies.items() if name != "never"
        ],
        "rows": [_row(name, outcome, digits) for name, outcome in one.policies.items()],
        "correlation": number(forecast.rank_correlation, 2),
        "correlation_range": _range(forecast.without_one_low, forecast.without_one_high),
        "why_not": forecast.rank_correlation.why if isinstance(forecast.rank_correlation, Undefined) else "",
    }


def _panel(name: str, outcome: PolicyOutcome, *, low: float, reach: float) -> dict[str, object]:
    """One policy's line, and how many of its deployments updated after each episode."""
    count = len(outcome.by_episode)
    places = [LEFT + (WIDTH - LEFT - 8) * (k + 0.5) / count for k in range(count)]
    points = [
        f"{x:.1f},{_y(value, low, reach):.1f}"
        for x, value in zip(places, outcome.by_episode, strict=True)
        if not isinstance(value, Undefined)
    ]
    marks = [
        {"x": round(x, 1), "k": k, "share": round(share, 3)}
        for k, (x, share) in enumerate(zip(places, outcome.fired_at, strict=True), start=1)
        if not isinstance(share, Undefined) and share > 0
    ]
    advantage = known(outcome.advantage)
    mean = None if advantage is None else known(advantage.mean)
    kind = "help" if mean is not None and mean > 0 else "hurt"
    return {
        "name": name,
        "points": " ".join(points),
        "marks": marks,
        "kind": kind,
        "updates": f"{outcome.updates:.1f}",
    }


def _row(name: str, outcome: PolicyOutcome, digits: int) -> dict[str, str]:
    gained, evaluated = known(outcome.advantage), known(outcome.evaluation)
    ledger = outcome.ledger_value
    return {
        "name": name,
        "updates": f"{outcome.updates:.1f}",
        "steps": f"{outcome.gradient_steps:,.0f}",
        "returned": number(outcome.returned, digits).lstrip("+"),
        "over": "" if gained is None else number(gained.mean, digits),
        "interval": "" if gained is None else span(gained.student_t, digits),
        "p": "" if gained is None else rate(_larger(gained)),
        "grade": "" if gained is None else known(gained.grade) or "",
        "evaluated": ""
        if evaluated is None
        else f"{number(evaluated.mean, digits)} {span(evaluated.student_t, digits)}",
        "ledger": "" if isinstance(ledger, Undefined) else number(ledger, digits),
        "regret": number(outcome.regret, digits).lstrip("+"),
    }


def _y(value: float, low: float, reach: float) -> float:
    return round(BASE - (BASE - TOP) * (value - low) / reach, 1)


def _numbers(values: Sequence[Figure]) -> list[float]:
    return [value for value in values if not isinstance(value, Undefined)]


def _larger(gained: Advantage) -> float | None:
    found = [known(gained.adjusted_student_t), known(gained.adjusted_sign_flip)]
    return None if None in found else max(p for p in found if p is not None)


def _range(low: Figure, high: Figure) -> str:
    if isinstance(low, Undefined) or isinstance(high, Undefined):
        return ""
    return f"{number(low, 2)} to {number(high, 2)}"


def _digits(one: TaskDeployment) -> int:
    sizes = [abs(value) for outcome in one.policies.values() for value in _numbers(outcome.by_episode)]
    largest = max(sizes, default=100.0)
    return 1 if largest >= 10 else 2 if largest >= 1 else 3
