"""The Mechanism contract: what UPDATE does to P parameter sets, given each one's window."""

import dataclasses
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, UInt32

from worldfork.lab.agents.base import Agent, Arrays, Window

__all__ = ["Mechanism", "Update"]


@dataclasses.dataclass(frozen=True)
class Update:
    """The parameters after the mechanism ran, and what it did to get there, per parameter set."""

    parameters: Arrays
    optimiser: Arrays
    loss_before: Float[np.ndarray, " P"]
    loss_after: Float[np.ndarray, " P"]
    grad_norm: Float[np.ndarray, " P"]
    param_shift: Float[np.ndarray, " P"]  # Euclidean norm of the change
    window: Int[np.ndarray, " P"]  # transitions the mechanism could see
    non_finite: Int[np.ndarray, " P"]  # parameters that are not finite after the update


@runtime_checkable
class Mechanism(Protocol):
    """Pure: the same parameters, window and keys give the same update."""

    def update(
        self,
        agent: Agent,
        parameters: Arrays,
        optimiser: Arrays,
        window: Window,
        batch_keys: UInt32[np.ndarray, "P 2"],
    ) -> Update: ...
