"""Do the intervals of a deployment hold the value of a policy that is known? By repetition, with its own error.

    python benchmarks/deployment.py                                    # a look: two repetitions of 40 checkpoints
    python benchmarks/deployment.py --seed 1 --repetitions 500 --output strong.npz
    python benchmarks/deployment.py --seed 1 --repetitions 16 --curve --output curve.npz
    python benchmarks/deployment.py --merge strong.npz --with-curve curve.npz  # tables of results/simulations.md

In the linear-quadratic world the expected return of every episode is known in closed form, given the parameters
along the path. A policy's value is its mean over checkpoints and streams. A repetition follows all policies on
checkpoints and streams of its own and asks of each: does the 95% Student-t interval over checkpoints, of the paired
difference with never, hold the value? The design, fixed before it was run: 500 repetitions of 40 checkpoints with
four streams each, in two worlds, at seeds (from 1 on) that no look had used. The same checkpoints are also read as
more repetitions of 5, 10 and 20, and with the first stream of each checkpoint alone.

`given` has a threshold that was there beforehand. `own5` and `own20` have thresholds fitted on the one-step forks
of the other checkpoints of their repetition, of so many. Two things can be asked of their intervals: to hold the
value of the thresholds *as fitted* there (the mean, over the repetition's thresholds, of what each is worth on any
checkpoint; `--curve` follows fixed thresholds to know that), or the value of *fitting anew*, whose spread between
repetitions no interval within one can see.

A policy whose updates persist can end with a controller that does not hold the system, and its quadratic cost then
grows without bound. Such a deployment is called diverged here (`DIVERGED`), by a rule that was made after the look
at the registered run: it is not part of the design. Tables stand for repetitions without one, and beside them the
same for every attempted deployment.

Several processes follow with a `--seed` each; neither following nor reporting needs a package of the analysis.
"""

import argparse
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Bool, Float64
from policy_values import PolicyValues, follow, one_step_rows

from worldfork.ledger.closed_loop import Thresholds
from worldfork.registration import Registration, parse
from worldfork.triggers.policy import in_json

CHECKPOINTS: Final = 40  # of a repetition
GROUPS: Final = (5, 10, 20, 40)  # the same checkpoints, read as repetitions of so many
DRAWN_SIZES: Final = (5, 10, 20, 40, 80)
DRAWN: Final = 20_000
FITTED: Final = (5, 20)  # checkpoints on which a repetition fits its own thresholds
STREAMS: Final = 4  # of each checkpoint
TASK: Final = "linear_quadratic"
OUTCOMES: Final = ("own episodes", "evaluated")
# A deployment diverged whose advantage, measured or in closed form, is beyond this. In the registered run the
# larger of the two was 756 at most, or else 58,000,000 at least.
DIVERGED: Final = 1e4
Values = Float64[np.ndarray, " checkpoints"]
Lost = Bool[np.ndarray, " checkpoints"]


@dataclasses.dataclass(frozen=True)
class Drift:
    """A world to follow policies in."""

    points: int  # decision points
    scale: float  # what the pull is multiplied by at the end of the drift
    given: float  # the threshold of `given`
    curve: tuple[float, float]  # residuals between which the worth of a threshold changes


WORLDS: Final = {
    "strong": Drift(points=8, scale=4.0, given=0.007, curve=(0.0035, 0.0075)),
    "mild": Drift(points=4, scale=2.0, given=0.0065, curve=(0.0045, 0.0105)),
}
CURVE_POINTS: Final = 12


@dataclasses.dataclass(frozen=True)
class Followed:
    """Advantages over never. Axes: outcomes, policies but never, checkpoints, streams."""

    policies: tuple[str, ...]
    measured: Float64[np.ndarray, "outcomes policies checkpoints streams"]
    known: Float64[np.ndarray, "outcomes policies checkpoints streams"]  # in closed form, along the same paths
    updates: Float64[np.ndarray, "policies checkpoints streams"]
    thresholds: Float64[np.ndarray, "fits checkpoints"]  # of own5 and own20

    @property
    def diverged(self) -> Bool[np.ndarray, "policies checkpoints streams"]:
        """Deployments whose advantage is beyond `DIVERGED` by either outcome, or no number."""
        return ~((np.abs(self.measured) <= DIVERGED) & (np.abs(self.known) <= DIVERGED)).all(axis=0)

    def write(self, path: Path) -> None:
        np.savez(path, **dataclasses.asdict(self))

    @classmethod
    def read(cls, path: Path) -> "Followed":
        columns = dict(np.load(path))
        return cls(tuple(map(str, columns.pop("policies"))), **columns)

    @classmethod
    def joined(cls, parts: Sequence["Followed"]) -> "Followed":
        """The checkpoints of one part after those of another."""
        if len({part.policies for part in parts}) > 1:
            raise SystemExit("These parts follow different policies, and can not be joined.")
        axes = {"measured": 2, "known": 2, "updates": 1, "thresholds": 1}
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts], axis) for name, axis in axes.items()
        }
        return cls(parts[0].policies, **columns)


def follow_repetitions(
    repetitions: int, world: Drift, *, seed: int, first: int = 0, curve: bool = False, streams: int = STREAMS
) -> Iterator[Followed]:
    """One repetition after the other, each on checkpoints of its own, from `first` on."""
    for place in range(first, first + repetitions * CHECKPOINTS, CHECKPOINTS):
        registered = registration(place, CHECKPOINTS, world, seed=seed, curve=curve, streams=streams)
        thresholds = np.empty((0, CHECKPOINTS)) if curve else fitted(registered)
        yield over_never(follow(registered, thresholds=spelled_thresholds(thresholds, place)), thresholds)


def registration(
    first: int,
    count: int,
    world: Drift,
    *,
    seed: int = 0,
    curve: bool = False,
    streams: int = STREAMS,
    block: int = 200,
) -> Registration:
    """Checkpoints `first` to `first` + `count` of the linear-quadratic world, under the policies to be followed."""
    policies = {
        "periodic": 'trigger = "periodic"\nsettings = {period = 4}',
        "random": 'trigger = "random"\nrate = 0.5',
        "running": 'trigger = "residual"\nthreshold = "running"\nrate = 0.3',
        "given": f'trigger = "residual"\nthreshold = {world.given}',
        **{f"own{count}": 'trigger = "residual"\nthreshold = "fitted"' for count in FITTED},
    }
    if curve:
        thresholds = np.linspace(*world.curve, CURVE_POINTS)
        policies = {f"at-{t:.6f}": f'trigger = "residual"\nthreshold = {t:.6f}' for t in thresholds}
    named = "\n".join(f'[deployment.policies."{name}"]\n{text}' for name, text in policies.items())
    return parse(
        f"""
schema = "worldfork.registration/1"
name = "coverage"
seed = {seed}
[grid]
tasks = ["{TASK}"]
checkpoints = {list(range(first, first + count))}
directions = ["away"]
stream_seeds = {list(range(streams))}
[stream]
decision_points = {world.points}
drift_period = 300
[evaluation]
episodes = 6
[mechanism]
steps = 50
window = 200
[execution]
forks_per_block = {block}
streams_per_batch = 100
[tasks.{TASK}]
agent = "{TASK}"
drift_scale = {world.scale}
precision = "float64"
[deployment]
evaluate_at = [{world.points // 2}, {world.points}]
episodes = 6
{named}
"""
    )


def fitted(registered: Registration) -> Float64[np.ndarray, "fits checkpoints"]:
    """For each size of repetition the threshold of each checkpoint, from the forks of its repetition's others."""
    rows: dict[int, list[tuple[float, float]]] = {}
    for cell, labelled in one_step_rows(registered).items():
        known = [(float(row.signals["residual"] or np.nan), row.delta) for row in labelled]
        rows.setdefault(cell.checkpoint, []).extend(known)
    forks = np.array([rows[checkpoint] for checkpoint in sorted(rows)])  # checkpoints, forks, (signal, dR)
    found = np.empty((len(FITTED), len(forks)))
    for line, size in enumerate(FITTED):
        for place in range(len(forks)):
            group = np.arange(place // size * size, min((place // size + 1) * size, len(forks)))
            found[line, place] = best_threshold(*np.concatenate(forks[group[group != place]]).T)
    return found


def best_threshold(signal: Float64[np.ndarray, " forks"], delta: Float64[np.ndarray, " forks"]) -> float:
    """The threshold at or above which dR adds up to most; of equal ones the largest. Written out here, since the
    own fit of analysis comes with packages that the following does without (a test holds one against the other)."""
    order = np.argsort(-signal, kind="stable")
    descending = signal[order]
    cuts = np.r_[np.inf, (descending[:-1] + descending[1:]) / 2, -np.inf]
    return float(cuts[np.argmax(np.r_[0.0, np.cumsum(delta[order])])])


def spelled_thresholds(thresholds: Float64[np.ndarray, "fits checkpoints"], first: int) -> Thresholds:
    return Thresholds(
        policies={
            f"own{size}": {TASK: {str(first + place): in_json(float(value)) for place, value in enumerate(line)}}
            for size, line in zip(FITTED, thresholds, strict=False)
        }
    )


def over_never(values: PolicyValues, thresholds: Float64[np.ndarray, "fits checkpoints"]) -> Followed:
    order = sorted(
        range(len(values.cells)), key=lambda at: (values.cells[at].checkpoint, values.cells[at].stream_seed)
    )
    checkpoints = len({cell.checkpoint for cell in values.cells})

    def shaped(
        column: Float64[np.ndarray, "policies cells"],
    ) -> Float64[np.ndarray, "policies checkpoints streams"]:
        return column[:, order].reshape(len(column), checkpoints, -1)

    def advantage(*columns: Float64[np.ndarray, "policies cells"]) -> np.ndarray:
        return np.stack([shaped(column)[1:] - shaped(column)[:1] for column in columns])

    assert values.policies[0] == "never"
    return Followed(
        values.policies[1:],
        advantage(values.returned, values.evaluated),
        advantage(values.expected, values.expected_evaluated),
        shaped(values.updates)[1:],
        thresholds,
    )


# What is read out of it


@dataclasses.dataclass(frozen=True)
class Coverage:
    """How often an interval held what it should."""

    share: float
    repetitions: int

    def __str__(self) -> str:
        error = 1.96 * np.sqrt(self.share * (1 - self.share) / self.repetitions)
        return f"{self.share:.1%} ± {error:.1%}"


def covered(
    values: Float64[np.ndarray, "repetitions checkpoints"], truth: Float64[np.ndarray, " repetitions"]
) -> Coverage:
    """The Student-t interval over the checkpoints of every repetition, held against its truth. All at once; a test
    holds it against the analysis' own."""
    from scipy import stats

    count = values.shape[1]
    half = stats.t.ppf(0.975, count - 1) * values.std(axis=1, ddof=1) / np.sqrt(count)
    rounding = 1e-12 * np.maximum(1.0, np.abs(truth))
    held = np.abs(values.mean(axis=1) - truth) <= half + rounding
    return Coverage(float(held.mean()), len(held))


def without_itself(known: Float64[np.ndarray, "repetitions checkpoints"]) -> Float64[np.ndarray, " repetitions"]:
    """The value of a policy, for each repetition from all others."""
    return (known.sum() - known.sum(axis=1)) / (known.size - known.shape[1])


def report(followed: Followed, curve: Followed | None) -> None:
    """All tables, as results/simulations.md has them."""
    _, _, checkpoints, streams = followed.measured.shape
    print(
        f"{checkpoints} checkpoints, {streams} streams each; the value of a policy is its advantage over never in"
    )
    print("the return of one episode; coverages of a nominal 95%, with 1.96 standard errors of their own\n")
    report_diverged(followed)
    sizes = [size for size in GROUPS if checkpoints % size == 0 and checkpoints > size]
    for count in dict.fromkeys((1, streams)):
        print(f"\nRepetitions of their own without a diverged deployment, {count} of the streams:\n")
        _table(followed, count, sizes, _apart)
        if followed.diverged[:, :, :count].any():
            print(f"\nThe same for every attempted deployment, {count} of the streams:\n")
            _table(followed, count, sizes, _apart, every=True)
        print("\nRepetitions drawn with replacement from all checkpoints without a diverged deployment;")
        print("in brackets what skewness predicts:\n")
        _table(followed, count, DRAWN_SIZES, _drawn)
    if curve is not None:
        print("\nThresholds fitted within a repetition, all streams, repetitions without a diverged deployment:\n")
        report_fitted(followed, curve)


def report_diverged(followed: Followed) -> None:
    """How many deployments of each policy diverged, and how wide the gap is between these and all others."""
    print(f"A deployment diverged whose advantage, measured or in closed form, is beyond {DIVERGED:,.0f}.")
    print("That rule was made after the look at the registered run.\n")
    repetition = f"repetitions of {CHECKPOINTS} with one"
    print(f"| policy | deployments | diverged | {repetition} | largest of the others | smallest diverged |")
    print("|---|---:|---:|---:|---:|---:|")
    sizes = np.maximum(np.abs(followed.measured), np.abs(followed.known)).max(axis=0)
    for name, diverged, size in zip(followed.policies, followed.diverged, sizes, strict=True):
        starts = np.arange(0, len(diverged), CHECKPOINTS)
        with_one = np.logical_or.reduceat(diverged.any(axis=1), starts)
        cells = [
            name,
            f"{diverged.size:,}",
            str(diverged.sum()),
            f"{with_one.sum()} of {len(with_one)}",
            _number(size[~diverged].max(initial=0.0)),
            _number(size[diverged].min()) if diverged.any() else "",
        ]
        print(f"| {' | '.join(cells)} |")


def _table(
    followed: Followed, streams: int, sizes: Sequence[int], cell: Callable[..., str], *, every: bool = False
) -> None:
    """A line per policy and outcome; with `every` of all attempted deployments, where some diverged."""
    print(f"| policy | updates | outcome | value | measured | skewness | {' | '.join(map(str, sizes))} |")
    print("|---|---:|---|---:|---:|---:|" + "---:|" * len(sizes))
    for place, name in enumerate(followed.policies):
        lost = followed.diverged[place, :, :streams].any(axis=1)
        if name.startswith("own") or (every and not lost.any()):
            continue
        for index, outcome in enumerate(OUTCOMES):
            measured, known = (
                column[index, place, :, :streams].mean(axis=1) for column in (followed.measured, followed.known)
            )
            left_out = np.zeros_like(lost) if every else lost
            kept, expected = measured[~left_out], known[~left_out]
            if not kept.any():  # it has not updated before this outcome ends, anywhere: there is nothing to cover
                continue
            cells = [
                name,
                f"{followed.updates[place].mean():.1f}",
                outcome,
                _number(expected.mean()),
                _number(kept.mean()),
                f"{skewness(kept):.1f} ({skewness(expected):.1f})",
                *(cell(measured, known, left_out, size) for size in sizes),
            ]
            print(f"| {' | '.join(cells)} |")


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < DIVERGED else f"{value:.1e}"


def _apart(measured: Values, known: Values, left_out: Lost, size: int) -> str:
    """Repetitions that share no checkpoint, against the closed form; those with a checkpoint left out are out."""
    whole = ~left_out.reshape(-1, size).any(axis=1)
    return str(covered(measured.reshape(-1, size)[whole], without_itself(known.reshape(-1, size)[whole])))


def _drawn(measured: Values, known: Values, left_out: Lost, size: int) -> str:
    """Repetitions of a population that is these checkpoints, whose value is their mean."""
    population = measured[~left_out]
    chosen = np.random.default_rng(size).integers(0, len(population), (DRAWN, size))
    share = covered(population[chosen], np.full(DRAWN, population.mean())).share
    return f"{share:.1%} ({expected_coverage(population, size):.1%})"


def expected_coverage(values: Values, size: int) -> float:
    """Of a nominal 95% Student-t interval over `size` such values, by the next term of its Edgeworth expansion
    (Hall, "The bootstrap and Edgeworth expansion", 1992): what is missing is (0.25 skewness² - 0.016 excess
    kurtosis) / size."""
    centred = values - values.mean()
    excess = float((centred**4).mean() / (centred**2).mean() ** 2 - 3.0)
    z = 1.959964
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    skewed = skewness(values) ** 2 * (z**4 + 2 * z * z - 3) / 18
    return float(0.95 - 2 * z * density / size * (skewed - excess * (z * z - 3) / 12))


def report_fitted(followed: Followed, curve: Followed) -> None:
    """Thresholds fitted within a repetition: against their value as fitted, and against that of fitting anew."""
    print(
        "| checkpoints | outcome | never fires | worth as fitted, s.d. | correlation | as fitted | fitting anew |"
    )
    print("|---:|---|---:|---:|---:|---:|---:|")
    for line, size in enumerate(FITTED):
        place = followed.policies.index(f"own{size}")
        whole = ~followed.diverged[place].any(axis=1).reshape(-1, size).any(axis=1)
        thresholds = followed.thresholds[line].reshape(-1, size)[whole]
        for index, outcome in enumerate(OUTCOMES):
            measured = followed.measured[index, place].mean(axis=1).reshape(-1, size)[whole]
            known = followed.known[index, place].mean(axis=1).reshape(-1, size)[whole]
            as_fitted = worth(thresholds.ravel(), curve, index).reshape(-1, size).mean(axis=1)
            cells = [
                str(size),
                outcome,
                f"{np.isposinf(thresholds).all(axis=1).mean():.1%}",
                f"{as_fitted.mean():.4f}, {as_fitted.std(ddof=1):.4f}",
                f"{correlation(measured):+.3f}",
                str(covered(measured, as_fitted)),
                str(covered(measured, without_itself(known))),
            ]
            print(f"| {' | '.join(cells)} |")


def worth(thresholds: Float64[np.ndarray, " n"], curve: Followed, outcome: int) -> Float64[np.ndarray, " n"]:
    """What each threshold is worth on any checkpoint, between those that were followed; never firing is worth 0."""
    places = [place for place, name in enumerate(curve.policies) if name.startswith("at-")]
    at = [float(curve.policies[place].removeprefix("at-")) for place in places]
    values = np.nanmean(np.where(curve.diverged, np.nan, curve.known[outcome]), axis=(1, 2))
    always = values[curve.policies.index("always")]
    inside = np.interp(thresholds, at, values[places])
    below = np.where(thresholds < at[0], always, inside)
    return np.where(np.isposinf(thresholds), 0.0, below)


def correlation(values: Float64[np.ndarray, "repetitions checkpoints"]) -> float:
    """Between two checkpoints of one repetition, over repetitions: 0 where they are independent.

    The variance of a repetition's mean is s²/n (1 + (n - 1) r), and an interval within it sees s²/n (1 - r).
    """
    count = values.shape[1]
    within, between = values.var(axis=1, ddof=1).mean(), count * values.mean(axis=1).var(ddof=1)
    return float((between - within) / (between + (count - 1) * within)) if between + within else 0.0


def skewness(values: Float64[np.ndarray, " n"]) -> float:
    centred = values - values.mean()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5) if centred.any() else 0.0


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--world", choices=WORLDS, default="strong")
    options.add_argument("--repetitions", type=int, default=2, help=f"of {CHECKPOINTS} checkpoints")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--first", type=int, default=0, help="index of the first checkpoint")
    options.add_argument("--streams", type=int, default=STREAMS, help="of each checkpoint")
    options.add_argument("--curve", action="store_true", help="follow fixed thresholds instead")
    options.add_argument("--output", type=Path, help="write what was followed, and report nothing")
    options.add_argument("--merge", type=Path, nargs="+", help="report on files that were written")
    options.add_argument("--with-curve", type=Path, nargs="+", help="files of --curve, for fitted thresholds")
    given = options.parse_args()
    if given.merge:
        parts = [Followed.read(path) for path in given.merge]
    else:
        parts = []
        followed = follow_repetitions(
            given.repetitions,
            WORLDS[given.world],
            seed=given.seed,
            first=given.first,
            curve=given.curve,
            streams=given.streams,
        )
        for part in followed:
            parts.append(part)
            if given.output:  # after every repetition: what was followed is not lost
                Followed.joined(parts).write(given.output)
    if not given.output:
        curves = [Followed.read(path) for path in given.with_curve or ()]
        report(Followed.joined(parts), Followed.joined(curves) if curves else None)


if __name__ == "__main__":
    main()
