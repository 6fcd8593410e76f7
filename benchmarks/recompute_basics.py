"""The other half of `recompute.py`: effects, rankings, designs and contrasts from the raw rows, and tests of means.

It shares nothing with the analysis, and reads as the definitions of docs/scoring.md do, one loop for each.
"""

import itertools
import math

import numpy as np
from recompute_drawn import RESAMPLES, SIGN_PATTERNS, chosen, near_ends, near_share
from scipy import stats

LISTED_SIGNS, LISTED_RESAMPLES = 16, 6  # checkpoints up to which the analysis lists all patterns, and all resamples
EDGES = {"cartpole-swingup": [350.0, 450.0, 550.0, 650.0]}  # registered; elsewhere the quintiles


def t_interval(x):
    if len(x) < 2:  # as for everything below: one checkpoint says nothing about another
        return None
    half = stats.t.ppf(0.975, len(x) - 1) * np.std(x, ddof=1) / math.sqrt(len(x))
    return [np.mean(x) - half, np.mean(x) + half]


def t_p(x):
    if len(x) < 2:
        return None
    if not np.any(x):
        return 1.0
    return float(2 * stats.t.sf(abs(np.mean(x)) / (np.std(x, ddof=1) / math.sqrt(len(x))), len(x) - 1))


def flip_p(x):
    if len(x) < 2:
        return None
    seen, hits = abs(np.sum(x)) - 1e-9 * np.sum(np.abs(x)), 0
    if len(x) > LISTED_SIGNS:
        return near_share(_flipped_in_halves(x, seen), SIGN_PATTERNS)
    for signs in itertools.product((1.0, -1.0), repeat=len(x)):
        hits += abs(np.dot(signs, x)) >= seen
    return hits / 2 ** len(x)


def _flipped_in_halves(x, seen):
    """The same share exactly, of all 2^n patterns: each sum of the first half meets all sums of the second."""
    if seen <= 0:  # as far from 0 as every sum is
        return 1.0
    first, second = (_signed_sums(half) for half in np.array_split(np.asarray(x), 2))
    second.sort()
    above = len(second) - np.searchsorted(second, seen - first, side="left")
    below = np.searchsorted(second, -seen - first, side="right")
    return float((above + below).sum() / (len(first) * len(second)))


def _signed_sums(x):
    sums = np.zeros(1)
    for one in x:
        sums = np.concatenate([sums + one, sums - one])
    return sums


def resampled(x):
    """The middle 95% of the means of all n^n resamples, or of some where there are too many."""
    if len(x) < 2:
        return None
    if len(x) > LISTED_RESAMPLES:
        return near_ends(np.asarray(x)[chosen(len(x), RESAMPLES)].mean(axis=1), RESAMPLES)
    return list(np.quantile([np.mean(one) for one in itertools.product(x, repeat=len(x))], [0.025, 0.975]))


def mde(x):
    if len(x) < 2:
        return None
    return (stats.t.ppf(0.975, len(x) - 1) + stats.norm.ppf(0.8)) * np.std(x, ddof=1) / math.sqrt(len(x))


def mean_of(x):
    return float(np.mean(x)) if len(x) else None


def skew(x, book, where, shown):
    """Skewness, what it takes from the coverage of Student's t, and Johnson's interval."""
    n = len(x)
    if n < 3 or np.ptp(x) <= 1e-9 * np.abs(x).max():
        return book.same(where, None, shown)
    s = np.std(x, ddof=1)
    third = sum((value - np.mean(x)) ** 3 for value in x) * n / ((n - 1) * (n - 2))
    short = 0.25 * (third / s**3) ** 2 / n
    move, ends = third / (6 * s**2 * n), t_interval(x)
    mine = [third / s**3, short, [end + move for end in ends]]
    book.same(where, mine, [shown[key] for key in ("skewness", "shortfall", "johnson")], 1e-7)
    words = (
        f"covers less, about {100 * max(0.0, 0.95 - short):.0f}% by a formula for many checkpoints."
        if short > 0.02
        else ""
    )
    agree = shown["words"].endswith(words) and bool(words) == bool(shown["words"])
    return book.same(f"{where}.words", True, agree)


def mean_figures(by_checkpoint, book, where, shown):
    """What is said of every mean over checkpoints; one that has none is None."""
    x = np.array([mean for mean in by_checkpoint.values() if mean is not None])
    book.same(f"{where}.mean", [mean_of(x), mde(x)], [shown["mean"], shown["mde"]])
    book.same(f"{where}.student_t", t_interval(x), shown["student_t"])
    book.same(f"{where}.bootstrap", resampled(x), shown["bootstrap"])
    book.same(f"{where}.p", [t_p(x), flip_p(x)], [shown["p_student_t"], shown["p_sign_flip"]])
    skew(x, book, f"{where}.skew", shown["skew"])
    if "by_checkpoint" in shown:
        book.by_name(f"{where}.by_checkpoint", by_checkpoint, shown["by_checkpoint"])


def cell_means(f, delta, kept):
    """(checkpoint, direction, stream seed) -> mean dR of its forks that are kept, or None."""
    found = {}
    for key in sorted(set(zip(f["c"], f["d"], f["s"], strict=True))):
        inside = kept & (f["c"] == key[0]) & (f["d"] == key[1]) & (f["s"] == key[2])
        found[key] = delta[inside].mean() if inside.any() else None
    return found


def effects(f, kept, book, where, shown):
    """Cells, then checkpoints, then their mean."""
    delta = f["update"] - f["hold"]
    cells = cell_means(f, delta, kept)
    there = {key: mean for key, mean in cells.items() if mean is not None}
    names = sorted({key[0] for key in there})
    by_checkpoint = {one: mean_of([m for key, m in there.items() if key[0] == one]) for one in np.unique(f["c"])}
    mean_figures(by_checkpoint, book, where, shown)
    book.same(f"{where}.ways", sorted({str(way) for way in f["d"]}), sorted(shown["by_direction"]))
    for way in shown["by_direction"]:
        of_way = {key: mean for key, mean in there.items() if key[1] == way}
        book.same(f"{where}.{way}", mean_of(list(of_way.values())), shown["by_direction"][way])
        owners = sorted({key[0] for key in of_way})
        means = [np.mean([m for key, m in of_way.items() if key[0] == one]) for one in owners]
        seen = shown["by_direction_intervals"][way]
        book.same(
            f"{where}.{way}.intervals",
            [t_interval(means), resampled(means)],
            [seen["student_t"], seen["bootstrap"]],
        )
    counts = [
        len(names),
        len(there),
        int(kept.sum()),
        sum(mean < 0 for mean in there.values()),
        len(cells) - len(there),
    ]
    printed = [shown[name] for name in ("clusters", "cells", "forks", "cells_below_zero", "cells_without_forks")]
    book.same(f"{where}.counts", counts, printed)
    missing = [f"{c}/{d}/{s}" for (c, d, s), mean in cells.items() if mean is None]
    book.same(f"{where}.left_out", missing, list(shown["left_out"]))


def directions(f, kept, book, where, shown):
    """toward less away at each level that both visit in a checkpoint and stream seed; visits are averaged first."""
    delta, level = f["update"] - f["hold"], np.round(f["level"], 9)
    gaps, levels = {}, set()
    for c, s in sorted(set(zip(f["c"], f["s"], strict=True))):
        for at in np.unique(level):
            there = kept & (f["c"] == c) & (f["s"] == s) & (level == at)
            one, other = (delta[there & (f["d"] == way)] for way in ("toward", "away"))
            if len(one) and len(other):
                gaps.setdefault(c, []).append((one.mean(), other.mean()))
                levels.add(at)
    if not book.there(where, bool(gaps), shown):
        return
    means = {c: np.mean(gaps[c], axis=0) for c in sorted(gaps)}
    mean_figures({c: toward - away for c, (toward, away) in means.items()}, book, where, shown)
    ways = np.mean(list(means.values()), axis=0)
    book.same(f"{where}.by_direction", list(ways), [shown["by_direction"][way] for way in ("toward", "away")])
    book.same(f"{where}.levels", len(levels), shown["levels"])


def quartiles(f, kept, book, where, shown):
    delta = f["update"] - f["hold"]
    for way in shown:
        rows = [i for i in np.flatnonzero(kept) if f["d"][i] == way]
        rows.sort(key=lambda i: (round(float(f["level"][i]), 9), f["k"][i]))
        size, longer = divmod(len(rows), 4)
        ends = np.cumsum([0, *(size + (part < longer) for part in range(4))])
        mine = [mean_of(delta[rows[start:stop]]) for start, stop in itertools.pairwise(ends)]
        book.same(f"{where}.{way}", mine, shown[way])


def bins_and_halves(f, kept, book, where, shown, task):
    """Mean dR by r_hold; HOLD's second half of episodes on its first."""
    hold, delta = f["hold"][kept], (f["update"] - f["hold"])[kept]
    inner = EDGES.get(task) or list(np.quantile(hold, [0.2, 0.4, 0.6, 0.8]))
    for one, low, high in zip(shown["bins"], [None, *inner], [*inner, None], strict=True):
        inside = delta[(hold >= (-np.inf if low is None else low)) & (hold < (np.inf if high is None else high))]
        error = np.std(inside, ddof=1) / math.sqrt(len(inside)) if len(inside) > 1 else None
        mine = [low, high, len(inside), inside.mean() if len(inside) else None, error]
        book.same(f"{where}.bins", mine, [one[name] for name in ("low", "high", "forks", "mean", "standard_error")])
    half = f["h"].shape[1] // 2
    x, y = f["h"][kept][:, :half].mean(axis=1), f["h"][kept][:, half:].mean(axis=1)
    slope, ratio = np.polyfit(x - x.mean(), y, 1)[0], np.var(y) / np.var(x)
    book.same(
        f"{where}.split_half", [slope, ratio], [shown["split_half"][name] for name in ("slope", "variance_ratio")]
    )


def design(f, book, where, score):
    """Nested components, common random numbers, and what the crossed components say about budgets."""
    delta, gaps = f["update"] - f["hold"], f["u"] - f["h"]
    episode, m = np.var(gaps, axis=1, ddof=1).mean(), gaps.shape[1]
    groups = [delta[f["c"] == one] for one in np.unique(f["c"])]
    within = sum(((one - one.mean()) ** 2).sum() for one in groups) / (len(delta) - len(groups))
    size = len(groups[0])  # all of one size here
    between = size * np.var([one.mean() for one in groups], ddof=1)
    seen = score["variance_components"]
    mine = [(between - within) / size, within - episode / m, episode]
    book.same(f"{where}.nested", mine, [seen[name] for name in ("checkpoint", "fork", "episode")])
    apart = (np.var(f["h"], axis=1, ddof=1) + np.var(f["u"], axis=1, ddof=1)).mean()
    book.same(f"{where}.crn", apart / episode, score["crn"]["gain"])
    seen, parts = score["design"], score["components"]
    names = ("checkpoint", "decision_point", "fork", "episode")
    book.same(f"{where}.crossed", [parts[name] for name in names], [seen["components"][name] for name in names])
    known = {name: max(parts[name], 0.0) for name in ("checkpoint", "fork", "episode")}

    def error(n, forks, episodes):
        return math.sqrt((known["checkpoint"] + (known["fork"] + known["episode"] / episodes) / forks) / n)

    def detects(n, forks, episodes):
        return (stats.t.ppf(0.975, n - 1) + stats.norm.ppf(0.8)) * error(n, forks, episodes)

    now = (len(groups), size, m)
    book.same(f"{where}.size", list(now), [seen[name] for name in ("checkpoints", "forks", "episodes")])
    book.same(f"{where}.error", [error(*now), detects(*now)], [seen["standard_error"], seen["mde"]])
    axes = {"checkpoints": (1, 0, 0), "forks": (0, 1, 0), "episodes": (0, 0, 1)}

    def grown(times, axis):
        return [size * (times if on else 1) for size, on in zip(now, axes[axis], strict=True)]

    doubled = {axis: detects(*grown(2, axis)) for axis in axes}
    book.same(f"{where}.doubled", [doubled[a] for a in axes], [seen["mde_at_double"][a] for a in axes])
    book.same(f"{where}.buys", min(doubled, key=doubled.get), seen["buys_most"])
    for name, times in (("2", 2), ("4", 4), ("10", 10), ("unlimited", math.inf)):
        at = seen["standard_error_at"][name]
        book.same(f"{where}.at {name}", [error(*grown(times, a)) for a in axes], [at[a] for a in axes])


def pearson(x, y):
    """Of two points it would be 1 or -1, wherever they lie."""
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def given(x, y, z):
    """The correlation of what a line on z leaves of x and of y."""
    left = [v - np.polyval(np.polyfit(z - z.mean(), v, 1), z - z.mean()) for v in (x, y)]
    return pearson(*left)


def close(one, other):
    """Equal but for rounding."""
    return np.abs(one - other) <= 1e-9 * np.maximum(np.abs(one), np.abs(other))


def place(one, among):
    """How many are smaller, and half of those that are equal."""
    equal = close(one, among)
    return ((among < one) & ~equal).sum() + equal.sum() / 2


def rank(x):
    return np.array([place(one, x) for one in x])


def ranking(part, signal, d, book, where, shown):
    """AUC within each checkpoint, every pair of a helped and another fork, near values counting a half."""
    aucs = {}
    for one in np.unique(part["c"]):
        own = part["c"] == one
        up, down = signal[own & (d > 0)], signal[own & (d <= 0)]
        if len(up) and len(down):
            aucs[one] = np.mean([0.5 if close(a, b) else float(a > b) for a in up for b in down])
    book.same(f"{where}.auc_clusters", len(aucs), shown["auc_clusters"] or 0)
    if not aucs:
        return book.same(f"{where}.auc", None, shown["auc"])
    values = list(aucs.values())
    book.same(f"{where}.auc", np.mean(values), shown["auc"])
    book.same(f"{where}.auc_by", values, [shown["auc_by_checkpoint"][str(one)] for one in aucs])
    book.same(f"{where}.auc_t", t_interval(values), shown["auc_student_t"])
    few = len(values) < 3
    ends = [min(values), max(values)] if few else resampled(values)
    book.same(
        f"{where}.auc_interval",
        [*ends, "min-max" if few else "bootstrap"],
        [*shown["auc_interval"], shown["auc_interval_kind"]],
    )
    return None


def proxies(part, signal, d, book, where, shown, excluded):
    """Correlations over the scored forks; where the excluded forks' signals lie among the retained ones'."""
    hold = part["hold"]
    book.same(f"{where}.correlation", pearson(signal, d), shown["correlation"], 1e-7)
    book.same(f"{where}.partial", given(signal, d, hold), shown["partial_correlation"], 1e-6)
    book.same(f"{where}.spearman", pearson(rank(signal), rank(hold)), shown["spearman_hold"], 1e-7)
    out, retained = excluded
    shares = [place(one, retained) / len(retained) for one in out]
    book.same(f"{where}.excluded", np.mean(shares) if shares else None, shown["excluded_quantile"])


def endpoint(part, fired, d, book, where, shown):
    """(mean dR where fired - mean dR) / sigma_ep in each checkpoint with a fire."""
    values = {}
    for one in np.unique(part["c"]):
        own = part["c"] == one
        if (own & fired).any():
            sigma = math.sqrt(np.var(part["h"][own], axis=1, ddof=1).mean())
            values[str(one)] = (d[own & fired].mean() - d[own].mean()) / sigma
    if not values:
        return book.same(where, None, shown)
    found = list(values.values())
    few = len(found) < 3
    ends = [min(found), max(found)] if few else resampled(found)
    mine = [np.mean(found), len(found), "min-max" if few else "bootstrap", *ends]
    book.same(where, mine, [shown["value"], shown["clusters"], shown["kind"], *shown["interval"]])
    book.same(f"{where}.t", t_interval(found), shown["student_t"])
    book.same(f"{where}.by", found, [shown["by_checkpoint"][name] for name in values])
    return None


def contrast(first, second, kept, book, where, shown):
    """Differences of cell means on the cells of both arms; fork by fork on the forks of both."""
    deltas = [f["update"] - f["hold"] for f in (first, second)]
    cells = [cell_means(f, delta, keep) for f, delta, keep in zip((first, second), deltas, kept, strict=True)]
    both = [key for key in cells[0] if cells[0][key] is not None and cells[1].get(key) is not None]
    if not book.there(where, bool(both), shown):
        return
    owners = sorted({key[0] for key in both})
    means = [[np.mean([arm[key] for key in both if key[0] == one]) for one in owners] for arm in cells]
    gaps = {one: x - y for one, x, y in zip(owners, *means, strict=True)}
    mean_figures(gaps, book, where, shown)
    mine = [np.mean(means[0]), np.mean(means[1]), len(both)]
    book.same(f"{where}.arms", mine, [shown[name] for name in ("first", "second", "cells")])
    places = [
        {(c, d, s, k): x for c, d, s, k, x in zip(*(f[n][keep] for n in "cdsk"), delta[keep], strict=True)}
        for f, delta, keep in zip((first, second), deltas, kept, strict=True)
    ]
    shared = sorted(set(places[0]) & set(places[1]))
    x, y = (np.array([arm[place] for place in shared]) for arm in places)
    mine = [len(shared), pearson(x, y), pearson(rank(x), rank(y)), float((np.sign(x) == np.sign(y)).mean())]
    book.same(
        f"{where}.paired", mine, [shown["paired"][n] for n in ("forks", "pearson", "spearman", "same_sign")], 1e-7
    )
