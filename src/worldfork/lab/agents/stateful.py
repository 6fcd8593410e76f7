"""Any agent that keeps its state inside, made into the agent that worldfork asks for: pure, batched, keyed.

Most agents are objects: they act, they learn, and what they are is somewhere inside. Such an object stays as it
is; it only has to give its state away and take it back as arrays. The shim then loads a parameter set before every
call, hands each episode its own memory, and seeds every global generator from the key of the call, so that code
which draws from `random`, `numpy.random` or `torch` receives common random numbers without knowing it.

Axes: P parameter sets, E episodes per set, O observations, A actions, T transitions.
"""

import abc
import contextlib
import dataclasses
import functools
import inspect
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, UInt32

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import (
    AgentPlugin,
    Arrays,
    Checkpoint,
    Decision,
    Fit,
    Surprise,
    Transitions,
    Window,
    taken_by,
    transitions_of,
)
from worldfork.lab.agents.seeding import seeded
from worldfork.lab.agents.stateful_checkpoints import OPTIMISER, REPLAY, keep_replay, parted, read_checkpoint
from worldfork.lab.agents.training import Rehearsal
from worldfork.lab.environments.base import AfterEnd, Environment, can_end
from worldfork.lab.episodes import fixed_level_returns

__all__ = [
    "Stateful",
    "StatefulAgent",
    "StatefulPlugin",
    "Transitions",
    "copied",
    "save_checkpoint",
    "seeded",
    "transitions_of",
]

HELD: Final = 256 * 2**20  # bytes of state in objects that each keep a parameter set
MEASURED: Final = ("loss_before", "loss_after", "grad_norm")  # what `learn` may say of itself


# Generators are global and an agent is one object: whoever works with them in another thread waits.
ONE_AT_A_TIME: Final = threading.RLock()
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def alone(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return a method that no other thread's call of such a method interrupts."""

    @functools.wraps(method)
    def locked(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        with ONE_AT_A_TIME:
            return method(*arguments, **named)

    return locked


@runtime_checkable
class Stateful(Protocol):
    """An agent that keeps its state inside. With `together = True` it is handed all episodes of a
    parameter set at once: observations are then [E, O] and actions [E, A], and one key serves the whole call.

    It may also offer `get_belief()` and `set_belief(belief)`, for what it remembers from step to step; `surprise(
    observation, action, next_observation)`, a number or several by name, which is given `reward` and `terminated`
    too if it names them; `loss(window)`; `seed(number)`, for generators of its own; `scopes`, what `learn` can be
    asked to train (it is then handed `scope`); `device`; and `predicts = False` where it makes no one-step
    predictions and so has no `error`. Handed all episodes at once, one that remembers can be deployed where
    episodes end early if its `reset(observation, where)` forgets those in `where` [E] alone.
    """

    def reset(self, observation: Any) -> None:
        """Forget the last episode; this is the first observation of the next."""

    def act(self, observation: Any) -> Any:
        """Return the next action."""

    def learn(self, window: Transitions, *, steps: int, rate: float) -> Mapping[str, float]:
        """Train for `steps` steps at `rate` times the usual learning rate; may say `loss_before`, `loss_after` and
        `grad_norm`. With arguments `replay` and `share` that may be left out, it can rehearse."""

    def get_state(self) -> Mapping[str, np.ndarray]:
        """EVERYTHING that `learn` changes, as copies: networks, target networks, normalisers, step counts, and
        under names that begin with `optimiser.` what the optimiser keeps."""

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Become what `get_state` returned."""


@dataclasses.dataclass(frozen=True)
class Belief:
    """The state of each episode: what it saw, what it did, and what the agent remembers of it."""

    observation: Float[np.ndarray, "P E O"]
    action: Float[np.ndarray, "P E A"]
    memory: tuple[tuple[Any, ...], ...]  # per set, per call: one for each episode, or one for all together


class StatefulAgent:
    """A stateful agent as a pure one. Every call loads what it is about and leaves nothing that matters."""

    set_by_set = True

    def __init__(self, inner: Any, environment: Environment, *, another: Callable[[], Any] | None = None) -> None:
        """Take the object in; `another` makes more of them, so that parameter sets which take turns stay loaded."""
        self._inner = inner
        self._size = environment.action_size
        self._bound = environment.action_bound
        self._together = bool(getattr(inner, "together", False))
        self._remembers = hasattr(inner, "get_belief")
        self._resets_some = "where" in taken_by(inner.reset, "where")
        self.predicts: bool = bool(getattr(inner, "predicts", True))
        self._told = taken_by(inner.surprise, "reward", "terminated") if hasattr(inner, "surprise") else ()
        state = copied(inner.get_state())
        self._objects, self._another = [inner], another
        self._most = 1 + HELD // max(1, sum(array.nbytes for array in state.values())) if another else 1
        self._source: Arrays | None = None  # of what is loaded: by object, the set and whether all of it is finite
        self._loaded: dict[int, tuple[int, bool]] = {}
        self._fresh_optimiser = {name: array for name, array in state.items() if name.startswith(OPTIMISER)}
        self.scopes: tuple[str, ...] = tuple(getattr(inner, "scopes", ("model",)))
        self.device: str = str(getattr(inner, "device", "cpu"))
        # Frameworks round differently in another batch, and then one key serves all episodes of a call.
        self.shape_sensitive: bool = self._together
        self.rehearses: bool = {"replay", "share"} <= inspect.signature(inner.learn).parameters.keys()

    @alone
    def begin(self, parameters: Arrays, observation: Float[np.ndarray, "P E O"]) -> Belief:
        memory = []
        for p in range(len(observation)):
            self._load(parameters, p)
            parts = self._slices(observation.shape[1])
            memory.append(tuple(self._first_memory(observation[p, part]) for part in parts))
        return Belief(observation, np.zeros((*observation.shape[:2], self._size)), tuple(memory))

    @alone
    def act(self, parameters: Arrays, belief: Belief, plan_keys: UInt32[np.ndarray, "P E 2"]) -> Decision:
        action = np.zeros(belief.action.shape)
        memory = []
        for p in range(len(action)):
            if not self._load(parameters, p):  # parameters that are not finite: nothing to act with
                action[p], after = np.nan, belief.memory[p]
            else:
                calls = []
                for call, part in enumerate(self._slices(len(action[p]))):
                    self._remember(belief.memory[p][call])
                    with self._drawing(plan_keys[p, part][0]):
                        chosen = self._inner.act(self._given(belief.observation[p, part]))
                    action[p, part] = np.asarray(chosen, np.float64).reshape(-1, self._size)
                    calls.append(self._memory())
                after = tuple(calls)
            memory.append(after)
        replaced: Any = ~np.isfinite(action).all(axis=2)
        action = np.clip(np.where(replaced[..., None], 0.0, action), -self._bound, self._bound)
        return Decision(action, replaced, Belief(belief.observation, action, tuple(memory)))

    @property
    def begin_again(self) -> Callable[..., Belief] | None:
        """None where all episodes have one memory, and `reset` can not forget some of them alone."""
        together = self._together and self._remembers and not self._resets_some
        return None if together else self._begin_again

    @alone
    def _begin_again(
        self,
        parameters: Arrays,
        belief: Belief,
        observation: Float[np.ndarray, "P E O"],
        where: Bool[np.ndarray, "P E"],
    ) -> Belief:
        memory = [list(calls) for calls in belief.memory]
        for p in np.flatnonzero(where.any(axis=1)) if self._remembers else ():
            self._load(parameters, int(p))
            for call, part in enumerate(self._slices(where.shape[1])):
                if where[p, part].any():
                    self._remember(memory[p][call])
                    memory[p][call] = self._first_memory(observation[p, part], where=where[p, part])
        return Belief(observation, belief.action, tuple(map(tuple, memory)))

    @alone
    def observe(
        self,
        parameters: Arrays,
        belief: Belief,
        observation: Float[np.ndarray, "P E O"],
        *,
        reward: Float[np.ndarray, "P E"] | None = None,
        terminated: Bool[np.ndarray, "P E"] | None = None,
        measure: bool = True,
    ) -> Surprise:
        if not (measure or self._remembers):  # nobody reads what is measured, and nothing is remembered of it
            return Surprise({}, dataclasses.replace(belief, observation=observation))
        outcome: dict[str, Any] = {"reward": reward, "terminated": terminated}
        sets, episodes = observation.shape[:2]
        signals = {"error": np.full((sets, episodes), np.nan)} if self.predicts else {}
        memory = [list(calls) for calls in belief.memory]
        for p in range(sets if hasattr(self._inner, "surprise") else 0):
            if not self._load(parameters, p):
                continue
            for call, part in enumerate(self._slices(episodes)):
                self._remember(memory[p][call])
                seen = (belief.observation[p, part], belief.action[p, part], observation[p, part])
                outcomes = {name: self._given(outcome[name][p, part]) for name in self._told}
                with self._drawing(None):
                    measured = self._inner.surprise(*map(self._given, seen), **outcomes)
                for name, values in (measured if isinstance(measured, Mapping) else {"error": measured}).items():
                    column = signals.setdefault(name, np.full((sets, episodes), np.nan))
                    column[p, part] = np.asarray(values, np.float64).reshape(-1)
                memory[p][call] = self._memory()
        return Surprise(signals, Belief(observation, belief.action, tuple(map(tuple, memory))))

    @alone
    def loss(self, parameters: Arrays, window: Window) -> Float[np.ndarray, " P"]:
        """Return the agent's own loss; NaN where it offers none."""
        losses = np.full(len(window.size), np.nan)
        for p in range(len(losses) if hasattr(self._inner, "loss") else 0):
            self._load(parameters, p)
            with self._drawing(None):
                losses[p] = float(self._inner.loss(transitions_of(window, p)))
        return losses

    @alone
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
        rehearsal: Rehearsal | None = None,
    ) -> Fit:
        if scope not in self.scopes:
            raise WorldforkError(f"It trains {', '.join(self.scopes)}; got the scope {scope!r}.")
        chosen: dict[str, Any] = {"scope": scope} if hasattr(self._inner, "scopes") else {}
        trained: list[Mapping[str, np.ndarray]] = []
        measured = {name: np.full(len(batch_keys), np.nan) for name in MEASURED}
        for p in range(len(batch_keys)):
            self._load({**parameters, **optimiser}, p, everything=True)
            self._source = None  # it is about to become something else
            if rehearsal is not None:
                chosen |= {"replay": transitions_of(rehearsal.replay, p), "share": rehearsal.share}
            with self._drawing(batch_keys[p]):
                report = self._inner.learn(transitions_of(window, p), steps=steps, rate=rate, **chosen) or {}
            for name in MEASURED:
                measured[name][p] = float(report.get(name, np.nan))
            trained.append(self._learnt({**parameters, **optimiser}))
        groups = [
            {name: np.stack([state[name] for state in trained]) for name in part}
            for part in (parameters, optimiser)
        ]
        return Fit(groups[0], groups[1], **measured)

    def _learnt(self, before: Arrays) -> Mapping[str, np.ndarray]:
        """Return the state after `learn`, which has the same names as the one before it: what else it kept would be
        lost at the next update, and nobody would know."""
        state: Mapping[str, np.ndarray] = copied(self._inner.get_state())
        if new := sorted(state.keys() - before.keys()):
            raise WorldforkError(
                f"After `learn`, `get_state` has names that the checkpoint lacks: {_some(new)}. Create what they "
                "stand for when the agent is made (an optimiser's moments too), so that every checkpoint has them."
            )
        if lost := sorted(before.keys() - state.keys()):
            raise WorldforkError(
                f"The checkpoint has names that `get_state` does not return after `learn`: {_some(lost)}. Return "
                "everything that `set_state` takes."
            )
        seen, remedy = reshaped({name: array.shape[1:] for name, array in before.items()}, state)
        if seen:
            raise WorldforkError(f"After `learn` {seen}. {remedy}")
        return state

    def _load(self, parameters: Arrays, p: int, *, everything: bool = False) -> bool:
        """Turn to an object that is parameter set p, or becomes it; says whether all of the set is finite."""
        place = 0 if everything or not self._another else p % self._most
        while self._another and len(self._objects) <= place:
            self._objects.append(self._another())
        self._inner = self._objects[place]
        if self._source is not parameters:
            self._source, self._loaded = parameters, {}
        if place in self._loaded and self._loaded[place][0] == p:
            return self._loaded[place][1]
        state = {name: np.array(array[p]) for name, array in parameters.items()}
        finite = all(np.isfinite(array).all() for array in state.values() if array.dtype.kind == "f")
        # Who acts needs no optimiser, but `set_state` takes a whole state: a fresh one will do.
        self._inner.set_state(state if everything else {**copied(self._fresh_optimiser), **state})
        self._loaded[place] = (p, finite)
        return finite

    def _slices(self, episodes: int) -> list[slice]:
        return [slice(0, episodes)] if self._together else [slice(e, e + 1) for e in range(episodes)]

    def _given(self, values: np.ndarray) -> Any:
        """As the agent takes it: [E, ...] together, or one episode without that axis."""
        return values.copy() if self._together else values[0].copy()

    def _first_memory(self, observation: np.ndarray, *, where: np.ndarray | None = None) -> Any:
        chosen = {"where": np.ones(len(observation), np.bool_) if where is None else where.copy()}
        with self._drawing(None):
            self._inner.reset(self._given(observation), **(chosen if self._resets_some else {}))
        return self._memory()

    def _memory(self) -> Any:
        return copied(self._inner.get_belief()) if self._remembers else None

    def _remember(self, memory: Any) -> None:
        if self._remembers:
            self._inner.set_belief(copied(memory))

    @contextlib.contextmanager
    def _drawing(self, key: UInt32[np.ndarray, "2"] | None) -> Iterator[None]:
        with seeded(np.zeros(2, np.uint32) if key is None else key) as number:
            if hasattr(self._inner, "seed"):
                self._inner.seed(number)
            yield


class StatefulPlugin(AgentPlugin):
    """An agent that keeps its state inside, by name. Its checkpoints are a .safetensors file of
    its state, a .json file with its clean return, and perhaps a replay: `save_checkpoint` writes them."""

    precisions: ClassVar[tuple[str, ...]] = ("float32",)
    # `make` is quick, and loading is not: parameter sets are kept in several objects, up to 256 MB of state.
    object_per_set: ClassVar[bool] = False
    optional_suffixes: ClassVar[tuple[str, ...]] = (REPLAY,)
    replay_advice: ClassVar[str] = "Write it with save_checkpoint(..., replay=transitions)."

    @abc.abstractmethod
    def make(self, environment: Environment) -> Any:
        """Return the agent, as it is before anything is loaded: the same every time."""

    def build(self, environment: Environment, *, precision: str) -> StatefulAgent:
        if precision not in self.precisions:
            raise WorldforkError(
                f"It computes in {', '.join(self.precisions)}; got the precision {precision!r}. Register another "
                '`precision` for its task, which is "float32" unless you say otherwise.'
            )

        def make_seeded() -> Any:
            with seeded(np.zeros(2, np.uint32)):
                return self.make(environment)

        return StatefulAgent(make_seeded(), environment, another=make_seeded if self.object_per_set else None)

    def load(self, agent: Any, environment: Any, path: Path) -> Checkpoint:
        return read_checkpoint(path)


def save_checkpoint(
    state: Mapping[str, np.ndarray],
    path: Path | str,
    *,
    agent: StatefulAgent,
    environment: Environment,
    episodes: int = 10,
    remark: str = "",
    after_end: AfterEnd = "reset",
    replay: Transitions | None = None,
) -> float:
    """Write a trained state as a checkpoint, with what it returns in the clean world; returns that.

    `after_end` is what the studies that it is made for register, where an episode can end early; `replay` is some
    of what it was trained on, for mechanisms that rehearse.
    """
    from safetensors.numpy import save_file

    file = Path(path).with_suffix(".safetensors")
    file.parent.mkdir(parents=True, exist_ok=True)
    parameters, _ = parted(state)
    returns = fixed_level_returns(
        agent,
        environment,
        parameters,
        checkpoints=[file.stem],
        episodes=episodes,
        occasion="report",
        after_end=after_end,
    )
    save_file({name: np.array(array, order="C") for name, array in state.items()}, file)
    record = {"clean_return": float(returns.mean()), "episodes": episodes, "remark": remark}
    if can_end(environment):
        record["after_end"] = after_end
    if replay is not None:
        record |= keep_replay(file, dataclasses.asdict(replay))
    file.with_suffix(".json").write_text(json.dumps(record) + "\n", encoding="utf-8")
    return record["clean_return"]  # type: ignore[return-value]


def reshaped(shapes: Mapping[str, tuple[int, ...]], state: Mapping[str, np.ndarray]) -> tuple[str, str]:
    """Return which array of a state has another shape than before, and what to do; empty where all have theirs.

    >>> reshaped({"buffer": (0, 4)}, {"buffer": np.zeros((20, 4))})[0]
    '`buffer` changed its shape from (0, 4) to (20, 4)'
    """
    for name, shape in shapes.items():
        if state[name].shape != shape:
            remedy = "Keep arrays of state at one shape, for example as a ring buffer with a count."
            return f"`{name}` changed its shape from {shape} to {state[name].shape}", remedy
    return "", ""


def _some(names: list[str]) -> str:
    """Return the first few of them."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def copied(values: Any) -> Any:
    """Return a copy of what an agent handed out, however it is put together: arrays, tensors, numbers,
    containers."""
    if isinstance(values, Mapping):
        return {name: copied(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return type(values)(copied(value) for value in values)
    if hasattr(values, "clone"):
        return values.clone()
    return values.copy() if hasattr(values, "copy") else values
