"""Replay on the device: every transition of every environment of every member, in arrays of fixed shape.

Axes: M members, E environments, T control steps, O observations, A actions. Nothing is ever overwritten: a recipe
knows beforehand how much it will collect.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from worldfork.lab.agents.sequences import Sequences


def empty(members: int, environments: int, steps: int, observation: int, action: int) -> Sequences:
    """Return room for `steps` control steps; `Sequences` with axes [M, E, T, ...]."""
    room = (members, environments, steps)
    return Sequences(
        jnp.zeros((*room, observation)),
        jnp.zeros((*room, action)),
        jnp.zeros(room),
        jnp.zeros((*room, observation)),
        jnp.zeros(room, bool),
    )


@functools.partial(jax.jit, donate_argnums=0)
def add(
    replay: Sequences,
    step: int | Int[Array, ""],
    observation: Float[Array, "M E O"],
    action: Float[Array, "M E A"],
    reward: Float[Array, "M E"],
    next_observation: Float[Array, "M E O"],
    first: Bool[Array, "M E"],
) -> Sequences:
    """Add the transition that every environment made at control step `step`."""
    rows = Sequences(observation, action, reward, next_observation, first)
    added: Sequences = jax.tree.map(lambda buffer, row: buffer.at[:, :, step].set(row), replay, rows)
    return added


def sample(
    replay: Sequences, filled: Int[Array, ""], key: Key[Array, ""], *, sequences: int, length: int
) -> Sequences:
    """Draw a minibatch of one member's replay [E, T, ...], of which `filled` steps are there."""
    who_key, when_key = jax.random.split(key)
    who = jax.random.randint(who_key, (sequences,), 0, replay.reward.shape[0])[:, None]
    starts = jax.random.randint(when_key, (sequences,), 0, filled - length + 1)
    when = starts[:, None] + jnp.arange(length)
    drawn: Sequences = jax.tree.map(lambda buffer: buffer[who, when], replay)
    return drawn


def sample_within_episodes(
    replay: Sequences,
    filled: int | Int[Array, ""],
    key: Key[Array, ""],
    *,
    sequences: int,
    length: int,
    episode: int,
) -> Sequences:
    """Draw a minibatch of one member's replay [E, T, ...], each sequence within one episode of `episode` steps.

    Of the `filled` steps these are the whole episodes, and what there is of the present one.
    """
    who_key, when_key = jax.random.split(key)
    who = jax.random.randint(who_key, (sequences,), 0, replay.reward.shape[0])[:, None]
    each = episode - length + 1  # places in a whole episode where a sequence can begin
    possible = filled // episode * each + jnp.maximum(0, filled % episode - length + 1)
    place = jax.random.randint(when_key, (sequences,), 0, possible)
    when = (place // each * episode + place % each)[:, None] + jnp.arange(length)
    drawn: Sequences = jax.tree.map(lambda buffer: buffer[who, when], replay)
    return drawn


def keep_some(
    replay: Sequences, member: int, *, transitions: int, length: int, random: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return about so many transitions of one member, early and late, as whole sequences drawn without replacement.

    `first` marks where each of them begins.
    """
    environments, steps = replay.reward.shape[1:]
    pieces = steps // length
    count = min(max(1, transitions // length), environments * pieces)
    chosen = np.sort(random.choice(environments * pieces, count, replace=False))
    who, begin = chosen // pieces, chosen % pieces * length
    when = begin[:, None] + np.arange(length)
    columns = {
        name: np.asarray(buffer[member])[who[:, None], when].reshape(count * length, *buffer.shape[3:])
        for name, buffer in replay._asdict().items()
        if buffer is not None
    }
    return {**columns, "first": columns["first"] | (np.arange(count * length) % length == 0)}
