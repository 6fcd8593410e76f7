"""Tables of what would pay: dR along drift, trying before keeping, prices; and how far a mean is to be trusted."""

from collections.abc import Iterator

from worldfork.analysis.present.strips import Strip
from worldfork.analysis.present.table import Cells, Column, Row, Table
from worldfork.analysis.present.tables.effects import KEYS, Scores
from worldfork.analysis.present.text.formatting import (
    DASH,
    defined,
    digits_for,
    estimate,
    listed,
    number,
    percent,
    rate,
    span,
    unsigned,
    with_span,
)
from worldfork.analysis.present.text.value import DOES_NOT_PAY, fitted_at, level_words, place_words, price_from_0
from worldfork.analysis.score.curves import CurvePoint
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.undefined import Undefined, divide, divide_bounds
from worldfork.analysis.score.value import BreakEven, PriceRange, Trial
from worldfork.counting import plural


def robust(scores: Scores) -> Table:
    """Return what skewness takes from each interval, and figures that one checkpoint can not carry alone."""
    rows = []
    for key, score in scores.items():
        effect, found, skewness = score.effect.all_attempted, score.robust, DASH
        digits, skew = digits_for(effect), defined(effect.skew)
        if skew is not None and (shortfall := defined(skew.shortfall)) is not None:
            skewness = f"{number(skew.skewness, 1)}, {percent(max(0.0, 0.95 - shortfall), signed=False)}"
        corrected = effect.skew if isinstance(effect.skew, Undefined) else effect.skew.johnson
        improves, ends = rate(found.probability_of_improvement), defined(found.probability_student_t)
        if ends is not None:
            improves = f"{improves} [{rate(max(0.0, ends.low))}, {rate(min(1.0, ends.high))}]"
        middle = with_span(found.interquartile_mean, defined(found.interquartile_bootstrap), digits)
        cells: Cells = [
            ("mean dR", estimate(effect, digits)),
            ("skewness, coverage", skewness),
            ("corrected (Johnson)", span(corrected, digits)),
            ("interquartile mean", middle),
            ("P(UPDATE > HOLD)", improves),
        ]
        rows.append(Row(key, cells))
    return Table.of(
        "robust",
        "Mean dR of all attempted forks, and how far its Student-t interval is to be trusted: the skewness of the "
        "means of checkpoints, what a nominal 95% covers with it, about, and Johnson's interval, which is "
        "corrected for it. Sign flips assume symmetry and correct nothing. Then the interquartile mean of "
        "checkpoints (bootstrap), and how probably UPDATE returns more than HOLD on the same episode, ties a half "
        "(Student-t over checkpoints).",
        KEYS,
        rows,
    )


def curve(scores: Scores) -> Table:
    """Return mean dR along drift and along what the frozen model still returns, with a band for all places."""
    rows = []
    for key, score in scores.items():
        digits = digits_for(score.effect.all_attempted)
        for where, point, forks in _places(score):
            cells: Cells = [
                ("forks", f"{forks:g}"),
                (Column("checkpoints", optional=True), str(point.checkpoints)),
                ("mean dR", number(point.mean, digits)),
                (Column("Student-t 95%, alone", optional=True), span(point.student_t, digits)),
                ("band", span(point.band, digits)),
            ]
            strip = Strip(mean=point.mean, student_t=point.band, bootstrap=point.student_t)
            rows.append(Row((*key, where), cells, strip))
    return Table.of(
        "curve",
        "Mean dR along the drift level, in either half of it, and by r_hold over the checkpoint's clean return "
        "(half of a fork's episodes place it, the others value it, then the other way round; where both agree it "
        "counts once, else one half at either place), all attempted forks, mean over checkpoints. Line and band: "
        "95% for all places of a curve at once. Thick: Student-t 95% of a place alone.",
        (*KEYS, "Where"),
        rows,
    )


def _places(score: TaskScore) -> Iterator[tuple[str, CurvePoint, float]]:
    """Yield every place of the curves with its name and its forks, each of which is one fork in all."""
    shown = score.curves
    levels = defined(shown.level)
    for point in levels.points if levels else ():
        yield f"drift {level_words(point.low, point.high)}", point, point.forks
    for point in defined(shown.halves) or ():
        yield f"half: drift {level_words(point.low, point.high)}", point, point.forks
    shares = defined(shown.hold_share)
    for point in shares.points if shares else ():
        # The record counts a fork for each half of its episodes that places it.
        yield f"r_hold / clean {place_words(point.low, point.high)}", point, point.forks / 2


def trials(scores: Scores) -> Table:
    """Return what trying each update before keeping it comes to, beside rules that try none."""
    return Table(
        "trials",
        "Try, then keep: each update is evaluated on some of the matched episodes and kept only if it won there; "
        "the other episodes value the rule, over every way to choose them. Mean dR per episode with its Student-t "
        "95% interval over checkpoints, all attempted forks. The trial is not counted. Pays up to: the price of a "
        "trial episode up to which the rule is worth more than the better of never and always. Best at: the prices "
        "at which no other number of trials is worth more. The best trigger is the candidate that earns the most. "
        "Better and best are in hindsight.",
        (
            *(*KEYS, "Rule", Column("proposed", optional=True), Column("kept", optional=True), "mean dR"),
            *("over never and always", "pays up to", "best at"),
        ),
        [
            (*key, *row)
            for key, score in scores.items()
            for row in _rules(score, digits_for(score.effect.all_attempted))
        ],
        keys=3,
    )


def _rules(score: TaskScore, digits: int) -> Iterator[tuple[str, ...]]:
    """Yield always, each number of trials, the best trigger without and with a trial, and the oracle."""
    tried = defined(score.trials)
    if tried is None:
        return
    best_at = {part.policy: part for part in tried.best}
    yield ("always", "1", "1", number(tried.always, digits), DASH, DASH, _range(best_at.get("always"), digits))
    for trial in tried.by_episodes.values():
        at = _range(best_at.get(str(trial.episodes)), digits)
        yield (plural(trial.episodes, "trial"), *_trial(trial, digits), at)
    triggers = score.triggers.all_attempted
    earned = {
        name: gained
        for name, figures in triggers.items()
        if figures.standing == "candidate" and (gained := defined(figures.per_deployment.mean)) is not None
    }
    if earned:
        best = max(earned, key=lambda name: earned[name])
        points = int(score.evidence.forks.prefork.k.max())
        total = triggers[best].per_deployment
        mean = with_span(divide(total.mean, points), defined(divide_bounds(total.student_t, points)), digits)
        yield (f"best trigger: {best}", DASH, DASH, mean, DASH, DASH, "")
        if best in tried.proposed_by:
            yield (f"1 trial where {best} fires", *_trial(tried.proposed_by[best], digits), "")
    yield ("oracle", DASH, DASH, number(tried.oracle, digits), DASH, DASH, "")


def _trial(trial: Trial, digits: int) -> tuple[str, ...]:
    return (
        rate(trial.proposed, 2),
        rate(trial.kept, 2),
        estimate(trial, digits),
        estimate(trial.over_better, digits),
        price_from_0(trial.break_even, digits, below=DOES_NOT_PAY),
    )


def prices(scores: Scores) -> Table:
    """Return the prices of an update between which each policy is worth more than never and than always."""
    rows = []
    for key, score in scores.items():
        digits = digits_for(score.effect.all_attempted)
        for name, over_never, over_always, best in _prices(score):
            cells: Cells = [
                ("over never up to", _price(over_never, digits, below=DOES_NOT_PAY)),
                ("over always from", _price(over_always, digits, below="any price")),
                ("best at", _range(best, digits)),
            ]
            strip = Strip(
                mean=over_never.price if over_never else Undefined("never is compared with nothing"),
                student_t=over_never.interval if over_never else None,
                forecast=over_always.price if over_always else None,
            )
            rows.append(Row((*key, name), cells, strip))
    # The price at which thresholds are fitted is registered, and shared by all tasks.
    fitted = listed(list(dict.fromkeys(fitted_at(score.prices.update_cost) for score in scores.values())))
    return Table.of(
        "price",
        "Total prices of an update, in return of an episode: up to which a policy is worth more than never, from "
        "which it is worth more than always, and at which it is worth the most of never, always and the "
        f"candidates, in hindsight. Thresholds are fitted {fitted}, and worldfork score --update-cost fits them at "
        "another. The interval holds every price at which the paired t test does not tell the two apart (Fieller). "
        "Dot and line: over never; diamond: over always. A price below 0 does not pay over never, and over always "
        "it is any price.",
        (*KEYS, "Policy"),
        rows,
    )


def _prices(score: TaskScore) -> Iterator[tuple[str, BreakEven | None, BreakEven | None, PriceRange | None]]:
    """Yield where each policy breaks even with never, and with always, and where it is the best of all."""
    shown = score.prices
    best = {part.policy: part for part in shown.best}
    yield "always", shown.always, None, best.get("always")
    for name, even in shown.triggers.items():
        if score.triggers.all_attempted[name].standing != "reference":
            yield name, even.over_never, even.over_always, best.get(name)
    yield "never", None, None, best.get("never")


def pays_at_a_price(score: TaskScore) -> bool:
    """Return whether some policy is worth more than never at a price of an update from 0 up."""
    return any(even and (defined(even.price) or 0.0) > 0 for _, even, *_ in _prices(score))


def _price(even: BreakEven | None, digits: int, *, below: str) -> str:
    return DASH if even is None else price_from_0(even, digits, below=below)


def _range(part: PriceRange | None, digits: int) -> str:
    if part is None:
        return ""
    low = unsigned(part.above, digits)
    high = defined(part.below)
    return f"from {low}" if high is None else f"{low} to {unsigned(high, digits)}"
