"""Training plans, which a mechanism composes and an agent carries out: what is trained, on what, with what penalty,
and how.

An agent that offers `train` is open: mechanisms decide how it learns. One with `fit` alone is a black box, which
works with mechanisms that act on its data and on its parameters. `worldfork.lab.agents.differentiable` carries out
any plan for agents whose loss is a function in JAX.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int, UInt32
from pydantic import Field, model_validator

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Agent, Arrays, Fit, Window
from worldfork.validation import Record

Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]

# A study's precision -> that of a model as it filters and learns, and as it imagines. 16 bits are for planning.
PRECISIONS: Final = {
    "float32": ("float32", "float32"),
    "tf32": ("tf32", "tf32"),
    "fp16": ("tf32", "fp16"),
    "bf16": ("tf32", "bf16"),
}


def precisions(study: str) -> tuple[str, str]:
    """Return the precision of a model as it filters and learns, and as it imagines, for a study's precision."""
    if study not in PRECISIONS:
        raise WorldforkError(f"Unknown precision {study!r}; the known ones are {', '.join(PRECISIONS)}.")
    return PRECISIONS[study]


# Gradient step n draws from fold_in(batch_key, n). What else is drawn has numbers that no step reaches.
FISHER_KEY: Final = 0xFFFF_FFFE
ADAPTER_KEY: Final = 0xFFFF_FFFD


class Descent(Record):
    """Settings of gradient steps.

    The optimiser `own` is the agent's, with its learning rates, from the state that it is handed; the others are
    optax's of that name with `learning_rate`, and begin anew at every update.

    The share of the rate that a step takes rises over `warmup` steps, and is then constant, or falls to `final` at
    the last step in a line or half a cosine.
    """

    optimiser: Literal["own", "sgd", "adam", "adamw"] = "own"
    learning_rate: Annotated[float, Field(gt=0)] | None = None  # of another optimiser than the agent's own
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0  # of `sgd`
    weight_decay: Annotated[float, Field(ge=0)] = 0.0  # of `adamw`
    schedule: Literal["constant", "linear", "cosine"] = "constant"  # of the learning rate over the steps
    warmup: Annotated[int, Field(ge=0)] = 0  # steps over which the rate rises to its full height
    final: Annotated[float, Field(ge=0, le=1)] = 0.0  # share of the rate at the last step of a falling schedule

    @model_validator(mode="after")
    def _consistent(self) -> "Descent":
        if self.optimiser == "own" and self.learning_rate is not None:
            raise ValueError("the agent's own optimiser has its own learning rates: `rate` is the share to take")
        if self.optimiser != "own" and self.learning_rate is None:
            raise ValueError(f"`{self.optimiser}` needs a `learning_rate`")
        if self.momentum and self.optimiser != "sgd":
            raise ValueError(f"`momentum` is a setting of `sgd`, not of `{self.optimiser}`")
        if self.weight_decay and self.optimiser != "adamw":
            raise ValueError(f"`weight_decay` is a setting of `adamw`, not of `{self.optimiser}`")
        if self.final and self.schedule == "constant":
            raise ValueError("`final` is where a `linear` or `cosine` schedule ends, and this one is constant")
        return self

    @property
    def scheduled(self) -> bool:
        """True if steps take different shares of the rate."""
        return self.schedule != "constant" or self.warmup > 0


OWN: Final = Descent()  # the agent's optimiser at its whole rates


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """A share of each minibatch is drawn from what the checkpoint was pretrained on."""

    replay: Window
    share: float


@dataclasses.dataclass(frozen=True)
class L2Penalty:
    """A penalty strength/2 * sum of importance * (parameter - center)**2.

    The importance is 1, or with `replay` the diagonal of the empirical Fisher information there: the mean squared
    gradient of the loss of each of its pieces, at the center.
    """

    center: Arrays
    strength: float
    replay: Window | None = None


@dataclasses.dataclass(frozen=True)
class Adapter:
    """Each weight matrix of the chosen groups gets a trained term scale / rank * left @ right, and nothing else is
    trained; it is added to the matrix at the end."""

    rank: int
    scale: float


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """A composed training. The number of steps, rates, shares and strengths are data; the rest is structure."""

    steps: int | Int[np.ndarray, " P"]
    scope: str
    rate: float = 1.0
    groups: tuple[str, ...] | None = None  # of parameters; None: all that the scope trains
    descent: Descent = OWN
    rehearsal: Rehearsal | None = None
    penalty: L2Penalty | None = None
    adapter: Adapter | None = None

    @property
    def plain(self) -> bool:
        """True if `Agent.fit` does all of it."""
        composed = (self.groups, self.rehearsal, self.penalty, self.adapter)
        by_fit = self.descent.optimiser == "own" and not self.descent.scheduled
        return by_fit and isinstance(self.steps, int) and all(part is None for part in composed)


@runtime_checkable
class Trainable(Protocol):
    """An agent whose training mechanisms can compose, beside what `Agent` asks for."""

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Named groups of parameters: what the names of their arrays begin with. None: a black box after all."""

    @property
    def minibatch(self) -> tuple[int, int]:
        """Sequences of a minibatch, and transitions of a sequence."""

    def train(
        self,
        parameters: Arrays,
        optimiser: Arrays,
        window: Window,
        *,
        plan: TrainingPlan,
        batch_keys: UInt32[np.ndarray, "P 2"],
    ) -> Fit:
        """Carry a plan out on minibatches of the window; everything random comes from `batch_keys`."""

    def trained(self, scope: str, name: str) -> bool:
        """Return True if the scope trains the parameter of that name."""

    def fresh(self, parameters: Arrays, keys: UInt32[np.ndarray, "P 2"]) -> tuple[Arrays, Arrays]:
        """Parameters as they are before any training, drawn from `keys`, and the optimiser's state then."""


def black_box(agent: Agent) -> bool:
    """Return True if mechanisms must leave the training to the agent."""
    return not (isinstance(agent, Trainable) and agent.groups)


def takes_replay(agent: Agent) -> bool:
    """Return True for a black box that can be handed a replay: it says `rehearses = True`, and its `fit` takes
    `rehearsal`, a `Rehearsal`."""
    return black_box(agent) and bool(getattr(agent, "rehearses", False))


def scheduled(shape: str, step: Any, steps: Any, *, warmup: Any, final: Any, xp: Any) -> Any:
    """Return the share of the learning rate at a step, in the arithmetic of `xp`: NumPy, or JAX's."""
    fallen = xp.minimum(1.0, step / xp.maximum(1, steps - 1))
    if shape == "cosine":
        fallen = (1.0 - xp.cos(np.pi * fallen)) / 2.0
    level = 1.0 if shape == "constant" else 1.0 - (1.0 - final) * fallen
    return level * xp.minimum(1.0, (step + 1) / (warmup + 1))


def rehearsed(share: float, sequences: int) -> int:
    """Return the number of sequences of a minibatch that come from the replay."""
    return round(share * sequences)


def chosen_prefixes(agent: Trainable, groups: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the prefixes of the parameters' names in these groups; None stands for all."""
    if groups is None:
        return None
    return tuple(dict.fromkeys(prefix for group in groups for prefix in agent.groups[group]))
