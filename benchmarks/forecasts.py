"""What the one-step ledger says of policies that were followed: how many it misses, and how well it orders them.

    python benchmarks/forecasts.py results/which-policy-cartpole

*Missed* are policies whose outcome is resolved to differ from the ledger's value, with the least and the largest
difference in return per episode. Decision k comes after episode k, so no episode of a deployment follows the last
decision. The score's value counts all decisions; *without the last* leaves that one out of the same sum.

*Order* is the rank correlation with the outcome. Beside the ledger's stands that of a count, which looks at no fork
by itself: the fires on the frozen stream times the mean dR of the update over all its forks. The difference has a
percentile interval over resampled checkpoints. The rows of one update leave out policies that never fired.

Below the table stand the policies whose difference excludes 0 when the last decision is left out.
"""

import argparse
import dataclasses

import numpy as np
from scipy import stats

from worldfork.analysis.read.study import read_deployments, read_rows, study_table
from worldfork.analysis.score import intervals, sign_flips, verdicts
from worldfork.analysis.score.thresholds import decisions_on
from worldfork.analysis.score.verdicts import adjust
from worldfork.ledger.closed_loop import THRESHOLDS, Thresholds, policy_of
from worldfork.ledger.documents import check, read_json
from worldfork.ledger.store import Study

HEADS = ("Task", "policies", "missed", "without the last", "order: ledger", "count", "ledger less count, 95%")
RESAMPLES = 2_000


@dataclasses.dataclass(frozen=True)
class Compared:
    """A task; arrays are policies x checkpoints, and never is the first policy."""

    names: tuple[str, ...]
    arms: np.ndarray  # whose update each policy fires
    followed: np.ndarray  # what an episode returned over never
    ledger: np.ndarray
    without_last: np.ndarray
    fires: np.ndarray  # on the frozen stream
    update: np.ndarray  # mean dR of the policy's update over all forks
    silent: np.ndarray  # never fired, here or there


def main() -> None:
    parser = argparse.ArgumentParser(description="What the one-step ledger says of policies that were followed.")
    parser.add_argument("studies", nargs="+")
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    differing = []
    for study in parser.parse_args().studies:
        for task, one in compared(Study(study)).items():
            parted = [one.followed - said for said in (one.ledger, one.without_last)]
            graded = [grades(differences, task) for differences in parted]
            groups = {"all": np.ones(len(one.arms), bool)}
            groups |= {arm: (one.arms == arm) & ~one.silent for arm in dict.fromkeys(one.arms)}
            for name, some in groups.items():
                sizes = [
                    spread(differences.mean(axis=1)[(grade == "resolved") & some])
                    for differences, grade in zip(parted, graded, strict=True)
                ]
                print(f"| {task}, {name} | {some.sum()} | {' | '.join([*sizes, *orders(one, some)])} |")
            for name, own, grade in zip(one.names, parted[1], graded[1], strict=True):
                if grade != "unresolved":
                    low, high = intervals.student_t(own)
                    differing.append(f"{task}, {name}: {own.mean():+.1f} [{low:+.1f}, {high:+.1f}], {grade}")
    print("\nFollowed less the ledger's value without the last decision, Student-t 95%:", *differing, sep="\n")


def compared(study: Study) -> dict[str, Compared]:
    """Every task of a study with deployments."""
    forks_of, found = study_table(study, read_rows(study)).arms, {}
    path, registered = study.path / THRESHOLDS, study.registration
    thresholds = check(read_json(path), Thresholds, where=f"`{path}`")
    for task, one in read_deployments(study).items():
        owner = np.array([cell.checkpoint for cell in one.cells])
        mean = np.array([owner == name for name in dict.fromkeys(owner)], float)
        mean /= mean.sum(axis=1, keepdims=True)
        values = []
        for name in one.policies:
            forks = forks_of[one.arms[name]][task]

            def policy_at(own, name=name, task=task):
                return policy_of(registered, name, threshold=thresholds.of(name, task, own))

            _, fired = decisions_on(forks.prefork, policy_at, seed=registered.seed)
            order = [forks.prefork.cells.index(cell) for cell in one.cells]
            fired, delta = (flat.reshape(len(order), -1)[order] for flat in (fired, forks.delta))
            earned = np.where(fired, delta, 0.0) / delta.shape[1]
            sums = (earned.sum(axis=1), earned[:, :-1].sum(axis=1), fired.sum(axis=1), delta.mean(axis=1))
            values.append([mean @ cells for cells in sums])
        ledger, without_last, fires, update = np.array(values).swapaxes(0, 1)
        found[task] = Compared(
            names=one.policies,
            arms=np.array([one.arms[name] for name in one.policies]),
            followed=(one.returns - one.returns[one.policies.index("never")]).mean(axis=2) @ mean.T,
            ledger=ledger,
            without_last=without_last,
            fires=fires,
            update=update,
            silent=~(fires.any(axis=1) | one.fired.any(axis=(1, 2))),
        )
    return found


def grades(differences: np.ndarray, task: str) -> np.ndarray:
    """The grade of each policy's mean difference, after Holm's adjustment over all policies but never."""
    rest = range(1, len(differences))
    by_t = adjust({i: sign_flips.student_p(differences[i]) for i in rest}, rest)
    by_flips = adjust({i: sign_flips.sign_flip_p(differences[i], seed=0, task=task) for i in rest}, rest)
    found = [
        verdicts.grade_of(differences[i], adjusted_student_p=by_t[i], adjusted_sign_flip_p=by_flips[i])
        for i in rest
    ]
    return np.array(["unresolved", *found])


def spread(differences: np.ndarray) -> str:
    """How many there are, and between which sizes."""
    sizes = np.abs(differences)
    return f"{len(sizes)}: {sizes.min():.0f} to {sizes.max():.0f}" if len(sizes) else "0"


def orders(one: Compared, some: np.ndarray) -> list[str]:
    """The rank correlations of ledger and count over some policies, and their difference with its interval."""
    count = one.ledger.shape[1]
    draws = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    by_ledger, by_count = np.array([correlations(one, some, drawn) for drawn in [np.arange(count), *draws]]).T
    low, high = np.percentile((by_ledger - by_count)[1:], [2.5, 97.5])
    return [
        f"{by_ledger[0]:+.2f}",
        f"{by_count[0]:+.2f}",
        f"{by_ledger[0] - by_count[0]:+.2f} [{low:+.2f}, {high:+.2f}]",
    ]


def correlations(one: Compared, some: np.ndarray, drawn: np.ndarray) -> list[float]:
    """Spearman's correlation of the ledger's values and of the counts with the outcome, over these checkpoints."""
    followed, ledger, fires, update = (
        values[some][:, drawn].mean(axis=1) for values in (one.followed, one.ledger, one.fires, one.update)
    )
    return [float(stats.spearmanr(said, followed).statistic) for said in (ledger, fires * update)]


if __name__ == "__main__":
    main()
