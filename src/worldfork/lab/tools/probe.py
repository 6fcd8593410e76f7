"""A trial before an hour is spent: one small block of forks whose answer is known.

With the mechanism `none`, UPDATE and HOLD are one computation, so dR is exactly 0.0. It is, unless an agent or a
world draws random numbers of its own or remembers earlier calls, which no digest of the draws can show. The block
is computed twice here, in another block shape where the agent says that it does not matter, and in a fresh process;
a few steps of every registered mechanism show that scope, settings and precision are accepted.
"""

import dataclasses
import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from worldfork import registry
from worldfork.blobs import Blob
from worldfork.errors import Failed
from worldfork.executors.base import Executor, opened
from worldfork.lab.forks.checkpoints import checkpoint_files
from worldfork.lab.forks.jobs import Setting, context_of_setting, describe, run_streams
from worldfork.lab.forks.label import Fork, label
from worldfork.lab.forks.plan import fork_blocks, stream_batches
from worldfork.lab.stream import Stream
from worldfork.lab.workers import attempted
from worldfork.ledger.row import ForkRow
from worldfork.registration import (
    Cell,
    Registration,
    canonical,
    cells,
    difference,
    hold_owner,
    open_authored,
    restore,
    stream_owner,
)
from worldfork.registration.schema import Arm, Mechanism

EPISODES: Final = 2
STEPS: Final = 2  # of each registered mechanism
NULL: Final = "null-"  # what the names of arms with the mechanism `none` begin with
SHOWN: Final = 3  # differences that are printed
PREALLOCATE: Final = "XLA_PYTHON_CLIENT_PREALLOCATE"

OWN_DRAWS = (
    "The agent, the world or the mechanism draws random numbers of its own, or remembers earlier calls: draw from "
    "the keys and seeds that are handed in, and keep nothing. worldfork.testing.check_agent, check_environment and "
    "check_mechanism say where."
)
SHAPES = (
    "Either the world depends on what else is in its batch (a generator that its rows share, say), or the agent "
    "does: then compute every parameter set alone, or say True for `shape_sensitive`. check_environment and "
    "check_agent of worldfork.testing say which, and where."
)
PROCESSES = (
    "Something depends on the process: the order of a set, a hash, a seed taken from the clock, a file that is "
    "written on the way. A resumed run would not come out as it began."
)


@dataclasses.dataclass(frozen=True)
class Probe:
    """The outcome of a trial."""

    forks: int
    elsewhere: bool  # whether another process was asked
    seconds: float
    problems: tuple[str, ...]
    silent: tuple[str, ...] = ()  # signals that had nothing to say: a column that the agent does not log, perhaps

    @property
    def passed(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return "\n".join(["The trial before the study failed:", *(f"- {line}" for line in self.problems)])
        where = "twice and in another process" if self.elsewhere else "twice"
        nothing = "".join(f"; the signal `{name}` had nothing to say" for name in self.silent)
        forks = f"{self.forks} small forks the same digits {where} ({self.seconds:.1f} s)"
        return f"`none` gave dR = 0.0, {forks}{nothing}"


def probe(registration: Registration | Path | str) -> Probe:
    """Try every agent, world and mechanism of a registration on one small block, here and in another process.

    `registration` is a file, the name of one that comes with worldfork, or a record.
    """
    authored, root = open_authored(registration)
    files = checkpoint_files(authored.registration, root=root, copies=root)
    return probe_setting(Setting.of(authored.registration, files))


def outside_tasks(registration: Registration) -> list[str]:
    """Return the tasks whose agent, world or mechanism does not come with worldfork."""
    arms = [arm for arm in registration.arms if not registry.locate("mechanisms", arm.mechanism.name).ours]
    updated = {task for arm in arms for task in arm.tasks}
    return [
        name
        for name, task in registration.tasks.items()
        if name in updated
        or not registry.locate("agents", task.agent).ours
        or not registry.locate("environments", task.environment or name).ours
    ]


def probe_setting(
    setting: Setting, *, tasks: Collection[str] | None = None, executor: Executor | None = None
) -> Probe:
    """As `probe`, for these tasks; with an `executor` both computations are its jobs, in processes of its own."""
    began = time.perf_counter()
    registration = restore(setting.registration)
    chosen = tasks if tasks is not None else list(registration.tasks)
    small, shaped = (
        _with(setting, reduced)
        for reduced in (_reduced(registration, chosen, forks_per_block=forks) for forks in (1, 2))
    )
    whole, once = Trial(small, shaped), Trial(small, None)
    if executor is not None:
        results = dict(executor.map(attempt, [whole, once]))
        answers = [results[0], results[1]]
    else:
        answers = [attempt(whole)]
        answers += [] if answers[0].problems else _computed_elsewhere(once)
    # A worker may be lost over a trial.
    first, *others = (
        Attempt({}, (f"It can not be computed: {answer.reason}",)) if isinstance(answer, Failed) else answer
        for answer in answers
    )
    problems = first.problems
    for other in others:
        problems = problems or tuple(f"In another process: {line}" for line in other.problems)
        problems = problems or _changed(first.rows, other.rows, "In another process", PROCESSES)
    silent = _silent(registration, first.rows)
    return Probe(len(first.rows), bool(others), time.perf_counter() - began, problems, silent)


@dataclasses.dataclass(frozen=True)
class Trial:
    """A small study to compute: once, or twice and in another block shape too."""

    small: Setting
    shaped: Setting | None

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """The files that the job reads."""
        return self.small.blobs

    def __str__(self) -> str:
        return "the trial before the study"


@dataclasses.dataclass(frozen=True)
class Attempt:
    """The rows of each cell of a trial, and what is wrong with them or with computing them."""

    rows: dict[str, ForkRow]
    problems: tuple[str, ...] = ()


def attempt(trial: Trial) -> Attempt:
    """Compute a trial in this process."""
    result = attempted(lambda: _attempt(trial))
    if isinstance(result, Failed):
        return Attempt({}, (f"It can not be computed: {result.reason} ({place_of(result.details)})",))
    return result


def _attempt(trial: Trial) -> Attempt:
    """Compute a trial, up to the first thing that is wrong: it explains the others."""
    rows = _computed(trial.small)
    problems = _not_null(rows)
    if trial.shaped is not None and not problems:
        problems = _changed(rows, _computed(trial.small), "Computed a second time", OWN_DRAWS)
        if not problems and not _shape_sensitive(trial.small):
            shaped = _computed(trial.shaped, copies=2)
            problems = _changed(rows, shaped, "In a block of two forks instead of one", SHAPES)
    return Attempt(rows, problems)


def _silent(registration: Registration, rows: dict[str, ForkRow]) -> tuple[str, ...]:
    """Return the signals of others that were missing in every row."""
    located = [registry.locate("signals", name) for name in registration.signals]
    labels = [signal.label for signal in located if not signal.ours]
    return tuple(label for label in labels if all(row.signals[label] is None for row in rows.values()) and rows)


def _reduced(registration: Registration, tasks: Collection[str], *, forks_per_block: int) -> Registration:
    """Return the registration with one cell per task, one decision point, few episodes; every arm, and beside it
    one whose mechanism is `none`. Arms that have become the same are tried once."""
    null: dict[str, Arm] = {}
    registered: dict[str, Arm] = {}
    for arm in registration.arms:
        small = arm.model_copy(
            update={
                "tasks": tuple(task for task in arm.tasks if task in tasks),
                "stream_seeds": arm.stream_seeds[:1],
                "forks_per_block": None,
                "stream": arm.stream.model_copy(update={"decision_points": 1}),
                "evaluation": arm.evaluation.model_copy(
                    update={"episodes": min(EPISODES, arm.evaluation.episodes)}
                ),
                "mechanism": arm.mechanism.model_copy(update={"steps": min(STEPS, arm.mechanism.steps)}),
            }
        )
        if not small.tasks:
            continue
        nothing = Mechanism(name="none", steps=0, scope=arm.mechanism.scope)
        still = small.model_copy(update={"name": f"{NULL}{arm.name}", "mechanism": nothing})
        null.setdefault(_content(still), still)
        registered.setdefault(_content(small), small)
    grid = registration.grid
    return registration.model_copy(
        update={
            "grid": grid.model_copy(
                update={"checkpoints": grid.checkpoints[:1], "directions": grid.directions[:1]}
            ),
            "arms": (*null.values(), *registered.values()),
            "execution": registration.execution.model_copy(
                update={"forks_per_block": forks_per_block, "streams_per_batch": 1}
            ),
            "predictions": (),
            "deployment": None,  # no policy changes what a fork comes to
            "stopping": None,
        }
    )


def _content(arm: Arm) -> str:
    return canonical(arm.model_dump(mode="json", exclude={"name", "label"}))


def _with(setting: Setting, registration: Registration) -> Setting:
    return Setting.of(registration, dict(setting.checkpoints)).only(cells(registration))


def _computed(setting: Setting, *, copies: int = 1) -> dict[str, ForkRow]:
    """Return the rows of the small study, by cell; every fork so many times in its block."""
    registration, context = restore(setting.registration), context_of_setting(setting)
    stream_of, hold_of = stream_owner(registration), hold_owner(registration)
    streams: dict[Cell, Stream] = {}
    rows: dict[Cell, ForkRow] = {}
    for batch in stream_batches(registration):
        streams.update(zip(batch, run_streams(context, batch), strict=True))
    for shared in (False, True):
        for block in fork_blocks(registration, shared=shared):
            forks = [Fork(cell, k, streams[stream_of[cell]], rows.get(hold_of[cell])) for cell, k in block]
            labelled, _ = label(context, forks * copies)
            rows.update(zip((cell for cell, _ in block), labelled, strict=False))
    return {cell.id: row for cell, row in rows.items()}


def place_of(details: str) -> str:
    """Return where a traceback leaves somebody else's code, `agent.py, line 12, in act`, or where it ends."""
    frames = [line.strip().removeprefix('File "') for line in details.splitlines() if line.startswith('  File "')]
    ours = str(Path(registry.__file__).parent)
    others = [frame for frame in frames if not frame.startswith(ours)]
    authored = [frame for frame in others if "site-packages" not in frame]  # and not of a library that it calls
    path, _, place = (authored or others or frames or [""])[-1].partition('", ')
    return f"{Path(path).name}, {place}"


def _shape_sensitive(setting: Setting) -> bool:
    """Return True if any agent says that its digits depend on the block: then cell.json holds the block's shape."""
    context = context_of_setting(setting)
    configurations = describe(context, cells(context.registration)).configurations
    return any(configuration["block"] is not None for configuration in configurations)


def _not_null(rows: dict[str, ForkRow]) -> tuple[str, ...]:
    """List what the mechanism `none` did, which must be nothing."""
    return tuple(
        f"{cell.removeprefix(NULL)}: with the mechanism `none` both branches are one computation, and dR was "
        f"{row.delta}, not 0.0 (UPDATE {row.update}, HOLD {row.hold}). {OWN_DRAWS}"
        for cell, row in rows.items()
        if cell.startswith(NULL) and row.hold != row.update
    )


def _changed(before: dict[str, ForkRow], after: dict[str, ForkRow], when: str, remedy: str) -> tuple[str, ...]:
    """Describe what came out differently, of the first cell in which something did."""
    for cell, row in before.items():
        lines = difference(row.payload(), after[cell].payload())
        if lines:
            more = f", and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
            came = f"{when} other digits came: {'; '.join(lines[:SHOWN])}{more}"
            return (f"{cell.removeprefix(NULL)}: {came}. {remedy}",)
    return ()


def _computed_elsewhere(trial: Trial) -> list[Attempt | Failed]:
    """Compute a trial in a process of its own, which shares an accelerator with this one."""
    before = os.environ.get(PREALLOCATE)
    os.environ[PREALLOCATE] = "false"
    try:
        with opened("local", {"workers": 2}) as processes:  # one worker would be this process itself
            return [answer for _, answer in processes.map(attempt, [trial])]
    finally:
        del os.environ[PREALLOCATE]
        if before is not None:
            os.environ[PREALLOCATE] = before
