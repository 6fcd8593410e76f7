"""Do the intervals cover, and do the controls hold their level? By simulation.

    python benchmarks/coverage.py                 # tables of results/simulations.md; 15 minutes
    python benchmarks/coverage.py --quick         # a tenth of it
    python benchmarks/coverage.py --only tests    # or intervals, looking, lines, controls, swapped, useful

Intervals: checkpoint means are normal around a known effect (and, beside it, skewed); how often does the nominal
95% interval contain it? Tests: there is no effect; how often is p below .05, and what grade does the mean get?
Looking: the same, looked at after every checkpoint. Lines: checkpoints have lines of their own; how often do the
intervals contain the slope and the crossing? Controls: signal and dR are independent autoregressions along each
stream, so no trigger knows anything; how often is p below .05 all the same? Useful: a signal is a function of
direction and k and of nothing else; how often does it pass as useful?
"""

import argparse
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.progress import track
from scipy import stats

from worldfork.analysis.read.prefork import Prefork
from worldfork.analysis.score import (
    contraction,
    permutation_nulls,
    policies,
    sign_flips,
    verdicts,
)
from worldfork.analysis.score import (
    intervals as anytime,
)
from worldfork.analysis.score.clusters import strata
from worldfork.analysis.score.decisions import fires, leave_one_checkpoint_out, policy_total
from worldfork.analysis.score.intervals import bootstrap, student_t
from worldfork.analysis.score.predictions import equivalence
from worldfork.analysis.score.undefined import Undefined
from worldfork.triggers import CellKey

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
            assert not isinstance(interval, Undefined)
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
    rejected: dict[str, float] = dict.fromkeys((*permutation_nulls.VARIANTS, "random and shift"), 0.0)
    for world in track(range(worlds), f"level, correlation {correlation}", console=PROGRESS, transient=True):
        signal, delta = (autoregression(correlation, (len(cells), K), draws).ravel() for _ in range(2))
        seen = delta if labels == "fitted" else autoregression(correlation, (len(cells), K), draws).ravel()
        fits = leave_one_checkpoint_out(signal, seen, checkpoint, count=CHECKPOINTS)[checkpoint]
        fired = fires(signal, 0.5 if labels == "fixed beforehand" else fits)
        nulls = permutation_nulls.null_totals(
            prefork, delta, np.ones(forks, bool), fired[:, None], permutations=PERMUTATIONS, seed=world
        )
        observed = policy_total(fired, delta)
        p = {name: permutation_nulls.judge(observed, totals[:, 0]).p for name, totals in nulls.items()}
        for name, value in p.items():
            rejected[name] += (value < 0.05) / worlds
        rejected["random and shift"] += (max(p["random"], p["shift"]) < 0.05) / worlds
    return rejected


def null_tests(clusters: int, worlds: int, draws: np.random.Generator, *, skewed: bool) -> dict[str, float]:
    """The share of worlds without an effect in which each test has p < .05, and which grade they get."""
    found = dict.fromkeys(("t", "signs", "wild", "leaning", "resolved", "resolved of six", "equivalent"), 0.0)
    for world in track(range(worlds), f"tests, {clusters} clusters", console=PROGRESS, transient=True):
        values = draws.exponential(1.0, clusters) - 1 if skewed else draws.normal(0, 1, clusters)
        student, signs, wild = (
            sign_flips.student_p(values),
            sign_flips.sign_flip_p(values, seed=world, task="tests"),
            sign_flips.wild_p(values, seed=0, task="tests"),
        )
        assert isinstance(student, float)
        assert isinstance(signs, float)
        grade = verdicts.grade_of(values, adjusted_student_p=student, adjusted_sign_flip_p=signs)
        # Among six means of which the others show nothing, Holm's first step counts six times.
        of_six = verdicts.grade_of(values, adjusted_student_p=6 * student, adjusted_sign_flip_p=6 * signs)
        hits = {
            "t": student < 0.05,
            "signs": signs < 0.05,
            "wild": isinstance(wild, float) and wild < 0.05,
            "leaning": grade == "leaning",
            "resolved": grade == "resolved",
            "resolved of six": of_six == "resolved",
            # The effect lies on the margin, half a standard deviation away: the hardest null of equivalence.
            "equivalent": equivalence(values + 0.5, margin=0.5).answer == "equivalent",
        }
        for name, hit in hits.items():
            found[name] += hit / worlds
    return found


def looking(worlds: int, draws: np.random.Generator, *, skewed: bool, most: int = 60) -> tuple[float, float]:
    """The share of studies without an effect in which, looked at from 8 checkpoints to `most`, the Student-t and
    the anytime-valid interval ever exclude 0."""
    values = draws.exponential(1.0, (worlds, most)) - 1 if skewed else draws.normal(0, 1, (worlds, most))
    counts = np.arange(1, most + 1)
    means = np.cumsum(values, axis=1) / counts
    squares = np.cumsum(values**2, axis=1) - counts * means**2
    later = slice(anytime.FEWEST - 1, None)
    counts = counts[later]
    distance = np.abs(means[:, later]) / np.sqrt(squares[:, later] / (counts - 1) / counts)
    bounds = stats.t.ppf(0.975, counts - 1), np.array([anytime.half_width(int(count)) for count in counts])
    fixed, always = (float((distance > bound).any(axis=1).mean()) for bound in bounds)
    return fixed, always


def lines(clusters: int, worlds: int, draws: np.random.Generator) -> dict[str, float]:
    """The share of worlds whose intervals contain the slope, .3, and the crossing, 500.

    Every checkpoint has a slope and a height of its own around these; 48 forks each, in two cells.
    """
    found = dict.fromkeys(("slope, cells", "slope, bootstrap", "slope", "crossing, bootstrap", "crossing"), 0.0)
    checkpoint = np.repeat(np.arange(clusters), 48)
    for world in track(range(worlds), f"lines, {clusters} clusters", console=PROGRESS, transient=True):
        x = 550 + draws.normal(0, 100, len(checkpoint))
        slope = 0.3 + draws.normal(0, 0.15, clusters)[checkpoint]
        y = 500 + slope * (x - 500) + draws.normal(0, 40, clusters)[checkpoint] + draws.normal(0, 40, len(x))
        line = contraction.line(x, y, checkpoint, seed=world, task="lines")
        cells = contraction.line(x, y, np.repeat(np.arange(2 * clusters), 24), seed=world, task="lines")
        intervals = {
            "slope, cells": (cells.slope.bootstrap, 0.3),
            "slope, bootstrap": (line.slope.bootstrap, 0.3),
            "slope": (line.slope.student_t, 0.3),
            "crossing, bootstrap": (line.crossing.bootstrap, 500.0),
            "crossing": (line.crossing.student_t, 500.0),
        }
        for name, (interval, truth) in intervals.items():
            # An interval that may lie anywhere contains everything.
            found[name] += (isinstance(interval, Undefined) or interval[0] <= truth <= interval[1]) / worlds
    return found


def schedule(shape: str, draws: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """What dR is at every (direction, k), and a signal that is a function of the same."""
    k = np.arange(1, K + 1)
    level = np.stack([np.minimum(1, k / 20), np.maximum(0, 1 - k / 20)])
    if shape in ("pays above a level", NOISY):
        return np.where(level > 0.7, 1.0, -0.3), level
    if shape == "grows with the level":
        return level - 0.6, level
    effect = draws.normal(0, 0.5, (2, K))
    return effect, effect if shape == "the signal is the mean dR itself" else draws.normal(size=(2, K))


def useful(clusters: int, shape: str, worlds: int, draws: np.random.Generator) -> dict[str, float]:
    """The share of worlds in which a signal passes each test, and passes as useful, alone in its family.

    Every checkpoint's dR is the schedule's, a height of its own, and an autoregression along each stream. The last
    column is for a signal that, besides, sees half of the noise in its own stream's dR: what there is to find.
    """
    cells = tuple(CellKey(str(c), direction, 0) for c in range(clusters) for direction in DIRECTIONS)
    forks = len(cells) * K
    k, checkpoint = np.tile(np.arange(1, K + 1), len(cells)), np.repeat(np.arange(clusters), 2 * K)
    direction = np.tile(np.repeat([0, 1], K), clusters)
    prefork = Prefork(
        task="useful",
        cells=cells,
        cell=np.repeat(np.arange(len(cells)), K),
        k=k,
        level=np.full(forks, np.nan),
        signals={},
        step=np.zeros(forks, np.int64),
    )
    everyone, place = np.ones(forks, bool), strata(direction, k)
    columns = ("controls", "position table", "swapped", "without swapped", "useful", "useful, knowing")
    found = dict.fromkeys(columns, 0.0)
    for world in track(range(worlds), f"useful, {clusters} clusters, {shape}", console=PROGRESS, transient=True):
        effect, known = schedule(shape, draws)
        noise = autoregression(0.5, (len(cells), K), draws)
        height = draws.normal(0, 0.2, clusters)[checkpoint]
        delta = np.tile(effect.ravel(), clusters) + noise.ravel() + height
        plain = np.tile(known.ravel(), clusters)
        if shape == NOISY:
            plain = plain + 0.3 * autoregression(0.5, (len(cells), K), draws).ravel()
        knowing = plain / plain.std() + noise.ravel()
        passed = []
        for signal in (plain, knowing):
            fired = fires(signal, leave_one_checkpoint_out(signal, delta, checkpoint, count=clusters)[checkpoint])
            nulls = permutation_nulls.null_totals(
                prefork, delta, everyone, fired[:, None], permutations=PERMUTATIONS, seed=world
            )
            observed = policy_total(fired, delta)
            crossed = permutation_nulls.cross_totals(fired, delta, everyone, place, checkpoint)
            swap = permutation_nulls.swapped_control(crossed, permutations=PERMUTATIONS, seed=world, task="useful")
            assert not isinstance(swap, Undefined)
            totals = {
                name: policies.checkpoint_totals(flags, delta, checkpoint, count=clusters)
                for name, flags in (
                    ("always", everyone),
                    ("position_table", policies.position_table(delta, place, checkpoint)),
                    ("own", fired),
                )
            }
            better = policies.baseline_totals(totals["always"], {})["better_of_both"]
            ahead = {}
            for name, than in (("position_table", totals["position_table"]), ("better_of_both", better)):
                gain = policies.gain(totals["own"], than, seed=world, task="useful")
                assert isinstance(gain.mean, float)
                assert isinstance(gain.p_student_t, float)
                assert isinstance(gain.p_sign_flip, float)
                ahead[name] = gain.mean > 0 and max(gain.p_student_t, gain.p_sign_flip) < 0.05
            control = (
                max(permutation_nulls.judge(observed, nulls[name][:, 0]).p for name in ("random", "shift")) < 0.05
            )
            passed.append((control, ahead["position_table"], swap.p < 0.05, ahead["better_of_both"]))
        (control, table, exchanged, constant), sees = passed
        hits = (control, table, exchanged, control and table and constant, all(passed[0]), all(sees))
        for name, hit in zip(columns, hits, strict=True):
            found[name] += hit / worlds
    return found


def swapped_level(clusters: int, worlds: int, draws: np.random.Generator) -> tuple[float, float]:
    """The share of worlds in which exchanging checkpoints gives p <= .05 although the signal knows position and
    noise of its own alone; with a threshold fixed beforehand, and with fitted ones."""
    k, checkpoint = np.tile(np.arange(1, K + 1), 2 * clusters), np.repeat(np.arange(clusters), 2 * K)
    place = strata(np.tile(np.repeat([0, 1], K), clusters), k)
    everyone, hits = np.ones(len(k), bool), np.zeros(2)
    for world in track(range(worlds), f"swapped, {clusters} clusters", console=PROGRESS, transient=True):
        effect, known = schedule(NOISY, draws)
        delta = np.tile(effect.ravel(), clusters) + draws.normal(0, 0.2, clusters)[checkpoint]
        delta += autoregression(0.5, (2 * clusters, K), draws).ravel()
        signal = np.tile(known.ravel(), clusters) + 0.3 * autoregression(0.5, (2 * clusters, K), draws).ravel()
        fitted = leave_one_checkpoint_out(signal, delta, checkpoint, count=clusters)[checkpoint]
        for index, threshold in enumerate((np.full(len(k), 0.6), fitted)):
            crossed = permutation_nulls.cross_totals(fires(signal, threshold), delta, everyone, place, checkpoint)
            control = permutation_nulls.swapped_control(
                crossed, permutations=PERMUTATIONS, seed=world, task="swapped"
            )
            assert not isinstance(control, Undefined)
            hits[index] += control.p <= 0.05
    return float(hits[0] / worlds), float(hits[1] / worlds)


NOISY = "pays above a level, seen through noise"
SHAPES = (
    *("pays above a level", "grows with the level", "the signal is the mean dR itself"),
    *("the signal is another function", NOISY),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=TABLES)
    options = parser.parse_args()
    for name in [options.only] if options.only else TABLES:
        TABLES[name](10 if options.quick else 1, np.random.default_rng(0))


def show_intervals(share: int, draws: np.random.Generator) -> None:
    print("Coverage of nominal 95% intervals\n")
    show(("clusters", "bootstrap, normal", "Student-t, normal", "bootstrap, skewed", "Student-t, skewed"))
    for clusters in CLUSTERS:
        worlds = (10_000 if clusters <= 6 else 2_000) // share
        normal, skewed = (coverage(clusters, worlds, draws, skewed=skewed) for skewed in (False, True))
        show_row(clusters, (*normal, *skewed))


def show_tests(share: int, draws: np.random.Generator) -> None:
    print("\nFalse positives at a nominal 5%, no effect; the last column: called equivalent on the margin\n")
    heads = ("t", "signs", "wild", "leaning", "resolved", "resolved of six", "equivalent")
    show(("means", "clusters", *heads), text=1)
    for skewed in (False, True):
        for clusters in (5, 10, 20):
            found = null_tests(clusters, 2_000 // share, draws, skewed=skewed)
            if clusters >= sign_flips.WILD_BELOW:
                found["wild"] = float("nan")
            show_row(f"{'skewed' if skewed else 'normal'} | {clusters}", [found[name] for name in heads])


def show_looking(share: int, draws: np.random.Generator) -> None:
    print("\nStudies without an effect whose interval excludes 0 at some number of checkpoints from 8 to 60\n")
    show(("means", "Student-t", "anytime-valid"), text=1)
    for skewed in (False, True):
        show_row("skewed" if skewed else "normal", looking(20_000 // share, draws, skewed=skewed))


def show_lines(share: int, draws: np.random.Generator) -> None:
    print("\nCoverage of the intervals of a line: checkpoints have lines of their own\n")
    heads = ("slope, cells", "slope, bootstrap", "slope", "crossing, bootstrap", "crossing")
    show(("clusters", *heads))
    for clusters in (5, 10, 20):
        found = lines(clusters, (2_000 if clusters <= 6 else 500) // share, draws)
        show_row(clusters, [found[name] for name in heads])


def show_controls(share: int, draws: np.random.Generator) -> None:
    print("\nFalse positives at a nominal 5%: five checkpoints, two directions, 24 forks, nothing to find\n")
    heads = (*permutation_nulls.VARIANTS, "random and shift")
    show(("threshold", "autocorrelation", *heads), text=1)
    for kind in ("fixed beforehand", "fitted on fresh labels", "fitted"):
        for correlation in CORRELATIONS:
            found = level(correlation, 2_000 // share, draws, labels=kind)
            show_row(f"{kind} | {correlation}", [found[name] for name in heads])


def show_useful(share: int, draws: np.random.Generator) -> None:
    print("\nA signal that is a function of direction and k alone: the share of worlds in which it passes\n")
    heads = ("controls", "position table", "swapped", "without swapped", "useful", "useful, knowing")
    show(("dR", "clusters", *heads), text=1)
    for shape in SHAPES:
        for clusters in (5, 10, 20):
            found = useful(clusters, shape, 400 // share, draws)
            show_row(f"{shape} | {clusters}", [found[name] for name in heads])


def show_swapped(share: int, draws: np.random.Generator) -> None:
    print("\nExchanging checkpoints, p <= .05, for a signal that knows position and noise of its own\n")
    show(("clusters", "threshold fixed beforehand", "fitted"))
    for clusters in (5, 10, 20):
        show_row(clusters, swapped_level(clusters, 3_000 // share, draws))


def show(heads: tuple[str, ...], *, text: int = 0) -> None:
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * text + "---:|" * (len(heads) - text))


def show_row(first: object, shares: Sequence[float]) -> None:
    shown = ["–" if share != share else f"{share:.1%}" for share in shares]
    print(f"| {first} | " + " | ".join(shown) + " |", flush=True)


TABLES = {
    "intervals": show_intervals,
    "tests": show_tests,
    "looking": show_looking,
    "lines": show_lines,
    "controls": show_controls,
    "swapped": show_swapped,
    "useful": show_useful,
}


if __name__ == "__main__":
    main()
