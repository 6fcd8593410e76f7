"""The two losses of TD-MPC2: of encoder, dynamics, reward and Q functions together, and of the policy prior.

What is random in them is drawn beforehand by `draw`, so that a loss is a function of numbers alone. Functions act
on one parameter set.

Axes: B sequences, T transitions and S latents of a sequence, Q functions, L latent, A actions, H hidden.
"""

from collections.abc import Collection
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from worldfork.lab.agents.layers import Params
from worldfork.lab.agents.sequences import Sequences
from worldfork.lab.agents.tdmpc2.networks import Networks

CONSISTENCY, REWARD, VALUE = 20.0, 0.1, 0.1
DECAY = 0.5  # of the weight of a loss per step into the future
ENTROPY = 1e-4
TAU = 0.01  # of target Q functions and of the running range


class Draws(NamedTuple):
    """The draws of one loss: two of the Q functions, standard normals for the policy's actions, and dropout."""

    pair: Int[Array, "2"]
    normal: Float[Array, "B _ A"]
    kept: Bool[Array, "Q B _ H"]


def draw(networks: Networks, key: Key[Array, ""], *, sequences: int, steps: int, functions: int) -> Draws:
    """Return the draws of a loss that sees `steps` latents of each sequence with so many Q `functions`."""
    pair_key, normal_key, dropout_key = jax.random.split(key, 3)
    return Draws(
        draw_pair(networks, pair_key),
        jax.random.normal(normal_key, (sequences, steps, networks.action_size)),
        jax.random.bernoulli(dropout_key, 1.0 - networks.dropout, (functions, sequences, steps, networks.hidden)),
    )


def draw_pair(networks: Networks, key: Key[Array, ""]) -> Int[Array, "2"]:
    """Two of the Q functions; of two there is nothing to draw."""
    return jnp.arange(2) if networks.values == 2 else jax.random.permutation(key, networks.values)[:2]


def world_loss(
    networks: Networks, params: Params, batch: Sequences, draws: Draws | None, *, parts: Collection[str]
) -> tuple[Float[Array, ""], Float[Array, "B S L"]]:
    """20 x consistency + 0.1 x reward (part `model`) + 0.1 x value (part `value`), later steps weighing less; and
    the latents along each sequence, without gradient.

    Latents are imagined from the first observation of a sequence; what they ought to have been are the encoded
    observations, without gradient. Without `draws` nothing is random: the policy's most likely action, the minimum
    of all target Q functions, and no dropout.
    """
    steps = batch.reward.shape[1]
    weight = DECAY ** jnp.arange(steps)
    encoded = jax.lax.stop_gradient(networks.encode(params, batch.next_observation))
    latents = [networks.encode(params, batch.observation[:, 0])]
    for step in range(steps):
        latents.append(networks.advance(params, latents[-1], batch.action[:, step]))
    path = jnp.stack(latents, 1)
    loss = jnp.zeros(())
    if "model" in parts:
        consistency = jnp.mean((path[:, 1:] - encoded) ** 2, (0, 2))
        rewards = networks.reward_logits(params, path[:, :-1], batch.action)
        reward = jnp.mean(networks.log_loss(rewards, batch.reward), 0)
        loss += jnp.mean(weight * (CONSISTENCY * consistency + REWARD * reward))
    if "value" in parts:
        target = td_target(networks, params, encoded, batch.reward, draws=draws, terminated=batch.terminated)
        kept = None if draws is None or networks.dropout == 0.0 else draws.kept
        logits = networks.value_logits(params, path[:, :-1], batch.action, kept=kept)
        value = jnp.mean(networks.log_loss(logits, jnp.broadcast_to(target, logits.shape[:-1])), (0, 1))
        loss += VALUE * jnp.mean(weight * value)
    return loss, jax.lax.stop_gradient(path)


def td_target(
    networks: Networks,
    params: Params,
    latent: Float[Array, "B T L"],
    reward: Float[Array, "B T"],
    *,
    draws: Draws | None,
    terminated: Bool[Array, "B T"] | None = None,
) -> Float[Array, "B T"]:
    """reward + discount x the minimum of two target Q functions at the policy's action in the latent after it; the
    reward alone where the transition led to the task's own end."""
    policy = networks.policy(params, latent)
    normal = jnp.zeros_like(policy.mean) if draws is None else draws.normal
    pair = None if draws is None else draws.pair
    logits = networks.value_logits(params, latent, policy.sample(normal), name="target", pair=pair)
    value = jnp.min(networks.decode(logits), 0)
    if terminated is not None:
        value = jnp.where(terminated, 0.0, value)
    return jax.lax.stop_gradient(reward + networks.discount * value)


def policy_loss(
    networks: Networks, params: Params, latents: Float[Array, "B S L"], draws: Draws
) -> tuple[Float[Array, ""], Float[Array, "1"]]:
    """Minus the mean of two Q functions in units of the running range of values, less an entropy bonus; and that
    range as it is afterwards. Gradients reach the policy alone."""
    policy = networks.policy(params, latents)
    still = jax.lax.stop_gradient(dict(params))
    kept = None if networks.dropout == 0.0 else draws.kept
    logits = networks.value_logits(still, latents, policy.sample(draws.normal), pair=draws.pair, kept=kept)
    value = jnp.mean(networks.decode(logits), 0)
    low, high = jnp.percentile(jax.lax.stop_gradient(value[:, 0]), jnp.array([5.0, 95.0]))
    scale = params["scale/policy"] + TAU * (jnp.maximum(high - low, 1.0) - params["scale/policy"])
    weight = DECAY ** jnp.arange(latents.shape[1])
    each = ENTROPY * policy.log_probability(draws.normal) - value / scale
    return jnp.mean(weight * jnp.mean(each, 0)), scale


def follow_values(params: Params) -> dict[str, Array]:
    """Target Q functions, one step on their way to the Q functions."""
    return {
        name: x + TAU * (params[name.replace("target/", "value/", 1)] - x)
        for name, x in params.items()
        if name.startswith("target/")
    }
