"""Fine-tuning with a second look: an update is kept only if it lowers the loss on transitions it has not seen.

What a careful engineer does before a new model goes live. Sources: validation on held-out data as a stopping and
selection rule (Prechelt, "Early stopping - but when?", 1998); that a lower model loss need not mean a better return
is the objective mismatch of Lambert et al. (2020, arXiv:2002.04523).
"""

import dataclasses
import math
from typing import Annotated

import numpy as np
from jaxtyping import Int
from pydantic import Field

from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Agent, Fit, Window
from worldfork.lab.agents.training import Trainable
from worldfork.lab.mechanisms.finetune import Composed, InitialPoint


class AcceptIfBetter(Composed):
    """Trains on the older part of the window and asks the latest `held_out` of it, which is never trained on.

    A rejected update leaves parameters and optimiser as they were. The row's losses are those on the held-out
    transitions: of the model before, and of the model that is kept.
    """

    same_shape = False

    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.2  # share of the window, its latest transitions
    margin: Annotated[float, Field(ge=0, lt=1)] = 0.0  # share of the loss by which it must fall

    def objection(self, agent: Agent, *, shortest: int, longest: int) -> str:
        if refusal := super().objection(agent, shortest=shortest, longest=longest):
            return refusal
        length = agent.minibatch[1] if isinstance(agent, Trainable) else 1
        for transitions in (shortest, longest):
            held = _held(transitions, self.held_out)
            if min(held, transitions - held) < length:
                return (
                    f"of a window of {transitions} transitions a share of {self.held_out:g} holds out {held} and "
                    f"leaves {transitions - held} to train on, and the agent needs {length} for either."
                )
        return ""

    def trained_on(self, seen: Window) -> Window:
        return dataclasses.replace(seen, size=seen.size - self._held_out(seen))

    def accept(self, agent: Agent, current: InitialPoint, fit: Fit, *, seen: Window) -> Fit:
        """Look at the latest transitions, and keep the training or not: every parameter set for itself."""
        latest = _latest(seen, self._held_out(seen), longest=_held(seen.reward.shape[1], self.held_out))
        before = np.asarray(agent.loss(current.parameters, latest))
        after = np.asarray(agent.loss(fit.parameters, latest))
        with np.errstate(invalid="ignore"):
            better = after < (1.0 - self.margin) * before  # a loss that is not finite is never better
        return dataclasses.replace(
            fit,
            parameters=arrays.choose(better, fit.parameters, current.parameters),
            optimiser=arrays.choose(better, fit.optimiser, current.optimiser),
            loss_before=before,
            loss_after=np.where(better, after, before),
        )

    def _held_out(self, seen: Window) -> Int[np.ndarray, " P"]:
        return np.array([_held(int(size), self.held_out) for size in seen.size])


def _held(size: int, share: float) -> int:
    return math.floor(share * size)


def _latest(window: Window, size: Int[np.ndarray, " P"], *, longest: int) -> Window:
    """Return the latest `size` transitions of each window, padded to one length at every decision point."""
    rows = (window.size - size)[:, None] + np.arange(longest)
    rows = np.minimum(rows, window.reward.shape[1] - 1)
    stream = np.arange(len(size))[:, None]
    return Window(**{name: values[stream, rows] for name, values in window.columns.items()}, size=size)
