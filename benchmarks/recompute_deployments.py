"""Part of `recompute.py`: policies that were followed all the way, from their own rows and the forks of the ledger.

It shares nothing with analysis. What a detector or a coin would have fired at on the frozen stream needs streams or
analysis's generator, and is not repeated: what the ledger says of such a policy is read off the printed record, and
everything that follows from it is computed again.
"""

import itertools
import json
import math
import statistics

import numpy as np
from recompute_basics import LISTED_RESAMPLES, close, mean_figures, rank, t_interval
from recompute_drawn import RESAMPLES, chosen, near_ends
from recompute_inference import check_forecasts, check_max_t
from recompute_policies import best_threshold, running

EARLY = ("never", "always")
BEYOND = 100.0  # times never's largest return: a deployment that loses more diverged


def read_deployments(study):
    """task -> policy -> (checkpoint, direction, stream seed) -> rows; and the thresholds that were kept."""
    found, kept = {}, study / "deployments" / "thresholds.json"
    for folder in sorted((study / "deployments").glob("*/*/")):
        if not (folder / "cell.json").exists():
            continue
        made = json.loads((folder / "cell.json").read_text())
        where, plain = made["coordinates"], folder / "episodes.jsonl"
        rows = [json.loads(line) for line in plain.read_text().splitlines()]
        place = (where["checkpoint"], where["direction"], where["stream_seed"])
        of_task = found.setdefault(where["task"], {})
        policy = of_task.setdefault(made["policy"]["name"], {"arm": where["arm"], "cells": {}, **made["policy"]})
        policy["arm"] = where["arm"]
        policy["cells"][place] = rows
    return found, json.loads(kept.read_text())["policies"] if kept.exists() else {}


def check_deployments(study, registered, ledger, printed, holm, book):
    """Every printed figure of every task."""
    deployed, thresholds = read_deployments(study)
    book.same("deployment.tasks", sorted(deployed), sorted(printed))
    judged = {}
    for task, policies in deployed.items():
        for name, policy in policies.items():
            check_thresholds(name, policy, policies, ledger, task, thresholds, registered, book)
        judged |= {
            (task, name): mine
            for name, mine in check_task(
                task, policies, ledger, thresholds, registered, printed[task], book
            ).items()
        }
    for kind in ("advantage", "evaluation", "over_always", "parted", "parted_one_step", "parted_carried"):
        check_family(kind, judged, printed, holm, book)
        check_max_t(kind, judged, printed, book)
    for task in deployed:
        book.same(f"{task}.family", sum(1 for _, name in judged if name != "never"), printed[task]["family"])


def check_family(kind, judged, printed, holm, book):
    """Holm's adjustment over all policies of all tasks but never, from the printed p values, and the grades."""
    shown = {
        place: printed[place[0]]["policies"][place[1]][kind]
        for place, mine in judged.items()
        if mine.get(kind) is not None
    }
    for test in ("student_t", "sign_flip"):
        adjusted = holm({place: one[f"p_{test}"] for place, one in shown.items()}, len(shown))
        for place, p in adjusted.items():
            book.same(f"{place}.{kind}.adjusted_{test}", p, shown[place][f"adjusted_{test}"])
    for place, one in shown.items():
        values = np.array(list(judged[place][kind].values()))
        low, high = t_interval(values)
        resolved = all(one[f"adjusted_{test}"] < 0.05 for test in ("student_t", "sign_flip"))
        grade = "unresolved" if low <= 0 <= high else "resolved" if resolved else "leaning"
        book.same(f"{place}.{kind}.grade", [grade, int((values > 0).sum())], [one["grade"], one["won"]])
        upward = values.mean() > 0
        ends = [t_interval(np.delete(values, i))[0 if upward else 1] for i in range(len(values))]
        names = [str(name) for name in judged[place][kind]]
        crosses = [name for name, end in zip(names, ends, strict=True) if (end <= 0 if upward else end >= 0)]
        left = one["leave_one_out"]
        book.same(
            f"{place}.{kind}.leave_one_out",
            [min(ends), max(ends), crosses],
            [left["low"], left["high"], left["crosses"]],
        )


def check_thresholds(name, policy, policies, ledger, task, thresholds, registered, book):
    """A fitted threshold suits the forks of all other checkpoints best; a coin that matches another policy fires as
    often as that one does there. Decisions on recorded signals follow from them."""
    kept = thresholds.get(name, {}).get(task)
    own_forks = registered["deployment"]["ledger"] is None
    if kept is not None and own_forks:
        like = policies[policy["matches"]] if policy["matches"] else policy
        forks = ledger[like["arm"]][task]
        delta, signal = forks["update"] - forks["hold"], recorded(forks, like["trigger"])
        for checkpoint, threshold in kept.items():
            other, at = forks["c"] != int(checkpoint), f"{task} {name} threshold of {checkpoint}"
            if signal is None:
                continue
            if not policy["matches"]:
                book.same(at, best_threshold(signal[other], delta[other]), float(threshold))
                continue
            share = float((signal[other] >= float(thresholds[policy["matches"]][task][checkpoint])).mean())
            mine = (
                statistics.NormalDist().inv_cdf(1 - share)
                if 0 < share < 1
                else math.copysign(math.inf, 0.5 - share)
            )
            book.same(at, mine, float(threshold))
    if policy.get("trial"):
        return  # it does not fire while an update is on trial
    for (checkpoint, *_), rows in policy["cells"].items():
        fired = [row["fired"] for row in rows]
        if policy["trigger"] in EARLY:
            book.same(f"{task} {name} fires", [policy["trigger"] == "always"] * len(rows), fired)
        elif kept is not None and policy["trigger"] in rows[0]["signals"]:
            values = [row["signals"][policy["trigger"]] for row in rows]
            book.same(f"{task} {name} fires", [one >= float(kept[str(checkpoint)]) for one in values], fired)


def recorded(forks, trigger):
    """A signal of all forks; None where it is no recorded one."""
    values = np.array([row.get(trigger, np.nan) for row in forks["signals"]], dtype=float)
    return None if np.isnan(values).any() else values


def check_task(task, policies, ledger, thresholds, registered, shown, book):
    """Every policy against never on one task; returns the values by checkpoint that grades rest on."""
    cells = list(policies["never"]["cells"])
    checkpoints = sorted({c for c, *_ in cells})
    points = registered["deployment"]["evaluate_at"]
    returns, evaluated = {}, {}
    for name, policy in policies.items():
        rows = [policy["cells"][cell] for cell in cells]
        returns[name] = np.array([[row["episode_return"] for row in of] for of in rows])
        evaluated[name] = np.array([[np.mean(of[k - 1]["evaluation"]) for k in points] for of in rows])

    def over(values):
        """Cells, then checkpoints."""
        return {c: np.mean([v for v, cell in zip(values, cells, strict=True) if cell[0] == c]) for c in checkpoints}

    means = {name: over(values.mean(axis=1)) for name, values in returns.items()}
    fires_always = {
        policy["arm"]: name
        for name, policy in policies.items()
        if policy["trigger"] == "always" and not policy.get("trial")
    }

    def beside(name):
        """What it returned more than the policy that always fires its update; None where that is itself or none."""
        always = fires_always.get(policies[name]["arm"], name)
        return None if always == name else {c: means[name][c] - means[always][c] for c in checkpoints}

    overall = {name: np.mean(list(of.values())) for name, of in means.items()}
    best = max(overall, key=overall.get)
    size = [len(checkpoints), len(cells), returns["never"].shape[1], registered["deployment"]["episodes"]]
    names = ("checkpoints", "cells", "episodes", "evaluation_episodes")
    book.same(
        f"{task}.size", [*size, best, points], [*(shown[name] for name in names), shown["best"], shown["points"]]
    )
    largest = max(np.abs(of["never"]).max() for of in (returns, evaluated))
    judged, foreseen, counted, forecasts = {}, {}, {}, {"one_step": {}, "carried": {}}
    for name, policy in policies.items():
        at, one = f"{task} {name}", shown["policies"][name]
        gap = returns[name] - returns["never"]
        lost = any((of[name] - of["never"] < -BEYOND * largest).any() for of in (returns, evaluated))
        book.same(f"{at}.diverged", [lost, []], [False, list(one["diverged"])])
        rows = [policy["cells"][cell] for cell in cells]
        fired = np.array([[row["fired"] for row in of] for of in rows])
        steps = np.array([[row["gradient_steps"] for row in of] for of in rows])
        book.same(
            f"{at}.spent",
            [overall[name], fired.sum(axis=1).mean(), steps.sum(axis=1).mean()],
            [one[key] for key in ("returned", "updates", "gradient_steps")],
        )
        if not policy.get("trial"):
            book.same(f"{at}.trials", [None], [one["trials"]])
        else:
            ended = [[row["trial"]["kept"] for row in of if row.get("trial")] for of in rows]
            decided = [[stayed for stayed in of if stayed is not None] for of in ended]
            mine = [np.mean([len(of) for of in decided]), np.mean([sum(of) for of in decided])]
            book.same(f"{at}.trials", mine, [one["trials"][key] for key in ("decided", "kept")])
        by_episode = [np.mean(list(over(episode).values())) for episode in gap.T]
        book.same(f"{at}.by_episode", by_episode, one["by_episode"])
        book.same(f"{at}.fired_at", list(fired.mean(axis=0)), one["fired_at"])
        hindsight = [max(means[other][c] for other in means) - means[name][c] for c in checkpoints]
        mine = [overall[best] - overall[name], np.mean(hindsight)]
        book.same(f"{at}.regret", mine, [one["regret"], one["regret_by_checkpoint"]])
        at_points = evaluated[name] - evaluated["never"]
        for k, column, seen in zip(points, at_points.T, one["evaluation_at"], strict=True):
            values = list(over(column).values())
            mine = [k, np.mean(values), t_interval(values)]
            book.same(f"{at}.evaluation_at", mine, [seen[key] for key in ("k", "mean", "student_t")])
        said = by_the_ledger(policy, cells, ledger, task, thresholds.get(name, {}).get(task))
        if said is None:
            book.there(f"{at}.ledger", True, one["parted"])
            came, parted = over(gap.mean(axis=1)), one["parted"]["by_checkpoint"]
            # A policy that never fires there comes to 0 and ties with never: no rounding error may part them.
            said_by = {c: 0.0 if close(came[c], parted[str(c)]) else came[c] - parted[str(c)] for c in checkpoints}
        else:
            said_by = over([earned for earned, *_ in said])
            book.same(f"{at}.ledger_updates", np.mean([fires for _, fires, _ in said]), one["ledger_updates"])
        book.same(f"{at}.ledger_value", np.mean(list(said_by.values())), one["ledger_value"])
        foreseen[name], judged[name] = said_by, {}
        forks = ledger[policy["arm"]][task]
        mean = np.array([
            (forks["update"] - forks["hold"])[
                (forks["c"] == c) & (forks["d"] == d) & (forks["s"] == s)
            ].mean()
            for c, d, s in cells
        ])  # fmt: skip
        fires = one["ledger_updates"]
        counted[name] = {c: fires * value for c, value in over(mean).items()}
        came = over(gap.mean(axis=1))
        for kind in ("one_step", "carried"):
            if said is None:
                parted = one[f"parted_{kind}"]["by_checkpoint"]
                mine = {c: 0.0 if close(came[c], parted[str(c)]) else came[c] - parted[str(c)] for c in checkpoints}
            else:
                at_cells = over_episodes(policy, cells, ledger, task, [fired for *_, fired in said], size[2])
                mine = over(at_cells[kind])
            forecasts[kind][name] = mine
            book.same(f"{at}.{kind}", np.mean(list(mine.values())), one[kind])
        if name == "never":
            kinds = ("advantage", "always", "evaluation", "over_always", "parted", "retained")
            kinds = (*kinds, "parted_one_step", "parted_carried")
            book.same(f"{at} itself", [None] * len(kinds), [one[key] for key in kinds])
            continue
        gained = over(gap.mean(axis=1))
        always = fires_always.get(policy["arm"], name)
        book.same(f"{at}.always", None if always == name else always, one["always"])
        judged[name] = {
            "advantage": gained,
            "evaluation": over(at_points.mean(axis=1)) if points else None,
            "over_always": beside(name),
            "parted": {c: gained[c] - said_by[c] for c in checkpoints},
            "parted_one_step": {c: gained[c] - forecasts["one_step"][name][c] for c in checkpoints},
            "parted_carried": {c: gained[c] - forecasts["carried"][name][c] for c in checkpoints},
        }
        for kind, values in judged[name].items():
            if book.there(f"{at}.{kind}", values is not None, one[kind]):
                mean_figures(values, book, f"{at}.{kind}", one[kind])
        check_directions(at, cells, gap.mean(axis=1), fired.sum(axis=1), said, one["by_direction"], book)
        kept, both = one["retained"], [gained, judged[name]["evaluation"]]
        for values, mean, interval in zip(
            both, ("mean", "evaluated_mean"), ("student_t", "evaluated_student_t"), strict=True
        ):
            found = list(values.values())
            book.same(f"{at}.retained", [np.mean(found), t_interval(found)], [kept[mean], kept[interval]])
        book.same(f"{at}.retained.cells", len(cells), kept["cells"])
    realised = {name: {c: means[name][c] - means["never"][c] for c in checkpoints} for name in policies}
    # A policy that fired neither here nor by the ledger is never by another name.
    updates = {}
    for name, policy in policies.items():
        here = any(row["fired"] for rows in policy["cells"].values() for row in rows)
        if here or (shown["policies"][name]["ledger_updates"] or 0) > 0:
            updates.setdefault(policy["arm"], []).append(name)
    check_forecast(foreseen, realised, checkpoints, updates, book, f"{task}.forecast", shown["forecast"])
    missed = {
        kind: sum(
            (one[f"parted_{kind}"] or {}).get("grade_holm") == "resolved" for one in shown["policies"].values()
        )
        for kind in forecasts
    }
    columns = {**forecasts, "count": counted}
    at = f"{task}.forecasts"
    check_forecasts(columns, realised, checkpoints, updates, book, at, shown["forecasts"], missed)
    return judged


def check_directions(at, cells, gap, updates, said, shown, book):
    """Each direction of drift by itself. What the ledger says of a policy that only analysis can replay is taken
    from the printed record."""
    ways = sorted({way for _, way, _ in cells})
    book.same(f"{at}.directions", ways, list(shown))
    for way in ways:
        own = [i for i, cell in enumerate(cells) if cell[1] == way]
        owners = sorted({cells[i][0] for i in own})

        def over(values, own=own, owners=owners):
            return np.array([np.mean([values[i] for i in own if cells[i][0] == c]) for c in owners])

        one, gained = shown[way], over(gap)
        mine = [np.mean([updates[i] for i in own]), gained.mean(), t_interval(gained)]
        book.same(f"{at}.{way}", mine, [one[key] for key in ("updates", "mean", "student_t")])
        if said is None:
            book.same(f"{at}.{way}.parted", gained.mean() - one["ledger_value"], one["parted"])
            continue
        earned = over([value for value, *_ in said])
        mine = [earned.mean(), (gained - earned).mean(), t_interval(gained - earned)]
        book.same(f"{at}.{way}.ledger", mine, [one[key] for key in ("ledger_value", "parted", "parted_student_t")])


def by_the_ledger(policy, cells, ledger, task, kept):
    """What the policy would have earned per decision point on each frozen stream, and how often it fires there;
    None where that can not be read off the forks."""
    forks = ledger[policy["arm"]][task]
    delta, signal = forks["update"] - forks["hold"], recorded(forks, policy["trigger"])
    if policy["trigger"] in EARLY:
        fired = np.full(len(delta), policy["trigger"] == "always")
    elif policy["trigger"] == "periodic":
        fired = forks["k"] % policy["settings"]["period"] == 0
    elif signal is None:
        return None
    elif policy["threshold"] == "running":
        fired = running(forks, signal, policy["rate"] or 0.3)
    elif kept is None:
        fired = signal >= policy["threshold"]
    else:
        fired = signal >= np.array([float(kept[str(c)]) for c in forks["c"]])
    found = []
    for c, d, s in cells:
        own = (forks["c"] == c) & (forks["d"] == d) & (forks["s"] == s)
        order = np.argsort(forks["k"][own])
        found.append((np.where(fired[own], delta[own], 0.0).mean(), fired[own].sum(), fired[own][order]))
    return found


def over_episodes(policy, cells, ledger, task, fired_at, episodes):
    """Both forecasts over the decisions that an episode follows, cell by cell."""
    forks = ledger[policy["arm"]][task]
    delta, columns = forks["update"] - forks["hold"], {"one_step": [], "carried": []}
    for (c, d, s), fires in zip(cells, fired_at, strict=True):
        own = (forks["c"] == c) & (forks["d"] == d) & (forks["s"] == s)
        order = np.argsort(forks["k"][own])
        values, ks = delta[own][order], forks["k"][own][order]
        one_step = carried = 0.0
        begun = False
        for k, value, fire in zip(ks, values, fires, strict=True):
            begun = begun or fire
            if k < episodes:
                one_step += value if fire else 0.0
                carried += value if begun else 0.0
        columns["one_step"].append(one_step / episodes)
        columns["carried"].append(carried / episodes)
    return columns


def check_forecast(foreseen, realised, checkpoints, updates, book, where, shown):
    """Spearman's correlation over all policies and over those of one update, and how far checkpoints move it."""
    book.same(f"{where}.within", sorted(updates) if len(updates) > 1 else [], sorted(shown["within"]))
    for arm, one in shown["within"].items():
        own = [{name: of[name] for name in updates[arm]} for of in (foreseen, realised)]
        check_order(*own, checkpoints, book, f"{where}.{arm}", one)
    without, alone, said, came = check_order(foreseen, realised, checkpoints, book, where, shown)
    known = [value for value in without if value is not None]
    book.same(
        f"{where}.without_one", [min(known), max(known)], [shown["without_one_low"], shown["without_one_high"]]
    )
    book.by_name(f"{where}.by_checkpoint", alone, shown["by_checkpoint"])
    alike = [
        np.sign(a - b) * np.sign(c - d)
        for (a, c), (b, d) in itertools.combinations(zip(said.mean(axis=1), came.mean(axis=1), strict=True), 2)
    ]
    decided = [sign for sign in alike if sign]
    book.same(f"{where}.ordered_alike", np.mean([sign > 0 for sign in decided]), shown["ordered_alike"])


def check_order(foreseen, realised, checkpoints, book, where, shown):
    """The correlation over these policies and its interval; returns it without each checkpoint, and in each."""
    names = list(foreseen)
    said, came = (np.array([[of[name][c] for c in checkpoints] for name in names]) for of in (foreseen, realised))

    def spearman(some):
        ranks = [rank(values[:, some].mean(axis=1)) for values in (said, came)]
        alike = len(names) < 3 or any(np.ptp(one) == 0 for one in ranks)
        return None if alike else float(np.corrcoef(*ranks)[0, 1])

    count = len(checkpoints)
    book.same(f"{where}.policies", len(names), shown["policies"])
    book.same(f"{where}.rank_correlation", spearman(list(range(count))), shown["rank_correlation"], 1e-7)
    listed = count <= LISTED_RESAMPLES
    some = itertools.product(range(count), repeat=count) if listed else chosen(count, RESAMPLES // 10)
    drawn = np.array([value for one in some if (value := spearman(list(one))) is not None])
    ends = None
    if len(drawn):
        ends = list(np.quantile(drawn, [0.025, 0.975])) if listed else near_ends(drawn, RESAMPLES)
    book.same(f"{where}.bootstrap", ends, shown["bootstrap"], 1e-7)
    without = [spearman([i for i in range(count) if i != out]) for out in range(count)]
    return without, {c: spearman([i]) for i, c in enumerate(checkpoints)}, said, came
