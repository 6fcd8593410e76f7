"""Imagination: what action sequences are worth to the model, as the planner asks it."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from worldfork.lab.agents.rssm_cem.kernel import Prepared, imagined_values
from worldfork.lab.agents.rssm_cem.model.layers import Params
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM, Latent
from worldfork.lab.planner.cem import Imagine

__all__ = ["imagination"]


def imagination(model: RSSM, params: Params, latent: Latent, prepared: Prepared | None = None) -> Imagine:
    """The value of action sequences from `latent`: mean latents, rewards along the way, the value at the end.

    With `prepared` parameters the fused kernel computes it, else any backend.
    """
    if prepared is not None:
        return functools.partial(imagined_values, model, prepared, latent)

    def imagine(actions: Float[Array, "N H A"]) -> Float[Array, " N"]:
        def advance(carry: Latent, action: Array) -> tuple[Latent, Array]:
            deter = model.advance(params, carry, action)
            carry = Latent(deter, model.mean(model.prior(params, deter)))
            return carry, model.reward(params, carry)

        # The first step meets all actions with one latent, so most of its work is done once.
        by_time = jnp.swapaxes(actions, 0, 1)
        horizon = len(by_time)
        first, reward = advance(latent, by_time[0])
        last, later = jax.lax.scan(advance, first, by_time[1:])
        rewards = jnp.concatenate([reward[None], later])
        discounts = model.discount ** jnp.arange(horizon)
        return discounts @ rewards + model.discount**horizon * model.value(params, last)

    return imagine
