"""Intervals on clusters: against enumeration by hand, and against what the paper states."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldfork.analysis.score import intervals
from worldfork.analysis.score.undefined import Undefined

VALUES = st.lists(st.integers(-1000, 1000), min_size=2, max_size=5).map(lambda x: np.array(x, float))


def test_bootstrap_of_two_clusters_by_hand():
    """The four resamples have means 0, 1/2, 1/2, 1: the quantiles interpolate between neighbours."""
    assert intervals.bootstrap(np.array([0.0, 1.0]), seed=0, task="") == pytest.approx([0.0375, 0.9625])


@given(VALUES)
def test_bootstrap_lists_every_resample(values):
    means = [np.mean(chosen) for chosen in itertools.product(values, repeat=len(values))]
    expected = np.quantile(means, [0.025, 0.975])
    for seed in (0, 1):  # exact: the seed has no part in it
        assert intervals.bootstrap(values, seed=seed, task="a") == pytest.approx(expected)


def test_bootstrap_of_many_clusters_is_seeded():
    values = np.random.default_rng(0).normal(size=12)
    first = intervals.bootstrap(values, seed=1, task="a")
    assert first == intervals.bootstrap(values, seed=1, task="a")
    assert first != intervals.bootstrap(values, seed=2, task="a")
    spread = 1.96 * values.std() / np.sqrt(12)
    assert first == pytest.approx([values.mean() - spread, values.mean() + spread], abs=0.1)


def test_the_papers_dose_interval_and_detectable_effect():
    """Appendix "the dose interval": four checkpoints, [-159.0, -17.0], t = 3.182, detectable 89.8.

    The interval alone fixes the mean (-88.0) and the deviation (44.63); the detectable effect then follows.
    """
    half = (159.0 - 17.0) / 2
    deviation = half / 3.182 * np.sqrt(4)
    shape = np.array([-1.0, -0.5, 0.5, 1.0])
    values = -88.0 + shape * deviation / shape.std(ddof=1)
    assert intervals.student_t(values) == pytest.approx([-159.0, -17.0], abs=0.05)
    assert intervals.detectable(values) == pytest.approx(89.8, abs=0.05)
    # The "underpowered" reading of an earlier draft took t = 4.303, two degrees of freedom, from the wrong row.
    assert 4.303 / 3.182 * half > 88.0


@pytest.mark.parametrize(
    ("means", "mean", "bootstrap", "student_t"),
    [
        ([-139.9, -125.4, -121.6, -110.8, -69.1], -113.4, [-131.2, -90.1], [-146.7, -80.0]),
        ([-111.0, -86.9, -84.2, -83.7, -44.6], -82.1, [-100.2, -60.9], [-111.7, -52.5]),
        ([-21.3, -17.9, -9.3, 1.0, 27.8], -3.9, [-17.5, 13.0], [-28.4, 20.6]),
    ],
    ids=["cartpole", "walker", "cheetah"],
)
def test_the_papers_two_intervals_belong_together(means, mean, bootstrap, student_t):
    """The paper gives both intervals of each task and not the five checkpoint means. These, found by search, give
    all five of a task's figures at once: its exact bootstrap and its Student-t are the two computed here."""
    values = np.array(means)
    assert values.mean() == pytest.approx(mean, abs=0.06)
    assert intervals.bootstrap(values, seed=0, task="") == pytest.approx(bootstrap, abs=0.06)
    assert intervals.student_t(values) == pytest.approx(student_t, abs=0.06)


def test_one_cluster_has_no_interval():
    one = np.array([3.0])
    for figure in (intervals.bootstrap(one, seed=0, task=""), intervals.student_t(one), intervals.detectable(one)):
        assert isinstance(figure, Undefined)
        assert "at least two" in figure.why


def test_fewer_than_three_clusters_show_their_range():
    found = intervals.cluster_interval(np.array([0.234, 0.659]), seed=0, task="")
    assert (found.interval, found.kind) == ((0.234, 0.659), "min-max")
    assert intervals.cluster_interval(np.array([0.1, 0.2, 0.3]), seed=0, task="").kind == "bootstrap"
