"""The three nulls against listing every rearrangement, and the level of the test that reads them."""

import itertools

import numpy as np
import pytest
from scipy import stats
from worlds import crossed, forks

from worldfork.analysis.score import permutation_nulls
from worldfork.analysis.score.permutation_nulls import ArmPolicies, Policies, control_totals, judge


def totals_of(world, fired, *, scored=None, permutations=20_000, seed=0):
    scored = np.ones(len(world), bool) if scored is None else scored
    fired = np.atleast_2d(fired).T
    (totals,) = totals_of_sets(world, [Policies(scored, fired)], permutations=permutations, seed=seed)
    return totals


def totals_of_sets(world, sets, *, permutations, seed=0):
    (totals,) = control_totals(
        [ArmPolicies(world.prefork, world.delta, sets)], permutations=permutations, seed=seed
    )
    return totals


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


def test_two_sets_of_policies_are_scored_side_by_side():
    world = forks([1, 2, 4, 8], checkpoint=list("0011"))
    everything, part = np.ones(4, bool), np.array([True, True, True, False])
    fired = np.array([[True, False, True, False]]).T
    both = totals_of_sets(world, [Policies(everything, fired), Policies(part, fired)], permutations=999, seed=3)
    for scored, found in zip((everything, part), both, strict=True):
        (alone,) = totals_of_sets(world, [Policies(scored, fired)], permutations=999, seed=3)
        for null in permutation_nulls.VARIANTS:
            np.testing.assert_allclose(found[null], alone[null])


def test_two_sets_that_differ_in_few_cells_have_the_totals_that_each_has_alone():
    """Cells in which nothing differs are added up once for both, and in a job without any difference so is all."""
    draws = np.random.default_rng(2)
    world = forks(draws.normal(size=1440), **crossed(30, k=24))
    fired = draws.random((1440, 3)) < 0.4
    other, scored = fired.copy(), np.ones(1440, bool)
    other[1:5], scored[30:33] = ~other[1:5], False
    sets = [Policies(scored, other), Policies(np.ones(1440, bool), fired), Policies(np.ones(1440, bool), fired)]
    together = totals_of_sets(world, sets, permutations=99)
    for policies, found in zip(sets, together, strict=True):
        (alone,) = totals_of_sets(world, [policies], permutations=99)
        for null in permutation_nulls.VARIANTS:
            np.testing.assert_allclose(found[null], alone[null], rtol=1e-12)


def arm(draws, *, checkpoints=30, dropped=0, policies=3, task="world"):
    """An arm with dR and policies of its own, two sets of them, of which one leaves forks out."""
    grid = crossed(checkpoints, k=24)
    world = forks(draws.normal(size=48 * checkpoints), task=[task] * 48 * checkpoints, **grid)
    part = np.ones(len(world), bool)
    part[draws.choice(len(world), dropped, replace=False)] = False
    sets = [
        Policies(keep, draws.random((len(world), policies)) < 0.4) for keep in (part, np.ones(len(world), bool))
    ]
    return ArmPolicies(world.prefork, world.delta, sets)


def test_arms_have_the_totals_that_each_has_alone():
    """To the last bit, whatever diverged in them, next to arms with other cells or of another task."""
    draws = np.random.default_rng(6)
    arms = [
        arm(draws, dropped=40),
        arm(draws, policies=2),
        arm(draws, dropped=1),
        arm(draws, checkpoints=29, dropped=3),
        arm(draws, dropped=40),
        arm(draws, task="another"),
    ]
    finished = []
    together = list(control_totals(arms, permutations=99, seed=3, advance=finished.append))
    assert sum(finished) == sum(len(each.delta) for each in arms)
    for each, totals in zip(arms, together, strict=True):
        (alone,) = control_totals([each], permutations=99, seed=3)
        for of_set, expected in zip(totals, alone, strict=True):
            for null in permutation_nulls.VARIANTS:
                np.testing.assert_array_equal(of_set[null], expected[null])


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
        everything = np.ones(120, bool)
        tested = ArmPolicies(world.prefork, delta, [Policies(everything, fired)])
        ((null,),) = control_totals([tested], permutations=199, seed=0)
        found.append(judge(float(delta[fired[:, 0]].sum()), null["random"][:, 0]).p)
    assert stats.kstest(found, "uniform").pvalue > 1e-3
