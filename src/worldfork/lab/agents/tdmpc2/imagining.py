"""What a search asks of the model: what action sequences are worth, and which ones the policy proposes."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from worldfork.lab.agents.rssm_cem.model.layers import Params
from worldfork.lab.agents.tdmpc2.model.losses import draw_pair
from worldfork.lab.agents.tdmpc2.model.networks import Networks
from worldfork.lab.planner import mppi
from worldfork.lab.planner.mppi import MPPI, Plan

__all__ = ["imagination", "propose", "search"]


def search(
    networks: Networks,
    params: Params,
    latent: Float[Array, " L"],
    *,
    warm: Float[Array, "H A"],
    plan_key: Key[Array, ""],
    planner: MPPI,
) -> Plan:
    """The plan from one latent."""
    proposed = propose(networks, params, latent, key=mppi.proposal_key(plan_key, planner), planner=planner)
    imagine = imagination(networks, params, latent)
    return mppi.plan(imagine, warm, proposed=proposed, plan_key=plan_key, settings=planner)


def imagination(
    networks: Networks, params: Params, latent: Float[Array, " L"]
) -> Callable[[Float[Array, "N H A"], Key[Array, ""]], Float[Array, " N"]]:
    """The values of action sequences: discounted rewards, and then the mean of two Q functions at the policy's
    action."""

    def imagine(actions: Float[Array, "N H A"], key: Key[Array, ""]) -> Float[Array, " N"]:
        pair_key, normal_key = jax.random.split(key)
        after, value = latent[None], jnp.zeros(len(actions))
        for step in range(actions.shape[1]):
            action = actions[:, step]
            value += networks.discount**step * networks.reward(params, after, action)
            after = networks.advance(params, after, action)
        last = networks.policy(params, after).sample(jax.random.normal(normal_key, actions[:, 0].shape))
        # All Q functions and then two of them: decisions of a batch draw different ones, and share their weights.
        ends = networks.decode(networks.value_logits(params, after, last))
        two = ends[draw_pair(networks, pair_key)]
        return value + networks.discount ** actions.shape[1] * jnp.mean(two, 0)

    return imagine


def propose(
    networks: Networks, params: Params, latent: Float[Array, " L"], *, key: Key[Array, ""], planner: MPPI
) -> Float[Array, "M H A"]:
    """Action sequences that the policy draws as it goes along in imagination."""
    shape = (planner.horizon, planner.proposals, networks.action_size)
    normals = jax.random.normal(key, shape)
    after = jnp.broadcast_to(latent, (planner.proposals, len(latent)))
    actions = []
    for step, normal in enumerate(normals):
        actions.append(networks.policy(params, after).sample(normal))
        if step + 1 < planner.horizon:
            after = networks.advance(params, after, actions[-1])
    return jnp.stack(actions, 1)
