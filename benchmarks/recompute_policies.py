"""The third part of `recompute.py`: policies and their yardsticks, one loop for each definition of the docs."""

import itertools
import math

import numpy as np
from recompute_basics import flip_p, mean_of, t_interval, t_p
from recompute_drawn import RESAMPLES, near_mean, near_share

LISTED_ORDERS = 8  # checkpoints up to which the analysis lists all orders of them


def loco(signal, delta, c, kept):
    """Fires of the threshold that suits the kept forks of the other checkpoints best, on all forks."""
    fired = np.zeros(len(signal), bool)
    for left in np.unique(c):
        other = (c != left) & kept
        fired[c == left] = signal[c == left] >= best_threshold(signal[other], delta[other])
    return fired


def best_threshold(signal, delta):
    """The largest of those that earn most; values within 1e-9 of each other are one."""
    values = np.sort(signal)
    steps = np.flatnonzero(np.diff(values) > 1e-9 * np.maximum(np.abs(values[1:]), np.abs(values[:-1])))
    candidates = [-np.inf, *((values[steps] + values[steps + 1]) / 2), np.inf]
    totals = np.array([delta[signal >= at].sum() for at in candidates])
    return max(
        at
        for at, total in zip(candidates, totals, strict=True)
        if total >= totals.max() - 1e-9 * max(1, abs(totals.max()))
    )


def position_table(f, delta):
    fired = np.zeros(len(delta), bool)
    for i in range(len(delta)):
        there = (f["c"] != f["c"][i]) & (f["d"] == f["d"][i]) & (f["k"] == f["k"][i])
        fired[i] = there.any() and delta[there].mean() > 1e-9 * np.abs(delta[there]).mean()
    return fired


def direction_clock(f, delta):
    fired = np.zeros(len(delta), bool)
    for way in np.unique(f["d"]):
        for left in np.unique(f["c"]):
            other, own = (f["d"] == way) & (f["c"] != left), (f["d"] == way) & (f["c"] == left)
            k, best = f["k"][other], None
            for sense in (1, -1):
                cuts = [-np.inf, *(np.unique(sense * k)[1:] - 0.5), np.inf]
                totals = [delta[other][sense * k >= cut].sum() for cut in cuts]
                top = max(totals)
                cut = max(c for c, t in zip(cuts, totals, strict=True) if t >= top - 1e-9 * max(1, abs(top)))
                if best is None or top > best[0] + 1e-9 * max(1, abs(top)):
                    best = (top, sense, cut)
            fired[own] = best[1] * f["k"][own] >= best[2]
    return fired


def pair_auc(f, signal, delta):
    """Pairs at one (direction, k)."""
    scores = []
    for i in np.flatnonzero(delta > 0):
        there = (delta <= 0) & (f["d"] == f["d"][i]) & (f["k"] == f["k"][i])
        for j in np.flatnonzero(there):
            near = abs(signal[i] - signal[j]) <= 1e-9 * max(abs(signal[i]), abs(signal[j]))
            scores.append(0.5 if near else float(signal[i] > signal[j]))
    return (float(np.mean(scores)) if scores else None), len(scores)


def swapped(f, fired, delta, kept):
    """p, mean, the number of orders of the checkpoints, and whether these are all there are; fires are applied at
    the same direction, stream seed and k."""
    names = np.unique(f["c"])
    fires = {(c, d, s, k): on for c, d, s, k, on in zip(f["c"], f["d"], f["s"], f["k"], fired, strict=True)}
    totals = {}
    for giver, taker in itertools.product(names, repeat=2):
        rows = np.flatnonzero((f["c"] == taker) & kept)
        totals[giver, taker] = sum(
            delta[i] for i in rows if fires.get((giver, f["d"][i], f["s"][i], f["k"][i]), False)
        )
    own = sum(totals[c, c] for c in names)
    reached = own - 1e-9 * max(1, abs(own))
    if len(names) > LISTED_ORDERS:
        table = np.array([[totals[giver, taker] for taker in names] for giver in names])
        drawn = np.random.default_rng(20_26).permuted(np.tile(np.arange(len(names)), (RESAMPLES, 1)), axis=1)
        sums = table[drawn, np.arange(len(names))].sum(axis=1)
        mean = near_mean(table.sum() / len(names), sums.std(), RESAMPLES)  # each giver meets each taker as often
        return near_share(float(np.mean(sums >= reached)), RESAMPLES, RESAMPLES), mean, RESAMPLES, False
    orders = list(itertools.permutations(names))
    sums = [sum(totals[giver, taker] for giver, taker in zip(order, names, strict=True)) for order in orders]
    return float(np.mean([s >= reached for s in sums])), float(np.mean(sums)), len(orders), True


def running(f, signal, rate=0.3):
    """Fires where the signal exceeds the 70% quantile of its stream's earlier values, at least four of them."""
    fired = np.zeros(len(signal), bool)
    for i in range(len(signal)):
        before = (f["c"] == f["c"][i]) & (f["d"] == f["d"][i]) & (f["s"] == f["s"][i]) & (f["k"] < f["k"][i])
        if before.sum() >= 4:
            level = np.quantile(signal[before], 1 - rate)
            fired[i] = signal[i] > level and not np.isclose(signal[i], level, rtol=1e-9, atol=0)
    return fired


def controls(f, fired, delta, kept, book, where, shown):
    """The mean of each null in closed form: every fork of a cell, or time block, fires as often as any other."""
    for name, blocks, seen in (
        ("random", 1, shown["random"]),
        ("random_shift", 1, shown["random_shift"]),
        *((f"random_blocks {b}", b, shown["random_blocks"][str(b)]) for b in (2, 4, 6)),
    ):
        mean, variance = 0.0, 0.0
        for c, d, s in set(zip(f["c"], f["d"], f["s"], strict=True)):
            rows = np.flatnonzero(kept & (f["c"] == c) & (f["d"] == d) & (f["s"] == s))
            rows = rows[np.argsort(f["k"][rows])]
            for piece in np.array_split(rows, blocks):
                if len(piece):
                    mean += fired[piece].sum() * delta[piece].mean()
                    variance += len(piece) * np.var(delta[piece]) * len(piece)  # no null varies by more
        spread = 5 * math.sqrt(variance / seen["permutations"])
        book.same(f"{where}.{name}.permutations", 20_000, seen["permutations"])
        book.same(f"{where}.{name}.mean", True, bool(abs(mean - seen["mean"]) <= spread + 1e-6))


def gains(mine, rivals, book, where, shown):
    """What a policy earns more than each other in a checkpoint; nothing is known beside one that is None."""
    for than, theirs in rivals.items():
        gap, seen = np.array([]) if theirs is None else mine - theirs, shown[than]
        if theirs is not None:
            gap[np.abs(gap) <= 1e-9 * np.maximum(np.abs(mine), np.abs(theirs))] = 0.0
        figures = [mean_of(gap), t_interval(gap), t_p(gap), flip_p(gap), len(gap), int((gap > 0).sum())]
        names = ("mean", "student_t", "p_student_t", "p_sign_flip", "checkpoints", "won")
        book.same(f"{where}.gains.{than}", figures, [seen[name] for name in names])


def running_rest(part, fired, d, mine, rivals, book, where, shown):
    """The same figures of the label-free policy."""
    book.same(f"{where}.steps", int(part["steps"][0]) * int(fired.sum()), shown["gradient_steps"])
    for way in shown["by_direction"]:
        book.same(f"{where}.{way}", d[fired & (part["d"] == way)].sum(), shown["by_direction"][way])
    by = shown["earned"]["by_checkpoint"]
    book.same(f"{where}.earned", [mine.mean(), *mine], [shown["earned"]["mean"], *(by[c] for c in by)])
    gains(mine, rivals, book, where, shown["gains"])


def given_position(part, signal, d, book, where, shown):
    """AUC over pairs at one (direction, k), and its range when one checkpoint is left out."""
    auc, pairs = pair_auc(part, signal, d)
    places = list(zip(part["d"], part["k"], strict=True))
    ways = [{np.sign(x) > 0 for x, other in zip(d, places, strict=True) if other == place} for place in set(places)]
    book.same(
        where, [auc, pairs, sum(len(way) == 2 for way in ways)], [shown[key] for key in ("auc", "pairs", "strata")]
    )
    without = []
    for one in np.unique(part["c"]):
        keep = part["c"] != one
        rest = {name: values[keep] for name, values in part.items()}
        value, _ = pair_auc(rest, signal[keep], d[keep])
        without += [] if value is None else [value]
    ends = [min(without), max(without)] if without and auc is not None else [None, None]
    book.same(f"{where}.without_one", ends, [shown["without_one_low"], shown["without_one_high"]])
