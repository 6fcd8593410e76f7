"""Pretraining as calls in order: plan, learn while physics steps, remember; every seed in one program.

Several environments a seed make one batch of plans of them all, and as many updates as they made transitions one
program. The device learns while the CPU's threads step physics, and only the next plans wait for both.
"""

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from worldfork import randomness
from worldfork.lab.agents.rssm_cem.model.losses import Sequences
from worldfork.lab.agents.rssm_cem.pretraining import replay as replays
from worldfork.lab.agents.rssm_cem.pretraining import saving
from worldfork.lab.agents.rssm_cem.pretraining.outcomes import Curve
from worldfork.lab.agents.rssm_cem.pretraining.worlds import Worlds
from worldfork.lab.agents.tdmpc2.agent import fresh_learner
from worldfork.lab.agents.tdmpc2.imagining import search
from worldfork.lab.agents.tdmpc2.learning import LatentLesson, learn
from worldfork.lab.agents.tdmpc2.model.networks import Networks
from worldfork.lab.agents.tdmpc2.model.optimiser import rates_of
from worldfork.lab.agents.tdmpc2.pretraining.recipe import Recipe
from worldfork.lab.agents.tdmpc2.pretraining.replay import sample
from worldfork.lab.planner import mppi
from worldfork.lab.planner.mppi import MPPI, Plan
from worldfork.randomness import Purpose

__all__ = ["Learner", "Programs", "Trained", "programs", "train"]

CATCH_UP: Final = 0xFFFF_FFFF  # keys of the updates at once count down from here, those of steps up from 0
Watch = Callable[[int, list[Curve]], None]  # an episode that was finished, and how every member did in it


class Learner(NamedTuple):
    """Everything that training changes, with a leading axis of members."""

    params: dict[str, Array]
    moments: dict[str, Array]


class Trained(NamedTuple):
    """All members' learners, the curves, the seconds spent, and all that was collected [M, E, T, ...]."""

    learners: Learner
    curves: list[Curve]
    seconds: float
    replay: Sequences


class Programs(NamedTuple):
    """What is compiled: (learners, observation, warm, keys, random) -> actions and warm starts;
    (learners, replay, filled, keys) -> learners after as many updates as a control step has transitions, and the
    losses of the last one."""

    act: Callable[..., tuple[Array, Array]]
    learn: Callable[..., tuple[Learner, dict[str, Array]]]


def train(
    recipe: Recipe,
    worlds: Worlds,
    *,
    folder: Path,
    watch: Watch = lambda episode, curves: None,
    save_every: int = 10,
    stop_after: float | None = None,
) -> Trained | None:
    """Train every member of the group; resumes from `folder` if a run was interrupted there.

    After `stop_after` seconds it saves at the end of the episode and returns None: the same call goes on.
    """
    [environment] = worlds.environments.values()
    networks, planner = recipe.plugin(recipe.collection).networks(environment), recipe.collection.planner()
    length, steps = worlds.episode_steps, recipe.episodes * worlds.episode_steps
    do = programs(recipe, networks, planner, episode=length)
    members, sizes = len(worlds.members), (worlds.observation_size, worlds.action_size)
    member_keys = _member_keys(worlds)
    replay = replays.empty(members, recipe.environments, steps, *sizes)
    blank = jnp.zeros((members, recipe.environments, planner.horizon, worlds.action_size))
    first = _fold(member_keys, 0)
    initialise = jax.vmap(functools.partial(fresh_learner, networks))
    learners = Learner(*jax.jit(initialise)(first))
    curves: list[Curve] = []
    begun, spent = 0, 0.0
    if (saved := saving.load(folder, recipe, (learners, replay))) is not None:
        (learners, replay), begun, curves, spent = saved

    clock = time.monotonic()
    for episode in range(begun, recipe.episodes):
        observation, warm = worlds.reset(episode), blank
        earned = np.zeros((members, recipe.environments))
        random, losses = episode < recipe.random_episodes, None
        for now in range(length):
            step = episode * length + now
            keys = _fold(member_keys, 1 + step)
            chosen, warm = do.act(learners, observation, warm, _fold(keys, 0), random)
            action = np.asarray(chosen)
            if not random:  # dispatched, and running while the physics steps below
                learners, losses = do.learn(learners, replay, step, _fold(keys, 1))
            transition = worlds.step(action)
            begins = np.full(earned.shape, now == 0)
            replay = replays.add(
                replay, step, observation, action, transition.reward, transition.observation, begins
            )
            observation, earned = transition.observation, earned + transition.reward
        if episode + 1 == recipe.random_episodes:  # as many updates at once as there are transitions
            for owed in range(step + 1):
                learners, losses = do.learn(learners, replay, step + 1, _fold(member_keys, CATCH_UP - owed))
        curves += _curves(recipe, worlds, episode, earned, losses)
        watch(episode, curves[-members:])
        seconds = time.monotonic() - clock
        late = stop_after is not None and seconds > stop_after
        if ((episode + 1) % save_every == 0 or late) and episode + 1 < recipe.episodes:
            state = (learners, replay)
            saving.save(folder, recipe, state, episode=episode + 1, curves=curves, seconds=spent + seconds)
            if late:
                return None
    learners.params["scale/policy"].block_until_ready()
    return Trained(learners, curves, spent + time.monotonic() - clock, replay)


def programs(recipe: Recipe, networks: Networks, planner: MPPI, *, episode: int) -> Programs:
    """What every member does at a control step, compiled once for all of them."""
    imagined = _with_precision(networks, recipe.collection_precision)
    lesson = LatentLesson(_with_precision(networks, recipe.learning_precision), recipe.sequences, recipe.length)
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
            shape = {"sequences": lesson.sequences, "length": lesson.length, "episode": episode}
            batch = sample(replay, filled, pick_key, **shape)
            params, moments, losses = learn(
                lesson, learner.params, learner.moments, batch, key=learn_key, rates=rates
            )
            return Learner(params, moments), losses

        # Their number is known when it is compiled: where it were not, the host would wait for each of them.
        learner, losses = jax.lax.scan(update, learner, jax.random.split(key, updates))
        return learner, jax.tree.map(lambda x: x[-1], losses)

    return Programs(
        jax.jit(jax.vmap(act, in_axes=(0, 0, 0, 0, None))),
        jax.jit(jax.vmap(learn_often, in_axes=(0, 0, None, 0)), donate_argnums=0),
    )


def _with_precision(networks: Networks, precision: str) -> Networks:
    return dataclasses.replace(networks, precision=precision)


def _member_keys(worlds: Worlds) -> Array:
    words = np.stack([randomness.words(member.event(Purpose.PRETRAINING)) for member in worlds.members])
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


def _fold(keys: Array, counter: int) -> Array:
    return _folded(keys, np.uint32(counter))


@jax.jit
def _folded(keys: Array, counter: Array) -> Array:
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, counter)


def _curves(
    recipe: Recipe, worlds: Worlds, episode: int, earned: np.ndarray, losses: dict[str, Array] | None
) -> list[Curve]:
    numbers = {} if losses is None else {name: np.asarray(values) for name, values in losses.items()}
    each = worlds.episode_steps * next(iter(worlds.environments.values())).action_repeat * recipe.environments
    return [
        {
            "task": member.task,
            "seed": member.seed,
            "episode": episode,
            "env_steps": (episode + 1) * each,
            "planned_return": float(earned[row].mean()),
            **{name: float(values[row]) for name, values in numbers.items()},
        }
        for row, member in enumerate(worlds.members)
    ]
