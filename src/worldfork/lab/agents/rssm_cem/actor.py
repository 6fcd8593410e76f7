"""The actor that is trained in imagination: it collects data, and may propose candidates to the planner.

A checkpoint keeps it where its planner asks for proposals. It is frozen under every update: it proposes, and the
updated model decides.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from worldfork.lab.agents.layers import Params, initialise_mlp, mlp
from worldfork.lab.agents.rssm_cem.rssm import RSSM, Latent
from worldfork.lab.planner.cem import CEM


class Policy(NamedTuple):
    """A normal distribution over actions, centred in [-1, 1]; what it draws is clipped where it is executed."""

    mean: Float[Array, "*b A"]
    std: Float[Array, "*b A"]

    def sample(self, normal: Float[Array, "*b A"]) -> Float[Array, "*b A"]:
        return self.mean + self.std * normal

    def entropy(self, mask: Float[Array, " A"]) -> Float[Array, "*b"]:
        return jnp.sum(jnp.log(self.std) * mask, -1)


def initialise_actor(model: RSSM, key: Key[Array, ""]) -> dict[str, Array]:
    """Return a fresh actor, which acts almost uniformly around zero."""
    sizes = [model.deter + model.stoch, model.hidden, model.hidden, 2 * model.action_size]
    return initialise_mlp(key, "actor/head", sizes, output_scale=0.01)


def policy(actor: Params, latent: Latent, *, precision: str = "tf32") -> Policy:
    """Return what the actor does in `latent`."""
    head = mlp(actor, "actor/head", jnp.concatenate(latent, -1), layers=3, precision=precision)
    mean, std = jnp.split(head, 2, -1)
    return Policy(jnp.tanh(mean), 0.1 + 0.9 * jax.nn.sigmoid(std))


def propose(
    model: RSSM,
    actor: Params,
    params: Params,
    latent: Latent,
    key: Key[Array, ""],
    *,
    settings: CEM,
    mask: Float[Array, " A"] | None = None,
) -> Float[Array, "M H A"] | None:
    """Return the action sequences that the actor proposes from one latent, rolled out with mean latents.

    The first follows the actor's mean, the others draw around it. None where the search asks for no proposals.
    """
    if settings.proposals == 0:
        return None
    shape = (settings.horizon, settings.proposals, model.action_size)
    normal = jax.random.normal(key, shape).at[:, 0].set(0.0)
    mask = jnp.ones(model.action_size) if mask is None else mask

    def advance(latent: Latent, normal: Array) -> tuple[Latent, Array]:
        chosen = policy(actor, latent, precision=model.precision).sample(normal)
        action = jnp.clip(chosen, -1.0, 1.0) * mask
        deter = model.advance(params, latent, action)
        return Latent(deter, model.mean(model.prior(params, deter))), action

    start = Latent(*(jnp.broadcast_to(x, (settings.proposals, *x.shape)) for x in latent))
    _, actions = jax.lax.scan(advance, start, normal)
    return jnp.swapaxes(actions, 0, 1)
