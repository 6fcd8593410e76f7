"""The Agent contract: arrays and integers at the boundary, so that any framework can stand behind it.

Axes: P parameter sets, E episodes per set, O observations, A actions, T window transitions.
Parameters and optimiser state are flat dictionaries of arrays with a leading axis P, as a checkpoint stores them;
beliefs are whatever the agent likes, and only ever handed back to it. Every method is pure.
"""

import abc
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, UInt32

from worldfork.errors import WorldforkError
from worldfork.lab.environments.base import Environment
from worldfork.randomness import Event
from worldfork.registry import Plugin

Arrays = Mapping[str, Any]  # name -> array with leading axis P (NumPy, JAX, or anything with the array interface)
Belief = Any


@dataclasses.dataclass(frozen=True)
class Decision:
    """An agent's next action. Non-finite actions are replaced by zero and flagged, never returned.

    Arrays may still be on their way from an accelerator: who reads them waits, and nobody else.
    """

    action: Any  # [P, E, A]
    replaced: Any  # [P, E], booleans
    belief: Belief


@dataclasses.dataclass(frozen=True)
class Surprise:
    """Signals of a control step: the agent's measurements of what its last action led to.

    `signals` holds whatever it can measure at a control step, by name: each becomes a column of the stream's log.
    `error`, the one-step prediction error in the agent's own space, is among them unless the agent says `predicts =
    False`; `kl` is the raw KL of posterior from prior. Names are the agent's to choose; those of the log's other
    columns are taken.
    """

    signals: Mapping[str, Any]  # [P, E] each
    belief: Belief


@dataclasses.dataclass(frozen=True)
class Window:
    """The last transitions of P streams, oldest first, padded at the end to one length T.

    Row t holds the observation the action was planned on, the planned action, the reward it earned, and the
    observation it led to. `first` marks the first row of an episode, and of every attempt where an episode begins
    anew once it has ended: what a row led to is then not what the next row was planned on. `terminated` marks rows
    that led to the task's own end, after which nothing is earned; a time limit is none. None where no episode ends.
    """

    observation: Float[np.ndarray, "P T O"]
    action: Float[np.ndarray, "P T A"]
    reward: Float[np.ndarray, "P T"]
    next_observation: Float[np.ndarray, "P T O"]
    first: Bool[np.ndarray, "P T"]
    size: Int[np.ndarray, " P"]  # rows that are real
    terminated: Bool[np.ndarray, "P T"] | None = None

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Everything that has a row t, by name."""
        held = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "size"}
        return {name: values for name, values in held.items() if values is not None}


@dataclasses.dataclass(frozen=True)
class Fit:
    """New parameters and optimiser state, and how the training went, per parameter set.

    The losses are the agent's own, to be compared within one agent: of the whole window before the first step and
    after the last (`linear_quadratic`), or, where that would cost as much as training, of the first minibatch
    before the first step and of the last minibatch before the last (`rssm_cem`: NaN where no step was taken).
    """

    parameters: Arrays
    optimiser: Arrays
    loss_before: Float[np.ndarray, " P"]
    loss_after: Float[np.ndarray, " P"]
    grad_norm: Float[np.ndarray, " P"]  # of the last step


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A pretrained agent; every array has a leading axis of one.

    `replay` is a sample of what it was pretrained on, where its files keep one; `first` marks where each piece of
    it begins. Mechanisms that rehearse read it, and no others (`worldfork.lab.mechanisms.base.Origin`).
    """

    parameters: Arrays
    optimiser: Arrays
    clean_return: float  # mean return at drift level 0 without noise: what `return_deficit` is measured from
    digest: str  # of everything above; for files, SHA-256 of the first
    remark: str = ""  # what a reader should know of it, if anything
    replay: Window | None = None
    replay_digest: str | None = None  # SHA-256 of the replay's file
    after_end: str | None = (
        None  # of the episodes of `clean_return`, where they can end early and its record says so
    )


def taken_by(method: Callable[..., Any], *names: str) -> tuple[str, ...]:
    """Return those of the named arguments that a method takes: an agent says by its signature what it wants to be
    told.

    >>> taken_by(lambda observation, *, reward: None, "reward", "terminated")
    ('reward',)
    """
    taken = inspect.signature(method).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        return names
    return tuple(name for name in names if name in {parameter.name for parameter in taken})


@runtime_checkable
class Agent(Protocol):
    """Something that acts from parameters and can be trained on a window.

    Beside what is below it may offer `begin_again(parameters, belief, observation, where)`, which returns the
    belief with the episodes in `where` [P, E] begun anew at their `observation` [P, E, O], and the others as they
    are: it takes that to be deployed in a world whose episodes end early. `worldfork.lab.agents.arrays.begun` is
    all of it where a belief is made of arrays. An `observe` that names `reward` or `terminated` [P, E] is given
    them, and one that names `measure` is told False where nobody reads its signals, as in an evaluation.
    """

    @property
    def scopes(self) -> tuple[str, ...]:
        """Names of what `fit` can be asked to train."""

    @property
    def device(self) -> str:
        """The device that it computes on, in words: "cpu", "NVIDIA H200"; part of a ledger's identity."""

    @property
    def shape_sensitive(self) -> bool:
        """True if results depend on the batch shape: the block shape then enters the ledger."""

    def begin(self, parameters: Arrays, observation: Float[np.ndarray, "P E O"]) -> Belief:
        """Return the belief at an episode's first observation."""

    def act(self, parameters: Arrays, belief: Belief, plan_keys: UInt32[np.ndarray, "P E 2"]) -> Decision:
        """Choose actions; everything random comes from `plan_keys` (one key per episode and step)."""

    def observe(self, parameters: Arrays, belief: Belief, observation: Float[np.ndarray, "P E O"]) -> Surprise:
        """Take in what the last action led to."""

    def loss(self, parameters: Arrays, window: Window) -> Float[np.ndarray, " P"]:
        """Return the training loss of each parameter set on its window, without training. An agent that learns from
        sequences may leave out the rest of a window that fills none (`rssm_cem` does)."""

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


def needs_full_blocks(agent: Agent) -> bool:
    """Return True if a parameter set's digits depend on how many others are computed with it.

    Blocks that are not full are padded then, and only then. An agent with `set_by_set = True` computes each set
    alone: only the number of its episodes may matter to it.
    """
    return agent.shape_sensitive and not getattr(agent, "set_by_set", False)


class AgentPlugin(Plugin):
    """An agent by name; the fields of a subclass are its settings.

    A checkpoint comes from files (`load`) or from a seed (`generate`): an agent offers at least one of the two.

    >>> class Mine(AgentPlugin):
    ...     packages: ClassVar = ("numpy",)  # whose versions decide digits
    ...     gain: float = 1.0  # a setting: [tasks.TASK.settings] gain = 2.0
    ...
    ...     def build(self, environment, *, precision): ...
    ...     def load(self, agent, environment, path): ...
    """

    suffixes: ClassVar[tuple[str, ...]] = (".safetensors", ".json")  # the files of one checkpoint
    optional_suffixes: ClassVar[tuple[str, ...]] = ()  # those that it may have beside them, such as its replay
    # How a checkpoint comes to keep a replay, for a mechanism that rehearses.
    replay_advice: ClassVar[str] = "Pretrain it with `replay` in its recipe, the number of transitions to keep."

    @abc.abstractmethod
    def build(self, environment: Environment, *, precision: str) -> Agent:
        """Return the agent for a world; a precision that it does not know is refused with those it knows."""

    def load(self, agent: Any, environment: Any, path: Path) -> Checkpoint:
        """Return the checkpoint at `path`, whose other files lie beside it."""
        raise WorldforkError('This agent has no files; register checkpoints = "generated".')

    def generate(self, agent: Any, environment: Any, event: Event) -> Checkpoint:
        """Return a checkpoint made from a seed: everything random comes from `event`."""
        raise WorldforkError(
            "This agent can not be generated from a seed: say where its files are. In a registration that is "
            'checkpoints = "folder/{task}-{checkpoint}.safetensors", or "bundled"; for worldfork.testing it is '
            "check_agent(..., checkpoints=[path, path])."
        )


@dataclasses.dataclass(frozen=True)
class Transitions:
    """The transitions that one update may learn from, oldest first.

    `first` marks the first row of an episode, and of every attempt where an episode begins anew once it has ended.
    `terminated` marks rows that led to the task's own end, after which nothing is earned; a time limit is none, and
    in a world whose episodes never end it is False everywhere.
    """

    observation: Float[np.ndarray, "T O"]
    action: Float[np.ndarray, "T A"]
    reward: Float[np.ndarray, " T"]
    next_observation: Float[np.ndarray, "T O"]
    first: Bool[np.ndarray, " T"]
    terminated: Bool[np.ndarray, " T"]

    def __len__(self) -> int:
        return len(self.reward)


def transitions_of(window: Window, p: int) -> Transitions:
    """Return what parameter set p may learn from, without padding."""
    size = int(window.size[p])
    rows = {name: values[p, :size].copy() for name, values in window.columns.items()}
    return Transitions(**{"terminated": np.zeros(size, np.bool_), **rows})
