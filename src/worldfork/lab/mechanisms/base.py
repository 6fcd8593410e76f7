"""The Mechanism contract: what UPDATE does to P parameter sets, given each one's window and where it came from."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int, UInt32
from pydantic import Field

from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Agent, Arrays, Checkpoint, Fit, Window
from worldfork.lab.agents.training import Trainable
from worldfork.registry import Plugin


@dataclasses.dataclass(frozen=True)
class Origin:
    """The checkpoints that P parameter sets were deployed from.

    At a fork the current parameters are the origin's. In a deployment whose updates persist they are not, and what
    pulls toward a checkpoint, begins anew from it or rehearses looks here.
    """

    parameters: Arrays
    optimiser: Arrays
    replay: Window | None = None  # of pretraining; None where the mechanism does not read it

    @classmethod
    def of(cls, checkpoints: Sequence[Checkpoint], *, replay: bool = False) -> "Origin":
        """Return the checkpoints side by side, with the replay that they keep if a mechanism reads it."""
        kept = [checkpoint.replay for checkpoint in checkpoints if checkpoint.replay is not None]
        if replay and len(kept) < len(checkpoints):
            raise WorldforkError(
                "This mechanism reads what checkpoints were pretrained on, and one of them keeps none."
            )
        return cls(
            arrays.concatenate([checkpoint.parameters for checkpoint in checkpoints]),
            arrays.concatenate([checkpoint.optimiser for checkpoint in checkpoints]),
            _side_by_side(kept) if replay else None,
        )

    def take(self, index: Int[np.ndarray, " p"]) -> "Origin":
        """Return those of some parameter sets."""
        columns = None
        if self.replay is not None:
            rows = {name: values[index] for name, values in self.replay.columns.items()}
            columns = Window(**rows, size=self.replay.size[index])
        return Origin(arrays.take(self.parameters, index), arrays.take(self.optimiser, index), columns)


@dataclasses.dataclass(frozen=True)
class Update(Fit):
    """The parameters after the mechanism ran, and what it did to get there, per parameter set."""

    param_shift: Float[np.ndarray, " P"]  # Euclidean norm of the change
    transitions: Int[np.ndarray, " P"]  # that the mechanism could see
    non_finite: Int[np.ndarray, " P"]  # parameters that are not finite after the update
    steps: Int[np.ndarray, " P"]  # gradient steps that were taken, whether or not the update was kept


class Mechanism(Plugin):
    """A mechanism by name: `steps`, `window` and `scope` are in [mechanism], fields of a subclass in
    [mechanism.settings].

    >>> class Average(Mechanism):
    ...     def update(self, agent, parameters, *, optimiser, origin, window, batch_keys):
    ...         middle = {name: (x + origin.parameters[name]) / 2 for name, x in parameters.items()}
    ...         seen = last(window, self.window)
    ...         before, after = (agent.loss(x, seen) for x in (parameters, middle))
    ...         fit = Fit(middle, optimiser, before, after, np.zeros(len(seen.size)))
    ...         return updated(parameters, fit, seen, steps=0)

    Pure: the same parameters, origin, window and keys give the same update. It looks no further back than `window`
    control transitions, and trains what `scope` names, in whatever sense the agent gives to it.
    """

    steps: Annotated[int, Field(ge=0)] = 200
    window: Annotated[int, Field(ge=1)] = 10_000
    scope: str = "model"

    @property
    def reads_replay(self) -> bool:
        """True if it needs what the checkpoint was pretrained on: `update` is given it then, and only then."""
        return False

    @property
    def rests_without_steps(self) -> bool:
        """True if no steps is no update. What begins elsewhere than from the current parameters says False."""
        return True

    def describe(self) -> str:
        """Describe its settings: those of [mechanism], and of the others what is set or its own."""
        own_fields = type(self).model_fields.keys() - getattr(type(self).__base__, "model_fields", {}).keys()
        shown = {
            name: value
            for name, value in self
            if name in (*Mechanism.model_fields, *own_fields) or value != type(self).model_fields[name].default
        }
        return ", ".join(f"{name} {_setting_text(value)}" for name, value in shown.items() if value is not None)

    def dose(self, agent: Agent, transitions: int) -> int:
        """Return the gradient steps of an update that sees so many transitions."""
        return self.steps

    def objection(self, agent: Agent, *, shortest: int, longest: int) -> str:
        """Return why it can not update this agent, in a sentence for the registration's author; "" if it can.

        `shortest` and `longest` are the transitions that it will see at the first and at the last decision point.
        Asked before anything runs.
        """
        if self.scope not in agent.scopes:
            scopes = ", ".join(map(repr, agent.scopes))
            return f"the scope of [mechanism] is {self.scope!r}, and the agent can train {scopes}."
        length = agent.minibatch[1] if isinstance(agent, Trainable) and self.steps else 1
        if shortest < length:
            return (
                f"it may see no more than {shortest} transitions, and the agent trains on sequences of {length}. "
                'Where episodes end early and after_end = "wait", a window holds what came before the ends alone.'
            )
        return ""

    @abc.abstractmethod
    def update(
        self,
        agent: Agent,
        parameters: Arrays,
        *,
        optimiser: Arrays,
        origin: Origin,
        window: Window,
        batch_keys: UInt32[np.ndarray, "P 2"],
    ) -> Update:
        """Return the update of each parameter set.

        Args:
            agent: the agent whose parameters they are.
            parameters: the current ones, P sets.
            optimiser: the current state of their optimisers.
            origin: the checkpoints that they came from.
            window: everything since deployment began, padded at the end.
            batch_keys: a key for each set, from which everything random comes.
        """


def within_window(mechanism: Mechanism, update: Update) -> Update:
    """Return the update, if it saw no more than is registered: an arm's window is part of what its rows mean."""
    most = int(np.max(update.transitions, initial=0))
    if most > mechanism.window:
        raise WorldforkError(
            f"The mechanism {type(mechanism).__name__} used {most} transitions, and its registered window is "
            f"{mechanism.window}: cut it with `worldfork.lab.mechanisms.base.last(window, self.window)`."
        )
    return update


def updated(parameters: Arrays, fit: Fit, window: Window, *, steps: int | Int[np.ndarray, " P"]) -> Update:
    """Return the update that a training of `steps` on `window` made; one that diverges is returned as it is."""
    return Update(
        **vars(fit),
        param_shift=arrays.shift(parameters, fit.parameters),
        transitions=window.size,
        non_finite=arrays.count_non_finite(fit.parameters),
        steps=np.broadcast_to(np.asarray(steps, np.int64), np.shape(window.size)),
    )


def unchanged(agent: Agent, parameters: Arrays, *, optimiser: Arrays, window: Window) -> Update:
    """Return no update. The loss is read all the same: it is what an update would have started from."""
    loss = agent.loss(parameters, window)
    zero, none = np.zeros(len(loss)), np.zeros(len(loss), np.int64)
    return Update(parameters, optimiser, loss, loss, zero, zero, window.size, none, none)


def last(window: Window, length: int, *, same_shape: bool = False) -> Window:
    """Return the last `length` transitions of each stream, padded to that length or the window's own.

    With `same_shape` they are padded as the window was, so that the length is data and not the shape of a program:
    for training, which draws below each stream's size and gets the same minibatches either way.
    """
    padded = window.reward.shape[1]
    if length >= padded:
        return window
    size = np.minimum(window.size, length)
    places = np.arange(padded if same_shape else length)
    rows = np.minimum((window.size - size)[:, None] + places, padded - 1)
    real = places < size[:, None]
    stream = np.arange(len(size))[:, None]

    def cut(values: np.ndarray) -> np.ndarray:
        kept = values[stream, rows]
        return np.where(real.reshape(*real.shape, *[1] * (kept.ndim - 2)), kept, np.zeros((), kept.dtype))

    return Window(**{name: cut(values) for name, values in window.columns.items()}, size=size)


def _setting_text(value: object) -> str:
    return (" + ".join(map(str, value)) or "all") if isinstance(value, tuple) else str(value)


def _side_by_side(windows: Sequence[Window]) -> Window:
    """Return one window for each parameter set, padded at the end to the longest."""
    length = max(window.reward.shape[1] for window in windows)
    if any(window.terminated is not None for window in windows):
        windows = [saying_ends(window) for window in windows]

    def column(name: str) -> np.ndarray:
        parts = [window.columns[name] for window in windows]
        return np.concatenate(
            [np.pad(x, [(0, 0), (0, length - x.shape[1]), *[(0, 0)] * (x.ndim - 2)]) for x in parts]
        )

    sizes = np.concatenate([window.size for window in windows])
    return Window(**{name: column(name) for name in windows[0].columns}, size=sizes)


def saying_ends(window: Window) -> Window:
    """Return the window with `terminated`, which is False everywhere where it did not say."""
    if window.terminated is not None:
        return window
    return dataclasses.replace(window, terminated=np.zeros(window.reward.shape, np.bool_))
