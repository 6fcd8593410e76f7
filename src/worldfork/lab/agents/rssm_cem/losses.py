"""Losses of the model and of the value head, on sequences of transitions.

Axes: B sequences, L transitions. Row t holds the observation the action was planned on, the action, its reward and
the observation it led to; `first` marks the first row of an episode, where the carried latent is dropped, and
`terminated` rows that led to the task's own end.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from worldfork.lab.agents import layers
from worldfork.lab.agents.layers import Params, frugal, symlog
from worldfork.lab.agents.rssm_cem.rssm import RSSM, Latent
from worldfork.lab.agents.sequences import Sequences


class Filtered(NamedTuple):
    """The model's account of a minibatch: latents after each transition, and both sets of log-probabilities."""

    latent: Latent
    prior: Float[Array, "B L G C"]
    posterior: Float[Array, "B L G C"]


def filter_sequences(
    model: RSSM, params: Params, batch: Sequences, key: Key[Array, ""] | None, *, unroll: int = 1
) -> Filtered:
    """Run the model along each sequence; latents are sampled with `key`, or the mode without one.

    `unroll` transitions are compiled as one: fewer kernels, and other roundings.
    """
    size, length = batch.reward.shape
    # All that does not depend on the recurrent state is computed for the whole batch at once.
    evidence = model.encode(params, batch.next_observation)
    start = model.begin(params, batch.observation).stoch
    restart = batch.first.at[:, 0].set(True)
    groups = (length, size, model.groups, model.classes)
    noise = jnp.zeros((length, 0)) if key is None else jax.random.gumbel(key, groups)

    def transition(carry: Latent, row: tuple[Array, ...]) -> tuple[Latent, tuple[Latent, Array]]:
        action, seen, fresh, stoch, gumbel = row
        fresh = fresh[:, None]
        before = Latent(jnp.where(fresh, 0.0, carry.deter), jnp.where(fresh, stoch, carry.stoch))
        after = model.advance(params, before, action)
        logits = model.posterior(params, after, seen)
        latent = Latent(after, model.mode(logits) if key is None else model.sample(logits, gumbel))
        return latent, (latent, logits)

    def by_time(x: Array) -> Array:
        return jnp.swapaxes(x, 0, 1)

    rows = (*map(by_time, (batch.action, evidence, restart, start)), noise)
    nothing = Latent(jnp.zeros((size, model.deter)), start[:, 0])
    _, (latent, posterior) = jax.lax.scan(frugal(transition), nothing, rows, unroll=unroll)
    latent = Latent(*map(by_time, latent))
    return Filtered(latent, model.prior(params, latent.deter), by_time(posterior))


def model_loss(
    model: RSSM,
    params: Params,
    batch: Sequences,
    key: Key[Array, ""] | None,
    mask: Float[Array, " O"] | None = None,
    *,
    unroll: int = 1,
) -> tuple[Float[Array, ""], Filtered]:
    """Reconstruction + reward + balanced KL with free bits; `mask` marks the observations that are real."""
    filtered = filter_sequences(model, params, batch, key, unroll=unroll)
    mask = jnp.ones(model.observation_size) if mask is None else mask
    squared = (model.decode(params, filtered.latent) - symlog(batch.next_observation)) ** 2
    reconstruction = jnp.sum(squared * mask, -1) / jnp.sum(mask)
    reward = layers.log_loss(
        model.reward_logits(params, filtered.latent), batch.reward, low=0.0, high=model.reward_high
    )
    stop = jax.lax.stop_gradient
    dynamics = kl(stop(filtered.posterior), filtered.prior)
    representation = kl(filtered.posterior, stop(filtered.prior))
    total = 10.0 * reconstruction + reward + jnp.maximum(dynamics, 1.0) + 0.1 * jnp.maximum(representation, 1.0)
    return jnp.mean(total), filtered


def kl(posterior: Float[Array, "*b G C"], prior: Float[Array, "*b G C"]) -> Float[Array, "*b"]:
    """KL of the posterior from the prior, summed over groups; raw, no free bits."""
    return jnp.sum(jnp.exp(posterior) * (posterior - prior), (-2, -1))


def replay_value_loss(
    model: RSSM, params: Params, slow: Params, batch: Sequences, latent: Latent, *, trace: float = 0.95
) -> Float[Array, ""]:
    """TD(lambda) along recorded sequences, bootstrapped by the parameters `slow`.

    Time limits are no terminations: the last latent of an episode has no target and no weight. What led to the
    task's own end is worth its reward and nothing after it.
    """
    latent = jax.lax.stop_gradient(latent)
    bootstrap = jax.lax.stop_gradient(model.value(slow, latent))
    if batch.terminated is not None:
        bootstrap = jnp.where(batch.terminated, 0.0, bootstrap)
    returns = lambda_returns(
        batch.reward[:, 1:].T, bootstrap[:, 1:].T, discount=model.discount, trace=trace, cut=batch.first[:, 1:].T
    ).T
    logits = model.value_logits(params, Latent(latent.deter[:, :-1], latent.stoch[:, :-1]))
    losses = layers.log_loss(logits, returns, low=0.0, high=model.value_high)
    weight = 1.0 - batch.first[:, 1:].astype(jnp.float32)
    return jnp.sum(losses * weight) / jnp.maximum(jnp.sum(weight), 1.0)


def lambda_returns(
    reward: Float[Array, "L *b"],
    value: Float[Array, "L *b"],
    *,
    discount: float,
    trace: float,
    cut: Bool[Array, "L *b"] | None = None,
) -> Float[Array, "L *b"]:
    """Returns from before each reward: r_t + discount ((1 - trace) v_t + trace G_{t+1}), where v_t is the value
    after it. Where `cut[t]`, step t begins another episode: what precedes it bootstraps instead of looking across.
    """
    cut = jnp.zeros(reward.shape, bool) if cut is None else cut
    # The return from after step t continues through step t + 1 unless that begins another episode.
    ends = jnp.concatenate([cut[1:], jnp.ones_like(cut[:1])])
    earned = reward + discount * jnp.where(ends, value, (1.0 - trace) * value)
    passed_on = jnp.where(ends, 0.0, discount * trace)

    def join(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        """Two stretches of time as one: what it earns, and how much of the return after it comes on top."""
        return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]

    returns, _ = jax.lax.associative_scan(join, (earned, passed_on), reverse=True)
    return returns
