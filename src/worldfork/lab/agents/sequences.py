"""Sequences of transitions in JAX: minibatches from a window, as agents that learn from sequences draw them.

Axes: B sequences, L transitions, O observations, A actions, T rows of a window.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from worldfork.lab.agents.base import Window


class Sequences(NamedTuple):
    """A minibatch, or with other leading axes the rows that it is drawn from.

    Row t holds the observation the action was planned on, the action, its reward and the observation it led to;
    `first` marks the first row of an episode, and `terminated` rows that led to the task's own end.
    """

    observation: Float[Array, "B L O"]
    action: Float[Array, "B L A"]
    reward: Float[Array, "B L"]
    next_observation: Float[Array, "B L O"]
    first: Bool[Array, "B L"]
    terminated: Bool[Array, "B L"] | None = None  # None in a world whose episodes do not end early


def rows_of(window: Window) -> Sequences:
    """Return P windows as arrays on the device, [P, T, ...]."""
    columns = (window.observation, window.action, window.reward, window.next_observation)
    observation, action, reward, next_observation = (jnp.asarray(x, jnp.float32) for x in columns)
    terminated = None if window.terminated is None else jnp.asarray(window.terminated)
    return Sequences(observation, action, reward, next_observation, jnp.asarray(window.first), terminated)


def sample_sequences(rows: Sequences, size: Array, key: Array, *, sequences: int, length: int) -> Sequences:
    """Draw a minibatch from rows [T, ...] of which the first `size` are real: starts are drawn uniformly."""
    starts = jax.random.randint(key, (sequences,), 0, size - length + 1)
    index = starts[:, None] + jnp.arange(length)
    drawn: Sequences = jax.tree.map(lambda x: x[index], rows)
    return drawn


def cut_into_pieces(rows: Sequences, size: Array, *, length: int) -> tuple[Sequences, Array]:
    """Cut rows [T, ...] into whole sequences in order [n, 1, length, ...]; also return which of them are real."""
    whole = rows.reward.shape[0] // length
    pieces: Sequences = jax.tree.map(lambda x: x[: whole * length].reshape(whole, 1, length, *x.shape[1:]), rows)
    return pieces, (jnp.arange(whole) + 1) * length <= size
