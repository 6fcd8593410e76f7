"""Arms that are alike but for one thing, such as the dose of an update or the noise of a stream."""

import collections
import dataclasses
import itertools
import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from jaxtyping import Float

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.contrasts import contrast_arms, contrast_signals
from worldfork.analysis.score.intervals import grade, student_t
from worldfork.analysis.score.judgement import Grade, MeanOf
from worldfork.analysis.score.records import MeanEstimate, PairedDifference, TaskScore
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined, divide, divide_bounds, finite
from worldfork.analysis.score.verdicts import adjust
from worldfork.registration import Arm, Registration
from worldfork.registry import BUILT_IN

RATE: Final = "mechanism.settings.rate"
MECHANISM: Final = "mechanism.name"
ALL: Final = "all"  # the label of a group that is the only one
PLAIN: Final = "no other setting"  # of a group that sets nothing of what the others set


@dataclasses.dataclass(frozen=True)
class ArmGroup:
    """Arms of which one setting varies, and what sets them apart from other such arms."""

    label: str
    arms: tuple[Arm, ...]


def alike_but_for(
    paths: Collection[str], arms: Iterable[Arm], *, value: Callable[[Arm], Hashable]
) -> list[ArmGroup]:
    """The arms that agree in every setting but those at `paths`, in the order registered; groups in which `value`
    is the same for all are left out, since nothing varies in them."""
    by_name = {arm.name: arm for arm in arms}
    settings = {name: arm_settings(arm) for name, arm in by_name.items()}
    groups = [tuple(by_name[name] for name in names) for names in agreeing_but_for(paths, settings)]
    varying = [group for group in groups if len({value(arm) for arm in group}) > 1]
    shared = [
        {path: spelled for path, spelled in settings[group[0].name].items() if path not in paths}
        for group in varying
    ]
    return [ArmGroup(label, group) for label, group in zip(_labels(shared), varying, strict=True)]


def agreeing_but_for(paths: Collection[str], settings: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    """Arms, given by all their settings, in groups that agree everywhere but at `paths`, in the order given."""
    groups: dict[Hashable, list[str]] = {}
    for arm, spelled in settings.items():
        groups.setdefault(frozenset(item for item in spelled.items() if item[0] not in paths), []).append(arm)
    return list(groups.values())


def arm_settings(arm: Arm) -> dict[str, str]:
    """Every setting by its path. The rate of a mechanism that comes with worldfork is 1 where none is said."""
    settings = {path: _spelled(value) for path, value in _leaves(arm.decisive(), "")}
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


def _spelled(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return value if isinstance(value, str) else json.dumps(value)


def _labels(groups: Sequence[Mapping[str, str]]) -> list[str]:
    """What sets each group apart from the others: "rate 0.1"."""
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


VARIED: Final = ("mechanism.steps", "mechanism.settings.passes")
PASSES: Final = Undefined("the number of steps follows the window: its dose is in passes")
NO_ORDER: Final = Undefined("doses in steps and doses in passes have no common order")
NO_STEPS: Final = Undefined("an update without gradient steps")
Order = Literal["rises", "falls", "neither"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dose(MeanOf):
    """One arm among those that differ in their dose: mean dR of a fork, all attempted, and what follows from it."""

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
    """One task at several doses, all else the same."""

    doses: Mapping[str, Dose]  # by arm, from the smallest to the largest dose
    missing: tuple[str, ...]  # arms that were registered and are not scored here
    order: Order | Undefined  # of the means as the dose grows: described, not tested
    smallest: str
    largest: str
    largest_less_smallest: PairedDifference | Undefined
    grade: Grade | Undefined  # of that, after Holm's adjustment over all tasks and groups of the study
    family: int


def score_doses(
    registration: Registration, arms: Mapping[str, Mapping[str, TaskScore]], *, seed: int
) -> dict[str, dict[str, DoseSweep]]:
    """By task and by what else sets arms apart; empty where no two arms differ in their dose."""
    sweeps: dict[tuple[str, str], DoseSweep] = {}
    registered = []
    for group in dose_groups(registration):
        for task in dict.fromkeys(task for arm in group.arms for task in arm.tasks):
            there = [arm for arm in group.arms if task in arm.tasks]
            if len({_amount(arm) for arm in there}) < 2:
                continue
            registered.append((task, group.label))
            scored = {arm.name: arms[arm.name][task] for arm in there if task in arms.get(arm.name, {})}
            if scored and len(arms) > 1:  # who asks for one arm alone does not ask how arms compare
                sweeps[task, group.label] = _sweep(there, scored, seed=seed)
    by_task: dict[str, dict[str, DoseSweep]] = {}
    for (task, label), sweep in _graded(sweeps, registered).items():
        by_task.setdefault(task, {})[label] = sweep
    return finite(by_task)


def dose_groups(registration: Registration) -> list[ArmGroup]:
    """Arms that differ in the number of their gradient steps, or of passes over the window, and in nothing else."""
    return alike_but_for(VARIED, registration.arms, value=_amount)


def _amount(arm: Arm) -> tuple[bool, float]:
    """A dose that can be ordered: those in steps first, then those in passes."""
    passes = _passes(arm)
    return (False, float(arm.mechanism.steps)) if passes is None else (True, passes)


def _passes(arm: Arm) -> float | None:
    passes: Any = arm.mechanism.settings.get("passes")
    return float(passes) if passes is not None and arm.mechanism.steps else None


def _sweep(registered: list[Arm], scored: Mapping[str, TaskScore], *, seed: int) -> DoseSweep:
    ascending = sorted(registered, key=_amount)
    means = {name: score.effect.all_attempted.mean for name, score in scored.items()}
    known = [mean for mean in means.values() if not isinstance(mean, Undefined)]
    doses = {arm.name: _dose(arm, scored[arm.name], means=known) for arm in ascending if arm.name in scored}
    smallest, largest = ascending[0].name, ascending[-1].name
    in_both_units = len({in_passes for in_passes, _ in map(_amount, ascending)}) > 1
    return DoseSweep(
        doses=doses,
        missing=tuple(arm.name for arm in ascending if arm.name not in scored),
        order=NO_ORDER if in_both_units else _order([means[name] for name in doses]),
        smallest=smallest,
        largest=largest,
        largest_less_smallest=NO_ORDER if in_both_units else _ends(smallest, largest, scored, seed=seed),
        grade=Undefined("not yet compared with the rest of its family"),
        family=0,
    )


def _dose(arm: Arm, score: TaskScore, *, means: list[float]) -> Dose:
    effect, passes = score.effect.all_attempted, _passes(arm)
    steps: int | Undefined = arm.mechanism.steps if passes is None else PASSES
    interval = _interval(score)
    return Dose(
        steps=steps,
        passes=passes,
        interval=interval,
        replay_ratio=_ratio(steps, interval),
        mean=effect.mean,
        student_t=effect.student_t,
        per_step=_divided(effect.mean, effect.student_t, by=steps or NO_STEPS),
        always=score.policies.all_attempted.per_deployment["always"],
        forks=score.forks.attempted,
        diverged=score.forks.diverged,
        rank=_rank(effect.mean, means),
    )


def _rank(mean: Figure, means: list[float]) -> int | Undefined:
    return mean if isinstance(mean, Undefined) else 1 + sum(other > mean for other in means)


def _interval(score: TaskScore) -> int | Undefined:
    """Control steps from one decision point to the next, as the stream has them."""
    prefork = score.evidence.forks.prefork
    intervals = np.unique(prefork.step / prefork.k)
    if len(intervals) != 1 or intervals[0] <= 0 or intervals[0] != int(intervals[0]):
        return Undefined("decision points are not the same number of control steps apart")
    return int(intervals[0])


def _ratio(steps: int | Undefined, interval: int | Undefined) -> Figure:
    if isinstance(steps, Undefined):
        return steps
    return interval if isinstance(interval, Undefined) else steps / interval


def _divided(mean: Figure, bounds: Bounds, *, by: int | Undefined) -> MeanOf:
    if isinstance(by, Undefined):
        return MeanOf(mean=by, student_t=by)
    return MeanOf(mean=divide(mean, by), student_t=divide_bounds(bounds, by))


def _order(means: list[Figure]) -> Order | Undefined:
    """Whether the means rise or fall from every dose to the next."""
    known = [mean for mean in means if not isinstance(mean, Undefined)]
    if len(known) < len(means):
        return Undefined("a dose has no mean")
    if all(before < after for before, after in itertools.pairwise(known)):
        return "rises"
    return "falls" if all(before > after for before, after in itertools.pairwise(known)) else "neither"


def _ends(
    smallest: str, largest: str, scored: Mapping[str, TaskScore], *, seed: int
) -> PairedDifference | Undefined:
    for name in (smallest, largest):
        if name not in scored:
            return Undefined(f"arm `{name}` is not scored here")
    return contrast_arms(scored[largest].evidence.forks, scored[smallest].evidence.forks, seed=seed)


def _graded(
    sweeps: Mapping[tuple[str, str], DoseSweep], registered: list[tuple[str, str]]
) -> dict[tuple[str, str], DoseSweep]:
    """Every contrast of the ends with its grade; those that are registered and not there count as p = 1."""
    ends = {
        key: sweep.largest_less_smallest
        for key, sweep in sweeps.items()
        if not isinstance(sweep.largest_less_smallest, Undefined)
    }
    student = adjust({key: contrast.p_student_t for key, contrast in ends.items()}, registered)
    flips = adjust({key: contrast.p_sign_flip for key, contrast in ends.items()}, registered)
    graded = {}
    for key, sweep in sweeps.items():
        contrast = sweep.largest_less_smallest
        verdict: Grade | Undefined
        if isinstance(contrast, Undefined):
            verdict = contrast
        else:
            values = [mean for mean in contrast.by_checkpoint.values() if not isinstance(mean, Undefined)]
            verdict = grade(np.array(values), adjusted_student_p=student[key], adjusted_sign_flip_p=flips[key])
        graded[key] = dataclasses.replace(sweep, grade=verdict, family=len(registered))
    return graded


NOISE_VARIED: Final = ("stream.action_noise", "evaluation.episodes")  # m is registered to grow with the noise
BASELINE: Final = Undefined("the arm with the least noise is what the others are compared with")
SIGNAL: Final = "residual"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignalMean:
    """A recorded signal, averaged as dR is."""

    mean: Figure
    student_t: Bounds
    n_defined: int  # forks that have it
    rise: MeanEstimate | Undefined  # less that of the least noise, by checkpoint


@dataclasses.dataclass(frozen=True, kw_only=True)
class Noise:
    """One arm among those that differ in sigma_a; all attempted forks."""

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
    """One task under several noises, all else but m the same."""

    noises: Mapping[str, Noise]  # by arm, from the least to the most noise
    missing: tuple[str, ...]  # arms that were registered and are not scored here
    baseline: str  # the arm with the least noise


def score_noises(
    registration: Registration, arms: Mapping[str, Mapping[str, TaskScore]], *, seed: int
) -> dict[str, dict[str, NoiseSweep]]:
    """By task and by what else sets arms apart; empty where no two arms differ in their noise."""
    by_task: dict[str, dict[str, NoiseSweep]] = {}
    for group in alike_but_for(NOISE_VARIED, registration.arms, value=_noise_amount):
        for task in dict.fromkeys(task for arm in group.arms for task in arm.tasks):
            there = [arm for arm in group.arms if task in arm.tasks]
            scored = {arm.name: arms[arm.name][task] for arm in there if task in arms.get(arm.name, {})}
            if len({_noise_amount(arm) for arm in there}) > 1 and scored and len(arms) > 1:
                by_task.setdefault(task, {})[group.label] = _noise_sweep(there, scored, seed=seed)
    return finite(by_task)


def _noise_amount(arm: Arm) -> float:
    return arm.stream.action_noise


def _noise_sweep(registered: list[Arm], scored: Mapping[str, TaskScore], *, seed: int) -> NoiseSweep:
    ascending = sorted(registered, key=_noise_amount)
    baseline = ascending[0].name
    return NoiseSweep(
        noises={
            arm.name: _noise(arm, scored[arm.name], baseline=_baseline(arm.name, baseline, scored), seed=seed)
            for arm in ascending
            if arm.name in scored
        },
        missing=tuple(arm.name for arm in ascending if arm.name not in scored),
        baseline=baseline,
    )


def _baseline(arm: str, baseline: str, scored: Mapping[str, TaskScore]) -> Forks | Undefined:
    if arm == baseline:
        return BASELINE
    if baseline not in scored:
        return Undefined(f"arm `{baseline}` is not scored here")
    return scored[baseline].evidence.forks


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
    return SignalMean(
        mean=_mean(means),
        student_t=student_t(means),
        n_defined=len(recorded),
        rise=baseline
        if isinstance(baseline, Undefined)
        else contrast_signals(forks, baseline, signal=name, seed=seed),
    )


def _checkpoint_means(forks: Forks, values: Float[np.ndarray, "forks"]) -> Float[np.ndarray, "checkpoints"]:
    """Over cells, then checkpoints, as dR is; checkpoints without a value are left out."""
    grouped = partition(forks.prefork)
    means = grouped.checkpoint_means(grouped.cell_means(values))
    return means[~np.isnan(means)]


def _mean(values: Float[np.ndarray, "checkpoints"]) -> Figure:
    return float(values.mean()) if len(values) else Undefined("no fork has this value")


# Numbers that a study sweeps, each with what is registered to go along with it: one setting, not two.
SWEPT: Final = (frozenset(VARIED), frozenset(NOISE_VARIED), frozenset({"mechanism.window"}))
Reason = Literal["predicted", "as predicted", "sweep", "first"]


@dataclasses.dataclass(frozen=True)
class ArmPair:
    """The later of two arms, in the order registered, less the earlier; and why these two."""

    later: str
    earlier: str
    reason: Reason


@dataclasses.dataclass(frozen=True)
class _Arms:
    """Every setting of every arm, by its path."""

    settings: Mapping[str, Mapping[str, str]]

    def differing(self, one: str, other: str) -> frozenset[str]:
        """The paths at which two arms differ."""
        first, second = self.settings[one], self.settings[other]
        return frozenset(path for path in first.keys() | second.keys() if first.get(path) != second.get(path))

    def at(self, arm: str, paths: Collection[str]) -> Hashable:
        """What an arm sets there."""
        return frozenset((path, self.settings[arm].get(path)) for path in paths)

    def agreeing_but_for(self, paths: Collection[str]) -> list[list[str]]:
        """The arms in groups that agree everywhere else, in the order registered."""
        return agreeing_but_for(paths, self.settings)


def compared_pairs(registration: Registration, present: Collection[str]) -> list[ArmPair]:
    """The arms to compare, of those that are `present`.

    Where predictions compare two arms, these two, and any other two that differ in the same settings by the same
    values. Every arm that is neither in such a pair nor in the sweep over a number that it compares two values of:
    with the first of its own sweep, where one setting sorts all arms into sweeps, or else with the first arm.
    """
    arms = _Arms({arm.name: arm_settings(arm) for arm in registration.arms if arm.name in present})
    if len(arms.settings) < 2:
        return []
    order = list(arms.settings)
    otherwise = _in_sweeps(arms) or [ArmPair(arm, order[0], "first") for arm in order[1:]]
    predicted = _predicted(registration, order)
    counterparts = [pair for pair in _counterparts(arms, predicted) if pair not in predicted]
    pairs = [ArmPair(*pair, "predicted") for pair in predicted]
    pairs += [ArmPair(*pair, "as predicted") for pair in counterparts]
    placed = {arm for pair in pairs for arm in (pair.later, pair.earlier)} | _between(arms, pairs)
    return [*pairs, *(pair for pair in otherwise if pair.later not in placed)]


def _predicted(registration: Registration, order: Sequence[str]) -> list[tuple[str, str]]:
    """The arms that predictions compare, the later one first whichever way round it was said."""
    named = [
        (prediction.arm, prediction.against)
        for prediction in registration.predictions
        if prediction.arm in order and prediction.against in order
    ]
    pairs = [
        (one, other) if order.index(one) > order.index(other) else (other, one)
        for one, other in named
        if one is not None and other is not None and one != other
    ]
    return list(dict.fromkeys(pairs))


def _counterparts(arms: _Arms, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs that differ as a registered one does, and agree in all else with each other."""
    found = []
    for later, earlier in pairs:
        paths = arms.differing(later, earlier)
        for group in arms.agreeing_but_for(paths) if paths else ():
            ends = [
                next((arm for arm in group if arms.at(arm, paths) == arms.at(end, paths)), None)
                for end in (later, earlier)
            ]
            if ends[0] is not None and ends[1] is not None:
                found.append((ends[0], ends[1]))
    return list(dict.fromkeys(found))


def _between(arms: _Arms, pairs: Iterable[ArmPair]) -> set[str]:
    """Arms that stand in the sweep over a number whose two values a pair compares."""
    between: set[str] = set()
    for pair in pairs:
        number = _swept(arms.differing(pair.later, pair.earlier))
        for group in arms.agreeing_but_for(number) if number else ():
            between |= set(group) if pair.later in group else set()
    return between


def _in_sweeps(arms: _Arms) -> list[ArmPair]:
    """Every arm with the first of its sweep, over the setting that varies first as arms were registered; empty
    where no one setting has a place for all arms, as in a list of alternatives to the first."""
    first, *others = arms.settings
    for other in others:
        differing = arms.differing(other, first)
        setting = _swept(differing) or (differing if len(differing) == 1 else None)
        groups = arms.agreeing_but_for(setting) if setting else []
        if groups and all(len(group) > 1 for group in groups):
            return [ArmPair(later, group[0], "sweep") for group in groups for later in group[1:]]
    return []


def _swept(differing: frozenset[str]) -> frozenset[str] | None:
    """The swept number in which alone two arms differ."""
    return next((number for number in SWEPT if differing and differing <= number), None)
