"""Tables of what would pay: dR along drift, trying before keeping, prices; and how far a mean is to be trusted."""

from collections.abc import Iterator

from worldfork.analysis.present.strips import Strip
from worldfork.analysis.present.table import Column, Table
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
    text_of,
    unsigned,
    with_span,
)
from worldfork.analysis.present.text.value import (
    DOES_NOT_PAY,
    fitted_at,
    level_words,
    place_words,
    price_from_0,
)
from worldfork.analysis.score.curves import CurvePoint
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.undefined import Undefined, divide, divide_bounds
from worldfork.analysis.score.value import BreakEven, PriceRange, Trial
from worldfork.counting import plural


def robust(scores: Scores) -> Table:
    """Return what skewness takes from each interval, and figures that one checkpoint can not carry alone."""
    return Table.of(
        "robust",
        "Mean dR of all attempted forks, and how far its Student-t interval is to be trusted: the skewness of the "
        "means of checkpoints, what a nominal 95% covers with it, about, and Johnson's interval, which is "
        "corrected for it. Sign flips assume symmetry and correct nothing. Then the interquartile mean of "
        "checkpoints (bootstrap), and how probably UPDATE returns more than HOLD on the same episode, ties a half "
        "(Student-t over checkpoints).",
        KEYS,
        [(key, score, digits_for(score.effect.all_attempted)) for key, score in scores.items()],
        [
            ("mean dR", lambda score, digits: estimate(score.effect.all_attempted, digits)),
            ("skewness, coverage", lambda score, _: _skewness(score)),
            ("corrected (Johnson)", lambda score, digits: _johnson(score, digits)),
            (
                "interquartile mean",
                lambda score, digits: with_span(
                    score.robust.interquartile_mean, defined(score.robust.interquartile_bootstrap), digits
                ),
            ),
            ("P(UPDATE > HOLD)", lambda score, _: _probability(score)),
        ],
    )


def _skewness(score: TaskScore) -> str:
    skew = defined(score.effect.all_attempted.skew)
    shortfall = defined(skew.shortfall) if skew else None
    if skew is None or shortfall is None:
        return DASH
    return f"{number(skew.skewness, 1)}, {percent(max(0.0, 0.95 - shortfall), signed=False)}"


def _johnson(score: TaskScore, digits: int) -> str:
    return text_of(score.effect.all_attempted.skew, lambda skew: span(skew.johnson, digits))


def _probability(score: TaskScore) -> str:
    share, interval = score.robust.probability_of_improvement, defined(score.robust.probability_student_t)
    if interval is None:
        return rate(share)
    return f"{rate(share)} [{rate(max(0.0, interval.low))}, {rate(min(1.0, interval.high))}]"


def curve(scores: Scores) -> Table:
    """Return mean dR along drift and along what the frozen model still returns, with a band for all places."""
    return Table.of(
        "curve",
        "Mean dR along the drift level, in either half of it, and by r_hold over the checkpoint's clean return "
        "(half of a fork's episodes place it, the others value it, then the other way round; where both agree it "
        "counts once, else one half at either place), all attempted forks, mean over checkpoints. Line and band: "
        "95% for all places of a curve at once. Thick: Student-t 95% of a place alone.",
        (*KEYS, "Where"),
        [
            ((*key, where), (point, forks), digits_for(score.effect.all_attempted))
            for key, score in scores.items()
            for where, point, forks in _places(score)
        ],
        [
            ("forks", lambda here, _: f"{here[1]:g}"),
            (Column("checkpoints", optional=True), lambda here, _: str(here[0].checkpoints)),
            ("mean dR", lambda here, digits: number(here[0].mean, digits)),
            (Column("Student-t 95%, alone", optional=True), lambda here, digits: span(here[0].student_t, digits)),
            ("band", lambda here, digits: span(here[0].band, digits)),
        ],
        strip=lambda here: Strip(mean=here[0].mean, student_t=here[0].band, bootstrap=here[0].student_t),
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
    rows = [
        ((*key, name), cells, digits_for(score.effect.all_attempted))
        for key, score in scores.items()
        for name, cells in _prices(score)
    ]
    return Table.of(
        "price",
        "Total prices of an update, in return of an episode: up to which a policy is worth more than never, from "
        "which it is worth more than always, and at which it is worth the most of never, always and the "
        f"candidates, in hindsight. {_fitted(scores)} The interval holds every price at which the paired t test "
        "does not tell the two apart (Fieller). Dot and line: over never; diamond: over always. A price below 0 "
        "does not pay over never, and over always it is any price.",
        (*KEYS, "Policy"),
        rows,
        [
            ("over never up to", lambda prices, digits: _price(prices[0], digits, below=DOES_NOT_PAY)),
            ("over always from", lambda prices, digits: _price(prices[1], digits, below="any price")),
            ("best at", lambda prices, digits: _range(prices[2], digits)),
        ],
        strip=lambda prices: Strip(
            mean=prices[0].price if prices[0] else Undefined("never is compared with nothing"),
            student_t=prices[0].interval if prices[0] else None,
            forecast=prices[1].price if prices[1] else None,
        ),
    )


def _fitted(scores: Scores) -> str:
    """Return at which price thresholds are fitted: the registered one, which all tasks share."""
    fitted = listed(list(dict.fromkeys(fitted_at(score.prices.update_cost) for score in scores.values())))
    return f"Thresholds are fitted {fitted}, and worldfork score --update-cost fits them at another."


_Prices = tuple[BreakEven | None, BreakEven | None, PriceRange | None]


def _prices(score: TaskScore) -> Iterator[tuple[str, _Prices]]:
    """Yield where each policy breaks even with never, and with always, and where it is the best of all."""
    shown = score.prices
    best = {part.policy: part for part in shown.best}
    yield "always", (shown.always, None, best.get("always"))
    for name, even in shown.triggers.items():
        if score.triggers.all_attempted[name].standing != "reference":
            yield name, (even.over_never, even.over_always, best.get(name))
    yield "never", (None, None, best.get("never"))


def pays_at_a_price(score: TaskScore) -> bool:
    """Return whether some policy is worth more than never at a price of an update from 0 up."""
    return any(even and (defined(even.price) or 0.0) > 0 for _, (even, _, _) in _prices(score))


def _price(even: BreakEven | None, digits: int, *, below: str) -> str:
    return DASH if even is None else price_from_0(even, digits, below=below)


def _range(part: PriceRange | None, digits: int) -> str:
    if part is None:
        return ""
    low = unsigned(part.above, digits)
    high = defined(part.below)
    return f"from {low}" if high is None else f"{low} to {unsigned(high, digits)}"
