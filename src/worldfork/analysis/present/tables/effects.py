"""Tables of what updating was worth: by task, direction, drift level and stream seed (paper, Tables 1 and 2)."""

import dataclasses
from collections.abc import Iterator, Mapping

from worldfork.analysis.present.strips import Strip
from worldfork.analysis.present.table import Cell, Cells, Column, Row, Table
from worldfork.analysis.present.text.answers import answer, predicted_digits
from worldfork.analysis.present.text.formatting import (
    defined,
    digits_for,
    estimate,
    graded,
    number,
    percent,
    rate,
    span,
    text_of,
    unsigned,
    with_span,
    without_plus,
    word,
)
from worldfork.analysis.present.text.stopping import (
    FIXED_NUMBER,
    PREDICTIONS_AS_FIXED,
    RULE_INTERVAL,
    graded_mean,
    stops,
)
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.present.text.triggers import candidates
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.effects import replicate
from worldfork.analysis.score.intervals import LeaveOneOut
from worldfork.analysis.score.records import PredictionAnswer, TaskScore
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.undefined import Estimand, Interval, Undefined
from worldfork.counting import plural

Scores = Mapping[tuple[str, str], TaskScore]  # by task and arm
KEYS = ("Task", "Arm")


def overview(scores: Scores) -> Table:
    """Return a line for every arm of every task: the screen's table where there are many."""
    interval: str | Column = Column("Student-t 95%", term="Student-t 95%")
    caption = "Mean dR of all attempted forks, with its Student-t 95% interval over checkpoints."
    if any(map(stops, scores.values())):
        interval = "95%"
        caption = (
            "Mean dR of all attempted forks with its 95% interval: of a mean that has a grade that of the stopping "
            "rule, of another Student's t of a fixed number of checkpoints."
        )
    useful = {key: ", ".join(candidates(score).useful) for key, score in scores.items()}
    if not any(useful.values()):
        caption += " No trigger was found useful with any of these arms."
    rows = []
    for key, score, digits in _tasks(scores):
        graded, verdict, diverged = graded_mean(score), answer(score), _diverged(score)
        mean = number(graded.mean, digits)
        cells: list[tuple[str | Column, str]] = [
            ("mean dR", f"{mean}{diverged}" if diverged else mean),
            (interval, span(graded.interval, digits)),
            (Column("updating", words=True), Cell(verdict.outcome, verdict.tone)),
        ]
        if any(useful.values()):
            cells.append((Column("useful triggers", term="useful", words=True), useful[key]))
        rows.append(Row(key, cells, mean_strip(score)))
    table = Table.of("overview", caption, KEYS, rows)
    lone = len({arm for _, arm in scores}) == 1
    return table.without("Arm") if lone else dataclasses.replace(table, grouped=True)


def mean_strip(score: TaskScore) -> Strip:
    """Return the chart of a mean over all attempted forks as it was graded, with the mean of every checkpoint."""
    graded, by_checkpoint = graded_mean(score), score.effect.all_attempted.by_checkpoint
    return Strip(mean=graded.mean, student_t=graded.interval, checkpoints=tuple(by_checkpoint.values()))


def means(scores: Scores, estimand: Estimand) -> Table:
    """Return every mean and those of its directions, on one line."""
    rows = []
    for key, score, digits in _tasks(scores):
        effect = score.effect[estimand]
        ways = _directions(score) if len(effect.by_direction) > 1 else []
        found = {"all" if ways else "": (effect.mean, effect.student_t, effect.bootstrap)}
        for way in ways:
            ends = effect.by_direction_intervals[way]
            found[way] = effect.by_direction[way], ends.student_t, ends.bootstrap
        for way, (mean, student_t, bootstrap) in found.items():
            cells: Cells = [
                ("mean dR", number(mean, digits)),
                (Column("Student-t 95%", term="Student-t 95%"), span(student_t, digits)),
                (Column("bootstrap 95%", term="bootstrap 95%"), span(bootstrap, digits)),
            ]
            rows.append(Row((*key, way), cells, Strip(mean=mean, student_t=student_t, bootstrap=bootstrap)))
    counts = ", ".join(dict.fromkeys(f"{score.effect[estimand].forks:,}" for score in scores.values()))
    table = Table.of(
        "means",
        f"Mean dR, {estimand.replace('_', ' ')} forks (n = {counts}), return per episode. Line: Student-t 95%; "
        f"thick: bootstrap 95%.{_fixed_number(scores)}",
        (*KEYS, "Direction"),
        rows,
    )
    return table if any(row.key[2] for row in rows) else table.without("Direction")


def over_tasks(score: Score) -> Table:
    """Return dR of each arm in per cent of the frozen return, over all of its tasks."""
    arms = {score.label(name) or "all tasks": arm.normalised for name, arm in score.arms.items()}
    return Table.of(
        "over_tasks",
        "Over all tasks, all attempted forks: the plain mean of dR in per cent of each task's frozen return, with "
        "its 95% interval over checkpoints (Welch). It weighs tasks equally and speaks of these tasks alone: a "
        "mean over tasks that disagree describes none of them.",
        ["Arm"],
        [
            Row(
                [name],
                [
                    ("over all tasks", text_of(over.share, percent)),
                    ("95%", text_of(over.interval, lambda ends: f"[{percent(ends.low)}, {percent(ends.high)}]")),
                    ("each", ", ".join(f"{task} {percent(share)}" for task, share in over.tasks.items())),
                ],
            )
            for name, over in arms.items()
            if not isinstance(over, Undefined)
        ],
    )


def effects(scores: Scores) -> Table:
    """Return Table 1, with both estimands and both intervals."""
    rows = []
    for key, score, digits in _tasks(scores):
        forks, (attempted, retained) = score.forks, (score.effect.all_attempted, score.effect.retained)
        gone = f", without {' '.join(retained.left_out)} where retained" if retained.left_out else ""
        cells: Cells = [
            ("Cells", f"{attempted.cells}{gone}"),
            ("Forks retained", _retained(score)),
            ("all attempted, bootstrap", with_span(attempted.mean, attempted.bootstrap, digits)),
            ("Student-t", span(attempted.student_t, digits)),
            ("retained, bootstrap", with_span(retained.mean, retained.bootstrap, digits)),
            ("Student-t", span(retained.student_t, digits)),
            ("Helped / hurt", f"{forks.helped} / {forks.hurt}"),
            ("Cells below 0", str(retained.cells_below_zero)),
        ]
        rows.append(Row(key, cells))
    return Table.of(
        "effects",
        "Mean dR by task, 95% intervals over checkpoints. Helped, hurt and cells below 0 are of retained forks."
        f"{_fixed_number(scores)}",
        KEYS,
        rows,
    )


def grades(scores: Scores) -> Table:
    """Return every mean with its tests over few checkpoints."""
    stopped = any(map(stops, scores.values()))
    leave_one_out = "Leave one out: where the end of the interval nearer to 0 lies without one checkpoint."
    caption = (
        f"Resolved: {_lower(TERMS['resolved'])} Leaning: {_lower(TERMS['leaning'])} {leave_one_out} "
        "Normal mixture: an interval that holds at every number of checkpoints at once, by normal theory; only a "
        "study that goes on until it knows needs it."
    )
    if stopped:
        caption = (
            f"The grade rests on the interval by the stopping rule, which holds at all looks together. "
            f"{FIXED_NUMBER.replace('Student-t:', 'All p and leave one out:')} {leave_one_out}"
        )
    rows = []
    for key, score, digits in _tasks(scores):
        judged, mean = score.judgement, graded_mean(score)
        by_rule = mean.interval if mean.by_rule else None
        cells: Cells = [
            ("verdict", word(score.verdict)),
            ("grade", graded(judged.grade)),
            ("p, Student-t", rate(judged.p_student_t)),
            ("p, sign flips", rate(judged.p_sign_flip)),
            ("least p", rate(judged.least_p)),
            ("adjusted, t / flips", f"{rate(judged.adjusted_student_t)} / {rate(judged.adjusted_sign_flip)}"),
            ("leave one out", _without_one(judged.leave_one_out, digits)),
            (RULE_INTERVAL, span(by_rule, digits))
            if stopped
            else ("normal mixture 95%", span(judged.anytime, digits)),
            ("checkpoints to resolve", word(judged.more_checkpoints)),
        ]
        rows.append(Row(key, cells))
    return Table.of("grades", f"What each mean dR over all attempted forks can be held to. {caption}", KEYS, rows)


def _without_one(judged: LeaveOneOut | Undefined, digits: int) -> str:
    return text_of(judged, lambda ends: f"{number(ends.low, digits)} to {number(ends.high, digits)}")


def _fixed_number(scores: Scores) -> str:
    """Return that intervals are not adjusted for looking, of a study that stops."""
    return f" {FIXED_NUMBER}" if any(map(stops, scores.values())) else ""


def _lower(sentence: str) -> str:
    return f"{sentence[0].lower()}{sentence[1:]}"


def directions(scores: Scores) -> Table:
    """Return every direction by itself, and their difference at the drift levels that both visit."""
    rows: list[tuple[str, ...]] = []
    for key, score, digits in _tasks(scores):
        for way in _directions(score):
            cells = []
            for effect in (score.effect.all_attempted, score.effect.retained):
                ends = effect.by_direction_intervals[way]
                cells += [with_span(effect.by_direction[way], ends.bootstrap, digits), span(ends.student_t, digits)]
            rows.append((*key, way, *cells))
        turns = (score.direction_contrast.all_attempted, score.direction_contrast.retained)
        if levels := [turn.levels for turn in turns if not isinstance(turn, Undefined)]:
            cells = []
            for turn in turns:
                if isinstance(turn, Undefined):
                    cells += [number(turn), span(turn)]
                else:
                    cells += [with_span(turn.mean, turn.bootstrap, digits), span(turn.student_t, digits)]
            rows.append((*key, f"toward - away at {levels[0]} levels", *cells))
    return Table(
        "directions",
        "Mean dR by drift direction, and toward less away at the levels both directions visit.",
        (*KEYS, "Direction", "all attempted, bootstrap", "Student-t", "retained, bootstrap", "Student-t"),
        rows,
        keys=3,
    )


def quartiles(scores: Scores) -> Table:
    """Return where in the drift an update helps."""
    rows = [
        (*key, way, *(number(mean, digits) for mean in means))
        for key, score, digits in _tasks(scores)
        for way in _directions(score)
        if (means := defined(score.drift_quartiles[way]))
    ]
    return Table(
        "quartiles",
        "Mean dR of retained forks by drift level, in four runs as equal in size as possible.",
        (*KEYS, "Direction", "least drift", "second", "third", "most drift"),
        rows,
        keys=3,
    )


def severities(scores: Scores) -> Table:
    """Return mean dR by what drift had done to the frozen model, so that a verdict is not the schedule's."""
    rows = []
    for key, score, digits in _tasks(scores):
        for part in defined(score.severity) or ():
            low, up, fresh, halves = part.low, part.high, part.fresh, ""
            where = f"below {up:g}" if low is None else f"from {low:g}" if up is None else f"{low:g} to {up:g}"
            if not isinstance(fresh, Undefined):
                halves = f"{fresh.forks_by_even} + {fresh.forks_by_odd} of {fresh.checkpoints}"
            cells: Cells = [
                ("forks", str(part.forks)),
                ("checkpoints", str(part.checkpoints)),
                ("helped", str(part.helped)),
                ("mean", number(part.mean, digits)),
                ("mean of checkpoints", with_span(part.checkpoint_mean, part.student_t, digits)),
                ("fresh", estimate(fresh, digits)),
                ("by halves", halves),
            ]
            rows.append(Row((*key, where), cells))
    return Table.of(
        "severity",
        "Mean dR of all attempted forks by r_hold over the checkpoint's clean return: over forks, and over the "
        "checkpoints that have such forks, with its Student-t interval. Fresh: the latter with the severity from "
        "half of a fork's episodes and dR from the others, both ways round; by halves: the forks that the even and "
        "that the odd episodes place there, and their checkpoints.",
        (*KEYS, "r_hold / clean"),
        rows,
    )


def seed_replication(scores: Scores, replication: Mapping[str, Forks], rules: Rules) -> Table:
    """Return Table 2; without rows where there is one stream seed."""
    rows = []
    for key, score in scores.items():
        repeated = replicate(score.evidence.forks, replication.get(key[0]), rules=rules)
        if repeated is not None:
            cells = [
                f"{with_span(effect.mean, effect.bootstrap, digits_for(effect))} ({plural(effect.cells, 'cell')})"
                for effect in (repeated.first, repeated.all_seeds)
            ]
            rows.append((*key, *cells))
    return Table(
        "seedrep",
        "Stream-seed replication: mean dR of retained forks with the bootstrap over checkpoints.",
        (*KEYS, "first stream seed", "all stream seeds"),
        rows,
        keys=2,
    )


def contraction(scores: Scores) -> Table:
    """Return r_update against r_hold, and the same between two halves of HOLD's episodes."""
    rows = []
    for key, score, digits in _tasks(scores):
        fit = score.contraction
        if isinstance(fit.slope, Undefined):
            continue
        cells: Cells = [
            ("slope", with_span(fit.slope, fit.slope_interval, 2)),
            ("crossing", without_plus(with_span(fit.crossing, fit.crossing_interval, digits))),
            ("variance ratio", with_span(fit.variance_ratio, fit.variance_ratio_interval, 2)),
            ("slope at one (direction, k)", with_span(fit.within.value, fit.within.student_t, 2)),
            ("split-half slope", number(fit.split_half.slope, 2)),
            ("split-half variance ratio", number(fit.split_half.variance_ratio, 2)),
        ]
        rows.append(Row(key, cells))
    return Table.of(
        "contraction",
        "r_update on r_hold, retained forks, Student-t intervals over checkpoints left out one at a time; the "
        "slope at one (direction, k), between checkpoints; HOLD's second half of episodes on its first.",
        KEYS,
        rows,
    )


def bins(scores: Scores) -> Table:
    """Return mean dR by what HOLD returned; without rows where forks have no bins."""
    rows = []
    for key, score, digits in _tasks(scores):
        for part in defined(score.contraction.bins) or ():
            low, high = unsigned(part.low, digits), unsigned(part.high, digits)
            where = (
                f"below {high}" if part.low is None else f"{low} up" if part.high is None else f"{low} to {high}"
            )
            mean, error = defined(part.mean), defined(part.standard_error) or 0.0
            ends = None if mean is None else Interval(mean - error, mean + error)
            cells: Cells = [
                ("mean dR", number(part.mean, digits) if part.forks else "no fork"),
                ("forks", str(part.forks)),
            ]
            rows.append(Row((*key, where), cells, Strip(mean=part.mean, student_t=ends)))
    caption = "Mean dR by what HOLD returned, retained forks. Lines: standard errors."
    return Table.of("bins", caption, (*KEYS, "HOLD"), rows)


def predictions(scores: Scores) -> Table:
    """Return what was predicted beforehand, and what came."""
    stopped = any(map(stops, scores.values()))
    rows = []
    for key, score, of_task in _tasks(scores):
        for prediction in score.predictions:
            digits, tested = predicted_digits(prediction, of_task), prediction.equivalence
            premise = f"{prediction.premise}: {unsigned(prediction.premise_value, of_task)}"
            equivalence = ""
            if tested is not None:
                equivalence = f"{tested.answer}, p {rate(tested.p)}, 90% {span(tested.interval, of_task)}"
            cells: Cells = [
                ("figure", number(prediction.value, digits)),
                (Column("95% interval", optional=True), span(prediction.interval, digits)),
                (Column("premise", optional=True), "none registered" if prediction.premise is None else premise),
                ("answer", _answered(prediction, stopped=stopped)),
                (Column("registered", words=True, optional=True), _registered(prediction, of_task)),
                (Column("equivalence", words=True, optional=True), equivalence),
            ]
            rows.append(Row((*key, prediction.name), cells))
    return Table.of(
        "predictions",
        "Registered predictions. Where the premise does not hold, nothing was tested."
        f"{f' {PREDICTIONS_AS_FIXED}' if stopped else ''}",
        (*KEYS, "Prediction"),
        rows,
    )


def _registered(prediction: PredictionAnswer, digits: int) -> str:
    """Return the figure that was predicted, and where it was to lie."""
    low, high = prediction.falsified_below, prediction.falsified_above
    bounds = [
        f"within ±{unsigned(prediction.equivalence.margin, digits)}" if prediction.equivalence else "",
        "{} to {}".format(*map(_bound, prediction.between)) if prediction.between else "",
        "" if low is None else f"not below {_bound(low)}",
        "" if high is None else f"not above {_bound(high)}",
    ]
    against = f" less {prediction.against}" if prediction.against else ""
    return f"{prediction.figure}{against}: {', '.join(filter(None, bounds))}"


def _bound(value: float) -> str:
    """Return a bound with the digits that it was registered with; 0 has no sign."""
    return f"{value:+,.10g}" if value else "0"


def _answered(prediction: PredictionAnswer, *, stopped: bool) -> str:
    """Return the answer, or why a prediction that compares arms has none where one of them was left out."""
    value = prediction.value
    if isinstance(value, Undefined) and value.why.endswith("is not scored here"):
        return value.why
    return f"{prediction.answer} (fixed n)" if stopped and prediction.answer != "not tested" else prediction.answer


def _retained(score: TaskScore) -> str:
    """Return how many forks are retained, and how many attempted ones have a branch without a finite return."""
    forks = score.forks
    failed = [(forks.failed_update, "UPDATE"), (forks.failed_hold, "HOLD")]
    counted = [f"{count} failed in {branch}" for count, branch in failed if count]
    return ", ".join([f"{forks.retained} of {forks.attempted}{_diverged(score)}", *counted])


def _diverged(score: TaskScore) -> str:
    """Return the share of forks that diverged, in brackets."""
    share = defined(score.forks.diverged_share)
    return f" ({percent(share, signed=False)} diverged)" if share else ""


def _directions(score: TaskScore) -> list[str]:
    return sorted(score.effect.all_attempted.by_direction, reverse=True)  # toward before away, as in the paper


def _tasks(scores: Scores) -> Iterator[tuple[tuple[str, str], TaskScore, int]]:
    """Yield every task with the decimals of its means."""
    for key, score in scores.items():
        yield key, score, digits_for(score.effect.all_attempted)
