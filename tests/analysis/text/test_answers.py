"""Advice and its certainty: never, always, when a signal says so, or not resolved, and how many more it takes."""

import dataclasses
import re

import numpy as np
import polars as pl
import pytest

import worldfork as wf
from worldfork.analysis.present.text.answers import answer, corrected
from worldfork.analysis.present.text.arms import contrast_summary
from worldfork.analysis.present.text.formatting import estimate
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.score.policies import usefulness
from worldfork.analysis.score.predictions import equivalence
from worldfork.analysis.score.records import PredictionAnswer
from worldfork.analysis.score.undefined import Estimands, Interval, Undefined


def score(delta, *, signal=None, checkpoints=8, points=12):
    """dR of every (checkpoint, k) by a function; HOLD returns 100."""
    rows = [
        {"checkpoint": c, "k": k, "r_hold": 100.0, "r_update": 100.0 + delta(c, k)}
        | ({} if signal is None else {"signal_alarm": signal(c, k)})
        for c in range(checkpoints)
        for k in range(1, points + 1)
    ]
    return wf.score(pl.DataFrame(rows), permutations=999)


def only(scored):
    ((figures,),) = [list(arm.tasks.values()) for arm in scored.arms.values()]
    return answer(figures)


@pytest.mark.parametrize(
    ("delta", "kind", "words", "certainty"),
    [
        (lambda c, k: -30.0 - c, "never", "Leave the model frozen.", "Resolved: the exact test gives p .008"),
        (lambda c, k: 30.0 + c, "always", "Update at every decision point.", "Resolved"),
        (lambda c, k: 10.0 * (-1) ** c + 1, "unresolved", "No advice yet.", "would resolve the mean of updating"),
    ],
)
def test_advice_follows_the_verdict(delta, kind, words, certainty):
    said = only(score(delta))
    assert (said.advice.kind, said.advice.what) == (kind, words)
    assert certainty in said.advice.certainty


def test_few_checkpoints_lean_and_say_how_many_more():
    said = only(score(lambda c, k: -30.0 - c, checkpoints=5))
    assert said.grade == "leaning"
    assert said.advice.what == "Rather leave the model frozen."
    assert (
        "5 checkpoints can not give an exact p below .0625; about 1 more checkpoint would" in said.advice.certainty
    )


@pytest.mark.parametrize(("checkpoints", "test"), [(16, "the exact test"), (17, "the sign-flip test")])
def test_a_test_is_called_exact_only_where_every_pattern_of_signs_is_listed(checkpoints, test):
    said = only(score(lambda c, k: 5.0 + (c % 3) + k % 2, checkpoints=checkpoints))
    assert said.advice.certainty.startswith(f"Resolved: {test} gives p <.001")


def test_a_registered_equivalence_that_was_met_is_the_verdict():
    scored = score(lambda c, k: 0.1 * ((-1) ** c))
    ((figures,),) = [list(arm.tasks.values()) for arm in scored.arms.values()]
    tested = equivalence(np.array([0.1, -0.1] * 4), margin=2.2)
    predicted = PredictionAnswer(
        **dict.fromkeys(("between", "falsified_below", "falsified_above", "against", "premise", "premise_value")),
        name="nothing-to-lose",
        figure="mean",
        equivalence=tested,
        value=0.0,
        interval=Undefined("not asked"),
        answer="held",
    )
    assert answer(figures).word == "Not resolved"
    said = answer(dataclasses.replace(figures, predictions=(predicted,)))
    assert (said.word, said.equivalent) == ("Equivalent to not updating within ±2.2", 2.2)
    assert said.advice.what == "Updating or not makes no difference that counts."
    assert "reject (p <.001) that the mean lies outside the registered ±2.2" in said.advice.certainty
    unmet = dataclasses.replace(predicted, answer="unresolved")
    assert answer(dataclasses.replace(figures, predictions=(unmet,))).word == "Not resolved"


def test_one_checkpoint_has_no_verdict():
    said = only(score(lambda c, k: -30.0, checkpoints=1))
    assert said.word == "Not decided"
    assert "at least six" in said.advice.certainty


def test_a_signal_that_beats_everything_is_the_advice():
    draws = np.random.default_rng(0).random((12, 13))
    value = lambda c, k: float(draws[c, k])  # noqa: E731
    said = only(score(lambda c, k: 80.0 * (value(c, k) - 0.5) + c, signal=value, checkpoints=12))
    assert said.advice.kind == "when"
    assert said.advice.what.startswith("Update only when alarm is 0.")
    assert "(here at" in said.advice.what
    assert re.match(
        r"By one-step values that earns \+.* per deployment more than always updating \(.*\)\. It",
        said.advice.certainty,
    )
    assert said.triggers == "Of 1 candidate trigger, alarm beats all that a useful one has to."


def test_a_signal_that_knows_nothing_beats_nothing():
    draws = np.random.default_rng(1).random((8, 13))
    said = only(score(lambda c, k: -30.0 - c, signal=lambda c, k: float(draws[c, k])))
    assert said.triggers == "None of 1 candidate trigger beats chance after correction."
    assert only(score(lambda c, k: -30.0 - c)).triggers == ""


def test_the_signal_that_comes_nearest_is_told_with_what_it_does_not_beat():
    """What pays depends on k alone, and the signal is k: it knows no more than its place."""
    said = only(score(lambda c, k: 50.0 + c if k > 6 else -50.0 - c, signal=lambda c, k: float(k)))
    assert said.triggers == (
        "Of 1 candidate trigger, alarm beats chance and the better of never and always. It is not called useful."
    )
    assert said.not_beaten.startswith("alarm is not shown to beat ")
    assert "the position table" in said.not_beaten
    assert "never and always" not in said.not_beaten


CONDITION = "update when alarm is 6.5 or more (here at 50% of the decision points)"


@pytest.mark.parametrize(
    ("gain", "loss", "kind", "advice"),
    [
        (40.0, -80.0, "never", "Leave the model frozen rather than update at every decision point."),
        (80.0, -40.0, "always", "Update at every decision point rather than never."),
        (60.0, -60.0, "when", f"Rather {CONDITION} than always or never."),
    ],
)
def test_a_signal_that_earns_more_than_never_and_always_is_named(gain, loss, kind, advice):
    """It knows no more than its place, so it is not useful. It is the advice where the mean gives none, and else
    stands behind it."""
    noise = lambda c: 8.0 * (-1) ** c  # noqa: E731
    found = score(
        lambda c, k: noise(c) + (gain + 2 * c if k > 6 else loss - c), signal=lambda c, k: float(k), checkpoints=10
    )
    said = only(found)
    ((task,),) = [list(arm.tasks.values()) for arm in found.arms.values()]
    alarm = task.triggers.all_attempted["alarm"]
    assert (said.advice.kind, said.advice.what) == (kind, advice)
    over = alarm.gains["better_of_both"]
    low, high = over.refitted
    better = "always" if task.policies.all_attempted.always > 0 else "never"
    gain = f"{over.mean:+.1f} [{low:+.1f}, {high:+.1f}]"
    earns = f"By one-step values that earns {gain} per deployment more than {better} updating "
    if kind == "when":
        assert "; that it beats the fires of other checkpoints or a fixed timetable" in said.advice.certainty
        assert said.advice.certainty.startswith(earns)
        assert "The mean may lie on either side of 0" in said.advice.certainty
    else:
        assert f" A trigger earned more here: {CONDITION}. {earns}" in said.advice.certainty


def test_a_signal_whose_lead_hangs_on_its_threshold_is_no_advice():
    found = score(lambda c, k: 40.0 + 2 * c if k > 6 else -80.0 - c, signal=lambda c, k: float(k))
    ((task,),) = [list(arm.tasks.values()) for arm in found.arms.values()]
    alarm = task.triggers.all_attempted["alarm"]
    gains = dict(alarm.gains)
    gains["better_of_both"] = dataclasses.replace(gains["better_of_both"], refitted=Interval(-5.0, 300.0))
    useful = usefulness(
        alarm.adjusted,
        {name: gains[name].mean for name in ("better_of_both", "position_table")},
        {name: gains[name].refitted for name in ("better_of_both", "position_table")},
    )
    alarm = dataclasses.replace(alarm, gains=gains, useful=useful)
    figures = dataclasses.replace(task.triggers, all_attempted={"alarm": alarm})
    said = answer(dataclasses.replace(task, triggers=figures))
    assert said.advice.kind == "never"
    assert said.not_beaten.endswith("of a checkpoint's gain over never and always contains 0: [-5.0, +300.0].")
    below = dataclasses.replace(gains["better_of_both"], refitted=Interval(-300.0, -5.0))
    figures = dataclasses.replace(
        figures, all_attempted={"alarm": dataclasses.replace(alarm, gains={**gains, "better_of_both": below})}
    )
    assert "contains 0" not in answer(dataclasses.replace(task, triggers=figures)).not_beaten


def test_advice_names_the_other_policy_where_a_trigger_is_best_at_the_registered_price():
    """The signal knows a little: it earns the most in hindsight, and is not shown to earn more than always."""
    random = np.random.default_rng(2)
    draws = random.normal(0.0, 30.0, (8, 13))
    noisy = draws + random.normal(0.0, 60.0, draws.shape)
    found = score(lambda c, k: 20.0 + draws[c, k], signal=lambda c, k: float(noisy[c, k]))
    ((task,),) = [list(arm.tasks.values()) for arm in found.arms.values()]
    assert task.prices.best_at_cost == "alarm"
    assert answer(task).advice.what == "Update at every decision point rather than never."


def test_returns_that_are_not_positive_stand_beside_the_mean_as_they_are():
    rows = [{"checkpoint": c, "k": k, "r_hold": -629.0, "r_update": -650.0 - c} for c in range(8) for k in (1, 2)]
    found = wf.score(pl.DataFrame(rows), permutations=20)
    ((task,),) = [list(arm.tasks.values()) for arm in found.arms.values()]
    assert "on this schedule, where the frozen model returned -629" in answer(task).size
    scale = dataclasses.replace(task.scale, clean=-120.0, of_clean=task.scale.of_frozen)
    assert answer(dataclasses.replace(task, scale=scale)).of == (
        "where the frozen model returned -629, and -120 in the clean world"
    )


def test_an_explosion_that_no_rule_could_drop_is_told_with_the_median():
    """The divergence rule is a share of a positive return; here returns are negative and one update exploded."""
    rows = [
        {"checkpoint": c, "k": k, "r_hold": -100.0, "r_update": -1e6 if (c, k) == (3, 1) else -101.0}
        for c in range(6)
        for k in range(1, 9)
    ]
    ((task,),) = [list(arm.tasks.values()) for arm in wf.score(pl.DataFrame(rows), permutations=20).arms.values()]
    assert answer(task).diverged == (
        "; the divergence rule does not apply where frozen returns are not positive, and 1 fork of 48 carries half "
        "of all |dR|: the median dR of a fork is -1.00"
    )
    even = score(lambda c, k: -30.0 - c)
    assert only(even).diverged == ""


def test_several_triggers_that_beat_chance_are_counted_with_those_that_beat_never_and_always():
    found = score(lambda c, k: 50.0 + c if k > 6 else -50.0 - c, signal=lambda c, k: float(k))
    ((task,),) = [list(arm.tasks.values()) for arm in found.arms.values()]
    alarm = task.triggers.all_attempted["alarm"]
    less = dataclasses.replace(
        alarm, useful=dataclasses.replace(alarm.useful, does_not_beat=("better_of_both", "position_table"))
    )
    for others, also in (({"a": alarm, "b": less}, "2 of these"), ({"a": alarm}, "all")):
        every = {"alarm": alarm, **others}
        figures = dataclasses.replace(task.triggers, all_attempted=every)
        said = answer(dataclasses.replace(task, triggers=figures, candidates=10)).triggers
        assert said.startswith(f"{len(every)} of 10 candidate triggers (")
        assert f") beat chance, and {also} also beat the better of never and always. None is called useful" in said


def test_there_is_one_count_of_candidates_read_or_not():
    draws = np.random.default_rng(1).random((8, 13))
    found = score(lambda c, k: -30.0 - c, signal=lambda c, k: float(draws[c, k]))
    (task,) = next(iter(found.arms.values())).tasks.values()
    ten = answer(dataclasses.replace(task, candidates=10, candidates_unread=9)).triggers
    assert ten == "None of 10 candidate triggers (9 of them can not be read here) beats chance after correction."
    asked = answer(dataclasses.replace(task, candidates=10)).triggers
    assert asked.startswith("None of 10 candidate triggers (9 of them were not asked for and still count in the ")
    unread = answer(
        dataclasses.replace(task, candidates=10, triggers=Estimands(all_attempted={}, retained={}))
    ).triggers
    assert unread == "None of 10 candidate triggers was read."


def test_the_sentence_names_size_and_scale():
    said = only(score(lambda c, k: -30.0 - c))
    assert said.lead == "Updating every time hurts (resolved)"
    assert said.size.startswith("-33.5 [")
    assert "-34% of the 100 that the frozen model returned" in said.size
    assert said.helped_words == "Updating helped at 0% of the decision points"


def test_forks_that_diverged_stand_beside_the_mean():
    """UPDATE at or below 30% of the cell's mean HOLD return of 100: a fork of each checkpoint."""
    diverged = only(score(lambda c, k: -90.0 if k == 1 else -30.0 - c))
    assert diverged.size.startswith(f"{diverged.mean} return per episode on this schedule, ")
    assert "; 8% of the forks diverged, and without them it is -33.5 [" in diverged.size
    assert "diverged" not in only(score(lambda c, k: -30.0 - c)).size


@pytest.mark.parametrize(("slow", "words"), [(0.0, "are worth"), (-10.0, "cost")])
def test_arms_are_told_apart_in_one_sentence(slow, words):
    """Where both lose, the better one costs less: nobody is told that it is worth something."""
    frames = []
    for arm, shift in (("slow", slow), ("fast", slow - 40.0)):
        rows = [
            {"arm": arm, "checkpoint": c, "k": k, "r_hold": 100.0, "r_update": 100.0 + shift - c * (arm == "fast")}
            for c in range(8)
            for k in (1, 2)
        ]
        frames.append(pl.DataFrame(rows))
    scored = wf.score(pl.concat(frames), permutations=20)
    ((pair, tasks),) = scored.contrasts.items()
    attempted = {task: sides.all_attempted for task, sides in tasks.items()}
    both = first, second = tuple(pair.split(" - "))
    more = (first == "fast") == (words == "cost")
    (task,) = attempted
    assert contrast_summary(both, attempted) == (
        f"Updates {words} {'more' if more else 'less'} with {first} than with {second} on {task} (resolved)."
    )
    sized = contrast_summary(both, attempted, sized=True)
    assert sized.endswith(f"(resolved): {estimate(attempted[task])} return per episode.")


def test_what_was_corrected_is_said():
    assert corrected(score(lambda c, k: 1.0 + c)) == "One mean, no candidate trigger: nothing to correct for."
    told = corrected(score(lambda c, k: 1.0 + c, signal=lambda c, k: float(k)))
    assert told == "Triggers are corrected (Holm) over 1 candidate. References are not tested."


def test_every_definition_is_a_sentence():
    assert all(means[0].isupper() and means.endswith(".") for means in TERMS.values())
