"""The Agent contract: arrays and integers at the boundary, so that any framework can stand behind it.

Axes: P parameter sets, E episodes per set, O observations, A actions, T window transitions.
Parameters and optimiser state are flat dictionaries of arrays with a leading axis P, as a checkpoint stores them;
beliefs are whatever the agent likes, and only ever handed back to it. Every method is pure.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, UInt32

__all__ = ["Agent", "Arrays", "Decision", "Fit", "Surprise", "Window"]

Arrays = Mapping[str, Any]  # name -> array with leading axis P (NumPy, JAX, or anything with the array interface)
Belief = Any


@dataclasses.dataclass(frozen=True)
class Decision:
    """What the agent would do now. Non-finite actions are replaced by zero and flagged, never returned.

    Arrays may still be on their way from an accelerator: who reads them waits, and nobody else.
    """

    action: Any  # [P, E, A]
    replaced: Any  # [P, E], booleans
    belief: Belief


@dataclasses.dataclass(frozen=True)
class Surprise:
    """What the agent makes of the outcome of its last action: the pre-fork signals of the stream, [P, E]."""

    error: Any  # one-step prediction error of the observation, in the agent's own space
    kl: Any  # raw KL of posterior from prior, no free bits; NaN where an agent has none
    belief: Belief


@dataclasses.dataclass(frozen=True)
class Window:
    """The last transitions of P streams, oldest first, padded at the end to one length T.

    Row t holds the observation the action was planned on, the planned action, the reward it earned, and the
    observation it led to. `first` marks the first row of an episode.
    """

    observation: Float[np.ndarray, "P T O"]
    action: Float[np.ndarray, "P T A"]
    reward: Float[np.ndarray, "P T"]
    next_observation: Float[np.ndarray, "P T O"]
    first: Bool[np.ndarray, "P T"]
    size: Int[np.ndarray, " P"]  # rows that are real


@dataclasses.dataclass(frozen=True)
class Fit:
    """New parameters and optimiser state, and how the training went, per parameter set."""

    parameters: Arrays
    optimiser: Arrays
    loss_before: Float[np.ndarray, " P"]
    loss_after: Float[np.ndarray, " P"]
    grad_norm: Float[np.ndarray, " P"]  # of the last step


@runtime_checkable
class Agent(Protocol):
    """Something that acts from parameters and can be trained on a window."""

    @property
    def name(self) -> str: ...

    @property
    def observation_size(self) -> int: ...

    @property
    def action_size(self) -> int: ...

    @property
    def device(self) -> str:
        """What it computes on, in words: "cpu", "NVIDIA H200"; part of a ledger's identity."""
        ...

    @property
    def shape_sensitive(self) -> bool:
        """True if results depend on the batch shape: the block shape then enters the ledger."""
        ...

    def begin(self, parameters: Arrays, observation: Float[np.ndarray, "P E O"]) -> Belief:
        """The belief at an episode's first observation."""
        ...

    def act(self, parameters: Arrays, belief: Belief, plan_keys: UInt32[np.ndarray, "P E 2"]) -> Decision:
        """Choose actions; everything random comes from `plan_keys` (one key per episode and step)."""
        ...

    def observe(self, parameters: Arrays, belief: Belief, observation: Float[np.ndarray, "P E O"]) -> Surprise:
        """Take in what the last action led to."""
        ...

    def loss(self, parameters: Arrays, window: Window) -> Float[np.ndarray, " P"]:
        """The training loss of each parameter set on its window, without training."""
        ...

    def fit(
        self,
        parameters: Arrays,
        optimiser: Arrays,
        window: Window,
        *,
        steps: int,
        scope: str,
        batch_keys: UInt32[np.ndarray, "P 2"],
        rate: float = 1.0,
    ) -> Fit:
        """`steps` gradient steps on minibatches of the window drawn from `batch_keys`; `scope`: what is trained;
        `rate`: the share of the agent's own learning rates to take."""
        ...
