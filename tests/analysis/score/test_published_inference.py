"""Figures that an independent audit of the published rows found, found again by the score."""

import functools

import pytest
from published import folder_of

import worldfork as wf
from worldfork.analysis.score.undefined import Undefined


@functools.cache
def score_of(study):
    return wf.score(folder_of(study), permutations=9)


@pytest.mark.parametrize(
    ("study", "arm", "task", "always", "one", "interval", "two", "oracle"),
    [
        ("power-cartpole", "corrected", "cartpole-swingup", -35.0, 73.5, (60.3, 86.7), 77.0, 81.9),
        ("power-cartpole", "gentle", "cartpole-swingup", 144.1, 177.8, (155.4, 200.2), 180.7, 184.7),
        ("power-locomotion", "gentle", "cheetah-run", -12.2, 24.3, (9.4, 39.3), 30.0, 49.7),
        ("power-locomotion", "gentle", "walker-walk", -90.9, -4.0, (-12.2, 4.3), 1.4, 12.9),
        ("judge-cheetah", "gentle-ewc", "cheetah-run", 50.6, 52.2, (34.9, 69.5), 59.1, 78.6),
    ],
)
def test_a_trial_of_one_episode_gets_most_of_what_can_be_had(study, arm, task, always, one, interval, two, oracle):
    trials = score_of(study)[arm, task].trials
    assert [trials.always, trials.oracle] == pytest.approx([always, oracle], abs=0.05)
    first, second = trials.by_episodes["1"], trials.by_episodes["2"]
    assert [first.mean, second.mean] == pytest.approx([one, two], abs=0.05)
    assert list(first.student_t) == pytest.approx(interval, abs=0.05)


def test_a_mean_over_the_schedule_hides_where_an_update_helps():
    """At pretraining's rate cartpole loses 35 on average, and gains 96 in the upper half of drift."""
    task = score_of("power-cartpole")["corrected", "cartpole-swingup"]
    below, above = task.curves.halves
    assert (below.high, above.low) == (0.45, 0.5)
    assert [below.mean, above.mean] == pytest.approx([-191.6, 95.8], abs=0.05)
    assert list(above.student_t) == pytest.approx([58.8, 132.9], abs=0.05)
    assert task.effect.all_attempted.by_direction == pytest.approx({"toward": -93.3, "away": 23.3}, abs=0.05)
    lowest, highest = task.curves.level.points[0], task.curves.level.points[-1]
    assert lowest.band.high < 0 < highest.band.low


@pytest.mark.parametrize(
    ("study", "arm", "task", "skewness", "covered"),
    [
        ("power-locomotion", "gentle", "walker-walk", -1.82, 88),
        ("judge-walker", "gentle-ewc", "walker-walk", -2.16, 83),
        ("power-locomotion", "gentle", "cheetah-run", -1.85, 88),
        ("judge-cheetah", "gentle-ewc", "cheetah-run", -1.53, 89),
    ],
)
def test_skew_stands_beside_the_intervals_that_it_touches(study, arm, task, skewness, covered):
    skew = score_of(study)[arm, task].effect.all_attempted.skew
    assert skew.skewness == pytest.approx(skewness, abs=0.006)
    assert skew.words.endswith(
        f"a nominal 95% interval covers less, about {covered}% by a formula for many checkpoints."
    )


def test_johnsons_interval_of_the_most_skewed_resolved_mean():
    skew = score_of("judge-cheetah")["gentle-ewc", "cheetah-run"].effect.all_attempted.skew
    assert list(skew.johnson) == pytest.approx([21.6, 77.7], abs=0.05)


@pytest.mark.parametrize(
    ("study", "arm", "task", "diverged", "retained"),
    [
        ("power-locomotion", "corrected", "walker-walk", 169, -414.1),
        ("power-locomotion", "corrected", "cheetah-run", 85, -205.0),
    ],
)
def test_diverged_forks_stand_beside_both_means(study, arm, task, diverged, retained):
    row = score_of(study).estimands().row(by_predicate=_at(arm, task), named=True)
    assert row["diverged_share"] == diverged / 576
    assert row["retained_mean"] == pytest.approx(retained, abs=0.05)


def _at(arm, task):
    import polars as pl

    return (pl.col("arm") == arm) & (pl.col("task") == task)


# Study, task; ranks of the ledger (one-step labels) as published and of a count of fires; policies that the
# published, the aligned and the carried forecast miss; resolved over never and over always, by Holm and by max-T.
FORECASTS = [
    ("which-policy-cartpole", "cartpole-swingup", 0.946, 0.776, (8, 4, 1), (13, 15), (8, 9)),
    ("which-policy-walker", "walker-walk", 0.396, 0.716, (5, 5, 0), (6, 6), (10, 13)),
    ("which-policy-cheetah", "cheetah-run", 0.938, 0.946, (2, 2, 0), (5, 17), (10, 11)),
]


@pytest.mark.parametrize(("study", "task", "ledger", "count", "missed", "over_never", "over_always"), FORECASTS)
def test_forecasts_over_the_same_decisions_and_both_corrections(
    study, task, ledger, count, missed, over_never, over_always
):
    deployed = score_of(study).deployment[task]
    assert deployed.forecast.rank_correlation == pytest.approx(ledger, abs=0.0005)
    assert deployed.forecasts.count.rank_correlation == pytest.approx(count, abs=0.0005)

    def resolved(kind, grade):
        differences = [getattr(outcome, kind) for outcome in deployed.policies.values()]
        return sum(getattr(difference, grade, None) == "resolved" for difference in differences)

    assert (
        resolved("parted", "grade_holm"),
        deployed.forecasts.one_step.missed,
        deployed.forecasts.carried.missed,
    ) == missed
    assert (resolved("advantage", "grade_holm"), resolved("advantage", "grade_max_t")) == over_never
    assert (resolved("over_always", "grade_holm"), resolved("over_always", "grade_max_t")) == over_always
    # Carried forward, labels say how much policies return: nearer by far on walker and on cheetah.
    assert deployed.forecasts.carried.error < deployed.forecasts.one_step.error


def test_labels_know_more_than_a_count_of_fires_on_cartpole_alone():
    partial = {task: score_of(study).deployment[task].forecasts.partial for study, task, *_ in FORECASTS}
    assert partial["cartpole-swingup"].bootstrap.low > 0.7
    assert partial["walker-walk"].bootstrap.low < 0 < partial["walker-walk"].bootstrap.high
    within = partial["cheetah-run"].within["gentle-ewc"].bootstrap
    assert within.low < 0 < within.high


def test_an_update_has_a_price_up_to_which_it_is_best_to_update_always():
    task = score_of("power-cartpole")["gentle", "cartpole-swingup"]
    assert task.prices.always.price == pytest.approx(144.14, abs=0.005)
    assert list(task.prices.always.interval) == pytest.approx([118.58, 169.70], abs=0.005)
    assert task.prices.best[0].above == 0.0
    assert task.prices.best[-1].policy == "never"


def test_with_everything_fitted_anew_no_signal_is_told_from_the_position_table():
    """The naive intervals of five signals exclude 0; two checkpoints in three move their thresholds."""
    score = score_of("power-cartpole")["corrected", "cartpole-swingup"]
    gains = {name: score.triggers.all_attempted[name].gains["position_table"] for name in ("kl", "return_deficit")}
    assert list(gains["kl"].student_t) == pytest.approx([348, 911], abs=0.5)
    assert list(gains["kl"].refitted) == pytest.approx([-52, 1310], abs=0.5)
    assert list(gains["return_deficit"].refitted) == pytest.approx([-143, 1593], abs=0.5)
    candidates = [one for one in score.triggers.all_attempted.values() if one.standing == "candidate"]
    assert not any(one.useful.useful for one in candidates if not isinstance(one.useful, Undefined))
    assert "position_table" in score.triggers.all_attempted["kl"].useful.does_not_beat
