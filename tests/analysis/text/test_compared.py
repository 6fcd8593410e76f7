"""Several pairs of arms in a few sentences: who differs, who does not, and who was shown to be equivalent."""

import pytest
from swept import GRID, arms, scored

from worldfork.analysis.present.text.arms import PairSummary, contrast_headlines, summarise_pairs

MORE = "Updates are worth more with {} than with {} on walker (leaning): +{} return per episode."


def pair(later, earlier, *, size=None):
    """A pair of which the later arm is worth more by `size`, or can not be told apart."""
    sentence = "Alike." if size is None else MORE.format(later, earlier, size)
    return PairSummary(later, earlier, sentence, ["walker"], {} if size is None else {"walker": f"+{size}"})


def test_arms_that_differ_alike_share_a_sentence_where_they_are_many():
    few = [pair(arm, "paper", size=1) for arm in "abc"]
    assert contrast_headlines(few) == [one.sentence for one in few]
    many = [pair("e", "paper"), *(pair(arm, "paper", size=1) for arm in "abcd")]
    assert contrast_headlines(many) == [
        "Updates are worth more with a, b, c and d than with paper on walker (leaning).",
        "The difference is unresolved on every task: e less paper.",
    ]


def test_pairs_of_several_sweeps_stay_in_their_order_and_name_both_arms():
    """What was registered comes first, whether or not it differs."""
    pairs = [pair("many", "few"), pair("gentle-many", "gentle-few", size=3), pair("most", "few")]
    assert contrast_headlines(pairs) == [
        "The difference is unresolved on every task: many and most less few.",
        MORE.format("gentle-many", "gentle-few", 3),
    ]


def test_many_pairs_of_several_sweeps_share_a_sentence_for_each_sweep():
    pairs = [pair(f"{rate}{arm}", f"{rate}0", size=1) for rate in ("", "gentle-") for arm in "12"]
    assert contrast_headlines(pairs) == [
        "Updates are worth more with 1 and 2 than with 0 on walker (leaning).",
        "Updates are worth more with gentle-1 and gentle-2 than with gentle-0 on walker (leaning).",
    ]


PREDICTED = """
[[predictions]]
name = "alike"
arm = "{arm}"
against = "{against}"
task = "cartpole-swingup"
equivalent_within = {margin}
"""
TWO = arms(pinned="", forward='evaluation = { mode = "forward" }')


@pytest.mark.parametrize(("arm", "against"), [("forward", "pinned"), ("pinned", "forward")])
def test_arms_that_are_equivalent_as_predicted_are_said_to_be(tmp_path, arm, against):
    authored = GRID + TWO + PREDICTED.format(arm=arm, against=against, margin=20.0)
    found = scored(tmp_path / "study", authored, lambda arm, checkpoint: 5.0 + (arm == "forward") * checkpoint / 10)
    assert contrast_headlines(summarise_pairs(found)) == [
        "Equivalent within ±20 return per episode on cartpole-swingup, as predicted: forward and pinned."
    ]


def test_equivalent_arms_of_which_one_is_a_little_better_have_both_sentences(tmp_path):
    authored = GRID + TWO + PREDICTED.format(arm="forward", against="pinned", margin=20.0)
    found = scored(
        tmp_path / "study", authored, lambda arm, checkpoint: 5.0 + (arm == "forward") * (3 + checkpoint / 9)
    )
    (summary,) = summarise_pairs(found)
    assert summary.margin == 20.0
    assert contrast_headlines([summary])[1] == (
        "Within that margin forward less pinned is +3.06 [+2.35, +3.76] on cartpole-swingup (leaning)."
    )


def test_a_margin_that_was_not_shown_leaves_the_difference_alone(tmp_path):
    authored = GRID + TWO + PREDICTED.format(arm="forward", against="pinned", margin=0.01)
    found = scored(tmp_path / "study", authored, lambda arm, checkpoint: 5.0 + (arm == "forward") * checkpoint / 10)
    (summary,) = summarise_pairs(found)
    assert summary.margin is None
    assert contrast_headlines([summary]) == [summary.sentence]
