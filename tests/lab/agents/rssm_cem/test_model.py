"""The model's parts where the answer is known: two-hot, returns, latents, filtering; and its sizes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from worldfork.lab.agents import layers
from worldfork.lab.agents.rssm_cem import losses, optimiser
from worldfork.lab.agents.rssm_cem.losses import filter_sequences, lambda_returns, model_loss, replay_value_loss
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin
from worldfork.lab.agents.rssm_cem.rssm import RSSM, Latent
from worldfork.lab.agents.sequences import Sequences

MODEL = RSSM(3, 2, deter=8, groups=2, classes=4, hidden=8, bins=11)


@functools.cache
def parameters() -> dict[str, jax.Array]:
    return jax.jit(MODEL.initialise)(jax.random.key(0))


@jax.jit  # one program, where every operation of its own would be compiled for each shape
def filtered(params: dict[str, jax.Array], rows: Sequences) -> Latent:
    return filter_sequences(MODEL, params, rows, None).latent


def batch(sequences: int = 2, length: int = 5, seed: int = 0) -> Sequences:
    random = np.random.default_rng(seed)
    observation = random.normal(size=(sequences, length + 1, 3)).astype(np.float32)
    return Sequences(
        jnp.asarray(observation[:, :-1]),
        jnp.asarray(random.uniform(-1, 1, (sequences, length, 2)).astype(np.float32)),
        jnp.asarray(random.uniform(0, 4, (sequences, length)).astype(np.float32)),
        jnp.asarray(observation[:, 1:]),
        jnp.zeros((sequences, length), bool),
    )


def test_two_hot_round_trips_and_clips():
    x = jnp.array([-1.0, 0.0, 0.37, 2.0, 3.99, 4.0, 9.0])
    weights = layers.two_hot(x, low=0.0, high=4.0, bins=9)
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-6)
    assert ((weights > 0).sum(-1) <= 2).all()
    np.testing.assert_allclose(weights @ jnp.linspace(0, 4, 9), jnp.clip(x, 0, 4), atol=1e-5)
    np.testing.assert_allclose(
        layers.expected(jnp.log(weights + 1e-20), low=0.0, high=4.0), jnp.clip(x, 0, 4), atol=1e-5
    )


def test_lambda_returns_by_hand():
    reward, value = jnp.array([1.0, 2.0, 3.0]), jnp.array([10.0, 20.0, 30.0])
    last = 3 + 0.9 * 30
    middle = 2 + 0.9 * (0.5 * 20 + 0.5 * last)
    first = 1 + 0.9 * (0.5 * 10 + 0.5 * middle)
    np.testing.assert_allclose(lambda_returns(reward, value, discount=0.9, trace=0.5), [first, middle, last])


def test_lambda_returns_do_not_look_across_episodes():
    """Step 2 begins another episode: what precedes it must not change when its rewards do."""
    cut = jnp.array([False, False, True, False])
    settings = {"discount": 0.9, "trace": 0.8, "cut": cut}
    one = lambda_returns(jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.ones(4), **settings)
    two = lambda_returns(jnp.array([1.0, 2.0, 99.0, 99.0]), jnp.ones(4), **settings)
    np.testing.assert_array_equal(one[:2], two[:2])
    np.testing.assert_allclose(one[1], 2 + 0.9)


def test_an_episode_boundary_resets_the_belief():
    """What came before `first` changes nothing after it; without the flag it does."""
    original = batch()
    altered = original._replace(
        observation=original.observation.at[:, :2].add(1.0), action=-original.action.at[:, 2:].multiply(-1)
    )
    for flagged in (True, False):
        first = original.first.at[:, 3].set(flagged)
        tails = [filtered(parameters(), rows._replace(first=first)).deter[:, 3:] for rows in (original, altered)]
        assert np.array_equal(*tails) == flagged


def test_replay_value_loss_ignores_the_last_latent_of_an_episode():
    rows = batch()
    before = parameters()
    latent = filtered(before, rows)
    rows = rows._replace(first=rows.first.at[:, 2].set(True))  # so latent 1 has no target
    params = {**before, "value/head/2/weight": jax.random.normal(jax.random.key(1), (8, 11))}

    @jax.jit
    def loss(deter):
        return replay_value_loss(MODEL, params, before, rows, Latent(deter, latent.stoch))

    moved = latent.deter.at[:, 1].add(5.0)
    assert float(loss(moved)) == pytest.approx(float(loss(latent.deter)), rel=1e-6)
    assert float(loss(latent.deter.at[:, 0].add(5.0))) != pytest.approx(float(loss(latent.deter)), rel=1e-6)


def test_replay_value_loss_looks_no_further_than_a_fall():
    """Where every step falls, what the value head promises of what comes after means nothing."""
    before = parameters()
    promising = {**before, "value/head/2/weight": jax.random.normal(jax.random.key(1), (8, 11))}

    @jax.jit
    def loss(slow, rows):
        return replay_value_loss(MODEL, promising, slow, rows, filtered(before, rows))

    for fell in (None, jnp.zeros((2, 2), bool), jnp.ones((2, 2), bool)):
        rows = batch(length=2)._replace(terminated=fell)
        same = float(loss(promising, rows)) == pytest.approx(float(loss(before, rows)), rel=1e-6)
        assert same == (fell is not None and bool(fell.all()))


def test_kl_is_zero_for_equal_and_positive_for_different_beliefs():
    first = jnp.log(jnp.array([[[0.7, 0.1, 0.1, 0.1], [0.25] * 4]]))
    second = jnp.log(jnp.array([[[0.1, 0.7, 0.1, 0.1], [0.25] * 4]]))
    assert float(losses.kl(first, first)[0]) == 0.0
    assert float(losses.kl(first, second)[0]) == pytest.approx(0.6 * np.log(7), rel=1e-5)


def test_latents():
    logits = jnp.log(jnp.array([[[0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]]]))
    np.testing.assert_allclose(MODEL.mean(logits), [[0.7, 0.1, 0.1, 0.1, 0.1, 0.2, 0.3, 0.4]], rtol=1e-5)
    np.testing.assert_array_equal(MODEL.mode(logits), [[1, 0, 0, 0, 0, 0, 0, 1]])
    gumbel = jax.random.gumbel(jax.random.key(0), (4000, *logits.shape))
    draws = jax.jit(jax.vmap(MODEL.sample, in_axes=(None, 0)))(logits, gumbel)
    np.testing.assert_allclose(draws.mean(0), MODEL.mean(logits), atol=0.03)
    gradient = jax.jit(jax.grad(lambda x: MODEL.sample(x, gumbel[0])[0, 0]))(logits)
    assert float(gradient[0, 0, 0]) == pytest.approx(0.7)  # straight through to the probability


def test_training_lowers_the_loss():
    rows, params = batch(8, 8), parameters()
    world = [name for name in params if name.startswith("model/")]
    state = optimiser.initialise({name: params[name] for name in world})
    adam = optimiser.adam({"model": 3e-3})

    @jax.jit
    def step(params, state, key):
        objective = lambda world: model_loss(MODEL, {**params, **world}, rows, key)[0]  # noqa: E731
        loss, gradients = jax.value_and_grad(objective)({name: params[name] for name in world})
        updates, state = adam.update(gradients, state)
        moved = optax.apply_updates({name: params[name] for name in world}, updates)
        return loss, {**params, **moved}, state

    losses_seen = []
    for number in range(30):
        loss, params, state = step(params, state, jax.random.key(number))
        losses_seen.append(float(loss))
    assert np.mean(losses_seen[-5:]) < 0.8 * np.mean(losses_seen[:2])


def test_adam_takes_a_first_step_of_the_learning_rate_whatever_the_gradient():
    params = {"model/x": jnp.array([1.0, -2.0]), "value/x": jnp.array([5.0])}
    gradients = {"model/x": jnp.array([0.003, -50.0]), "value/x": jnp.array([2.0])}
    adam = optimiser.adam({"model": 0.1, "value": 0.2})
    updates, state = adam.update(gradients, adam.init(params))
    np.testing.assert_allclose(updates["model/x"], [-0.1, 0.1], rtol=1e-4)
    np.testing.assert_allclose(updates["value/x"], [-0.2], rtol=1e-4)
    assert float(optimiser.flatten(state)["count"]) == 1.0


def test_adam_is_that_of_optax_but_for_rounding():
    """Each group clipped by itself, each at its own rate."""
    random = np.random.default_rng(0)
    params = {"model/x": jnp.zeros(7), "model/y": jnp.zeros(3), "value/x": jnp.zeros(2)}
    rates = {"model": 1e-2, "value": 3e-3}
    ours = optimiser.adam(rates)
    theirs = optax.multi_transform(
        {group: optax.chain(optax.clip_by_global_norm(100.0), optax.adam(rate)) for group, rate in rates.items()},
        {name: name.split("/")[0] for name in params},
    )
    our_state, their_state = ours.init(params), theirs.init(params)
    for size in (1.0, 300.0, 1e-3, 20.0):  # the second is clipped
        gradients = {
            name: jnp.asarray(size * random.normal(size=x.shape), jnp.float32) for name, x in params.items()
        }
        updates, our_state = ours.update(gradients, our_state)
        expected, their_state = theirs.update(gradients, their_state)
        for name, update in updates.items():
            np.testing.assert_allclose(update, expected[name], rtol=1e-4, atol=1e-9)


def test_an_optimiser_comes_back_from_the_names_of_a_checkpoint():
    adam, params = optimiser.adam({"model": 1e-3, "value": 1e-3}), parameters()
    _, state = jax.jit(adam.update)({name: jnp.ones_like(x) for name, x in params.items()}, adam.init(params))
    flat = optimiser.flatten(state)
    assert set(flat) == {"count"} | {f"{moment}/{name}" for moment in ("mean", "square") for name in params}
    again = optimiser.restore(flat, params)
    assert jax.tree.structure(again) == jax.tree.structure(state)
    jax.tree.map(np.testing.assert_array_equal, again, state)
    part = optimiser.restore(flat, ["model/gru/weight"])
    assert set(optimiser.flatten(part)) == {"count", "mean/model/gru/weight", "square/model/gru/weight"}


@pytest.mark.parametrize(("size", "low", "high"), [("compact", 900_000, 1_300_000), ("tiny", 80_000, 120_000)])
def test_named_sizes_keep_their_promises(size, low, high):
    """At walker's 24 observations and 6 actions; a checkpoint stores each number three times, in float32."""
    shapes = jax.eval_shape(RSSMCEMPlugin(size=size).model(24, 6).initialise, jax.random.key(0))
    count = sum(x.size for x in shapes.values())
    assert low < count <= high
    assert size == "tiny" or count * 12 < 16_000_000
