"""Tables of what updating was worth: by task, direction, drift level and stream seed (paper, Tables 1 and 2)."""

from collections.abc import Mapping
from typing import Any

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring.records import TaskScore
from worldfork.desk.scoring.replication import replicate
from worldfork.desk.scoring.rules import Rules
from worldfork.desk.scoring.undefined import settle
from worldfork.desk.tables.text_table import TextTable
from worldfork.desk.wording import digits_for, number, span, with_span

__all__ = ["contraction", "directions", "effects", "predictions", "quartiles", "seed_replication"]

ESTIMANDS = ("all_attempted", "retained")
BOTH = ("all attempted, bootstrap", "Student-t", "retained, bootstrap", "Student-t")
Plain = Mapping[str, dict[str, Any]]


def effects(plain: Plain) -> TextTable:
    """Table 1, with both estimands and both intervals."""
    rows = []
    for task, one in plain.items():
        kept, forks = one["effect"]["retained"], one["forks"]
        rows.append(
            (
                task,
                str(one["effect"]["all_attempted"]["cells"]),
                f"{forks['retained']} of {forks['attempted']}",
                *_both([one["effect"][name] for name in ESTIMANDS], _digits(one)),
                f"{forks['helped']} / {forks['hurt']}",
                str(kept["cells_below_zero"]),
            )
        )
    return TextTable(
        "effects",
        "Mean dR by task, 95% intervals over checkpoints. Helped, hurt and cells below 0 are of retained forks.",
        ("Task", "Cells", "Forks retained", *BOTH, "Helped / hurt", "Cells below 0"),
        tuple(rows),
    )


def directions(plain: Plain) -> TextTable:
    """Every direction by itself, and their difference at the drift levels that both visit."""
    rows = []
    for task, one in plain.items():
        sides = [one["effect"][name] for name in ESTIMANDS]
        for direction in _directions(one):
            parts = [
                {
                    "mean": side["by_direction"].get(direction),
                    **(side["by_direction_intervals"].get(direction) or {}),
                }
                for side in sides
            ]
            rows.append((task, direction, *_both(parts, _digits(one))))
        turns = [one["direction_contrast"][name] for name in ESTIMANDS]
        if all(turns):
            rows.append((task, f"toward - away at {turns[0]['levels']} levels", *_both(turns, _digits(one))))
    return TextTable(
        "directions",
        "Mean dR by drift direction, and toward less away at the levels both directions visit.",
        ("Task", "Direction", *BOTH),
        tuple(rows),
        keys=2,
    )


def quartiles(plain: Plain) -> TextTable:
    """Where in the drift an update helps."""
    rows = [
        (task, direction, *(number(run, _digits(one)) for run in one["drift_quartiles"][direction]))
        for task, one in plain.items()
        for direction in _directions(one)
        if one["drift_quartiles"].get(direction)
    ]
    return TextTable(
        "quartiles",
        "Mean dR of retained forks by drift level, in four runs as equal in size as possible.",
        ("Task", "Direction", "least drift", "second", "third", "most drift"),
        tuple(rows),
        keys=2,
    )


def seed_replication(tasks: Mapping[str, TaskScore], replication: Mapping[str, Forks], rules: Rules) -> TextTable:
    """Table 2; without rows where there is one stream seed."""
    rows = []
    for task, one in tasks.items():
        repeated = replicate(one.evidence.forks, replication.get(task), rules=rules)
        if repeated is not None:
            figures: list[Any] = [settle(effect)[0] for effect in (repeated.first, repeated.all_seeds)]
            shown = (with_span(one["mean"], one["bootstrap"], digits_for(one)) for one in figures)
            cells = (f" ({one['cells']} cells)" for one in figures)
            rows.append((task, *(mean + count for mean, count in zip(shown, cells, strict=True))))
    return TextTable(
        "seedrep",
        "Stream-seed replication: mean dR of retained forks with the bootstrap over checkpoints.",
        ("Task", "first stream seed", "all stream seeds"),
        tuple(rows),
    )


def contraction(plain: Plain) -> TextTable:
    """r_update against r_hold, and the same between two halves of HOLD's episodes."""
    rows = []
    for task, one in plain.items():
        fit, half = one["contraction"], one["contraction"]["split_half"] or {}
        if fit["slope"] is not None:
            rows.append(
                (
                    task,
                    with_span(fit["slope"], fit["slope_interval"], 2),
                    number(fit["crossing"], _digits(one)).lstrip("+"),
                    with_span(fit["variance_ratio"], fit["variance_ratio_interval"], 2),
                    number(half.get("slope"), 2),
                    number(half.get("variance_ratio"), 2),
                )
            )
    return TextTable(
        "contraction",
        "r_update on r_hold, retained forks, intervals over cells; HOLD's second half of episodes on its first.",
        ("Task", "slope", "crossing", "variance ratio", "split-half slope", "split-half variance ratio"),
        tuple(rows),
    )


def predictions(plain: Plain) -> TextTable:
    """What was said beforehand, and what came."""
    rows = [
        (
            task,
            said["name"],
            number(said["value"], _digits(one)),
            span(said["interval"], _digits(one)),
            said["answer"],
        )
        for task, one in plain.items()
        for said in one["predictions"]
    ]
    return TextTable(
        "predictions",
        "Registered predictions.",
        ("Task", "Prediction", "figure", "95% interval", "answer"),
        tuple(rows),
        keys=2,
    )


def _both(parts: list[dict[str, Any]], digits: int) -> list[str]:
    """A mean with its bootstrap interval and the Student-t interval, of each estimand."""
    cells = []
    for one in parts:
        cells += [with_span(one["mean"], one.get("bootstrap"), digits), span(one.get("student_t"), digits)]
    return cells


def _directions(one: dict[str, Any]) -> list[str]:
    return sorted(
        one["effect"]["all_attempted"]["by_direction"], reverse=True
    )  # toward before away, as in the paper


def _digits(one: dict[str, Any]) -> int:
    return digits_for(one["effect"]["all_attempted"])
