"""dR by what drift did to the frozen model."""

import numpy as np
import pytest

from worldfork.desk.scoring.severity import severity
from worldfork.desk.scoring.undefined import Undefined


def test_bins_by_share_of_the_clean_return():
    """Four forks of two checkpoints with clean returns 100 and 200: the same return is mild for one, severe for the
    other."""
    found = severity(
        np.array([96.0, 40.0, 96.0, 150.0]),
        np.array([-10.0, 20.0, 30.0, 5.0]),
        np.array([100.0, 100.0, 200.0, 200.0]),
        np.array([0, 0, 1, 1]),
    )
    assert [(one.low, one.high) for one in found] == [(None, 0.5), (0.5, 0.75), (0.75, 0.95), (0.95, None)]
    assert [(one.forks, one.checkpoints, one.helped) for one in found] == [
        (2, 2, 2),
        (0, 0, 0),
        (1, 1, 1),
        (1, 1, 0),
    ]
    assert found[0].mean == 25.0
    assert found[0].student_t == pytest.approx((25 - 12.7062 * 5, 25 + 12.7062 * 5), abs=0.01)
    assert isinstance(found[1].mean, Undefined)
    assert isinstance(found[2].student_t, Undefined)


def test_checkpoints_weigh_alike_in_the_interval_and_forks_in_the_mean():
    found = severity(
        np.full(4, 10.0), np.array([0.0, 0.0, 0.0, 8.0]), np.full(4, 100.0), np.array([0, 0, 0, 1]), edges=()
    )
    assert (found[0].mean, found[0].checkpoint_mean) == (2.0, 4.0)


def test_fresh_episodes_are_free_of_chance_in_hold():
    """HOLD and UPDATE are one distribution: there is nothing to gain. Sorting by r_hold invents a gain where HOLD
    was unlucky; sorting by other episodes does not."""
    draws = np.random.default_rng(0)
    hold, update = draws.normal(100, 60, (2, 4000, 4))
    found = severity(
        hold.mean(axis=1),
        (update - hold).mean(axis=1),
        np.full(4000, 100.0),
        np.arange(4000) % 8,
        hold=hold,
        update=update,
    )
    error = 60 * np.sqrt(2) / np.sqrt(2 * found[0].forks)
    assert found[0].mean > 40
    assert abs(found[0].fresh_mean) < 4 * error


def test_without_a_clean_return_there_is_no_severity():
    world = (np.array([1.0]), np.array([1.0]))
    assert "clean return" in severity(*world, np.array([np.nan]), np.array([0])).why
    assert "not positive" in severity(*world, np.array([-5.0]), np.array([0])).why
    assert "no forks" in severity(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, int)).why
