"""Tables of what updating was worth: by task, direction, drift level and stream seed (paper, Tables 1 and 2)."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from worldfork.analysis.present.table import Column, Table, Toned
from worldfork.analysis.present.text.answers import answer, predicted_digits
from worldfork.analysis.present.text.formatting import (
    DASH,
    defined,
    digits_for,
    estimate,
    number,
    percent,
    rate,
    span,
    unsigned,
    with_span,
    word,
)
from worldfork.analysis.present.text.triggers import useful_triggers
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.curves import FreshSeverity, Severity
from worldfork.analysis.score.effects import Effect, replicate
from worldfork.analysis.score.records import PredictionAnswer, TaskScore
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined
from worldfork.analysis.score.verdicts import Judgement
from worldfork.counting import plural

Scores = Mapping[tuple[str, str], TaskScore]  # by task and arm
KEYS = ("Task", "Arm")
BOTH = ("all attempted, bootstrap", "Student-t", "retained, bootstrap", "Student-t")


def overview(scores: Scores) -> Table:
    """Return a line for every arm of every task: the screen's table where there are many."""
    columns: list[tuple[str | Column, Callable[[TaskScore, int], str]]] = [
        ("mean dR", lambda score, digits: f"{number(score.effect.all_attempted.mean, digits)}{_diverged(score)}"),
        (
            Column("Student-t 95%", term="Student-t 95%"),
            lambda score, digits: span(score.effect.all_attempted.student_t, digits),
        ),
        (Column("updating", words=True), lambda score, _: _outcome(score)),
    ]
    caption = "Mean dR of all attempted forks, with its Student-t 95% interval over checkpoints."
    if any(map(useful_triggers, scores.values())):
        columns.append(
            (
                Column("useful triggers", term="useful", words=True),
                lambda score, _: ", ".join(useful_triggers(score)),
            )
        )
    else:
        caption += " No trigger was found useful with any of these arms."
    return dataclasses.replace(Table.of("overview", caption, KEYS, _tasks(scores), columns), grouped=True)


def _outcome(score: TaskScore) -> str:
    verdict = answer(score)
    return Toned(verdict.outcome, verdict.tone)


def effects(scores: Scores) -> Table:
    """Return Table 1, with both estimands and both intervals."""
    return Table.of(
        "effects",
        "Mean dR by task, 95% intervals over checkpoints. Helped, hurt and cells below 0 are of retained forks.",
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
    return Table.of(
        "grades",
        "What each mean dR over all attempted forks can be held to. A verdict is resolved where the Student-t "
        "interval excludes 0 and both p values stay below .05 after Holm's adjustment over the registered means; "
        "leaning where only the interval does. Leave one out: where the end of the interval nearer to 0 lies "
        "without one checkpoint.",
        KEYS,
        _tasks(scores),
        [
            ("verdict", lambda score, _: word(score.verdict)),
            ("grade", lambda score, _: word(score.judgement.grade)),
            ("p, Student-t", lambda score, _: rate(score.judgement.p_student_t)),
            ("p, sign flips", lambda score, _: rate(score.judgement.p_sign_flip)),
            ("least p", lambda score, _: rate(score.judgement.least_p)),
            ("adjusted, t / flips", lambda score, _: _adjusted(score.judgement)),
            ("leave one out", lambda score, digits: _leave_one_out(score.judgement, digits)),
            ("anytime 95%", lambda score, digits: span(score.judgement.anytime, digits)),
            ("checkpoints to resolve", lambda score, _: word(score.judgement.more_checkpoints)),
        ],
    )


def _bootstrap(effect: Effect, digits: int) -> str:
    return with_span(effect.mean, effect.bootstrap, digits)


def _adjusted(judged: Judgement) -> str:
    return f"{rate(judged.adjusted_student_t)} / {rate(judged.adjusted_sign_flip)}"


def _leave_one_out(judged: Judgement, digits: int) -> str:
    without = defined(judged.leave_one_out)
    return f"{number(without.low, digits)} to {number(without.high, digits)}" if without else DASH


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
            (
                "crossing",
                lambda fit, digits: with_span(fit.crossing, fit.crossing_interval, digits).replace("+", ""),
            ),
            ("variance ratio", lambda fit, _: with_span(fit.variance_ratio, fit.variance_ratio_interval, 2)),
            ("slope at one (direction, k)", lambda fit, _: with_span(fit.within.value, fit.within.student_t, 2)),
            ("split-half slope", lambda fit, _: number(fit.split_half.slope, 2)),
            ("split-half variance ratio", lambda fit, _: number(fit.split_half.variance_ratio, 2)),
        ],
    )


def predictions(scores: Scores) -> Table:
    """Return what was predicted beforehand, and what came."""
    return Table.of(
        "predictions",
        "Registered predictions. Where the premise does not hold, nothing was tested.",
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
            ("answer", lambda prediction, _: _answered(prediction)),
        ],
    )


def _answered(prediction: PredictionAnswer) -> str:
    """Return the answer, or why a prediction that compares arms has none where one of them was left out."""
    value = prediction.value
    return (
        value.why
        if isinstance(value, Undefined) and value.why.endswith("is not scored here")
        else prediction.answer
    )


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
