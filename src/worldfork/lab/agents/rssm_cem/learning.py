"""The agent's side of training: its loss on a minibatch, minibatches from a window, its own optimiser."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, Final

import optax
from jaxtyping import Array

from worldfork.lab.agents.base import Window
from worldfork.lab.agents.layers import Params
from worldfork.lab.agents.rssm_cem import losses, optimiser
from worldfork.lab.agents.rssm_cem.rssm import RSSM
from worldfork.lab.agents.sequences import Sequences, cut_into_pieces, rows_of, sample_sequences

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
class SequenceLoss:
    """Sequences of a window, the world model's loss on them, and Adam (`worldfork.lab.agents.differentiable`)."""

    model: RSSM
    sequences: int
    length: int

    def rows(self, window: Window) -> Sequences:
        return rows_of(window)

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
