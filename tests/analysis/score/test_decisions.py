"""Thresholds and totals against trying every candidate."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import forks, study

from worldfork.analysis.read.table import read_table
from worldfork.analysis.score import Rules, decisions, score

ROWS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-50, 50), st.integers(0, 3)), min_size=1, max_size=40)


def brute_force(signal, delta):
    """-inf, every midpoint, +inf; ties to the larger."""
    values = np.unique(signal)
    candidates = [-np.inf, *((values[1:] + values[:-1]) / 2), np.inf]
    totals = [delta[signal >= candidate].sum() for candidate in candidates]
    return max(candidate for candidate, total in zip(candidates, totals, strict=True) if total == max(totals))


@given(ROWS)
def test_the_fit_is_the_best_of_all_candidates(rows):
    signal, delta, _ = (np.array(column, float) for column in zip(*rows, strict=True))
    assert decisions.fit_threshold(signal, delta) == brute_force(signal, delta)


@given(ROWS, st.integers(-1000, 1000))
def test_leave_one_checkpoint_out_sees_only_the_others(rows, constant):
    signal, delta, _ = (np.array(column, float) for column in zip(*rows, strict=True))
    checkpoint = np.array([row[2] for row in rows])
    fitted = decisions.leave_one_checkpoint_out(signal, delta, checkpoint, count=4)
    moved = decisions.leave_one_checkpoint_out(signal + constant, delta, checkpoint, count=4)
    for left_out in range(4):
        others = checkpoint != left_out
        expected = brute_force(signal[others], delta[others]) if others.any() else np.inf
        assert fitted[left_out] == expected
        own = signal[~others]
        np.testing.assert_array_equal(own >= fitted[left_out], own + constant >= moved[left_out])


def test_changing_a_checkpoints_own_labels_does_not_move_its_threshold():
    draws = np.random.default_rng(0)
    signal, delta, checkpoint = draws.normal(size=60), draws.normal(size=60), np.repeat(np.arange(3), 20)
    before = decisions.leave_one_checkpoint_out(signal, delta, checkpoint, count=3)
    after = decisions.leave_one_checkpoint_out(signal, np.where(checkpoint == 1, 99.0, delta), checkpoint, count=3)
    assert before[1] == after[1]
    assert before[0] != after[0]


def test_equal_totals_go_to_the_larger_threshold_in_spite_of_rounding():
    """0.1 + 0.2 - 0.3 is not 0 in floating point: firing on all three is still no better than never."""
    assert decisions.fit_threshold(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, -0.3])) == np.inf
    assert decisions.fit_threshold(np.array([1.0, 1.0]), np.array([5.0, -5.0])) == np.inf


@pytest.mark.parametrize(
    ("above", "separated"), [(np.nextafter(0.3, 1), False), (0.3 + 1e-11, False), (0.3003, True)]
)
def test_no_threshold_separates_what_differs_by_rounding(above, separated):
    """The level 0.3, as a drift away reaches it, and as a drift toward does: 1 - 0.7."""
    signal = np.array([0.1, 0.3, above])
    threshold = decisions.fit_threshold(signal, np.array([-5.0, -1.0, 2.0]))
    assert decisions.fires(signal, threshold).tolist() == [False, not separated, True]
    left_out = decisions.leave_one_checkpoint_out(signal, np.array([-5.0, -1.0, 2.0]), np.zeros(3, int), count=2)
    assert left_out[1] == threshold


@pytest.mark.parametrize("size", [1e-300, 1e-3, 1.0, -7e8])
def test_rounding_is_relative(size):
    values = size * np.array([1.0, 1.0 + 1e-12, 1.0 + 1e-6, np.nan])
    same = decisions.tied(values)
    assert same[0] == same[1] != same[2]
    assert np.isnan(same[3])


def test_ties_of_nothing_and_of_infinities():
    assert decisions.tied(np.array([])).tolist() == []
    assert decisions.tied(np.array([np.inf, -np.inf, np.inf, 1.0])).tolist() == [np.inf, -np.inf, np.inf, 1.0]


def test_the_drift_oracle_can_not_read_a_direction_out_of_the_last_bit():
    """Both directions visit one level, one of them a bit higher; updating helps in that one alone. Nothing that
    knows the level alone can tell the two apart."""
    ulp = np.nextafter(0.3, 1)
    world = study(checkpoints=3, k=2).with_columns(
        level=pl.when(pl.col("direction") == "away").then(0.3).otherwise(ulp),
        r_update=pl.col("r_hold") + pl.when(pl.col("direction") == "away").then(-10.0).otherwise(9.0),
    )
    scored = score(read_table(world).arms, Rules(permutations=9, triggers=("drift",)))
    drift = scored["world"].triggers.retained["drift"]
    assert (drift.auc, drift.fires, drift.policy_total) == (0.5, 0, 0.0)


def test_a_missing_signal_never_fires():
    signal = np.array([np.nan, 1.0])
    assert decisions.fires(signal, -np.inf).tolist() == [False, True]
    assert decisions.fit_threshold(signal, np.array([100.0, 1.0])) == -np.inf


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=24), st.sampled_from([0.125, 0.25, 0.5]), st.integers(0, 9)
)
def test_running_quantile_reads_the_past_of_its_own_stream(values, rate, constant):
    """With rates that are exact in binary: a value that equals the quantile does so with a constant added too."""
    world = forks(np.zeros(2 * len(values)), direction=["away"] * len(values) + ["toward"] * len(values))
    signal = np.array([*values, *reversed(values)], float)
    fired = decisions.running_quantile(signal, world.prefork, rate=rate)
    for stream in (slice(0, len(values)), slice(len(values), None)):
        own = signal[stream]
        expected = [k >= 4 and own[k] > np.quantile(own[:k], 1 - rate) for k in range(len(own))]
        assert fired[stream].tolist() == expected
    np.testing.assert_array_equal(fired, decisions.running_quantile(signal + constant, world.prefork, rate=rate))


def test_running_quantile_counts_the_values_that_are_there():
    world = forks(np.zeros(7))
    signal = np.array([1.0, np.nan, 1.0, 1.0, 2.0, 2.0, np.nan])
    # at k = 5 only three values came before: too few
    assert decisions.running_quantile(signal, world.prefork, rate=0.3).tolist() == [False] * 5 + [True, False]


def test_totals():
    delta = np.array([3.0, -2.0, 5.0])
    assert decisions.policy_total(np.array([True, True, False]), delta) == 1.0
    assert decisions.policy_total(delta > 0, delta) == 8.0
