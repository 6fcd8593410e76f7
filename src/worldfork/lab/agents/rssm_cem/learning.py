"""What the agent offers to mechanisms: its loss on a minibatch, minibatches from a window, its own optimiser."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, Final

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from worldfork.lab.agents.base import Window
from worldfork.lab.agents.rssm_cem.model import losses, optimiser
from worldfork.lab.agents.rssm_cem.model.layers import Params
from worldfork.lab.agents.rssm_cem.model.losses import Sequences
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM

__all__ = ["GROUPS", "SCOPES", "SequenceLesson", "cut_into_pieces", "sample_sequences"]

SCOPES: Final = {"model": ("model",), "model+value": ("model", "value")}

# Group -> what the names of its parameters begin with. A scope still decides what the loss is: in the scope `model`
# the value head has none, and `heads` is the reward head.
GROUPS: Final = {
    "encoder": ("model/encoder/", "model/posterior/"),
    "dynamics": ("model/input/", "model/gru/", "model/prior/"),
    "decoder": ("model/decoder/",),
    "reward": ("model/reward/",),
    "value": ("value/",),
    "heads": ("model/reward/", "value/"),
}


@dataclasses.dataclass(frozen=True)
class SequenceLesson:
    """Sequences of a window, the world model's loss on them, and Adam (`worldfork.lab.agents.differentiable`)."""

    model: RSSM
    sequences: int
    length: int

    def rows(self, window: Window) -> Sequences:
        observation, action, reward, next_observation = (
            jnp.asarray(x, jnp.float32)
            for x in (window.observation, window.action, window.reward, window.next_observation)
        )
        terminated = None if window.terminated is None else jnp.asarray(window.terminated)
        return Sequences(observation, action, reward, next_observation, jnp.asarray(window.first), terminated)

    def sample(self, rows: Sequences, size: Array, key: Array) -> Sequences:
        return sample_sequences(rows, size, key, sequences=self.sequences, length=self.length)

    def pieces(self, rows: Sequences, size: Array) -> tuple[Sequences, Array]:
        return cut_into_pieces(rows, size, length=self.length)

    def loss(self, params: Params, batch: Sequences, key: Array, *, scope: str) -> Array:
        loss, filtered = losses.model_loss(self.model, params, batch, key)
        if "value" in SCOPES[scope]:
            loss += losses.replay_value_loss(self.model, params, params, batch, filtered.latent)
        return loss

    def optimiser(self, rates: Mapping[str, Any]) -> optax.GradientTransformation:
        return optimiser.adam(rates)

    def restore(self, moments: Params, names: Collection[str]) -> optax.OptState:
        return optimiser.restore(moments, names)

    def flatten(self, state: optax.OptState) -> dict[str, Array]:
        return optimiser.flatten(state)


def sample_sequences(rows: Sequences, size: Array, key: Array, *, sequences: int, length: int) -> Sequences:
    """A minibatch from rows [T, ...] of which the first `size` are real: starts drawn uniformly."""
    starts = jax.random.randint(key, (sequences,), 0, size - length + 1)
    index = starts[:, None] + jnp.arange(length)
    drawn: Sequences = jax.tree.map(lambda x: x[index], rows)
    return drawn


def cut_into_pieces(rows: Sequences, size: Array, *, length: int) -> tuple[Sequences, Array]:
    """Rows [T, ...] as whole sequences in order [n, 1, length, ...], and which of them are real."""
    whole = rows.reward.shape[0] // length
    pieces: Sequences = jax.tree.map(lambda x: x[: whole * length].reshape(whole, 1, length, *x.shape[1:]), rows)
    return pieces, (jnp.arange(whole) + 1) * length <= size
