"""How large the page of many forks is, what it takes to make (seconds, and the most memory held so far, once
scored and once made), and how long a browser takes to open it.

    python benchmarks/page.py               # 21,600 forks of three tasks
    python benchmarks/page.py 2400 7200     # other sizes

Tables have eight signals and four episodes a branch, as a small study would. Opening is timed in a headless
Chromium, where there is one, from the request to the moment when everything is drawn. The load says how busy the
machine was.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from scoring import table

from worldfork.analysis.present.page import gather, render

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / name) for name in ("analysis/page", "")]

TASKS = ("cartpole", "walker", "cheetah")
EPISODES = 4


def forks(count: int) -> pl.DataFrame:
    """So many forks of three tasks, with the returns of their episodes."""
    draws = np.random.default_rng(0)
    frames = []
    for task in TASKS:
        frame = table(count // len(TASKS), draws).with_columns(task=pl.lit(task))
        for branch in ("hold", "update"):
            mean = frame[f"r_{branch}"].to_numpy()[:, None]
            episodes = mean + draws.normal(0, 30, (len(frame), EPISODES))
            episodes += mean - episodes.mean(axis=1, keepdims=True)
            frame = frame.with_columns(pl.Series(branch, episodes.tolist()))
        frames.append(frame)
    return pl.concat(frames)


def opened(page: Path) -> float | None:
    """Seconds until a browser has drawn the page; None without one."""
    import headless

    if headless.find() is None:
        return None
    with headless.Browser() as browser:
        browser.open("about:blank", wait=False).close()  # the first page pays for starting the browser
        start = time.perf_counter()
        shown = browser.open(page.as_uri())
        shown.settle()
        took = time.perf_counter() - start
        assert shown.complaints() == []
    return took


def peak() -> float:
    """The most memory that this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forks", nargs="*", type=int, default=[21_600])
    parser.add_argument("--permutations", type=int, default=1_000)
    given = parser.parse_args()
    print(f"{'forks':>8} {'score s':>8} {'page s':>8} {'peak MB':>13} {'MB':>6} {'opens s':>8} {'load':>5}")
    for count in given.forks:
        with tempfile.TemporaryDirectory() as folder:
            source = forks(count)
            start = time.perf_counter()
            material = gather(source, permutations=given.permutations)
            scored, before = time.perf_counter(), peak()
            page = render(material).save(Path(folder) / "page.html")
            made = time.perf_counter()
            assert page.path is not None
            opens = opened(page.path)
            shown = "-" if opens is None else f"{opens:.2f}"
            megabytes = len(page.html.encode()) / 1e6
            print(
                f"{count:>8,} {scored - start:>8.1f} {made - scored:>8.1f} "
                f"{before:>6.0f} {peak():>6.0f} {megabytes:>6.1f} {shown:>8} "
                f"{os.getloadavg()[0]:>5.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
