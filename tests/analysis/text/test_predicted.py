"""What became of what was said beforehand: counted, and a null said as one."""

import dataclasses

import pytest

from worldfork.analysis.present.text.answers import predicted_digits, predictions_answered
from worldfork.analysis.score.predictions import answer
from worldfork.analysis.score.undefined import Interval
from worldfork.registration.schema import Prediction, Premise

SAID = {
    "held": {"falsified_below": 0.0},
    "falsified": {"falsified_above": 0.0},
    "unresolved": {"between": (2.0, 40.0)},
    "not tested": {"falsified_below": 0.0, "premise": Premise(figure="clean_return", above=650.0)},
    "equivalent": {"equivalent_within": 20.0},
    "nearly": {"equivalent_within": 9.5},
}


def answered(*names):
    means = {str(index): 1.5 + index for index in range(5)}  # 3.5 in the mean, 1.5 to 5.5
    effect = {"all_attempted": {"mean": 3.5, "student_t": Interval(1.5, 5.5), "by_checkpoint": means}}
    tree = {"effect": effect, "clean_return": 100.0}
    return [answer(Prediction(name=name.replace(" ", "-"), task="t", **SAID[name]), tree) for name in names]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ((), ""),
        (("held",), "Registered predictions: 1 held."),
        (
            ("held", "unresolved", "not tested", "not tested", "held", "falsified"),
            "Registered predictions: 2 held, 1 falsified, 1 unresolved, 2 not tested.",
        ),
        (("equivalent",) * 3, "Registered predictions: 3 held (equivalent within ±20)."),
        (("equivalent", "nearly"), "Registered predictions: 2 held (equivalent within their margins)."),
        (("equivalent", "held"), "Registered predictions: 2 held."),  # not all of it is a null
        (("equivalent", "unresolved"), "Registered predictions: 1 held, 1 unresolved."),
    ],
)
def test_predictions_are_counted_by_what_they_came_to(names, sentence):
    assert predictions_answered(answered(*names)) == sentence


@pytest.mark.parametrize(
    ("value", "interval", "digits"),
    [(0.946, Interval(0.919, 0.955), 2), (0.4, Interval(-3.0, 3.8), 1), (1.2, Interval(1.1, 1.3), 1)],
)
def test_a_correlation_has_two_decimals_where_returns_have_one(value, interval, digits):
    one = dataclasses.replace(answered("held")[0], value=value, interval=interval)
    assert predicted_digits(one, 1) == digits
    assert predicted_digits(one, 3) == 3
