"""A score as frames for further work: one row per arm, task and subject of the frame, null where undefined."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from worldfork.analysis.read.triggers import is_reference
from worldfork.analysis.score.curves import CurvePoint, Curves
from worldfork.analysis.score.deployment_records import (
    Advantage,
    Order,
    SizedForecast,
    TaskDeployment,
    WithinUpdate,
)
from worldfork.analysis.score.policies import BESIDE
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.triggers import TriggerScore
from worldfork.analysis.score.undefined import Estimand, Figure, Interval, Undefined

if TYPE_CHECKING:
    from worldfork.analysis.score.result import Score


Tasks = Mapping[tuple[str, str], TaskScore]
# Columns that hold no figure, by their type. A column has one type whatever is in it, so that frames of several
# studies can be joined.
KINDS: Final = {
    **dict.fromkeys(("arm", "task", "checkpoint", "direction", "estimand", "verdict", "grade", "axis"), pl.String),
    **dict.fromkeys(("proposed_by", "policy", "rule", "forecast", "policies", "trigger", "standing"), pl.String),
    **dict.fromkeys(("does_not_beat", "auc_interval_kind"), pl.String),
    **dict.fromkeys(("stream_seed", "k", "cells", "forks", "clusters", "checkpoints", "episodes"), pl.Int64),
    **dict.fromkeys(
        ("diverged", "quarantined", "fires", "running_quantile_fires", "n_defined", "missed"), pl.Int64
    ),
    **dict.fromkeys(("reference", "useful", "passes_control", "fired"), pl.Boolean),
}
FIRES: Final = {
    name: KINDS[name] for name in ("arm", "task", "checkpoint", "direction", "stream_seed", "k", "trigger", "fired")
}


def effects(tasks: Tasks) -> pl.DataFrame:
    """Return one row per arm, task and estimand."""
    rows = [
        {
            **_key(key),
            "estimand": estimand,
            **_cells(effect, mean="mean", student_t_="student_t", bootstrap_="bootstrap", mde="mde"),
            **_cells(effect.skew, skewness="skewness", shortfall="shortfall", johnson_="johnson"),
            **_cells(task.forks, diverged="diverged", diverged_share="diverged_share"),
            "verdict": task.verdict if estimand == "all_attempted" else None,
            "grade": task.judgement.grade if estimand == "all_attempted" else None,
            **_cells(effect, clusters="clusters", cells="cells", forks="forks"),
        }
        for key, task in tasks.items()
        for estimand, effect in task.effect.items()
    ]
    return _frame(rows)


def estimands(tasks: Tasks) -> pl.DataFrame:
    """Return one row per arm and task: both estimands, the share that diverged, and figures robust to outliers."""
    rows = [
        {
            **_key(key),
            **_cells(task.effect.all_attempted, mean="mean", student_t_="student_t"),
            **_cells(task.effect.retained, retained_mean="mean", retained_student_t_="student_t"),
            **_cells(task.forks, diverged_share="diverged_share", quarantined="quarantined"),
            **_cells(
                task.robust, interquartile_mean="interquartile_mean", interquartile_="interquartile_bootstrap"
            ),
            **_cells(task.robust, probability_of_improvement="probability_of_improvement"),
            **_cells(task.robust, probability_="probability_student_t"),
            **_cells(task.prices.always, break_even_price="price", break_even_="interval"),
        }
        for key, task in tasks.items()
    ]
    return _frame(rows)


def curves(tasks: Tasks) -> pl.DataFrame:
    """Return one row per arm, task, axis and place of a curve of mean dR, with its simultaneous band."""
    names = ("low", "high", "forks", "checkpoints", "mean")
    rows = [
        {
            **_key(key),
            "axis": axis,
            **_cells(point, **dict(zip(names, names, strict=True)), student_t_="student_t", band_="band"),
        }
        for key, task in tasks.items()
        for axis, points in _axes(task.curves)
        for point in points
    ]
    return _frame(rows)


def _axes(shown: Curves) -> Iterator[tuple[str, tuple[CurvePoint, ...]]]:
    if not isinstance(shown.level, Undefined):
        yield "level", shown.level.points
    if not isinstance(shown.halves, Undefined):
        yield "half of the drift", shown.halves
    if not isinstance(shown.hold_share, Undefined):
        yield "hold_share", shown.hold_share.points


def trials(tasks: Tasks) -> pl.DataFrame:
    """Return one row per arm, task, proposing rule and number of trial episodes."""
    rows = [
        {
            **_key(key),
            "proposed_by": proposed_by,
            **_cells(trial, episodes="episodes", proposed="proposed", kept="kept"),
            **_cells(trial, mean="mean", student_t_="student_t"),
            **_cells(trial.over_better, over_better="mean", over_better_="student_t"),
            **_cells(trial.break_even, break_even_price="price", break_even_="interval"),
            **_cells(task.trials, always="always", oracle="oracle"),
        }
        for key, task in tasks.items()
        if not isinstance(task.trials, Undefined)
        for proposed_by, trial in (
            *(("every decision point", trial) for trial in task.trials.by_episodes.values()),
            *task.trials.proposed_by.items(),
        )
    ]
    return _frame(rows)


def prices(tasks: Tasks) -> pl.DataFrame:
    """Return one row per arm, task and trigger: the prices of an update between which it is worth the most."""
    rows = [
        {
            **_key(key),
            "policy": name,
            **_cells(price.over_always, over_always_from="price", over_always_="interval"),
            **_cells(price.over_never, over_never_to="price", over_never_="interval"),
            **_cells(best, best_from="above", best_to="below"),
        }
        for key, task in tasks.items()
        for name, price in task.prices.triggers.items()
        for best in (next((price_range for price_range in task.prices.best if price_range.policy == name), None),)
    ]
    return _frame(rows)


def deployments(tasks: Mapping[str, TaskDeployment]) -> pl.DataFrame:
    """Return one row per task and policy in closed-loop deployment: realised, forecast, and both corrections."""
    rows = [
        {
            "task": task,
            "policy": name,
            **_cells(outcome, updates="updates", returned="returned"),
            **_cells(outcome.trials, trials="decided", trials_kept="kept"),
            **_advantage("over_never", outcome.advantage),
            **_advantage("over_always", outcome.over_always),
            **_cells(outcome, ledger_value="ledger_value", one_step="one_step"),
            **_advantage("less_one_step", outcome.parted_one_step),
            **_cells(outcome, carried="carried"),
            **_advantage("less_carried", outcome.parted_carried),
        }
        for task, deployed in tasks.items()
        for name, outcome in deployed.policies.items()
    ]
    return _frame(rows)


def _advantage(name: str, advantage: Advantage | Undefined) -> dict[str, object]:
    figures = {name: "mean", f"{name}_": "student_t", f"{name}_holm": "grade_holm", f"{name}_max_t": "grade_max_t"}
    return _cells(advantage, **figures, **{f"{name}_max_t_p": "adjusted_max_t"})


def forecasts(tasks: Mapping[str, TaskDeployment]) -> pl.DataFrame:
    """Return one row per task, forecast and set of policies: how well it orders them, and how far it is off."""
    rows = []
    for task, deployed in tasks.items():
        if isinstance(deployed.forecasts, Undefined):
            continue
        shown = deployed.forecasts
        partial = shown.partial
        orders: dict[str, Order] = {"one_step": shown.one_step, "carried": shown.carried, "count": shown.count}
        orders["one_step given count"] = Order(
            rank_correlation=partial.value, bootstrap=partial.bootstrap, within=partial.within
        )
        for name, order in orders.items():
            sized = order if isinstance(order, SizedForecast) else None
            every: dict[str, Order | WithinUpdate] = {"all": order, **order.within}
            rows += [
                {
                    "task": task,
                    "forecast": name,
                    "policies": policies_of,
                    **_cells(these, rank_correlation="rank_correlation", rank_correlation_="bootstrap"),
                    **_cells(sized if these is order else None, error="error", missed="missed"),
                }
                for policies_of, these in every.items()
            ]
    return _frame(rows)


def triggers(tasks: Tasks, estimand: Estimand) -> pl.DataFrame:
    """Return one row per arm, task and trigger."""
    last = ("n_defined", "correlation", "partial_correlation", "spearman_hold", "excluded_quantile")
    running = {"running_quantile_total": "policy_total", "running_quantile_fires": "fires"}
    control = {"_mean": "mean", "_": "interval", "_p": "p"}
    rows = [
        {
            **_key(key),
            "trigger": name,
            "reference": is_reference(name),
            "standing": trigger.standing,
            **_verdict(trigger),
            **_cells(trigger, auc="auc", auc_="auc_interval", auc_interval_kind="auc_interval_kind"),
            "policy_total": trigger.policy_total,
            "per_deployment": trigger.per_deployment.mean,
            "fires": trigger.fires,
            **_cells(trigger.running_quantile, **running),
            **_cells(trigger.random, **{f"random{end}": figure for end, figure in control.items()}),
            **_cells(trigger.random_shift, **{f"shift{end}": figure for end, figure in control.items()}),
            "passes_control": trigger.passes_control,
            **{f"adjusted_{test}_p": p for test, p in trigger.adjusted.items()},
            **{f"gain_over_{baseline}": _gain(trigger, baseline) for baseline in BESIDE},
            **_cells(trigger, **dict(zip(last, last, strict=True))),
        }
        for key, task in tasks.items()
        for name, trigger in task.triggers[estimand].items()
    ]
    return _frame(rows)


def _verdict(trigger: TriggerScore) -> dict[str, object]:
    judged = None if trigger.standing == "reference" else trigger.useful
    if judged is None or isinstance(judged, Undefined):
        return {"useful": None, "does_not_beat": None}
    return {"useful": judged.useful, "does_not_beat": ", ".join(judged.does_not_beat)}


def _gain(trigger: TriggerScore, baseline: str) -> Figure:
    """Return the mean gain of a policy over a baseline in a checkpoint."""
    return trigger.gains if isinstance(trigger.gains, Undefined) else trigger.gains[baseline].mean


def policies(tasks: Tasks, estimand: Estimand) -> pl.DataFrame:
    """Return one row per arm, task, policy and rule of firing."""
    rows = [
        {**_key(key), "policy": policy, "rule": rule, "total": total, "fires": fires}
        for key, task in tasks.items()
        for policy, rule, total, fires in _policies(task, estimand)
    ]
    return _frame(rows)


def _policies(task: TaskScore, estimand: Estimand) -> Iterable[tuple[str, str, Figure, int | Undefined | None]]:
    fixed = task.policies[estimand]
    yield "never", "fixed", fixed.never, 0
    yield "always", "fixed", fixed.always, task.effect[estimand].forks
    yield "oracle", "fixed", fixed.oracle, None
    for name, trigger in task.triggers[estimand].items():
        yield name, "leave_one_checkpoint_out", trigger.policy_total, trigger.fires
        yield name, "running_quantile", trigger.running_quantile.policy_total, trigger.running_quantile.fires


def fires(tasks: Tasks, estimand: Estimand) -> pl.DataFrame:
    """Return a row per arm, task, fork and trigger: where the fork is, and did the trigger fire there."""
    frames = []
    for (arm, name), task in tasks.items():
        prefork = task.evidence.forks.prefork
        cells = [prefork.cells[index] for index in prefork.cell]
        for trigger, decided in getattr(task.evidence, estimand).items():
            fired = [None] * len(cells) if isinstance(decided.fired, Undefined) else decided.fired.tolist()
            columns = {
                "arm": [arm] * len(cells),
                "task": [name] * len(cells),
                "checkpoint": [cell.checkpoint for cell in cells],
                "direction": [cell.direction for cell in cells],
                "stream_seed": [cell.stream_seed for cell in cells],
                "k": prefork.k.tolist(),
                "trigger": [trigger] * len(cells),
                "fired": fired,
            }
            frames.append(pl.DataFrame(columns, schema=FIRES))
    return pl.concat(frames) if frames else pl.DataFrame(schema=FIRES)


def _key(key: tuple[str, str]) -> dict[str, object]:
    return {"arm": key[0], "task": key[1]}


def _cells(record: object, **columns: str) -> dict[str, object]:
    """Return figures of a record by column; a name that ends in `_` stands for both ends of an interval."""
    cells: dict[str, object] = {}
    for column, figure in columns.items():
        value = None if record is None or isinstance(record, Undefined) else getattr(record, figure)
        if column.endswith("_"):
            low, high = value if isinstance(value, Interval) else (None, None)
            cells |= {f"{column}low": low, f"{column}high": high}
        else:
            cells[column] = value
    return cells


def _frame(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    """Return the rows as a frame, null where a figure is undefined."""
    graded = ("_holm", "_max_t")
    schema = {
        name: pl.String if name.endswith(graded) else KINDS.get(name, pl.Float64)
        for name in (rows[0] if rows else ())
    }
    plain = [{name: None if isinstance(value, Undefined) else value for name, value in row.items()} for row in rows]
    return pl.DataFrame(plain, schema=schema)


def values(score: "Score") -> pl.DataFrame:
    """Return a row per figure that is defined, `name` and `value`; names are paths into the score's JSON."""
    plain = {name: value for name, value in score.to_json().items() if name not in ("schema", "undefined")}
    rows = [{"name": name, "value": value} for name, value in _numbers(plain, "")]
    return pl.DataFrame(rows, schema={"name": pl.String, "value": pl.Float64})


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, int | float):
        yield path, float(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(inner, f"{path}/{name}" if path else str(name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _numbers(inner, f"{path}/{_label(inner, place)}")


def _label(item: Any, place: int) -> str:
    """Return the name of an item of a list where it has one, else its place."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else str(place)
