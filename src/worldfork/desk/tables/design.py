"""Tables about the study itself: seeds and their gate, where the variance lies, what a budget buys, its arms."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from worldfork.desk.tables.text_table import TextTable
from worldfork.desk.wording import DASH, digits_for, number, rate, span, with_span
from worldfork.ledger.pretraining import Seed

__all__ = ["arms", "budget", "gate", "variance"]

Plain = Mapping[str, dict[str, Any]]


def gate(seeds: Iterable[Seed]) -> TextTable:
    """Every seed that was trained; the rejected ones are part of the result."""
    return TextTable(
        "gate",
        "Every seed that was trained, and what became of it. The gate has episodes of its own; gate and clean "
        "return are with the planner of pretraining, the last return with the study's.",
        ("Task", "Seed", "gate return", "floor", "clean return", "as deployed", "fate"),
        tuple(
            (
                one.task,
                str(one.seed),
                f"{one.gate:.1f}",
                DASH if one.floor is None else f"{one.floor:.1f}",
                f"{one.clean_return:.1f}",
                DASH if one.deployed is None else f"{one.deployed:.1f}",
                one.fate,
            )
            for one in seeds
        ),
        keys=2,
    )


def variance(plain: Plain) -> TextTable:
    """Variance components of dR and the gain of common random numbers."""
    rows = []
    for task, one in plain.items():
        parts, gain = (one["design"] or {}).get("components") or one["variance_components"], one["crn"]["gain"]
        told = [_variance(parts.get(name)) for name in ("checkpoint", "decision_point", "fork", "episode")]
        rows.append((task, *told, DASH if gain is None else f"{gain:.2f}"))
    return TextTable(
        "variance",
        "Variance of dR (standard deviation), all attempted forks. What decision points have in common over "
        "checkpoints is part of the design, not of the error. The last column is the factor by which m would have "
        "to grow without common random numbers.",
        (
            "Task",
            "between checkpoints",
            "between decision points",
            "between forks otherwise",
            "between paired episodes of a fork",
            "common random numbers",
        ),
        tuple(rows),
    )


def budget(plain: Plain) -> TextTable:
    """What more episodes buy, by what they are spent on."""
    rows = []
    for task, one in plain.items():
        design, digits = one["design"], digits_for(one["effect"]["all_attempted"]) + 1
        if design is None:
            continue
        size = f"{design['checkpoints']:g} x {design['forks']:g} x {design['episodes']:g}"
        rows.append((task, f"as it is: {size}", *[f"{design['standard_error']:.{digits}f}"] * 3))
        for times, errors in design["standard_error_at"].items():
            label = "without limit" if times == "unlimited" else f"{times} times"
            rows.append((task, label, *(f"{error:.{digits}f}" for error in errors.values())))
    return TextTable(
        "budget",
        "Standard error of the mean dR, all attempted forks, if the paired episodes (checkpoints x forks x m) "
        "become so many and all of the increase is spent on one of the three.",
        ("Task", "Paired episodes", "on checkpoints", "on forks", "on m"),
        tuple(rows),
        keys=2,
    )


def arms(contrasts: Mapping[str, Mapping[str, dict[str, Any]]]) -> TextTable:
    """Every pair of arms that was compared, on the cells and forks that both have."""
    rows = []
    for pair, tasks in contrasts.items():
        for task, sides in tasks.items():
            for estimand, one in sides.items():
                if one is None:
                    continue
                digits, forks = digits_for(one), one["paired"]
                rows.append(
                    (
                        pair,
                        task,
                        estimand.replace("_", " "),
                        number(one["first"], digits),
                        number(one["second"], digits),
                        with_span(one["mean"], one["bootstrap"], digits),
                        span(one["student_t"], digits),
                        str(forks["forks"]),
                        number(forks["pearson"], 3),
                        number(forks["spearman"], 3),
                        rate(forks["same_sign"]),
                    )
                )
    return TextTable(
        "arms",
        "Arms compared: mean dR of each and their difference on the cells both have; correlations and agreement in "
        "sign over the forks both have.",
        (
            *("Arms", "Task", "Forks", "first", "second", "difference, bootstrap", "Student-t"),
            *("paired forks", "Pearson", "Spearman", "same sign"),
        ),
        tuple(rows),
        keys=3,
    )


def _variance(value: float | None) -> str:
    if value is None:
        return DASH
    return f"{value:,.{0 if abs(value) >= 100 else 2}f} ({f'{math.sqrt(value):.3g}' if value >= 0 else 'none'})"
