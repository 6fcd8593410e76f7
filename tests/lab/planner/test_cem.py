"""The search is tested where the best action is known: a bowl, and a linear system with its LQR action."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

from worldfork.errors import WorldforkError
from worldfork.lab.planner.cem import CEM, plan, shift

KEY = jax.random.key(0)


@pytest.mark.parametrize("actions", [1, 6])
def test_finds_the_bottom_of_a_bowl(actions):
    target = jnp.linspace(-0.7, 0.6, 3 * actions).reshape(3, actions)
    found = plan(
        lambda candidates: -jnp.sum((candidates - target) ** 2, (1, 2)),
        jnp.zeros((3, actions)),
        KEY,
        settings=CEM(minimum_std=0.01),
    )
    assert bool(found.finite)
    np.testing.assert_allclose(found.mean, target, atol=0.1 if actions == 6 else 0.02)


def test_finds_the_lqr_action():
    """With the optimal cost-to-go as terminal value, the best plan's first action is -Kx at any horizon."""
    a, b = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]])
    q, r = np.eye(2), 0.1 * np.eye(1)
    cost_to_go = solve_discrete_are(a, b, q, r)
    gain = np.linalg.solve(r + b.T @ cost_to_go @ b, b.T @ cost_to_go @ a)
    x = np.array([0.2, -0.1])

    def imagine(candidates):
        def one(actions):
            state, value = jnp.asarray(x), 0.0
            for action in actions:
                value -= state @ q @ state + action @ r @ action
                state = a @ state + b @ action
            return value - state @ cost_to_go @ state

        return jax.vmap(one)(candidates)

    found = plan(imagine, jnp.zeros((4, 1)), KEY, settings=CEM(horizon=4, minimum_std=0.005, iterations=8))
    np.testing.assert_allclose(found.action, -gain @ x, atol=0.02)


def test_same_key_same_plan_and_another_key_another():
    bowl = lambda candidates: -jnp.sum(candidates**2, (1, 2))  # noqa: E731
    search = jax.jit(lambda key: plan(bowl, jnp.zeros((3, 2)), key, settings=CEM()).action)
    np.testing.assert_array_equal(search(KEY), search(KEY))
    assert not np.array_equal(search(KEY), search(jax.random.key(1)))


def test_candidates_that_are_not_finite_rank_last():
    """Half of the space is poisoned, with +inf too: the search must find the best of the other half."""

    def imagine(candidates):
        first = candidates[:, 0, 0]
        value = -((first - 0.5) ** 2)
        return jnp.where(first > 0.3, jnp.where(first > 0.6, jnp.inf, jnp.nan), value)

    found = plan(imagine, jnp.zeros((2, 1)), KEY, settings=CEM(horizon=2))
    assert bool(found.finite)
    assert 0.0 < float(found.action[0]) <= 0.3


@pytest.mark.parametrize("poison", [jnp.nan, jnp.inf, -jnp.inf])
def test_with_nothing_finite_it_says_so(poison):
    found = plan(lambda c: jnp.full(len(c), poison), jnp.full((3, 2), jnp.nan), KEY, settings=CEM())
    assert not bool(found.finite)
    np.testing.assert_array_equal(found.action, 0.0)


def test_masked_actions_stay_zero_and_the_rest_within_bounds():
    found = plan(
        lambda c: jnp.sum(c, (1, 2)), jnp.zeros((3, 4)), KEY, settings=CEM(), mask=jnp.array([1.0, 0.0, 1.0, 0.0])
    )
    np.testing.assert_array_equal(found.action[1::2], 0.0)
    assert (found.action[::2] > 0.9).all()
    assert (found.action <= 1.0).all()


def test_a_proposal_is_found_where_the_drawn_candidates_never_look():
    """All but one sequence, far from the start of a narrow search, are worth nothing."""
    best = jnp.full((3, 2), 0.9)
    settings = CEM(candidates=32, elites=4, initial_std=0.05, minimum_std=0.01, proposals=2)

    def imagine(candidates):
        assert len(candidates) == settings.candidates
        return jnp.exp(-jnp.sum((candidates - best) ** 2, (1, 2)))

    proposed = jnp.stack([best, jnp.full((3, 2), jnp.nan)])
    found = plan(imagine, jnp.zeros((3, 2)), KEY, settings=settings, proposed=proposed)
    alone = plan(imagine, jnp.zeros((3, 2)), KEY, settings=dataclasses.replace(settings, proposals=0))
    np.testing.assert_allclose(found.mean, best, atol=0.1)
    assert bool(found.finite)
    assert float(jnp.abs(alone.mean - best).max()) > 0.2


def test_a_mask_covers_proposals_too():
    settings = CEM(candidates=16, elites=4, proposals=1)
    found = plan(lambda c: jnp.sum(c, (1, 2)), jnp.zeros((3, 2)), KEY, settings=settings,
                 mask=jnp.array([1.0, 0.0]), proposed=jnp.ones((1, 3, 2)))  # fmt: skip
    np.testing.assert_array_equal(found.mean[:, 1], 0.0)


def test_proposals_leave_candidates_to_draw():
    with pytest.raises(
        WorldforkError, match="At least one of the planner's `candidates` is drawn; got 12 `proposals`"
    ):
        CEM(candidates=16, elites=8, keep=0.5, proposals=12)


def test_shift_moves_the_plan_one_step_on():
    np.testing.assert_array_equal(shift(jnp.arange(3.0)[:, None]), [[1.0], [2.0], [2.0]])


@pytest.mark.parametrize(("elites", "candidates"), [(64, 32), (1, 32)])
def test_impossible_numbers_of_elites_are_refused(elites, candidates):
    with pytest.raises(WorldforkError, match=f"{elites} of {candidates}"):
        CEM(elites=elites, candidates=candidates)


SEARCHES = [{}, {"keep": 0.5}, {"colour": 0.6}, {"keep": 0.5, "colour": 0.6, "temperature": 0.0}]
WORTH = {
    "a bowl": lambda c: -jnp.sum((c - 0.3) ** 2, (1, 2)),
    "ties": lambda c: jnp.round(jnp.sum(c, (1, 2))),
    "all the same": lambda c: jnp.zeros(len(c)),
    "partly infinite": lambda c: jnp.where(c[:, 0, 0] > 0.2, jnp.inf, jnp.sum(c, (1, 2))),
    "partly no number": lambda c: jnp.where(c[:, 0, 0] > -0.3, jnp.nan, jnp.sum(c, (1, 2))),
    "never finite": lambda c: jnp.full(len(c), jnp.nan),
}


@pytest.mark.parametrize("worth", WORTH)
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_a_plan_is_finite_unless_no_candidate_is(search, worth):
    settings = CEM(candidates=12, horizon=2, iterations=3, elites=4, **search)
    warm, mask = jnp.array([[0.5, -0.2, 0.1], [jnp.nan, 0.0, 0.3]]), jnp.array([1.0, 0.0, 1.0])
    found = plan(WORTH[worth], warm, KEY, settings=settings, mask=mask)
    assert bool(found.finite) == (worth != "never finite")
    assert np.isfinite(found.mean).all()
    assert not np.any(found.mean[:, 1])  # an action that does not exist
    if worth == "never finite":
        assert not np.any(found.mean)
