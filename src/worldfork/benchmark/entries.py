"""Entries of the benchmark: recorded signals, detectors, references and what learns, and any trigger of yours."""

import importlib
from typing import Final

from worldfork import registry
from worldfork.analysis.read.triggers import comes_with_worldfork
from worldfork.benchmark.harness import Entry
from worldfork.benchmark.tasks import Task
from worldfork.errors import WorldforkError
from worldfork.randomness import Event
from worldfork.triggers import Answer, CellKey, Segment, Trigger
from worldfork.triggers.learned import Ridge

DETECTORS: Final = ("adwin", "page_hinkley", "kswin", "conformal")
REFERENCES: Final = ("clock", "random", "periodic", "drift")
LEARNED: Final = ("ridge", "stumps")


class Recorded(Trigger):
    """A recorded signal as a trigger: larger is more reason to update."""

    signal: str

    def begin(self, cell: CellKey, *, event: Event) -> None:
        return None

    def decide(self, memory: None, segment: Segment) -> tuple[None, Answer]:
        return memory, segment.signals.get(self.signal)


def built_in(task: Task) -> list[Entry | str]:
    """Return what is entered on every task: signals, detectors, what learns, references, baselines, the oracle."""
    named = [Entry(name, registry.build("triggers", name, Trigger)) for name in (*DETECTORS, *LEARNED, *REFERENCES)]
    signals = [Entry(name, Recorded(signal=name)) for name in task.signals]
    baselines = ("never", "always", "position", *(("one-trial",) if task.episodes is not None else ()), "oracle")
    return [*signals, *named, Entry("ridge-relative", Ridge(relative=True)), *baselines]


def find_entry(name: str, task: Task) -> Entry | str:
    """Return the entry of that name: one of `built_in`, a trigger of the registry, or `module:attribute`.

    What does not come with worldfork is examined first: a trigger that reads the future is refused.
    """
    for entry in built_in(task):
        if name == (entry if isinstance(entry, str) else entry.name):
            return entry
    if name not in registry.names("triggers") and ":" not in name:
        names = ", ".join(each if isinstance(each, str) else each.name for each in built_in(task))
        raise WorldforkError(f"There is no entry `{name}`: known are {names}. One of yours is `my_module:Mine`.")
    trigger = registry.build("triggers", name, Trigger)
    if not comes_with_worldfork(name):
        importlib.import_module("worldfork.testing").check_trigger(trigger)
    return Entry(registry.locate("triggers", name).label, trigger)
