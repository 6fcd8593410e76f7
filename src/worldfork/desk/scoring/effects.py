"""What updating is worth on average (paper, "A fixed update rule loses return on all three tasks")."""

import numpy as np

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring import intervals
from worldfork.desk.scoring.few_clusters import sign_flip_p, student_p
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.records import Effect, Intervals, MeanEstimate
from worldfork.desk.scoring.undefined import Figure, Undefined

__all__ = ["drift_quartiles", "effect", "estimate", "verdict"]


def effect(forks: Forks, *, seed: int) -> Effect:
    """Mean dR: within cells, then within checkpoints, then over checkpoints, with both intervals."""
    parts = partition(forks.prefork)
    cells = parts.cell_means(forks.delta)
    by_checkpoint = dict(zip(parts.checkpoints, parts.checkpoint_means(cells), strict=True))
    known = np.array([mean for mean in by_checkpoint.values() if not np.isnan(mean)])
    by_direction, intervals_by_direction = {}, {}
    for code, direction in enumerate(parts.directions):
        of_direction = np.where(parts.cell_direction == code, cells, np.nan)
        means = parts.checkpoint_means(of_direction)
        by_direction[direction] = _mean(of_direction[~np.isnan(of_direction)])
        known_means = means[~np.isnan(means)]
        intervals_by_direction[direction] = Intervals(
            bootstrap=intervals.no_spread(known_means)
            or intervals.bootstrap(known_means, seed=seed, task=forks.task),
            student_t=intervals.difference_t(known_means),
        )
    empty = Undefined("no fork of this checkpoint was retained")
    mean = estimate(known, seed=seed, task=forks.task)
    return Effect(
        mean=mean.mean,
        bootstrap=mean.bootstrap,
        student_t=mean.student_t,
        mde=mean.mde,
        p_student_t=mean.p_student_t,
        p_sign_flip=mean.p_sign_flip,
        by_direction=by_direction,
        by_direction_intervals=intervals_by_direction,
        by_checkpoint={name: empty if np.isnan(value) else float(value) for name, value in by_checkpoint.items()},
        clusters=len(known),
        cells=int((~np.isnan(cells)).sum()),
        cells_without_forks=int(np.isnan(cells).sum()),
        left_out=tuple(
            f"{cell.checkpoint}/{cell.direction}/{cell.stream_seed}"
            for cell, value in zip(forks.prefork.cells, cells, strict=True)
            if np.isnan(value)
        ),
        cells_below_zero=int((cells < 0).sum()),
        forks=len(forks),
    )


def estimate(checkpoint_means: np.ndarray, *, seed: int, task: str) -> MeanEstimate:
    """A mean over checkpoints, with its intervals and its minimum detectable effect."""
    alike = intervals.no_spread(checkpoint_means)
    return MeanEstimate(
        mean=_mean(checkpoint_means),
        bootstrap=alike or intervals.bootstrap(checkpoint_means, seed=seed, task=task),
        student_t=intervals.difference_t(checkpoint_means),
        mde=alike or intervals.detectable(checkpoint_means),
        p_student_t=student_p(checkpoint_means),
        p_sign_flip=sign_flip_p(checkpoint_means, seed=seed, task=task),
    )


def verdict(all_attempted: MeanEstimate) -> str | Undefined:
    """Harmful, helpful or unresolved, by the Student-t interval of all attempted forks."""
    interval = all_attempted.student_t
    if isinstance(interval, Undefined):
        return interval
    return "harmful" if interval.high < 0 else "helpful" if interval.low > 0 else "unresolved"


def drift_quartiles(forks: Forks) -> dict[str, tuple[Figure, ...] | Undefined]:
    """Within a direction, forks by drift level in four runs as equal as possible: the mean dR of each."""
    parts = partition(forks.prefork)
    quartiles: dict[str, tuple[Figure, ...] | Undefined] = {}
    for code, direction in enumerate(parts.directions):
        inside = parts.direction == code
        level, k, delta = forks.prefork.level[inside], forks.prefork.k[inside], forks.delta[inside]
        if np.isnan(level).any():
            quartiles[direction] = Undefined(
                f"{int(np.isnan(level).sum())} of {len(level)} forks have no drift level"
            )
            continue
        runs = np.array_split(delta[np.lexsort((k, level))], 4)
        quartiles[direction] = tuple(_mean(run) for run in runs)
    return quartiles


def _mean(values: np.ndarray) -> Figure:
    return float(values.mean()) if len(values) else Undefined("there are no forks to average")
