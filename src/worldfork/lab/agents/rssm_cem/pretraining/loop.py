"""Pretraining as calls in order: act, train while physics steps, remember; every member in one program.

The device trains while the CPU's threads step physics: a gradient chunk is dispatched, physics runs, and only the
next actions wait for both.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from worldfork import randomness
from worldfork.lab.agents.rssm_cem.model.losses import Sequences
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM
from worldfork.lab.agents.rssm_cem.pretraining import replay as replays
from worldfork.lab.agents.rssm_cem.pretraining import saving
from worldfork.lab.agents.rssm_cem.pretraining.collector import (
    Collecting,
    Collector,
    choose_actions,
    initialise_collector,
)
from worldfork.lab.agents.rssm_cem.pretraining.learner import (
    Learner,
    Learning,
    Masks,
    initialise_learner,
    train_step,
)
from worldfork.lab.agents.rssm_cem.pretraining.outcomes import Curve
from worldfork.lab.agents.rssm_cem.pretraining.recipe import Recipe
from worldfork.lab.agents.rssm_cem.pretraining.worlds import Worlds
from worldfork.randomness import Purpose

__all__ = ["Trained", "train"]

Watch = Callable[[int, list[Curve]], None]  # an episode that was finished, and how every member did in it


class Trained(NamedTuple):
    """All members' learners (leading axis M), the curves, and the seconds spent."""

    learners: Learner
    curves: list[Curve]
    seconds: float
    replay: Sequences  # [M, E, T, ...], all that was collected


def train(
    recipe: Recipe,
    worlds: Worlds,
    *,
    folder: Path,
    watch: Watch = lambda episode, curves: None,
    save_every: int = 10,
    stop_after: float | None = None,
) -> Trained | None:
    """Train every member of the recipe; resumes from `folder` if a run was interrupted there.

    After `stop_after` seconds it saves at the end of the episode and returns None: the same call goes on.
    """
    model = recipe.agent(recipe.collection).model(worlds.observation_size, worlds.action_size)
    keys = _member_keys(worlds)
    masks = Masks(*map(jnp.asarray, worlds.masks()))
    steps = recipe.episodes * worlds.episode_steps
    members = len(worlds.members)
    learning, collecting = _learning(recipe), _collecting(recipe)
    minibatch = {"sequences": recipe.sequences, "length": recipe.length}
    act, learn = _programs(model, learning, collecting, chunk=recipe.gradient_steps, **minibatch)
    initialise = jax.vmap(functools.partial(initialise_learner, model))
    blank = initialise_collector(model, collecting)
    collectors: Collector = jax.tree.map(lambda x: jnp.broadcast_to(x, (members, *x.shape)), blank)
    replay = replays.empty(members, recipe.environments, steps, model.observation_size, model.action_size)
    learners: Learner = jax.jit(initialise)(_fold(keys, 0))
    curves: list[Curve] = []
    begun, spent = 0, 0.0
    if (saved := saving.load(folder, recipe, (learners, replay))) is not None:
        (learners, replay), begun, curves, spent = saved

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
                learners, metrics = learn(learners, replay, step, _fold(step_keys, 1), masks, share)
            transition = worlds.step(action)
            first = np.full(earned.shape, now == 0)
            replay = replays.add(
                replay, step, observation, action, transition.reward, transition.observation, first
            )
            observation, earned = transition.observation, earned + transition.reward
        curves += _curves(recipe, worlds, episode, earned, metrics)
        watch(episode, curves[-members:])
        seconds = time.monotonic() - clock
        late = stop_after is not None and seconds > stop_after
        if ((episode + 1) % save_every == 0 or late) and episode + 1 < recipe.episodes:
            state = (learners, replay)
            saving.save(folder, recipe, state, episode=episode + 1, curves=curves, seconds=spent + seconds)
            if late:
                return None
    learners.spread.block_until_ready()
    return Trained(learners, curves, spent + time.monotonic() - clock, replay)


@functools.lru_cache(maxsize=2)
def _programs(
    model: RSSM, learning: Learning, collecting: Collecting, *, chunk: int, sequences: int, length: int
) -> tuple[Callable[..., Collector], Callable[..., tuple[Learner, dict[str, Array]]]]:
    """What every member does at a control step, compiled once: act, and learn for a chunk of gradient steps."""

    def act(
        learner: Learner,
        collector: Collector,
        observation: Array,
        key: Array,
        masks: Masks,
        first: Array,
        random: Array,
    ) -> Collector:
        return choose_actions(
            learner,
            collector,
            model=model,
            collecting=collecting,
            observation=observation,
            key=key,
            masks=masks,
            first=first,
            random=random,
        )

    def learn(
        learner: Learner, replay: Sequences, filled: Array, key: Array, masks: Masks, share: Array
    ) -> tuple[Learner, dict[str, Array]]:
        def step(learner: Learner, key: Array) -> tuple[Learner, dict[str, Array]]:
            pick_key, learn_key = jax.random.split(key)
            batch = replays.sample(replay, filled, pick_key, sequences=sequences, length=length)
            return train_step(
                learner, batch, model=model, learning=learning, key=learn_key, masks=masks, share=share
            )

        learner, metrics = jax.lax.scan(step, learner, jax.random.split(key, chunk))
        return learner, jax.tree.map(lambda x: x[-1], metrics)

    return (
        jax.jit(jax.vmap(act, in_axes=(0, 0, 0, 0, 0, None, None))),
        jax.jit(jax.vmap(learn, in_axes=(0, 0, None, 0, 0, None)), donate_argnums=0),
    )


def _learning(recipe: Recipe) -> Learning:
    return Learning(
        model_rate=recipe.model_rate,
        value_rate=recipe.value_rate,
        actor_rate=recipe.actor_rate,
        through_model=recipe.actor_gradient == "dynamics",
        starts=recipe.starts,
        imagined=recipe.imagined,
        trace=recipe.trace,
        entropy=recipe.entropy,
        replayed=recipe.replayed,
        slow=recipe.slow,
        unroll=recipe.unroll,
    )


def _collecting(recipe: Recipe) -> Collecting:
    return Collecting(
        environments=recipe.environments,
        planned=recipe.planned,
        exploration=recipe.exploration,
        planner=recipe.collection.planner(),
        precision=recipe.collection_precision,
    )


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
            "env_steps": (episode + 1)
            * worlds.episode_steps
            * worlds.environments[member.task].action_repeat
            * recipe.environments,
            "planned_return": float(earned[row, : recipe.planned].mean()),
            "actor_return": float(earned[row, recipe.planned :].mean()),
            **{name: float(values[row]) for name, values in numbers.items()},
        }
        for row, member in enumerate(worlds.members)
    ]
