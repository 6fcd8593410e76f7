"""Does following a trigger all the way beat never? What is said for every way it can come out, and how surely."""

import dataclasses

import pytest

from worldfork.analysis.present.text.deployments import followed_answer
from worldfork.analysis.score.deployment_records import Advantage, LedgerForecast, PolicyOutcome, TaskDeployment
from worldfork.analysis.score.intervals import LeaveOneOut
from worldfork.analysis.score.undefined import Interval, Undefined

ABSENT = Undefined("not part of this test")


def gained(mean, half, grade, *, crosses=(), corrected=0.02):
    """A difference with never: mean ± half, with its grade."""
    return Advantage(
        student_t=Interval(mean - half, mean + half),
        bootstrap=ABSENT,
        mean=mean,
        mde=1.5 * half,
        p_student_t=0.01,
        p_sign_flip=0.01,
        by_checkpoint={},
        won=0,
        grade=grade,
        adjusted_student_t=corrected,
        adjusted_sign_flip=0.03,
        leave_one_out=LeaveOneOut(low=0.0, high=0.0, crosses=tuple(crosses)),
    )


def outcome(advantage, returned, over_always=ABSENT):
    figures = dict.fromkeys(("regret", "regret_by_checkpoint", "ledger_value", "ledger_updates", "parted"), ABSENT)
    return PolicyOutcome(
        always=None,
        over_always=over_always,
        returned=returned,
        advantage=advantage,
        evaluation=ABSENT,
        evaluation_at=(),
        diverged=(),
        retained=ABSENT,
        by_episode=(),
        fired_at=(),
        updates=1.0,
        gradient_steps=10.0,
        by_direction={},
        **figures,
    )


def task(*, checkpoints=8, never=200.0, **policies):
    """Policies against never, each a difference or a reason why there is none."""
    correlation = {
        "rank_correlation": ABSENT,
        "without_one_low": ABSENT,
        "without_one_high": ABSENT,
        "ordered_alike": ABSENT,
    }
    followed = {name: outcome(one, never) for name, one in policies.items()}
    return TaskDeployment(
        policies={"never": outcome(ABSENT, never), **followed},
        best="never",
        forecast=LedgerForecast(
            policies=len(policies), bootstrap=ABSENT, by_checkpoint={}, within={}, **correlation
        ),
        cautions=(),
        checkpoints=checkpoints,
        cells=checkpoints,
        episodes=6,
        points=(),
        evaluation_episodes=0,
        family=len(policies),
    )


def test_a_policy_that_beats_never_is_named_with_its_size_and_its_share():
    one = task(
        always=gained(-30.0, 10.0, "leaning"),
        kl=gained(20.0, 5.0, "resolved"),
        residual=gained(40.0, 10.0, "resolved"),
        periodic=gained(60.0, 90.0, "unresolved"),
    )
    said = followed_answer("walker", one)
    assert (said.verdict, said.policy, said.grade) == ("helpful", "residual", "resolved")
    assert said.sentence == (
        "Deployed, residual beats never updating (resolved): +40.0 [+30.0, +50.0] return per episode, "
        "+20% of the 200.0 without any update. kl (resolved) returned more too. always (leaning) returned less "
        "than never."
    )
    assert said.advice == "Follow residual, in hindsight the best of 2 such."
    assert said.certainty == "Resolved: the exact test gives p .030, corrected over 4 comparisons."


def test_many_policies_are_counted_by_grade_and_not_listed():
    better = {f"p{number}": gained(20.0 + number, 5.0, "resolved") for number in range(5)}
    worse = {f"w{number}": gained(-20.0 - number, 5.0, "resolved") for number in range(5)}
    said = followed_answer("walker", task(**better, **worse, q=gained(9.0, 5.0, "leaning")))
    assert said.sentence.endswith(
        "without any update. 5 others (4 resolved and 1 leaning) returned more too. 5 policies (5 resolved) "
        "returned 20.0 to 24.0 less than never."
    )


def test_the_advice_says_what_the_trigger_adds_to_its_update():
    one = task(residual=gained(40.0, 10.0, "resolved"))
    added = outcome(one.policies["residual"].advantage, 200.0, over_always=gained(3.0, 5.0, "unresolved"))
    one = dataclasses.replace(one, policies={**one.policies, "residual": added})
    assert followed_answer("walker", one).advice == (
        "Follow residual. Beside always firing the same update it returned +3.0 [-2.0, +8.0] (unresolved)."
    )


def test_few_checkpoints_lean_and_the_advice_is_weaker():
    one = task(checkpoints=5, residual=gained(40.0, 10.0, "leaning", crosses=("3",)))
    said = followed_answer("walker", one)
    assert said.sentence.startswith("Deployed, residual returned more than never updating (leaning): +40.0 [")
    assert said.advice == "Rather follow residual than never update."
    assert said.certainty == (
        "Not certain: 5 checkpoints can not give an exact p below .0625. "
        "Without checkpoint 3 the interval reaches 0."
    )


def test_the_best_of_many_that_correction_does_not_leave_is_no_advice():
    by_chance = gained(8.0, 7.0, "leaning", corrected=0.7)
    said = followed_answer("walker", task(kl=by_chance, always=gained(-30.0, 10.0, "resolved")))
    assert (said.verdict, said.policy, said.grade) == ("unresolved", "kl", "leaning")
    assert said.sentence == (
        "On walker no policy is shown to beat never updating; always (resolved) cost return. kl returned more than "
        "never updating, as one of 2 policies may by chance: +8.0 [+1.0, +15.0] return per episode, +4% of the "
        "200.0 without any update."
    )
    assert said.certainty.startswith(
        "Not certain: the exact test gives p .030 and Student's t .700, corrected over 2"
    )
    assert said.advice == "Leave the model frozen, or test kl on other checkpoints."
    # Where another returned more and is told from never even less, the leaning ones are named all the same.
    higher = task(periodic=gained(9.0, 20.0, "unresolved"), kl=by_chance, adwin=by_chance)
    said = followed_answer("walker", higher)
    assert said.policy == "kl"
    assert "adwin (leaning) returned more too." in said.sentence
    # One that correction leaves is what the advice is about, even where another returned more.
    said = followed_answer("walker", task(kl=by_chance, residual=gained(6.0, 1.0, "leaning")))
    assert (said.verdict, said.policy) == ("helpful", "residual")
    assert "kl (leaning) returned more too." in said.sentence


def test_where_nothing_can_be_told_apart_the_best_is_named_and_what_could_be_found():
    one = task(always=gained(-9.0, 20.0, "unresolved"), residual=gained(-4.0, 20.0, "unresolved"))
    said = followed_answer("walker", one)
    assert (said.verdict, said.policy) == ("unresolved", "residual")
    assert said.sentence.startswith(
        "On walker no policy is shown to beat never updating. The best of 2 policies is residual; its difference "
        "from never updating is unresolved: -4.0 ["
    )
    assert said.advice == "Leave the model frozen until a policy is shown to return more."
    assert "8 checkpoints find a difference of 30.0 four times in five" in said.certainty


def test_a_policy_that_hurts_is_named_even_where_the_best_is_unresolved():
    one = task(always=gained(-90.0, 20.0, "resolved"), residual=gained(-4.0, 20.0, "unresolved"))
    said = followed_answer("walker", one)
    assert said.verdict == "unresolved"
    assert said.sentence.startswith(
        "On walker no policy is shown to beat never updating; always (resolved) cost return. The best of 2"
    )


def test_many_policies_that_hurt_are_counted_with_what_they_cost():
    worse = {f"w{number}": gained(-20.0 - number, 5.0, "resolved") for number in range(6)}
    said = followed_answer("walker", task(**worse, residual=gained(-4.0, 20.0, "unresolved")))
    assert said.sentence.startswith(
        "On walker no policy is shown to beat never updating; 6 policies (6 resolved) cost 20.0 to 25.0 return per "
        "episode. The best of 7"
    )


def test_policies_that_never_fired_are_named_or_counted():
    def silent(count):
        one = task(
            always=gained(-90.0, 20.0, "resolved"),
            **{f"quiet{number}": gained(0.0, 0.0, "unresolved") for number in range(count)},
        )
        policies = {
            name: dataclasses.replace(found, updates=0.0) if name.startswith("quiet") else found
            for name, found in one.policies.items()
        }
        return followed_answer("walker", dataclasses.replace(one, policies=policies)).sentence

    assert silent(2).endswith(" quiet0 and quiet1 never fired, and returned what never did.")
    assert silent(5).endswith(" 5 policies never fired, and returned what never did.")
    assert "never fired" not in silent(0)


@pytest.mark.parametrize(("grade", "advice"), [("resolved", "Leave"), ("leaning", "Rather leave")])
def test_where_every_policy_loses_the_model_stays_frozen(grade, advice):
    one = task(always=gained(-90.0, 20.0, "resolved"), residual=gained(-40.0, 20.0, grade))
    said = followed_answer("walker", one)
    assert (said.verdict, said.policy) == ("harmful", "residual")
    assert said.sentence.startswith(
        "Every policy returned less than never updating. The nearest to it is residual:"
    )
    assert said.advice == f"{advice} the model frozen."


def test_a_return_below_zero_has_no_share_and_nothing_followed_has_no_answer():
    said = followed_answer("hopper", task(never=-10.0, always=gained(4.0, 1.0, "resolved")))
    assert "%" not in said.sentence
    nothing = followed_answer("hopper", task(always=Undefined("one checkpoint")))
    assert (nothing.policy, nothing.grade, nothing.advice) == ("", None, "")
