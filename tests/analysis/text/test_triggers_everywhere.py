"""Candidate triggers over all tasks and arms: which are useful, and how many come near."""

import dataclasses

import polars as pl

import worldfork as wf
from worldfork.analysis.present.text.triggers import triggers_everywhere


def scored(delta, *, signal=None, checkpoints=5):
    """The score of one task with dR by checkpoint and decision point; HOLD returns 100."""
    rows = [
        {"checkpoint": c, "k": k, "r_hold": 100.0, "r_update": 100.0 + delta(c, k)}
        | ({} if signal is None else {"signal_alarm": signal(c, k)})
        for c in range(checkpoints)
        for k in range(1, 7)
    ]
    ((task,),) = [list(arm.tasks.values()) for arm in wf.score(pl.DataFrame(rows), permutations=199).arms.values()]
    return task


def test_triggers_are_counted_over_all_tasks_and_arms():
    """A signal that is dR itself beats chance; the schedule knows as much, so it is not useful."""
    knowing = scored(lambda c, k: 10.0 * (k - 3), signal=lambda c, k: float(k))
    ignorant = scored(lambda c, k: 10.0 * (k - 3), signal=lambda c, k: float(c))
    said = triggers_everywhere({"a": knowing, "b": ignorant})
    assert said == "None of 1 candidate is useful in any of the 2 cases below. Some beat chance in 1 of them."
    assert triggers_everywhere({"a": ignorant}).endswith("None beats chance in any of them.")
    assert triggers_everywhere({"a": scored(lambda c, k: 1.0 + c)}) == ""


def test_triggers_that_earn_more_than_never_and_always_are_counted_though_none_is_useful():
    more = scored(lambda c, k: (10.0 + 0.1 * c) * (k - 3), signal=lambda c, k: float(k), checkpoints=8)
    assert triggers_everywhere({"a": more, "b": more}) == (
        "None of 1 candidate is useful in any of the 2 cases below. "
        "Some beat chance in both, and the better of never and always in both."
    )


def test_a_useful_trigger_is_named_with_where_it_is_useful():
    task = scored(lambda c, k: 10.0 * (k - 3), signal=lambda c, k: float(k))
    figures = task.triggers.all_attempted["alarm"]
    useful = dataclasses.replace(figures, useful=dataclasses.replace(figures.useful, useful=True))
    better = dataclasses.replace(task, triggers=dataclasses.replace(task.triggers, all_attempted={"alarm": useful}))
    assert (
        triggers_everywhere({"slow · walker": better, "fast · walker": task}) == "Useful: alarm on slow · walker."
    )
