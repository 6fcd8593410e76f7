"""Contraction, proxies, variance components, common random numbers, the endpoint: worlds with known answers."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from worlds import crossed, forks

from worldfork.analysis.score import rankings, variance
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.contraction import contraction
from worldfork.analysis.score.triggers import endpoint, endpoint_scales
from worldfork.analysis.score.undefined import Undefined
from worldfork.analysis.score.variance import DesignComponents

DRAWS = np.random.default_rng(0)


def on_a_line(slope, intercept, **columns):
    hold = np.linspace(200, 700, 40)
    return forks(intercept + (slope - 1) * hold, hold=hold, **crossed(4, k=5), **columns)


def test_contraction_of_an_exact_line():
    found = contraction(on_a_line(0.25, 300.0), seed=0)
    assert found.slope == pytest.approx(0.25)
    assert [*found.slope_interval, *found.slope_bootstrap] == pytest.approx([0.25] * 4)
    assert found.crossing == pytest.approx(400.0)
    assert [*found.crossing_interval, *found.crossing_bootstrap] == pytest.approx([400.0] * 4)
    assert found.within.value == pytest.approx(0.25)
    assert found.clusters == 4
    assert found.variance_ratio == pytest.approx(0.0625)


def test_a_line_beside_the_identity_never_crosses_it():
    found = contraction(on_a_line(1.0, -50.0), seed=0)
    assert found.slope == pytest.approx(1.0)
    assert isinstance(found.crossing, Undefined)


def test_bins_at_registered_edges_and_at_quintiles():
    hold = [100.0, 350.0, 449.0, 450.0, 700.0, 800.0]
    world = forks([1, 2, 4, 8, 16, 32], hold=hold)
    bins = contraction(world, seed=0, edges=(350.0, 450.0)).bins
    assert [one.forks for one in bins] == [1, 2, 3]  # closed below, open above
    assert bins[1].mean == 3.0
    assert bins[1].standard_error == pytest.approx(np.std([2, 4], ddof=1) / np.sqrt(2))
    assert (bins[0].low, bins[0].high, bins[2].high) == (None, 350.0, None)
    assert isinstance(bins[0].standard_error, Undefined)
    quintiles = contraction(on_a_line(0.5, 0.0), seed=0).bins
    assert [one.forks for one in quintiles] == [8] * 5


def test_cartpole_has_the_papers_edges():
    world = forks([0.0, 1.0], hold=[100.0, 900.0], task=["cartpole", "cartpole"])
    assert [one.high for one in contraction(world, seed=0).bins] == [350.0, 450.0, 550.0, 650.0, None]


def test_split_half_of_pure_measurement_error():
    """Competence spread far above episode noise: the slope of one half on the other is close to 1."""
    level = np.linspace(200, 700, 200)
    hold = level[:, None] + DRAWS.normal(0, 50, (200, 30))
    world = forks(np.zeros(200), hold=hold.mean(axis=1))
    outcomes = dataclasses.replace(world.outcomes, hold=hold, update=hold)
    found = contraction(dataclasses.replace(world, outcomes=outcomes), seed=0).split_half
    assert found.slope == pytest.approx(1.0, abs=0.03)
    assert found.variance_ratio == pytest.approx(1.0, abs=0.05)


def test_constant_hold_has_no_slope():
    found = contraction(forks([1, 2, 3]), seed=0)
    assert isinstance(found.slope, Undefined)
    assert isinstance(found.variance_ratio_interval, Undefined)


@given(st.integers(0, 2**31))
def test_partial_correlation_is_that_of_residuals(seed):
    x, y, z = np.random.default_rng(seed).normal(size=(3, 20))
    y = y + z
    residuals = [v - np.polyval(np.polyfit(z, v, 1), z) for v in (x, y)]
    assert rankings.partial_correlation(x, y, z) == pytest.approx(np.corrcoef(*residuals)[0, 1])
    assert rankings.correlation(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert rankings.spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)


def test_correlations_that_do_not_exist():
    constant, varied = np.ones(5), np.arange(5.0)
    assert isinstance(rankings.correlation(constant, varied), Undefined)
    assert isinstance(rankings.correlation(varied[:2], varied[:2]), Undefined)
    # a signal that is a function of r_hold has nothing left once r_hold is held fixed
    assert isinstance(rankings.partial_correlation(3 * varied - 1, varied**2, varied), Undefined)


def test_excluded_quantile_by_hand():
    """Retained 1, 2, 3, 4; excluded 2 (one below, one equal: 1.5 / 4) and 9 (all below)."""
    signal = np.array([1.0, 2.0, 3.0, 4.0, 2.0, 9.0, np.nan])
    dropped = np.array([False] * 4 + [True] * 3)
    assert rankings.excluded_quantile(signal, dropped) == pytest.approx((1.5 / 4 + 1) / 2)
    assert isinstance(rankings.excluded_quantile(signal, np.zeros(7, bool)), Undefined)


def test_cells_with_both_signs():
    world = forks([1, -1, 2, 3, 0, -1], checkpoint=list("001122"))
    assert rankings.cells_with_both_signs(world) == pytest.approx(1 / 3)


def nested(checkpoint, fork, episode, *, checkpoints=200, per=20, episodes=6, seed=0):
    """dR with known variances on three levels."""
    draws = np.random.default_rng(seed)
    mean = draws.normal(0, checkpoint, (checkpoints, 1, 1)) + draws.normal(0, fork, (checkpoints, per, 1))
    difference = (mean + draws.normal(0, episode, (checkpoints, per, episodes))).reshape(-1, episodes)
    hold = draws.normal(500, 10, difference.shape)
    names = np.repeat(np.arange(checkpoints), per).astype(str)
    columns = {"checkpoint": names, "hold": hold.tolist(), "update": (hold + difference).tolist()}
    identity = {"k": np.tile(np.arange(1, per + 1), checkpoints)}
    return _with_episodes(difference.mean(axis=1), hold.mean(axis=1), columns, identity)


def _with_episodes(delta, r_hold, columns, identity):
    import polars as pl
    from worlds import frame

    from worldfork.analysis.read.table import read_table

    lists = {name: pl.Series(columns.pop(name)) for name in ("hold", "update")}
    table = frame(delta, hold=r_hold, **columns, **identity).with_columns(**lists)
    return read_table(table).arms[""]["world"]


def test_variance_components_recover_what_was_put_in():
    found = variance.variance_components(nested(30.0, 20.0, 50.0))
    assert found.checkpoint == pytest.approx(900, rel=0.25)
    assert found.fork == pytest.approx(400, rel=0.15)
    assert found.episode == pytest.approx(2500, rel=0.05)


NESTED = Undefined("nested")


def nested_components(world, decision_point=NESTED):
    return DesignComponents(**vars(variance.variance_components(world)), decision_point=decision_point)


def test_budget_goes_where_the_variance_is():
    between = nested(60.0, 5.0, 5.0, checkpoints=10)
    assert variance.design_advice(between, nested_components(between)).buys_most == "checkpoints"
    known = {"checkpoint": 0.0, "fork": 0.0, "episode": 100.0}
    now = variance.Split(checkpoints=5, forks=10.0, episodes=10.0)
    more = variance.detectable_effect(variance.Split(checkpoints=5, forks=10.0, episodes=40.0), known)
    assert more == pytest.approx(variance.detectable_effect(now, known) / 2)


def test_standard_errors_of_larger_budgets_by_hand():
    """Variances 36, 64 and 100 over 4 checkpoints of 16 forks with m = 25: (36 + 64 / 16 + 100 / 400) / 4."""
    known = {"checkpoint": 36.0, "fork": 64.0, "episode": 100.0}
    now = variance.Split(checkpoints=4, forks=16.0, episodes=25.0)
    assert variance.standard_error(now, known) == pytest.approx((40.25 / 4) ** 0.5)
    assert variance.standard_error(now.times(2.0, "checkpoints"), known) == pytest.approx((40.25 / 8) ** 0.5)
    assert variance.standard_error(now.times(2.0, "forks"), known) == pytest.approx((38.125 / 4) ** 0.5)
    assert variance.standard_error(now.times(np.inf, "episodes"), known) == pytest.approx((40 / 4) ** 0.5)
    assert variance.standard_error(now.times(np.inf, "forks"), known) == pytest.approx((36 / 4) ** 0.5)
    assert variance.standard_error(now.times(np.inf, "checkpoints"), known) == 0


def test_the_standard_error_of_a_balanced_study_is_that_of_its_checkpoint_means():
    draws = np.random.default_rng(2)
    means = np.repeat([0.0, 40.0, -30.0, 10.0, 90.0], 24)
    hold = draws.normal(0, 5, (120, 6))
    update = hold + (means + draws.normal(0, 20, 120))[:, None] + draws.normal(0, 9, (120, 6))
    world = forks((update - hold).mean(axis=1), hold=hold.mean(axis=1), **crossed(5, k=12))
    world = dataclasses.replace(world, outcomes=dataclasses.replace(world.outcomes, hold=hold, update=update))
    advice = variance.design_advice(world, nested_components(world))
    error = world.delta.reshape(5, 24).mean(axis=1).std(ddof=1) / 5**0.5
    assert advice.standard_error == pytest.approx(error)
    assert advice.standard_error_at["10"]["checkpoints"] == pytest.approx(error / 10**0.5)


def test_what_decision_points_share_is_not_noise():
    """Two checkpoints at three points: 10, 20, 60 and 16, 22, 64, so their means are 30 and 34; what is left after
    both means is +-1, -+1, 0, with a mean square of 4 / 2."""
    deltas, places = [10, 20, 60, 16, 22, 64], {"checkpoint": list("000111"), "k": [1, 2, 3] * 2}
    update = np.array(deltas, dtype=float)[:, None] + np.array([[-1.0, 1.0]])
    columns = {"hold": np.zeros((6, 2)).tolist(), "update": update.tolist()}
    found = variance.design_components(_with_episodes(deltas, np.zeros(6), columns, places))
    assert found.checkpoint == pytest.approx(8 - 2 / 3)
    assert found.decision_point == pytest.approx(np.var([13, 21, 62], ddof=1) - 2 / 2)
    assert found.episode == pytest.approx(2.0)
    assert found.fork == pytest.approx(2 - 2 / 2)


def test_components_of_a_design_recover_what_was_put_in_although_drift_matters():
    plain = nested(30.0, 20.0, 50.0)
    drifting = 200.0 * np.sin(plain.prefork.k)  # the same at every checkpoint
    moved = dataclasses.replace(
        plain,
        outcomes=dataclasses.replace(
            plain.outcomes,
            r_update=plain.outcomes.r_update + drifting,
            update=plain.outcomes.update + drifting[:, None],
        ),
    )
    found = variance.design_components(moved)
    assert found.checkpoint == pytest.approx(900, rel=0.25)
    assert found.fork == pytest.approx(400, rel=0.15)
    assert found.decision_point == pytest.approx(np.var(drifting), rel=0.1)
    assert variance.variance_components(moved).fork > 10_000, "nested, the drift would pass for noise"


def test_checkpoints_that_fork_elsewhere_are_nested():
    world = nested(30.0, 20.0, 50.0, checkpoints=4)
    lacking = world.take(np.arange(len(world)) != 5)
    found = variance.design_components(lacking)
    assert isinstance(found.decision_point, Undefined)
    assert found == nested_components(lacking, found.decision_point)


def test_detectable_effect_of_a_design_is_that_of_its_checkpoint_means():
    """With nothing below the checkpoint, the design's formula is the interval's."""
    effect = variance.detectable_effect(
        variance.Split(checkpoints=4, forks=24.0, episodes=30.0),
        {"checkpoint": 44.63**2, "fork": 0.0, "episode": 0.0},
    )
    assert effect == pytest.approx(89.8, abs=0.05)


def test_components_without_episodes_stay_undefined():
    found = variance.variance_components(forks([1, 2, 3, 5], checkpoint=list("0011")))
    assert isinstance(found.episode, Undefined)
    assert isinstance(found.fork, Undefined)
    assert found.checkpoint == pytest.approx((6.25 - 1.25) / 2)  # mean squares 6.25 and 1.25, two forks each


def test_common_random_numbers_by_hand():
    """Branches that share their noise differ by little: the factor is large; opposed noise makes it small."""
    hold = np.array([[0.0, 2.0], [0.0, 4.0]])
    for update, expected in ((hold * 2, (2 + 8 + 8 + 32) / (2 + 8)), (-hold, (2 + 2 + 8 + 8) / (8 + 32))):
        columns = {"hold": hold.tolist(), "update": update.tolist()}
        world = _with_episodes(update.mean(1) - hold.mean(1), hold.mean(1), columns, {})
        assert variance.crn_gain(world) == pytest.approx(expected)


def test_branches_that_differ_by_a_constant_have_no_factor():
    hold = [[1.0, 2.0], [3.0, 5.0]]
    world = _with_episodes([1.0, 1.0], [1.5, 4.0], {"hold": hold, "update": [[2.0, 3.0], [4.0, 6.0]]}, {})
    assert isinstance(variance.crn_gain(world), Undefined)


def test_endpoint_by_hand():
    """Checkpoint 0: sigma 2, fires where dR is 10, mean 4: +3. Checkpoint 1: sigma 1, fires on all: 0. Checkpoint 2
    never fires and has no part."""
    world = forks([10, -2, 6, 6, 1, 1], checkpoint=list("001122"))
    spread = np.array([2.0, 2.0, 1.0, 1.0, 9.0, 9.0])
    hold = np.stack([-spread / np.sqrt(2), spread / np.sqrt(2)], axis=1)
    fired = np.array([True, False, True, True, False, False])
    found = endpoint(
        fired, world.delta, endpoint_scales(world.delta, hold, partition(world.prefork)), seed=0, task=""
    )
    assert found.by_checkpoint == {"0": pytest.approx(3.0), "1": pytest.approx(0.0)}
    assert found.value == pytest.approx(1.5)
    assert (found.interval, found.kind) == (pytest.approx([0.0, 3.0]), "min-max")


def test_endpoint_that_does_not_exist():
    world = forks([1, 2])
    parts = partition(world.prefork)
    never, one = np.zeros(2, bool), np.array([True, False])
    hold = np.array([[1.0, 2.0], [1.0, 2.0]])
    for fired, returns in ((one, None), (never, hold), (one, np.ones((2, 2))), (one, hold[:, :1])):
        measured = endpoint_scales(world.delta, returns, parts)
        assert isinstance(endpoint(fired, world.delta, measured, seed=0, task=""), Undefined)
