"""Pretraining as calls in order: act, learn while physics steps, remember; every member in one program.

The device learns while the CPU's threads step physics: gradient steps are dispatched, physics runs, and only the
next actions wait for both. A killed run goes on from its last save.
"""

import abc
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from worldfork import randomness
from worldfork.errors import WorldforkError
from worldfork.lab.agents.pretraining import replay as replays
from worldfork.lab.agents.pretraining.outcomes import Curve
from worldfork.lab.agents.pretraining.recipe import PretrainingRecipe
from worldfork.lab.agents.pretraining.worlds import Worlds
from worldfork.lab.agents.sequences import Sequences
from worldfork.randomness import Purpose

STATE = "training.safetensors"
Watch = Callable[[int, list[Curve]], None]  # called with an episode that was finished, and every member's curve


class Trainee(abc.ABC):
    """An agent in training: all members of a group, side by side in arrays with a leading axis M."""

    def __init__(self, recipe: Any, worlds: Worlds) -> None:
        self.recipe, self.worlds = recipe, worlds

    @abc.abstractmethod
    def initialise(self, keys: Array) -> Any:
        """Return the learners before any training: everything that training changes."""

    @abc.abstractmethod
    def act(
        self,
        learners: Any,
        memory: Any,
        observation: Float32[np.ndarray, "M E O"],
        keys: Array,
        *,
        first: bool,
        random: bool,
    ) -> tuple[Array, Any]:
        """Return actions [M, E, A], drawn uniformly if `random`, and the memory for the next control step.

        `memory` is what the last call returned; None before the first. An episode begins where `first`.
        """

    @abc.abstractmethod
    def learn(self, learners: Any, replay: Sequences, step: int, keys: Array) -> tuple[Any, dict[str, Array]]:
        """Return the learners after the gradient steps of one control step, and what was measured [M] in them."""

    def catch_up(self, learners: Any, replay: Sequences, filled: int, keys: Array) -> tuple[Any, Any]:
        """Train at once for the random episodes, if the agent does; `keys` are the members' own."""
        return learners, None

    def returns(self, earned: np.ndarray) -> dict[str, float]:
        """Name the returns [E] of one member's environments, for its curve."""
        return {"planned_return": float(earned.mean())}

    @abc.abstractmethod
    def arrays(self, learners: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return parameters and optimiser state of all members on the host, as checkpoints store them."""

    def cut(self, arrays: dict[str, Any], agent: Any) -> dict[str, Any]:
        """Drop what belongs to the padding of tasks that are trained side by side."""
        return arrays


class Trained(NamedTuple):
    """All members' learners (leading axis M), the curves, the seconds spent, and all that was collected."""

    learners: Any
    curves: list[Curve]
    seconds: float
    replay: Sequences  # [M, E, T, ...]


def train(
    trainee: Trainee,
    *,
    folder: Path,
    watch: Watch = lambda episode, curves: None,
    save_every: int = 10,
) -> Trained:
    """Train every member of the group; resumes from `folder` if a run was interrupted there."""
    recipe, worlds = trainee.recipe, trainee.worlds
    members, length = len(worlds.members), worlds.episode_steps
    keys = member_keys(worlds)
    steps, sizes = recipe.episodes * length, (worlds.observation_size, worlds.action_size)
    replay = replays.empty(members, recipe.environments, steps, *sizes)
    learners = trainee.initialise(fold(keys, 0))
    memory: Any = None
    curves: list[Curve] = []
    begun, spent = 0, 0.0
    if (saved := load_state(folder, recipe, (learners, replay))) is not None:
        (learners, replay), begun, curves, spent = saved

    clock = time.monotonic()
    for episode in range(begun, recipe.episodes):
        observation = worlds.reset(episode)
        earned = np.zeros((members, recipe.environments))
        random, metrics = episode < recipe.random_episodes, None
        for now in range(length):
            step = episode * length + now
            step_keys = fold(keys, 1 + step)
            chosen, memory = trainee.act(
                learners, memory, observation, fold(step_keys, 0), first=now == 0, random=random
            )
            action = np.asarray(chosen)
            if not random:  # dispatched, and running while the physics steps below
                learners, metrics = trainee.learn(learners, replay, step, fold(step_keys, 1))
            reward, following = worlds.step(action)
            first = np.full(earned.shape, now == 0)
            replay = replays.add(replay, step, observation, action, reward, following, first)
            observation, earned = following, earned + reward
        if episode + 1 == recipe.random_episodes:
            learners, metrics = trainee.catch_up(learners, replay, step + 1, keys)
        curves += _curves(trainee, episode, earned, metrics)
        watch(episode, curves[-members:])
        if (episode + 1) % save_every == 0 and episode + 1 < recipe.episodes:
            seconds = spent + time.monotonic() - clock
            save_state(folder, recipe, (learners, replay), episode=episode + 1, curves=curves, seconds=seconds)
    jax.block_until_ready(learners)  # type: ignore[no-untyped-call]
    return Trained(learners, curves, spent + time.monotonic() - clock, replay)


def member_keys(worlds: Worlds) -> Array:
    """Return a key for each member, from its task and seed."""
    words = np.stack([randomness.words(member.event(Purpose.PRETRAINING)) for member in worlds.members])
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


def fold(keys: Array, counter: int) -> Array:
    """Fold a number below 2**32 into every member's key."""
    return _folded(keys, np.uint32(counter))


@jax.jit
def _folded(keys: Array, counter: Array) -> Array:
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, counter)


def _curves(trainee: Trainee, episode: int, earned: np.ndarray, metrics: dict[str, Array] | None) -> list[Curve]:
    worlds, environments = trainee.worlds, trainee.recipe.environments
    measured = {} if metrics is None else {name: np.asarray(values) for name, values in metrics.items()}
    return [
        {
            "task": member.task,
            "seed": member.seed,
            "episode": episode,
            "env_steps": (episode + 1)
            * worlds.episode_steps
            * worlds.environments[member.task].action_repeat
            * environments,
            **trainee.returns(earned[row]),
            **{name: float(values[row]) for name, values in measured.items()},
        }
        for row, member in enumerate(worlds.members)
    ]


def save_state(
    folder: Path, recipe: PretrainingRecipe, state: Any, *, episode: int, curves: list[Any], seconds: float
) -> None:
    """Write the whole training state; an interrupted write leaves the previous one in place."""
    folder.mkdir(parents=True, exist_ok=True)
    leaves = {f"{n:05d}": np.asarray(leaf) for n, leaf in enumerate(jax.tree.leaves(state))}
    about = {"recipe": recipe.digest, "episode": episode, "curves": curves, "seconds": seconds}
    # A name of its own: a worker that was given up may still be writing what another goes on with.
    part = folder / f"{STATE}.{platform.node()}-{os.getpid()}.part"
    save_file(leaves, part, metadata={"about": json.dumps(about)})
    os.replace(part, folder / STATE)


def load_state(folder: Path, recipe: PretrainingRecipe, like: Any) -> tuple[Any, int, list[Any], float] | None:
    """Return the saved state in the shape of `like`, the next episode, the curves and seconds; None without one."""
    path = folder / STATE
    if not path.exists():
        return None
    try:
        with safe_open(path, "numpy") as file:
            about = json.loads(file.metadata()["about"])
    except (SafetensorError, KeyError, TypeError, ValueError):
        raise WorldforkError(
            f"{path} is truncated or not a training state. Remove that file to begin anew."
        ) from None
    if about["recipe"] != recipe.digest:
        raise WorldforkError(
            f"{path} belongs to another recipe ({about['recipe'][:12]}, not {recipe.digest[:12]}). "
            "Choose another output folder, or remove that file to begin anew."
        )
    arrays = load_file(path)
    leaves = [arrays[name] for name in sorted(arrays)]
    if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in jax.tree.leaves(like)]:
        raise WorldforkError(
            f"{path} was written by another version of worldfork: finish it with that one, or remove the file to "
            "begin anew."
        )
    state = jax.tree.unflatten(jax.tree.structure(like), list(map(jax.numpy.asarray, leaves)))
    return state, about["episode"], about["curves"], about["seconds"]
