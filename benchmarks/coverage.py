"""Do the intervals cover, and do the controls hold their level? By simulation.

    python benchmarks/coverage.py                 # all of docs/scoring.md's tables, about five minutes
    python benchmarks/coverage.py --quick         # a tenth of it

Coverage: checkpoint means are normal around a known effect (and, beside it, skewed); how often does the nominal 95%
interval contain it? Level: signal and dR are independent autoregressions along each stream, so no trigger knows
anything; how often is p below 0.05 all the same?
"""

import argparse

import numpy as np
from rich.console import Console
from rich.progress import track

from worldfork.desk.reading.prefork import CellKey, Prefork
from worldfork.desk.scoring import controls
from worldfork.desk.scoring.intervals import bootstrap, student_t
from worldfork.desk.scoring.policies import fires, leave_one_checkpoint_out, policy_total

CLUSTERS = (3, 5, 10, 20)
CORRELATIONS = (0.0, 0.5, 0.9)
CHECKPOINTS, DIRECTIONS, K = 5, ("away", "toward"), 24
PERMUTATIONS = 499
PROGRESS = Console(stderr=True)


def coverage(clusters: int, worlds: int, draws: np.random.Generator, *, skewed: bool) -> tuple[float, float]:
    """The share of worlds whose bootstrap and whose Student-t interval contain the true mean, 0."""
    hits = np.zeros(2)
    for world in track(range(worlds), f"coverage, {clusters} clusters", console=PROGRESS, transient=True):
        values = draws.exponential(1.0, clusters) - 1 if skewed else draws.normal(0, 1, clusters)
        for index, interval in enumerate((bootstrap(values, seed=world, task="coverage"), student_t(values))):
            assert isinstance(interval, list)
            hits[index] += interval[0] <= 0 <= interval[1]
    return float(hits[0] / worlds), float(hits[1] / worlds)


def autoregression(correlation: float, shape: tuple[int, int], draws: np.random.Generator) -> np.ndarray:
    """Stationary AR(1) with unit variance along the last axis."""
    noise = draws.normal(size=shape)
    found = noise.copy()
    for step in range(1, shape[1]):
        found[:, step] = correlation * found[:, step - 1] + np.sqrt(1 - correlation**2) * noise[:, step]
    return found


def level(correlation: float, worlds: int, draws: np.random.Generator, *, labels: str) -> dict[str, float]:
    """The share of worlds without anything to find in which each control has p < 0.05.

    The threshold is fixed beforehand at half a standard deviation, or fitted leave-one-checkpoint-out: on labels
    that are then scored, or on fresh ones. Worlds in which a fitted policy never fires count: there p is 1.
    """
    cells = tuple(CellKey(str(c), direction, 0) for c in range(CHECKPOINTS) for direction in DIRECTIONS)
    forks = len(cells) * K
    prefork = Prefork(
        task="level",
        cells=cells,
        cell=np.repeat(np.arange(len(cells)), K),
        k=np.tile(np.arange(1, K + 1), len(cells)),
        level=np.full(forks, np.nan),
        signals={},
        step=np.zeros(forks, np.int64),
    )
    checkpoint = np.repeat(np.arange(CHECKPOINTS), K * len(DIRECTIONS))
    rejected: dict[str, float] = dict.fromkeys((*controls.VARIANTS, "random and shift"), 0.0)
    for world in track(range(worlds), f"level, correlation {correlation}", console=PROGRESS, transient=True):
        signal, delta = (autoregression(correlation, (len(cells), K), draws).ravel() for _ in range(2))
        seen = delta if labels == "fitted" else autoregression(correlation, (len(cells), K), draws).ravel()
        fits = leave_one_checkpoint_out(signal, seen, checkpoint, count=CHECKPOINTS)[checkpoint]
        fired = fires(signal, 0.5 if labels == "fixed beforehand" else fits)
        chosen = controls.Policies(np.ones(forks, bool), fired[:, None])
        nulls = controls.control_totals(prefork, delta, [chosen], permutations=PERMUTATIONS, seed=world)[0]
        observed = policy_total(fired, delta)
        p = {name: controls.judge(observed, totals[:, 0])["p"] for name, totals in nulls.items()}
        for name, value in p.items():
            rejected[name] += (value < 0.05) / worlds
        rejected["random and shift"] += (max(p["random"], p["shift"]) < 0.05) / worlds
    return rejected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    share = 10 if parser.parse_args().quick else 1
    draws = np.random.default_rng(0)
    print("Coverage of nominal 95% intervals\n")
    print("| clusters | bootstrap, normal | Student-t, normal | bootstrap, skewed | Student-t, skewed |")
    print("|---:|---:|---:|---:|---:|")
    for clusters in CLUSTERS:
        worlds = (10_000 if clusters <= 6 else 2_000) // share
        normal, skewed = (coverage(clusters, worlds, draws, skewed=skewed) for skewed in (False, True))
        print(f"| {clusters} | {normal[0]:.1%} | {normal[1]:.1%} | {skewed[0]:.1%} | {skewed[1]:.1%} |", flush=True)
    print("\nFalse positives at a nominal 5%: five checkpoints, two directions, 24 forks, nothing to find\n")
    heads = (*controls.VARIANTS, "random and shift")
    print("| threshold | autocorrelation | " + " | ".join(heads) + " |")
    print("|---|---:|" + "---:|" * len(heads))
    for kind in ("fixed beforehand", "fitted on fresh labels", "fitted"):
        for correlation in CORRELATIONS:
            found = level(correlation, 2_000 // share, draws, labels=kind)
            shown = " | ".join(f"{found[name]:.1%}" for name in heads)
            print(f"| {kind} | {correlation} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
