"""The three nulls against listing every rearrangement, and the level of the test that reads them."""

import itertools

import numpy as np
import pytest
from scipy import stats
from worlds import crossed, forks

from worldfork.analysis.score import permutation_nulls
from worldfork.analysis.score.permutation_nulls import judge, null_totals


def totals_of(world, fired, *, scored=None, permutations=20_000, seed=0):
    scored = np.ones(len(world), bool) if scored is None else scored
    return null_totals(
        world.prefork, world.delta, scored, np.atleast_2d(fired).T, permutations=permutations, seed=seed
    )


def shares(totals):
    values, counts = np.unique(np.round(totals, 9), return_counts=True)
    return dict(zip(values.tolist(), (counts / len(totals)).tolist(), strict=True))


def test_permuting_makes_every_subset_as_likely():
    """Powers of two: every subset of a cell has its own total."""
    world = forks([1, 2, 4, 8, 16])
    found = shares(totals_of(world, [True, True, False, False, False])["random"][:, 0])
    assert set(found) == {float(a + b) for a, b in itertools.combinations([1, 2, 4, 8, 16], 2)}
    assert all(share == pytest.approx(0.1, abs=0.015) for share in found.values())


def test_blocks_keep_the_number_of_fires_in_each():
    """Five forks in two blocks, the longer first: one fire among {1, 2, 4}, one among {8, 16}."""
    world = forks([1, 2, 4, 8, 16])
    found = shares(totals_of(world, [True, False, False, False, True])["blocks-2"][:, 0])
    assert set(found) == {float(a + b) for a in (1, 2, 4) for b in (8, 16)}
    assert all(share == pytest.approx(1 / 6, abs=0.015) for share in found.values())
    # with as many blocks as forks or more, nothing can move
    assert shares(totals_of(world, [True, False, False, False, True])["blocks-6"][:, 0]) == {17.0: 1.0}


def test_shifts_go_around_the_cell():
    world = forks([1, 2, 4, 8, 16])
    found = shares(totals_of(world, [True, True, False, False, False])["shift"][:, 0])
    assert set(found) == {3.0, 6.0, 12.0, 24.0, 17.0}
    assert all(share == pytest.approx(0.2, abs=0.015) for share in found.values())


def test_cells_are_rearranged_independently():
    world = forks([1, 2, 4, 8], checkpoint=list("0011"))
    for null in ("random", "shift"):
        found = shares(totals_of(world, [True, False, False, True])[null][:, 0])
        assert set(found) == {5.0, 9.0, 6.0, 10.0}
        assert all(share == pytest.approx(0.25, abs=0.015) for share in found.values())


@pytest.mark.parametrize("size", [24, 33, 700])
def test_moments_are_those_of_sampling_without_replacement(size):
    """Short cells sort 32-bit keys, long ones 64-bit keys, in several chunks: the answer is the same law."""
    delta = np.random.default_rng(size).normal(-3, 10, size)
    world = forks(delta)
    fires = size // 3
    totals = totals_of(world, np.arange(size) < fires)
    variance = fires * (size - fires) / size * delta.var(ddof=1)
    assert totals["random"].mean() == pytest.approx(fires * delta.mean(), abs=4 * np.sqrt(variance / 20_000))
    assert totals["random"].var() == pytest.approx(variance, rel=0.05)
    pieces = np.array_split(np.arange(size), 4)
    inside = [(np.arange(size) < fires)[piece].sum() for piece in pieces]
    expected = sum(n * delta[piece].mean() for n, piece in zip(inside, pieces, strict=True))
    assert totals["blocks-4"].mean() == pytest.approx(expected, abs=0.05 * np.sqrt(variance))


def test_always_and_never_firing_have_p_1():
    delta = np.random.default_rng(0).normal(0.1, 1 / 3, 48)  # sums that do not come out exact
    world = forks(delta, checkpoint=["0"] * 24 + ["1"] * 24)
    for fired in (np.ones(48, bool), np.zeros(48, bool)):
        totals = totals_of(world, fired, permutations=500)
        for null in permutation_nulls.VARIANTS:
            assert judge(float(delta[fired].sum()), totals[null][:, 0]).p == 1.0


def test_p_counts_draws_that_reach_the_observed_total():
    found = judge(2.0, np.array([0.0, 1.0, 2.0 - 1e-12, 3.0]))
    assert found.p == 3 / 5
    assert (found.mean, found.permutations) == (pytest.approx(1.5), 4)
    assert found.interval == pytest.approx(np.quantile([0, 1, 2, 3], [0.025, 0.975]))


def test_a_perfect_trigger_is_found_and_a_blind_one_is_not():
    world = forks(np.tile([-10.0, 10.0, -10.0, 5.0], 30), **crossed(5, k=12))
    perfect, blind = world.delta > 0, np.arange(120) % 3 == 0
    totals = totals_of(world, np.array([perfect, blind]), permutations=2_000)
    for null in ("random", "shift"):
        assert judge(float(world.delta[perfect].sum()), totals[null][:, 0]).p < 0.01
        assert judge(float(world.delta[blind].sum()), totals[null][:, 1]).p > 0.05


def test_only_scored_forks_take_part():
    """The excluded fork would dominate every total."""
    world = forks([1, 2, 4, -1e6], checkpoint=list("0000"))
    scored = np.array([True, True, True, False])
    for null, values in totals_of(world, [True, False, False, False], scored=scored).items():
        assert set(shares(values[:, 0])) <= {1.0, 2.0, 4.0}, null


def test_draws_depend_on_the_seed_and_on_nothing_else():
    world = forks(np.random.default_rng(0).normal(size=48), **crossed(2, k=12))
    flags = np.random.default_rng(1).random((3, 48)) < 0.3
    first = totals_of(world, flags, permutations=101)
    np.testing.assert_array_equal(first["random"], totals_of(world, flags, permutations=101)["random"])
    assert not np.array_equal(first["random"], totals_of(world, flags, permutations=101, seed=1)["random"])
    alone = totals_of(world, flags[1], permutations=101)
    for null in permutation_nulls.VARIANTS:  # a policy's null does not depend on which others are compared
        np.testing.assert_allclose(first[null][:, 1], alone[null][:, 0])


def test_p_is_uniform_where_nothing_is_to_be_found():
    """Independent labels: the permutation test is exact, so its p values are those of a uniform variable."""
    draws = np.random.default_rng(5)
    world = forks(np.zeros(120), **crossed(5, k=12))
    found = []
    for _ in range(100):
        delta = draws.normal(size=120)
        fired = (draws.random(120) < 0.3)[:, None]
        null = null_totals(world.prefork, delta, np.ones(120, bool), fired, permutations=199, seed=0)
        found.append(judge(float(delta[fired[:, 0]].sum()), null["random"][:, 0]).p)
    assert stats.kstest(found, "uniform").pvalue > 1e-3
