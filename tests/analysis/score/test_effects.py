"""Mean dR with its averaging order, the divergence rule, quartiles and the verdict, in worlds small enough to do
by hand."""

import numpy as np
import pytest
from worlds import forks

from worldfork.analysis.score.decisions import diverged
from worldfork.analysis.score.effects import drift_quartiles, effect, verdict
from worldfork.analysis.score.undefined import Undefined


def test_cells_then_checkpoints_then_their_mean():
    """Checkpoint 0: cells of mean 2 (three forks) and 10 (one fork) average to 6; checkpoint 1: 0. The mean is 3,
    where pooled forks would give 16 / 5."""
    world = forks(
        [1, 2, 3, 10, 0],
        checkpoint=["0", "0", "0", "0", "1"],
        direction=["away", "away", "away", "toward", "away"],
    )
    found = effect(world, seed=0)
    assert found.mean == pytest.approx(3.0)
    assert found.by_checkpoint == {"0": pytest.approx(6.0), "1": pytest.approx(0.0)}
    # by direction: the mean of that direction's cell means, here (2 + 0) / 2
    assert found.by_direction == {"away": pytest.approx(1.0), "toward": pytest.approx(10.0)}
    assert (found.clusters, found.cells, found.forks) == (2, 3, 5)


def test_divergence_compares_with_the_cells_mean_hold():
    """Mean r_hold 100 in a cell: the rule drops below 30, strictly."""
    world = forks([-69.9, -70.0, -71.0, 5.0], hold=100.0)
    assert diverged(world, 0.30).dropped.tolist() == [False, False, True, False]
    assert not diverged(world, None).dropped.any()


def test_divergence_is_off_where_mean_hold_is_not_positive():
    found = diverged(forks([-500.0, 0.0], hold=-10.0), 0.30)
    assert not found.dropped.any()
    assert "positive" in found.off[0]


def test_divergence_holds_for_small_returns_too():
    """A reward may be counted in hundredths: above zero there is no return that is too small for the rule."""
    found = diverged(forks([-0.009, 0.001], hold=0.01), 0.30)
    assert (found.dropped.tolist(), found.off) == ([True, False], ())


def test_a_cell_with_nothing_retained_leaves_the_mean_and_is_counted():
    world = forks([-99, -99, 5, 7], checkpoint=["0", "0", "1", "1"], hold=100.0)
    kept = world.take(~diverged(world, 0.30).dropped)
    found = effect(kept, seed=0)
    assert found.mean == pytest.approx(6.0)
    assert (found.clusters, found.cells, found.cells_without_forks) == (1, 1, 1)
    assert isinstance(found.by_checkpoint["0"], Undefined)


def test_drift_quartiles_longer_runs_first():
    """Six forks make runs of 2, 2, 1, 1; equal levels are ordered by k."""
    world = forks([10, 20, 30, 40, 50, 60], level=[0.5, 0.1, 0.5, 0.9, 0.2, 0.3], k=[2, 1, 3, 4, 5, 6])
    # by (level, k): 20 | 50 | 60 | 10 (k 2) | 30 (k 3) | 40
    assert drift_quartiles(world)["away"] == pytest.approx([35.0, 35.0, 30.0, 40.0])


def test_drift_quartiles_need_levels_and_enough_forks():
    assert isinstance(drift_quartiles(forks([1, 2]))["away"], Undefined)
    few = drift_quartiles(forks([1, 2], level=[0.0, 1.0]))["away"]
    assert few[:2] == (1.0, 2.0)
    assert isinstance(few[3], Undefined)


@pytest.mark.parametrize(
    ("shift", "expected"), [(-10.0, "harmful"), (10.0, "helpful"), (0.0, "unresolved")], ids=lambda x: str(x)
)
def test_verdict_reads_student_t(shift, expected):
    values = np.array([-1.0, -0.5, 0.0, 0.5, 1.0]) + shift
    world = forks(values, checkpoint=[str(index) for index in range(5)])
    assert verdict(effect(world, seed=0)) == expected


def test_verdict_is_not_the_bootstraps():
    """Five means whose percentile bootstrap excludes zero and whose Student-t does not."""
    world = forks([-1.0, -1.0, -1.0, -1.0, -12.0], checkpoint=[str(index) for index in range(5)])
    found = effect(world, seed=0)
    assert found.bootstrap[1] < 0 < found.student_t[1]
    assert verdict(found) == "unresolved"


def test_one_checkpoint_has_no_verdict():
    assert isinstance(verdict(effect(forks([1, 2, 3]), seed=0)), Undefined)
