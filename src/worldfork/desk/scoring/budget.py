"""Where the noise of dR comes from, draws of the update among it, and how to split a budget between its sources.

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

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring import position
from worldfork.desk.scoring.intervals import student_t
from worldfork.desk.scoring.judgement import Components
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.undefined import Bounds, Figure, Undefined
from worldfork.errors import WorldforkError

__all__ = [
    "Cost",
    "Split",
    "components",
    "components_of",
    "detectable_effect",
    "label_noise",
    "split_budget",
    "standard_error",
]

DRAWS: Final = (1, 2, 3, 4, 5, 6, 8, 10)
EPISODES: Final = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """What each thing costs, in any one unit (seconds of a device, say)."""

    checkpoint: float = 0.0  # to train one and run its streams
    draw: float = 0.0  # to train one update
    episode: float = 1.0  # to evaluate one episode of one branch

    @classmethod
    def of(cls, given: Mapping[str, float]) -> "Cost":
        """From a mapping, such as {"checkpoint": 600, "draw": 0.1, "episode": 0.05}."""
        names = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(given) - set(names)):
            raise WorldforkError(f"There is no cost of `{unknown[0]}`; there are {', '.join(names)}.")
        cost = cls(**{name: float(value) for name, value in given.items()})
        if min(cost.checkpoint, cost.draw) < 0 or cost.episode <= 0:
            raise WorldforkError(f"Costs are positive; got {dict(given)}.")
        return cost

    def study(self, split: "Split") -> float:
        """HOLD is evaluated once per fork, every draw of the update as well."""
        fork = split.draws * self.draw + (1 + split.draws) * split.episodes * self.episode
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
    """Every component of a study in which each checkpoint has one fork at each decision point, all of one size."""
    table = update - hold[:, None, :]
    _, draws, episodes = table.shape
    if np.isnan(table).any():
        raise WorldforkError(
            "Variance components need every episode of every draw; some are missing. Leave them out."
        )
    draw, episode, rest = _within_fork(table)
    means = table.mean(axis=(1, 2))
    of_checkpoint, of_point, between = _between_forks(means, checkpoint, point)
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
    """Every component of dR, draws of the update among them, over the forks that have all of their episodes."""
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
    point = position.strata(position.strata(parts.direction, stream), kept.prefork.k)
    return components(drawn[whole], hold[whole], parts.checkpoint, point)


def label_noise(noise: Components, *, draws: int, episodes: int) -> Figure:
    """The variance of one fork's label about what its update is worth: draws, episodes and both together."""
    for needed in (noise.draw, noise.episode, noise.draw_episode):
        if isinstance(needed, Undefined):
            return needed
    draw, episode, rest = (
        0.0 if isinstance(part, Undefined) else max(part, 0.0)
        for part in (noise.draw, noise.episode, noise.draw_episode)
    )
    return draw / draws + episode / episodes + rest / (draws * episodes)


def standard_error(split: Split, noise: Components) -> Figure:
    """Of the mean dR; a negative component counts as none, and so does what is part of another one."""
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
    """The mean dR found with 80% power at 95% confidence: (t_{.975, n-1} + z_{.80}) standard errors."""
    error = standard_error(split, noise)
    if isinstance(error, Undefined):
        return error
    if split.checkpoints < 2:
        return Undefined("an interval over checkpoints needs at least two of them")
    return float(stats.t.ppf(0.975, split.checkpoints - 1) + stats.norm.ppf(0.80)) * error


def split_budget(
    budget: float, noise: Components, *, cost: Cost, forks: Iterable[int], most_checkpoints: int = 1000
) -> list[tuple[Split, float]] | Undefined:
    """Designs within the budget with what they can detect, the best first; as many checkpoints as the rest allows.

    `forks` are the numbers of forks per checkpoint to consider: the decision points that a schedule can have. Where
    one draw was run, how draws differ is not known, and none but one is considered.
    """
    known = not isinstance(noise.draw, Undefined)
    found: list[tuple[Split, float]] = []
    for count, draws, episodes in itertools.product(forks, DRAWS if known else (1,), EPISODES):
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
    """Two-way analysis of variance of draws by episodes, averaged over forks."""
    _, draws, episodes = table.shape
    if episodes < 2:
        few = Undefined("it needs at least two episodes per fork")
        return few, few, few
    by_episode = table.mean(axis=1)
    of_episode = float(by_episode.var(axis=1, ddof=1).mean())
    if draws < 2:
        one = Undefined("there is one draw of each update, so that draws and forks can not be told apart")
        return one, of_episode, Undefined("there is one draw of each update: it is part of the episodes")
    by_draw = table.mean(axis=2)
    residual = table - by_draw[:, :, None] - by_episode[:, None, :] + table.mean(axis=(1, 2))[:, None, None]
    rest = float((residual**2).sum(axis=(1, 2)).mean()) / ((draws - 1) * (episodes - 1))
    of_draw = float(by_draw.var(axis=1, ddof=1).mean())
    return of_draw - rest / episodes, of_episode - rest / draws, rest


def _draw_interval(
    table: Float[np.ndarray, "forks draws episodes"], checkpoint: Int[np.ndarray, "forks"]
) -> Bounds:
    """Over checkpoints, each with the component of its own forks: how much draws differ may depend on the model."""
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


def _between_forks(
    means: Float[np.ndarray, "forks"], checkpoint: Int[np.ndarray, "forks"], point: Int[np.ndarray, "forks"]
) -> tuple[Figure, Figure, Figure]:
    """Checkpoint, decision point, and what is left between forks, by two-way analysis of variance."""
    checkpoints, row = np.unique(checkpoint, return_inverse=True)
    points, column = np.unique(point, return_inverse=True)
    grid = np.full((len(checkpoints), len(points)), np.nan)
    grid[row, column] = means
    if len(means) != grid.size or np.isnan(grid).any():
        uneven = Undefined("checkpoints do not fork at the same decision points, once each")
        return uneven, uneven, uneven
    if min(grid.shape) < 2:
        few = Undefined("it needs at least two checkpoints and two decision points")
        return few, few, few
    rows, columns = grid.mean(axis=1), grid.mean(axis=0)
    residual = grid - rows[:, None] - columns + grid.mean()
    rest = float((residual**2).sum()) / ((len(rows) - 1) * (len(columns) - 1))
    return (
        float(rows.var(ddof=1)) - rest / len(columns),
        float(columns.var(ddof=1)) - rest / len(rows),
        rest,
    )
