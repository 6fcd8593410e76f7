"""Noise that no update can remove: does it raise surprise without raising the value of updating?

Arms that differ in sigma_a share checkpoints, directions, decision points and drift levels, and draw from the same
keys. Streams, windows and HOLD branches are each noise's own. Differences are therefore of cell means, averaged by
checkpoint, for signals as for dR.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final

import numpy as np
from jaxtyping import Float

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring.alike import alike_but_for
from worldfork.desk.scoring.contrast import contrast_arms, contrast_signals
from worldfork.desk.scoring.intervals import student_t
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.records import Contrast, MeanEstimate, TaskScore
from worldfork.desk.scoring.undefined import Bounds, Figure, Undefined, finite
from worldfork.registration import Arm, Registration

__all__ = ["Noise", "NoiseSweep", "SignalMean", "score_noises"]

VARIED: Final = ("stream.action_noise", "evaluation.episodes")  # m is registered to grow with the noise
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
    rise: Contrast | Undefined  # of dR, less that of the least noise
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
    for group in alike_but_for(VARIED, registration.arms, value=_amount):
        for task in dict.fromkeys(task for arm in group.arms for task in arm.tasks):
            there = [arm for arm in group.arms if task in arm.tasks]
            scored = {arm.name: arms[arm.name][task] for arm in there if task in arms.get(arm.name, {})}
            if len({_amount(arm) for arm in there}) > 1 and scored and len(arms) > 1:
                by_task.setdefault(task, {})[group.label] = _sweep(there, scored, seed=seed)
    return finite(by_task)


def _amount(arm: Arm) -> float:
    return arm.stream.action_noise


def _sweep(registered: list[Arm], scored: Mapping[str, TaskScore], *, seed: int) -> NoiseSweep:
    ascending = sorted(registered, key=_amount)
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
    ranked = score.triggers_all_attempted.get(SIGNAL)
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
