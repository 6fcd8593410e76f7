"""Sentences on how far the frozen model had fallen: a crossing is claimed only where forks lie on both sides."""

import dataclasses

import pytest

from worldfork.analysis.present.page import gather
from worldfork.analysis.present.text.fallen import crossing_words, fallen_lead, severity_words
from worldfork.analysis.score.judgement import FreshSeverity, Severity
from worldfork.analysis.score.records import Bin
from worldfork.analysis.score.undefined import Interval, Undefined


@pytest.fixture(scope="module")
def score(tmp_path_factory):
    import ledgers

    path = ledgers.flat(tmp_path_factory.mktemp("fallen") / "t.parquet")
    return gather(path, permutations=20).score["cartpole"]


def banded(score, *means, half=10.0):
    """The score with a class of severity for each of these fresh means."""
    edges = [None, *[place / len(means) for place in range(1, len(means))], None]
    classes = tuple(
        Severity(
            low=low,
            high=high,
            forks=5,
            checkpoints=3,
            helped=1,
            mean=0.0,
            checkpoint_mean=0.0,
            student_t=Undefined("not asked"),
            fresh=FreshSeverity(
                mean=mean,
                student_t=Interval(mean - half, mean + half),
                forks_by_even=5,
                forks_by_odd=5,
                checkpoints=3,
            ),
        )
        for low, high, mean in zip(edges, edges[1:], means, strict=False)
    )
    return dataclasses.replace(score, severity=classes)


def test_the_most_and_the_least_fallen_models_are_named_with_fresh_means(score):
    told = banded(score, 200.0, 5.0, -100.0, -230.0)
    words = severity_words(told)
    assert "+200.0 [+190.0, +210.0] where the frozen model returns below 25% of its clean return" in words
    assert words.endswith("and -230.0 [-240.0, -220.0] where the frozen model returns 75% and more.")
    assert fallen_lead(told) == "It depends on how far the model has fallen."


def test_classes_that_overlap_do_not_say_that_it_depends(score):
    assert fallen_lead(banded(score, -20.0, -30.0)) == "By how far the model has fallen:"


def test_nothing_is_said_where_neither_end_has_an_effect(score):
    assert severity_words(banded(score, 3.0, -4.0)) == ""
    assert severity_words(dataclasses.replace(score, severity=Undefined("no clean return"))) == ""


@pytest.mark.parametrize(
    ("first", "last", "slope", "told"),
    [(50.0, -20.0, 0.5, True), (-5.0, -20.0, 0.5, False), (50.0, -20.0, 1.2, False)],
)
def test_a_crossing_is_told_where_forks_gained_below_and_lost_above(score, first, last, slope, told):
    bins = (Bin(low=None, high=300.0, forks=4, mean=first, standard_error=1.0),)
    bins += (Bin(low=300.0, high=None, forks=4, mean=last, standard_error=1.0),)
    fit = dataclasses.replace(
        score.contraction,
        slope_interval=Interval(0.1, slope),
        crossing=310.0,
        crossing_interval=Interval(300.0, 320.0),
        bins=bins,
    )
    words = crossing_words(dataclasses.replace(score, contraction=fit))
    assert bool(words) is told
    assert ("less than 310 [300, 320]" in words) is told
