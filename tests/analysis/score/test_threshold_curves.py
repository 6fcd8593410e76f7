"""Every threshold against the functions that scoring itself uses, and both nulls against what they should be."""

import numpy as np
import pytest
import worlds
from hypothesis import given
from hypothesis import strategies as st

from worldfork.analysis.read.table import read_table
from worldfork.analysis.score.decisions import fires, fit_threshold, policy_total
from worldfork.analysis.score.permutation_nulls import null_totals
from worldfork.analysis.score.threshold_curves import sweep


def swept(forks, signal, *, scored=None, permutations=200, seed=0):
    everything = np.ones(len(forks), bool)
    found = sweep(
        {"s": np.asarray(signal, float)},
        forks,
        scored=everything if scored is None else scored,
        permutations=permutations,
        seed=seed,
    )
    return found["s"]


@given(
    st.lists(
        st.tuples(st.floats(-100, 100, width=32), st.sampled_from([0.0, 0.1, 0.1 + 1e-15, 1.0, 2.0, np.nan])),
        min_size=1,
        max_size=12,
    )
)
def test_every_row_is_what_scoring_says_of_its_threshold(pairs):
    delta, signal = (np.array(column) for column in zip(*pairs, strict=True))
    forks = worlds.forks(delta)
    found = swept(forks, signal, permutations=5)
    for threshold, total, count in zip(found.threshold, found.total, found.fires, strict=True):
        flags = fires(signal, threshold)
        assert total == policy_total(flags, forks.delta)  # to the last digit
        assert count == flags.sum()
    assert found.fires[0] == (~np.isnan(signal)).sum()
    assert (np.diff(found.fires) < 0).all()
    assert fit_threshold(signal, forks.delta) in found.threshold or np.isnan(signal).all()


def test_both_nulls_are_those_of_the_control():
    """Other draws of the same null: means and intervals agree, as do the p values."""
    forks = _study()
    signal = forks.prefork.signals["residual"]
    found = swept(forks, signal, permutations=4_000)
    scored = np.ones(len(forks), bool)
    rows = np.linspace(1, len(found.total) - 2, 7).astype(int)
    flags = np.stack([fires(signal, found.threshold[row]) for row in rows], axis=1)
    totals = null_totals(forks.prefork, forks.delta, scored, flags, permutations=4_000, seed=5)
    for column, row in enumerate(rows):
        null = totals["random"][:, column]
        wide = found.high[row] - found.low[row]
        enough = found.total[row] - 1e-9 * max(1.0, abs(found.total[row]))
        assert found.mean[row] == pytest.approx(null.mean(), abs=0.05 * wide)
        assert [found.low[row], found.high[row]] == pytest.approx(np.quantile(null, [0.025, 0.975]), abs=0.1 * wide)
        assert found.p[row] == pytest.approx((null >= enough).mean(), abs=0.03)
        assert found.p_shift[row] == pytest.approx((totals["shift"][:, column] >= enough).mean(), abs=0.03)


def _study():
    return read_table(worlds.study()).arms[""]["world"]


def test_the_shifted_null_has_as_many_values_as_a_cell_has_places():
    """One cell, one fire: shifted, it earns each dR in turn, the observed one among them."""
    forks = worlds.forks([5.0, -1.0, 0.0, 2.0])
    found = swept(forks, [9.0, 1.0, 2.0, 3.0], permutations=4_000)
    assert found.total[-2] == 5.0
    assert found.p_shift[-2] == pytest.approx(0.25, abs=0.03)
    assert found.p[-2] == pytest.approx(0.25, abs=0.03)
    assert found.mean[-2] == pytest.approx(1.5, abs=0.2)


def test_firing_always_or_never_is_no_better_than_chance():
    found = swept(worlds.forks([3.0, -1.0, 2.5]), [1.0, 2.0, 3.0])
    for row in (0, -1):
        assert (found.p[row], found.p_shift[row]) == (1.0, 1.0)
        assert found.low[row] == pytest.approx(found.total[row])


def test_forks_that_are_not_scored_take_no_part():
    forks = worlds.forks([1.0, 50.0, 2.0, 4.0])
    scored = np.array([True, False, True, True])
    found = swept(forks, [1.0, 9.0, 2.0, 3.0], scored=scored)
    alone = worlds.forks([1.0, 2.0, 4.0])
    assert found.total.tolist() == swept(alone, [1.0, 2.0, 3.0]).total.tolist()
    assert found.high.max() <= 7.0


def test_a_signal_that_is_never_there_has_one_row_that_never_fires():
    found = swept(worlds.forks([1.0, 2.0]), [np.nan, np.nan])
    assert (found.total.tolist(), found.fires.tolist()) == ([0.0], [0])
