"""How long scoring tables takes and what it needs, from 240 forks to 100,000.

    python benchmarks/scoring.py                                    # five sizes, 20,000 permutations
    python benchmarks/scoring.py 240                                # one size

Tables are written to a temporary .parquet file and read back, so reading is part of the time. They have eight
signals; with the drift oracle, the schedule, the clock and the coin that makes twelve triggers.
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from worldfork.analysis.read.table import read_table
from worldfork.analysis.score import Rules, score

FORKS_PER_CELL = 24
SIGNALS = 8


def table(forks: int, draws: np.random.Generator) -> pl.DataFrame:
    """Five checkpoints, two directions, as many stream seeds as it takes; 24 forks per cell."""
    cells = -(-forks // FORKS_PER_CELL)
    cell = np.repeat(np.arange(cells), FORKS_PER_CELL)[:forks]
    k = np.tile(np.arange(1, FORKS_PER_CELL + 1), cells)[:forks]
    away = cell % 2 == 1
    level = np.where(away, k / FORKS_PER_CELL, 1 - k / FORKS_PER_CELL)
    hold = 650 - 400 * level + draws.normal(0, 40, forks)
    update = 280 + 0.3 * hold + draws.normal(0, 40, forks)
    # A few collapses, so that the divergence rule has something to drop.
    update[draws.random(forks) < 0.01] = 20.0
    columns: dict[str, object] = {
        "task": ["cartpole"] * forks,
        "checkpoint": cell // 2 % 5,
        "direction": np.where(away, "away", "toward"),
        "stream_seed": cell // 10,
        "k": k,
        "r_update": update,
        "r_hold": hold,
        "level": level,
    }
    for index in range(SIGNALS):
        columns[f"signal_s{index}"] = level + draws.normal(0, 0.1 * (index + 1), forks)
    return pl.DataFrame(columns)


def measure(label: str, forks: int, work: Callable[[], object]) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    work()
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    # The load says how much else the machine was doing: on a busy one, the CPU seconds are the ones to compare.
    load = os.getloadavg()[0]
    print(
        f"{label:>8} {forks:>8,} {took:>8.2f} {cpu:>12.2f} {1e6 * cpu / forks:>16.0f} {peak:>8.2f} {load:>5.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forks", nargs="*", type=int, default=[240, 2_400, 24_000, 50_000, 100_000])
    parser.add_argument("--permutations", type=int, default=20_000)
    given = parser.parse_args()
    rules = Rules(permutations=given.permutations)
    print(f"{os.cpu_count()} cores, {given.permutations:,} permutations")
    heads = f"{'forks':>8} {'seconds':>8} {'CPU seconds':>12} {'CPU us per fork':>16} {'peak GB':>8} {'load':>5}"
    print(f"{'':>8} {heads}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "forks.parquet"
        for forks in given.forks:
            table(forks, np.random.default_rng(0)).write_parquet(path)
            measure("table", forks, lambda: score(read_table(path).arms, rules))


if __name__ == "__main__":
    main()
