"""A score as frames for further work: one row per arm, task and subject of the frame, null where undefined."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from worldfork.analysis.read.triggers import is_reference
from worldfork.analysis.score.curves import CurvePoint, Curves
from worldfork.analysis.score.deployment_records import Advantage, TaskDeployment
from worldfork.analysis.score.intervals import Skew
from worldfork.analysis.score.permutation_nulls import RandomControl
from worldfork.analysis.score.policies import ReferencePolicies
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.triggers import TriggerScore
from worldfork.analysis.score.undefined import Bounds, Estimand, Undefined

if TYPE_CHECKING:
    from worldfork.analysis.score.result import Score


Tasks = Mapping[tuple[str, str], TaskScore]
Cell = float | int | bool | str | None
BASELINES = ("never", "always", "better_of_both", "position_table")
KEYS = {"arm": pl.String, "task": pl.String}
FIRES = {
    **KEYS,
    "checkpoint": pl.String,
    "direction": pl.String,
    "stream_seed": pl.Int64,
    "k": pl.Int64,
    "trigger": pl.String,
    "fired": pl.Boolean,
}


def effects(tasks: Tasks) -> pl.DataFrame:
    """Return one row per arm, task and estimand."""
    rows = [
        {
            **_key(key),
            "estimand": estimand,
            "mean": _plain(effect.mean),
            **_ends("student_t", effect.student_t),
            **_ends("bootstrap", effect.bootstrap),
            "mde": _plain(effect.mde),
            **_skew(effect.skew),
            "diverged": task.forks.diverged,
            "diverged_share": _plain(task.forks.diverged_share),
            "verdict": _plain(task.verdict) if estimand == "all_attempted" else None,
            "grade": _plain(task.judgement.grade) if estimand == "all_attempted" else None,
            "clusters": effect.clusters,
            "cells": effect.cells,
            "forks": effect.forks,
        }
        for key, task in tasks.items()
        for estimand, effect in task.effect.items()
    ]
    return _frame(rows, text=("estimand", "verdict", "grade"), whole=("diverged", "clusters", "cells", "forks"))


def estimands(tasks: Tasks) -> pl.DataFrame:
    """Return one row per arm and task: both estimands, the share that diverged, and figures robust to outliers."""
    rows = [
        {
            **_key(key),
            "mean": _plain(task.effect.all_attempted.mean),
            **_ends("student_t", task.effect.all_attempted.student_t),
            "retained_mean": _plain(task.effect.retained.mean),
            **_ends("retained_student_t", task.effect.retained.student_t),
            "diverged_share": _plain(task.forks.diverged_share),
            "quarantined": task.forks.quarantined,
            "interquartile_mean": _plain(task.robust.interquartile_mean),
            **_ends("interquartile", task.robust.interquartile_bootstrap),
            "probability_of_improvement": _plain(task.robust.probability_of_improvement),
            **_ends("probability", task.robust.probability_student_t),
            "break_even_price": _plain(task.prices.always.price),
            **_ends("break_even", task.prices.always.interval),
        }
        for key, task in tasks.items()
    ]
    return _frame(rows, text=(), whole=("quarantined",))


def curves(tasks: Tasks) -> pl.DataFrame:
    """Return one row per arm, task, axis and place of a curve of mean dR, with its simultaneous band."""
    rows = [
        {
            **_key(key),
            "axis": axis,
            "low": point.low,
            "high": point.high,
            "forks": point.forks,
            "checkpoints": point.checkpoints,
            "mean": _plain(point.mean),
            **_ends("student_t", point.student_t),
            **_ends("band", point.band),
        }
        for key, task in tasks.items()
        for axis, points in _axes(task.curves)
        for point in points
    ]
    return _frame(rows, text=("axis",), whole=("forks", "checkpoints"))


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
            "episodes": trial.episodes,
            "proposed": trial.proposed,
            "kept": _plain(trial.kept),
            "mean": _plain(trial.mean),
            **_ends("student_t", trial.student_t),
            "over_better": _plain(trial.over_better.mean),
            **_ends("over_better", trial.over_better.student_t),
            "break_even_price": _plain(trial.break_even.price),
            **_ends("break_even", trial.break_even.interval),
            "always": task.trials.always,
            "oracle": task.trials.oracle,
        }
        for key, task in tasks.items()
        if not isinstance(task.trials, Undefined)
        for proposed_by, trial in (
            *(("every decision point", trial) for trial in task.trials.by_episodes.values()),
            *task.trials.proposed_by.items(),
        )
    ]
    return _frame(rows, text=("proposed_by",), whole=("episodes",))


def prices(tasks: Tasks) -> pl.DataFrame:
    """Return one row per arm, task and trigger: the prices of an update between which it is worth the most."""
    rows = [
        {
            **_key(key),
            "policy": name,
            "over_always_from": _plain(price.over_always.price),
            **_ends("over_always", price.over_always.interval),
            "over_never_to": _plain(price.over_never.price),
            **_ends("over_never", price.over_never.interval),
            "best_from": best.above if best else None,
            "best_to": best.below if best else None,
        }
        for key, task in tasks.items()
        for name, price in task.prices.triggers.items()
        for best in (next((price_range for price_range in task.prices.best if price_range.policy == name), None),)
    ]
    return _frame(rows, text=("policy",), whole=())


def deployments(tasks: Mapping[str, TaskDeployment]) -> pl.DataFrame:
    """Return one row per task and policy in closed-loop deployment: realised, forecast, and both corrections."""
    rows = [
        {
            "arm": None,
            "task": task,
            "policy": name,
            "updates": outcome.updates,
            "returned": _plain(outcome.returned),
            **_advantage("over_never", outcome.advantage),
            **_advantage("over_always", outcome.over_always),
            "ledger_value": _plain(outcome.ledger_value),
            "one_step": _plain(outcome.one_step),
            **_advantage("less_one_step", outcome.parted_one_step),
            "carried": _plain(outcome.carried),
            **_advantage("less_carried", outcome.parted_carried),
        }
        for task, deployed in tasks.items()
        for name, outcome in deployed.policies.items()
    ]
    grades = tuple(
        f"{name}_{grade}"
        for name in ("over_never", "over_always", "less_one_step", "less_carried")
        for grade in ("holm", "max_t")
    )
    return _frame(rows, text=("policy", *grades), whole=()).drop("arm", strict=False)


def _advantage(name: str, advantage: Advantage | Undefined) -> dict[str, Cell]:
    if isinstance(advantage, Undefined):
        return dict.fromkeys(
            (name, f"{name}_low", f"{name}_high", f"{name}_holm", f"{name}_max_t", f"{name}_max_t_p")
        )
    return {
        name: _plain(advantage.mean),
        **_ends(name, advantage.student_t),
        f"{name}_holm": _plain(advantage.grade_holm),
        f"{name}_max_t": _plain(advantage.grade_max_t),
        f"{name}_max_t_p": _plain(advantage.adjusted_max_t),
    }


def forecasts(tasks: Mapping[str, TaskDeployment]) -> pl.DataFrame:
    """Return one row per task, forecast and set of policies: how well it orders them, and how far it is off."""
    rows = []
    for task, deployed in tasks.items():
        if isinstance(deployed.forecasts, Undefined):
            continue
        shown = deployed.forecasts
        orders = {
            "one_step": (shown.one_step.rank_correlation, shown.one_step.bootstrap, shown.one_step.within),
            "carried": (shown.carried.rank_correlation, shown.carried.bootstrap, shown.carried.within),
            "count": (shown.count.rank_correlation, shown.count.bootstrap, shown.count.within),
            "one_step given count": (shown.partial.value, shown.partial.bootstrap, shown.partial.within),
        }
        sized = {"one_step": shown.one_step, "carried": shown.carried}
        for name, (value, bootstrap, within) in orders.items():
            sets = {"all": (value, bootstrap)}
            sets |= {arm: (order.rank_correlation, order.bootstrap) for arm, order in within.items()}
            for policies_of, (correlation, interval) in sets.items():
                whole = sized.get(name) if policies_of == "all" else None
                rows.append(
                    {
                        "arm": None,
                        "task": task,
                        "forecast": name,
                        "policies": policies_of,
                        "rank_correlation": _plain(correlation),
                        **_ends("rank_correlation", interval),
                        "error": None if whole is None else _plain(whole.error),
                        "missed": None if whole is None else whole.missed,
                    }
                )
    return _frame(rows, text=("forecast", "policies"), whole=("missed",)).drop("arm", strict=False)


def triggers(tasks: Tasks, estimand: Estimand) -> pl.DataFrame:
    """Return one row per arm, task and trigger."""
    rows = [
        {
            **_key(key),
            "trigger": name,
            "reference": is_reference(name),
            "standing": trigger.standing,
            "useful": _useful(trigger),
            "does_not_beat": _not_beaten(trigger),
            "auc": _plain(trigger.auc),
            **_ends("auc", trigger.auc_interval),
            "auc_interval_kind": _plain(trigger.auc_interval_kind),
            "policy_total": _plain(trigger.policy_total),
            "per_deployment": _plain(trigger.per_deployment.mean),
            "fires": _plain(trigger.fires),
            "running_quantile_total": _plain(trigger.running_quantile.policy_total),
            "running_quantile_fires": _plain(trigger.running_quantile.fires),
            **_control("random", trigger.random),
            **_control("shift", trigger.random_shift),
            "passes_control": _plain(trigger.passes_control),
            **{f"adjusted_{test}_p": _plain(p) for test, p in trigger.adjusted.items()},
            **{f"gain_over_{baseline}": _gain(trigger, baseline) for baseline in BASELINES},
            "n_defined": trigger.n_defined,
            "correlation": _plain(trigger.correlation),
            "partial_correlation": _plain(trigger.partial_correlation),
            "spearman_hold": _plain(trigger.spearman_hold),
            "excluded_quantile": _plain(trigger.excluded_quantile),
        }
        for key, task in tasks.items()
        for name, trigger in _triggers(task, estimand).items()
    ]
    return _frame(
        rows,
        text=("trigger", "standing", "does_not_beat", "auc_interval_kind"),
        whole=("fires", "running_quantile_fires", "n_defined"),
        flags=("reference", "useful", "passes_control"),
    )


def policies(tasks: Tasks, estimand: Estimand) -> pl.DataFrame:
    """Return one row per arm, task, policy and rule of firing."""
    rows = [
        {**_key(key), "policy": policy, "rule": rule, "total": total, "fires": fires}
        for key, task in tasks.items()
        for policy, rule, total, fires in _policies(task, estimand)
    ]
    return _frame(rows, text=("policy", "rule"), whole=("fires",))


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


def _policies(task: TaskScore, estimand: Estimand) -> Iterable[tuple[str, str, Cell, Cell]]:
    fixed: ReferencePolicies = task.policies[estimand]
    scored = getattr(task.effect, estimand).forks
    yield "never", "fixed", _plain(fixed.never), 0
    yield "always", "fixed", _plain(fixed.always), scored
    yield "oracle", "fixed", _plain(fixed.oracle), None
    for name, trigger in _triggers(task, estimand).items():
        yield name, "leave_one_checkpoint_out", _plain(trigger.policy_total), _plain(trigger.fires)
        running = trigger.running_quantile
        yield name, "running_quantile", _plain(running.policy_total), _plain(running.fires)


def _triggers(task: TaskScore, estimand: Estimand) -> Mapping[str, TriggerScore]:
    return task.triggers[estimand]


def _useful(trigger: TriggerScore) -> bool | None:
    judged = None if trigger.standing == "reference" else trigger.useful
    return None if judged is None or isinstance(judged, Undefined) else judged.useful


def _not_beaten(trigger: TriggerScore) -> str | None:
    judged = None if trigger.standing == "reference" else trigger.useful
    return None if judged is None or isinstance(judged, Undefined) else ", ".join(judged.does_not_beat)


def _gain(trigger: TriggerScore, name: str) -> float | None:
    """Return the mean gain of a policy over a baseline in a checkpoint."""
    if isinstance(trigger.gains, Undefined):
        return None
    mean = trigger.gains[name].mean
    return None if isinstance(mean, Undefined) else mean


def _key(key: tuple[str, str]) -> dict[str, Cell]:
    return {"arm": key[0], "task": key[1]}


def _plain(value: Cell | Undefined) -> Cell:
    return None if isinstance(value, Undefined) else value


def _ends(name: str, interval: Bounds) -> dict[str, Cell]:
    low, high = (None, None) if isinstance(interval, Undefined) else interval
    return {f"{name}_low": low, f"{name}_high": high}


def _skew(skew: Skew | Undefined) -> dict[str, Cell]:
    if isinstance(skew, Undefined):
        return dict.fromkeys(("skewness", "shortfall", "johnson_low", "johnson_high"))
    figures = {"skewness": _plain(skew.skewness), "shortfall": _plain(skew.shortfall)}
    return {**figures, **_ends("johnson", skew.johnson)}


def _control(name: str, control: RandomControl | Undefined) -> dict[str, Cell]:
    if isinstance(control, Undefined):
        return dict.fromkeys((f"{name}_mean", f"{name}_low", f"{name}_high", f"{name}_p"))
    return {f"{name}_mean": _plain(control.mean), **_ends(name, control.interval), f"{name}_p": control.p}


def _frame(
    rows: list[dict[str, Cell]], *, text: tuple[str, ...], whole: tuple[str, ...], flags: tuple[str, ...] = ()
) -> pl.DataFrame:
    """Return the rows as a frame. A column has one type whatever is in it, so that frames of several studies can be
    joined."""
    kinds = {**dict.fromkeys((*KEYS, *text), pl.String), **dict.fromkeys(whole, pl.Int64)}
    kinds |= dict.fromkeys(flags, pl.Boolean)
    schema = {name: kinds.get(name, pl.Float64) for name in (rows[0] if rows else {})}
    return pl.DataFrame(rows, schema=schema)


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
