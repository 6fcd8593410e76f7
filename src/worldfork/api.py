"""Public functions for the verbs that join several rooms. Paths may be `str` or `Path`."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.ledger import store
from worldfork.progress import Notify, Progress, log, shows_progress, silent
from worldfork.registration import Registration, open_authored

if TYPE_CHECKING:
    import polars as pl

    from worldfork.analysis.present.page import Page
    from worldfork.analysis.read.ledger import Source
    from worldfork.analysis.score import Score
    from worldfork.analysis.score.power import Power
    from worldfork.executors.base import Executor
    from worldfork.lab.closed_loop.stage import FitThresholds
    from worldfork.lab.tools.check import Check
    from worldfork.registry import Located
    from worldfork.triggers import Trigger


class Study(store.Study):
    """A study's folder: its registration and the ledger that was made from it.

    Args:
        path: the folder, or a file NAME.tar.xz.

    >>> import tempfile, worldfork as wf
    >>> study = wf.run("linear-quadratic-none", tempfile.mkdtemp() + "/study")
    >>> study
    Study(linear-quadratic-none: 240 forks in 10 cells)
    >>> study.forks()["r_update"].equals(study.forks()["r_hold"])  # an update that does nothing is worth nothing
    True
    """

    def __repr__(self) -> str:
        begun = self.cells()
        rows = sum(len(cell.rows()) for cell in begun)
        return f"Study({self.registration.name}: {plural(rows, 'fork')} in {plural(len(begun), 'cell')})"

    def forks(self) -> "pl.DataFrame":
        """Return a frame with one row per fork: its place, what was known before it, and both branches' returns."""
        from worldfork.analysis.read.frames import study_frame

        return study_frame(self)

    def episodes(self) -> "pl.DataFrame":
        """Return a frame with one row per policy, cell and episode of closed-loop deployments."""
        from worldfork.analysis.read.frames import deployment_frame

        return deployment_frame(self)

    def streams(self) -> "pl.DataFrame":
        """Return a frame with one row per control step of every frozen deployment, with its cell."""
        from worldfork.analysis.read.frames import stream_frame

        return stream_frame(self)


@shows_progress
def run(
    registration: Registration | Path | str,
    folder: Path | str,
    *,
    executor: "Executor | str" = "local",
    workers: int | None = None,
    settings: Mapping[str, Any] | None = None,
    amend: str | None = None,
    tasks: Collection[str] | None = None,
    probe: bool = True,
    progress: Progress | None = None,
    notify: Notify = log,
) -> Study:
    """Run a registration into a study folder, or carry on where an earlier run stopped.

    Args:
        registration: a file, the name of a registration that comes with worldfork, or a record.
        folder: the study's folder: new, or that of an earlier run.
        executor: "local", "ray", "slurm", `module:attribute`, or an object of your own (docs/extending.md).
        workers: processes that compute.
        settings: further settings of a named executor (docs/cluster.md).
        amend: why the registration changed after rows existed.
        tasks: run these alone and leave the others to a later call.
        probe: try agents, worlds and mechanisms that do not come with worldfork on a small block first.
        progress: called with (what, done, total); by default bars in a terminal or notebook.
        notify: called with a sentence worth knowing; by default the log `worldfork`, at INFO.

    >>> import tempfile, worldfork as wf
    >>> wf.run("linear-quadratic-none", tempfile.mkdtemp() + "/study")
    Study(linear-quadratic-none: 240 forks in 10 cells)
    """
    from worldfork.lab.run import run as run_study
    from worldfork.ledger.archive import locate
    from worldfork.triggers.feeding import build_candidates

    authored, root = open_authored(registration)
    begun = (locate(Path(folder)) / "registration.json").exists()  # its candidates were tried when it began
    if not begun:
        candidates = _outside_candidates(authored.registration)
        for located in candidates:
            notify(f"This registration is scored with code that does not come with worldfork: {located}")
        build_candidates(candidates)
    study = run_study(
        registration,
        folder,
        fit_thresholds=_threshold_fitter(authored.registration, root),
        executor=executor,
        workers=workers,
        settings=settings,
        amend=amend,
        tasks=tasks,
        probe=probe,
        progress=progress or silent,
        notify=notify,
    )
    return Study(study.path)


@shows_progress
def score(
    source: "Source",
    *,
    arm: str | None = None,
    contrast: str | tuple[str, str] | None = None,
    higher_is_better: bool = True,
    failure_return: float | None = None,
    columns: Mapping[str, str] | None = None,
    triggers: "Sequence[str | Trigger] | str | None" = None,
    seed: int = 0,
    permutations: int = 20_000,
    progress: Progress | None = None,
    **rules: Any,
) -> "Score":
    """Score a study by the rules that it registered, or a flat table or data frame by the paper's.

    A study's own code is never imported by itself: a trigger of yours is scored where you name it.

    Args:
        source: a study or a recorded ledger (its folder or file), a flat table's file, or a data frame.
        arm: score this arm alone.
        contrast: the two arms to compare, as a pair or as "FIRST,SECOND"; else as registered.
        higher_is_better: False where a flat table has costs (docs/table.md).
        failure_return: what a missing or infinite return of a flat table counts as.
        columns: names in a flat table -> names that worldfork reads, such as {"seed": "checkpoint"}.
        triggers: those to compare, such as ("residual", "my_module:Mine"); else as registered.
        seed: of every resampling.
        permutations: draws of each random control.
        progress: called with (what, done, total); by default bars in a terminal or notebook.
        rules: other fields of `wf.Rules` that are not to be as registered, such as `update_cost=5.0`, or
            `divergence=None`, which switches that rule off.

    >>> import polars as pl, worldfork as wf
    >>> seconds = {"checkpoint": [0, 1, 2], "k": [1, 1, 1], "r_hold": [9.0, 8.0, 9.5], "r_update": [7.0, 6.5, None]}
    >>> score = wf.score(pl.DataFrame(seconds), higher_is_better=False, failure_return=60.0)
    >>> score["table"].effect.all_attempted.by_checkpoint
    {'0': 2.0, '1': 1.5, '2': -50.5}
    >>> score["table"].effect.retained.by_checkpoint["2"]
    Undefined(why='no fork of this checkpoint was retained')
    """
    from worldfork.analysis.present.summary import summarise
    from worldfork.analysis.score import score_ledger

    scored = score_ledger(
        source,
        arm=arm,
        contrast=contrast,
        higher_is_better=higher_is_better,
        failure_return=failure_return,
        columns=columns,
        triggers=triggers,
        seed=seed,
        permutations=permutations,
        progress=progress or silent,
        **rules,
    )
    return dataclasses.replace(scored, writer=summarise)  # scoring knows no medium


@shows_progress
def report(
    source: "Source",
    folder: Path | str | None = None,
    *,
    triggers: "Sequence[str | Trigger] | str | None" = None,
    higher_is_better: bool = True,
    failure_return: float | None = None,
    columns: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    **rules: Any,
) -> "Page":
    """Write the page: one self-contained HTML file. In a notebook it shows itself.

    Args:
        source: as in `score`.
        folder: where index.html goes; by default a study's `report`, and beside a table under its name.
        triggers: those to compare; else as registered.
        higher_is_better: as in `score`.
        failure_return: as in `score`.
        columns: as in `score`.
        progress: called with (what, done, total); by default bars in a terminal or notebook.
        rules: any field of `wf.Rules`, such as `update_cost`.

    >>> import worldfork as wf
    >>> page = wf.report("results/demo", "/tmp/worldfork-page")  # doctest: +SKIP
    """
    from worldfork.analysis.present.page import write_page
    from worldfork.analysis.score import Score

    if isinstance(source, Score):
        raise WorldforkError("A page needs the forks, not their score: give `report` what you gave `score`.")
    return write_page(
        source,
        folder,
        triggers=triggers,
        higher_is_better=higher_is_better,
        failure_return=failure_return,
        columns=columns,
        progress=progress or silent,
        **rules,
    )


@shows_progress
def check(
    registration: Registration | Path | str,
    *,
    step: bool = True,
    measure: bool = False,
    probe: bool = False,
    progress: Progress | None = None,
) -> "Check":
    """Build everything that a registration names, take a real step with it, and say what it amounts to.

    A prediction that no score could answer, and a candidate that no score could read, are refused.

    Args:
        registration: a file, the name of a registration that comes with worldfork, or a record.
        step: take a step in every task and arm.
        measure: time a few steps and estimate how long a run takes.
        probe: compute one small block several times, where its answer is known.
        progress: called with (what, done, total); by default bars in a terminal or notebook.

    >>> import worldfork as wf
    >>> checked = wf.check("linear-quadratic", step=False)
    >>> len(checked.cells), checked.ready
    (10, True)
    """
    from worldfork.analysis.score import Rules
    from worldfork.analysis.score.predictions import prediction_problems
    from worldfork.lab.tools.check import check as check_registration
    from worldfork.triggers.feeding import build_candidates

    candidates = _outside_candidates(open_authored(registration)[0].registration)
    build_candidates(candidates)
    checked = check_registration(registration, step=step, measure=measure, probe=probe, progress=progress or silent)
    checked = dataclasses.replace(checked, outside=tuple(dict.fromkeys((*checked.outside, *map(str, candidates)))))
    if problems := prediction_problems(Rules.registered(checked.registration).predictions):
        raise WorldforkError("It could be run, and not answered:\n  " + "\n  ".join(problems))
    return checked


def power(
    registration: Registration | Path | str,
    *,
    like: "Source | None" = None,
    cost: Mapping[str, float] | None = None,
) -> "list[Power]":
    """Compute what every arm and task of a registration could detect.

    Args:
        registration: a file, the name of a registration that comes with worldfork, or a record.
        like: an earlier ledger to take variances from; else the registration's own guess. Of a study also what
            pretraining, streams, updates and episodes cost there: each plan has then a `recommended` design.
        cost: what a checkpoint, a fork's stream, a draw of an update and an episode cost instead, in any one unit.

    >>> import worldfork as wf
    >>> [f"{plan.task}: |dR| from {plan.detectable:.0f}" for plan in wf.power("demo", like="results/demo")]
    ['cartpole-swingup: |dR| from 174']
    """
    from worldfork.analysis.read.ledger import open_ledger
    from worldfork.analysis.score.power import Cost, costs_of, planned_power
    from worldfork.registration import read
    from worldfork.registration.library import find

    registered = registration if isinstance(registration, Registration) else read(find(registration))
    ledger = None if like is None else open_ledger(like)
    costs = {} if ledger is None or ledger.study is None else costs_of(ledger.study)
    if cost is not None:
        costs = dict.fromkeys(((arm.name, task) for arm in registered.arms for task in arm.tasks), Cost.of(cost))
    return planned_power(registered, like=None if ledger is None else ledger.table.arms, costs=costs)


def _outside_candidates(registration: Registration) -> "list[Located]":
    """Return the registered candidates that do not come with worldfork; refuse an unknown one."""
    from worldfork.ledger.closed_loop import recorded_signals
    from worldfork.registration.schema import CANDIDATES
    from worldfork.triggers.feeding import locate_candidates

    candidates = registration.scoring.triggers
    if candidates == CANDIDATES:
        return []  # named by nobody: some of these signals may well not be recorded
    return locate_candidates(candidates, recorded=recorded_signals(registration))


def _threshold_fitter(registration: Registration, root: Path) -> "FitThresholds | None":
    """Return the fit of thresholds for a registration whose policies need one: no package beyond the lab's."""
    deployment = registration.deployment
    if deployment is None or not any(policy.needs_ledger for policy in deployment.policies.values()):
        return None
    from worldfork.analysis.score.thresholds import threshold_fitter

    return threshold_fitter(root)
