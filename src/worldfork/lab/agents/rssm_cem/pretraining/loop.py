"""Pretraining as calls in order: act, train while physics steps, remember; every member in one program.

The device trains while the CPU's threads step physics: a gradient chunk is dispatched, physics runs, and only the
next actions wait for both.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from worldfork import randomness
from worldfork.lab.agents.rssm_cem.model.losses import Sequences
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM
from worldfork.lab.agents.rssm_cem.pretraining import replay as replays
from worldfork.lab.agents.rssm_cem.pretraining import saving
from worldfork.lab.agents.rssm_cem.pretraining.collector import Collector, choose_actions, initialise_collector
from worldfork.lab.agents.rssm_cem.pretraining.learner import Learner, Masks, initialise_learner, train_step
from worldfork.lab.agents.rssm_cem.pretraining.recipe import Recipe
from worldfork.lab.agents.rssm_cem.pretraining.worlds import Worlds
from worldfork.randomness import Purpose

__all__ = ["Curve", "Pretrained", "pretrain"]

Curve = dict[str, Any]  # one episode of one member, as data
Report = Callable[[int, list[Curve]], None]


class Pretrained(NamedTuple):
    """All members' learners (leading axis M), the curves, and the seconds spent."""

    learners: Learner
    curves: list[Curve]
    seconds: float


def pretrain(
    recipe: Recipe,
    worlds: Worlds,
    *,
    folder: Path,
    report: Report = lambda episode, curves: None,
    save_every: int = 10,
    stop_after: float | None = None,
) -> Pretrained | None:
    """Train every member of the recipe; resumes from `folder` if a run was interrupted there.

    After `stop_after` seconds it saves at the end of the episode and returns None: the same call goes on.
    """
    model = RSSM.of_size(
        recipe.size, worlds.observation_size, worlds.action_size, discount=recipe.discount, bins=recipe.bins
    )
    keys = _member_keys(worlds)
    masks = Masks(*map(jnp.asarray, worlds.masks()))
    learners: Learner = jax.jit(jax.vmap(functools.partial(initialise_learner, model)))(_fold(keys, 0))
    steps = recipe.episodes * worlds.episode_steps
    members = len(worlds.members)
    replay = replays.empty(members, recipe.environments, steps, model.observation_size, model.action_size)
    curves: list[Curve] = []
    begun, spent = 0, 0.0
    if (saved := saving.load(folder, recipe, (learners, replay))) is not None:
        (learners, replay), begun, curves, spent = saved

    act = jax.jit(jax.vmap(functools.partial(_act, model, recipe), in_axes=(0, 0, 0, 0, 0, None, None)))
    train = jax.jit(
        jax.vmap(functools.partial(_train, model, recipe), in_axes=(0, 0, None, 0, 0, None)), donate_argnums=0
    )
    blank = initialise_collector(model, recipe)
    collectors: Collector = jax.tree.map(lambda x: jnp.broadcast_to(x, (members, *x.shape)), blank)
    clock = time.monotonic()
    for episode in range(begun, recipe.episodes):
        observation = worlds.reset(episode)
        earned = np.zeros((members, recipe.environments))
        metrics = None
        for now in range(worlds.episode_steps):
            step = episode * worlds.episode_steps + now
            step_keys = _fold(keys, 1 + step)
            random = episode < recipe.random_episodes
            collectors = act(learners, collectors, observation, _fold(step_keys, 0), masks, now == 0, random)
            action = np.asarray(collectors.action)
            if not random:  # dispatched, and running while the physics steps below
                share = recipe.rate_share(step / steps)
                learners, metrics = train(learners, replay, step, _fold(step_keys, 1), masks, share)
            transition = worlds.step(action)
            first = np.full(earned.shape, now == 0)
            replay = replays.add(
                replay, step, observation, action, transition.reward, transition.observation, first
            )
            observation, earned = transition.observation, earned + transition.reward
        curves += _curves(recipe, worlds, episode, earned, metrics)
        report(episode, curves[-members:])
        seconds = time.monotonic() - clock
        late = stop_after is not None and seconds > stop_after
        if ((episode + 1) % save_every == 0 or late) and episode + 1 < recipe.episodes:
            state = (learners, replay)
            saving.save(folder, recipe, state, episode=episode + 1, curves=curves, seconds=spent + seconds)
            if late:
                return None
    learners.spread.block_until_ready()
    return Pretrained(learners, curves, spent + time.monotonic() - clock)


def _act(
    model: RSSM,
    recipe: Recipe,
    learner: Learner,
    collector: Collector,
    observation: Array,
    key: Array,
    masks: Masks,
    first: Array,
    random: Array,
) -> Collector:
    return choose_actions(model, recipe, learner, collector, observation, key, masks, first=first, random=random)


def _train(
    model: RSSM,
    recipe: Recipe,
    learner: Learner,
    replay: Sequences,
    filled: Array,
    key: Array,
    masks: Masks,
    share: Array,
) -> tuple[Learner, dict[str, Array]]:
    """A chunk of gradient steps."""

    def one(learner: Learner, key: Array) -> tuple[Learner, dict[str, Array]]:
        pick_key, learn_key = jax.random.split(key)
        batch = replays.sample(replay, filled, pick_key, sequences=recipe.sequences, length=recipe.length)
        return train_step(model, recipe, learner, batch, learn_key, masks, share)

    learner, metrics = jax.lax.scan(one, learner, jax.random.split(key, recipe.gradient_steps))
    return learner, jax.tree.map(lambda x: x[-1], metrics)


def _member_keys(worlds: Worlds) -> Array:
    words = np.stack([randomness.words(member.event(Purpose.PRETRAINING)) for member in worlds.members])
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


@jax.jit
def _fold(keys: Array, counter: int | Array) -> Array:
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, counter)


def _curves(
    recipe: Recipe, worlds: Worlds, episode: int, earned: np.ndarray, metrics: dict[str, Array] | None
) -> list[Curve]:
    numbers = {} if metrics is None else {name: np.asarray(values) for name, values in metrics.items()}
    return [
        {
            "task": member.task,
            "seed": member.seed,
            "episode": episode,
            "env_steps": (episode + 1) * worlds.episode_steps * 4 * recipe.environments,
            "planned_return": float(earned[row, : recipe.planned].mean()),
            "actor_return": float(earned[row, recipe.planned :].mean()),
            **{name: float(values[row]) for name, values in numbers.items()},
        }
        for row, member in enumerate(worlds.members)
    ]
