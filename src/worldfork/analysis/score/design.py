"""Components of the variance of dR, draws of the update among them, and how to split a budget between them.

An update trained on other minibatches is another update: a fork has U draws of it, which share HOLD, the stream and
the episodes. Within a fork dR is then a table of draws by episodes, and its parts are told apart as in any two-way
table: `draw` is what one training differs from another on all episodes, `episode` what one episode differs from
another for all draws (HOLD's luck is in it), `draw_episode` the rest. More draws do nothing against `episode`, more
episodes nothing against `draw`. With one draw, `draw` is part of `fork` and `draw_episode` of `episode`.

All components are moment estimates, unbiased and therefore possibly negative: not distinguishable from none.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score import intervals, policy_returns
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.intervals import student_t
from worldfork.analysis.score.judgement import Components
from worldfork.analysis.score.power import between_forks, design_components
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined
from worldfork.errors import WorldforkError
from worldfork.registration import Arm, Registration

DRAWS: Final = (1, 2, 3, 4, 5, 6, 8, 10)
EPISODES: Final = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """The price of each thing, in any one unit (seconds of a device, say)."""

    checkpoint: float = 0.0  # to train one and run its streams
    stream: float = 0.0  # to run the deployment up to one fork
    draw: float = 0.0  # to train one update
    episode: float = 1.0  # to evaluate one episode of one branch

    @classmethod
    def of(cls, given: Mapping[str, float]) -> "Cost":
        """Return the costs in a mapping, such as {"checkpoint": 600, "draw": 0.1, "episode": 0.05}."""
        names = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(given) - set(names)):
            raise WorldforkError(f"There is no cost of `{unknown[0]}`; there are {', '.join(names)}.")
        cost = cls(**{name: float(value) for name, value in given.items()})
        if min(cost.checkpoint, cost.stream, cost.draw) < 0 or cost.episode <= 0:
            raise WorldforkError(f"Costs are positive; got {dict(given)}.")
        return cost

    def study(self, split: "Split") -> float:
        """Return the price of a study. HOLD is evaluated once per fork, and so is every draw of the update."""
        fork = self.stream + split.draws * self.draw + (1 + split.draws) * split.episodes * self.episode
        return split.checkpoints * (self.checkpoint + split.forks * fork)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Split:
    """A study's size."""

    checkpoints: int
    forks: int  # of each checkpoint
    draws: int  # of each fork's update
    episodes: int  # of each branch


def components(
    update: Float[np.ndarray, "forks draws episodes"],
    hold: Float[np.ndarray, "forks episodes"],
    checkpoint: Int[np.ndarray, "forks"],
    point: Int[np.ndarray, "forks"],
) -> Components:
    """Return every component of a study in which each checkpoint has one fork at each decision point, all of one
    size."""
    table = update - hold[:, None, :]
    _, draws, episodes = table.shape
    if np.isnan(table).any():
        raise WorldforkError(
            "Variance components need every episode of every draw; some are missing. Leave them out."
        )
    draw, episode, rest = _within_fork(table)
    means = table.mean(axis=(1, 2))
    of_checkpoint, of_point, between = between_forks(means, checkpoint, point)
    fork: Figure = between
    if not isinstance(between, Undefined) and not isinstance(episode, Undefined):
        noise = episode / episodes
        if not isinstance(draw, Undefined) and not isinstance(rest, Undefined):
            noise += draw / draws + rest / (draws * episodes)
        fork = between - noise
    elif isinstance(episode, Undefined):
        fork = episode
    return Components(
        checkpoint=of_checkpoint,
        decision_point=of_point,
        fork=fork,
        draw=draw,
        draw_interval=_draw_interval(table, checkpoint),
        draws_of_both_signs=_both_signs(table),
        episode=episode,
        draw_episode=rest,
    )


def components_of(forks: Forks) -> Components | Undefined:
    """Return every component of dR, draws of the update among them, over the forks that have all of their
    episodes."""
    hold, update = forks.outcomes.hold, forks.outcomes.update
    if hold is None or update is None:
        return Undefined("it needs the per-episode returns `hold` and `update`")
    drawn = update[:, None, :] if forks.outcomes.drawn is None else forks.outcomes.drawn
    whole = ~(np.isnan(hold).any(axis=1) | np.isnan(drawn).any(axis=(1, 2)))
    if not whole.any():
        return Undefined("no fork has all of its episodes")
    kept = forks.take(whole)
    parts = partition(kept.prefork)
    stream = np.array([cell.stream_seed for cell in kept.prefork.cells])[kept.prefork.cell]
    point = policy_returns.strata(policy_returns.strata(parts.direction, stream), kept.prefork.k)
    return components(drawn[whole], hold[whole], parts.checkpoint, point)


def label_noise(noise: Components, *, draws: int, episodes: int) -> Figure:
    """Return the variance of one fork's label about what its update is worth: draws, episodes and both together."""
    for needed in (noise.draw, noise.episode, noise.draw_episode):
        if isinstance(needed, Undefined):
            return needed
    draw, episode, rest = (
        0.0 if isinstance(part, Undefined) else max(part, 0.0)
        for part in (noise.draw, noise.episode, noise.draw_episode)
    )
    return draw / draws + episode / episodes + rest / (draws * episodes)


def standard_error(split: Split, noise: Components) -> Figure:
    """Return the standard error of the mean dR; a negative component counts as none, as does one that is part of
    another."""
    for needed in (noise.checkpoint, noise.fork, noise.episode):
        if isinstance(needed, Undefined):
            return needed
    checkpoint, fork, draw, episode, rest = (
        0.0 if isinstance(part, Undefined) else max(part, 0.0)
        for part in (noise.checkpoint, noise.fork, noise.draw, noise.episode, noise.draw_episode)
    )
    in_fork = draw / split.draws + episode / split.episodes + rest / (split.draws * split.episodes)
    return math.sqrt((checkpoint + (fork + in_fork) / split.forks) / split.checkpoints)


def detectable_effect(split: Split, noise: Components) -> Figure:
    """Return the mean dR found with 80% power at 95% confidence: (t_{.975, n-1} + z_{.80}) standard errors."""
    error = standard_error(split, noise)
    if isinstance(error, Undefined):
        return error
    if split.checkpoints < 2:
        return Undefined("an interval over checkpoints needs at least two of them")
    return float(stats.t.ppf(0.975, split.checkpoints - 1) + stats.norm.ppf(0.80)) * error


def split_budget(
    budget: float, noise: Components, *, cost: Cost, forks: Iterable[int], most_checkpoints: int = 1000
) -> list[tuple[Split, float]] | Undefined:
    """Return designs within the budget with what they can detect, the best first; as many checkpoints as the rest
    allows.

    `forks` are the numbers of forks per checkpoint to consider: the decision points that a schedule can have. Where
    one draw was run, how draws differ is not known, and none but one is considered.
    """
    drawn = not isinstance(noise.draw, Undefined)
    found: list[tuple[Split, float]] = []
    for count, draws, episodes in itertools.product(forks, DRAWS if drawn else (1,), EPISODES):
        single = Split(checkpoints=1, forks=count, draws=draws, episodes=episodes)
        checkpoints = min(int(budget / cost.study(single)), most_checkpoints)
        if checkpoints < 2:
            continue
        split = dataclasses.replace(single, checkpoints=checkpoints)
        effect = detectable_effect(split, noise)
        if isinstance(effect, Undefined):
            return effect
        found.append((split, effect))
    if not found:
        return Undefined(f"a budget of {budget:g} pays for no design with two checkpoints")
    return sorted(found, key=lambda entry: entry[1])


def _within_fork(table: Float[np.ndarray, "forks draws episodes"]) -> tuple[Figure, Figure, Figure]:
    """Return the components of draw, episode and the rest: two-way analysis of variance, averaged over forks."""
    _, draws, episodes = table.shape
    if episodes < 2:
        few = Undefined("it needs at least two episodes per fork")
        return few, few, few
    by_episode = table.mean(axis=1)
    of_episode = float(by_episode.var(axis=1, ddof=1).mean())
    if draws < 2:
        single = Undefined("there is one draw of each update, so that draws and forks can not be told apart")
        return single, of_episode, Undefined("there is one draw of each update: it is part of the episodes")
    by_draw = table.mean(axis=2)
    residual = table - by_draw[:, :, None] - by_episode[:, None, :] + table.mean(axis=(1, 2))[:, None, None]
    rest = float((residual**2).sum(axis=(1, 2)).mean()) / ((draws - 1) * (episodes - 1))
    of_draw = float(by_draw.var(axis=1, ddof=1).mean())
    return of_draw - rest / episodes, of_episode - rest / draws, rest


def _draw_interval(
    table: Float[np.ndarray, "forks draws episodes"], checkpoint: Int[np.ndarray, "forks"]
) -> Bounds:
    """Return the interval over checkpoints, each with the component of its own forks: how much draws differ may
    depend on the model."""
    components = []
    for name in np.unique(checkpoint):
        draw, _, _ = _within_fork(table[checkpoint == name])
        if isinstance(draw, Undefined):
            return draw
        components.append(draw)
    return student_t(np.array(components))


def _both_signs(table: Float[np.ndarray, "forks draws episodes"]) -> Figure:
    if table.shape[1] < 2:
        return Undefined("there is one draw of each update")
    means = table.mean(axis=2)
    return float(((means > 0).any(axis=1) & (means < 0).any(axis=1)).mean())


NOT_GUESSED: Final = Undefined("a guess does not say it")
SHOWN: Final = 3  # of the best splits of a budget


@dataclasses.dataclass(frozen=True)
class Power:
    """The effect that one arm would find on one task with 80% power at 95% confidence."""

    arm: str
    task: str
    detectable: float
    at_double: dict[str, float]  # with twice the checkpoints, forks, episodes, or draws where their spread is known
    resolves: int | None = None  # checkpoints that would resolve the earlier ledger's mean, were it to stay
    resolves_anytime: int | None = None  # the same, looking after every checkpoint
    splits: tuple[tuple[Split, float], ...] = ()  # the best ways to spend as much, and what they detect

    @property
    def buys_most(self) -> str:
        """The axis on which doubling helps most."""
        return min(self.at_double, key=lambda axis: self.at_double[axis])


def planned_power(
    registration: Registration,
    *,
    like: Mapping[str, Mapping[str, Forks]] | None = None,
    cost: Cost | None = None,
) -> list[Power]:
    """Return the power of every arm and task whose variances are known: from the forks of an earlier study (arm ->
    task -> forks), else from the registration's [guess.TASK]. With a `cost`, also how best to spend what it comes
    to.

    Of an earlier study the arm of the same name is taken, or else its first.
    """
    first = {task: forks for tasks in reversed(list((like or {}).values())) for task, forks in tasks.items()}
    family = sum(len(arm.tasks) for arm in registration.arms)
    planned = []
    for arm in registration.arms:
        earlier = {**first, **(like or {}).get(arm.name, {})}
        noise = planned_noise(registration, earlier)
        for task in (task for task in arm.tasks if task in noise):
            split = planned_split(registration, arm)
            detectable = detectable_effect(split, noise[task])
            if isinstance(detectable, Undefined):
                continue
            means = _checkpoint_means(earlier[task]) if task in earlier else np.zeros(0)
            planned.append(
                Power(
                    *(arm.name, task, detectable, _doubled(split, noise[task])),
                    resolves=_resolves(means, family),
                    resolves_anytime=_resolves_anytime(means),
                    splits=() if cost is None else _best_splits(split, noise[task], cost),
                )
            )
    return planned


def _doubled(split: Split, noise: Components) -> dict[str, float]:
    """Return the effect that is detected with twice of each; draws only where it is known how they differ."""
    axes = ["checkpoints", "forks", "episodes", *([] if isinstance(noise.draw, Undefined) else ["draws"])]
    effects = {
        axis: detectable_effect(dataclasses.replace(split, **{axis: 2 * getattr(split, axis)}), noise)
        for axis in axes
    }
    return {axis: effect for axis, effect in effects.items() if not isinstance(effect, Undefined)}


def planned_split(registration: Registration, arm: Arm) -> Split:
    streams = len(registration.grid.directions) * len(arm.stream_seeds)
    return Split(
        checkpoints=len(registration.grid.checkpoints),
        forks=streams * arm.stream.decision_points,
        draws=len(arm.update_seeds),
        episodes=arm.evaluation.episodes,
    )


def planned_noise(registration: Registration, earlier: Mapping[str, Forks]) -> dict[str, Components]:
    """Return the variances of each task."""
    variances = {
        task: Components(
            checkpoint=guess.checkpoint**2,
            decision_point=NOT_GUESSED,
            fork=guess.fork**2,
            draw=NOT_GUESSED,
            draw_interval=NOT_GUESSED,
            draws_of_both_signs=NOT_GUESSED,
            episode=guess.episode**2,
            draw_episode=NOT_GUESSED,
        )
        for task, guess in registration.guess.items()
    }
    for task, forks in earlier.items():
        found = components_of(forks)
        if isinstance(found, Undefined) or isinstance(found.checkpoint, Undefined):
            rough = design_components(forks)
            if isinstance(rough.traded(), Undefined):
                continue
            found = Components(
                checkpoint=rough.checkpoint,
                decision_point=rough.decision_point,
                fork=rough.fork,
                draw=NOT_GUESSED,
                draw_interval=NOT_GUESSED,
                draws_of_both_signs=NOT_GUESSED,
                episode=rough.episode,
                draw_episode=NOT_GUESSED,
            )
        variances[task] = found
    return variances


def _checkpoint_means(forks: Forks) -> np.ndarray:
    parts = partition(forks.prefork)
    means = parts.checkpoint_means(parts.cell_means(forks.delta))
    return means[~np.isnan(means)]


def _resolves(means: np.ndarray, family: int) -> int | None:
    """Return the fewest checkpoints, more than there were, that would resolve this mean among `family` of them."""
    more = intervals.more_checkpoints(means, family=family)
    return None if isinstance(more, Undefined) else len(means) + more


def _resolves_anytime(means: np.ndarray) -> int | None:
    if len(means) < 2 or not means.any() or means.std(ddof=1) == 0:
        return None
    distance = abs(float(means.mean())) / float(means.std(ddof=1))
    for count in range(intervals.FEWEST, intervals.FARTHEST):
        if distance * math.sqrt(count) > intervals.half_width(count):
            return count
    return None


def _best_splits(split: Split, noise: Components, cost: Cost) -> tuple[tuple[Split, float], ...]:
    """Return the best ways to spend what a design costs, on as many forks as it has, or a half or a quarter of
    them."""
    forks = sorted({split.forks, max(split.forks // 2, 1), max(split.forks // 4, 1)})
    best = split_budget(cost.study(split), noise, cost=cost, forks=forks)
    return () if isinstance(best, Undefined) else tuple(best[:SHOWN])
