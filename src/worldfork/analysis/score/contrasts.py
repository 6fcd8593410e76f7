"""Two ways of running the same cells, or two directions at the same drift levels, compared pair by pair."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

from worldfork.analysis.read.outcomes import Arms, Forks
from worldfork.analysis.read.prefork import ForkValues
from worldfork.analysis.score.clusters import group_means, natural, partition
from worldfork.analysis.score.decisions import diverged
from worldfork.analysis.score.effects import estimate_of
from worldfork.analysis.score.intervals import MeanByCheckpoint, MeanEstimate
from worldfork.analysis.score.rankings import correlation, spearman
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.stopping import NOT_RULED, MeanAtLook, Ruling, StoppingScore, ruling
from worldfork.analysis.score.undefined import INTERNAL, Estimands, Figure, Undefined, finite
from worldfork.analysis.score.verdicts import Grade, grade_together, more_checkpoints
from worldfork.errors import WorldforkError


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedForks:
    """Agreement of two arms, fork by fork."""

    forks: int
    pearson: Figure
    spearman: Figure
    same_sign: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedDifference(MeanByCheckpoint):
    """The first arm less the second, on the cells both have."""

    first: Figure
    second: Figure
    cells: int
    paired: PairedForks


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contrast(PairedDifference):
    """A difference of two arms that the score compares, graded among all that it compares."""

    grade: Grade | Undefined
    family: int  # differences that are adjusted together: all of the score, of this estimand
    adjusted_student_t: Figure
    adjusted_sign_flip: Figure
    more_checkpoints: int | Undefined  # that would resolve it, were mean and spread to stay
    # Of a question of [stopping]: what the grade rests on.
    at_look: MeanAtLook | None = dataclasses.field(default=None, metadata=INTERNAL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DirectionContrast(MeanByCheckpoint):
    """toward less away, at the drift levels both visit."""

    by_direction: Mapping[str, Figure]
    levels: int


Key = TypeVar("Key", bound=Hashable)


def contrast_all(
    arms: Arms, pairs: Iterable[tuple[str, str]], *, rules: Rules, stopping: StoppingScore | None = None
) -> dict[str, dict[str, Estimands[Contrast | Undefined]]]:
    """Return every pair of arms compared on each task that they share, by "first - second" and task."""
    named = {f"{first} - {second}": (first, second) for first, second in pairs}
    if unknown := [name for pair in named.values() for name in pair if name not in arms]:
        raise WorldforkError(f"There is no arm `{unknown[0]}`; the table has {', '.join(arms) or 'none'}.")

    def compared(arms: Arms) -> dict[tuple[str, str], Contrast | Undefined]:
        differences = {
            (pair, task): finite(contrast_arms(forks, arms[second][task], seed=rules.seed))
            for pair, (first, second) in named.items()
            for task, forks in arms[first].items()
            if task in arms[second]
        }
        return grade_contrasts(differences)

    kept = {
        arm: {task: forks.take(~diverged(forks, rules.divergence).dropped) for task, forks in tasks.items()}
        for arm, tasks in arms.items()
    }
    contrasts: dict[str, dict[str, Estimands[Contrast | Undefined]]] = {pair: {} for pair in named}
    of_retained = compared(kept)
    for (pair, task), attempted in compared(arms).items():
        first, second = named[pair]
        retained = of_retained[pair, task]
        if stopping is not None:  # questions are about all attempted forks
            attempted = _ruled(attempted, ruling(stopping, task=task, arm=first, against=second), first)
            retained = _ruled(retained, NOT_RULED, "")
        contrasts[pair][task] = Estimands(all_attempted=attempted, retained=retained)
    return contrasts


def _ruled(compared: Contrast | Undefined, found: Ruling | None, first: str) -> Contrast | Undefined:
    """Return `first` less another arm as [stopping] grades it; unchanged in a study without it."""
    if found is None or isinstance(compared, Undefined):
        return compared
    return dataclasses.replace(
        compared, grade=found.grade, more_checkpoints=found.more_checkpoints, at_look=found.mean_of(first)
    )


def contrast_arms(first: Forks, second: Forks, *, seed: int) -> PairedDifference | Undefined:
    """Return mean dR of `first` less that of `second` on the cells both have, averaged by checkpoint, and how far
    the two agree fork by fork (paper, "Pinned-physics bias and the forward-window arm")."""
    compared = _on_shared_cells(first, second, lambda forks: forks.delta, seed=seed)
    if isinstance(compared, Undefined):
        return compared
    return PairedDifference(
        **vars(compared.difference),
        first=compared.first,
        second=compared.second,
        cells=compared.pairs,
        paired=pair_forks(first, second),
    )


def grade_contrasts(differences: Mapping[Key, PairedDifference | Undefined]) -> dict[Key, Contrast | Undefined]:
    """Return every difference with its grade, as a mean is graded, adjusted over all of these together."""
    measured = {key: difference for key, difference in differences.items() if not isinstance(difference, Undefined)}
    graded: dict[Key, Contrast | Undefined] = {
        key: difference for key, difference in differences.items() if isinstance(difference, Undefined)
    }
    for key, found in grade_together(measured, measured).items():
        more = more_checkpoints(measured[key].means, family=found.family)
        graded[key] = Contrast(
            **vars(measured[key]), **found._asdict(), more_checkpoints=0 if found.grade == "resolved" else more
        )
    return graded


def contrast_signals(first: Forks, second: Forks, *, signal: str, seed: int) -> MeanEstimate | Undefined:
    """Return the mean of a recorded signal in `first` less that in `second`, by cell and checkpoint as dR is.

    Forks without the signal are left out.
    """

    def recorded(forks: Forks) -> Forks:
        return forks.take(~np.isnan(forks.prefork.signals[signal]))

    compared = _on_shared_cells(
        recorded(first), recorded(second), lambda forks: forks.prefork.signals[signal], seed=seed
    )
    if isinstance(compared, Undefined):
        return compared
    figures = {name: figure for name, figure in vars(compared.difference).items() if name != "by_checkpoint"}
    return MeanEstimate(**figures)


class _Compared(NamedTuple):
    """Pairs of values, averaged by checkpoint."""

    difference: MeanByCheckpoint
    first: float
    second: float
    pairs: int


def _compare(
    first: Float[np.ndarray, "pairs"],
    second: Float[np.ndarray, "pairs"],
    checkpoints: Sequence[str],
    *,
    seed: int,
    task: str,
) -> _Compared:
    names = sorted(set(checkpoints), key=natural)
    owner = np.array([names.index(name) for name in checkpoints])
    means, *sides = (group_means(values, owner, len(names)) for values in (first - second, first, second))
    difference = estimate_of(dict(zip(names, means.tolist(), strict=True)), seed=seed, task=task)
    return _Compared(difference, float(sides[0].mean()), float(sides[1].mean()), len(owner))


def _on_shared_cells(
    first: Forks, second: Forks, values: Callable[[Forks], ForkValues], *, seed: int
) -> _Compared | Undefined:
    means = []
    for forks in (first, second):
        cells = partition(forks.prefork).cell_means(values(forks))
        means.append(
            {key: mean for key, mean in zip(forks.prefork.cells, cells, strict=True) if not np.isnan(mean)}
        )
    shared = sorted(set(means[0]) & set(means[1]))
    if not shared:
        return Undefined("the two arms have no cell (checkpoint, direction, stream seed) in common")
    left, right = (np.array([of_arm[key] for key in shared]) for of_arm in means)
    return _compare(left, right, [key.checkpoint for key in shared], seed=seed, task=first.task)


def pair_forks(first: Forks, second: Forks) -> PairedForks:
    """Return how alike two arms rank the forks that both have, and how often they agree that an update helped."""
    places = [
        {
            (forks.prefork.cells[cell], int(k)): delta
            for cell, k, delta in zip(forks.prefork.cell, forks.prefork.k, forks.delta, strict=True)
        }
        for forks in (first, second)
    ]
    shared = [place for place in places[0] if place in places[1]]
    deltas = [np.array([arm[place] for place in shared], dtype=np.float64) for arm in places]
    nothing = Undefined("the two arms have no fork in common")
    return PairedForks(
        forks=len(shared),
        pearson=correlation(*deltas) if shared else nothing,
        spearman=spearman(*deltas) if shared else nothing,
        same_sign=float((np.sign(deltas[0]) == np.sign(deltas[1])).mean()) if shared else nothing,
    )


def contrast_directions(forks: Forks, *, seed: int) -> DirectionContrast | Undefined:
    """Return toward less away at the drift levels that both directions of a checkpoint and stream seed visit."""
    directions = partition(forks.prefork).directions
    if directions != ("away", "toward"):
        return Undefined(f"it needs the directions toward and away; the table has {', '.join(directions)}")
    if np.isnan(forks.prefork.level).any():
        return Undefined("some forks have no drift level")
    # One level may be visited more than once (a saturated ramp): such visits are averaged first.
    visits: dict[tuple[str, int, float], dict[str, list[float]]] = {}
    for cell, level, delta in zip(forks.prefork.cell, forks.prefork.level, forks.delta, strict=True):
        key = forks.prefork.cells[cell]
        place = (key.checkpoint, key.stream_seed, round(float(level), 9))
        visits.setdefault(place, {}).setdefault(key.direction, []).append(float(delta))
    shared = {place: both for place, both in visits.items() if len(both) == 2}
    if not shared:
        return Undefined("the two directions of a stream have no drift level in common")
    toward, away = (np.array([np.mean(both[way]) for both in shared.values()]) for way in ("toward", "away"))
    compared = _compare(toward, away, [place[0] for place in shared], seed=seed, task=forks.task)
    return DirectionContrast(
        **vars(compared.difference),
        by_direction={"toward": compared.first, "away": compared.second},
        levels=len({place[2] for place in shared}),
    )
