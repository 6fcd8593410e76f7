"""What people import: every verb as a function. Paths may be `str` or `Path`; results are records and frames."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.ledger import store
from worldfork.progress import Notify, Progress, ignore, silent
from worldfork.registration import Registration

if TYPE_CHECKING:
    import polars as pl

    from worldfork.analysis.present.page import Page
    from worldfork.analysis.read import Frame, Source, Table
    from worldfork.analysis.score import Score
    from worldfork.analysis.score.design import Power
    from worldfork.executors.base import Executor
    from worldfork.lab.agents.rssm_cem.pretraining.outcomes import Pretraining
    from worldfork.lab.deployments.replay import FollowedReplay
    from worldfork.lab.deployments.stage import FitThresholds
    from worldfork.lab.forks.replay import Replay
    from worldfork.lab.tools.check import Check
    from worldfork.ledger.verify import Verdict
    from worldfork.registry import Located
    from worldfork.triggers import Trigger

__all__ = ["Study", "check", "power", "pretrain", "read_table", "replay", "report", "run", "score", "verify"]


class Study(store.Study):
    """What a study's folder holds.

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
        """One row per fork: where it was, what was known before it, and what both branches returned."""
        from worldfork.analysis.read import study_frame

        return study_frame(self)

    def episodes(self) -> "pl.DataFrame":
        """One row per policy, cell and episode of what was followed all the way."""
        from worldfork.analysis.read import deployment_frame

        return deployment_frame(self)

    def streams(self) -> "pl.DataFrame":
        """One row per control step of every deployment, with its cell."""
        from worldfork.analysis.read import stream_frame

        return stream_frame(self)


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
    progress: Progress = silent,
    notify: Notify = ignore,
) -> Study:
    """Run a registration into a study folder, or carry on where an earlier run stopped.

    `registration` is a file, the name of one that comes with worldfork, or a record. `executor` is a name or an
    object of your own (docs/extending.md); `workers` are its processes, and `settings` whatever else a named one
    can be told (docs/cluster.md). `amend` says why the registration changed after rows existed. `tasks` leaves the
    others to a later run. Agents, worlds and mechanisms that are not worldfork's are tried on a small block before
    a new study is begun, which `probe=False` leaves out.
    `progress(what, done, total)` and `notify(sentence)` are told what happens.
    """
    from worldfork.lab.run import run as run_study
    from worldfork.ledger.archive import locate
    from worldfork.triggers.feeding import build_candidates

    if not (
        locate(Path(folder)) / "registration.json"
    ).exists():  # once it is there, its candidates are what they are
        candidates = _outside_candidates(registration)
        for located in candidates:
            notify(f"This registration is scored with code that does not come with worldfork: {located}")
        build_candidates(candidates)
    study = run_study(
        registration,
        folder,
        fit_thresholds=_threshold_fitter(registration),
        executor=executor,
        workers=workers,
        settings=settings,
        amend=amend,
        tasks=tasks,
        probe=probe,
        progress=progress,
        notify=notify,
    )
    return Study(study.path)


def score(
    source: "Source",
    *,
    arm: str | None = None,
    contrast: str | tuple[str, str] | None = None,
    higher_is_better: bool = True,
    failure_return: float | None = None,
    progress: Progress = silent,
    **rules: Any,
) -> "Score":
    """Score a study by what it registered, or a flat table or data frame by the paper's rules.

    `arm` scores one arm alone, `contrast` names the two to compare. Of a flat table, `higher_is_better=False` says
    that it has costs, and `failure_return` what a missing or infinite return counts as (docs/table.md).

    Any rule can be changed by name: `seed`, `permutations` (draws of each random control), `rate` (of the running
    quantile), `divergence` (None switches the rule off), `triggers=("residual", "my_module:Mine")`, `severity`. A
    study's own code is never imported by itself: a trigger of yours is scored where you name it.

    >>> import worldfork as wf
    >>> seconds = {"checkpoint": [0, 1, 2], "k": [1, 1, 1], "r_hold": [9.0, 8.0, 9.5], "r_update": [7.0, 6.5, None]}
    >>> import polars as pl
    >>> score = wf.score(pl.DataFrame(seconds), higher_is_better=False, failure_return=60.0)
    >>> score["table"].effect.all_attempted.by_checkpoint
    {'0': 2.0, '1': 1.5, '2': -50.5}
    >>> score["table"].effect.retained.by_checkpoint["2"]
    Undefined(why='no fork of this checkpoint was retained')
    """
    from worldfork.analysis.score import score_ledger

    return score_ledger(
        source,
        arm=arm,
        contrast=contrast,
        higher_is_better=higher_is_better,
        failure_return=failure_return,
        progress=progress,
        **rules,
    )


def read_table(
    source: "str | Path | Frame", *, higher_is_better: bool = True, failure_return: float | None = None
) -> "Table":
    """A flat table of forks from any harness: a .csv, .parquet or .jsonl file, or a data frame.

    `higher_is_better=False` says that it has costs, and `failure_return` what a missing return counts as.

    >>> import polars as pl, worldfork as wf
    >>> rows = {"checkpoint": [0, 1], "k": [1, 1], "r_update": [3.0, 2.0], "r_hold": [2.0, 2.5]}
    >>> len(wf.read_table(pl.DataFrame(rows)))
    2
    """
    from worldfork.analysis.read import read_table as read

    return read(source, higher_is_better=higher_is_better, failure_return=failure_return)


def report(
    source: "Source",
    folder: Path | str | None = None,
    *,
    triggers: "Sequence[str | Trigger] | str | None" = None,
    higher_is_better: bool = True,
    failure_return: float | None = None,
    progress: Progress = silent,
) -> "Page":
    """The page: one self-contained HTML file. In a notebook it shows itself.

    It is written to `folder`/index.html; by default into a study's `report`, and beside a table under its name.
    `triggers` are those to compare; these and how a flat table is read are as in `score`.
    """
    from worldfork.analysis.present.page import write_page

    return write_page(
        source,
        folder,
        triggers=triggers,
        higher_is_better=higher_is_better,
        failure_return=failure_return,
        progress=progress,
    )


def check(
    registration: Registration | Path | str,
    *,
    step: bool = True,
    measure: bool = False,
    probe: bool = False,
    progress: Progress = silent,
) -> "Check":
    """Build everything that a registration names and take a real step with it; say what it amounts to.

    `measure` times a few steps; `probe` computes one small block several times, where its answer is known. A
    prediction that no score could answer, and a candidate that no score could read, are refused.
    """
    from worldfork.analysis.score import Rules
    from worldfork.analysis.score.predictions import prediction_problems
    from worldfork.lab.tools.check import check as check_registration
    from worldfork.triggers.feeding import build_candidates

    candidates = _outside_candidates(registration)
    build_candidates(candidates)
    checked = check_registration(registration, step=step, measure=measure, probe=probe, progress=progress)
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
    """What every arm and task of a registration could detect, from the variances of an earlier ledger (`like`) or
    from the registration's own guess. `cost` says what a checkpoint, a draw of an update and an episode cost, in
    any one unit; then also how best to spend as much as the registration does."""
    from worldfork.analysis.read import open_ledger
    from worldfork.analysis.score.design import Cost, planned_power
    from worldfork.registration import read
    from worldfork.registration.library import find

    registered = registration if isinstance(registration, Registration) else read(find(registration))
    return planned_power(
        registered,
        like=None if like is None else open_ledger(like).table.arms,
        cost=None if cost is None else Cost.of(cost),
    )


def verify(study: store.Study | Path | str, *, progress: Progress = silent) -> "Verdict":
    """Check every chain, digest and pair of a study.

    >>> import worldfork as wf
    >>> wf.verify("results/demo").problems
    ()
    """
    from worldfork.ledger.verify import verify as verify_study

    folder = study.path if isinstance(study, store.Study) else study
    return verify_study(folder, progress=lambda done, total: progress("cells", done, total))


def pretrain(
    recipe: Path | str,
    folder: Path | str,
    *,
    executor: "Executor | str" = "local",
    workers: int | None = None,
    settings: Mapping[str, Any] | None = None,
    minutes: float | None = None,
    progress: Progress = silent,
    notify: Notify = ignore,
) -> "Pretraining | None":
    """Train checkpoints by a recipe (a file, or the name of one that comes with worldfork), or carry on where an
    earlier call stopped. Groups of seeds (`seeds_per_group` of the recipe) are trained wherever the executor says.
    After `minutes` a training in this process is saved and None returned: the same call goes on."""
    from worldfork.lab.tools.pretraining import pretrain as train

    return train(
        recipe,
        folder,
        executor=executor,
        workers=workers,
        settings=settings,
        minutes=minutes,
        progress=progress,
        notify=notify,
    )


def replay(
    study: store.Study | Path | str,
    cell: str,
    *,
    k: int,
    episode: int = 1,
    policy: str | None = None,
    video: Path | str | None = None,
    whole_block: bool | None = None,
    progress: Progress = silent,
) -> "Replay | FollowedReplay":
    """Run one matched episode again in both branches, from the ledger; `video` also shows it (.mp4 or .gif). With
    a `policy`, episode k of its deployment beside that of never."""
    from worldfork.lab.tools.film import film_deployment, film_replay

    opened = study if isinstance(study, store.Study) else store.Study(study)
    if policy is not None:
        return film_deployment(
            opened, cell, policy=policy, k=k, video=video, whole_batch=whole_block, progress=progress
        )
    return film_replay(opened, cell, k=k, episode=episode, video=video, whole_block=whole_block, progress=progress)


def _outside_candidates(registration: Registration | Path | str) -> "list[Located]":
    """The registered candidates that do not come with worldfork; one that nobody knows is refused."""
    from worldfork.ledger.deployments import recorded_signals
    from worldfork.registration import open_authored
    from worldfork.registration.records import CANDIDATES
    from worldfork.triggers.feeding import locate_candidates

    registered = open_authored(registration)[0].registration
    candidates = registered.scoring.triggers
    if candidates == CANDIDATES:
        return []  # named by nobody: some of these signals may well not be recorded
    return locate_candidates(candidates, recorded=recorded_signals(registered))


def _threshold_fitter(registration: Registration | Path | str) -> "FitThresholds | None":
    """The analysis' fit, for a registration whose policies need one. It needs no package that the lab does not."""
    from worldfork.registration import open_authored

    authored, root = open_authored(registration)
    deployment = authored.registration.deployment
    if deployment is None or not any(policy.needs_ledger for policy in deployment.policies.values()):
        return None
    from worldfork.analysis.score.thresholds import threshold_fitter

    return threshold_fitter(root)
