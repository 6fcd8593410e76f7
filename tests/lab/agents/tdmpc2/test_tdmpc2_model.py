"""TD-MPC2's numerics: known answers, and one update beside an independent one in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tdmpc2_reference import Reference, update

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Window
from worldfork.lab.agents.sequences import Sequences
from worldfork.lab.agents.tdmpc2 import losses
from worldfork.lab.agents.tdmpc2.learning import LatentLoss, learn, possible_starts
from worldfork.lab.agents.tdmpc2.networks import Networks, Policy, discount_of, mish, simnorm, symexp
from worldfork.lab.agents.tdmpc2.optimiser import initialise, rates_of
from worldfork.lab.agents.tdmpc2.plugin import TDMPC2Plugin
from worldfork.lab.environments import load

TINY = Networks(
    2, 1, 0.9, latent=4, encoder=3, hidden=4, values=3, bins=11, group=2, dropout=0.3, precision="float32"
)


def test_simnorm_puts_every_group_on_a_simplex():
    x = jnp.log(jnp.array([1.0, 3.0, 2.0, 2.0]))
    np.testing.assert_allclose(simnorm(x, group=2), [0.25, 0.75, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(simnorm(x, group=4), [0.125, 0.375, 0.25, 0.25], rtol=1e-6)


def test_mish_is_x_times_tanh_of_softplus_everywhere():
    x = np.array([-80.0, -5.0, -1.0, 0.0, 0.5, 3.0, 19.0, 21.0, 500.0])
    expected = x * np.tanh(np.logaddexp(0.0, x))
    np.testing.assert_allclose(mish(jnp.asarray(x)), expected, rtol=2e-6, atol=1e-30)
    assert np.isfinite(jax.vmap(jax.grad(mish))(jnp.asarray(x))).all()


@pytest.mark.parametrize("x", [-3000.0, -1.5, 0.0, 0.2, 4.0, 20000.0])
def test_a_number_goes_into_two_bins_and_comes_back(x):
    """What is most likely under the loss decodes to the number: logits that are the two-hot weights' logarithms."""
    networks = Networks(2, 1, 0.9)
    spaced = (np.sign(x) * np.log1p(abs(x)) + 10) / 0.2
    low = min(int(spaced), 99)
    weights = np.zeros(101)
    weights[low], weights[low + 1] = low + 1 - spaced, spaced - low
    logits = jnp.log(jnp.asarray(weights) + 1e-30)
    assert float(networks.decode(logits)) == pytest.approx(x, rel=2e-4, abs=1e-5)
    entropy = -np.sum(weights[weights > 0] * np.log(weights[weights > 0]))
    assert float(networks.log_loss(logits, jnp.asarray(x))) == pytest.approx(entropy, abs=1e-3)


def test_what_has_learnt_nothing_expects_nothing():
    params = TINY.initialise(jax.random.key(0))
    latent = TINY.encode(params, jnp.ones((5, 2)))
    np.testing.assert_allclose(jnp.sum(latent.reshape(5, 2, 2), -1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(TINY.reward(params, latent, jnp.ones((5, 1))), 0.0, atol=1e-5)
    np.testing.assert_allclose(TINY.decode(TINY.value_logits(params, latent, jnp.ones((5, 1)))), 0.0, atol=1e-5)
    assert float(symexp(jnp.array(-np.log(3.0)))) == pytest.approx(-2.0)


def test_the_discount_follows_from_the_length_of_an_episode():
    assert [discount_of(steps) for steps in (1, 25, 100, 250, 500, 1000, 10_000)] == [
        0.95, 0.95, 0.95, 0.98, 0.99, 0.995, 0.995,
    ]  # fmt: skip


@pytest.mark.parametrize(("size", "millions"), [("1M", 1.21), ("5M", 4.96)])
def test_the_sizes_have_the_published_number_of_parameters(size, millions):
    networks = TDMPC2Plugin(size=size).networks(load("cheetah-run"))
    assert (networks.observation_size, networks.action_size) == (17, 6)
    shapes = jax.eval_shape(networks.initialise, jax.random.key(0))
    trained = [x.size for name, x in shapes.items() if not name.startswith(("target/", "scale/"))]
    assert round(sum(trained) / 1e6, 2) == millions


def test_widths_that_can_not_be_are_refused():
    with pytest.raises(WorldforkError, match="groups of 8"):
        Networks(2, 1, 0.9, latent=12)


def test_the_policys_density_integrates_to_one():
    one = Policy(jnp.array([0.3]), jnp.array([-0.5]))
    normal = np.linspace(-8, 8, 20_001)
    action = np.asarray(jax.vmap(lambda x: one.sample(x[None])[0])(jnp.asarray(normal)), np.float64)
    density = np.exp(np.asarray(jax.vmap(lambda x: one.log_probability(x[None]))(jnp.asarray(normal)), np.float64))
    assert np.trapezoid(density, action) == pytest.approx(1.0, abs=1e-3)
    assert float(one.sample(jnp.zeros(1))[0]) == pytest.approx(np.tanh(0.3))


def test_a_sequence_lies_within_one_episode_and_one_window():
    first = np.zeros((2, 10), bool)
    first[:, [0, 4]] = True
    first[1, 8] = True  # beyond what is real
    columns = np.zeros((2, 10, 1)), np.zeros((2, 10, 1)), np.zeros((2, 10)), np.zeros((2, 10, 1))
    starts, count = possible_starts(Window(*columns, first=first, size=np.array([10, 7])), 3)
    assert [list(row[:n]) for row, n in zip(starts, count, strict=True)] == [[0, 1, 4, 5, 6, 7], [0, 1, 4]]
    window = Window(*columns, first=first, size=np.array([10, 7]))
    loss_function = LatentLoss(TINY, 200, 3)
    rows = jax.tree.map(lambda x: x[0], loss_function.rows(window))
    numbered = rows._replace(sequences=rows.sequences._replace(reward=jnp.arange(10.0)))
    drawn = np.asarray(loss_function.sample(numbered, jnp.asarray(10), jax.random.key(0)).reward)
    assert set(drawn[:, 0]) == {0, 1, 4, 5, 6, 7}
    np.testing.assert_array_equal(drawn, drawn[:, :1] + np.arange(3))
    pieces, real = loss_function.pieces(numbered, jnp.asarray(10))
    np.testing.assert_array_equal(real, [True, False, True])
    np.testing.assert_array_equal(pieces.reward[2, 0], [6, 7, 8])


def test_a_target_is_the_reward_and_the_lesser_of_two_values():
    params = learnt(0)
    latent = TINY.encode(params, jnp.ones((2, 3, 2)))
    draws = losses.draw(TINY, jax.random.key(1), sequences=2, steps=3, functions=3)
    action = TINY.policy(params, latent).sample(draws.normal)
    values = np.asarray(TINY.decode(TINY.value_logits(params, latent, action, name="target")))
    reward = jnp.ones((2, 3))
    target = losses.td_target(TINY, params, latent, reward, draws=draws)
    np.testing.assert_allclose(target, 1 + 0.9 * values[np.asarray(draws.pair)].min(0), rtol=1e-5)
    fallen = jnp.array([[False, True, False], [True, False, False]])
    stopped = losses.td_target(TINY, params, latent, reward, draws=draws, terminated=fallen)
    np.testing.assert_array_equal(stopped, np.where(fallen, 1.0, target))
    each = jax.vmap(lambda key: losses.draw(TINY, key, sequences=1, steps=1, functions=1).pair)
    pairs = np.asarray(jax.jit(each)(jax.random.split(jax.random.key(0), 40)))
    assert {tuple(sorted(pair)) for pair in pairs} == {(0, 1), (0, 2), (1, 2)}


def learnt(seed: int) -> dict[str, jax.Array]:
    """Parameters that have something to say."""
    random = np.random.default_rng(seed)
    fresh = TINY.initialise(jax.random.key(seed))
    moved = {name: x + 0.5 * random.normal(size=x.shape).astype(np.float32) for name, x in fresh.items()}
    return {**moved, "scale/policy": jnp.array([2.5])}


@functools.cache
def both_updates():
    """The same update here, in double precision, and in the reference, from moments that are not zero."""
    random = np.random.default_rng(1)
    params = {name: np.asarray(x, np.float64) for name, x in learnt(0).items()}
    moments = {}
    for name, x in initialise(learnt(0)).items():
        drawn = random.uniform(0.5, 1.5, x.shape) * (1e-3 if name.startswith("square/") else 1e-2)
        moments[name] = np.full(1, 7.0) if name.startswith("count/") else drawn
    batch = Sequences(
        random.normal(size=(5, 3, 2)),
        random.uniform(-1, 1, (5, 3, 1)),
        random.uniform(0, 4, (5, 3)),
        random.normal(size=(5, 3, 2)),
        np.zeros((5, 3), bool),
    )
    with jax.enable_x64(True):
        key, loss_function = jax.random.key(3), LatentLoss(TINY, 5, 3)
        step = jax.jit(functools.partial(learn, loss_function, rates=rates_of(0.01)))
        ours = step(params, moments, batch, key=key)
        world = losses.draw(TINY, key, sequences=5, steps=3, functions=3)
        prior = losses.draw(TINY, jax.random.fold_in(key, 1), sequences=5, steps=4, functions=2)
    reference = Reference(TINY, batch, *(type(one)(*map(np.asarray, one)) for one in (world, prior)))
    return ours, update(reference, params, moments, rate=0.01)


def test_one_update_is_that_of_an_independent_reference_in_float64():
    (params, moments, metrics), (expected, expected_moments, loss, policy) = both_updates()
    assert float(metrics["model_loss"]) == pytest.approx(loss, rel=1e-9)
    assert float(metrics["policy_loss"]) == pytest.approx(policy, rel=1e-9)
    assert params.keys() == expected.keys()
    assert moments.keys() == expected_moments.keys()
    for name, x in expected.items():
        np.testing.assert_allclose(params[name], x, rtol=1e-6, atol=1e-8, err_msg=name)
    for name, x in expected_moments.items():
        np.testing.assert_allclose(moments[name], x, rtol=1e-5, atol=1e-8, err_msg=name)


def test_the_reference_moves_every_parameter():
    """So that none of them could be forgotten on both sides."""
    _, (expected, *_) = both_updates()
    assert all(np.any(expected[name] != np.asarray(x)) for name, x in learnt(0).items())
