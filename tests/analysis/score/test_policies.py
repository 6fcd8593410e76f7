"""Policies by checkpoint, against what costs nothing to know; and what exchanging checkpoints shows."""

import itertools

import numpy as np
import pytest
from scipy import stats

from worldfork.analysis.score import permutation_nulls, policies
from worldfork.analysis.score.clusters import strata
from worldfork.analysis.score.undefined import Undefined


def test_totals_by_checkpoint_add_up_and_leave_absent_checkpoints_out():
    delta, checkpoint = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0, 0, 2, 2])
    fired = np.array([True, False, True, True])
    totals = policies.checkpoint_totals(fired, delta, checkpoint, count=4)
    assert totals.tolist() == [1.0, 12.0]
    assert policies.checkpoint_totals(~np.ones(4, bool), delta, checkpoint, count=4).tolist() == [0.0, 0.0]
    assert policies.earned(totals, ("0", "2")).by_checkpoint == {"0": 1.0, "2": 12.0}


def test_a_gain_is_a_paired_test_over_checkpoints():
    draws = np.random.default_rng(0)
    first, second = draws.normal(1, 1, 8), draws.normal(0, 1, 8)
    found = policies.gain(first, second, seed=0, task="")
    assert found.p_student_t == pytest.approx(stats.ttest_rel(first, second).pvalue)
    assert found.mean == pytest.approx((first - second).mean())
    assert found.student_t == pytest.approx(tuple(stats.ttest_rel(first, second).confidence_interval()))
    assert (found.checkpoints, found.won) == (8, int((first > second).sum()))


def test_policies_that_fire_alike_differ_by_nothing():
    totals = np.array([0.1 + 0.2, 5.0])
    found = policies.gain(totals, np.array([0.3, 5.0]), seed=0, task="")
    assert (found.mean, found.p_student_t, found.won) == (0.0, 1.0, 0)


def test_the_better_of_both_is_chosen_in_hindsight():
    losing, winning = np.array([5.0, -6.0]), np.array([5.0, -4.0])
    assert policies.baseline_totals(losing, {})["better_of_both"].tolist() == [0.0, 0.0]
    assert policies.baseline_totals(winning, {})["better_of_both"].tolist() == [5.0, -4.0]


def test_a_trigger_that_beats_its_control_and_loses_is_not_useful():
    """Page-Hinkley on walker: ahead of firing at random, and 8,205 behind never firing."""
    adjusted = {"random": 0.01, "shift": 0.01, "better_of_both": 0.001, "position_table": 0.01}
    found = policies.usefulness(adjusted, {"better_of_both": -1641.0, "position_table": 300.0})
    assert (found.useful, found.does_not_beat) == (False, ("better_of_both",))


@pytest.mark.parametrize(
    ("adjusted", "missed"),
    [
        ({"random": 0.01, "shift": 0.02, "position_table": 0.03}, ()),
        ({"random": 0.01, "shift": 0.05, "position_table": 0.2}, ("shift", "position_table")),
        ({"random": Undefined("it never fires"), "shift": 0.01, "position_table": 0.01}, ("random",)),
    ],
)
def test_what_is_not_beaten_is_named(adjusted, missed):
    found = policies.usefulness(adjusted, {"position_table": 5.0})
    assert (found.useful, found.does_not_beat) == (not missed, missed)


def test_swapping_lists_every_order():
    draws = np.random.default_rng(0)
    totals = draws.normal(size=(4, 4))
    sums = [
        sum(totals[giver, taker] for taker, giver in enumerate(order)) for order in itertools.permutations(range(4))
    ]
    found = permutation_nulls.swapped_control(totals, permutations=10, seed=0, task="")
    assert (found.orders, found.exact) == (24, True)
    assert found.p == pytest.approx(np.mean(np.array(sums) >= np.trace(totals) - 1e-9))
    assert found.mean == pytest.approx(np.mean(sums))


def test_many_checkpoints_are_swapped_at_random():
    totals = np.random.default_rng(0).normal(size=(12, 12)) + 0.5 * np.eye(12)
    found = permutation_nulls.swapped_control(totals, permutations=4000, seed=0, task="a")
    assert not found.exact
    assert found.orders == 4000
    draws = np.random.default_rng(1)
    sums = [totals[draws.permutation(12), np.arange(12)].sum() for _ in range(4000)]
    assert found.p == pytest.approx(np.mean(np.array(sums) >= np.trace(totals)), abs=0.04)
    assert found == permutation_nulls.swapped_control(totals, permutations=4000, seed=0, task="a")


def test_a_function_of_position_earns_as_much_anywhere():
    """Forks are missing here and there: a place that a checkpoint has not is no fire, and earns nothing."""
    draws = np.random.default_rng(0)
    checkpoint, place = (axis.ravel() for axis in np.indices((5, 12)))
    kept = draws.random(60) < 0.9
    delta = draws.normal(size=60)
    by_hand = sum(delta[(place == p) & (checkpoint == c)].sum() for p in (1, 4, 5) for c in range(5))
    everyone = permutation_nulls.cross_totals(
        np.isin(place, (1, 4, 5)), delta, np.ones(60, bool), place, checkpoint
    )
    assert np.trace(everyone) == pytest.approx(by_hand)
    assert permutation_nulls.swapped_control(everyone, permutations=99, seed=0, task="").p == 1.0
    some = permutation_nulls.cross_totals(np.isin(place, (1, 4, 5)), delta, kept, place, checkpoint)
    assert permutation_nulls.swapped_control(some, permutations=99, seed=0, task="").p == 1.0


def test_a_signal_that_knows_its_own_stream_is_seen():
    draws = np.random.default_rng(0)
    checkpoint, place = (axis.ravel() for axis in np.indices((5, 24)))
    delta = draws.normal(size=120)
    totals = permutation_nulls.cross_totals(delta > 0, delta, np.ones(120, bool), place, checkpoint)
    assert permutation_nulls.swapped_control(totals, permutations=99, seed=0, task="").p == pytest.approx(1 / 120)
    assert isinstance(permutation_nulls.swapped_control(totals[:1, :1], permutations=9, seed=0, task=""), Undefined)


def test_a_smooth_function_of_position_beats_the_table_and_is_caught_by_the_swap():
    """The table has 48 noisy entries, the level has one threshold. Without the swapped control this signal, which
    knows the schedule and nothing else, would pass as useful far more often than in 5% of worlds."""
    checkpoint, direction, k = (axis.ravel() for axis in np.indices((12, 2, 24)))
    level = np.where(direction == 0, k / 23, 1 - k / 23)
    stratum, ahead = strata(direction, k), 0
    for world in range(20):
        delta = np.where(level > 0.7, 1.0, -0.3) + np.random.default_rng(world).normal(0, 1, 12 * 48)
        table = policies.position_table(delta, stratum, checkpoint)
        known, tabled = (
            policies.checkpoint_totals(fired, delta, checkpoint, count=12) for fired in (level > 0.7, table)
        )
        gain = policies.gain(known, tabled, seed=0, task="")
        ahead += gain.mean > 0 and max(gain.p_student_t, gain.p_sign_flip) < 0.05
        crossed = permutation_nulls.cross_totals(level > 0.7, delta, np.ones(len(delta), bool), stratum, checkpoint)
        assert permutation_nulls.swapped_control(crossed, permutations=99, seed=0, task="").p == 1.0
    assert ahead >= 5
