"""Part of `recompute.py`: triggers and the policies beside them, on retained and on all attempted forks.

It shares nothing with analysis. Whatever is fitted on other checkpoints (thresholds, the position table, the clock
of each direction) is None where the scored forks are all of one checkpoint, and so is everything that follows.
"""

import numpy as np
import recompute_basics as basics
from recompute_basics import t_interval
from recompute_policies import (
    controls,
    direction_clock,
    gains,
    given_position,
    loco,
    position_table,
    running,
    running_rest,
    swapped,
)

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
# What is said of a policy whose threshold is fitted.
OF_THE_FITTED = (
    *("policy_total", "fires", "by_direction", "gradient_steps", "earned", "gains", "swapped"),
    *("random", "random_shift", "random_blocks"),
)


def triggers(f, retained, book, where, score):
    """Fixed policies and every recorded signal, on both sets of forks."""
    sides = {"triggers": retained, "triggers_all_attempted": np.ones(len(retained), bool)}
    for side, kept in sides.items():
        part = {name: values[kept] for name, values in f.items() if name != "signals"}
        d = part["update"] - part["hold"]
        printed = score["policies" if side == "triggers" else "policies_all_attempted"]
        rivals = fixed_policies(part, d, book, f"{where}.{side}", printed)
        for name in SIGNALS:
            signal = np.array([row.get(name, np.nan) for row in f["signals"]], dtype=float)
            at, shown = f"{where}.{side}.{name}", score[side].get(name)
            if shown is None or np.isnan(signal).any():
                continue
            trigger(f, signal, kept, rivals, book, at, shown)
            basics.proxies(part, signal[kept], d, book, at, shown, (signal[~retained], signal[retained]))


def fixed_policies(part, d, book, where, printed):
    """What needs no signal; returns what a trigger is compared with, by checkpoint."""
    names = np.unique(part["c"])
    fitted = {"position_table": None, "direction_clock": None}
    if len(names) > 1:
        fitted = {"position_table": position_table(part, d), "direction_clock": direction_clock(part, d)}
    ways = {"always": totals(part, d, np.ones(len(d), bool)), "oracle": totals(part, d, d > 0)}
    for name, fired in fitted.items():
        ways[name] = None if fired is None else totals(part, d, fired)
        book.same(f"{where}.{name}", None if fired is None else d[fired].sum(), printed[name])
        interval = None if fired is None else t_interval(ways[name])
        book.same(f"{where}.{name}.earned", interval, printed["earned"][name]["student_t"])
    book.same(
        f"{where}.fixed",
        [0.0, d.sum(), d[d > 0].sum()],
        [printed[name] for name in ("never", "always", "oracle")],
    )
    for name in printed["earned"]:
        earned, seen = ways[name], printed["earned"][name]
        mean, interval = (None, None) if earned is None else (earned.mean(), t_interval(earned))
        book.same(f"{where}.{name}.mean", mean, seen["mean"])
        book.same(f"{where}.{name}.t", interval, seen["student_t"])
        by = dict.fromkeys(names) if earned is None else dict(zip(names, earned, strict=True))
        book.by_name(f"{where}.{name}.by", by, seen["by_checkpoint"])
    always = ways["always"]
    better = always if always.sum() > 0 else 0 * always
    return {"never": 0 * always, "always": always, "better_of_both": better} | {name: ways[name] for name in fitted}


def totals(part, d, fired):
    """What each checkpoint earns."""
    return np.array([d[fired & (part["c"] == one)].sum() for one in np.unique(part["c"])])


def trigger(f, signal, kept, rivals, book, at, shown):
    """One signal: its ranking, and its policies by the fitted and by the running threshold."""
    delta = f["update"] - f["hold"]
    part = {name: values[kept] for name, values in f.items() if name != "signals"}
    d = delta[kept]
    of_swapped = ("p", "mean", "orders", "exact")
    ends = shown["endpoint"]
    book.same(f"{at}.n_defined", int(kept.sum()), shown["n_defined"])
    basics.ranking(part, signal[kept], d, book, at, shown)
    given_position(part, signal[kept], d, book, f"{at}.given_position", shown["given_position"])
    if len(np.unique(part["c"])) > 1:
        fired = loco(signal, delta, f["c"], kept)
        basics.endpoint(part, fired[kept], d, book, f"{at}.endpoint", ends["leave_one_checkpoint_out"])
        absent = [name for name in OF_THE_FITTED if not book.there(f"{at}.{name}", True, shown[name])]
        if not absent:
            fitted_policy(part, fired[kept], d, rivals, book, at, shown)
            controls(f, fired, delta, kept, book, at, shown)
            mine = list(swapped(f, fired, delta, kept))
            book.same(f"{at}.swapped", mine, [shown["swapped"][key] for key in of_swapped])
    else:
        undefined = [*(shown[name] for name in OF_THE_FITTED), ends["leave_one_checkpoint_out"]]
        book.same(f"{at} of one checkpoint", [None] * len(undefined), undefined)
    loose = running(f, signal)
    basics.endpoint(part, loose[kept], d, book, f"{at}.running.endpoint", ends["running_quantile"])
    seen, mine = shown["running_quantile"], totals(part, d, loose[kept])
    running_rest(part, loose[kept], d, mine, rivals, book, f"{at}.running", seen)
    figures = [d[loose[kept]].sum(), int(loose[kept].sum())]
    book.same(f"{at}.running", figures, [seen["policy_total"], seen["fires"]])
    book.same(f"{at}.running.earned", t_interval(mine), seen["earned"]["student_t"])
    mine = list(swapped(f, loose, delta, kept))
    book.same(f"{at}.running.swapped", mine, [seen["swapped"][key] for key in of_swapped])


def fitted_policy(part, fired, d, rivals, book, at, shown):
    """What the policy earns by the threshold that is fitted on other checkpoints."""
    book.same(f"{at}.total", d[fired].sum(), shown["policy_total"])
    book.same(f"{at}.fires", int(fired.sum()), shown["fires"])
    book.same(f"{at}.steps", int(part["steps"][0]) * int(fired.sum()), shown["gradient_steps"])
    for way in shown["by_direction"]:
        book.same(f"{at}.{way}", d[fired & (part["d"] == way)].sum(), shown["by_direction"][way])
    mine, earned = totals(part, d, fired), shown["earned"]
    book.same(f"{at}.earned", [mine.mean(), t_interval(mine)], [earned["mean"], earned["student_t"]])
    by = dict(zip(np.unique(part["c"]), mine, strict=True))
    book.by_name(f"{at}.by", by, earned["by_checkpoint"])
    gains(mine, rivals, book, at, shown["gains"])
