"""A benchmark of triggers on published forks: anyone can enter one, without a GPU and without JAX.

import worldfork as wf

data = wf.benchmark.load()  # forks, cells, folds, streams: polars frames
board = wf.benchmark.enter(["my_module:Mine"])  # a polars frame: a row per task, entry and price
"""

from worldfork.benchmark.board import built_in, enter, find_entry, table_of_entries, table_of_one
from worldfork.benchmark.dataset import Dataset, load, write
from worldfork.benchmark.harness import Entry, Gain, score_entry
from worldfork.benchmark.tasks import TASKS, Task, read_task

__all__ = [
    "TASKS",
    "Dataset",
    "Entry",
    "Gain",
    "Task",
    "built_in",
    "enter",
    "find_entry",
    "load",
    "read_task",
    "score_entry",
    "table_of_entries",
    "table_of_one",
    "write",
]
