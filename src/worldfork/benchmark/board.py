"""Entries of the benchmark, and the table of what each earns on every task and price."""

import dataclasses
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Final

import polars as pl

from worldfork import registry
from worldfork.analysis.present.table import Column, Table
from worldfork.analysis.read.triggers import comes_with_worldfork
from worldfork.benchmark.dataset import DETECTORS, Dataset, load
from worldfork.benchmark.harness import PRICES, Entry, Gain, score_entry
from worldfork.benchmark.tasks import TASKS, Task, read_task
from worldfork.errors import WorldforkError
from worldfork.randomness import Event
from worldfork.triggers import Answer, CellKey, Segment, Trigger
from worldfork.triggers.learned import Ridge

REFERENCE_TRIGGERS: Final = ("clock", "random", "periodic", "drift")
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
    named = [
        Entry(name, registry.build("triggers", name, Trigger))
        for name in (*DETECTORS, *LEARNED, *REFERENCE_TRIGGERS)
    ]
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


def enter(
    entries: Sequence[str | Entry] = (),
    *,
    data: Dataset | None = None,
    tasks: Sequence[str] = (),
    prices: Sequence[float | int] = PRICES,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> pl.DataFrame:
    """Return what entries earn: one row per task, entry and price.

    Args:
        entries: names, `module:attribute`, or `Entry` objects; none are all that come with worldfork.
        data: a data set; the published one without it.
        tasks: names of `TASKS`, or STUDY/ARM/WORLD; none are all that the data set has.
        prices: of one update, in units of return.
        progress: called with (what, done, total).

    >>> import worldfork as wf
    >>> board = wf.benchmark.enter(["ridge", "kl"], tasks=["walker-ewc"], prices=[30])
    >>> board.select("entry", "price", "best_baseline", "models").rows()
    [('ridge', 30.0, 'position', 10), ('kl', 30.0, 'position', 10)]
    """
    data = data if data is not None else load()
    held = set(data.forks.select("study", "arm", "task").unique().rows())
    chosen = list(tasks) or [name for name, where in TASKS.items() if where in held]
    if not chosen:
        raise WorldforkError("The data set has none of the benchmark's tasks. Name yours: --task STUDY/ARM/WORLD")
    rows: list[Gain] = []
    for done, name in enumerate(chosen):
        task = read_task(data, name)
        progress("tasks", done, len(chosen))
        at = [float(price) for price in prices]
        asked = [find_entry(each, task) if isinstance(each, str) else each for each in entries] or built_in(task)
        for entry in asked:
            try:
                rows += score_entry(task, entry, prices=at)
            except WorldforkError as error:
                label = entry if isinstance(entry, str) else entry.name
                rows += [_left_out(name, label, price, str(error), len(task.models)) for price in at]
    progress("tasks", len(chosen), len(chosen))
    return pl.DataFrame([dataclasses.asdict(row) for row in rows], infer_schema_length=None)


def _left_out(task: str, entry: str, price: float, why: str, models: int) -> Gain:
    nothing = dict.fromkeys(("earned", "gain", "low", "high", "headroom", "updates"), math.nan)
    return Gain(task=task, entry=entry, price=price, best_baseline="", models=models, left_out=why, **nothing)


def table_of_entries(board: pl.DataFrame, price: float) -> Table:
    """Return entries against tasks at one price: the gain over the best baseline, and its interval."""
    at = board.filter(price=price)
    tasks = list(dict.fromkeys(at["task"]))
    cells = {(row["entry"], row["task"]): _gain(row) for row in at.iter_rows(named=True)}
    entries = list(dict.fromkeys(at["entry"]))
    return Table(
        "benchmark",
        f"Gain per deployment over the best of never, always, position table and one trial, at a price of {price:g}"
        " per update, with 95% intervals (jackknife over models, fitted anew).",
        (Column("Entry", words=True), *(Column(task) for task in tasks)),
        tuple((entry, *(cells.get((entry, task), "") for task in tasks)) for entry in entries),
    )


def table_of_one(board: pl.DataFrame) -> Table:
    """Return the rows of a few entries in full."""
    heads = ("Entry", "Task", "Price", "Earns", "Over the best baseline", "Which is", "Of oracle's", "Updates")
    rows = [
        (
            row["entry"],
            row["task"],
            f"{row['price']:g}",
            _number(row["earned"]),
            _gain(row),
            row["best_baseline"],
            "" if math.isnan(row["headroom"]) or row["gain"] <= 0 else f"{row['headroom']:.0%}",
            f"{row['updates']:.1f}",
        )
        for row in board.filter(left_out="").iter_rows(named=True)
    ]
    words = ("Entry", "Task", "Which is")
    columns = tuple(Column(head, words=head in words, optional=head == "Updates") for head in heads)
    alone = board["entry"].n_unique() == 1
    caption = f"{board['entry'][0]}: return" if alone else "Return"
    return Table(
        "benchmark",
        f"{caption} per deployment, less the price of its updates, with 95% intervals (jackknife over models).",
        columns[alone:],
        tuple(row[alone:] for row in rows),
    )


def _gain(row: dict[str, float]) -> str:
    if math.isnan(row["gain"]):
        return "–"
    interval = "" if math.isnan(row["low"]) else f" [{row['low']:+.0f}, {row['high']:+.0f}]"
    return f"{_number(row['gain'], sign=True)}{interval}"


def _number(value: float, *, sign: bool = False) -> str:
    return f"{round(value) + 0:+,d}" if sign else f"{round(value) + 0:,d}"
