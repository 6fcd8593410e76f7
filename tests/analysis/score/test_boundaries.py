"""Rules at their boundaries: a dR of exactly zero, a threshold met exactly, a cell beside another."""

import numpy as np
import pytest
from worlds import forks

from worldfork.analysis.score import rankings
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.decisions import between, diverged
from worldfork.analysis.score.intervals import FIGURES, figure_draws
from worldfork.analysis.score.rankings import ranking


def test_a_fork_diverges_by_its_cells_hold_and_not_by_its_own():
    """Mean hold 100, threshold 50. The first fork keeps 40 of its own 50, the second 60 of its own 150."""
    found = diverged(forks([-10.0, -90.0], hold=[50.0, 150.0]), 0.5)
    assert found.dropped.tolist() == [True, False]


def test_a_fork_diverges_by_its_own_cell_and_not_by_the_task():
    """Cells of hold 100 and 1000: both keep 60, which is little beside the second alone."""
    world = forks([-40.0, -940.0], hold=[100.0, 1000.0], checkpoint=["0", "1"])
    assert diverged(world, 0.5).dropped.tolist() == [False, True]


def test_a_threshold_that_is_met_exactly_is_kept():
    world = forks([-50.0, np.nextafter(50.0, 0.0) - 100.0, 0.0], hold=100.0)
    assert diverged(world, 0.5).dropped.tolist() == [False, True, False]


def test_the_rule_is_off_in_a_cell_whose_mean_hold_is_exactly_zero():
    found = diverged(forks([-5.0, -5.0], hold=[-10.0, 10.0]), 0.5)
    assert not found.dropped.any()
    assert len(found.off) == 1


@pytest.mark.parametrize(("zero_signal", "auc"), [(3.0, 0.5), (0.0, 1.0)])
def test_a_fork_that_changes_nothing_did_not_help(zero_signal, auc):
    """dR +1, 0, -1. The fork at zero belongs to those that an update did not help: above the one that it did help,
    it is out of order; below it, in order. Were it counted as helped, the two answers would change places."""
    world = forks([1.0, 0.0, -1.0])
    found = ranking(np.array([2.0, zero_signal, 1.0]), world.delta, partition(world.prefork), seed=0, task="")
    assert found.auc == auc


def test_a_threshold_lies_above_what_is_kept_and_no_higher_than_what_fires():
    for below, above in ((0.0, 1.0), (-1.0, 1.0), (1.0, np.nextafter(1.0, 2.0)), (0.0, 5e-324), (-5e-324, 0.0)):
        assert below < between(below, above) <= above
    assert between(1.0, 3.0) == 2.0


def test_a_correlation_stays_within_its_bounds():
    """Three numbers and three times them: rounded, their correlation comes out as 1 + 2e-16."""
    x = np.array([0.1, -0.5, 0.4])
    assert rankings.correlation(x, 3.0 * x) == 1.0
    assert rankings.correlation(x, -3.0 * x) == -1.0


# The first draw of each figure at seed 0 on a task called `world`: a published score depends on them.
FIRST = {
    "clusters": 2252163987,
    "contraction": 3880243026,
    "control": 1783345602,
    "signs": 3893016743,
    "wild": 3875765663,
    "swap": 2702620249,
    "thresholds": 611386028,
}


def test_every_figure_draws_for_itself():
    found = {name: int(figure_draws(name, seed=0, task="world").integers(2**32)) for name in FIGURES}
    assert found == FIRST
    assert len(set(found.values())) == len(FIGURES)
