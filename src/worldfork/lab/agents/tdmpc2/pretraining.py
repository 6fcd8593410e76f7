"""Pretraining of TD-MPC2: several environments a seed make one batch of plans of them all, and as many updates as
they made transitions one program."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from worldfork.lab.agents.pretraining import replay as replays
from worldfork.lab.agents.pretraining.loop import Trainee as AnyTrainee
from worldfork.lab.agents.pretraining.loop import fold
from worldfork.lab.agents.pretraining.worlds import Worlds
from worldfork.lab.agents.sequences import Sequences
from worldfork.lab.agents.tdmpc2.agent import fresh_learner
from worldfork.lab.agents.tdmpc2.learning import LatentLoss, learn, search
from worldfork.lab.agents.tdmpc2.networks import Networks
from worldfork.lab.agents.tdmpc2.optimiser import rates_of
from worldfork.lab.agents.tdmpc2.recipe import Recipe
from worldfork.lab.planner import mppi
from worldfork.lab.planner.mppi import MPPI, Plan

CATCH_UP: Final = 0xFFFF_FFFF  # keys of the updates at once count down from here, those of steps up from 0


class Learner(NamedTuple):
    """Everything that training changes, with a leading axis of members."""

    params: dict[str, Array]
    moments: dict[str, Array]


class Programs(NamedTuple):
    """Compiled functions of a control step.

    `act`: (learners, observation, warm, keys, random) -> actions and warm starts.
    `learn`: (learners, replay, filled, keys) -> learners after as many updates as a control step has transitions,
    and the losses of the last one.
    """

    act: Callable[..., tuple[Array, Array]]
    learn: Callable[..., tuple[Learner, dict[str, Array]]]


class Trainee(AnyTrainee):
    """The members of a group, which are all of one task."""

    recipe: Recipe

    def __init__(self, recipe: Recipe, worlds: Worlds) -> None:
        super().__init__(recipe, worlds)
        [environment] = worlds.environments.values()
        self.networks = recipe.plugin(recipe.collection).networks(environment)
        self.planner = recipe.collection.planner()
        self.programs = programs(recipe, self.networks, self.planner, episode=worlds.episode_steps)

    def initialise(self, keys: Array) -> Learner:
        return Learner(*jax.jit(jax.vmap(functools.partial(fresh_learner, self.networks)))(keys))

    def act(
        self,
        learners: Learner,
        memory: Array | None,
        observation: Float32[np.ndarray, "M E O"],
        keys: Array,
        *,
        first: bool,
        random: bool,
    ) -> tuple[Array, Array]:
        shape = (*observation.shape[:2], self.planner.horizon, self.networks.action_size)
        warm = jnp.zeros(shape) if first else memory
        return self.programs.act(learners, observation, warm, keys, random)

    def learn(
        self, learners: Learner, replay: Sequences, step: int, keys: Array
    ) -> tuple[Learner, dict[str, Array]]:
        return self.programs.learn(learners, replay, step, keys)

    def catch_up(self, learners: Learner, replay: Sequences, filled: int, keys: Array) -> tuple[Learner, Any]:
        # As many updates at once as there are transitions.
        losses = None
        for owed in range(filled):
            learners, losses = self.programs.learn(learners, replay, filled, fold(keys, CATCH_UP - owed))
        return learners, losses

    def arrays(self, learners: Learner) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        return jax.device_get(learners.params), jax.device_get(learners.moments)


def programs(recipe: Recipe, networks: Networks, planner: MPPI, *, episode: int) -> Programs:
    """Return the programs of a control step of all members, whose episodes have `episode` control steps."""
    imagined = dataclasses.replace(networks, precision=recipe.collection_precision)
    learning = dataclasses.replace(networks, precision=recipe.learning_precision)
    loss_function = LatentLoss(learning, recipe.sequences, recipe.length)
    rates, updates = rates_of(recipe.rate), recipe.environments * recipe.updates

    def act(learner: Learner, observation: Array, warm: Array, key: Array, random: Array) -> tuple[Array, Array]:
        plan_key, noise_key, random_key = jax.random.split(key, 3)
        latents = networks.encode(learner.params, observation)

        def plan(latent: Array, warm: Array, key: Array) -> Plan:
            return search(imagined, learner.params, latent, warm=warm, plan_key=key, planner=planner)

        plans = jax.vmap(plan)(latents, warm, jax.random.split(plan_key, len(latents)))
        explored = plans.action + plans.std * jax.random.normal(noise_key, plans.action.shape)
        uniform = jax.random.uniform(random_key, explored.shape, minval=-1.0, maxval=1.0)
        action = jnp.clip(jnp.where(random, uniform, explored), -1.0, 1.0)
        return action, jax.vmap(mppi.shift)(plans.mean)

    def learn_often(
        learner: Learner, replay: Sequences, filled: Array, key: Array
    ) -> tuple[Learner, dict[str, Array]]:
        def update(learner: Learner, key: Array) -> tuple[Learner, dict[str, Array]]:
            pick_key, learn_key = jax.random.split(key)
            shape = {"sequences": loss_function.sequences, "length": loss_function.length, "episode": episode}
            batch = replays.sample_within_episodes(replay, filled, pick_key, **shape)
            params, moments, losses = learn(
                loss_function, learner.params, learner.moments, batch, key=learn_key, rates=rates
            )
            return Learner(params, moments), losses

        # Their number is known when it is compiled: where it were not, the host would wait for each of them.
        learner, losses = jax.lax.scan(update, learner, jax.random.split(key, updates))
        return learner, jax.tree.map(lambda x: x[-1], losses)

    return Programs(
        jax.jit(jax.vmap(act, in_axes=(0, 0, 0, 0, None))),
        jax.jit(jax.vmap(learn_often, in_axes=(0, 0, None, 0)), donate_argnums=0),
    )
