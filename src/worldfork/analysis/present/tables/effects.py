"""Tables of what updating was worth: by task, direction, drift level and stream seed (paper, Tables 1 and 2)."""

from collections.abc import Mapping, Sequence

from worldfork.analysis.present.tables.table import TextTable
from worldfork.analysis.present.text import digits_for, known, number, predicted_digits, span, with_span
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.judgement import FreshSeverity, PredictionAnswer
from worldfork.analysis.score.power import replicate
from worldfork.analysis.score.records import ForkCounts, TaskScore
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined
from worldfork.counting import plural

__all__ = ["contraction", "directions", "effects", "predictions", "quartiles", "seed_replication", "severities"]

BOTH = ("all attempted, bootstrap", "Student-t", "retained, bootstrap", "Student-t")
Tasks = Mapping[str, TaskScore]
Estimate = tuple[Figure, Bounds, Bounds]  # a mean, its bootstrap and its Student-t interval


def effects(tasks: Tasks) -> TextTable:
    """Table 1, with both estimands and both intervals."""
    rows = []
    for task, score in tasks.items():
        forks, estimates = (
            score.forks,
            [(effect.mean, effect.bootstrap, effect.student_t) for _, effect in score.effect.items()],
        )
        rows.append(
            (
                task,
                _cells(score),
                _retained(forks),
                *_estimates(estimates, _digits(score)),
                f"{forks.helped} / {forks.hurt}",
                str(score.effect.retained.cells_below_zero),
            )
        )
    return TextTable(
        "effects",
        "Mean dR by task, 95% intervals over checkpoints. Helped, hurt and cells below 0 are of retained forks.",
        ("Task", "Cells", "Forks retained", *BOTH, "Helped / hurt", "Cells below 0"),
        tuple(rows),
    )


def directions(tasks: Tasks) -> TextTable:
    """Every direction by itself, and their difference at the drift levels that both visit."""
    rows = []
    for task, score in tasks.items():
        for direction in _directions(score):
            estimates = [
                (effect.by_direction[direction], intervals.bootstrap, intervals.student_t)
                for _, effect in score.effect.items()
                if (intervals := effect.by_direction_intervals[direction])
            ]
            rows.append((task, direction, *_estimates(estimates, _digits(score))))
        turns = [turn for _, turn in score.direction_contrast.items()]
        if known_turns := [turn for turn in turns if not isinstance(turn, Undefined)]:
            estimates = [
                (turn, turn, turn) if isinstance(turn, Undefined) else (turn.mean, turn.bootstrap, turn.student_t)
                for turn in turns
            ]
            label = f"toward - away at {known_turns[0].levels} levels"
            rows.append((task, label, *_estimates(estimates, _digits(score))))
    return TextTable(
        "directions",
        "Mean dR by drift direction, and toward less away at the levels both directions visit.",
        ("Task", "Direction", *BOTH),
        tuple(rows),
        keys=2,
    )


def quartiles(tasks: Tasks) -> TextTable:
    """Where in the drift an update helps."""
    rows = [
        (task, direction, *(number(run, _digits(score)) for run in runs))
        for task, score in tasks.items()
        for direction in _directions(score)
        if (runs := known(score.drift_quartiles[direction]))
    ]
    return TextTable(
        "quartiles",
        "Mean dR of retained forks by drift level, in four runs as equal in size as possible.",
        ("Task", "Direction", "least drift", "second", "third", "most drift"),
        tuple(rows),
        keys=2,
    )


def severities(tasks: Tasks) -> TextTable:
    """Mean dR by what drift had done to the frozen model, so that a verdict is not the schedule's."""
    rows = []
    for task, score in tasks.items():
        for part in known(score.severity) or ():
            low, high = part.low, part.high
            digits = _digits(score)
            rows.append(
                (
                    task,
                    f"below {high:g}"
                    if low is None
                    else f"from {low:g}"
                    if high is None
                    else f"{low:g} to {high:g}",
                    str(part.forks),
                    str(part.checkpoints),
                    str(part.helped),
                    number(part.mean, digits),
                    with_span(part.checkpoint_mean, part.student_t, digits),
                    *_fresh(part.fresh, digits),
                )
            )
    return TextTable(
        "severity",
        "Mean dR of all attempted forks by r_hold over the checkpoint's clean return: over forks, and over the "
        "checkpoints that have such forks, with its Student-t interval. Fresh: the latter with the severity from "
        "half of a fork's episodes and dR from the others, both ways round; by halves: the forks that the even and "
        "that the odd episodes place there, and their checkpoints.",
        (
            *("Task", "r_hold / clean", "forks", "checkpoints", "helped", "mean", "mean of checkpoints"),
            *("fresh", "by halves"),
        ),
        tuple(rows),
        keys=2,
    )


def seed_replication(tasks: Tasks, replication: Mapping[str, Forks], rules: Rules) -> TextTable:
    """Table 2; without rows where there is one stream seed."""
    rows = []
    for task, score in tasks.items():
        repeated = replicate(score.evidence.forks, replication.get(task), rules=rules)
        if repeated is not None:
            cells = [
                f"{with_span(effect.mean, effect.bootstrap, digits_for(effect))} ({plural(effect.cells, 'cell')})"
                for effect in (repeated.first, repeated.all_seeds)
            ]
            rows.append((task, *cells))
    return TextTable(
        "seedrep",
        "Stream-seed replication: mean dR of retained forks with the bootstrap over checkpoints.",
        ("Task", "first stream seed", "all stream seeds"),
        tuple(rows),
    )


def contraction(tasks: Tasks) -> TextTable:
    """r_update against r_hold, and the same between two halves of HOLD's episodes."""
    rows = []
    for task, score in tasks.items():
        fit = score.contraction
        if isinstance(fit.slope, Undefined):
            continue
        rows.append(
            (
                task,
                with_span(fit.slope, fit.slope_interval, 2),
                with_span(fit.crossing, fit.crossing_interval, _digits(score)).replace("+", ""),
                with_span(fit.variance_ratio, fit.variance_ratio_interval, 2),
                with_span(fit.within.value, fit.within.student_t, 2),
                number(fit.split_half.slope, 2),
                number(fit.split_half.variance_ratio, 2),
            )
        )
    return TextTable(
        "contraction",
        "r_update on r_hold, retained forks, Student-t intervals over checkpoints left out one at a time; the "
        "slope at one (direction, k), between checkpoints; HOLD's second half of episodes on its first.",
        (
            *("Task", "slope", "crossing", "variance ratio", "slope at one (direction, k)"),
            *("split-half slope", "split-half variance ratio"),
        ),
        tuple(rows),
    )


def predictions(tasks: Tasks) -> TextTable:
    """What was predicted beforehand, and what came."""
    rows = [
        (
            task,
            prediction.name,
            number(prediction.value, predicted_digits(prediction, _digits(score))),
            span(prediction.interval, predicted_digits(prediction, _digits(score))),
            _premise(prediction, _digits(score)),
            prediction.answer,
        )
        for task, score in tasks.items()
        for prediction in score.predictions
    ]
    return TextTable(
        "predictions",
        "Registered predictions. Where the premise does not hold, nothing was tested.",
        ("Task", "Prediction", "figure", "95% interval", "premise", "answer"),
        tuple(rows),
        keys=2,
    )


def _fresh(fresh: FreshSeverity | Undefined, digits: int) -> tuple[str, str]:
    """Mean and interval, and how many forks either half places in the class, of how many checkpoints."""
    if isinstance(fresh, Undefined):
        return number(fresh, digits), ""
    counted = f"{fresh.forks_by_even} + {fresh.forks_by_odd} of {fresh.checkpoints}"
    return with_span(fresh.mean, fresh.student_t, digits), counted


def _premise(prediction: PredictionAnswer, digits: int) -> str:
    if prediction.premise is None:
        return "none registered"
    return f"{prediction.premise}: {number(prediction.premise_value, digits).lstrip('+')}"


def _retained(forks: ForkCounts) -> str:
    """How many forks are retained, and how many of the attempted ones have a branch without a finite return."""
    failed = [(forks.failed_update, "UPDATE"), (forks.failed_hold, "HOLD")]
    counted = [f"{count} failed in {branch}" for count, branch in failed if count]
    return ", ".join([f"{forks.retained} of {forks.attempted}", *counted])


def _cells(score: TaskScore) -> str:
    """How many cells there are, and which of them left the retained mean."""
    gone = score.effect.retained.left_out
    return str(score.effect.all_attempted.cells) + (f", without {' '.join(gone)} where retained" if gone else "")


def _estimates(estimates: Sequence[Estimate], digits: int) -> list[str]:
    """A mean with its bootstrap interval and the Student-t interval, of each estimand."""
    cells = []
    for mean, bootstrap, student_t in estimates:
        cells += [with_span(mean, bootstrap, digits), span(student_t, digits)]
    return cells


def _directions(score: TaskScore) -> list[str]:
    return sorted(score.effect.all_attempted.by_direction, reverse=True)  # toward before away, as in the paper


def _digits(score: TaskScore) -> int:
    return digits_for(score.effect.all_attempted)
