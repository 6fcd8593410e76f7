"""Figures of the score, computed again from the raw rows by code that shares nothing with the desk.

    python benchmarks/recompute.py                    # results/rate
    python benchmarks/recompute.py results/scope

Reads cells/*/forks.jsonl and cells/*/cell.json itself, knows numpy and Student's t, and compares with what
`worldfork score STUDY --json` prints. Seeded draws (the random and the shifted control) are not repeated; their
printed p values are adjusted again. Detectors are not run again: they need the streams. It exits with 1 where a
figure differs.
"""

import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy import stats

SIGNALS = (
    "residual",
    "running_variance",
    "percentile",
    "kl",
    "validation_loss",
    "return_deficit",
    "drift",
    "clock",
)
RULE = 0.30


class Ledger:
    """All printed figures that were compared, and those that differ."""

    def __init__(self):
        self.compared, self.wrong = 0, []

    def same(self, where, mine, printed, tolerance=1e-9):
        """Compare two numbers, or two trees of them; None is undefined on both sides."""
        if isinstance(mine, (list, tuple)):
            if printed is None or len(mine) != len(printed):
                return self.wrong.append((where, mine, printed))
            for index, (one, other) in enumerate(zip(mine, printed, strict=True)):
                self.same(f"{where}[{index}]", one, other, tolerance)
            return None
        self.compared += 1
        if isinstance(mine, (str, bool)) or mine is None or printed is None:
            agree = mine == printed
        else:
            agree = abs(mine - printed) <= tolerance * max(1.0, abs(mine), abs(printed))
        if not agree:
            self.wrong.append((where, mine, printed))
        return None


def read(study):
    """arm -> task -> columns."""
    found = {}
    for folder in sorted((study / "cells").iterdir()):
        cell = json.loads((folder / "cell.json").read_text())
        where = cell["coordinates"]
        clean = cell["checkpoint"]["clean_return"]
        for line in (folder / "forks.jsonl").read_text().splitlines():
            row = json.loads(line)
            columns = found.setdefault(where["arm"], {}).setdefault(where["task"], {})
            entry = {
                "c": where["checkpoint"],
                "d": where["direction"],
                "s": where["stream_seed"],
                "k": row["k"],
                "hold": row["r_hold"],
                "update": row["r_update"],
                "clean": clean,
                "h": row["hold"],
                "u": row["update"],
                "signals": row["signals"],
            }
            for name, value in entry.items():
                columns.setdefault(name, []).append(value)
    return {
        arm: {task: {name: values if name == "signals" else np.array(values) for name, values in columns.items()}
              for task, columns in tasks.items()}
        for arm, tasks in found.items()
    }  # fmt: skip


def t_interval(x):
    half = stats.t.ppf(0.975, len(x) - 1) * np.std(x, ddof=1) / math.sqrt(len(x))
    return [np.mean(x) - half, np.mean(x) + half]


def t_p(x):
    if not np.any(x):
        return 1.0
    return float(2 * stats.t.sf(abs(np.mean(x)) / (np.std(x, ddof=1) / math.sqrt(len(x))), len(x) - 1))


def flip_p(x):
    seen, hits = abs(np.sum(x)) - 1e-9 * np.sum(np.abs(x)), 0
    for signs in itertools.product((1.0, -1.0), repeat=len(x)):
        hits += abs(np.dot(signs, x)) >= seen
    return hits / 2 ** len(x)


def webb_p(x):
    """All 6^n weights; the ratio |mean| / deviation."""
    weights = np.array([-math.sqrt(1.5), -1, -math.sqrt(0.5), math.sqrt(0.5), 1, math.sqrt(1.5)])
    drawn = np.array(list(itertools.product(weights, repeat=len(x)))) * x
    spread = drawn.std(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(spread > 1e-9 * np.abs(drawn.mean(axis=1)), np.abs(drawn.mean(axis=1)) / spread, np.inf)
    return float(np.mean(ratio >= abs(x.mean()) / x.std(ddof=1) * (1 - 1e-9)))


def holm(values, size):
    """The largest, over everything at most as large, of how often it is counted."""
    adjusted = {}
    for key, p in values.items():
        smaller = sorted(q for q in values.values() if q <= p)
        adjusted[key] = max(min(1.0, (size - rank) * q) for rank, q in enumerate(smaller))
    return adjusted


def more(x, family):
    for n in range(len(x) + 1, 10_001):
        p = 2 * stats.t.sf(abs(x.mean()) / x.std(ddof=1) * math.sqrt(n), n - 1)
        if family * p < 0.05 and family * 2.0 ** (1 - n) < 0.05:
            return n - len(x)
    return None


def loco(signal, delta, c):
    """Fires of the threshold that suits the other checkpoints best; values within 1e-9 of each other are one."""
    fired = np.zeros(len(signal), bool)
    for left in np.unique(c):
        other = c != left
        values = np.sort(signal[other])
        steps = np.flatnonzero(np.diff(values) > 1e-9 * np.maximum(np.abs(values[1:]), np.abs(values[:-1])))
        candidates = [-np.inf, *((values[steps] + values[steps + 1]) / 2), np.inf]
        totals = np.array([delta[other][signal[other] >= at].sum() for at in candidates])
        best = max(
            at
            for at, total in zip(candidates, totals, strict=True)
            if total >= totals.max() - 1e-9 * max(1, abs(totals.max()))
        )
        fired[c == left] = signal[c == left] >= best
    return fired


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
    """All orders of the checkpoints; fires are applied at the same direction, stream seed and k."""
    names = np.unique(f["c"])
    fires = {(c, d, s, k): on for c, d, s, k, on in zip(f["c"], f["d"], f["s"], f["k"], fired, strict=True)}
    totals = {}
    for giver, taker in itertools.product(names, repeat=2):
        rows = np.flatnonzero((f["c"] == taker) & kept)
        totals[giver, taker] = sum(
            delta[i] for i in rows if fires.get((giver, f["d"][i], f["s"][i], f["k"][i]), False)
        )
    own = sum(totals[c, c] for c in names)
    orders = list(itertools.permutations(names))
    sums = [sum(totals[giver, taker] for giver, taker in zip(order, names, strict=True)) for order in orders]
    return float(np.mean([s >= own - 1e-9 * max(1, abs(own)) for s in sums])), float(np.mean(sums))


def running(f, signal, rate=0.3):
    """Fires where the signal exceeds the 70% quantile of its stream's earlier values, at least four of them."""
    fired = np.zeros(len(signal), bool)
    for i in range(len(signal)):
        before = (f["c"] == f["c"][i]) & (f["d"] == f["d"][i]) & (f["s"] == f["s"][i]) & (f["k"] < f["k"][i])
        if before.sum() >= 4:
            level = np.quantile(signal[before], 1 - rate)
            fired[i] = signal[i] > level and not np.isclose(signal[i], level, rtol=1e-9, atol=0)
    return fired


def severities(f, book, where, printed):
    """By r_hold over the clean return; fresh: even episodes say how severe, odd ones what it was worth."""
    delta, share = f["update"] - f["hold"], f["hold"] / f["clean"]
    edges = [-np.inf, 0.5, 0.75, 0.95, np.inf]
    even, odd = f["h"][:, ::2].mean(axis=1) / f["clean"], (f["u"] - f["h"])[:, 1::2].mean(axis=1)
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
        fresh = (even >= low) & (even < high)
        book.same(f"{at}.fresh", odd[fresh].mean() if fresh.any() else None, one["fresh_mean"])


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
    resampled = []
    for chosen in itertools.product(names, repeat=n):
        rows = np.concatenate([np.flatnonzero(c == one) for one in chosen])
        resampled.append(fit(x[rows], y[rows]))
    for index, name in ((0, "slope"), (1, "crossing"), (2, "variance_ratio")):
        book.same(f"{where}.{name}", whole[index], printed[name], 1e-7)
        ends = list(np.quantile([one[index] for one in resampled], [0.025, 0.975]))
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

    value = within(np.ones(len(x), bool))
    half = t * math.sqrt((n - 1) / n * sum((within(c != one) - value) ** 2 for one in names))
    book.same(f"{where}.within", [value], [printed["within"]["value"]], 1e-7)
    book.same(f"{where}.within.student_t", [value - half, value + half], printed["within"]["student_t"], 1e-7)


def judge(f, book, where, score):
    """The mean, its tests and what leaving one out does; returns the two p values."""
    delta = f["update"] - f["hold"]
    means = []
    for one in np.unique(f["c"]):
        cells = [
            delta[(f["c"] == one) & (f["d"] == d) & (f["s"] == s)].mean()
            for d, s in sorted({(d, s) for c, d, s in zip(f["c"], f["d"], f["s"], strict=True) if c == one})
        ]
        means.append(np.mean(cells))
    means = np.array(means)
    judged = score["judgement"]
    book.same(f"{where}.mean", means.mean(), score["effect"]["all_attempted"]["mean"])
    book.same(f"{where}.student_t", t_interval(means), score["effect"]["all_attempted"]["student_t"])
    book.same(f"{where}.p_student_t", t_p(means), judged["p_student_t"])
    book.same(f"{where}.p_sign_flip", flip_p(means), judged["p_sign_flip"])
    book.same(f"{where}.p_wild", webb_p(means), judged["p_wild"])
    ends = [t_interval(np.delete(means, i))[0 if means.mean() > 0 else 1] for i in range(len(means))]
    book.same(
        f"{where}.leave_one_out", [min(ends), max(ends)], [judged["leave_one_out"][e] for e in ("low", "high")]
    )
    return means


def check_task(f, book, where, score):
    """Everything of one task that needs no other task."""
    delta = f["update"] - f["hold"]
    mean_hold = {}
    for key in set(zip(f["c"], f["d"], f["s"], strict=True)):
        mean_hold[key] = f["hold"][(f["c"] == key[0]) & (f["d"] == key[1]) & (f["s"] == key[2])].mean()
    floor = np.array([RULE * mean_hold[key] for key in zip(f["c"], f["d"], f["s"], strict=True)])
    sides = {"triggers": f["update"] >= floor, "triggers_all_attempted": np.ones(len(delta), bool)}
    contraction(f, sides["triggers"], book, f"{where}.contraction", score["contraction"])
    severities(f, book, where, score["severity"])
    components(f, book, where, score["components"])
    clean = [f["clean"][f["c"] == one][0] for one in np.unique(f["c"])]
    book.same(
        f"{where}.clean",
        [np.mean(clean), *t_interval(clean)],
        [score["clean_return"]["mean"], *score["clean_return"]["student_t"]],
    )
    own = int(((f["hold"] > 0) & (f["update"] < RULE * f["hold"])).sum())
    book.same(f"{where}.below_own_hold", own, score["forks"]["below_own_hold"])
    for side, kept in sides.items():
        part = {name: values[kept] for name, values in f.items() if name != "signals"}
        d = delta[kept]
        names = np.unique(part["c"])

        def totals(fired, part=part, d=d, names=names):
            return np.array([d[fired & (part["c"] == one)].sum() for one in names])

        fixed = {"position_table": position_table(part, d), "direction_clock": direction_clock(part, d)}
        printed = score["policies" if side == "triggers" else "policies_all_attempted"]
        for name, fired in fixed.items():
            book.same(f"{where}.{side}.{name}", d[fired].sum(), printed[name])
            book.same(
                f"{where}.{side}.{name}.earned", t_interval(totals(fired)), printed["earned"][name]["student_t"]
            )
        always = totals(np.ones(len(d), bool))
        rivals = {"never": 0 * always, "always": always, **{name: totals(fired) for name, fired in fixed.items()}}
        rivals["better_of_both"] = always if always.sum() > 0 else 0 * always
        for name in SIGNALS:
            signal = np.array([row.get(name, np.nan) for row in f["signals"]], dtype=float)
            at, shown = f"{where}.{side}.{name}", score[side].get(name)
            if shown is None or np.isnan(signal).any():
                continue
            fired = np.zeros(len(delta), bool)
            fired_kept = loco(signal[kept], d, part["c"])
            fired[kept] = fired_kept
            book.same(f"{at}.total", d[fired_kept].sum(), shown["policy_total"])
            book.same(f"{at}.fires", int(fired_kept.sum()), shown["fires"])
            mine = totals(fired_kept)
            book.same(
                f"{at}.earned",
                [mine.mean(), *t_interval(mine)],
                [shown["earned"]["mean"], *shown["earned"]["student_t"]],
            )
            for than, theirs in rivals.items():
                gap, seen = mine - theirs, shown["gains"][than]
                gap[np.abs(gap) <= 1e-9 * np.maximum(np.abs(mine), np.abs(theirs))] = 0.0
                book.same(f"{at}.gains.{than}", [gap.mean(), *t_interval(gap)], [seen["mean"], *seen["student_t"]])
                book.same(
                    f"{at}.gains.{than}.p", [t_p(gap), flip_p(gap)], [seen["p_student_t"], seen["p_sign_flip"]]
                )
            loose = running(f, signal)
            seen, mine = shown["running_quantile"], totals(loose[kept])
            book.same(
                f"{at}.running",
                [d[loose[kept]].sum(), int(loose[kept].sum())],
                [seen["policy_total"], seen["fires"]],
            )
            book.same(f"{at}.running.earned", t_interval(mine), seen["earned"]["student_t"])
            book.same(f"{at}.running.swapped", swapped(f, loose, delta, kept)[0], seen["swapped"]["p"])
            auc, pairs = pair_auc(part, signal[kept], d)
            book.same(
                f"{at}.given_position", [auc, pairs], [shown["given_position"][key] for key in ("auc", "pairs")]
            )
            if (
                side == "triggers_all_attempted"
            ):  # elsewhere the excluded forks fire too, by thresholds not repeated here
                p, mean = swapped(f, fired, delta, kept)
                book.same(f"{at}.swapped", [p, mean], [shown["swapped"]["p"], shown["swapped"]["mean"]])


def check_families(scores, means, book):
    """Holm over the means, and over candidates x tasks x arms, from the printed p values of all."""
    for name, test in (("student_t", t_p), ("sign_flip", flip_p)):
        adjusted = holm({place: test(values) for place, values in means.items()}, len(means))
        for place, p in adjusted.items():
            book.same(f"{place}.adjusted_{name}", p, scores[place]["judgement"][f"adjusted_{name}"])
    for place, values in means.items():
        low, high = t_interval(values)
        resolved = all(scores[place]["judgement"][f"adjusted_{name}"] < 0.05 for name in ("student_t", "sign_flip"))
        grade = "unresolved" if low <= 0 <= high else "resolved" if resolved else "leaning"
        book.same(f"{place}.grade", grade, scores[place]["judgement"]["grade"])
        needed = 0 if grade == "resolved" else more(values, len(means))
        book.same(f"{place}.more", needed, scores[place]["judgement"]["more_checkpoints"])
    for side in ("triggers", "triggers_all_attempted"):
        for test in ("random", "random_shift", "swapped", "better_of_both", "position_table"):
            p_values, size = {}, 0
            for place, score in scores.items():
                for name, one in score[side].items():
                    if one["standing"] != "candidate":
                        continue
                    size += 1
                    if test in ("better_of_both", "position_table"):
                        gain = one["gains"][test]
                        p_values[place, name] = max(gain["p_student_t"], gain["p_sign_flip"])
                    else:
                        p_values[place, name] = one[test]["p"]
            for (place, name), p in holm(p_values, size).items():
                book.same(f"{place}.{side}.{name}.adjusted.{test}", p, scores[place][side][name]["adjusted"][test])


def main():
    study = Path(sys.argv[1] if len(sys.argv) > 1 else "results/rate")
    command = [sys.executable, "-m", "worldfork.cli.main", "score", str(study), "--json"]
    printed = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    scores = {(arm, task): score for arm, one in printed["arms"].items() for task, score in one["tasks"].items()}
    book, means = Ledger(), {}
    for arm, tasks in read(study).items():
        for task, columns in tasks.items():
            where, before = f"{arm} {task}", book.compared
            means[arm, task] = judge(columns, book, where, scores[arm, task])
            check_task(columns, book, where, scores[arm, task])
            print(f"{where}: {book.compared - before} figures", flush=True)
    check_families(scores, means, book)
    for where, mine, theirs in book.wrong:
        print(f"DIFFERS {where}: recomputed {mine}, printed {theirs}")
    print(f"{book.compared - len(book.wrong)} of {book.compared} figures agree")
    return int(bool(book.wrong))


if __name__ == "__main__":
    sys.exit(main())
