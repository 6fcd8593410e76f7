"""Registered predictions: held, falsified, unresolved or not tested (paper, "a registered mechanism")."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Final, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy import stats

from worldfork.analysis.score.clusters import ClusterMeans
from worldfork.analysis.score.deployment_records import TaskDeployment
from worldfork.analysis.score.intervals import SIGNIFICANT
from worldfork.analysis.score.records import Equivalence, PredictionAnswer, TaskScore
from worldfork.analysis.score.undefined import (
    INTERNAL,
    TWO_KEYS,
    Bounds,
    Figure,
    Interval,
    Undefined,
    undefined,
    written_fields,
)
from worldfork.errors import WorldforkError
from worldfork.registration.schema import Prediction, Premise

Answer = Literal["held", "falsified", "unresolved", "not tested"]
EQUIVALENT: Final[dict[str, Answer]] = {
    "equivalent": "held",
    "different": "falsified",
    "not shown": "unresolved",
}
FOLLOWED: Final = "deployment."  # how a path begins that leads into what policies came to, followed all the way
BESIDE: Final = {"mean": "student_t", "rank_correlation": "bootstrap"}  # a figure's interval; others: NAME_interval
NO_INTERVAL: Final = Undefined("this figure has no interval: it stands for itself")


def answer(prediction: Prediction, figures: object, *, premises: object = None) -> PredictionAnswer:
    """Return the answer to a prediction: held when all of the figure's interval is where it was said to be,
    falsified when all of it is where it was said not to be (outside `between`, unless thresholds say further), and
    else unresolved. A figure without an interval stands for its own. A margin of equivalence is held, or falsified,
    by two one-sided tests.

    `figures` is what the prediction is about (a task's score, its deployment, or the contrast of two arms), a
    mapping in its place, or why there is none; `premises` the score of the task that the premise is about.
    """
    path = "mean" if prediction.against is not None else _path(prediction)
    value, interval = _look_up(figures, path)
    premise, granted = None, True
    if prediction.premise is not None:
        premise, beside = _look_up(figures if premises is None else premises, prediction.premise.figure)
        granted = _holds(prediction.premise, premise, beside)
    tested = _equivalence(prediction, figures)
    if not granted or isinstance(figures, Undefined):  # as where the arm that it compares with is not scored
        result: Answer = "not tested"
    elif tested is not None:
        result = EQUIVALENT[tested.answer]
    else:
        result = "unresolved" if isinstance(value, Undefined) else _compare(prediction, value, interval)
    return PredictionAnswer(
        name=prediction.name,
        figure=prediction.figure,
        against=prediction.against,
        between=prediction.between,
        falsified_below=prediction.falsified_below,
        falsified_above=prediction.falsified_above,
        equivalence=tested,
        premise=None if prediction.premise is None else _words(prediction.premise),
        premise_value=premise,
        value=value,
        interval=interval,
        answer=result,
    )


def is_about_deployment(prediction: Prediction) -> bool:
    """Return whether a prediction is about policies in closed-loop deployment, and not about forks."""
    return prediction.figure.startswith(FOLLOWED)


def prediction_problems(predictions: Iterable[Prediction]) -> list[str]:
    """Return the problems that keep predictions from ever being answered, one line each: to be asked before
    anything runs.

    >>> prediction_problems([Prediction(name="up", task="t", figure="effect.retaind.mean", between=(0.0, 1.0))])
    ['the prediction `up`: no score has `effect.retaind.mean`: no `retaind` among all_attempted, retained']
    """
    problems = []
    for prediction in predictions:
        subject = TaskDeployment if is_about_deployment(prediction) else TaskScore
        paths = [(_path(prediction), subject)]
        paths += [(prediction.premise.figure, TaskScore)] if prediction.premise else []
        wrong = filter(None, (_figure_problem(path, within) for path, within in paths))
        problems += [f"the prediction `{prediction.name}`: {problem}" for problem in wrong]
    return problems


def _path(prediction: Prediction) -> str:
    """Return the path of the figure in the record that the prediction is about."""
    return "effect.all_attempted.mean" if prediction.figure == "mean" else prediction.figure.removeprefix(FOLLOWED)


def _holds(premise: Premise, value: Figure, interval: Bounds) -> bool:
    """Return whether all of the figure's interval lies on the side that the premise says."""
    if isinstance(value, Undefined):
        return False
    low, high = (value, value) if isinstance(interval, Undefined) else interval
    return (premise.below is None or high < premise.below) and (premise.above is None or low > premise.above)


def _words(premise: Premise) -> str:
    sides = [f"below {premise.below:g}"] if premise.below is not None else []
    sides += [f"above {premise.above:g}"] if premise.above is not None else []
    task = f" of {premise.task}" if premise.task else ""
    return f"{premise.figure}{task} {' and '.join(sides)}"


def _equivalence(prediction: Prediction, figures: object) -> Equivalence | None:
    """Return two one-sided tests of the mean over checkpoints."""
    if prediction.equivalent_within is None:
        return None
    node = figures
    if prediction.against is None:
        for part in ("effect", "all_attempted"):
            node = _entry(node, part, "effect.all_attempted.by_checkpoint")
    means = _entry(node, "by_checkpoint", "by_checkpoint")
    defined = [value for value in _entries(means).values() if isinstance(value, float)]
    return equivalence(np.array(defined, dtype=np.float64), margin=prediction.equivalent_within)


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


def _look_up(figures: object, path: str) -> tuple[Figure, Bounds]:
    """Return a figure and the interval beside it."""
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
    beside = _entries(node).get(BESIDE.get(leaf, f"{leaf}_interval"), NO_INTERVAL)
    return float(value), beside if isinstance(beside, Interval | Undefined) else NO_INTERVAL


def _entry(node: object, part: str, path: str) -> object:
    entries = _entries(node)
    return node if isinstance(node, Undefined) else entries.get(part, _nothing(path, part, entries))


def _entries(node: object) -> dict[str, object]:
    if isinstance(node, Mapping):
        return {str(key): entry for key, entry in node.items()}
    if dataclasses.is_dataclass(node):
        return written_fields(node)
    return {}


def _nothing(path: str, part: str, names: Iterable[str]) -> Undefined:
    listed = ", ".join(names)
    return Undefined(f"no score has `{path}`: no `{part}`{f' among {listed}' if listed else ', and nothing below'}")


def _figure_problem(path: str, within: type) -> str | None:
    """Return why no record of this kind has a figure at this path, told from types alone; None where one may have
    it."""
    kinds: list[object] = [within]
    for part in path.split("."):
        fields: dict[str, object] = {}
        anything = False
        for kind in kinds:
            if get_origin(kind) in (Mapping, dict):
                fields, anything = {part: get_args(kind)[1]}, True
            elif dataclasses.is_dataclass(get_origin(kind) or kind):
                fields |= _fields(kind)
        if part not in fields and not anything:
            return _nothing(path, part, fields).why
        kinds = _parts(fields[part])
    return None if any(kind in (float, int) for kind in kinds) else f"`{path}` is not a number"


def _fields(kind: object) -> dict[str, object]:
    """Return the fields of a record and their types; those of `Estimands[Effect]` with Effect in the place of T."""
    record = get_origin(kind) or kind
    assert isinstance(record, type)
    hints = get_type_hints(record)
    given = dict(zip(getattr(record, "__parameters__", ()), get_args(kind), strict=False))
    fields: dict[str, object] = {}
    for field in dataclasses.fields(record):
        hint = hints[field.name]
        if field.metadata == TWO_KEYS:  # both estimands, each under a key of its own
            fields |= dict.fromkeys((field.name, f"{field.name}_all_attempted"), get_args(hint)[0])
        elif field.metadata != INTERNAL:
            fields[field.name] = given.get(hint, hint)
    return fields


def _parts(kind: object) -> list[object]:
    """Return the alternatives of a union, or the one kind there is."""
    return list(get_args(kind)) if isinstance(kind, UnionType) or get_origin(kind) is Union else [kind]


def equivalence(values: ClusterMeans, *, margin: float) -> Equivalence:
    """Return whether a mean is equivalent to 0 (|mean| < margin by both one-sided tests at 5%), different (the 90%
    interval lies outside the margin altogether), or not shown to be either."""
    if not margin > 0:
        raise WorldforkError(f"An equivalence margin is above 0; got {margin:g}. Register how much would matter.")
    if len(values) < 2:
        why = Undefined(f"two one-sided tests need at least two checkpoints, and there are {len(values)}")
        mean: Figure = float(values.mean()) if len(values) else why
        return undefined(Equivalence, why, margin=margin, mean=mean, clusters=len(values), answer="not shown")
    centre, freedom = float(values.mean()), len(values) - 1
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    half = float(stats.t.ppf(1 - SIGNIFICANT, freedom)) * error
    low, high = centre - half, centre + half
    inside = 0.0 if abs(centre) < margin else 1.0
    p = float(stats.t.sf((margin - abs(centre)) / error, freedom)) if error > 0 else inside
    outside = low > margin or high < -margin
    return Equivalence(
        margin=margin,
        mean=centre,
        interval=Interval(low, high),
        p=p,
        least_margin=max(abs(low), abs(high)),
        clusters=len(values),
        answer="equivalent" if p < SIGNIFICANT else "different" if outside else "not shown",
    )
