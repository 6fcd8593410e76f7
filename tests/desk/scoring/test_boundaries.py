"""Rules at their boundaries: a dR of exactly zero, a threshold met exactly, a cell beside another."""

import numpy as np
import pytest
from worlds import forks

from worldfork.desk.scoring.divergence import diverged
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.ranking import ranking


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
