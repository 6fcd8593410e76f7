"""The fourth part of `recompute.py`: counts, severities, variance components and the fit of r_update on r_hold."""

import itertools
import math

import numpy as np
import recompute_basics as basics
from recompute_basics import LISTED_RESAMPLES, t_interval
from recompute_drawn import RESAMPLES, chosen, near_ends
from scipy import stats

FITTED = 2_000  # resamples that a line is fitted to where not all are


def severities(f, book, where, printed):
    """By r_hold over the clean return; fresh: half of the episodes say how severe, the others what it was worth."""
    delta, share = f["update"] - f["hold"], f["hold"] / f["clean"]
    edges = [-np.inf, 0.5, 0.75, 0.95, np.inf]
    for one, (low, high) in zip(printed, itertools.pairwise(edges), strict=True):
        there = (share >= low) & (share < high)
        means = [delta[there & (f["c"] == c)].mean() for c in np.unique(f["c"][there])]
        at = f"{where}.severity[{low}]"
        counts = [int(there.sum()), len(means), int((delta[there] > 0).sum())]
        book.same(f"{at}.counts", counts, [one[name] for name in ("forks", "checkpoints", "helped")])
        if there.any():
            book.same(f"{at}.mean", [delta[there].mean(), np.mean(means)], [one["mean"], one["checkpoint_mean"]])
        if len(means) > 1:
            book.same(f"{at}.student_t", t_interval(means), one["student_t"])
        fresh_severity(f, low, high, book, f"{at}.fresh", one["fresh"])


def fresh_severity(f, low, high, book, at, printed):
    """Each half of the episodes places the forks and is left out of what they were worth; halves weigh alike."""
    placed, by_checkpoint = [0, 0], {}
    for deciding in (0, 1):
        for c in np.unique(f["c"]):
            held, updated = f["h"][f["c"] == c], f["u"][f["c"] == c]
            share = held[:, deciding::2].mean(axis=1) / f["clean"][f["c"] == c]
            worth = (updated - held)[:, 1 - deciding :: 2].mean(axis=1)[(share >= low) & (share < high)]
            if len(worth):
                placed[deciding] += len(worth)
                by_checkpoint.setdefault(c, []).append(worth.mean())
    means = [np.mean(halves) for halves in by_checkpoint.values()]
    seen = [printed[name] for name in ("forks_by_even", "forks_by_odd", "checkpoints")]
    book.same(f"{at}.counts", [*placed, len(means)], seen)
    book.same(f"{at}.mean", np.mean(means) if means else None, printed["mean"])
    book.same(f"{at}.student_t", t_interval(means) if len(means) > 1 else None, printed["student_t"])


def components(f, book, where, printed):
    """Two-way table of checkpoints by (direction, k), one draw of each update."""
    delta = f["update"] - f["hold"]
    places = sorted(set(zip(f["d"], f["s"], f["k"], strict=True)))
    table = np.array([
        [delta[(f["c"] == c) & (f["d"] == d) & (f["s"] == s) & (f["k"] == k)][0] for d, s, k in places]
        for c in np.unique(f["c"])
    ])  # fmt: skip
    rows, columns = table.shape
    rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    rest = (rest**2).sum() / ((rows - 1) * (columns - 1))
    episode = np.var(f["u"] - f["h"], axis=1, ddof=1).mean()
    mine = {
        "checkpoint": np.var(table.mean(axis=1), ddof=1) - rest / columns,
        "decision_point": np.var(table.mean(axis=0), ddof=1) - rest / rows,
        "fork": rest - episode / f["h"].shape[1],
        "episode": episode,
        "draw": None,
    }
    for name, value in mine.items():
        book.same(f"{where}.components.{name}", value, printed[name])


def fit(x, y):
    slope, intercept = np.polyfit(x - 500, y - 500, 1)
    return slope, 500 + intercept / (1 - slope), np.var(y, ddof=1) / np.var(x, ddof=1)


def contraction(f, kept, book, where, printed):
    x, y, c = f["hold"][kept], f["update"][kept], f["c"][kept]
    names = np.unique(c)
    if len(names) == 1:
        return one_checkpoint(fit(x, y), book, where, printed)
    whole, without = fit(x, y), [fit(x[c != one], y[c != one]) for one in names]
    n, t = len(names), stats.t.ppf(0.975, len(names) - 1)
    for index, name in ((0, "slope"), (2, "variance_ratio")):
        half = t * math.sqrt((n - 1) / n * sum((one[index] - whole[index]) ** 2 for one in without))
        book.same(
            f"{where}.{name}_interval",
            [whole[index] - half, whole[index] + half],
            printed[f"{name}_interval"],
            1e-7,
        )
    resampled, listed = [], n <= LISTED_RESAMPLES
    for together in itertools.product(names, repeat=n) if listed else names[chosen(n, FITTED)]:
        rows = np.concatenate([np.flatnonzero(c == one) for one in together])
        if np.ptp(x[rows]):  # a checkpoint with one fork, drawn each time, has no line through it
            resampled.append(fit(x[rows], y[rows]))
    for index, name in ((0, "slope"), (1, "crossing"), (2, "variance_ratio")):
        book.same(f"{where}.{name}", whole[index], printed[name], 1e-7)
        drawn = np.array([one[index] for one in resampled])
        ends = list(np.quantile(drawn, [0.025, 0.975])) if listed else near_ends(drawn, RESAMPLES)
        book.same(f"{where}.{name}_bootstrap", ends, printed[f"{name}_bootstrap"], 1e-7)

    def distinguishable(at):
        """|fitted dR| less t standard errors, at one return."""
        value = np.polyval(np.polyfit(x - 500, y - x, 1), at - 500)
        others = [np.polyval(np.polyfit(x[c != one] - 500, (y - x)[c != one], 1), at - 500) for one in names]
        return abs(value) - t * math.sqrt((n - 1) / n * sum((one - value) ** 2 for one in others))

    for end in printed["crossing_interval"] or []:
        book.same(f"{where}.crossing_interval at {end:.1f}", 0.0, distinguishable(end) / 100, 1e-6)

    def within(rows):
        dx, dy = x[rows].copy(), y[rows].copy()
        place = np.array([f"{d}{k}" for d, k in zip(f["d"][kept][rows], f["k"][kept][rows], strict=True)])
        for one in np.unique(place):
            dx[place == one] -= dx[place == one].mean()
            dy[place == one] -= dy[place == one].mean()
        return float(dx @ dy / (dx @ dx))

    book.same(f"{where}.within.bootstrap", None, printed["within"]["bootstrap"])  # it has none
    book.same(f"{where}.clusters", [n, n], [printed["clusters"], printed["within"]["clusters"]])
    value = within(np.ones(len(x), bool))
    half = t * math.sqrt((n - 1) / n * sum((within(c != one) - value) ** 2 for one in names))
    book.same(f"{where}.within", [value], [printed["within"]["value"]], 1e-7)
    book.same(f"{where}.within.student_t", [value - half, value + half], printed["within"]["student_t"], 1e-7)


def one_checkpoint(whole, book, where, printed):
    """All others diverged: there is a line, and nothing says how sure it is."""
    for value, name in zip(whole, ("slope", "crossing", "variance_ratio"), strict=True):
        book.same(f"{where}.{name}", value, printed[name], 1e-7)
        ends = [printed[f"{name}_interval"], printed[f"{name}_bootstrap"]]
        book.same(f"{where}.{name} of one checkpoint", [None, None], ends)
    within = printed["within"]
    book.same(f"{where}.within", [None] * 3, [within[name] for name in ("value", "bootstrap", "student_t")])
    book.same(f"{where}.clusters", [1, 1], [printed["clusters"], within["clusters"]])


def counts(f, delta, retained, book, where, score):
    """Forks counted, the rule, and the two correlations that belong to no signal."""
    seen = score["forks"]
    mine = [
        len(delta),
        retained.sum(),
        (~retained).sum(),
        (delta[retained] > 0).sum(),
        (delta[retained] < 0).sum(),
        0,
        0,
        0,
    ]
    names = (
        "attempted",
        "retained",
        "diverged",
        "helped",
        "hurt",
        "failed_hold",
        "failed_update",
        "failure_return",
    )
    book.same(f"{where}.forks", [float(one) for one in mine], [float(seen[name]) for name in names])
    rule = None if np.isnan(f["rule"]).all() else f["rule"][0]
    book.same(f"{where}.rule", [rule, []], [score["divergence"]["fraction"], list(score["divergence"]["off_in"])])
    part = {name: values[retained] for name, values in f.items() if name != "signals"}
    both = {key: set() for key in zip(part["c"], part["d"], part["s"], strict=True)}
    for key, value in zip(zip(part["c"], part["d"], part["s"], strict=True), delta[retained], strict=True):
        both[key].add(np.sign(value))
    share = np.mean([{-1.0, 1.0} <= signs for signs in both.values()])
    book.same(f"{where}.both_signs", share, score["proxies"]["cells_with_both_signs"])
    mine = basics.given(part["k"].astype(float), delta[retained], part["hold"])
    book.same(f"{where}.k_given_hold", mine, score["proxies"]["delta_k_given_hold"], 1e-6)
    clean = {str(one): f["clean"][f["c"] == one][0] for one in np.unique(f["c"])}
    book.same(f"{where}.clean.by", list(clean.values()), [score["clean_return"]["by_checkpoint"][c] for c in clean])
    edges = [None, 0.5, 0.75, 0.95, None]
    bounds = [[one["low"], one["high"]] for one in score["severity"]]
    book.same(f"{where}.severity.edges", [list(pair) for pair in itertools.pairwise(edges)], bounds)


def retained_forks(f):
    mean_hold = {}
    for key in set(zip(f["c"], f["d"], f["s"], strict=True)):
        mean_hold[key] = f["hold"][(f["c"] == key[0]) & (f["d"] == key[1]) & (f["s"] == key[2])].mean()
    means = np.array([mean_hold[key] for key in zip(f["c"], f["d"], f["s"], strict=True)])
    return ~(f["update"] < f["rule"] * means)
