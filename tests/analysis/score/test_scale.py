"""What stands beside a mean: its size, how often it helps, the arms' grades, and all tasks together."""

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

import worldfork as wf
from worldfork.analysis.score.undefined import Undefined


def table(shift=0.0, *, tasks=("a", "b"), checkpoints=6):
    """dR is known: task a gains 10 + checkpoint + shift at HOLD 100, task b loses 20 + checkpoint at 200."""
    rows = [
        {
            "task": task,
            "checkpoint": checkpoint,
            "k": k,
            "r_hold": 100.0 if task == "a" else 200.0,
            "r_update": (110.0 + checkpoint if task == "a" else 180.0 - checkpoint) + shift,
            "clean_return": 400.0,
        }
        for task in tasks
        for checkpoint in range(checkpoints)
        for k in (1, 2)
    ]
    return pl.DataFrame(rows)


def test_a_mean_is_held_against_the_frozen_and_the_clean_return():
    score = wf.score(table(), permutations=20)
    shown = score["a"].scale
    assert (shown.frozen, shown.clean) == (100.0, 400.0)
    assert shown.of_frozen == pytest.approx(0.125)
    assert shown.of_clean == pytest.approx(12.5 / 400)
    assert isinstance(
        wf.score(table().with_columns(r_hold=-pl.col("r_hold")), permutations=20)["a"].scale.of_frozen, Undefined
    )


def test_the_share_that_helped_is_averaged_over_checkpoints():
    frame = table(tasks=("a",)).with_columns(
        r_update=pl.when((pl.col("checkpoint") == 0) & (pl.col("k") == 1)).then(90.0).otherwise("r_update")
    )
    share = wf.score(frame, permutations=20)["a"].helped
    assert share.share == pytest.approx((0.5 + 5) / 6)
    assert (share.low, share.high, share.forks, share.of) == (0.5, 1.0, 11, 12)


def test_all_tasks_together_weigh_alike_and_have_welchs_interval():
    score = wf.score(table(), permutations=20)
    found = score.arms[""].normalised
    means = {"a": 10 + np.arange(6.0), "b": -20 - np.arange(6.0)}
    shares = {"a": 12.5 / 100, "b": -22.5 / 200}
    assert found.tasks == pytest.approx(shares)
    assert found.share == pytest.approx(sum(shares.values()) / 2)
    errors = [means["a"].std(ddof=1) / math.sqrt(6) / 100, means["b"].std(ddof=1) / math.sqrt(6) / 200]
    freedom = (errors[0] ** 2 + errors[1] ** 2) ** 2 / (errors[0] ** 4 / 5 + errors[1] ** 4 / 5)
    half = stats.t.ppf(0.975, freedom) * math.hypot(*errors) / 2
    assert found.interval.high - found.share == pytest.approx(half)
    assert isinstance(wf.score(table(tasks=("a",)), permutations=20).arms[""].normalised, Undefined)


def contrasts(forks):
    """Return every contrast of all attempted forks, over arms and tasks."""
    score = wf.score(forks, permutations=20)
    return [sides.all_attempted for tasks in score.contrasts.values() for sides in tasks.values()]


def test_the_difference_of_arms_is_graded_over_all_differences():
    """Six checkpoints that all gain resolve one difference, and not two: .03125 doubled is above .05."""
    both = [
        table(shift, tasks=tasks).with_columns(arm=pl.lit(arm))
        for arm, shift in (("x", 0.0), ("y", 50.0))
        for tasks in (("a",),)
    ]
    noisy = pl.concat(both).with_columns(
        r_update=pl.col("r_update") + pl.when(pl.col("arm") == "y").then(pl.col("checkpoint")).otherwise(0)
    )
    (one,) = contrasts(noisy)
    assert (one.grade, one.family, one.adjusted_sign_flip) == ("resolved", 1, 0.03125)
    second = noisy.with_columns(task=pl.lit("b"))
    both_tasks = contrasts(pl.concat([noisy, second]))
    assert {(one.grade, one.family, one.adjusted_sign_flip) for one in both_tasks} == {("leaning", 2, 0.0625)}
