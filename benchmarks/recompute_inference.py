"""Part of `recompute.py`: skew, curves, trials, prices, forecasts and max-T, from the raw rows.

It shares nothing with the analysis. The decisions of detectors and of the coin are not repeated here: their trials
and prices are looked at in other triggers.
"""

import itertools
import math

import numpy as np
from recompute_basics import (
    LISTED_RESAMPLES,
    cell_means,
    mean_figures,
    mean_of,
    rank,
    t_interval,
)
from recompute_drawn import RESAMPLES, WIDE, Near, chosen, near_ends
from recompute_policies import best_threshold, loco
from recompute_stopping import by_rule
from scipy import stats

PLACES, FEWEST = 8, 8  # of a curve, and checkpoints that a band rests on
MOST_EPISODES = 4


def over_checkpoints(f, values, kept=None):
    """Cells, then checkpoints, by checkpoint; those without a fork are left out."""
    cells = cell_means(f, values, np.ones(len(values), bool) if kept is None else kept)
    there = {key: mean for key, mean in cells.items() if mean is not None}
    return {c: np.mean([m for key, m in there.items() if key[0] == c]) for c in sorted({key[0] for key in there})}


def check_inference(f, retained, book, where, score, candidates):
    """Everything of one task that needs no other task."""
    delta = f["update"] - f["hold"]
    sizes(f, delta, retained, book, where, score)
    robust(f, delta, book, f"{where}.robust", score["robust"])
    curves(f, delta, book, f"{where}.curves", score["curves"])
    fires = decisions(f, delta)
    trials(f, fires, book, f"{where}.trials", score["trials"])
    prices(f, delta, fires, book, f"{where}.prices", score, candidates)
    signals = {}
    for name in candidates:
        values = np.array([row.get(name, np.nan) for row in f["signals"]], dtype=float)
        if not np.isnan(values).any():
            signals[name] = values
    for side, kept in (("triggers", retained), ("triggers_all_attempted", np.ones(len(delta), bool))):
        refitted(f, delta, kept, signals, book, f"{where}.{side}", score[side])
        of_triggers(f, delta, kept, book, f"{where}.{side}", score, side)


def sizes(f, delta, retained, book, where, score):
    """Shares of the frozen and of the clean return, and how often updating helped."""
    mean = mean_of(list(over_checkpoints(f, delta).values()))
    frozen = mean_of(list(over_checkpoints(f, f["hold"]).values()))
    clean = np.mean([f["clean"][f["c"] == c][0] for c in np.unique(f["c"])])
    shares = [value / whole if whole > 0 else None for value, whole in ((mean, frozen), (mean, clean))]
    seen = score["scale"]
    mine = [frozen, shares[0], clean, shares[1]]
    book.same(f"{where}.scale", mine, [seen[key] for key in ("frozen", "of_frozen", "clean", "of_clean")])
    helped = list(over_checkpoints(f, (delta > 0).astype(float)).values())
    mine = [np.mean(helped), min(helped), max(helped), int((delta > 0).sum()), len(delta)]
    names = ("share", "low", "high", "forks", "of")
    book.same(f"{where}.helped", mine, [score["helped"][key] for key in names])
    lost = [float((~retained).mean()), 0]
    book.same(f"{where}.diverged", lost, [score["forks"]["diverged_share"], score["forks"]["quarantined"]])
    x, y = f["hold"][retained], f["update"][retained]
    slope = None if len(x) < 2 or np.ptp(x) == 0 else float(np.polyfit(x, y, 1)[0])
    intercept = None if slope is None else y.mean() - slope * x.mean()
    book.same(f"{where}.intercept", intercept, score["contraction"]["intercept"], 1e-7)


def robust(f, delta, book, where, shown):
    """The mean without the quarters at both ends, and how probably an update returns more on the same episode."""
    values = np.array(list(over_checkpoints(f, delta).values()))
    middle = ends = None
    if len(values) >= 4:

        def trimmed(x):
            out = int(0.25 * len(x))
            return float(np.mean(np.sort(x)[out : len(x) - out]))

        middle = trimmed(values)
        listed = len(values) <= LISTED_RESAMPLES
        places = itertools.product(range(len(values)), repeat=len(values)) if listed else chosen(len(values), 4_000)
        drawn = np.array([trimmed(values[list(some)]) for some in places])
        ends = list(np.quantile(drawn, [0.025, 0.975])) if listed else near_ends(drawn, RESAMPLES)
    book.same(f"{where}.iqm", middle, shown["interquartile_mean"])
    book.same(f"{where}.iqm.ends", ends, shown["interquartile_bootstrap"])
    better = ((f["u"] > f["h"]) + 0.5 * (f["u"] == f["h"])).mean(axis=1)
    share = list(over_checkpoints(f, better).values())
    book.same(f"{where}.probability", np.mean(share), shown["probability_of_improvement"])
    book.same(f"{where}.probability.t", t_interval(share), shown["probability_student_t"])


def curves(f, delta, book, where, shown):
    """Mean dR at every place by its forks alone, and a band from resampled checkpoints."""
    level = np.round(f["level"], 9)
    visited = np.unique(level)
    runs = np.array_split(visited, min(PLACES, len(visited)))
    curve(
        f, [(run[0], run[-1], np.isin(level, run)) for run in runs], delta, book, f"{where}.level", shown["level"]
    )
    middle = visited.max() / 2
    halves = [half for half in (visited[visited < middle], visited[visited >= middle]) if len(half)]
    for half, seen in zip(halves, shown["halves"], strict=True):
        there = np.isin(level, half)
        means = list(over_checkpoints(f, delta, there).values())
        mine = [half[0], half[-1], int(there.sum()), len(means), np.mean(means), t_interval(means), None]
        names = ("low", "high", "forks", "checkpoints", "mean", "student_t", "band")
        book.same(f"{where}.halves", mine, [seen[name] for name in names])
    by_severity(f, book, f"{where}.share", shown["hold_share"])


def curve(f, places, delta, book, where, shown):
    names = sorted(set(f["c"]))
    rows, counts = [], []
    for _, _, there in places:
        by_checkpoint = over_checkpoints(f, delta, there)
        rows.append([by_checkpoint.get(c, np.nan) for c in names])
        counts.append(int(there.sum()))
    points(np.array(rows), counts, [(low, high) for low, high, _ in places], book, where, shown)


def by_severity(f, book, where, shown):
    """Half of the episodes place a fork by its share of the clean return, the others value it; both ways."""
    names, edges = sorted(set(f["c"])), [None, 0.5, 0.75, 0.95, None]
    rows, counts = [], []
    for low, high in itertools.pairwise(edges):
        found, count = [], 0
        for c in names:
            halves = []
            for deciding in (0, 1):
                held, updated = f["h"][f["c"] == c], f["u"][f["c"] == c]
                share = held[:, deciding::2].mean(axis=1) / f["clean"][f["c"] == c]
                there = (share >= (low or -np.inf)) & (share < (high or np.inf))
                worth = (updated - held)[:, 1 - deciding :: 2].mean(axis=1)[there]
                count += len(worth)
                halves += [worth.mean()] if len(worth) else []
            found.append(np.mean(halves) if halves else np.nan)
        rows.append(found)
        counts.append(count)
    points(np.array(rows), counts, list(itertools.pairwise(edges)), book, where, shown)


def points(rows, counts, bounds, book, where, shown):
    """The points of one curve; the printed critical value is compared, and then taken for the bands."""
    book.same(f"{where}.critical", critical(rows), shown["critical"])
    for row, count, (low, high), seen in zip(rows, counts, bounds, shown["points"], strict=True):
        there = row[~np.isnan(row)]
        mine = [low, high, count, len(there), mean_of(there), t_interval(there)]
        names = ("low", "high", "forks", "checkpoints", "mean", "student_t")
        book.same(f"{where}.point", mine, [seen[name] for name in names])
        band = None
        if shown["critical"] is not None and len(there) >= FEWEST:
            half = shown["critical"] * there.std(ddof=1) / math.sqrt(len(there))
            band = [there.mean() - half, there.mean() + half]
        book.same(f"{where}.band", band, seen["band"])


def critical(rows):
    """The 95% quantile over resamples of the largest deviation from the mean, in resampled standard errors."""
    rows = rows[(~np.isnan(rows)).sum(axis=1) >= FEWEST]
    if not len(rows):
        return None
    count, listed = rows.shape[1], rows.shape[1] <= LISTED_RESAMPLES
    some = itertools.product(range(count), repeat=count) if listed else chosen(count, 4_000)
    largest = []
    for places in some:
        farthest = 0.0
        for row in rows:
            there, drawn = row[~np.isnan(row)], row[list(places)]
            drawn = drawn[~np.isnan(drawn)]
            if len(drawn) < 2:
                continue
            error = drawn.std(ddof=1) / math.sqrt(len(drawn))
            if error > 1e-9 * np.nanmax(np.abs(rows)):
                farthest = max(farthest, abs(drawn.mean() - there.mean()) / error)
        largest.append(farthest)
    largest = np.sort(largest)
    if listed:
        return float(np.quantile(largest, 0.95))
    off = WIDE * math.sqrt(0.95 * 0.05 * (1 / RESAMPLES + 1 / len(largest)))
    return Near(np.quantile(largest, 0.95), *np.quantile(largest, [0.95 - off, min(1.0, 0.95 + off)]))


def decisions(f, delta):
    """Where every recorded signal fires on all attempted forks, and the schedule that fires at each fourth one."""
    found = {"periodic": f["k"] % 4 == 0}
    named = set().union(*f["signals"])
    for name in [*sorted(named), "clock"]:
        signal = f["k"].astype(float) if name == "clock" else None
        if signal is None:
            signal = np.array([row.get(name, np.nan) for row in f["signals"]], dtype=float)
        if not np.isnan(signal).any() and len(np.unique(f["c"])) > 1:
            found[name] = loco(signal, delta, f["c"], np.ones(len(delta), bool))
    return found


def trials(f, fires, book, where, shown):
    """An update is tried on some of the episodes, over every choice of them, and kept where it won there."""
    each = f["u"] - f["h"]
    always = np.array(list(over_checkpoints(f, each.mean(axis=1)).values()))
    oracle = mean_of(list(over_checkpoints(f, np.maximum(each.mean(axis=1), 0)).values()))
    margin = shown["margin"]
    book.same(f"{where}.ends", [0.0, always.mean(), oracle], [margin, shown["always"], shown["oracle"]])
    better = always if always.mean() > 0 else 0 * always
    m = each.shape[1]
    counts = [q for q in range(1, min(m - 1, MOST_EPISODES) + 1) if math.comb(m, q) <= 1_000]
    book.same(f"{where}.counts", [str(q) for q in counts], list(shown["by_episodes"]))
    worth = {q: tried(each, q, margin) for q in counts}
    every = np.ones(len(each), bool)
    cases = [(f"{q}", q, every, shown["by_episodes"][str(q)]) for q in counts]
    cases += [(name, 1, fires[name], seen) for name, seen in shown["proposed_by"].items() if name in fires]
    for name, q, proposed, seen in cases:
        at, (value, kept) = f"{where}.{name}", worth[q]
        by_checkpoint = over_checkpoints(f, np.where(proposed, value, 0.0))
        mean_figures(by_checkpoint, book, at, seen)
        values = np.array(list(by_checkpoint.values()))
        gaps = dict(zip(by_checkpoint, values - better, strict=True))
        mean_figures(gaps, book, f"{at}.over_better", seen["over_better"])
        episodes = np.array(list(over_checkpoints(f, q * proposed.astype(float)).values()))
        break_even(values - better, episodes, book, f"{at}.break_even", seen["break_even"])
        mine = [q, proposed.mean(), kept[proposed].mean() if proposed.any() else None]
        book.same(f"{at}.share", mine, [seen[key] for key in ("episodes", "proposed", "kept")])


def tried(each, q, margin):
    """dR of the other episodes where an update is kept, and how often it is, over all choices of q episodes."""
    value, kept, splits = np.zeros(len(each)), np.zeros(len(each)), 0
    for some in itertools.combinations(range(each.shape[1]), q):
        others = [i for i in range(each.shape[1]) if i not in some]
        won = each[:, list(some)].mean(axis=1) > margin
        value += np.where(won, each[:, others].mean(axis=1), 0.0)
        kept += won
        splits += 1
    return value / splits, kept / splits


def break_even(gained, spent, book, where, shown):
    """The price at which the mean of gained - price x spent is 0, and those that its paired t test leaves."""
    price, ends = None, None
    if len(gained) and spent.mean():
        price = gained.mean() / spent.mean()
        bound = stats.t.ppf(0.975, len(gained) - 1) if len(gained) > 1 else None
        error = spent.std(ddof=1) / math.sqrt(len(spent)) if len(spent) > 1 else math.inf
        if bound is not None and abs(spent.mean()) > bound * error:
            ends = [_turning(gained, spent, price, bound, sign) for sign in (-1, 1)]
    book.same(f"{where}.price", price, shown["price"])
    book.same(f"{where}.interval", ends, shown["interval"], 1e-6)


def _turning(gained, spent, price, bound, sign):
    """The end of the interval to one side, by halving."""

    def outside(c):
        left = gained - c * spent
        error = left.std(ddof=1) / math.sqrt(len(left))
        return abs(left.mean()) > bound * error

    step = 1e-6 * max(1.0, abs(price))
    while not outside(price + sign * step):
        step *= 2
        if step > 1e12 * max(1.0, abs(price)):
            return None
    low, high = 0.0, step
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if outside(price + sign * middle) else (middle, high)
    return price + sign * high


def prices(f, delta, fires, book, where, score, candidates):
    """Break-even prices of an update, and the policy that is worth the most at each price."""
    shown, names = score["prices"], sorted(set(f["c"]))

    def totals(fired):
        return (
            np.array([delta[fired & (f["c"] == c)].sum() for c in names]),
            np.array([float((fired & (f["c"] == c)).sum()) for c in names]),
        )

    book.same(f"{where}.cost", 0.0, shown["update_cost"])
    means = np.array(list(over_checkpoints(f, delta).values()))
    break_even(means, np.ones(len(means)), book, f"{where}.always", shown["always"])
    always, every = totals(np.ones(len(delta), bool))
    for name, seen in shown["triggers"].items():
        if name in fires:
            earned, fired = totals(fires[name])
            break_even(earned, fired, book, f"{where}.{name}.over_never", seen["over_never"])
            break_even(earned - always, fired - every, book, f"{where}.{name}.over_always", seen["over_always"])
    worth = {"never": (0.0, 0.0), "always": (delta.sum(), float(len(delta)))}
    for name in candidates:
        one = score["triggers_all_attempted"].get(name)
        if one is not None and one["policy_total"] is not None:
            worth[name] = (one["policy_total"], float(one["fires"]))
    edge = 0.0
    for seen in shown["best"]:
        book.same(f"{where}.best.from", edge, seen["above"])
        edge = seen["below"]
        at = seen["above"] + 1.0 if edge is None else (seen["above"] + edge) / 2
        net = {name: total - at * count for name, (total, count) in worth.items()}
        book.same(f"{where}.best", max(net.values()), net[seen["policy"]])
    book.same(f"{where}.best.last", None, edge)


def of_triggers(f, delta, kept, book, where, score, side):
    """The total of a deployment, the threshold of all forks, and the larger of two adjusted p values."""
    cells = len(set(zip(f["c"][kept], f["d"][kept], f["s"][kept], strict=True)))
    of_checkpoint = cells / len(set(f["c"][kept]))
    for name, one in score[side].items():
        at, seen = f"{where}.{name}", one["per_deployment"]

        def divided(value, by):
            return None if value is None else [end / by for end in value] if isinstance(value, list) else value / by

        earned, random = one["earned"] or {}, one["random"] or {}
        mine = [divided(one["policy_total"], cells), divided(earned.get("student_t"), of_checkpoint)]
        mine += [divided(random.get("mean"), cells), divided(random.get("interval"), cells)]
        book.same(at, mine, [seen[key] for key in ("mean", "student_t", "random", "random_interval")])
        both = [one["adjusted"][test] for test in ("random", "random_shift")]
        undefined = one["random"] is None or one["gains"] is None or None in both
        book.same(f"{at}.control_p", None if undefined else max(both), one["control_p"])
        signal = np.array([row.get(name, np.nan) for row in f["signals"]], dtype=float)
        if one["threshold"] is not None and not np.isnan(signal).any():
            best = best_threshold(signal[kept], delta[kept])
            share = float((signal[kept] >= best).mean())
            book.same(f"{at}.threshold", None if math.isinf(best) else best, one["threshold"]["value"])
            book.same(f"{at}.threshold.share", share, one["threshold"]["share"])
    policies = score["policies" if side == "triggers" else "policies_all_attempted"]
    for name, seen in policies["per_deployment"].items():
        total, interval = policies[name], policies["earned"][name]["student_t"]
        mine = [None if total is None else total / cells]
        mine += [None if interval is None else [end / of_checkpoint for end in interval]]
        book.same(f"{where}.{name}.per_deployment", mine, [seen["mean"], seen["student_t"]])


def refitted(f, delta, kept, signals, book, where, shown):
    """Gains with thresholds, table and the better of never and always chosen anew without each checkpoint."""
    part = {name: values[kept] for name, values in f.items() if name != "signals"}
    d, names = delta[kept], sorted(set(f["c"][kept]))
    place = np.unique(np.char.add(part["d"].astype(str), part["k"].astype(str)), return_inverse=True)[1]
    for trigger in signals:
        gains = shown[trigger]["gains"]
        if gains is None:
            continue
        if len(names) < 4:
            for seen in gains.values():
                book.same(f"{where}.{trigger}.refitted", None, seen["refitted"])
            continue
        values = signals[trigger][kept]
        rows = [_gains_without(left, names, part["c"], d, place, values) for left in (None, *names)]
        for name in ("never", "always", "better_of_both", "position_table"):
            theta = np.array([row[name] for row in rows])
            left = theta[1:]
            error = math.sqrt((len(left) - 1) / len(left) * ((left - left.mean()) ** 2).sum())
            half = stats.t.ppf(0.975, len(left) - 1) * error
            mine = [theta[0] - half, theta[0] + half]
            book.same(f"{where}.{trigger}.{name}.refitted", mine, gains[name]["refitted"], 1e-7)


def _gains_without(left, names, c, d, place, values):
    """The mean over the other checkpoints of what the policy earns more than each baseline, all of it fitted on the
    others of these."""
    there = [name for name in names if name != left]
    always = {name: d[c == name].sum() for name in there}
    better = sum(always.values()) > 0
    found = {"never": [], "always": [], "better_of_both": [], "position_table": []}
    for own in there:
        rest, mine = (c != own) & (c != left), c == own
        earned = d[mine & (values >= _cut(values[rest], d[rest]))].sum()
        tabled = 0.0
        for i in np.flatnonzero(mine):
            same = d[rest & (place == place[i])]
            tabled += d[i] if len(same) and same.sum() > 1e-9 * np.abs(same).sum() else 0.0
        found["never"].append(earned)
        found["always"].append(earned - always[own])
        found["better_of_both"].append(earned - (always[own] if better else 0.0))
        found["position_table"].append(earned - tabled)
    return {name: np.mean(gains) for name, gains in found.items()}


def _cut(signal, delta):
    """The threshold that earns the most: the largest of several."""
    down = np.argsort(-signal, kind="stable")
    values, totals = signal[down], np.r_[0.0, np.cumsum(delta[down])]
    ends = [j for j in range(len(values) + 1) if j in (0, len(values)) or values[j - 1] - values[j]
            > 1e-9 * max(abs(values[j - 1]), abs(values[j]))]  # fmt: skip
    best = max(totals[j] for j in ends)
    j = next(j for j in ends if totals[j] >= best - 1e-9 * max(1.0, abs(best)))
    if j == 0:
        return math.inf
    return -math.inf if j == len(values) else (values[j - 1] + values[j]) / 2


def check_normalised(ledger, printed, book):
    """dR as a share of each task's frozen return, averaged over the tasks of an arm, with Welch's interval."""
    for arm, tasks in ledger.items():
        seen = printed["arms"][arm]["normalised"]
        shares, variances, freedoms = {}, [], []
        for task, f in tasks.items():
            frozen = np.mean(list(over_checkpoints(f, f["hold"]).values()))
            means = np.array(list(over_checkpoints(f, f["update"] - f["hold"]).values()))
            if not frozen > 0 or len(means) < 2:
                shares = {}
                break
            shares[task] = means.mean() / frozen
            variances.append(means.var(ddof=1) / len(means) / frozen**2)
            freedoms.append(len(means) - 1)
        if not book.there(f"{arm}.normalised", len(shares) > 1, seen):
            continue
        mean, variance = np.mean(list(shares.values())), sum(variances) / len(shares) ** 2
        freedom = sum(variances) ** 2 / sum(v**2 / n for v, n in zip(variances, freedoms, strict=True))
        half = stats.t.ppf(0.975, freedom) * math.sqrt(variance)
        book.same(f"{arm}.normalised", [mean, [mean - half, mean + half]], [seen["share"], seen["interval"]])
        book.by_name(f"{arm}.normalised.tasks", shares, seen["tasks"])


def check_contrasts(printed, holm, more, book):
    """The grade of every contrast of two arms, adjusted over all of the study, from the printed p values."""
    for side in ("all_attempted", "retained"):
        shown = {
            (pair, task): sides[side]
            for pair, tasks in printed["contrasts"].items()
            for task, sides in tasks.items()
            if sides[side] is not None
        }
        for test in ("student_t", "sign_flip"):
            p_values = {key: one[f"p_{test}"] for key, one in shown.items()}
            adjusted = holm({key: p for key, p in p_values.items() if p is not None}, len(shown))
            for key, one in shown.items():
                book.same(f"{key}.{side}.adjusted_{test}", adjusted.get(key), one[f"adjusted_{test}"])
        for key, one in shown.items():
            values = np.array(list(one["by_checkpoint"].values()))
            if one["student_t"] is None:
                book.same(f"{key}.{side}.grade", None, one["grade"])
                continue
            low, high = one["student_t"]
            passed = all(one[f"adjusted_{test}"] < 0.05 for test in ("student_t", "sign_flip"))
            grade = "unresolved" if low <= 0 <= high else "resolved" if passed else "leaning"
            needed = 0 if grade == "resolved" else more(values, len(shown))
            if printed.get("stopping"):
                rule = by_rule(printed["stopping"], key[1], *key[0].split(" - "))
                grade = rule[0] if side == "all_attempted" else None
                needed = 0 if grade == "resolved" else None
            mine = [grade, len(shown), needed]
            names = ("grade", "family", "more_checkpoints")
            book.same(f"{key}.{side}.grade", mine, [one[name] for name in names])


def check_max_t(kind, judged, printed, book):
    """Step-down max-T over every pattern of signs, flipped for all policies of a task at once."""
    tasks = {task for task, _ in judged}
    for task in tasks:
        values = {
            name: np.array(list(mine[kind].values()))
            for (of_task, name), mine in judged.items()
            if of_task == task and mine.get(kind) is not None
        }
        there = {name: x for name, x in values.items() if np.any(x)}
        adjusted = dict.fromkeys(values, 1.0)
        if there and len(next(iter(there.values()))) <= 16:
            x = np.array(list(there.values()))
            n = x.shape[1]
            patterns = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
            null = np.empty((len(patterns), len(x)))
            for place, row in enumerate(x):
                flipped = patterns * row
                with np.errstate(divide="ignore"):
                    null[:, place] = np.abs(flipped.mean(axis=1)) / flipped.std(axis=1, ddof=1)
            seen = null[np.all(patterns == 1.0, axis=1)][0]
            order, largest = sorted(range(len(x)), key=lambda place: -seen[place]), 0.0
            names = list(there)
            for step, place in enumerate(order):
                reached = null[:, order[step:]].max(axis=1) >= seen[place] * (1 - 1e-9)
                largest = max(largest, reached.mean())
                adjusted[names[place]] = largest
        for name in values:
            one, at = printed[task]["policies"][name][kind], f"{task}.{name}.{kind}"
            p = min(1.0, len(tasks) * adjusted[name])
            book.same(f"{at}.adjusted_max_t", p, one["adjusted_max_t"])
            interval = one["student_t"]
            for method, passed in (
                ("max_t", p < 0.05),
                ("holm", all((one[f"adjusted_{test}"] or 0) < 0.05 for test in ("student_t", "sign_flip"))),
            ):
                grade = None
                if interval is not None:
                    grade = "unresolved" if interval[0] <= 0 <= interval[1] else "resolved" if passed else "leaning"
                book.same(f"{at}.grade_{method}", grade, one[f"grade_{method}"])


def check_forecasts(columns, realised, checkpoints, updates, book, where, shown, missed):
    """How well each forecast orders policies, how far it is off, and what it knows beyond a count of fires.

    `columns` are one-step, carried and count by policy and checkpoint.
    """
    names = list(realised)
    table = {key: np.array([[of[name][c] for c in checkpoints] for name in names]) for key, of in columns.items()}
    came = np.array([[realised[name][c] for c in checkpoints] for name in names])
    for key in ("one_step", "carried"):
        error = math.sqrt(np.mean((table[key] - came).mean(axis=1) ** 2))
        book.same(f"{where}.{key}", [error, missed[key]], [shown[key]["error"], shown[key]["missed"]], 1e-7)
    sets = {"": list(range(len(names)))}
    if len(updates) > 1:
        sets |= {arm: [names.index(name) for name in of] for arm, of in updates.items()}

    def order(key, own, some):
        return tuple(rank(values[own][:, some].mean(axis=1)) for values in (table[key], came))

    def spearman(key, own, some):
        first, second = order(key, own, some)
        alike = len(own) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0
        return None if alike else float(np.corrcoef(first, second)[0, 1])

    def partial(own, some):
        first, second = order("one_step", own, some)
        third = order("count", own, some)[0]
        pairs = [
            0.0 if np.ptp(a) == 0 or np.ptp(b) == 0 else float(np.corrcoef(a, b)[0, 1])
            for a, b in ((first, second), (first, third), (second, third))
        ]
        rest = (1 - pairs[1] ** 2) * (1 - pairs[2] ** 2)
        if len(own) < 4 or rest <= 1e-12:
            return None
        return (pairs[0] - pairs[1] * pairs[2]) / math.sqrt(rest)

    count = len(checkpoints)
    listed = count <= LISTED_RESAMPLES
    some = list(itertools.product(range(count), repeat=count) if listed else chosen(count, 1_000))
    for arm, own in sets.items():
        for key in ("one_step", "carried", "count", "partial"):
            seen = shown[key] if not arm else shown[key]["within"][arm]
            value = seen["value"] if key == "partial" and not arm else seen["rank_correlation"]

            def found(places, key=key, own=own):
                return partial(own, places) if key == "partial" else spearman(key, own, places)

            at, mine = f"{where}.{key}.{arm}", found(list(range(count)))
            book.same(at, mine, value, 1e-7)
            if arm:
                book.same(f"{at}.policies", len(own), seen["policies"])
            drawn = np.array([one for places in some if (one := found(list(places))) is not None])
            ends = None
            if len(drawn) and mine is not None:
                ends = list(np.quantile(drawn, [0.025, 0.975])) if listed else near_ends(drawn, RESAMPLES)
            book.same(f"{at}.bootstrap", ends, seen["bootstrap"], 1e-6)
