"""AUC against counting pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import forks

from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.rankings import auc, ranking
from worldfork.analysis.score.undefined import Undefined

PAIRS = st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=30)


@given(PAIRS, st.integers(-100, 100))
def test_auc_is_the_share_of_pairs_in_order(pairs, constant):
    signal = np.array([value for value, _ in pairs], float)
    positive = np.array([helped for _, helped in pairs])
    scores = [(a > b) + 0.5 * (a == b) for a in signal[positive] for b in signal[~positive]]
    found = auc(signal, positive)
    if scores:
        assert found == pytest.approx(np.mean(scores))
        assert auc(signal + constant, positive) == found
    else:
        assert isinstance(found, Undefined)


def test_missing_signals_are_left_out():
    signal = np.array([np.nan, 1.0, 2.0, np.nan])
    assert auc(signal, np.array([True, False, True, False])) == 1.0


def test_ranking_averages_checkpoints_that_have_both_classes():
    """Checkpoint 0 is ordered, checkpoint 1 reversed, checkpoint 2 has no positive fork."""
    world = forks([-1, 1, -1, 1, -1, -1], checkpoint=list("001122"))
    signal = np.array([1.0, 2.0, 2.0, 1.0, 1.0, 2.0])
    found = ranking(signal, world.delta, partition(world.prefork), seed=0, task="")
    assert found.auc == 0.5
    assert (found.auc_interval, found.auc_interval_kind) == ((0.0, 1.0), "min-max")
    assert isinstance(found.auc_by_checkpoint["2"], Undefined)


def test_a_checkpoints_streams_are_ranked_together():
    """Within each direction the signal is blind; across the two it is perfect."""
    world = forks([-1, -1, 1, 1], direction=["away", "away", "toward", "toward"])
    found = ranking(np.array([0.0, 0.0, 1.0, 1.0]), world.delta, partition(world.prefork), seed=0, task="")
    assert found.auc == 1.0


def test_no_positive_fork_anywhere_is_undefined():
    world = forks([-1, -2, 0], checkpoint=list("012"))
    found = ranking(np.arange(3.0), world.delta, partition(world.prefork), seed=0, task="")
    assert isinstance(found.auc, Undefined)
    assert isinstance(found.auc_interval, Undefined)
