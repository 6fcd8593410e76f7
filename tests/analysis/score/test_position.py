"""Yardsticks that read the schedule, and what a signal knows beyond it: against counting by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldfork.analysis.score import policies, rankings
from worldfork.analysis.score.clusters import strata
from worldfork.analysis.score.undefined import Undefined


def grid(checkpoints, k=4):
    """checkpoint, direction and k of a full grid, as arrays."""
    rows = [(c, d, step) for c in range(checkpoints) for d in (0, 1) for step in range(1, k + 1)]
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def test_the_table_reads_the_other_checkpoints_alone():
    checkpoint, direction, k = grid(3, k=2)
    stratum = strata(direction, k)
    delta = np.tile([5.0, -5.0, -1.0, 1.0], 3)
    fired = policies.position_table(delta, stratum, checkpoint)
    assert fired.tolist() == [True, False, False, True] * 3
    delta[:4] = [-99.0, 99.0, 99.0, -99.0]  # a checkpoint's own labels move no fire of its own
    assert policies.position_table(delta, stratum, checkpoint)[:4].tolist() == [True, False, False, True]


def test_a_place_nobody_else_has_never_fires_and_neither_does_a_mean_of_nothing():
    stratum, checkpoint = np.array([0, 1, 1, 1]), np.array([0, 1, 2, 3])
    assert not policies.position_table(np.array([9.0, 0.1, 0.2, -0.3]), stratum, checkpoint)[0]
    # 0.1 + 0.2 - 0.3 is not 0 in floating point, and is no reason to update.
    thrice = np.array([0.1, 0.2, -0.3, 7.0])
    assert not policies.position_table(thrice, np.zeros(4, int), np.array([0, 0, 0, 1]))[3]


def test_the_clock_of_each_direction_may_run_either_way():
    """Updating pays late on the way out and early on the way back: no one clock knows that."""
    checkpoint, direction, k = grid(3, k=4)
    delta = np.where(direction == 0, np.where(k >= 3, 1.0, -1.0), np.where(k <= 1, 1.0, -1.0))
    fired = policies.direction_clock(delta, direction, k, checkpoint)
    np.testing.assert_array_equal(fired, delta > 0)


ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 2.0, np.nan]), st.booleans(), st.integers(0, 2), st.integers(0, 3)),
    min_size=1,
    max_size=25,
)


@given(ROWS)
def test_stratified_auc_counts_pairs_within_places(rows):
    signal, positive, stratum, checkpoint = (np.array(column) for column in zip(*rows, strict=True))

    def share(keep):
        scores = [
            (signal[a] > signal[b]) + 0.5 * (signal[a] == signal[b])
            for a in np.flatnonzero(positive & keep)
            for b in np.flatnonzero(~positive & keep)
            if stratum[a] == stratum[b]
        ]
        return scores

    found = rankings.stratified_auc(signal, positive, stratum, checkpoint)
    known = ~np.isnan(signal)
    every = share(known)
    assert found.pairs == len(every)
    if not every:
        assert isinstance(found.auc, Undefined)
        return
    assert found.auc == pytest.approx(np.mean(every))
    without = [share(known & (checkpoint != left_out)) for left_out in np.unique(checkpoint[known])]
    means = [np.mean(scores) for scores in without if scores]
    if means:
        assert (found.without_one_low, found.without_one_high) == pytest.approx((min(means), max(means)))
    else:
        assert isinstance(found.without_one_low, Undefined)


def test_a_function_of_position_knows_nothing_at_a_fixed_place():
    checkpoint, direction, k = grid(6)
    delta = np.random.default_rng(0).normal(size=len(k))
    found = rankings.stratified_auc(np.sin(3.0 * direction + k), delta > 0, strata(direction, k), checkpoint)
    assert found.auc == 0.5


def test_places_are_numbered_by_direction_and_k_whatever_their_names():
    direction, k = np.array([7, 7, 3, 3, 3, 7]), np.array([20, 4, 20, 4, 9, 20])
    assert strata(direction, k).tolist() == [4, 3, 2, 0, 1, 4]
    assert strata(np.zeros(0, int), np.zeros(0, int)).tolist() == []
