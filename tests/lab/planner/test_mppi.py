"""MPPI: known answers on values that are written down."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from worldfork.errors import WorldforkError
from worldfork.lab.planner.mppi import MPPI, plan, refit, shift

SMALL = MPPI(candidates=64, proposals=4, horizon=2, iterations=5, elites=8)
GOAL = jnp.array([[0.3, -0.6], [0.1, 0.8]])
NOTHING = jnp.zeros((4, 2, 2))


def near_goal(actions, key):
    return -50.0 * jnp.sum((actions - GOAL) ** 2, (1, 2))


def search(imagine=near_goal, *, proposed=NOTHING, warm=None, number=0, settings=SMALL):
    warm = jnp.zeros((2, 2)) if warm is None else warm
    return plan(imagine, warm, proposed=proposed, plan_key=jax.random.key(number), settings=settings)


def test_defaults_are_the_published_ones():
    assert dataclasses.astuple(MPPI()) == (512, 24, 3, 6, 64, 0.5, 0.05, 2.0)


def test_a_search_comes_near_the_best_plan_and_its_spread_falls_to_the_floor():
    found = search(settings=dataclasses.replace(SMALL, candidates=512, iterations=8))
    np.testing.assert_allclose(found.mean, GOAL, atol=0.1)
    np.testing.assert_allclose(found.action, GOAL[0], atol=0.3)
    assert found.finite
    assert (found.std >= 0.05).all()
    assert (found.std < 0.3).all()


def test_elites_weigh_by_their_value():
    """Two elites whose values differ by log(3) / temperature weigh 3 to 1."""
    elites = jnp.array([[[1.0]], [[-1.0]]])
    mean, std = refit(elites, jnp.array([2.0 * np.log(3.0), 0.0]), SMALL)
    assert float(mean[0, 0]) == pytest.approx(0.5)
    assert float(std[0, 0]) == pytest.approx(np.sqrt(0.75))
    mean, std = refit(elites, jnp.array([0.0, -jnp.inf]), SMALL)
    assert (float(mean[0, 0]), float(std[0, 0])) == (1.0, pytest.approx(0.05))


def test_what_the_policy_proposes_is_followed_where_nothing_else_is_worth_anything():
    proposed = jnp.broadcast_to(jnp.array([0.25, 0.5]), (4, 2, 2))

    def only_proposals(actions, key):
        return jnp.where(jnp.all(actions[:, 0] == proposed[0, 0], -1), 1.0, -1e6)

    found = search(only_proposals, proposed=proposed)
    np.testing.assert_allclose(found.action, [0.25, 0.5])
    np.testing.assert_allclose(found.mean, proposed[0])
    np.testing.assert_allclose(found.std, 0.05)


def test_which_elite_is_followed_is_drawn_from_the_key_by_weight():
    """Two proposals are all that counts, at odds of 3 to 1; the same key draws the same one."""
    proposed = jnp.array([0.5, -0.5])[:, None, None] * jnp.ones((2, 2, 2))
    two = dataclasses.replace(SMALL, proposals=2, elites=2)

    def odds(actions, key):
        return jnp.where(
            actions[:, 0, 0] == 0.5, 2.0 * jnp.log(3.0), jnp.where(actions[:, 0, 0] == -0.5, 0.0, -1e6)
        )

    draw = jax.jit(jax.vmap(lambda key: plan(
        odds, jnp.zeros((2, 2)), proposed=proposed, plan_key=key, settings=two).action[0]))  # fmt: skip
    keys = jax.random.split(jax.random.key(0), 400)
    drawn = np.asarray(draw(keys))
    assert set(drawn.tolist()) == {0.5, -0.5}
    assert 0.65 < np.mean(drawn == 0.5) < 0.85
    np.testing.assert_array_equal(drawn, draw(keys))


def test_candidates_that_are_not_finite_rank_last_and_without_any_the_action_is_zero():
    def half(actions, key):
        return jnp.where(actions[:, 0, 0] > 0, jnp.nan, near_goal(actions, key))

    found = search(half)
    assert found.finite
    assert found.action[0] <= 0
    nothing = search(lambda actions, key: jnp.full(len(actions), jnp.nan))
    assert not nothing.finite
    np.testing.assert_array_equal(nothing.action, 0.0)
    np.testing.assert_array_equal(nothing.mean, 0.0)
    assert search(warm=jnp.full((2, 2), jnp.nan)).finite


def test_the_next_search_begins_one_step_on():
    np.testing.assert_array_equal(shift(GOAL), [GOAL[1], [0.0, 0.0]])


def test_every_iteration_imagines_with_a_key_of_its_own():
    luck = jax.jit(lambda key: plan(
        lambda actions, key: jnp.full(len(actions), jax.random.uniform(key)), jnp.zeros((2, 2)),
        proposed=NOTHING, plan_key=key, settings=SMALL))  # fmt: skip
    assert luck(jax.random.key(0)).finite
    with pytest.raises(WorldforkError, match="fewer proposals than candidates"):
        MPPI(candidates=8, proposals=8, elites=2)
