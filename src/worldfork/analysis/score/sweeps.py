"""Sweeps over the dose of an update and over the noise of a stream: arms in which one setting varies."""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

import numpy as np

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.arms import DOSE, NOISE, Setting, alike_but_for, dose_of, passes_of
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.contrasts import PairedDifference, contrast_arms, contrast_signals
from worldfork.analysis.score.intervals import MeanEstimate, MeanOf, student_t
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.stopping import StoppingScore, ruling
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined, divide, divide_bounds, finite, undefined
from worldfork.analysis.score.verdicts import Grade, grade_together
from worldfork.registration import Arm, Registration

Scored = Mapping[str, Mapping[str, TaskScore]]  # by arm, then by task


class Swept(NamedTuple):
    """A task at several values of a setting, ascending, all else the same."""

    task: str
    label: str
    registered: list[Arm]
    scored: dict[str, TaskScore]  # by arm

    def forks(self, arm: str) -> Forks | Undefined:
        """Return the forks of an arm; undefined where it is not scored."""
        if arm not in self.scored:
            return Undefined(f"arm `{arm}` is not scored here")
        return self.scored[arm].evidence.forks

    @property
    def missing(self) -> tuple[str, ...]:
        """The arms that were registered and are not scored here."""
        return tuple(arm.name for arm in self.registered if arm.name not in self.scored)


def sweeps(registration: Registration, setting: Setting, arms: Scored) -> list[Swept]:
    """Return every sweep over a setting that is registered, scored or not."""
    found = []
    for group in alike_but_for(setting.paths, registration.arms, value=setting.value):
        for task in dict.fromkeys(task for arm in group.arms for task in arm.tasks):
            there = sorted((arm for arm in group.arms if task in arm.tasks), key=setting.value)
            if len({setting.value(arm) for arm in there}) > 1:
                scored = {arm.name: arms[arm.name][task] for arm in there if task in arms.get(arm.name, {})}
                found.append(Swept(task, group.label, there, scored))
    return found


PASSES: Final = Undefined("the number of steps follows the window: its dose is in passes")
NO_ORDER: Final = Undefined("doses in steps and doses in passes have no common order")
NO_STEPS: Final = Undefined("an update without gradient steps")
Order = Literal["rises", "falls", "neither"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dose(MeanOf):
    """An arm among those that differ in their dose: mean dR of a fork, all attempted, and what follows from it."""

    steps: int | Undefined  # N, gradient steps of an update
    passes: float | None  # over the window, where the dose is given so
    interval: int | Undefined  # control steps between two decision points
    replay_ratio: Figure  # N / interval
    per_step: MeanOf  # mean dR of a fork / N
    always: MeanOf  # the total of a deployment that updates at every decision point
    forks: int
    diverged: int
    rank: int | Undefined  # of its mean among those of the other doses, 1 the highest

    @property
    def amount(self) -> str:
        """The dose as people read it: "400", "1 pass", "2.5 passes"."""
        if self.passes is None:
            return str(self.steps)
        return "1 pass" if self.passes == 1 else f"{self.passes:g} passes"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DoseSweep:
    """A task at several doses, all else the same."""

    doses: Mapping[str, Dose]  # by arm, from the smallest to the largest dose
    missing: tuple[str, ...]  # arms that were registered and are not scored here
    order: Order | Undefined  # of the means as the dose grows: described, not tested
    smallest: str
    largest: str
    largest_less_smallest: PairedDifference | Undefined
    grade: Grade | Undefined  # of that, after Holm's adjustment over all tasks and groups of the study
    family: int


def score_doses(
    registration: Registration, arms: Scored, *, seed: int, stopping: StoppingScore | None = None
) -> dict[str, dict[str, DoseSweep]]:
    """Return the doses by task and by what else sets arms apart; empty where no two arms differ in their dose.

    The largest dose less the smallest is graded over all registered sweeps; those that are missing have p = 1. A
    study with [stopping] grades it where it asks for it.
    """
    registered = sweeps(registration, DOSE, arms)
    shown = [sweep for sweep in registered if sweep.scored and len(arms) > 1]  # one arm alone compares nothing
    ends = {(sweep.task, sweep.label): _largest_less_smallest(sweep, seed=seed) for sweep in shown}
    differences = {
        key: difference_of for key, difference_of in ends.items() if not isinstance(difference_of, Undefined)
    }
    graded = grade_together(differences, [(sweep.task, sweep.label) for sweep in registered])
    by_task: dict[str, dict[str, DoseSweep]] = {}
    for sweep in shown:
        difference = ends[sweep.task, sweep.label]
        means = {name: score.effect.all_attempted.mean for name, score in sweep.scored.items()}
        smallest, largest = (sweep.registered[end].name for end in (0, -1))
        by_rule = ruling(stopping, task=sweep.task, arm=largest, against=smallest)
        grade: Grade | Undefined
        if isinstance(difference, Undefined):
            grade = difference
        else:
            grade = graded[sweep.task, sweep.label].grade if by_rule is None else by_rule.grade
        by_task.setdefault(sweep.task, {})[sweep.label] = DoseSweep(
            doses={
                arm.name: _dose(arm, sweep.scored[arm.name], means=means.values())
                for arm in sweep.registered
                if arm.name in sweep.scored
            },
            missing=sweep.missing,
            order=NO_ORDER if _in_both_units(sweep) else _order(list(means.values())),
            smallest=smallest,
            largest=largest,
            largest_less_smallest=difference,
            grade=grade,
            family=len(registered),
        )
    return finite(by_task)


def _in_both_units(sweep: Swept) -> bool:
    return len({dose_of(arm)[0] for arm in sweep.registered}) > 1


def _largest_less_smallest(sweep: Swept, *, seed: int) -> PairedDifference | Undefined:
    smallest, largest = (sweep.forks(sweep.registered[end].name) for end in (0, -1))
    if _in_both_units(sweep):
        return NO_ORDER
    if isinstance(smallest, Undefined) or isinstance(largest, Undefined):
        return smallest if isinstance(smallest, Undefined) else largest  # type: ignore[return-value]
    return contrast_arms(largest, smallest, seed=seed)


def _dose(arm: Arm, score: TaskScore, *, means: Iterable[Figure]) -> Dose:
    effect, passes = score.effect.all_attempted, passes_of(arm)
    steps: int | Undefined = arm.mechanism.steps if passes is None else PASSES
    by = steps or NO_STEPS
    interval, mean = _interval(score), effect.mean
    no_ratio = next((value for value in (steps, interval) if isinstance(value, Undefined)), None)
    return Dose(
        steps=steps,
        passes=passes,
        interval=interval,
        replay_ratio=no_ratio or steps / interval,  # type: ignore[operator]
        mean=mean,
        student_t=effect.student_t,
        per_step=undefined(MeanOf, by)
        if isinstance(by, Undefined)
        else MeanOf(mean=divide(mean, by), student_t=divide_bounds(effect.student_t, by)),
        always=score.policies.all_attempted.per_deployment["always"],
        forks=score.forks.attempted,
        diverged=score.forks.diverged,
        rank=mean
        if isinstance(mean, Undefined)
        else 1 + sum(not isinstance(other, Undefined) and other > mean for other in means),
    )


def _interval(score: TaskScore) -> int | Undefined:
    """Return the control steps from one decision point to the next, as the stream has them."""
    prefork = score.evidence.forks.prefork
    intervals = np.unique(prefork.step / prefork.k)
    if len(intervals) != 1 or intervals[0] <= 0 or intervals[0] != int(intervals[0]):
        return Undefined("decision points are not the same number of control steps apart")
    return int(intervals[0])


def _order(means: list[Figure]) -> Order | Undefined:
    """Return whether the means rise or fall from every dose to the next."""
    defined = [mean for mean in means if not isinstance(mean, Undefined)]
    if len(defined) < len(means):
        return Undefined("a dose has no mean")
    if all(before < after for before, after in itertools.pairwise(defined)):
        return "rises"
    return "falls" if all(before > after for before, after in itertools.pairwise(defined)) else "neither"


SIGNAL: Final = "residual"  # the signal whose ranking stands beside the noise


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignalMean:
    """A recorded signal, averaged as dR is."""

    mean: Figure
    student_t: Bounds
    n_defined: int  # forks that have it
    rise: MeanEstimate | Undefined  # less that of the least noise, by checkpoint


@dataclasses.dataclass(frozen=True, kw_only=True)
class Noise:
    """An arm among those that differ in sigma_a; all attempted forks."""

    action_noise: float
    episodes: int  # m
    signals: Mapping[str, SignalMean]
    r_hold: Figure
    mean: Figure  # dR
    student_t: Bounds
    rise: PairedDifference | Undefined  # of dR, less that of the least noise
    helped: Figure  # the share of forks with dR > 0, averaged as dR is
    residual_auc: Figure
    residual_auc_interval: Bounds
    forks: int
    diverged: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoiseSweep:
    """A task under several noises, all else but m the same."""

    noises: Mapping[str, Noise]  # by arm, from the least to the most noise
    missing: tuple[str, ...]  # arms that were registered and are not scored here
    baseline: str  # the arm with the least noise


def score_noises(registration: Registration, arms: Scored, *, seed: int) -> dict[str, dict[str, NoiseSweep]]:
    """Return the noises by task and by what else sets arms apart; empty where no two arms differ in their noise."""
    by_task: dict[str, dict[str, NoiseSweep]] = {}
    for sweep in sweeps(registration, NOISE, arms):
        if not sweep.scored or len(arms) < 2:
            continue
        least = sweep.registered[0].name
        baselines = dict.fromkeys(sweep.scored, sweep.forks(least))
        baselines[least] = Undefined("the arm with the least noise is what the others are compared with")
        by_task.setdefault(sweep.task, {})[sweep.label] = NoiseSweep(
            noises={
                arm.name: _noise(arm, sweep.scored[arm.name], baseline=baselines[arm.name], seed=seed)
                for arm in sweep.registered
                if arm.name in sweep.scored
            },
            missing=sweep.missing,
            baseline=least,
        )
    return finite(by_task)


def _noise(arm: Arm, score: TaskScore, *, baseline: Forks | Undefined, seed: int) -> Noise:
    forks, effect = score.evidence.forks, score.effect.all_attempted
    parts = partition(forks.prefork)
    ranked = score.triggers.all_attempted.get(SIGNAL)
    unread = Undefined(f"`{SIGNAL}` was not scored")
    return Noise(
        action_noise=arm.stream.action_noise,
        episodes=arm.evaluation.episodes,
        signals={name: _signal(forks, name, baseline=baseline, seed=seed) for name in forks.prefork.signals},
        r_hold=_mean(parts.means_of_checkpoints(forks.outcomes.r_hold)),
        mean=effect.mean,
        student_t=effect.student_t,
        rise=baseline if isinstance(baseline, Undefined) else contrast_arms(forks, baseline, seed=seed),
        helped=_mean(parts.means_of_checkpoints((forks.delta > 0).astype(np.float64))),
        residual_auc=unread if ranked is None else ranked.auc,
        residual_auc_interval=unread if ranked is None else ranked.auc_interval,
        forks=score.forks.attempted,
        diverged=score.forks.diverged,
    )


def _signal(forks: Forks, name: str, *, baseline: Forks | Undefined, seed: int) -> SignalMean:
    recorded = forks.take(~np.isnan(forks.prefork.signals[name]))
    means = partition(recorded.prefork).means_of_checkpoints(recorded.prefork.signals[name])
    rise = (
        baseline if isinstance(baseline, Undefined) else contrast_signals(forks, baseline, signal=name, seed=seed)
    )
    return SignalMean(mean=_mean(means), student_t=student_t(means), n_defined=len(recorded), rise=rise)


def _mean(values: np.ndarray) -> Figure:
    return float(values.mean()) if len(values) else Undefined("no fork has this value")
