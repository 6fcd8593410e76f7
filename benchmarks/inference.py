"""How tests, intervals, bands and trials behave where the truth is known.

    python benchmarks/inference.py            # tables of results/simulations.md, with 2,000 studies each
    python benchmarks/inference.py --studies 200 max_t

Means of checkpoints are drawn from a normal, and from distributions with a skewness of -1 and -2 (a shifted gamma
with its sign turned). 2,000 studies give a share of 5% within 1%, one of 95% as well.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float
from stopping import method_table

from worldfork.analysis.score.curves import critical_value
from worldfork.analysis.score.intervals import skew, student_t
from worldfork.analysis.score.sign_flips import max_t, sign_flip_p, student_p
from worldfork.analysis.score.value import _worth
from worldfork.analysis.score.verdicts import holm

SKEWNESSES = (0.0, -1.0, -2.0)
POLICIES = 13


def skewed(draws: np.random.Generator, skewness: float, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """Return draws of mean 0, variance 1 and this skewness."""
    if skewness == 0:
        return draws.normal(size=shape)
    alpha = 4 / skewness**2
    return np.sign(skewness) * (draws.gamma(alpha, size=shape) - alpha) / np.sqrt(alpha)


def max_t_table(studies: int) -> Iterator[str]:
    """Yield the error over a family and the power of Holm's adjustment and of step-down max-T.

    Thirteen policies share their checkpoints: each is a common part and one of its own, with the given correlation.
    For the power three of them are worth 1.2 standard deviations.
    """
    yield "| checkpoints | correlation | skewness | error, Holm | error, max-T | power, Holm | power, max-T |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for count in (10, 12):
        for correlation in (0.5, 0.9):
            for skewness in SKEWNESSES:
                error, power = np.zeros(2), np.zeros(2)
                for study in range(studies):
                    draws = np.random.default_rng([study, count, round(10 * correlation), round(-skewness)])
                    common = skewed(draws, skewness, (1, count))
                    mine = skewed(draws, skewness, (POLICIES, count))
                    null = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * mine
                    error += [any(p < 0.05 for p in found.values()) for found in adjusted(null)]
                    shifted = null + np.r_[np.full(3, 1.2), np.zeros(POLICIES - 3)][:, None]
                    power += [np.mean([found[name] < 0.05 for name in range(3)]) for found in adjusted(shifted)]
                cells = [f"{share:.1%}" for share in (*error / studies, *power / studies)]
                yield f"| {count} | {correlation:g} | {skewness:g} | " + " | ".join(cells) + " |"


def adjusted(values: Float[np.ndarray, "policies checkpoints"]) -> tuple[dict[int, float], dict[int, float]]:
    """Return the adjusted p values by Holm, the larger of Student-t's and the sign flips', and by max-T."""
    tests = (student_p, lambda row: sign_flip_p(row, seed=0, task=""))
    both = [holm({name: float(test(row)) for name, row in enumerate(values)}) for test in tests]
    by_holm = {name: max(of[name] for of in both) for name in range(len(values))}
    return by_holm, max_t(dict(enumerate(values)), seed=0, task="")


def interval_table(studies: int) -> Iterator[str]:
    """Yield the coverage of Student's t and of Johnson's interval, and what the score states of the former."""
    yield "| checkpoints | skewness | Student t | stated beside it | Johnson |"
    yield "|---:|---:|---:|---:|---:|"
    for count in (8, 10, 12, 30):
        for skewness in SKEWNESSES:
            covered, stated = np.zeros(2), 0.0
            for study in range(studies):
                values = skewed(np.random.default_rng([study, count, round(-skewness), 1]), skewness, (count,))
                found, interval = skew(values), student_t(values)
                covered += [low <= 0 <= high for low, high in (interval, found.johnson)]
                stated += max(0.0, 0.95 - found.shortfall)
            t, johnson = covered / studies
            cells = f"{t:.1%} | {stated / studies:.1%} | {johnson:.1%}"
            yield f"| {count} | {skewness:g} | {cells} |"


def band_table(studies: int) -> Iterator[str]:
    """Yield how often a band over eight places holds the whole curve, and how often eight single intervals do."""
    yield "| checkpoints | skewness | band | single intervals | standard errors of the band |"
    yield "|---:|---:|---:|---:|---:|"
    for count in (8, 10, 12, 32):
        for skewness in SKEWNESSES:
            covered, single, width = 0, 0, 0.0
            for study in range(studies):
                draws = np.random.default_rng([study, count, round(-skewness), 2])
                # Neighbouring places are alike, as along a drift: a walk that is pulled back.
                steps = skewed(draws, skewness, (8, count))
                values = np.empty_like(steps)
                values[0] = steps[0]
                for place in range(1, 8):
                    values[place] = 0.8 * values[place - 1] + 0.6 * steps[place]
                critical = critical_value(values, seed=0, task="")
                error = values.std(axis=1, ddof=1) / np.sqrt(count)
                covered += bool((np.abs(values.mean(axis=1)) <= critical * error).all())
                single += all(low <= 0 <= high for low, high in map(student_t, values))
                width += critical
            cells = f"{covered / studies:.1%} | {single / studies:.1%} | {width / studies:.1f}"
            yield f"| {count} | {skewness:g} | {cells} |"


def trial_table(studies: int) -> Iterator[str]:
    """Yield the value of trials beside its known one: normal dR over forks, and normal noise of each episode.

    One trial keeps an update with probability P(dR + e > 0), and is worth E[dR 1(dR + e > 0)].
    """
    yield "| mean dR | noise of an episode | known, one trial | found | known, two | found | always | oracle |"
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|"
    for mean in (-1.0, 0.0, 1.0):
        for noise in (0.5, 2.0):
            found, oracle = np.zeros(2), 0.0
            for study in range(studies):
                draws = np.random.default_rng([study, round(mean) + 2, round(2 * noise)])
                worth = draws.normal(mean, 1.0, 48)
                delta = worth[:, None] + draws.normal(0, noise, (48, 4))
                found += [_worth(delta, count, margin=0.0)[0].mean() for count in (1, 2)]
                oracle += np.maximum(worth, 0.0).mean()
            cells = []
            for place, count in enumerate((1, 2)):
                cells += [f"{known_worth(mean, noise / np.sqrt(count)):+.3f}", f"{found[place] / studies:+.3f}"]
            yield f"| {mean:+g} | {noise:g} | " + " | ".join(cells) + f" | {mean:+.3f} | {oracle / studies:+.3f} |"


def known_worth(mean: float, error: float) -> float:
    """Return E[d 1(d + e > 0)] for d normal around `mean` with deviation 1 and e around 0 with `error`."""
    from scipy import stats

    spread = np.sqrt(1 + error**2)
    at = mean / spread
    return float(mean * stats.norm.cdf(at) + stats.norm.pdf(at) / spread)


TABLES: dict[str, Callable[[int], Iterator[str]]] = {
    "max_t": max_t_table,
    "intervals": interval_table,
    "bands": band_table,
    "trials": trial_table,
    "stopping": method_table,
}


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=list(TABLES), help=", ".join(TABLES))
    parser.add_argument("--studies", type=int, default=2_000)
    options = parser.parse_args()
    for name in options.tables:
        print(f"\n{name}, {options.studies:,} studies each\n")
        for line in TABLES[name](options.studies):
            print(line, flush=True)


if __name__ == "__main__":
    main()
