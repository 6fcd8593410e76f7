"""Who acts during pretraining: the planner in some environments, the imagination actor in the others.

Functions act on one member; the loop vmaps them. The first `planned` environments of a member are the planner's.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from worldfork.lab.agents.rssm_cem.agent import imagination
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM, Latent
from worldfork.lab.agents.rssm_cem.planning import available, prepare
from worldfork.lab.agents.rssm_cem.pretraining.learner import Learner, Masks, policy
from worldfork.lab.planner import cem
from worldfork.lab.planner.cem import CEM

__all__ = ["Collecting", "Collector", "choose_actions", "initialise_collector"]


@dataclasses.dataclass(frozen=True)
class Collecting:
    """How a member's environments are driven; a recipe says what each of these is."""

    environments: int
    planned: int
    exploration: float  # standard deviation of the noise added to planned actions
    planner: CEM
    precision: str = "tf32"  # of the planner's imagination


class Collector(NamedTuple):
    """What each environment's driver remembers from one control step to the next."""

    latent: Latent
    action: Float[Array, "E A"]
    warm: Float[Array, "planned H A"]


def initialise_collector(model: RSSM, collecting: Collecting) -> Collector:
    shape = (collecting.environments,)
    return Collector(
        Latent(jnp.zeros((*shape, model.deter)), jnp.zeros((*shape, model.stoch))),
        jnp.zeros((*shape, model.action_size)),
        jnp.zeros((collecting.planned, collecting.planner.horizon, model.action_size)),
    )


def choose_actions(
    learner: Learner,
    collector: Collector,
    *,
    model: RSSM,
    collecting: Collecting,
    observation: Float[Array, "E O"],
    key: Key[Array, ""],
    masks: Masks,
    first: Bool[Array, ""],
    random: Bool[Array, ""],
) -> Collector:
    """Filter the observation and choose each environment's next action, in [-1, 1]; uniform ones if `random`."""
    plan_key, noise_key, actor_key, random_key = jax.random.split(key, 4)
    params = learner.params
    deter = model.advance(params, collector.latent, collector.action)
    corrected = model.posterior(params, deter, model.encode(params, observation))
    latent = jax.tree.map(
        lambda fresh, old: jnp.where(first, fresh, old),
        model.begin(params, observation),
        Latent(deter, model.mode(corrected)),
    )
    warm = jnp.where(first, 0.0, collector.warm)

    imagined = dataclasses.replace(model, precision=collecting.precision)
    prepared = prepare(imagined, params) if available(imagined, collecting.planner.candidates) else None

    def search(latent: Latent, warm: Array, key: Array) -> cem.Plan:
        imagine = imagination(imagined, params, latent, prepared)
        return cem.plan(imagine, warm, key, settings=collecting.planner, mask=masks.action)

    planned = jax.vmap(search)(
        Latent(*(x[: collecting.planned] for x in latent)), warm, jax.random.split(plan_key, collecting.planned)
    )
    noise = collecting.exploration * jax.random.normal(noise_key, planned.action.shape)
    others = policy(learner.actor, Latent(*(x[collecting.planned :] for x in latent)))
    chosen = others.sample(jax.random.normal(actor_key, others.mean.shape))
    action = jnp.concatenate([planned.action + noise, chosen])
    uniform = jax.random.uniform(random_key, action.shape, minval=-1.0, maxval=1.0)
    action = jnp.clip(jnp.where(random, uniform, action), -1.0, 1.0) * masks.action
    return Collector(latent, action, jax.vmap(cem.shift)(planned.mean))
