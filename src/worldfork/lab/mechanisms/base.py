"""The Mechanism contract: what UPDATE does to P parameter sets, given each one's window."""

import abc
import dataclasses
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int, UInt32
from pydantic import Field

from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Agent, Arrays, Fit, Window
from worldfork.registry import Plugin

__all__ = ["Mechanism", "Update", "unchanged", "updated"]


@dataclasses.dataclass(frozen=True)
class Update:
    """The parameters after the mechanism ran, and what it did to get there, per parameter set."""

    parameters: Arrays
    optimiser: Arrays
    loss_before: Float[np.ndarray, " P"]
    loss_after: Float[np.ndarray, " P"]
    grad_norm: Float[np.ndarray, " P"]
    param_shift: Float[np.ndarray, " P"]  # Euclidean norm of the change
    transitions: Int[np.ndarray, " P"]  # that the mechanism could see
    non_finite: Int[np.ndarray, " P"]  # parameters that are not finite after the update


class Mechanism(Plugin):
    """What a mechanism's name stands for: `steps`, `window` and `scope` are in [mechanism], fields of a subclass in
    [mechanism.settings].

    Pure: the same parameters, window and keys give the same update. It looks no further back than `window` control
    transitions, and trains what `scope` names, in whatever sense the agent gives to it.
    """

    steps: Annotated[int, Field(ge=0)] = 200
    window: Annotated[int, Field(ge=1)] = 10_000
    scope: str = "model"

    @abc.abstractmethod
    def update(
        self,
        agent: Agent,
        parameters: Arrays,
        *,
        optimiser: Arrays,
        window: Window,
        batch_keys: UInt32[np.ndarray, "P 2"],
    ) -> Update:
        """The update of each parameter set; `window` is everything since deployment began, padded at the end."""


def updated(parameters: Arrays, fit: Fit, window: Window) -> Update:
    """What a training on `window` made of `parameters`; an update that diverges is returned as it is."""
    return Update(
        parameters=fit.parameters,
        optimiser=fit.optimiser,
        loss_before=fit.loss_before,
        loss_after=fit.loss_after,
        grad_norm=fit.grad_norm,
        param_shift=arrays.shift(parameters, fit.parameters),
        transitions=window.size,
        non_finite=arrays.count_non_finite(fit.parameters),
    )


def unchanged(agent: Agent, parameters: Arrays, *, optimiser: Arrays, window: Window) -> Update:
    """No update. The loss is read all the same: it is what an update would have started from."""
    loss = agent.loss(parameters, window)
    zero, none = np.zeros(len(loss)), np.zeros(len(loss), np.int64)
    return Update(parameters, optimiser, loss, loss, zero, zero, window.size, none)
