"""Figures of the score, computed again from the raw rows by code that shares nothing with the analysis.

    python benchmarks/recompute.py                    # results/corrected
    python benchmarks/recompute.py results/scope

Reads cells/*/forks.jsonl and cells/*/cell.json itself, knows numpy and Student's t, and compares with what
`worldfork score STUDY --json` prints. Seeded draws (the random and the shifted control) are not repeated; their
printed p values are adjusted again, and the mean of each null is compared with its closed form. With more
checkpoints than the analysis lists all patterns of, what it draws is compared within the error of drawing
(`recompute_drawn.py`). Detectors are not run again: they need the streams. It exits with 1 where a figure differs,
and where a figure is printed that nothing here looked at and NOT_REPEATED does not excuse.
"""

import contextlib
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
from recompute_basics import LISTED_SIGNS, flip_p, t_interval, t_p
from recompute_deployments import check_deployments
from recompute_drawn import SIGN_PATTERNS, Near, near_share
from recompute_fits import components, contraction, counts, retained_forks, severities
from recompute_inference import check_contrasts, check_inference, check_normalised
from recompute_stopping import by_rule, check_stopping
from recompute_sweeps import check_doses, check_noises
from recompute_triggers import SIGNALS, triggers
from scipy import optimize, stats

FEWEST = 3  # checkpoints: with fewer some figures are undefined
LISTED_WEIGHTS, WILD_BELOW, ANYTIME_FROM = 6, 12, 8  # checkpoints
WEBB = [-math.sqrt(1.5), -1, -math.sqrt(0.5), math.sqrt(0.5), 1, math.sqrt(1.5)]
DETECTORS = ("adwin", "page_hinkley", "kswin", "conformal")
ALARMS = (*DETECTORS, "periodic")  # decisions already: no threshold of theirs is fitted
# Where a study registers none.
PAPERS_CANDIDATES = (*SIGNALS[:6], *DETECTORS)
NAMED = (
    *("arms", "tasks", "triggers", "triggers_all_attempted", "contrasts", "gains", "by_direction", "by_checkpoint"),
    *("by_direction_intervals", "drift_quartiles", "random_blocks", "auc_by_checkpoint", "standard_error_at"),
    *("doses", "noises", "signals", "deployment", "by_episodes", "proposed_by", "within"),
)
# What is not computed again, and why. Everything else that is printed must be, or this program fails.
SEEDED = "draws of the analysis' own generator: their mean is compared, within five standard errors"
NOT_REPEATED = {
    **{
        f"arms.*.tasks.*.{side}.*.{control}.{figure}": SEEDED
        for side in ("triggers", "triggers_all_attempted")
        for control in ("random", "random_shift", "random_blocks.*")
        for figure in ("interval", "p")
    },
    **{
        f"arms.*.tasks.*.{side}.*.{of}gains.*.refitted": "of candidates alone, which are compared"
        for side in ("triggers", "triggers_all_attempted")
        for of in ("running_quantile.",)
    },
    "arms.*.tasks.*.components.draw": "one draw of each update: undefined here",
    "arms.*.tasks.*.predictions": "figures that are compared where they stand, beside what was registered",
    "family": "what was registered, not a figure",
    "seeds": "copied from the pretraining's own record",
    "schema": "not a figure",
    "undefined": "reasons, not figures",
    "failed": "none: no return is missing",
    "warnings": "sentences, not figures",
    "deployment.*.cautions": "sentences, not figures",
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
        if (
            isinstance(mine, (str, bool))
            or mine is None
            or printed is None
            or (isinstance(mine, float) and math.isinf(mine))
        ):
            agree = mine == printed
        elif isinstance(mine, Near):
            slack = tolerance * max(1.0, abs(mine))
            agree = mine.low - slack <= printed <= mine.high + slack
        else:
            agree = abs(mine - printed) <= tolerance * max(1.0, abs(mine), abs(printed))
        if not agree:
            self.wrong.append((where, mine, printed))
        return None

    def by_name(self, where, mine, printed):
        """Compare figures that have names; the names must be the same, and are no figures."""
        if {str(name) for name in mine} != set(printed):
            return self.wrong.append((where, list(mine), list(printed)))
        return self.same(where, list(mine.values()), [printed[str(name)] for name in mine])

    def there(self, where, defined, printed):
        """Whether to look into a printed record: it must be there where it is defined, and nowhere else."""
        if not defined:
            self.same(where, None, printed)
        elif printed is None:
            self.wrong.append((where, "defined", None))
        return defined and printed is not None


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
    """Return the rows of a cell, as text."""
    return (folder / "forks.jsonl").read_text().splitlines()


def read(study):
    """arm -> task -> columns."""
    found, registered = {}, json.loads((study / "registration.json").read_text())["registration"]
    rule = registered["scoring"]["divergence_fraction"]
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
                "rule": math.nan if rule is None else rule,  # what no return lies below diverges nowhere
            }
            for name, value in entry.items():
                columns.setdefault(name, []).append(value)
    return {
        arm: {task: {name: values if name == "signals" else np.array(values) for name, values in columns.items()}
              for task, columns in tasks.items()}
        for arm, tasks in found.items()
    }  # fmt: skip


def webb_p(x):
    """All 6^n weights, or some where there are too many; the ratio |mean| / deviation."""
    if len(x) >= WILD_BELOW:
        return None
    if len(x) <= LISTED_WEIGHTS:
        return wild_share(x, np.array(list(itertools.product(WEBB, repeat=len(x)))))
    weights = np.random.default_rng(20_26).choice(WEBB, (SIGN_PATTERNS, len(x)))
    return near_share(wild_share(x, weights), SIGN_PATTERNS, SIGN_PATTERNS)


def wild_share(x, weights):
    drawn = weights * x
    spread = drawn.std(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(spread > 1e-9 * np.abs(drawn.mean(axis=1)), np.abs(drawn.mean(axis=1)) / spread, np.inf)
    return float(np.mean(ratio >= abs(x.mean()) / x.std(ddof=1) * (1 - 1e-9)))


def anytime(x):
    """The means that a mixture of likelihood ratios of Student's t does not reject at 20 to 1: the effect, in
    deviations, is normal with a deviation of 1 in the mixture."""
    n = len(x)
    if n < ANYTIME_FROM:
        return None

    def evidence(t):
        q = t * t / (n - 1)
        return -0.5 * math.log(1 + n) + n / 2 * (math.log(1 + q) - math.log(1 + q / (1 + n)))

    reach = optimize.brentq(lambda t: evidence(t) - math.log(20), 0.0, 1e6, xtol=1e-13, rtol=1e-14)
    half = reach * np.std(x, ddof=1) / math.sqrt(n)
    return [np.mean(x) - half, np.mean(x) + half]


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


def judge(f, book, where, score, rule=None):
    """The mean, its tests and what leaving one out does; returns the two p values. A study's own rule decides."""
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
    book.same(f"{where}.anytime", anytime(means), judged["anytime"])
    low, high = t_interval(means)
    verdict = "harmful" if high < 0 else "helpful" if low > 0 else "unresolved"
    book.same(f"{where}.verdict", (rule and rule[1]) or verdict, score["verdict"])
    return means


def check_task(f, book, where, score):
    """Everything of one task that needs no other task."""
    delta = f["update"] - f["hold"]
    retained, everything = retained_forks(f), np.ones(len(delta), bool)
    contraction(f, retained, book, f"{where}.contraction", score["contraction"])
    basics.bins_and_halves(f, retained, book, f"{where}.contraction", score["contraction"], where.split()[1])
    severities(f, book, where, score["severity"])
    components(f, book, where, score["components"])
    basics.design(f, book, f"{where}.design", score)
    basics.quartiles(f, retained, book, f"{where}.quartiles", score["drift_quartiles"])
    for name, kept in (("all_attempted", everything), ("retained", retained)):
        basics.effects(f, kept, book, f"{where}.effect.{name}", score["effect"][name])
        basics.directions(f, kept, book, f"{where}.directions.{name}", score["direction_contrast"][name])
    counts(f, delta, retained, book, where, score)
    clean = [f["clean"][f["c"] == one][0] for one in np.unique(f["c"])]
    book.same(
        f"{where}.clean",
        [np.mean(clean), *t_interval(clean)],
        [score["clean_return"]["mean"], *score["clean_return"]["student_t"]],
    )
    own = int(((f["hold"] > 0) & (f["update"] < f["rule"] * f["hold"])).sum())
    off = bool(np.isnan(f["rule"]).all())
    book.same(f"{where}.below_own_hold", None if off else own, score["forks"]["below_own_hold"])
    triggers(f, retained, book, where, score)


def check_families(ledger, scores, means, candidates, book, rules=None):
    """Holm over the means, and over candidates x tasks x arms, from the printed p values of all.

    Candidates that can not be read, detectors without their streams, count as if they had p = 1; so do those whose
    p is undefined, and it stays so.
    """
    for name, test in (("student_t", t_p), ("sign_flip", flip_p)):
        drawn = name == "sign_flip" and any(len(values) > LISTED_SIGNS for values in means.values())
        own = {place: test(values) for place, values in means.items()}
        shown = {place: scores[place]["judgement"][f"p_{name}"] for place in means}
        adjusted = holm(shown if drawn else own, len(means))
        for place, p in adjusted.items():
            book.same(f"{place}.adjusted_{name}", p, scores[place]["judgement"][f"adjusted_{name}"])
    for place, values in means.items():
        low, high = t_interval(values)
        resolved = all(scores[place]["judgement"][f"adjusted_{name}"] < 0.05 for name in ("student_t", "sign_flip"))
        grade = "unresolved" if low <= 0 <= high else "resolved" if resolved else "leaning"
        book.same(f"{place}.family", len(means), scores[place]["judgement"]["family"])
        if rule := (rules or {}).get(place):
            judged = scores[place]["judgement"]
            mine = [rule[0], 0 if rule[0] == "resolved" else None]
            book.same(f"{place}.grade", mine, [judged["grade"], judged["more_checkpoints"]])
            continue
        needed = 0 if grade == "resolved" else more(values, len(means))
        book.same(f"{place}.grade", grade, scores[place]["judgement"]["grade"])
        book.same(f"{place}.more", needed, scores[place]["judgement"]["more_checkpoints"])
    for side in ("triggers", "triggers_all_attempted"):
        for test in ("random", "random_shift", "swapped", "better_of_both", "position_table"):
            p_values = {}
            for place, score in scores.items():
                for name, one in score[side].items():
                    if one["standing"] != "candidate":
                        continue
                    if test in ("better_of_both", "position_table"):
                        gain = (one["gains"] or {}).get(test) or {}
                        both = [gain.get("p_student_t"), gain.get("p_sign_flip")]
                        p_values[place, name] = None if None in both else max(both)
                    else:
                        p_values[place, name] = (one[test] or {}).get("p")
            adjusted = holm({key: p for key, p in p_values.items() if p is not None}, len(candidates) * len(scores))
            for place, name in p_values:
                shown = scores[place][side][name]["adjusted"][test]
                book.same(f"{place}.{side}.{name}.adjusted.{test}", adjusted.get((place, name)), shown)
        for (arm, task), score in scores.items():
            forks = ledger[arm][task]
            scored = forks["c"] if side == "triggers_all_attempted" else forks["c"][retained_forks(forks)]
            for name, one in score[side].items():
                decides = name in ALARMS or len(np.unique(scored)) > 1
                check_usefulness(one, decides, book, f"{(arm, task)}.{side}.{name}")


def check_usefulness(one, decides, book, where):
    """From the printed adjusted p values and gains. A policy that decides nothing, since its threshold has no other
    checkpoint to come from, neither passes nor fails."""
    if not decides:
        return book.same(f"{where}.useful", [None, None], [one["passes_control"], one["useful"]])
    adjusted, gains = one["adjusted"], one["gains"]
    below = {test: p is not None and p < 0.05 for test, p in adjusted.items()}
    book.same(f"{where}.passes_control", below["random"] and below["random_shift"], one["passes_control"])
    missed = []
    for test in ("random", "random_shift", "swapped", "better_of_both", "position_table"):
        gain = gains[test]["mean"] if test in gains else 1.0
        low = 1.0  # of the gain with everything fitted anew, which a candidate has to beat too
        if test in gains and one["standing"] == "candidate":
            low = 0.0 if gains[test]["refitted"] is None else gains[test]["refitted"][0]
        missed += [] if below[test] and gain is not None and min(gain, low) > 0 else [test]
    return book.same(
        f"{where}.useful", [not missed, missed], [one["useful"]["useful"], list(one["useful"]["does_not_beat"])]
    )


def main():
    named = Path(sys.argv[1] if len(sys.argv) > 1 else "results/corrected")
    with opened(named) as study:
        return recompute(named, study)


def recompute(named, study):
    """Compare what is printed of the study that is called `named`, and lies in the folder `study`."""
    ledger = read(study)
    registered = json.loads((study / "registration.json").read_text())["registration"]
    if reason := not_repeatable(ledger, registered):
        print(f"{named} can not be computed again here: {reason}")
        return 2
    command = [sys.executable, "-m", "worldfork.cli.main", "score", str(named), "--json"]
    printed = Watched(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout))
    scores = {(arm, task): score for arm, one in printed["arms"].items() for task, score in one["tasks"].items()}
    book, means = Ledger(), {}
    candidates = registered["scoring"].get("triggers", PAPERS_CANDIDATES)
    for arm, tasks in ledger.items():
        for task, columns in tasks.items():
            where, before = f"{arm} {task}", book.compared
            rule = by_rule(printed.get("stopping"), task, arm)
            means[arm, task] = judge(columns, book, where, scores[arm, task], rule)
            check_task(columns, book, where, scores[arm, task])
            retained = retained_forks(columns)
            check_inference(columns, retained, book, where, scores[arm, task], candidates)
            print(f"{where}: {book.compared - before} figures", flush=True)
    rules = {place: by_rule(printed.get("stopping"), place[1], place[0]) for place in means}
    check_families(ledger, scores, means, candidates, book, rules)
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
    check_contrasts(printed, holm, more, book)
    if registered.get("stopping"):
        check_stopping(ledger, registered, printed["stopping"], book)
    check_normalised(ledger, printed, book)
    check_doses(ledger, registered, printed.get("doses", {}), book, printed.get("stopping"))
    check_noises(ledger, registered, printed.get("noises", {}), scores, book)
    if registered.get("deployment"):
        check_deployments(study, registered, ledger, printed["deployment"], holm, book)
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
    if min(numbers) < FEWEST:
        return f"it has {min(numbers)} checkpoints of a task; with fewer than {FEWEST} some figures are undefined."
    if len(registered["grid"]["update_seeds"]) > 1:
        return "it has several draws of each update."
    return None


def _kinds(paths):
    """Figures by what they are: the same one of every arm, task, trigger, checkpoint and place in a list."""
    return {".".join(_parts(path)) for path in paths}


def _parts(path):
    for index, part in enumerate(path):
        before = path[index - 1] if index else None
        of_policies = before in ("earned", "per_deployment") and str(path[index - 2]).startswith("policies")
        of_policies = of_policies or (before == "policies" and path[0] == "deployment")
        second = index == 2 and path[0] in ("contrasts", "doses", "noises")  # a task, or a group of arms
        named = before in NAMED or of_policies or second or isinstance(part, int)
        yield "*" if named else part


if __name__ == "__main__":
    sys.exit(main())
