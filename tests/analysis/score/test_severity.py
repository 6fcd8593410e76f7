"""dR by what drift did to the frozen model."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import forks

from worldfork.analysis.score.curves import severity
from worldfork.analysis.score.undefined import Undefined


def test_bins_by_share_of_the_clean_return():
    """Four forks of two checkpoints with clean returns 100 and 200: the same return is mild for one, severe for the
    other."""
    found = severities([96.0, 40.0, 96.0, 150.0], [-10.0, 20.0, 30.0, 5.0], [100.0, 100.0, 200.0, 200.0], "0011")
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
    found = severities([10.0] * 4, [0.0, 0.0, 0.0, 8.0], [100.0] * 4, "0001", edges=())
    assert (found[0].mean, found[0].checkpoint_mean) == (2.0, 4.0)


def test_fresh_known_answer():
    """Six forks of three checkpoints, two episodes each; one edge, at half of a clean return of 100.

    Below the edge by the even episode: a, b, e. By the odd one: a, c, e. Worth by the other episode:
    checkpoint 0: even places a (+8) and b (-2), mean +3; odd places a (+20) and c (+4), mean +12: together +7.5.
    checkpoint 1: even places none, d being mild by both. Checkpoint 2: even places e (+1), odd places e (+3): +2;
    f is mild. So +4.75 over two checkpoints, of 3 + 3 forks.
    """
    hold = np.array([[40.0, 40.0], [40.0, 60.0], [60.0, 40.0], [90.0, 90.0], [10.0, 10.0], [60.0, 60.0]])
    gain = np.array([[20.0, 8.0], [50.0, -2.0], [4.0, 70.0], [-9.0, -5.0], [3.0, 1.0], [-6.0, -7.0]])
    severe, mild = _by_episodes(hold, hold + gain, np.array([0, 0, 0, 1, 2, 2]), edges=(0.5,))
    fresh = severe.fresh
    assert (fresh.mean, fresh.checkpoints, fresh.forks_by_even, fresh.forks_by_odd) == (4.75, 2, 3, 3)
    assert fresh.student_t == pytest.approx((4.75 - 12.7062 * 2.75, 4.75 + 12.7062 * 2.75), abs=1e-3)
    # c (+70) by even, b (+50) by odd: 60; d: -5 and -9; f: -7 and -6
    assert mild.fresh.mean == pytest.approx((60 - 7 - 6.5) / 3)
    assert (mild.fresh.checkpoints, mild.fresh.forks_by_even, mild.fresh.forks_by_odd) == (3, 3, 3)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 4))
def test_without_noise_fresh_is_the_mean_of_checkpoints(seed, episodes, checkpoints):
    """Where all episodes of a branch return the same, both halves place a fork where all episodes do."""
    draws = np.random.default_rng(seed)
    hold, update = np.repeat(draws.integers(0, 120, (2, 20, 1)).astype(float), episodes, axis=2)
    for one in _by_episodes(hold, update, draws.integers(0, checkpoints, 20)):
        assert one.fresh.forks_by_even == one.fresh.forks_by_odd == one.forks
        assert one.fresh.checkpoints == one.checkpoints
        for ours, other in ((one.fresh.mean, one.checkpoint_mean), (one.fresh.student_t, one.student_t)):
            assert ours == (other if isinstance(other, Undefined) else pytest.approx(other))


@given(st.integers(0, 2**32 - 1))
def test_which_half_is_called_even_does_not_matter(seed):
    draws = np.random.default_rng(seed)
    hold, update = draws.normal(75, 40, (2, 24, 4))
    checkpoint = draws.integers(0, 3, 24)
    swapped = _by_episodes(hold[:, [1, 0, 3, 2]], update[:, [1, 0, 3, 2]], checkpoint)
    for one, other in zip(_by_episodes(hold, update, checkpoint), swapped, strict=True):
        assert (one.fresh.forks_by_even, one.fresh.forks_by_odd) == (
            other.fresh.forks_by_odd,
            other.fresh.forks_by_even,
        )
        mean = other.fresh.mean
        assert one.fresh.mean == (mean if isinstance(mean, Undefined) else pytest.approx(mean))


def test_fresh_is_undefined_where_it_does_not_exist():
    lone = _by_episodes(np.full((2, 2), 10.0), np.full((2, 2), 30.0), np.zeros(2, int))
    assert lone[0].fresh.mean == 20.0
    assert "at least two" in lone[0].fresh.student_t.why  # checkpoints
    assert lone[-1].fresh.mean == Undefined("no fork is so mild")
    assert lone[-1].fresh.checkpoints == 0
    once = _by_episodes(np.full((2, 1), 10.0), np.full((2, 1), 30.0), np.arange(2))
    assert "two episodes" in once[0].fresh.why
    partly = severities([10.0], [1.0], [100.0], "0", hold=np.array([[10.0, np.nan]]), update=np.ones((1, 2)))
    assert "all of its episodes" in partly[0].fresh.why


@pytest.mark.parametrize(
    ("count", "lean"),
    [pytest.param(16, -7, marks=pytest.mark.nightly), pytest.param(80, 0, marks=pytest.mark.nightly), (4000, 0)],
)
def test_fresh_episodes_are_free_of_chance_in_hold(count, lean):
    """HOLD and UPDATE are one distribution: there is nothing to gain. Sorting by r_hold invents a gain where HOLD
    was unlucky; sorting by other episodes does not. With ten forks a checkpoint all forks of both halves pooled
    would come out too low by 2. With two, one of them here, fresh does by 7, as docs/scoring.md says."""
    draws = np.random.default_rng(0)
    studies = 80_000 // count
    found = [
        _by_episodes(*draws.normal(100, 60, (2, count, 4)), np.arange(count) % 8, edges=(1.0,))[0]
        for _ in range(studies)
    ]
    own, fresh = np.array([[one.checkpoint_mean, one.fresh.mean] for one in found]).T
    assert own.mean() == pytest.approx(24, abs=1)
    assert abs(fresh.mean() - lean) < 4 * np.sqrt(60**2 / 40_000)


def test_without_a_clean_return_there_is_no_severity():
    assert "clean return" in severities([1.0], [1.0], [np.nan], "0").why
    assert "not positive" in severities([1.0], [1.0], [-5.0], "0").why
    nothing = forks([1.0]).take(np.zeros(1, bool))
    assert "no forks" in severity(nothing, np.zeros(0)).why


def severities(hold_means, delta, clean, checkpoint, *, hold=None, update=None, **settings):
    world = forks(delta, hold=hold_means, checkpoint=list(checkpoint), k=range(1, len(delta) + 1))
    outcomes = dataclasses.replace(world.outcomes, hold=hold, update=update)
    return severity(dataclasses.replace(world, outcomes=outcomes), np.asarray(clean), **settings)


def _by_episodes(hold, update, checkpoint, **settings):
    """Of a clean return of 100 everywhere."""
    order = np.argsort(checkpoint, kind="stable")  # as a table has its forks
    hold, update, checkpoint = hold[order], update[order], np.asarray(checkpoint)[order]
    return severities(
        hold.mean(axis=1),
        (update - hold).mean(axis=1),
        np.full(len(hold), 100.0),
        [str(code) for code in checkpoint],
        hold=hold,
        update=update,
        **settings,
    )
