"""The imagination actor: collects data during pretraining and is thrown away after it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from worldfork.lab.agents.rssm_cem.model.layers import Params, initialise_mlp, mlp
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM, Latent

__all__ = ["Policy", "initialise_actor", "policy"]


class Policy(NamedTuple):
    """A normal distribution over actions, centred in [-1, 1]; what it draws is clipped where it is executed."""

    mean: Float[Array, "*b A"]
    std: Float[Array, "*b A"]

    def sample(self, normal: Float[Array, "*b A"]) -> Float[Array, "*b A"]:
        return self.mean + self.std * normal

    def log_probability(self, action: Float[Array, "*b A"], mask: Float[Array, " A"]) -> Float[Array, "*b"]:
        normalised = (action - self.mean) / self.std
        return jnp.sum((-0.5 * normalised**2 - jnp.log(self.std)) * mask, -1)

    def entropy(self, mask: Float[Array, " A"]) -> Float[Array, "*b"]:
        return jnp.sum(jnp.log(self.std) * mask, -1)


def initialise_actor(model: RSSM, key: Key[Array, ""]) -> dict[str, Array]:
    sizes = [model.deter + model.stoch, model.hidden, model.hidden, 2 * model.action_size]
    return initialise_mlp(key, "actor/head", sizes, output_scale=0.01)


def policy(params: Params, latent: Latent) -> Policy:
    mean, std = jnp.split(mlp(params, "actor/head", jnp.concatenate(latent, -1), layers=3), 2, -1)
    return Policy(jnp.tanh(mean), 0.1 + 0.9 * jax.nn.sigmoid(std))
