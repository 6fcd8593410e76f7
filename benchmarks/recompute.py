"""Figures of the score, computed again from the raw rows by code that shares nothing with the desk.

    python benchmarks/recompute.py                    # results/corrected
    python benchmarks/recompute.py results/scope

Reads cells/*/forks.jsonl (or .gz) and cells/*/cell.json itself, knows numpy and Student's t, and compares with what
`worldfork score STUDY --json` prints. Seeded draws (the random and the shifted control) are not repeated; their
printed p values are adjusted again, and the mean of each null is compared with its closed form. Detectors are not
run again: they need the streams. It exits with 1 where a figure differs, and where a figure is printed that nothing
here looked at and NOT_REPEATED does not excuse.
"""

import contextlib
import gzip
import itertools
import json
import math
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import recompute_basics as basics
from recompute_basics import flip_p, t_interval, t_p
from recompute_fits import RULE, components, contraction, counts, retained_forks, severities
from recompute_policies import (
    controls,
    direction_clock,
    given_position,
    loco,
    position_table,
    running,
    running_rest,
    swapped,
)
from recompute_sweeps import check_doses, check_noises
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
ENUMERATED = range(3, 7)  # checkpoints with which every test lists all of its patterns
# Where a study registers none.
PAPERS_CANDIDATES = (*SIGNALS[:6], "adwin", "page_hinkley", "kswin", "conformal")
NAMED = (
    *("arms", "tasks", "triggers", "triggers_all_attempted", "contrasts", "gains", "by_direction", "by_checkpoint"),
    *("by_direction_intervals", "drift_quartiles", "random_blocks", "auc_by_checkpoint", "standard_error_at"),
    *("doses", "noises", "signals"),
)
# What is not computed again, and why. Everything else that is printed must be, or this program fails.
SEEDED = "draws of the desk's own generator: their mean is compared, within five standard errors"
NOT_REPEATED = {
    **{
        f"arms.*.tasks.*.{side}.*.{control}.{figure}": SEEDED
        for side in ("triggers", "triggers_all_attempted")
        for control in ("random", "random_shift", "random_blocks.*")
        for figure in ("interval", "p")
    },
    "arms.*.tasks.*.components.draw": "one draw of each update: undefined here",
    "arms.*.tasks.*.predictions": "none are registered",
    "family": "what was registered, not a figure",
    "seeds": "copied from the pretraining's own record",
    "schema": "not a figure",
    "undefined": "reasons, not figures",
    "failed": "none: no return is missing",
    "warnings": "sentences, not figures",
}


class Watched(dict):
    """A printed table that remembers which of its figures were looked at."""

    def __init__(self, plain, path=(), seen=None):
        super().__init__()
        self.path, self.seen = path, set() if seen is None else seen
        for key, value in plain.items():
            super().__setitem__(key, self._watched(value, (*path, key)))

    def _watched(self, value, path):
        if isinstance(value, dict):
            return Watched(value, path, self.seen)
        if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
            return [self._watched(entry, (*path, index)) for index, entry in enumerate(value)]
        return value

    def __getitem__(self, key):
        value = super().__getitem__(key)
        if not isinstance(value, Watched):
            self.seen.add((*self.path, key))
        return value

    def get(self, key, default=None):
        return self[key] if key in self else default  # noqa: SIM401  (dict's own `get` would not remember)

    def leaves(self):
        """The paths of all figures below."""
        for key in self:
            value = super().__getitem__(key)
            if isinstance(value, Watched):
                yield from value.leaves()
            elif isinstance(value, list) and any(isinstance(entry, Watched) for entry in value):
                for entry in value:
                    yield from entry.leaves()
            else:
                yield (*self.path, key)


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


@contextlib.contextmanager
def opened(study):
    """The folder of a study; where it is one file, unpacked for the time being."""
    if study.is_dir():
        yield study
        return
    packed = study if study.name.endswith(".tar.xz") else study.with_name(f"{study.name}.tar.xz")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(packed) as tar:
        tar.extractall(folder, filter="data")
        yield next(Path(folder).iterdir())


def lines_of(folder):
    """The rows of a cell, as text; a published copy keeps them compressed."""
    plain = folder / "forks.jsonl"
    content = plain.read_bytes() if plain.exists() else gzip.decompress((folder / "forks.jsonl.gz").read_bytes())
    return content.decode().splitlines()


def read(study):
    """arm -> task -> columns."""
    found = {}
    for folder in sorted((study / "cells").iterdir()):
        cell = json.loads((folder / "cell.json").read_text())
        where = cell["coordinates"]
        clean = cell["checkpoint"]["clean_return"]
        for line in lines_of(folder):
            row = json.loads(line)
            columns = found.setdefault(where["arm"], {}).setdefault(where["task"], {})
            entry = {
                "c": where["checkpoint"],
                "d": where["direction"],
                "s": where["stream_seed"],
                "k": row["k"],
                "level": row["level"],
                "hold": row["r_hold"],
                "update": row["r_update"],
                "clean": clean,
                "h": row["hold"],
                "u": row["update"],
                "step": row["step"],
                "steps": cell["arm"]["mechanism"]["steps"],
                "signals": row["signals"],
            }
            for name, value in entry.items():
                columns.setdefault(name, []).append(value)
    return {
        arm: {task: {name: values if name == "signals" else np.array(values) for name, values in columns.items()}
              for task, columns in tasks.items()}
        for arm, tasks in found.items()
    }  # fmt: skip


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
    crosses = [str(c) for c, end in zip(np.unique(f["c"]), ends, strict=True) if (end <= 0) == (means.mean() > 0)]
    book.same(f"{where}.crosses", crosses, list(judged["leave_one_out"]["crosses"]))
    book.same(f"{where}.least_p", 2.0 ** (1 - len(means)), judged["least_p"])
    book.same(f"{where}.anytime", None, judged["anytime"])  # from eight checkpoints on
    low, high = t_interval(means)
    book.same(
        f"{where}.verdict", "harmful" if high < 0 else "helpful" if low > 0 else "unresolved", score["verdict"]
    )
    return means


def check_task(f, book, where, score):
    """Everything of one task that needs no other task."""
    delta = f["update"] - f["hold"]
    sides = {"triggers": retained_forks(f), "triggers_all_attempted": np.ones(len(delta), bool)}
    retained = sides["triggers"]
    contraction(f, retained, book, f"{where}.contraction", score["contraction"])
    basics.bins_and_halves(f, retained, book, f"{where}.contraction", score["contraction"], where.split()[1])
    severities(f, book, where, score["severity"])
    components(f, book, where, score["components"])
    basics.design(f, book, f"{where}.design", score)
    basics.quartiles(f, retained, book, f"{where}.quartiles", score["drift_quartiles"])
    for name, kept in (("all_attempted", sides["triggers_all_attempted"]), ("retained", retained)):
        basics.effects(f, kept, book, f"{where}.effect.{name}", score["effect"][name])
        basics.directions(f, kept, book, f"{where}.directions.{name}", score["direction_contrast"][name])
    counts(f, delta, retained, book, where, score)
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
        book.same(
            f"{where}.{side}.fixed",
            [0.0, d.sum(), d[d > 0].sum()],
            [printed[name] for name in ("never", "always", "oracle")],
        )
        ways = {"always": always, "oracle": totals(d > 0), **{name: totals(fired) for name, fired in fixed.items()}}
        for name in printed["earned"]:
            seen = printed["earned"][name]
            book.same(f"{where}.{side}.{name}.mean", ways[name].mean(), seen["mean"])
            book.same(f"{where}.{side}.{name}.t", t_interval(ways[name]), seen["student_t"])
            book.same(f"{where}.{side}.{name}.by", list(ways[name]), [seen["by_checkpoint"][str(c)] for c in names])
        rivals = {"never": 0 * always, "always": always, **{name: totals(fired) for name, fired in fixed.items()}}
        rivals["better_of_both"] = always if always.sum() > 0 else 0 * always
        for name in SIGNALS:
            signal = np.array([row.get(name, np.nan) for row in f["signals"]], dtype=float)
            at, shown = f"{where}.{side}.{name}", score[side].get(name)
            if shown is None or np.isnan(signal).any():
                continue
            fired = loco(signal, delta, f["c"], kept)
            fired_kept = fired[kept]
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
                book.same(
                    f"{at}.gains.{than}.won", [len(gap), int((gap > 0).sum())], [seen["checkpoints"], seen["won"]]
                )
            book.same(f"{at}.by", list(mine), [shown["earned"]["by_checkpoint"][str(c)] for c in names])
            book.same(f"{at}.steps", int(f["steps"][0]) * int(fired_kept.sum()), shown["gradient_steps"])
            book.same(f"{at}.n_defined", int(kept.sum()), shown["n_defined"])
            for way in ("away", "toward"):
                book.same(f"{at}.{way}", d[fired_kept & (part["d"] == way)].sum(), shown["by_direction"][way])
            basics.ranking(part, signal[kept], d, book, at, shown)
            basics.proxies(part, signal[kept], d, book, at, shown, (signal[~retained], signal[retained]))
            ends = shown["endpoint"]
            basics.endpoint(part, fired_kept, d, book, f"{at}.endpoint", ends["leave_one_checkpoint_out"])
            controls(f, fired, delta, kept, book, at, shown)
            loose = running(f, signal)
            basics.endpoint(part, loose[kept], d, book, f"{at}.running.endpoint", ends["running_quantile"])
            seen, mine = shown["running_quantile"], totals(loose[kept])
            running_rest(part, loose[kept], d, mine, rivals, book, f"{at}.running", seen)
            book.same(
                f"{at}.running",
                [d[loose[kept]].sum(), int(loose[kept].sum())],
                [seen["policy_total"], seen["fires"]],
            )
            book.same(f"{at}.running.earned", t_interval(mine), seen["earned"]["student_t"])
            orders = [math.factorial(len(np.unique(f["c"]))), True]
            book.same(
                f"{at}.running.swapped",
                [*swapped(f, loose, delta, kept), *orders],
                [seen["swapped"][key] for key in ("p", "mean", "orders", "exact")],
            )
            given_position(part, signal[kept], d, book, f"{at}.given_position", shown["given_position"])
            book.same(
                f"{at}.swapped",
                [*swapped(f, fired, delta, kept), *orders],
                [shown["swapped"][key] for key in ("p", "mean", "orders", "exact")],
            )


def check_families(scores, means, candidates, book):
    """Holm over the means, and over candidates x tasks x arms, from the printed p values of all.

    Candidates that can not be read, detectors without their streams, count as if they had p = 1.
    """
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
        book.same(f"{place}.family", len(means), scores[place]["judgement"]["family"])
        book.same(f"{place}.more", needed, scores[place]["judgement"]["more_checkpoints"])
    for side in ("triggers", "triggers_all_attempted"):
        for test in ("random", "random_shift", "swapped", "better_of_both", "position_table"):
            p_values = {}
            for place, score in scores.items():
                for name, one in score[side].items():
                    if one["standing"] != "candidate":
                        continue
                    if test in ("better_of_both", "position_table"):
                        gain = one["gains"][test]
                        p_values[place, name] = max(gain["p_student_t"], gain["p_sign_flip"])
                    else:
                        p_values[place, name] = one[test]["p"]
            for (place, name), p in holm(p_values, len(candidates) * len(scores)).items():
                book.same(f"{place}.{side}.{name}.adjusted.{test}", p, scores[place][side][name]["adjusted"][test])
        for place, score in scores.items():
            for name, one in score[side].items():
                check_usefulness(one, book, f"{place}.{side}.{name}")


def check_usefulness(one, book, where):
    """From the printed adjusted p values and gains."""
    adjusted, gains = one["adjusted"], one["gains"]
    passes = adjusted["random"] < 0.05 and adjusted["random_shift"] < 0.05
    book.same(f"{where}.passes_control", passes, one["passes_control"])
    if one["useful"] is None:
        return
    missed = []
    for test in ("random", "random_shift", "swapped", "better_of_both", "position_table"):
        gain = gains[test]["mean"] if test in gains else 1.0
        missed += [] if adjusted[test] < 0.05 and gain > 0 else [test]
    book.same(
        f"{where}.useful", [not missed, missed], [one["useful"]["useful"], list(one["useful"]["does_not_beat"])]
    )


def main():
    named = Path(sys.argv[1] if len(sys.argv) > 1 else "results/corrected")
    with opened(named) as study:
        ledger = read(study)
        registered = json.loads((study / "registration.json").read_text())["registration"]
    if reason := not_repeatable(ledger, registered):
        print(f"{named} can not be computed again here: {reason}")
        return 2
    command = [sys.executable, "-m", "worldfork.cli.main", "score", str(named), "--json"]
    printed = Watched(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout))
    scores = {(arm, task): score for arm, one in printed["arms"].items() for task, score in one["tasks"].items()}
    book, means = Ledger(), {}
    for arm, tasks in ledger.items():
        for task, columns in tasks.items():
            where, before = f"{arm} {task}", book.compared
            means[arm, task] = judge(columns, book, where, scores[arm, task])
            check_task(columns, book, where, scores[arm, task])
            print(f"{where}: {book.compared - before} figures", flush=True)
    candidates = registered["scoring"].get("triggers", PAPERS_CANDIDATES)
    check_families(scores, means, candidates, book)
    for (arm, task), score in scores.items():
        book.same(f"{arm} {task}.candidates", len(candidates), score["candidates"])
        missing = [name for name in candidates if name not in score["triggers"]]
        for name in missing:
            reason = score["triggers_unavailable"].get(name, "")
            book.same(f"{arm} {task}.{name} is missing", True, "stream" in reason)
    for pair in printed["contrasts"]:
        first, second = (ledger[name] for name in pair.split(" - "))
        for task in printed["contrasts"][pair]:
            for side in ("all_attempted", "retained"):
                arms = (first[task], second[task])
                kept = [retained_forks(f) if side == "retained" else np.ones(len(f["k"]), bool) for f in arms]
                shown = printed["contrasts"][pair][task][side]
                basics.contrast(*arms, kept, book, f"{pair} {task} {side}", shown)
    check_doses(ledger, registered, printed.get("doses", {}), book)
    check_noises(ledger, registered, printed.get("noises", {}), scores, book)
    for where, mine, theirs in book.wrong:
        print(f"DIFFERS {where}: recomputed {mine}, printed {theirs}")
    print(f"{book.compared - len(book.wrong)} of {book.compared} figures agree")
    seen = _kinds(printed.seen)
    # A whole record that is undefined of one trigger is a leaf there, and a branch of another.
    missed = [
        kind
        for kind in sorted(_kinds(printed.leaves()) - seen)
        if not any(one.startswith(f"{kind}.") for one in seen)
    ]
    unexplained = [kind for kind in missed if not any(kind.startswith(known) for known in NOT_REPEATED)]
    for kind in unexplained:
        print(f"NOT COMPARED {kind}")
    return int(bool(book.wrong or unexplained))


def not_repeatable(ledger, registered):
    """Why this program does not fit a study, or nothing."""
    numbers = {len(np.unique(columns["c"])) for tasks in ledger.values() for columns in tasks.values()}
    if not numbers <= set(ENUMERATED):
        return (
            f"it has {sorted(numbers)} checkpoints a task. With {ENUMERATED[0]} to {ENUMERATED[-1]} every test"
            " lists all of its patterns; with more the desk draws them, with fewer some are undefined."
        )
    if registered["scoring"]["divergence_fraction"] != RULE:
        return f"its rule of divergence is not the paper's, {RULE}."
    if len(registered["grid"]["update_seeds"]) > 1:
        return "it has several draws of each update."
    if registered.get("deployment"):
        return "it follows policies."
    return None


def _kinds(paths):
    """Figures by what they are: the same one of every arm, task, trigger, checkpoint and place in a list."""
    return {".".join(_parts(path)) for path in paths}


def _parts(path):
    for index, part in enumerate(path):
        before = path[index - 1] if index else None
        of_policies = before == "earned" and str(path[index - 2]).startswith("policies")
        second = index == 2 and path[0] in ("contrasts", "doses", "noises")  # a task, or a group of arms
        named = before in NAMED or of_policies or second or isinstance(part, int)
        yield "*" if named else part


if __name__ == "__main__":
    sys.exit(main())
