"""Do the intervals of a deployment cover the value of a policy that is known? By repetition, with its own error.

    python benchmarks/deployment.py                    # 500 repetitions of 5 checkpoints each, some minutes
    python benchmarks/deployment.py --repetitions 40   # a look

In the linear-quadratic world the expected return of every episode is known in closed form, given the parameters
along the path. A policy's value is the mean of that over checkpoints and streams. Each repetition follows all
policies on checkpoints and streams of its own and asks of each: does the 95% Student-t interval over its
checkpoints, of the paired difference with never, contain the policy's value? The value is taken from all other
repetitions. The policy `residual` has thresholds that are fitted on the one-step forks of the repetition's other
checkpoints.
"""

import argparse
import json
import math

import numpy as np
from rich.console import Console
from rich.progress import track

from worldfork.desk.scoring.intervals import student_t
from worldfork.desk.scoring.policies import fit_threshold
from worldfork.desk.scoring.ties import tied
from worldfork.desk.scoring.undefined import Undefined
from worldfork.lab.tools.policy_values import PolicyValues, follow, one_step_rows
from worldfork.ledger.deployment import Thresholds
from worldfork.registration import Registration, parse
from worldfork.triggers.policy import spelled

TOGETHER = 100  # checkpoints that are computed together


def registration(first: int, count: int, *, points: int = 8, block: int = 200, scale: float = 4.0) -> Registration:
    """Checkpoints `first` to `first` + `count` of the linear-quadratic world, under five policies."""
    return parse(
        f"""
schema = "worldfork.registration/1"
name = "coverage"
[grid]
tasks = ["linear_quadratic"]
checkpoints = {list(range(first, first + count))}
directions = ["away"]
[stream]
decision_points = {points}
drift_period = 300
[evaluation]
episodes = 6
[mechanism]
steps = 50
window = 200
[execution]
forks_per_block = {block}
streams_per_batch = 100
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = {scale}
precision = "float64"
[deployment]
evaluate_at = [{points // 2}, {points}]
episodes = 6
[deployment.policies.periodic]
trigger = "periodic"
settings = {{period = 4}}
[deployment.policies.residual]
trigger = "residual"
threshold = "fitted"
[deployment.policies.running]
trigger = "residual"
threshold = "running"
rate = 0.3
[deployment.policies.random]
trigger = "random"
rate = 0.5
"""
    )


def fitted(registered: Registration, checkpoints: int) -> Thresholds:
    """The thresholds of `residual`: for each checkpoint, on the forks of the other ones of its repetition."""
    rows = {cell.checkpoint: of for cell, of in one_step_rows(registered).items()}
    found = {}
    for checkpoint in rows:
        group = checkpoint // checkpoints
        others = [
            row for other in rows if other // checkpoints == group and other != checkpoint for row in rows[other]
        ]
        signal = tied(np.array([row.signals["residual"] for row in others], dtype=np.float64))
        delta = np.array([row.delta for row in others], dtype=np.float64)
        found[str(checkpoint)] = spelled(fit_threshold(signal, delta))
    return Thresholds(policies={"residual": {"linear_quadratic": found}})


def repeat(repetitions: int, checkpoints: int, *, points: int, scale: float) -> list[PolicyValues]:
    """All repetitions, some at a time."""
    together = max(1, TOGETHER // checkpoints)
    parts = []
    console = Console(stderr=True)
    for first in track(range(0, repetitions, together), "following", console=console, transient=True):
        count = min(together, repetitions - first)
        registered = registration(first * checkpoints, count * checkpoints, points=points, scale=scale)
        parts.append(follow(registered, thresholds=fitted(registered, checkpoints)))
    return parts


def covered(measured: np.ndarray, known: np.ndarray) -> dict[str, float]:
    """How often the interval over a repetition's checkpoints holds the value. Axes: repetitions, checkpoints."""
    hits = 0
    for index, values in enumerate(measured):
        interval = student_t(values)
        assert not isinstance(interval, Undefined)
        value = (known.sum() - known[index].sum()) / (known.size - known[index].size)
        hits += interval.low <= value <= interval.high
    share = hits / len(measured)
    off = (measured - known).reshape(-1)
    return {
        "value": float(known.mean()),
        "value_error": float(known.std(ddof=1) / math.sqrt(known.size)),
        "measured": float(measured.mean()),
        "coverage": share,
        "coverage_error": math.sqrt(share * (1 - share) / len(measured)),
        "off_by_standard_errors": float(off.mean() / (off.std(ddof=1) / math.sqrt(off.size))) if off.any() else 0.0,
    }


def summary(parts: list[PolicyValues], checkpoints: int) -> dict[str, dict[str, dict[str, float]]]:
    """Both outcomes of every policy but never."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    names = parts[0].policies
    never = names.index("never")
    for outcome, (measured, known) in {
        "deployment": ("returned", "expected"),
        "evaluation": ("evaluated", "expected_evaluated"),
    }.items():
        columns = [np.concatenate([getattr(part, name) for part in parts], axis=1) for name in (measured, known)]
        for index, name in enumerate(names):
            if index != never:
                over = [(column[index] - column[never]).reshape(-1, checkpoints) for column in columns]
                found.setdefault(name, {})[outcome] = covered(*over)
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--repetitions", type=int, default=500)
    options.add_argument("--checkpoints", type=int, default=5)
    options.add_argument("--segments", type=int, default=8)
    options.add_argument("--drift-scale", type=float, default=4.0, help="2 is milder: returns are less skewed")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    parts = repeat(given.repetitions, given.checkpoints, points=given.segments, scale=given.drift_scale)
    found = summary(parts, given.checkpoints)
    if given.json:
        print(json.dumps(found))
        return
    updates = np.concatenate([part.updates for part in parts], axis=1).mean(axis=1)
    print(f"{given.repetitions} repetitions of {given.checkpoints} checkpoints; advantage over never, per episode")
    heads = f"{'policy':<10}{'updates':>8}  {'outcome':<11}{'value':>9}{'s.e.':>8}{'measured':>10}{'off by':>10}"
    print(f"{heads}{'coverage':>16}")
    for name, outcomes in found.items():
        for outcome, one in outcomes.items():
            share = f"{one['coverage']:.1%} +- {1.96 * one['coverage_error']:.1%}"
            print(
                f"{name:<10}{updates[parts[0].policies.index(name)]:>8.1f}  {outcome:<11}{one['value']:>9.4f}"
                f"{one['value_error']:>8.4f}{one['measured']:>10.4f}{one['off_by_standard_errors']:>+7.2f} se"
                f"{share:>16}"
            )


if __name__ == "__main__":
    main()
