"""Agents whose loss is a function in JAX: what they have in common. They learn from sequences of transitions.

Every method is one compiled call over P parameter sets by E episodes. Results depend on the batch's shape by
rounding, so such an agent declares itself shape-sensitive and the block shape enters the ledger.
"""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Float, Float32, UInt32

from worldfork.errors import WorldforkError
from worldfork.lab.agents import differentiable
from worldfork.lab.agents.base import Arrays, Fit, Window
from worldfork.lab.agents.differentiable import LossFunction
from worldfork.lab.agents.training import TrainingPlan, chosen_prefixes


class JaxAgent(abc.ABC):
    """Training of an agent by its loss function; subclasses are data classes of plain settings."""

    trained_parts: ClassVar[Mapping[str, tuple[str, ...]]]  # scope -> what names of its parameters begin with
    groups: ClassVar[Mapping[str, tuple[str, ...]]]  # group -> prefixes of its parameters' names
    sequences: int  # a minibatch of UPDATE
    length: int

    @property
    @abc.abstractmethod
    def loss_function(self) -> LossFunction:
        """The loss that it learns from."""

    @property
    @abc.abstractmethod
    def rates(self) -> dict[str, float]:
        """Its own learning rates, by group of the optimiser."""

    @abc.abstractmethod
    def shortage(self, window: Window) -> str:
        """Return why a window is too short for a training sequence; "" if it is not."""

    @property
    def scopes(self) -> tuple[str, ...]:
        return tuple(self.trained_parts)

    @property
    def device(self) -> str:
        return str(jax.devices()[0].device_kind)

    @property
    def minibatch(self) -> tuple[int, int]:
        return self.sequences, self.length

    def trained(self, scope: str, name: str) -> bool:
        return name.split("/")[0] in self.trained_parts[scope]

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
        """Take gradient steps on minibatches of sequences of the window, from the checkpoint's optimiser state on.

        Losses are those of the first and of the last minibatch, each before its step.
        """
        plan = TrainingPlan(steps, scope, rate)
        return self.train(parameters, optimiser, window, plan=plan, batch_keys=batch_keys)

    def train(
        self,
        parameters: Arrays,
        optimiser: Arrays,
        window: Window,
        *,
        plan: TrainingPlan,
        batch_keys: UInt32[np.ndarray, "P 2"],
    ) -> Fit:
        """Carry a plan out on sequences of the window."""
        if plan.scope not in self.trained_parts:
            scopes = ", ".join(map(repr, self.trained_parts))
            raise WorldforkError(f"Unknown scope {plan.scope!r}; the known ones are {scopes}.")
        for source in (window, *([plan.rehearsal.replay] if plan.rehearsal else [])):
            if shortage := self.shortage(source):
                raise WorldforkError(
                    f"The window holds {int(source.size.min())} transitions {shortage}: "
                    "register a longer window or a smaller `length` for the agent."
                )
        prefixes = chosen_prefixes(self, plan.groups)  # type: ignore[arg-type]
        return differentiable.train(
            self.loss_function,
            parameters,
            optimiser,
            window,
            plan=plan,
            trained=lambda name: self.trained(plan.scope, name) and (not prefixes or name.startswith(prefixes)),
            rates=self.rates,
            sequences=self.sequences,
            batch_keys=batch_keys,
        )


def single(observation: Float[np.ndarray, "P E O"]) -> Float32[np.ndarray, "P E O"]:
    """Round on the host: the device is handed four bytes a number, and no program is called to round them."""
    return np.array(observation, np.float32)


def on_its_way(*outcomes: Any) -> None:
    """Begin to copy arrays to the host: stepping the world waits for them, and for nothing else."""
    for outcome in outcomes:
        if isinstance(outcome, jax.Array):
            outcome.copy_to_host_async()
