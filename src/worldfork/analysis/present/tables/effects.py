"""Tables of what updating was worth: by task, direction, drift level and stream seed (paper, Tables 1 and 2)."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from worldfork.analysis.present.strips import Strip
from worldfork.analysis.present.table import Cell, Column, Table
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
from worldfork.analysis.present.text.triggers import useful_triggers
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.contraction import Bin
from worldfork.analysis.score.curves import FreshSeverity, Severity
from worldfork.analysis.score.effects import Effect, replicate
from worldfork.analysis.score.records import PredictionAnswer, TaskScore
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.undefined import Bounds, Estimand, Figure, Interval, Undefined
from worldfork.analysis.score.verdicts import Judgement
from worldfork.counting import plural

Scores = Mapping[tuple[str, str], TaskScore]  # by task and arm
KEYS = ("Task", "Arm")
BOTH = ("all attempted, bootstrap", "Student-t", "retained, bootstrap", "Student-t")


def overview(scores: Scores) -> Table:
    """Return a line for every arm of every task: the screen's table where there are many."""
    columns: list[tuple[str | Column, Callable[[TaskScore, int], str]]] = [
        ("mean dR", lambda score, digits: _mean_and_diverged(score, digits)),
        (
            Column("Student-t 95%", term="Student-t 95%"),
            lambda score, digits: span(graded_mean(score).interval, digits),
        ),
        (Column("updating", words=True), lambda score, _: _outcome(score)),
    ]
    caption = "Mean dR of all attempted forks, with its Student-t 95% interval over checkpoints."
    if any(map(stops, scores.values())):
        columns[1] = ("95%", columns[1][1])
        caption = (
            "Mean dR of all attempted forks with its 95% interval: of a mean that has a grade that of the stopping "
            "rule, of another Student's t of a fixed number of checkpoints."
        )
    if any(map(useful_triggers, scores.values())):
        head = Column("useful triggers", term="useful", words=True)
        columns.append((head, lambda score, _: ", ".join(useful_triggers(score))))
    else:
        caption += " No trigger was found useful with any of these arms."
    table = Table.of("overview", caption, KEYS, _tasks(scores), columns, strip=mean_strip)
    lone = len({arm for _, arm in scores}) == 1
    return table.without("Arm") if lone else dataclasses.replace(table, grouped=True)


def _mean_and_diverged(score: TaskScore, digits: int) -> str:
    mean = number(graded_mean(score).mean, digits)
    return mean if not (share := _diverged(score)) else f"{mean}{share}"


def _outcome(score: TaskScore) -> str:
    verdict = answer(score)
    return Cell(verdict.outcome, verdict.tone)


def mean_strip(score: TaskScore) -> Strip:
    """Return the chart of a mean over all attempted forks as it was graded, with the mean of every checkpoint."""
    graded, by_checkpoint = graded_mean(score), score.effect.all_attempted.by_checkpoint
    return Strip(mean=graded.mean, student_t=graded.interval, checkpoints=tuple(by_checkpoint.values()))


def means(scores: Scores, estimand: Estimand) -> Table:
    """Return every mean and those of its directions, on one line."""
    rows = []
    for key, score in scores.items():
        effect = score.effect[estimand]
        ways = _directions(score) if len(effect.by_direction) > 1 else []
        rows.append(
            ((*key, "all" if ways else ""), (effect.mean, effect.student_t, effect.bootstrap), _digits(score))
        )
        for way in ways:
            ends = effect.by_direction_intervals[way]
            rows.append(((*key, way), (effect.by_direction[way], ends.student_t, ends.bootstrap), _digits(score)))
    counts = ", ".join(dict.fromkeys(f"{score.effect[estimand].forks:,}" for score in scores.values()))
    table = Table.of(
        "means",
        f"Mean dR, {estimand.replace('_', ' ')} forks (n = {counts}), return per episode. Line: Student-t 95%; "
        f"thick: bootstrap 95%.{_fixed_number(scores)}",
        (*KEYS, "Direction"),
        rows,
        [
            ("mean dR", lambda mean, digits: number(mean[0], digits)),
            (Column("Student-t 95%", term="Student-t 95%"), lambda mean, digits: span(mean[1], digits)),
            (Column("bootstrap 95%", term="bootstrap 95%"), lambda mean, digits: span(mean[2], digits)),
        ],
        strip=lambda mean: Strip(mean=mean[0], student_t=mean[1], bootstrap=mean[2]),
    )
    return table if any(key[2] for key, _, _ in rows) else table.without("Direction")


def over_tasks(score: Score) -> Table:
    """Return dR of each arm in per cent of the frozen return, over all of its tasks."""
    arms = {score.label(name) or "all tasks": arm.normalised for name, arm in score.arms.items()}
    return Table.of(
        "over_tasks",
        "Over all tasks, all attempted forks: the plain mean of dR in per cent of each task's frozen return, with "
        "its 95% interval over checkpoints (Welch). It weighs tasks equally and speaks of these tasks alone: a "
        "mean over tasks that disagree describes none of them.",
        ("Arm",),
        [((name,), over, 0) for name, over in arms.items() if not isinstance(over, Undefined)],
        [
            ("over all tasks", lambda over, _: text_of(over.share, percent)),
            (
                "95%",
                lambda over, _: text_of(over.interval, lambda ends: f"[{percent(ends.low)}, {percent(ends.high)}]"),
            ),
            (
                "each",
                lambda over, _: ", ".join(f"{task} {percent(share)}" for task, share in over.tasks.items()),
            ),
        ],
    )


def effects(scores: Scores) -> Table:
    """Return Table 1, with both estimands and both intervals."""
    return Table.of(
        "effects",
        "Mean dR by task, 95% intervals over checkpoints. Helped, hurt and cells below 0 are of retained forks."
        f"{_fixed_number(scores)}",
        KEYS,
        _tasks(scores),
        [
            ("Cells", lambda score, _: _cells(score)),
            ("Forks retained", lambda score, _: _retained(score)),
            ("all attempted, bootstrap", lambda score, digits: _bootstrap(score.effect.all_attempted, digits)),
            ("Student-t", lambda score, digits: span(score.effect.all_attempted.student_t, digits)),
            ("retained, bootstrap", lambda score, digits: _bootstrap(score.effect.retained, digits)),
            ("Student-t", lambda score, digits: span(score.effect.retained.student_t, digits)),
            ("Helped / hurt", lambda score, _: f"{score.forks.helped} / {score.forks.hurt}"),
            ("Cells below 0", lambda score, _: str(score.effect.retained.cells_below_zero)),
        ],
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
    at_any_look: tuple[str, Callable[[TaskScore, int], str]] = (
        "normal mixture 95%",
        lambda score, digits: span(score.judgement.anytime, digits),
    )
    if stopped:
        caption = (
            f"The grade rests on the interval by the stopping rule, which holds at all looks together. "
            f"{FIXED_NUMBER.replace('Student-t:', 'All p and leave one out:')} {leave_one_out}"
        )
        at_any_look = (RULE_INTERVAL, _by_rule)
    return Table.of(
        "grades",
        f"What each mean dR over all attempted forks can be held to. {caption}",
        KEYS,
        _tasks(scores),
        [
            ("verdict", lambda score, _: word(score.verdict)),
            ("grade", lambda score, _: graded(score.judgement.grade)),
            ("p, Student-t", lambda score, _: rate(score.judgement.p_student_t)),
            ("p, sign flips", lambda score, _: rate(score.judgement.p_sign_flip)),
            ("least p", lambda score, _: rate(score.judgement.least_p)),
            ("adjusted, t / flips", lambda score, _: _adjusted(score.judgement)),
            ("leave one out", lambda score, digits: _leave_one_out(score.judgement, digits)),
            at_any_look,
            ("checkpoints to resolve", lambda score, _: word(score.judgement.more_checkpoints)),
        ],
    )


def _by_rule(score: TaskScore, digits: int) -> str:
    graded = graded_mean(score)
    return span(graded.interval if graded.by_rule else None, digits)


def _fixed_number(scores: Scores) -> str:
    """Return that intervals are not adjusted for looking, of a study that stops."""
    return f" {FIXED_NUMBER}" if any(map(stops, scores.values())) else ""


def _lower(sentence: str) -> str:
    return f"{sentence[0].lower()}{sentence[1:]}"


def _bootstrap(effect: Effect, digits: int) -> str:
    return with_span(effect.mean, effect.bootstrap, digits)


def _adjusted(judged: Judgement) -> str:
    return f"{rate(judged.adjusted_student_t)} / {rate(judged.adjusted_sign_flip)}"


def _leave_one_out(judged: Judgement, digits: int) -> str:
    return text_of(
        judged.leave_one_out, lambda without: f"{number(without.low, digits)} to {number(without.high, digits)}"
    )


def directions(scores: Scores) -> Table:
    """Return every direction by itself, and their difference at the drift levels that both visit."""
    rows: list[tuple[str, ...]] = []
    for key, score in scores.items():
        digits = _digits(score)
        for way in _directions(score):
            both = [
                (effect.by_direction[way], intervals.bootstrap, intervals.student_t)
                for _, effect in score.effect.items()
                if (intervals := effect.by_direction_intervals[way])
            ]
            rows.append((*key, way, *_spans(both, digits)))
        contrasts = [contrast for _, contrast in score.direction_contrast.items()]
        if there := [contrast for contrast in contrasts if not isinstance(contrast, Undefined)]:
            both = [
                (turn, turn, turn) if isinstance(turn, Undefined) else (turn.mean, turn.bootstrap, turn.student_t)
                for turn in contrasts
            ]
            rows.append((*key, f"toward - away at {there[0].levels} levels", *_spans(both, digits)))
    return Table(
        "directions",
        "Mean dR by drift direction, and toward less away at the levels both directions visit.",
        (*KEYS, "Direction", *BOTH),
        rows,
        keys=3,
    )


def quartiles(scores: Scores) -> Table:
    """Return where in the drift an update helps."""
    rows = [
        (*key, way, *(number(mean, _digits(score)) for mean in means))
        for key, score in scores.items()
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
    return Table.of(
        "severity",
        "Mean dR of all attempted forks by r_hold over the checkpoint's clean return: over forks, and over the "
        "checkpoints that have such forks, with its Student-t interval. Fresh: the latter with the severity from "
        "half of a fork's episodes and dR from the others, both ways round; by halves: the forks that the even and "
        "that the odd episodes place there, and their checkpoints.",
        (*KEYS, "r_hold / clean"),
        [
            ((*key, _severity_class(part)), part, _digits(score))
            for key, score in scores.items()
            for part in defined(score.severity) or ()
        ],
        [
            ("forks", lambda part, _: str(part.forks)),
            ("checkpoints", lambda part, _: str(part.checkpoints)),
            ("helped", lambda part, _: str(part.helped)),
            ("mean", lambda part, digits: number(part.mean, digits)),
            ("mean of checkpoints", lambda part, digits: with_span(part.checkpoint_mean, part.student_t, digits)),
            ("fresh", lambda part, digits: estimate(part.fresh, digits)),
            ("by halves", lambda part, _: _by_halves(part.fresh)),
        ],
    )


def _severity_class(part: Severity) -> str:
    if part.low is None:
        return f"below {part.high:g}"
    return f"from {part.low:g}" if part.high is None else f"{part.low:g} to {part.high:g}"


def _by_halves(fresh: FreshSeverity | Undefined) -> str:
    """Return how many forks either half of the episodes places in the class, of how many checkpoints."""
    if isinstance(fresh, Undefined):
        return ""
    return f"{fresh.forks_by_even} + {fresh.forks_by_odd} of {fresh.checkpoints}"


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
    fits = [
        (key, score.contraction, _digits(score))
        for key, score in scores.items()
        if not isinstance(score.contraction.slope, Undefined)
    ]
    return Table.of(
        "contraction",
        "r_update on r_hold, retained forks, Student-t intervals over checkpoints left out one at a time; the "
        "slope at one (direction, k), between checkpoints; HOLD's second half of episodes on its first.",
        KEYS,
        fits,
        [
            ("slope", lambda fit, _: with_span(fit.slope, fit.slope_interval, 2)),
            ("crossing", lambda fit, digits: without_plus(with_span(fit.crossing, fit.crossing_interval, digits))),
            ("variance ratio", lambda fit, _: with_span(fit.variance_ratio, fit.variance_ratio_interval, 2)),
            ("slope at one (direction, k)", lambda fit, _: with_span(fit.within.value, fit.within.student_t, 2)),
            ("split-half slope", lambda fit, _: number(fit.split_half.slope, 2)),
            ("split-half variance ratio", lambda fit, _: number(fit.split_half.variance_ratio, 2)),
        ],
    )


def bins(scores: Scores) -> Table:
    """Return mean dR by what HOLD returned; without rows where forks have no bins."""
    return Table.of(
        "bins",
        "Mean dR by what HOLD returned, retained forks. Lines: standard errors.",
        (*KEYS, "HOLD"),
        [
            ((*key, _range(part, _digits(score))), part, _digits(score))
            for key, score in scores.items()
            for part in defined(score.contraction.bins) or ()
        ],
        [
            ("mean dR", lambda part, digits: number(part.mean, digits) if part.forks else "no fork"),
            ("forks", lambda part, _: str(part.forks)),
        ],
        strip=_bin_strip,
    )


def _range(part: Bin, digits: int) -> str:
    low, high = unsigned(part.low, digits), unsigned(part.high, digits)
    return f"below {high}" if part.low is None else f"{low} up" if part.high is None else f"{low} to {high}"


def _bin_strip(part: Bin) -> Strip:
    mean, error = defined(part.mean), defined(part.standard_error) or 0.0
    return Strip(mean=part.mean, student_t=None if mean is None else Interval(mean - error, mean + error))


def predictions(scores: Scores) -> Table:
    """Return what was predicted beforehand, and what came."""
    stopped = any(map(stops, scores.values()))
    return Table.of(
        "predictions",
        "Registered predictions. Where the premise does not hold, nothing was tested."
        f"{f' {PREDICTIONS_AS_FIXED}' if stopped else ''}",
        (*KEYS, "Prediction"),
        [
            ((*key, prediction.name), prediction, _digits(score))
            for key, score in scores.items()
            for prediction in score.predictions
        ],
        [
            ("figure", lambda prediction, digits: number(prediction.value, predicted_digits(prediction, digits))),
            (
                Column("95% interval", optional=True),
                lambda prediction, digits: span(prediction.interval, predicted_digits(prediction, digits)),
            ),
            (Column("premise", optional=True), lambda prediction, digits: _premise(prediction, digits)),
            ("answer", lambda prediction, _: _answered(prediction, stopped=stopped)),
            (
                Column("registered", words=True, optional=True),
                lambda prediction, digits: _registered(prediction, digits),
            ),
            (
                Column("equivalence", words=True, optional=True),
                lambda prediction, digits: _equivalence(prediction, digits),
            ),
        ],
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


def _equivalence(prediction: PredictionAnswer, digits: int) -> str:
    tested = prediction.equivalence
    return "" if tested is None else f"{tested.answer}, p {rate(tested.p)}, 90% {span(tested.interval, digits)}"


def _answered(prediction: PredictionAnswer, *, stopped: bool) -> str:
    """Return the answer, or why a prediction that compares arms has none where one of them was left out."""
    value = prediction.value
    if isinstance(value, Undefined) and value.why.endswith("is not scored here"):
        return value.why
    return f"{prediction.answer} (fixed n)" if stopped and prediction.answer != "not tested" else prediction.answer


def _premise(prediction: PredictionAnswer, digits: int) -> str:
    if prediction.premise is None:
        return "none registered"
    return f"{prediction.premise}: {unsigned(prediction.premise_value, digits)}"


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


def _cells(score: TaskScore) -> str:
    """Return how many cells there are, and which of them left the retained mean."""
    gone = score.effect.retained.left_out
    return str(score.effect.all_attempted.cells) + (f", without {' '.join(gone)} where retained" if gone else "")


Triple = tuple[Figure, Bounds, Bounds]  # a mean, its bootstrap and its Student-t interval


def _spans(triples: Sequence[Triple], digits: int) -> list[str]:
    """Return a mean with its bootstrap interval, and the Student-t interval, of each estimand."""
    return [
        cell
        for mean, bootstrap, student_t in triples
        for cell in (with_span(mean, bootstrap, digits), span(student_t, digits))
    ]


def _directions(score: TaskScore) -> list[str]:
    return sorted(score.effect.all_attempted.by_direction, reverse=True)  # toward before away, as in the paper


def _tasks(scores: Scores) -> Iterator[tuple[tuple[str, str], TaskScore, int]]:
    """Yield every task with the decimals of its means."""
    for key, score in scores.items():
        yield key, score, _digits(score)


def _digits(score: TaskScore) -> int:
    return digits_for(score.effect.all_attempted)
