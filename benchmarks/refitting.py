"""How far to trust what a trigger earns over the position table: both fitted anew in every resample of checkpoints.

    python benchmarks/refitting.py results/power-cartpole --arm corrected --task cartpole-swingup

The score gives that gain a Student-t interval over checkpoints. Thresholds and table are fitted on the other
checkpoints, though, and the interval takes them as given. Here checkpoints are drawn with replacement; in each draw
both are fitted on all checkpoints but the one that they are applied to (with all its copies), and the gain is the
mean over the draw. All attempted forks; percentile intervals.
"""

import argparse

import numpy as np
import polars as pl
from scipy import stats

import worldfork as wf

SIGNALS = ("residual", "running_variance", "percentile", "kl", "validation_loss", "return_deficit")
APART = 1e-9  # relative: values nearer to one another are one value


def main() -> None:
    parser = argparse.ArgumentParser(description="Gains over the position table, with both fitted anew.")
    parser.add_argument("study")
    parser.add_argument("--arm", required=True)
    parser.add_argument("--task", required=True)
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    forks = wf.Study(asked.study).forks().filter(pl.col("arm") == asked.arm, pl.col("task") == asked.task)
    forks = forks.sort(pl.col("checkpoint").cast(int), "direction", "k")
    checkpoints = forks["checkpoint"].n_unique()
    worth = (forks["r_update"] - forks["r_hold"]).to_numpy().reshape(checkpoints, -1)
    print(f"| trigger | gain per checkpoint | Student-t 95% | both fitted anew, {asked.resamples:,} draws, 95% |")
    print("|---|---:|---:|---:|")
    for name in SIGNALS:
        signal = forks[f"signal_{name}"].to_numpy().reshape(checkpoints, -1)
        gains = gained(worth, signal, np.arange(checkpoints))
        half = stats.t.ppf(0.975, checkpoints - 1) * gains.std(ddof=1) / np.sqrt(checkpoints)
        draws = np.random.default_rng(asked.seed).integers(0, checkpoints, (asked.resamples, checkpoints))
        low, high = np.percentile([gained(worth, signal, drawn).mean() for drawn in draws], [2.5, 97.5])
        mean = gains.mean()
        print(
            f"| {name} | {mean:+,.0f} | [{mean - half:+,.0f}, {mean + half:+,.0f}] | [{low:+,.0f}, {high:+,.0f}] |"
        )


def gained(worth: np.ndarray, signal: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """What each checkpoint that was drawn earns by the signal more than by the table, both fitted on the others."""
    found = {}
    for own in np.unique(drawn):
        others = drawn[drawn != own]
        table = worth[others].mean(axis=0) > 0
        fires = signal[own] >= fitted(signal[others].ravel(), worth[others].ravel())
        found[own] = worth[own][fires].sum() - worth[own][table].sum()
    return np.array([found[own] for own in drawn])


def fitted(signal: np.ndarray, worth: np.ndarray) -> float:
    """The threshold with the largest total; of equal ones the largest."""
    order = np.argsort(-signal, kind="stable")
    values, totals = signal[order], np.concatenate([[0.0], np.cumsum(worth[order])])
    between = np.abs(np.diff(values)) > APART * np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    allowed = np.concatenate([[True], between, [True]])
    fires = int(np.argmax(np.where(allowed, totals, -np.inf)))
    if fires in (0, len(values)):
        return float(-np.inf if fires else np.inf)
    return float(values[fires - 1] + values[fires]) / 2


if __name__ == "__main__":
    main()
