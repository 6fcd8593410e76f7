"""Mechanisms, signals, triggers and executors that each break one promise, and the words that tell their author."""

import dataclasses
import functools
import itertools
import multiprocessing
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, ClassVar

import numpy as np

from worldfork.executors.base import ExecutorPlugin
from worldfork.lab.agents.base import Agent, Arrays, Window
from worldfork.lab.mechanisms.base import Mechanism, Origin, Update, last, updated
from worldfork.lab.mechanisms.finetune import FineTune
from worldfork.lab.mechanisms.rehearsal import Rehearse
from worldfork.lab.signals import Episode, Signal
from worldfork.randomness import Event
from worldfork.triggers import CellKey, Segment, Trigger

COUNT = itertools.count()
RANDOM = np.random.default_rng()


class StepsAnyway(FineTune):
    def update(self, agent: Agent, parameters: Arrays, **given: Any) -> Update:
        return self.model_copy(update={"steps": max(1, self.steps)})._trained(agent, parameters, **given)

    def _trained(self, agent: Agent, parameters: Arrays, **given: Any) -> Update:
        return super().update(agent, parameters, **given)


class LooksBack(Mechanism):
    """Trains on everything since deployment, and counts what it was allowed to see."""

    def update(
        self,
        agent: Agent,
        parameters: Arrays,
        *,
        optimiser: Arrays,
        origin: Origin,
        window: Window,
        batch_keys: np.ndarray,
    ) -> Update:
        if self.steps == 0:
            return FineTune(steps=0, window=self.window).update(
                agent, parameters, optimiser=optimiser, origin=origin, window=window, batch_keys=batch_keys
            )
        fit = agent.fit(
            parameters, optimiser, window, steps=self.steps, scope=self.scope, batch_keys=batch_keys, rate=1.0
        )
        return updated(parameters, fit, last(window, self.window), steps=self.steps)


class SaysSo(LooksBack):
    """As `LooksBack`, and it tells the truth about what it saw."""

    def update(self, agent: Agent, parameters: Arrays, **given: Any) -> Update:
        return dataclasses.replace(super().update(agent, parameters, **given), transitions=given["window"].size)


class Unfinished(FineTune):
    """Returns what `fit` returned."""

    def update(self, agent: Agent, parameters: Arrays, **given: Any) -> Update:
        keys = given["batch_keys"]
        return agent.fit(  # type: ignore[return-value]
            parameters, given["optimiser"], given["window"], steps=self.steps, scope=self.scope, batch_keys=keys
        )


class Padded(FineTune):
    def update(self, agent: Agent, parameters: Arrays, *, window: Window, **given: Any) -> Update:
        seen = last(window, self.window)
        whole = dataclasses.replace(seen, reward=seen.reward + window.reward[:, -1:] * 1e-9)
        shifted = dataclasses.replace(
            whole, next_observation=whole.next_observation + whole.reward[..., None] * 1e-9
        )
        return super().update(agent, parameters, window=shifted, **given)


class InPlace(FineTune):
    def update(self, agent: Agent, parameters: Arrays, **given: Any) -> Update:
        update = super().update(agent, parameters, **given)
        for name in parameters:
            parameters[name][:] = update.parameters[name]
        return update


class Undecided(FineTune):
    def update(self, agent: Agent, parameters: Arrays, *, batch_keys: np.ndarray, **given: Any) -> Update:
        return super().update(agent, parameters, batch_keys=batch_keys + np.uint32(next(COUNT)), **given)


class GlobalCoin(FineTune):
    def update(self, agent: Agent, parameters: Arrays, **given: Any) -> Update:
        np.random.random()  # noqa: NPY002
        return super().update(agent, parameters, **given)


class Modest(FineTune):
    def update(self, agent: Agent, parameters: Arrays, **given: Any) -> Update:
        update = super().update(agent, parameters, **given)
        return dataclasses.replace(update, param_shift=np.zeros_like(update.param_shift))


class BackToTheOrigin(FineTune):
    """Forgets what was kept of earlier updates, also when it is asked to do nothing."""

    def update(self, agent: Agent, parameters: Arrays, *, origin: Origin, **given: Any) -> Update:
        return super().update(agent, origin.parameters, origin=origin, **given)


class SpoilsItsOrigin(FineTune):
    def update(self, agent: Agent, parameters: Arrays, *, origin: Origin, **given: Any) -> Update:
        for name, array in origin.parameters.items():
            array[:] = parameters[name]
        return super().update(agent, parameters, origin=origin, **given)


class RehearsesPadding(Rehearse):
    def update(self, agent: Agent, parameters: Arrays, *, origin: Origin, **given: Any) -> Update:
        assert origin.replay is not None
        everything = origin.replay.observation.sum(axis=(1, 2))[:, None, None]
        replay = dataclasses.replace(origin.replay, next_observation=origin.replay.next_observation + everything)
        return super().update(agent, parameters, origin=dataclasses.replace(origin, replay=replay), **given)


class Agreeable(FineTune):
    def objection(self, agent: Agent, *, shortest: int, longest: int) -> str:
        return ""


class Grumpy(FineTune):
    def objection(self, agent: Agent, *, shortest: int, longest: int) -> str:
        return "I would rather not."


class Endless(FineTune):
    """Builds windows of its own, of the columns that it knows."""

    def update(self, agent: Any, parameters: Any, *, window: Window, **given: Any) -> Update:
        return super().update(agent, parameters, window=dataclasses.replace(window, terminated=None), **given)


class Shifting(FineTune):
    """Takes the next row for what an action led to."""

    def update(self, agent: Any, parameters: Any, *, window: Window, **given: Any) -> Update:
        led_to = np.concatenate([window.observation[:, 1:], window.next_observation[:, -1:]], axis=1)
        last_row = np.arange(led_to.shape[1]) >= window.size[:, None] - 1
        led_to = np.where(last_row[..., None], window.next_observation, led_to)
        window = dataclasses.replace(window, next_observation=led_to)
        return super().update(agent, parameters, window=window, **given)


MECHANISMS: list[tuple[type[Mechanism], str]] = [
    (Endless, r"handed to the agent without `terminated`.*window\.columns"),
    (Shifting, r"a row of the window with another `next_observation`.*Keep the columns of a row together"),
    (StepsAnyway, r"with steps = 0 something changed.*mechanisms\.base\.unchanged"),
    (LooksBack, r"spoiling what is older than 20 transitions changed the update.*base\.last"),
    (SaysSo, r"transitions were seen, of \[20 15 20\] allowed"),
    (Unfinished, r"`update` returned a Fit, not an Update.*mechanisms\.base\.updated"),
    (Padded, r"spoiling the padding changed the update"),
    (InPlace, r"`update` writes into what it is given"),
    (Undecided, r"the same arguments gave another update.*`batch_keys` alone"),
    (GlobalCoin, r"`update` draws from NumPy's global generator"),
    (BackToTheOrigin, r"with steps = 0 something changed|`param_shift` is"),
    (SpoilsItsOrigin, r"`update` writes into what it is given"),
    (RehearsesPadding, r"Rows beyond the replay's size are not read: spoiling them changed the update"),
    (Agreeable, r"it accepts a scope that the agent does not have"),
    (Grumpy, r"it objects to the agent that it is tried on: I would rather not"),
    (Modest, r"`param_shift` is \[0\. 0\. 0\.\], the parameters moved by"),
]


class Absent(Signal):
    def read(self, episode: Episode) -> float:
        return float(np.mean(episode.steps["disagreement"]))


class NeedsKL(Signal):
    def read(self, episode: Episode) -> float:
        return float(np.mean(episode.steps["kl"]))


class Noisy(Signal):
    def read(self, episode: Episode) -> float:
        return episode.level + RANDOM.normal()


class GloballyNoisy(Signal):
    def read(self, episode: Episode) -> float:
        return episode.level + np.random.normal()  # noqa: NPY002


SEEN: set[int] = set()


class Remembering(Signal):
    def read(self, episode: Episode) -> float:
        SEEN.add(episode.k)
        return float(max(SEEN))


class Tidying(Signal):
    def read(self, episode: Episode) -> float:
        error = episode.steps["error"]
        error.sort()
        return float(error[-1])


class Wordy(Signal):
    def read(self, episode: Episode) -> float:
        return "high"  # type: ignore[return-value]


SIGNALS: list[tuple[type[Signal], str]] = [
    (Absent, r"it reads `disagreement`, which is not there.*named by `logged=`"),
    (NeedsKL, r"without `kl` it raised KeyError.*Return NaN"),
    (Noisy, r"one episode gave .*function of the episode alone"),
    (GloballyNoisy, r"`read` draws from NumPy's global generator"),
    (Remembering, r"in another order the same episodes gave"),
    (Tidying, r"`read` writes into the episode"),
    (Wordy, r"`read` returned 'high'"),
]


class Forgetful(Trigger):
    """Without a memory."""

    def begin(self, cell: CellKey, *, event: Event) -> Any:
        return None


class GlobalCoinToss(Forgetful):
    def decide(self, memory: Any, segment: Segment) -> tuple[Any, float]:
        return memory, float(np.random.random())  # noqa: NPY002


class PythonsCoin(Forgetful):
    def decide(self, memory: Any, segment: Segment) -> tuple[Any, float]:
        return memory, random.random()


PAST: dict[CellKey, list[float]] = {}


class Peeking(Trigger):
    """Remembers a deployment that it has seen to the end."""

    def begin(self, cell: CellKey, *, event: Event) -> Any:
        return PAST.setdefault(cell, [])

    def decide(self, memory: Any, segment: Segment) -> tuple[Any, float]:
        memory.append(float(segment.steps["error"].mean()))
        return memory, max(memory)


class Late(float):
    """A number that looks at what came after it was given."""

    memory: list[float]

    def __repr__(self) -> str:
        return repr(sum(self.memory))


class Revising(Forgetful):
    def begin(self, cell: CellKey, *, event: Event) -> Any:
        return []

    def decide(self, memory: Any, segment: Segment) -> tuple[Any, float]:
        memory.append(float(np.nanmean(segment.steps["error"])))
        answer = Late(memory[-1])
        answer.memory = memory
        return memory, answer


class Shared(Forgetful):
    """Counts segments in one place for all deployments."""

    seen: ClassVar[list[int]] = []

    def begin(self, cell: CellKey, *, event: Event) -> Any:
        self.seen.clear()

    def decide(self, memory: Any, segment: Segment) -> tuple[Any, float]:
        self.seen.append(segment.k)
        return memory, float(len(self.seen))


class Mixed(Forgetful):
    def decide(self, memory: Any, segment: Segment) -> tuple[Any, Any]:
        return memory, True if segment.k == 1 else 0.5


class Boundless(Forgetful):
    def decide(self, memory: Any, segment: Segment) -> tuple[Any, float]:
        return memory, float("inf") if segment.k == 2 else 0.0


class NeedsMore(Forgetful):
    def decide(self, memory: Any, segment: Segment) -> tuple[Any, float]:
        return memory, float(segment.steps["disagreement"].mean())


class Sorting(Forgetful):
    def decide(self, memory: Any, segment: Segment) -> tuple[Any, float]:
        segment.steps["error"].sort()
        return memory, float(segment.steps["error"][-1])


TRIGGERS: list[tuple[type[Trigger], str]] = [
    (GlobalCoinToss, r"draws from NumPy's global generator.*from the `event`"),
    (PythonsCoin, r"asked again about the same deployment it answered.*from the `event`"),
    (Peeking, r"asked again about the same deployment.*or remembers it.*Keep what you need in the memory"),
    (Revising, r"where the stream ends after segment 1, it answered"),
    (Shared, r"beside other deployments it answered"),
    (Mixed, r"with numbers and with alarms: \[True, 0\.5"),
    (Boundless, r"it answered with infinity"),
    (NeedsMore, r"it reads `disagreement`, which is not there.*named in `needs`"),
    (Sorting, r"`decide` writes into the segment"),
]

Function, Results = Callable[[Any], Any], Iterator[tuple[int, Any]]


class Eager(ExecutorPlugin):
    def map(self, function: Function, tasks: Iterable[Any]) -> Results:
        return iter([(index, function(task)) for index, task in enumerate(tasks)])


class Losing(ExecutorPlugin):
    def map(self, function: Function, tasks: Iterable[Any]) -> Results:
        return ((index, function(task)) for index, task in enumerate(tasks) if index != 4)


class Doubling(ExecutorPlugin):
    def map(self, function: Function, tasks: Iterable[Any]) -> Results:
        for index, task in enumerate(tasks):
            yield index, function(task)
            if index == 2:  # a retry whose first try came back after all
                yield index, function(task)


class Shuffling(ExecutorPlugin):
    """Numbers results as they come, not as the tasks were given."""

    def map(self, function: Function, tasks: Iterable[Any]) -> Results:
        waiting = iter(tasks)
        number = itertools.count()
        while pair := list(itertools.islice(waiting, 2)):
            for task in reversed(pair):
                yield next(number), function(task)


class Raising(ExecutorPlugin):
    def map(self, function: Function, tasks: Iterable[Any]) -> Results:
        for index, task in enumerate(tasks):
            result = function(task)
            if type(result).__name__ == "Failed":
                raise RuntimeError(result.reason)
            yield index, result


class StopsThere(ExecutorPlugin):
    def map(self, function: Function, tasks: Iterable[Any]) -> Results:
        for index, task in enumerate(tasks):
            result = function(task)
            yield index, result
            if type(result).__name__ == "Failed":
                return


class Rounding(ExecutorPlugin):
    """Sends results through something that loses digits."""

    def map(self, function: Function, tasks: Iterable[Any]) -> Results:
        for index, task in enumerate(tasks):
            result = function(task)
            if type(result).__name__ == "Streamed":
                for stream in result.streams:
                    stream.recording["reward"][:] = stream.recording["reward"].astype(np.float32)
            yield index, result


@functools.cache
def one_process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


class Fragile(ExecutorPlugin):
    """Takes for granted that its worker lives."""

    def map(self, function: Function, tasks: Iterable[Any]) -> Results:
        return ((index, one_process().submit(function, task).result()) for index, task in enumerate(tasks))


EXECUTORS: list[tuple[type[ExecutorPlugin], str]] = [
    (Eager, r"all of 1000 tasks were taken before the first result came"),
    (Losing, r"9 tasks came back as the indices \[0, 1, 2, 3, 5"),
    (Doubling, r"came back as the indices \[0, 1, 2, 2, 3"),
    (Shuffling, r"are those of others.*from 0"),
    (Raising, r"a failure among the results became RuntimeError.*never raises"),
    (Fragile, r"a worker that died became BrokenProcessPool.*Give the task of a worker that is gone to another"),
    (StopsThere, r"tasks \[4, 5, 6, 7, 8\] were lost beside a task that failed"),
    (Rounding, r"files differ from those made here"),
]
