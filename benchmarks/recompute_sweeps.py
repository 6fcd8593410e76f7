"""Part of `recompute.py`: arms that differ in the dose of their update or in the noise of their stream.

It shares nothing with analysis. What sets groups of arms apart is not spelled again: a printed group is looked up
by its arms, and must hold those that agree in everything else.
"""

import json

import numpy as np
from recompute_basics import cell_means, contrast, flip_p, mean_figures, t_interval, t_p
from recompute_stopping import by_rule


def check_doses(ledger, registered, printed, book, stopping=None):
    """`doses` of the score: every figure of an arm divided by what it costs, ranks, and the ends compared."""
    ends = {}
    for task, label in _groups(printed):
        where, sweep = f"doses {task} {label}", printed[task][label]
        arms = _alike(registered, next(iter(sweep["doses"])), task, _without_dose, _steps)
        there = [name for name in arms if task in ledger.get(name, {})]
        book.same(f"{where}.arms", there, list(sweep["doses"]))
        book.same(f"{where}.missing", [name for name in arms if name not in there], sweep["missing"])
        means = {name: np.mean(_by_checkpoint(ledger[name][task])) for name in there}
        for name in there:
            _dose(ledger[name][task], _steps(_arm(registered, name)), book, f"{where}.{name}", sweep["doses"][name])
            rank = 1 + sum(other > means[name] for other in means.values())
            book.same(f"{where}.{name}.rank", rank, sweep["doses"][name]["rank"])
        rises = np.diff([means[name] for name in there])
        order = "rises" if np.all(rises > 0) else "falls" if np.all(rises < 0) else "neither"
        book.same(f"{where}.order", order, sweep["order"])
        book.same(f"{where}.ends", [arms[0], arms[-1]], [sweep["smallest"], sweep["largest"]])
        if sweep["largest_less_smallest"] is None:
            book.same(f"{where}.ends", False, {arms[0], arms[-1]} <= set(there))
            continue
        pair = [ledger[name][task] for name in (arms[-1], arms[0])]
        every = [np.ones(len(f["k"]), bool) for f in pair]
        contrast(*pair, every, book, f"{where}.ends", sweep["largest_less_smallest"])
        cells = [cell_means(f, f["update"] - f["hold"], keep) for f, keep in zip(pair, every, strict=True)]
        ends[task, label] = np.array(list(_differences(*cells).values()))
    family = _family(registered)
    for key, x in ends.items():
        adjusted = [_holm([p(one) for one in ends.values()], p(x), family) for p in (t_p, flip_p)]
        low, high = t_interval(x)
        clear = low > 0 or high < 0
        grade = "unresolved" if not clear else "resolved" if max(adjusted) < 0.05 else "leaning"
        sweep = printed[key[0]][key[1]]
        if stopping:
            grade = by_rule(stopping, key[0], sweep["largest"], sweep["smallest"])[0]
        book.same(f"doses {key}.grade", [grade, family], [sweep["grade"], sweep["family"]])


def check_noises(ledger, registered, printed, scores, book):
    """`noises` of the score: signals, frozen return and dR of each noise, and the least noise taken from them."""
    for task, label in _groups(printed):
        where, sweep = f"noises {task} {label}", printed[task][label]
        arms = _alike(registered, next(iter(sweep["noises"])), task, _without_noise, _sigma)
        there = [name for name in arms if task in ledger.get(name, {})]
        book.same(f"{where}.arms", there, list(sweep["noises"]))
        book.same(f"{where}.missing", [name for name in arms if name not in there], sweep["missing"])
        book.same(f"{where}.baseline", arms[0], sweep["baseline"])
        for name in there:
            arm, f, shown = _arm(registered, name), ledger[name][task], sweep["noises"][name]
            least = None if name == arms[0] or arms[0] not in there else ledger[arms[0]][task]
            book.same(
                f"{where}.{name}.settings",
                [_sigma(arm), arm["evaluation"]["episodes"]],
                [shown["action_noise"], shown["episodes"]],
            )
            _noise(f, least, book, f"{where}.{name}", shown)
            ranked, counted = scores[name, task]["triggers_all_attempted"]["residual"], scores[name, task]["forks"]
            book.same(f"{where}.{name}.auc", ranked["auc"], shown["residual_auc"])
            book.same(f"{where}.{name}.auc", ranked["auc_interval"], shown["residual_auc_interval"])
            book.same(
                f"{where}.{name}.forks",
                [counted["attempted"], counted["diverged"]],
                [shown["forks"], shown["diverged"]],
            )


def _groups(printed):
    return [(task, label) for task, sweeps in printed.items() for label in sweeps]


def _dose(f, steps, book, where, shown):
    x = np.array(_by_checkpoint(f))
    interval = int(f["step"][0] / f["k"][0])
    half = t_interval(x)
    book.same(f"{where}.steps", [steps, None, interval], [shown[name] for name in ("steps", "passes", "interval")])
    book.same(f"{where}.ratio", steps / interval, shown["replay_ratio"])
    book.same(f"{where}.mean", [x.mean(), half], [shown["mean"], shown["student_t"]])
    per_step = [x.mean() / steps, [end / steps for end in half]]
    book.same(f"{where}.per_step", per_step, [shown["per_step"]["mean"], shown["per_step"]["student_t"]])
    delta, cells = f["update"] - f["hold"], len(set(zip(f["c"], f["d"], f["s"], strict=True)))
    totals = [delta[f["c"] == one].sum() * len(x) / cells for one in np.unique(f["c"])]
    always = [delta.sum() / cells, t_interval(totals)]
    book.same(f"{where}.always", always, [shown["always"]["mean"], shown["always"]["student_t"]])
    book.same(f"{where}.forks", len(delta), shown["forks"])
    book.same(f"{where}.diverged", int(_diverged(f)), shown["diverged"])


def _noise(f, least, book, where, shown):
    delta = f["update"] - f["hold"]
    means = {
        name: np.mean(_by_checkpoint(f, values)) for name, values in (("hold", f["hold"]), ("helped", delta > 0))
    }
    book.same(f"{where}.means", [means["hold"], means["helped"]], [shown["r_hold"], shown["helped"]])
    x = _by_checkpoint(f)
    book.same(f"{where}.mean", [np.mean(x), t_interval(x)], [shown["mean"], shown["student_t"]])
    if least is None:
        book.same(f"{where}.rise", None, shown["rise"])
    else:
        contrast(f, least, [np.ones(len(g["k"]), bool) for g in (f, least)], book, f"{where}.rise", shown["rise"])
    for name in shown["signals"]:
        signal, seen = _signal(f, name), shown["signals"][name]
        there = ~np.isnan(signal)
        cells = cell_means(f, signal, there)
        x = list(_differences(cells, None).values())
        book.same(f"{where}.{name}.n_defined", int(there.sum()), seen["n_defined"])
        if not len(x):
            continue
        book.same(f"{where}.{name}.mean", np.mean(x), seen["mean"])
        book.same(f"{where}.{name}.student_t", t_interval(x), seen["student_t"])
        if least is None:
            book.same(f"{where}.{name}.rise", None, seen["rise"])
        elif (
            len(
                rise := _differences(
                    cells, cell_means(least, _signal(least, name), ~np.isnan(_signal(least, name)))
                )
            )
            > 1
        ):
            mean_figures(rise, book, f"{where}.{name}.rise", seen["rise"])


def _signal(f, name):
    return np.array([np.nan if row.get(name) is None else row[name] for row in f["signals"]])


def _by_checkpoint(f, values=None):
    delta = f["update"] - f["hold"] if values is None else values.astype(float)
    return list(_differences(cell_means(f, delta, np.ones(len(delta), bool)), None).values())


def _differences(cells, others):
    """The mean over the cells of each checkpoint, less that of the same cells elsewhere."""
    there = {key: mean for key, mean in cells.items() if mean is not None}
    if others is not None:
        there = {key: mean - others[key] for key, mean in there.items() if others.get(key) is not None}
    owners = sorted({key[0] for key in there})
    return {one: np.mean([mean for key, mean in there.items() if key[0] == one]) for one in owners}


def _diverged(f):
    count = 0
    for c, d, s in set(zip(f["c"], f["d"], f["s"], strict=True)):
        inside = (f["c"] == c) & (f["d"] == d) & (f["s"] == s)
        frozen = f["hold"][inside].mean()
        count += (f["update"][inside] < 0.30 * frozen).sum() if frozen > 0 else 0
    return count


def _arm(registered, name):
    return next(arm for arm in registered["arms"] if arm["name"] == name)


def _steps(arm):
    return arm["mechanism"]["steps"]


def _sigma(arm):
    return arm["stream"]["action_noise"]


def _plain(arm):
    arm = json.loads(json.dumps(arm))
    for name in ("name", "tasks", "stream_seeds", "update_seeds"):
        arm.pop(name, None)
    arm["mechanism"]["settings"].setdefault("rate", 1.0)
    return arm


def _without_dose(arm):
    arm = _plain(arm)
    arm["mechanism"].pop("steps")
    return json.dumps(arm, sort_keys=True)


def _without_noise(arm):
    arm = _plain(arm)
    arm["stream"].pop("action_noise")
    arm["evaluation"].pop("episodes")
    return json.dumps(arm, sort_keys=True)


def _alike(registered, name, task, rest, amount):
    """The arms of a task that agree with the named one in the rest, from the least to the most."""
    like = rest(_arm(registered, name))
    arms = [arm for arm in registered["arms"] if rest(arm) == like and task in arm["tasks"]]
    return [arm["name"] for arm in sorted(arms, key=amount)]


def _family(registered):
    """Registered pairs of a task and a group in which doses differ."""
    doses = {}
    for arm in registered["arms"]:
        for task in arm["tasks"]:
            doses.setdefault((task, _without_dose(arm)), set()).add(_steps(arm))
    return sum(len(steps) > 1 for steps in doses.values())


def _holm(every, p, size):
    """The largest, over everything at most as large, of how often it is counted."""
    ordered = sorted(every)
    return max(min(1.0, (size - rank) * other) for rank, other in enumerate(ordered) if other <= p)
