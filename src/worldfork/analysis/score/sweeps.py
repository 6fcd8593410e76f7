"""Arms that are alike but for one setting: sweeps over a dose or a noise, and the pairs of arms to compare."""

import collections
import dataclasses
import itertools
import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.contrasts import contrast_arms, contrast_signals
from worldfork.analysis.score.intervals import student_t
from worldfork.analysis.score.judgement import Grade, MeanOf
from worldfork.analysis.score.records import MeanEstimate, PairedDifference, TaskScore
from worldfork.analysis.score.stopping import StoppingScore, ruling
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined, divide, divide_bounds, finite
from worldfork.analysis.score.verdicts import grade_together
from worldfork.registration import Arm, Registration
from worldfork.registry import BUILT_IN

RATE: Final = "mechanism.settings.rate"
MECHANISM: Final = "mechanism.name"
ALL: Final = "all"  # the label of a group that is the only one
PLAIN: Final = "no other setting"  # of a group that sets nothing of what the others set
Scored = Mapping[str, Mapping[str, TaskScore]]  # by arm, then by task
Settings = Mapping[str, Mapping[str, str]]  # by arm, then by path


@dataclasses.dataclass(frozen=True)
class ArmGroup:
    """Arms of which one setting varies, and the settings that tell them from other such arms."""

    label: str
    arms: tuple[Arm, ...]


def alike_but_for(
    paths: Collection[str], arms: Iterable[Arm], *, value: Callable[[Arm], Hashable]
) -> list[ArmGroup]:
    """Return the arms that agree in every setting but those at `paths`, in the order registered. Groups in which
    `value` is the same for all are left out, since nothing varies in them."""
    by_name = {arm.name: arm for arm in arms}
    settings = {name: arm_settings(arm) for name, arm in by_name.items()}
    groups = [tuple(by_name[name] for name in names) for names in agreeing_but_for(paths, settings)]
    varying = [group for group in groups if len({value(arm) for arm in group}) > 1]
    shared = [
        {path: text for path, text in settings[group[0].name].items() if path not in paths} for group in varying
    ]
    return [ArmGroup(label, group) for label, group in zip(_labels(shared), varying, strict=True)]


def agreeing_but_for(paths: Collection[str], settings: Settings) -> list[list[str]]:
    """Return the arms in groups that agree everywhere but at `paths`, in the order given."""
    groups: dict[Hashable, list[str]] = {}
    for arm, of_arm in settings.items():
        groups.setdefault(frozenset(item for item in of_arm.items() if item[0] not in paths), []).append(arm)
    return list(groups.values())


def arm_settings(arm: Arm) -> dict[str, str]:
    """Return every setting by its path. The rate of a built-in mechanism is 1 where none is set."""
    settings = {path: _text(value) for path, value in _leaves(arm.decisive(), "")}
    if arm.mechanism.name in BUILT_IN["mechanisms"]:
        settings.setdefault(RATE, "1")
    return settings


def _leaves(tree: Mapping[str, object], where: str) -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        path = f"{where}.{name}" if where else name
        if isinstance(value, Mapping):
            yield from _leaves(value, path)
        else:
            yield path, value


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return value if isinstance(value, str) else json.dumps(value)


def _labels(groups: Sequence[Mapping[str, str]]) -> list[str]:
    """Return what sets each group apart from the others: "rate 0.1"."""
    if len(groups) == 1:
        return [ALL]
    every = dict.fromkeys(path for settings in groups for path in settings)
    differing = [path for path in every if len({settings.get(path) for settings in groups}) > 1]
    ends = collections.Counter(path.rpartition(".")[2] for path in differing)
    labels = []
    for settings in groups:
        words = []
        for path in differing:
            end = path.rpartition(".")[2]
            if path in settings:
                name = "" if path == MECHANISM else end if ends[end] == 1 else path
                words.append(f"{name} {settings[path]}".strip())
        labels.append(", ".join(words) or PLAIN)
    return labels


class Setting(NamedTuple):
    """A number that a study may sweep: its paths, which change together as one setting, and its value in an arm."""

    paths: frozenset[str]
    value: Callable[[Arm], Any]


def _passes(arm: Arm) -> float | None:
    passes: Any = arm.mechanism.settings.get("passes")
    return float(passes) if passes is not None and arm.mechanism.steps else None


def _amount(arm: Arm) -> tuple[bool, float]:
    """Return a dose that can be ordered: those in steps first, then those in passes."""
    passes = _passes(arm)
    return (False, float(arm.mechanism.steps)) if passes is None else (True, passes)


DOSE: Final = Setting(frozenset({"mechanism.steps", "mechanism.settings.passes"}), _amount)
NOISE: Final = Setting(  # m is registered to grow with the noise
    frozenset({"stream.action_noise", "evaluation.episodes"}), lambda arm: arm.stream.action_noise
)
WINDOW: Final = Setting(frozenset({"mechanism.window"}), lambda arm: arm.mechanism.window)


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


def dose_groups(registration: Registration) -> list[ArmGroup]:
    """Return the arms that differ in their gradient steps, or passes over the window, and in nothing else."""
    return alike_but_for(DOSE.paths, registration.arms, value=DOSE.value)


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
    return len({_amount(arm)[0] for arm in sweep.registered}) > 1


def _largest_less_smallest(sweep: Swept, *, seed: int) -> PairedDifference | Undefined:
    smallest, largest = (sweep.forks(sweep.registered[end].name) for end in (0, -1))
    if _in_both_units(sweep):
        return NO_ORDER
    if isinstance(smallest, Undefined) or isinstance(largest, Undefined):
        return smallest if isinstance(smallest, Undefined) else largest  # type: ignore[return-value]
    return contrast_arms(largest, smallest, seed=seed)


def _dose(arm: Arm, score: TaskScore, *, means: Iterable[Figure]) -> Dose:
    effect, passes = score.effect.all_attempted, _passes(arm)
    steps: int | Undefined = arm.mechanism.steps if passes is None else PASSES
    by = steps or NO_STEPS
    interval, mean = _interval(score), effect.mean
    undefined = next((value for value in (steps, interval) if isinstance(value, Undefined)), None)
    return Dose(
        steps=steps,
        passes=passes,
        interval=interval,
        replay_ratio=undefined or steps / interval,  # type: ignore[operator]
        mean=mean,
        student_t=effect.student_t,
        per_step=MeanOf(mean=by, student_t=by)
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
    ranked = score.triggers.all_attempted.get(SIGNAL)
    unread = Undefined(f"`{SIGNAL}` was not scored")
    return Noise(
        action_noise=arm.stream.action_noise,
        episodes=arm.evaluation.episodes,
        signals={name: _signal(forks, name, baseline=baseline, seed=seed) for name in forks.prefork.signals},
        r_hold=_mean(_checkpoint_means(forks, forks.outcomes.r_hold)),
        mean=effect.mean,
        student_t=effect.student_t,
        rise=baseline if isinstance(baseline, Undefined) else contrast_arms(forks, baseline, seed=seed),
        helped=_mean(_checkpoint_means(forks, (forks.delta > 0).astype(np.float64))),
        residual_auc=unread if ranked is None else ranked.auc,
        residual_auc_interval=unread if ranked is None else ranked.auc_interval,
        forks=score.forks.attempted,
        diverged=score.forks.diverged,
    )


def _signal(forks: Forks, name: str, *, baseline: Forks | Undefined, seed: int) -> SignalMean:
    recorded = forks.take(~np.isnan(forks.prefork.signals[name]))
    means = _checkpoint_means(recorded, recorded.prefork.signals[name])
    rise = (
        baseline if isinstance(baseline, Undefined) else contrast_signals(forks, baseline, signal=name, seed=seed)
    )
    return SignalMean(mean=_mean(means), student_t=student_t(means), n_defined=len(recorded), rise=rise)


def _checkpoint_means(forks: Forks, values: np.ndarray) -> np.ndarray:
    """Return means over cells, then checkpoints, as of dR; checkpoints without a value are left out."""
    grouped = partition(forks.prefork)
    means = grouped.checkpoint_means(grouped.cell_means(values))
    return means[~np.isnan(means)]


def _mean(values: np.ndarray) -> Figure:
    return float(values.mean()) if len(values) else Undefined("no fork has this value")


Reason = Literal["predicted", "as predicted", "sweep", "first"]


@dataclasses.dataclass(frozen=True)
class ArmPair:
    """The later of two arms, in the order registered, less the earlier; and why these two."""

    later: str
    earlier: str
    reason: Reason


def compared_pairs(registration: Registration, present: Collection[str]) -> list[ArmPair]:
    """Return the arms to compare, of those that are `present`.

    Where predictions compare two arms, these two, and any other two that differ in the same settings by the same
    values. Every arm that is neither in such a pair nor in the sweep over a number that it compares two values of:
    with the first of its own sweep, where one setting sorts all arms into sweeps, or else with the first arm.
    """
    settings = {arm.name: arm_settings(arm) for arm in registration.arms if arm.name in present}
    if len(settings) < 2:
        return []
    order = list(settings)
    named = [(prediction.arm or "", prediction.against or "") for prediction in registration.predictions]
    predicted = list(
        dict.fromkeys(
            (max(pair, key=order.index), min(pair, key=order.index))
            for pair in named
            if pair[0] != pair[1] and pair[0] in settings and pair[1] in settings
        )
    )
    counterparts = [pair for pair in _counterparts(settings, predicted) if pair not in predicted]
    pairs = [ArmPair(*pair, "predicted") for pair in predicted]
    pairs += [ArmPair(*pair, "as predicted") for pair in counterparts]
    placed = {arm for pair in pairs for arm in (pair.later, pair.earlier)}
    for pair in pairs:  # arms that stand in the sweep over a number whose two values a pair compares
        number = _swept(_differing(settings, pair.later, pair.earlier))
        for group in agreeing_but_for(number, settings) if number else ():
            placed |= set(group) if pair.later in group else set()
    otherwise = _in_sweeps(settings) or [ArmPair(arm, order[0], "first") for arm in order[1:]]
    return [*pairs, *(pair for pair in otherwise if pair.later not in placed)]


def _differing(settings: Settings, later: str, other: str) -> frozenset[str]:
    """Return the paths at which two arms differ."""
    first, second = settings[later], settings[other]
    return frozenset(path for path in first.keys() | second.keys() if first.get(path) != second.get(path))


def _counterparts(settings: Settings, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return pairs that differ as a registered one does, and agree in all else with each other."""
    found = []
    for later, earlier in pairs:
        paths = _differing(settings, later, earlier)
        for group in agreeing_but_for(paths, settings) if paths else ():
            ends = [
                next(
                    (arm for arm in group if all(settings[arm].get(p) == settings[end].get(p) for p in paths)), None
                )
                for end in (later, earlier)
            ]
            if ends[0] is not None and ends[1] is not None:
                found.append((ends[0], ends[1]))
    return list(dict.fromkeys(found))


def _in_sweeps(settings: Settings) -> list[ArmPair]:
    """Return every arm with the first of its sweep, over the setting that varies first as arms were registered.

    Empty where no one setting has a place for all arms, as in a list of alternatives to the first.
    """
    first, *others = settings
    for other in others:
        differing = _differing(settings, other, first)
        setting = _swept(differing) or (differing if len(differing) == 1 else None)
        groups = agreeing_but_for(setting, settings) if setting else []
        if groups and all(len(group) > 1 for group in groups):
            return [ArmPair(later, group[0], "sweep") for group in groups for later in group[1:]]
    return []


def _swept(differing: frozenset[str]) -> frozenset[str] | None:
    """Return the paths of the swept number in which alone two arms differ."""
    return next(
        (setting.paths for setting in (DOSE, NOISE, WINDOW) if differing and differing <= setting.paths), None
    )
