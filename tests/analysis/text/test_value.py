"""Sentences and tables of what would pay: claimed where intervals exclude 0, in the figures of the record."""

import dataclasses

import ledgers
import pytest

import worldfork as wf
from worldfork.analysis.present.summary import summarise
from worldfork.analysis.present.tables import value as tables
from worldfork.analysis.present.text import value
from worldfork.analysis.present.text.answers import answer
from worldfork.analysis.score.contraction import Bin
from worldfork.analysis.score.curves import Curve, CurvePoint
from worldfork.analysis.score.intervals import Skew
from worldfork.analysis.score.undefined import Estimands, Interval, Undefined
from worldfork.analysis.score.value import BreakEven, PriceRange

ABSENT = Undefined("not part of this test")


@pytest.fixture(scope="module")
def score(tmp_path_factory):
    """Eight checkpoints whose updates gain late in the drift and cost early, with four episodes a fork."""
    path = tmp_path_factory.mktemp("value") / "t.parquet"
    ledgers.flat(path, checkpoints=tuple("01234567"), episodes=4)
    return wf.score(path, permutations=50)


@pytest.fixture
def task(score):
    return score["cartpole"]


def along(*means, half=10.0):
    """A curve through these means, with a band of the same width everywhere."""
    edges = [None, *[place / len(means) for place in range(1, len(means))], None]
    points = tuple(
        CurvePoint(
            low=low,
            high=high,
            forks=9,
            checkpoints=8,
            mean=mean,
            student_t=ABSENT,
            band=Interval(mean - half, mean + half),
        )
        for low, high, mean in zip(edges, edges[1:], means, strict=False)
    )
    return Curve(points=points, critical=2.5)


def by_share(task, *means):
    curves = dataclasses.replace(task.curves, hold_share=along(*means), level=ABSENT)
    return dataclasses.replace(task, curves=curves)


def test_where_updates_pay_and_where_they_cost_is_one_sentence(task):
    told = by_share(task, 200.0, 40.0, 5.0, -100.0)
    assert value.curve_lead(told) == "It depends on how far the model has fallen:"
    assert value.curve_words(told) == (
        "Updating is worth +40.0 to +200.0 where the frozen model returns below 50% of its clean return, and "
        "-100.0 [-110.0, -90.0] where it returns 75% and more (simultaneous 95% band)."
    )


@pytest.mark.parametrize(
    ("means", "lead", "words"),
    [
        (
            (30.0, 5.0),
            "Where it pays:",
            "Updating is worth +30.0 [+20.0, +40.0] where the frozen model returns below",
        ),
        ((-30.0, -50.0), "Where it costs:", "Updating is worth -50.0 to -30.0 whatever the frozen model still"),
        ((5.0, -5.0), "", ""),
    ],
)
def test_a_place_is_named_only_where_the_band_excludes_0(task, means, lead, words):
    told = by_share(task, *means)
    assert value.curve_lead(told) == lead
    assert value.curve_words(told).startswith(words)
    assert bool(value.curve_words(told)) is bool(words)


def test_drift_levels_stand_where_the_clean_return_is_not_known(task):
    points = tuple(
        dataclasses.replace(point, low=level, high=level)
        for point, level in zip(along(0.0, 30.0, 40.0).points, (0.0, 0.5, 1.0), strict=True)
    )
    level = Curve(points=points, critical=2.5)
    told = dataclasses.replace(task, curves=dataclasses.replace(task.curves, hold_share=ABSENT, level=level))
    assert "worth +30.0 to +40.0 at drift 0.5 to 1 (" in value.curve_words(told)


def tried(task, *, always, mean, over, half=5.0):
    """The task with these means of always updating, of one trial, and of the trial over the better of both."""
    trial = task.trials.by_episodes["1"]
    better = dataclasses.replace(trial.over_better, mean=over, student_t=Interval(over - half, over + half))
    trial = dataclasses.replace(
        trial,
        mean=mean,
        student_t=Interval(mean - half, mean + half),
        over_better=better,
        break_even=BreakEven(price=over, interval=Interval(over - half, over + half)),
    )
    return dataclasses.replace(
        task, trials=dataclasses.replace(task.trials, always=always, by_episodes={"1": trial})
    )


@pytest.mark.parametrize(
    ("always", "mean", "over", "end"),
    [
        (-35.0, 73.5, 73.5, "not counted. A trial may cost up to 73.5 [68.5, 78.5]."),
        (40.0, 42.0, 2.0, "not counted. It is not shown to differ from always updating (+2.0 [-3.0, +7.0])."),
        (-90.0, -14.0, -14.0, "not counted. It is less than never updating."),
    ],
)
def test_a_trial_is_advised_where_it_is_told_from_the_better_of_never_and_always(task, always, mean, over, end):
    words = value.trial_words(tried(task, always=always, mean=mean, over=over))
    assert f"{mean:+.1f} [" in words
    assert f"where always updating is worth {always:+.1f}; the trial episode is" in words
    assert words.endswith(end)
    assert value.trial_words(dataclasses.replace(task, trials=ABSENT)) == ""


def test_to_leave_the_model_frozen_is_advised_over_always_alone_where_a_trial_pays(task):
    """Else the advice would stand beside a rule that is shown to be worth more than never updating."""
    frozen = dataclasses.replace(priced(task, ("never", None)), verdict="harmful")
    frozen = dataclasses.replace(frozen, triggers=Estimands(all_attempted={}, retained={}))
    for over, advice in ((73.5, "than update at every decision point."), (2.0, "the model frozen.")):
        said = answer(tried(frozen, always=-35.0, mean=over, over=over)).advice
        assert said.what.endswith(advice)


def priced(task, *ranges):
    """The task with these best policies, each up to a price; the last one above it."""
    prices = task.prices
    below = [price for _, price in ranges]
    best = tuple(
        PriceRange(policy=policy, above=above, below=price)
        for (policy, price), above in zip(ranges, [0.0, *below], strict=False)
    )
    even = {"always": BreakEven(price=12.0, interval=Interval(8.0, 16.0))}
    triggers = {
        "residual": dataclasses.replace(
            prices.triggers["residual"],
            over_always=even["always"],
            over_never=BreakEven(price=60.0, interval=Interval(50.0, 70.0)),
        ),
        "noise": prices.triggers["noise"],
    }
    return dataclasses.replace(
        task, prices=dataclasses.replace(prices, best=best, triggers=triggers, always=even["always"])
    )


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        (
            [("always", 12.0), ("residual", 60.0), ("never", None)],
            "always updating up to 12.0 [8.0, 16.0], residual up to 60.0 [50.0, 70.0], never updating above.",
        ),
        ([("always", 12.0), ("never", None)], "always updating up to 12.0 [8.0, 16.0], never updating above."),
        (
            [("noise", 3.0), ("residual", 60.0), ("never", None)],
            "noise up to 3.0, residual up to 60.0 [50.0, 70.0], never updating above.",
        ),
    ],
)
def test_prices_are_told_in_order_each_with_the_interval_that_there_is(task, ranges, words):
    fitted = "with thresholds fitted at no price (worldfork score --update-cost fits them at another)"
    told = value.price_words(priced(task, *ranges))
    assert told == f"Best by the total price of an update, in hindsight, {fitted}: {words}"
    never = value.price_words(priced(task, ("never", None)))
    assert never == f"Never updating is best at any price of an update, {fitted}."


@pytest.mark.parametrize("cost", [1.0, 30.0])
def test_prices_say_at_which_price_thresholds_were_fitted_and_what_is_best_there(tmp_path, cost):
    """Thresholds follow the registered price, so that prices and totals of one score agree at it."""
    path = ledgers.flat(tmp_path / "t.parquet", checkpoints=tuple("01234567"), episodes=4)
    task = wf.score(path, permutations=20, update_cost=cost)["cartpole"]
    net = {"never": 0.0, "always": task.policies.all_attempted.always}
    for name, figures in task.triggers.all_attempted.items():
        if figures.standing == "candidate":
            net[name] = figures.policy_total
    best = max(net, key=net.get)
    assert task.prices.best_at_cost == best
    words = value.price_words(task)
    assert f"with thresholds fitted at the registered price of {cost:g} (" in words
    assert words.endswith(f"At the registered {cost:g} it is {value._policy(best)}.")
    caption = tables.prices({("cartpole", ""): task}).caption
    assert f"Thresholds are fitted at the registered price of {cost:g}, and " in caption


def test_what_is_best_in_hindsight_is_told_only_where_a_trigger_beats_chance(task):
    named = priced(task, ("noise", 3.0), ("never", None))
    figures = {
        name: dataclasses.replace(figures, passes_control=False)
        for name, figures in task.triggers.all_attempted.items()
    }
    nothing = dataclasses.replace(named, triggers=dataclasses.replace(named.triggers, all_attempted=figures))
    assert value.price_words(named) != ""
    assert value.price_words(nothing) == ""
    fixed = dataclasses.replace(nothing, prices=priced(task, ("always", 12.0), ("never", None)).prices)
    assert "always updating up to 12.0" in value.price_words(fixed)


def test_a_price_below_0_is_no_price(task):
    worth = BreakEven(price=-466.9, interval=Interval(-500.0, -430.0))
    prices = task.prices
    triggers = {
        name: dataclasses.replace(even, over_never=worth, over_always=worth)
        for name, even in prices.triggers.items()
    }
    losing = dataclasses.replace(task, prices=dataclasses.replace(prices, always=worth, triggers=triggers))
    always, first, *_ = tables.prices({("", ""): losing}).records()
    assert always["over never up to"] == "does not pay"
    assert (first["over never up to"], first["over always from"]) == ("does not pay", "any price")
    assert "466.9" in first["over always from"].note
    assert not tables.pays_at_a_price(losing)
    assert tables.pays_at_a_price(task)


def test_skewness_is_told_with_the_corrected_interval_where_it_matters():
    skew = Skew(skewness=-1.9, shortfall=0.07, johnson=Interval(-10.0, 5.0), words="It covers about 88%.")
    assert value.skew_words(skew, 1) == "It covers about 88%. Corrected for skewness (Johnson): [-10.0, +5.0]."
    assert value.skew_words(dataclasses.replace(skew, words=""), 1) == ""
    assert value.skew_words(ABSENT, 1) == ""


def test_the_screen_has_a_sentence_each_and_no_table_of_them_unless_asked(score, task):
    shown = " ".join(str(summarise(score)).split())
    for words in (value.curve_words(task), value.trial_words(task), value.price_words(task)):
        assert words in shown
    assert "Try, then keep" not in shown
    assert "Try, then keep" in " ".join(str(summarise(score, verbose=True)).split())


def test_tables_have_the_figures_of_the_record(task):
    alone = {("cartpole", ""): task}
    curve = tables.curve(alone).records()
    places = [*task.curves.level.points, *task.curves.halves, *task.curves.hold_share.points]
    assert [row["mean dR"] for row in curve] == [f"{place.mean:+,.1f}" for place in places]
    for kind in ("drift", "r_hold"):  # each fork once, though both halves of its episodes place it
        forks = [float(row["forks"]) for row in curve if row["Where"].startswith(kind)]
        assert sum(forks) == len(task.evidence.forks)
    trials = {row["Rule"]: row for row in tables.trials(alone).records()}
    assert trials["1 trial"]["mean dR"].startswith(f"{task.trials.by_episodes['1'].mean:+.1f} [")
    assert trials["oracle"]["mean dR"] == f"{task.trials.oracle:+.1f}"
    assert {f"{name} trial" + ("s" if name != "1" else "") for name in task.trials.by_episodes} < set(trials)
    prices = {row["Policy"]: row for row in tables.prices(alone).records()}
    assert list(prices) == ["always", "residual", "noise", "never"]
    assert prices["never"]["best at"] == f"from {task.prices.best[-1].above:,.1f}"
    (robust,) = tables.robust(alone).records()
    assert robust["mean dR"].startswith(f"{task.effect.all_attempted.mean:+.1f}")


def test_each_number_of_trials_is_best_at_lower_prices_than_the_one_below_it(task):
    numbers = [int(part.policy) for part in task.trials.best if part.policy.isdigit()]
    assert numbers == sorted(numbers, reverse=True)
    last = task.trials.best[-1]
    assert last.policy in ("never", "always")
    assert last.below is None


def test_curves_and_prices_are_drawn_for_every_task(score):
    curve, price = wf.plot.curve(score), wf.plot.price(score)
    places = tables.curve({("", ""): score["cartpole"]}).rows
    assert len(curve.axes[0].get_yticklabels()) == len(places)
    assert [label.get_text().split()[0] for label in price.axes[0].get_yticklabels()] == [
        "always",
        "residual",
        "noise",
        "never",
    ]
    assert curve._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("first", "last", "slope", "told"),
    [(50.0, -20.0, 0.5, True), (-5.0, -20.0, 0.5, False), (50.0, -20.0, 1.2, False)],
)
def test_a_crossing_is_told_where_forks_gained_below_and_lost_above(task, first, last, slope, told):
    bins = (Bin(low=None, high=300.0, forks=4, mean=first, standard_error=1.0),)
    bins += (Bin(low=300.0, high=None, forks=4, mean=last, standard_error=1.0),)
    fit = dataclasses.replace(
        task.contraction,
        slope_interval=Interval(0.1, slope),
        crossing=310.0,
        crossing_interval=Interval(300.0, 320.0),
        bins=bins,
    )
    words = value.crossing_words(dataclasses.replace(task, contraction=fit))
    assert bool(words) is told
    assert ("less than 310 [300, 320]" in words) is told
