"""Methods on data with known answers: max-T, break-even prices, trials, curves, skew, forecasts over decisions."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

import worldfork as wf
from worldfork.analysis.score.curves import critical_value
from worldfork.analysis.score.decisions import fit_threshold
from worldfork.analysis.score.forecasts import Foreseen, _values_of_cell, compare_forecasts
from worldfork.analysis.score.intervals import skew
from worldfork.analysis.score.sign_flips import max_t, sign_flip_p
from worldfork.analysis.score.undefined import Undefined
from worldfork.analysis.score.value import best_by_price, break_even


def brute_force_max_t(values):
    """Adjusted p by listing every pattern of signs and every step."""
    patterns = np.array(list(itertools.product((1, -1), repeat=values.shape[1])))

    def statistics(data):
        return np.abs(data.mean(axis=1)) / data.std(axis=1, ddof=1)

    observed = statistics(values)
    null = np.array([statistics(values * signs) for signs in patterns])
    order, adjusted, largest = np.argsort(-observed), np.zeros(len(values)), 0.0
    for step, test in enumerate(order):
        share = (null[:, order[step:]].max(axis=1) >= observed[test] - 1e-9).mean()
        largest = adjusted[test] = max(largest, share)
    return adjusted


def test_step_down_max_t_is_what_listing_all_patterns_gives():
    draws = np.random.default_rng(1)
    values = draws.normal(size=(5, 9)) + np.array([[1.5], [0.8], [0.3], [0.0], [0.0]]) + draws.normal(size=9)
    found = max_t(dict(enumerate(values)), seed=0, task="")
    assert list(found.values()) == pytest.approx(brute_force_max_t(values))


def test_one_test_alone_has_the_p_of_its_sign_flips_and_copies_of_it_cost_nothing():
    values = np.array([3.0, -1.0, 4.0, 1.0, 5.0, 9.0, 2.0])
    alone = sign_flip_p(values, seed=0, task="")
    assert max_t({"a": values}, seed=0, task="") == {"a": pytest.approx(alone)}
    copies = max_t({"a": values, "b": values, "never fires": np.zeros(7)}, seed=0, task="")
    assert copies == {"a": pytest.approx(alone), "b": pytest.approx(alone), "never fires": 1.0}


def test_the_interval_of_a_break_even_price_is_where_the_paired_test_turns():
    draws = np.random.default_rng(2)
    gained, spent = draws.normal(30, 10, 12), draws.integers(4, 9, 12).astype(float)
    found = break_even(gained, spent)
    assert found.price == pytest.approx(gained.mean() / spent.mean())
    for end in found.interval:
        assert stats.ttest_1samp(gained - end * spent, 0).pvalue == pytest.approx(0.05)
    assert isinstance(break_even(gained, np.zeros(12)).price, Undefined)
    unclear = break_even(gained, draws.normal(0.1, 5, 12))
    assert isinstance(unclear.interval, Undefined)


def test_the_best_policy_at_each_price_is_the_one_with_the_largest_net_total():
    draws = np.random.default_rng(3)
    for _ in range(50):
        totals = {str(i): float(total) for i, total in enumerate(draws.normal(0, 100, 6))} | {"never": 0.0}
        updates = {str(i): float(count) for i, count in enumerate(draws.integers(1, 50, 6))} | {"never": 0.0}
        ranges = best_by_price(totals, updates)
        assert ranges[0].above == 0.0
        assert (ranges[-1].policy, ranges[-1].below) == ("never", None)
        for found in ranges:
            high = found.above + 1.0 if found.below is None else found.below
            middle = (found.above + high) / 2
            best = max(total - middle * updates[name] for name, total in totals.items())
            assert totals[found.policy] - middle * updates[found.policy] == pytest.approx(best)


def episodes(update, *, hold=0.0, checkpoints=6, **columns):
    """One fork per checkpoint and row of `update`, whose episodes are matched with constant HOLD ones."""
    rows = [
        {
            "checkpoint": str(checkpoint),
            "k": k,
            "hold": [hold] * len(returns),
            "update": [value + checkpoint for value in returns],
            "r_hold": hold,
            "r_update": float(np.mean(returns)) + checkpoint,
            **{name: values[k - 1] for name, values in columns.items()},
        }
        for checkpoint in range(checkpoints)
        for k, returns in enumerate(update, 1)
    ]
    return pl.DataFrame(rows)


def test_a_trial_keeps_an_update_by_some_episodes_and_values_it_by_the_others():
    """With checkpoint c the episodes have dR 4 + c and -2 + c: the first always wins, the second from c = 3 on."""
    score = wf.score(episodes([[4.0, -2.0]]), permutations=9)["table"]
    values = list(score.trials.by_episodes["1"].by_checkpoint.values())
    by_hand = [((first > 0) * second + (second > 0) * first) / 2 for first, second in
               ((4.0 + c, -2.0 + c) for c in range(6))]  # fmt: skip
    assert values == pytest.approx(by_hand)
    assert (score.trials.always, score.trials.oracle) == (pytest.approx(3.5), pytest.approx(3.5))
    assert score.trials.by_episodes["1"].kept == (6 + 3) / 12


def test_a_trial_of_several_episodes_is_averaged_over_every_way_to_choose_them():
    draws = np.random.default_rng(4)
    table = episodes(draws.normal(0, 5, (8, 5)).tolist())
    trials = wf.score(table, permutations=9, trial_margin=1.0)["table"].trials
    deltas = np.array(table["update"].to_list()).reshape(6, 8, 5)
    for count in (1, 2, 3, 4):
        splits = []
        for chosen in itertools.combinations(range(5), count):
            others = [episode for episode in range(5) if episode not in chosen]
            keep = deltas[..., list(chosen)].mean(axis=2) > 1.0
            splits.append(np.where(keep, deltas[..., others].mean(axis=2), 0.0))
        found = trials.by_episodes[str(count)]
        assert found.mean == pytest.approx(np.mean(splits))
        assert list(found.by_checkpoint.values()) == pytest.approx(np.mean(splits, axis=(0, 2)))


def test_where_a_trigger_proposes_there_are_fewer_trials():
    table = episodes([[5.0, 3.0], [-4.0, -6.0], [1.0, 2.0], [-20.0, -9.0]], signal_sure=[1.0, 0.0, 1.0, 0.0])
    task = wf.score(table, permutations=9)["table"]
    proposed = task.trials.proposed_by["sure"]
    assert (proposed.episodes, proposed.proposed, proposed.kept) == (1, 0.5, 1.0)
    assert proposed.mean == pytest.approx(task.trials.by_episodes["1"].mean, abs=2.0)
    paid = proposed.over_better.mean / 0.5
    assert proposed.break_even.price == pytest.approx(paid)


def test_an_update_that_costs_is_worth_so_much_less_everywhere():
    draws = np.random.default_rng(5)
    table = episodes(draws.normal(2, 3, (12, 4)).tolist(), signal_a=draws.random(12).tolist())
    free, paid = (wf.score(table, permutations=9, update_cost=cost)["table"] for cost in (0.0, 2.5))
    assert paid.effect.all_attempted.mean == pytest.approx(free.effect.all_attempted.mean - 2.5)
    assert paid.policies.all_attempted.always == pytest.approx(free.policies.all_attempted.always - 2.5 * 72)
    assert paid.trials.always == pytest.approx(free.trials.always - 2.5)
    assert paid.prices.update_cost == 2.5
    # A price is the total of an update: that of always updating has no threshold, and stays whatever is registered.
    assert paid.prices.always.price == pytest.approx(free.prices.always.price)
    assert paid.prices.always.price == pytest.approx(free.effect.all_attempted.mean)
    dear = wf.score(table, permutations=9, update_cost=100.0)["table"]
    assert dear.triggers.all_attempted["a"].fires == 0
    assert paid.contraction.slope == free.contraction.slope


def test_johnsons_interval_is_moved_by_the_third_moment():
    values = np.array([1.0, 2.0, 3.0, 4.0, 20.0])
    found = skew(values)
    third = ((values - 6.0) ** 3).sum() * 5 / (4 * 3)
    half = stats.t.ppf(0.975, 4) * values.std(ddof=1) / math.sqrt(5)
    centre = 6.0 + third / (6 * values.var(ddof=1) * 5)
    assert list(found.johnson) == pytest.approx([centre - half, centre + half])
    assert found.shortfall == pytest.approx(0.25 * stats.skew(values, bias=False) ** 2 / 5)
    assert found.words.startswith(
        "The means of 5 checkpoints are skewed (+2.1): a nominal 95% interval covers less, about"
    )
    assert skew(np.array([-1.0, 0.0, 1.0, 0.5, -0.5])).words == ""
    assert isinstance(skew(np.array([1.0, 1.0, 1.0])), Undefined)


def test_the_curve_over_drift_has_its_places_and_halves_by_hand():
    """dR is the level less a third, plus the checkpoint: every place has the same spread over checkpoints."""
    rows = [
        {"checkpoint": str(c), "k": k, "level": k / 4, "r_hold": 1.0, "r_update": 1.0 + k / 4 - 1 / 3 + c / 10}
        for c in range(8)
        for k in (1, 2, 3, 4)
    ]
    curves = wf.score(pl.DataFrame(rows), permutations=9)["table"].curves
    assert [(point.low, point.high, point.forks) for point in curves.level.points] == [
        (level, level, 8) for level in (0.25, 0.5, 0.75, 1.0)
    ]
    assert [point.mean for point in curves.level.points] == pytest.approx(
        [k / 4 - 1 / 3 + 0.35 for k in (1, 2, 3, 4)]
    )
    assert [(half.low, half.high) for half in curves.halves] == [(0.25, 0.25), (0.5, 1.0)]
    assert curves.halves[1].mean == pytest.approx(0.75 - 1 / 3 + 0.35)
    # All places move together, so that the band is as wide at each, and wider than one interval is.
    widths = [point.band.high - point.band.low for point in curves.level.points]
    assert widths == pytest.approx([widths[0]] * 4)
    assert widths[0] > curves.level.points[0].student_t.high - curves.level.points[0].student_t.low - 1e-9
    assert isinstance(curves.hold_share, Undefined)


def test_a_band_over_more_places_is_wider():
    draws = np.random.default_rng(6).normal(size=(12, 20))
    few, many = (critical_value(draws[:count], seed=0, task="") for count in (1, 12))
    assert 2.0 < few < many < 5.0
    assert critical_value(np.vstack([draws[:1]] * 4), seed=0, task="") == pytest.approx(few)
    assert isinstance(critical_value(draws[:, :4], seed=0, task=""), Undefined)


def test_forecasts_are_over_the_decisions_that_an_episode_follows():
    """Of four decisions the last is followed by no episode, and the first episode by no decision."""
    delta, fired = np.array([5.0, 7.0, -1.0, 100.0]), np.array([False, True, False, True])
    earned, fires, one_step, carried, mean = _values_of_cell(delta, fired, np.arange(1, 5), 4)
    assert (earned, fires, mean) == (107 / 4, 2, 111 / 4)
    assert (one_step, carried) == (7 / 4, (7 - 1) / 4)


def test_labels_that_know_no_more_than_a_count_leave_nothing_to_order():
    draws = np.random.default_rng(7)
    fires = np.repeat(np.arange(1.0, 9.0)[:, None], 6, axis=1)
    noise = draws.normal(0, 0.01, (8, 6))
    found = compare_forecasts(
        Foreseen(one_step=fires * 2, carried=fires * 3, count=fires * 2, realised=fires * 2 + noise),
        missed={},
        updates={},
        seed=0,
        task="",
    )
    assert (found.one_step.rank_correlation, found.count.rank_correlation) == (1.0, 1.0)
    assert isinstance(found.partial.value, Undefined)
    assert found.one_step.error < 0.1 < found.carried.error
    labels = draws.normal(size=(8, 6)) * 0.1 + np.arange(8.0)[::-1][:, None]
    known = compare_forecasts(
        Foreseen(one_step=labels, carried=labels, count=fires[[3, 1, 2, 0, 7, 5, 6, 4]], realised=labels),
        missed={},
        updates={},
        seed=0,
        task="",
    )
    assert known.partial.value == pytest.approx(1.0)
    alike = compare_forecasts(
        Foreseen(one_step=labels, carried=labels, count=np.ones((8, 6)), realised=labels),
        missed={},
        updates={},
        seed=0,
        task="",
    )
    assert alike.partial.value == pytest.approx(1.0), (
        "policies that fire alike often are ordered by their labels alone"
    )


def test_rows_without_what_was_recorded_before_a_fork_are_no_decisions():
    """They count in the mean; a trigger is not scored on them, where a missing signal would pass for a decision."""
    draws = np.random.default_rng(8)
    rows = [
        {"checkpoint": str(c), "k": k, "r_hold": 0.0, "r_update": float(draws.normal()), "signal_a": float(k)}
        for c in range(6)
        for k in range(1, 9)
    ]
    legacy = [{**row, "signal_a": None, "k": row["k"] + 8} for row in rows]
    mixed = wf.score(pl.DataFrame(rows + legacy), permutations=9)["table"]
    alone = wf.score(pl.DataFrame(rows), permutations=9)["table"]
    assert (mixed.forks.quarantined, mixed.effect.all_attempted.forks) == (48, 96)
    assert (alone.forks.quarantined, alone.effect.all_attempted.forks) == (0, 48)
    for name in ("a", "clock"):
        both = [score.triggers.all_attempted[name] for score in (mixed, alone)]
        assert both[0].n_defined == both[1].n_defined == 48
        assert both[0].policy_total == both[1].policy_total
    assert mixed.policies.all_attempted.always == alone.policies.all_attempted.always


def test_fitting_anew_leaves_each_checkpoint_out_of_everything_that_is_fitted():
    """Against a loop that fits every threshold and every table from nothing."""
    draws = np.random.default_rng(9)
    count, points = 6, 10
    signal, worth = draws.normal(size=(count, points)), draws.normal(0.2, 3, (count, points))
    worth += 2 * signal
    rows = [
        {"checkpoint": str(c), "k": k + 1, "r_hold": 0.0, "r_update": worth[c, k], "signal_a": signal[c, k]}
        for c in range(count)
        for k in range(points)
    ]
    gains = wf.score(pl.DataFrame(rows), permutations=9)["table"].triggers.all_attempted["a"].gains

    def gained(there):
        found = {"never": [], "better_of_both": [], "position_table": []}
        better = sum(worth[c].sum() for c in there) > 0
        for c in there:
            others = [other for other in there if other != c]
            threshold = fit_threshold(signal[others].ravel(), worth[others].ravel())
            earned = worth[c][signal[c] >= threshold].sum()
            found["never"].append(earned)
            found["better_of_both"].append(earned - worth[c].sum() * better)
            found["position_table"].append(earned - worth[c][worth[others].mean(axis=0) > 0].sum())
        return {name: np.mean(values) for name, values in found.items()}

    whole = gained(list(range(count)))
    left = [gained([c for c in range(count) if c != out]) for out in range(count)]
    for name, gain in whole.items():
        values = np.array([one_left[name] for one_left in left])
        error = math.sqrt((count - 1) / count * ((values - values.mean()) ** 2).sum())
        half = stats.t.ppf(0.975, count - 1) * error
        assert list(gains[name].refitted) == pytest.approx([gain - half, gain + half])
