"""Arms that differ in their dose: figures computed by hand, and what there is not."""

import json

import pytest
from swept import GRID, HALF_WIDTH, arms, scored, study

from worldfork.analysis.score import score_ledger
from worldfork.analysis.score.arms import DOSE, alike_but_for
from worldfork.analysis.score.undefined import Undefined
from worldfork.registration import parse, read
from worldfork.registration.library import find

THREE = GRID + arms(
    dose_400="mechanism = { steps = 400 }",
    dose_50="mechanism = { steps = 50 }",
    dose_200="mechanism = { steps = 200 }",
)
MEANS = {"dose-50": (-2.0, -4.0), "dose-200": (-8.0, -16.0), "dose-400": (-6.0, -6.0)}
RATES = GRID + arms(
    few="mechanism = { steps = 50 }",
    many="mechanism = { steps = 100 }",
    gentle_few="mechanism = { steps = 50, settings = { rate = 0.1 } }",
    gentle_many="mechanism = { steps = 100, settings = { rate = 0.1 } }",
    alone="mechanism = { steps = 100, settings = { rate = 0.5 } }",
)
PASSES = GRID + arms(
    once="mechanism = { settings = { passes = 1 } }",
    often="mechanism = { settings = { passes = 2.5 } }",
)


def means(arm, checkpoint):
    return MEANS[arm][checkpoint]


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    return scored(tmp_path_factory.mktemp("doses") / "study", THREE, means)


def test_every_figure_of_a_dose_is_its_arms_divided_by_what_it_cost(three):
    sweep = three.doses["cartpole-swingup"]["all"]
    assert list(sweep.doses) == ["dose-50", "dose-200", "dose-400"]  # ascending, whatever the order registered
    dose = sweep.doses["dose-50"]
    assert (dose.steps, dose.passes, dose.interval, dose.replay_ratio) == (50, None, 50, 1.0)
    assert (dose.forks, dose.diverged) == (8, 0)
    assert dose.mean == pytest.approx(-3)
    assert dose.student_t == pytest.approx((-3 - HALF_WIDTH, -3 + HALF_WIDTH))
    assert dose.per_step.mean == pytest.approx(-0.06)
    assert dose.per_step.student_t == pytest.approx(((-3 - HALF_WIDTH) / 50, (-3 + HALF_WIDTH) / 50))
    assert dose.always.mean == pytest.approx(-6)  # two decision points a deployment
    assert dose.always.student_t == pytest.approx((-6 - 2 * HALF_WIDTH, -6 + 2 * HALF_WIDTH))
    assert [one.replay_ratio for one in sweep.doses.values()] == [1.0, 4.0, 8.0]


def test_an_order_is_described_and_the_ends_are_a_contrast_of_arms(three):
    sweep = three.doses["cartpole-swingup"]["all"]
    assert {arm: one.rank for arm, one in sweep.doses.items()} == {"dose-50": 1, "dose-200": 3, "dose-400": 2}
    assert sweep.order == "neither"
    assert (sweep.smallest, sweep.largest, sweep.missing) == ("dose-50", "dose-400", ())
    ends = sweep.largest_less_smallest
    assert ends.mean == pytest.approx(-3)
    assert ends.student_t == pytest.approx((-3 - HALF_WIDTH, -3 + HALF_WIDTH))
    assert ends.by_checkpoint == pytest.approx({"0": -4, "1": -2})
    assert (sweep.grade, sweep.family) == ("unresolved", 1)


@pytest.mark.parametrize(
    ("first", "second", "third", "order"),
    [(1.0, 2.0, 3.0, "rises"), (3.0, 2.0, 1.0, "falls"), (1.0, 1.0, 2.0, "neither")],
)
def test_an_order_is_from_every_dose_to_the_next(tmp_path, first, second, third, order):
    by_arm = {"dose-50": first, "dose-200": second, "dose-400": third}
    found = scored(tmp_path / "study", THREE, lambda arm, checkpoint: by_arm[arm] + checkpoint)
    assert found.doses["cartpole-swingup"]["all"].order == order


def test_rates_stand_apart_and_an_arm_without_another_dose_is_left_out(tmp_path):
    found = scored(tmp_path / "study", RATES, lambda arm, checkpoint: -80.0 if arm == "many" else 1.0 + checkpoint)
    groups = found.doses["cartpole-swingup"]
    assert {label: list(sweep.doses) for label, sweep in groups.items()} == {
        "rate 1": ["few", "many"],
        "rate 0.1": ["gentle-few", "gentle-many"],
    }
    assert {sweep.family for sweep in groups.values()} == {2}
    assert groups["rate 1"].doses["many"].diverged == 8  # 20 of 100 is below the registered share, .30
    # The interval excludes 0, but two checkpoints have no smaller sign-flip p than .5.
    assert groups["rate 1"].grade == "leaning"
    assert groups["rate 0.1"].grade == "unresolved"


def test_a_rate_that_is_written_out_is_the_rate_that_is_left_out():
    spelled = RATES.replace("{ steps = 100 }", "{ steps = 100, settings = { rate = 1.0 } }")
    assert [group.label for group in alike_but_for(DOSE.paths, parse(spelled).arms, value=DOSE.value)] == [
        "rate 1",
        "rate 0.1",
    ]


def test_passes_are_a_dose_without_a_number_of_steps(tmp_path):
    found = scored(tmp_path / "study", PASSES, lambda arm, checkpoint: 1.0 + checkpoint)
    sweep = found.doses["cartpole-swingup"]["all"]
    assert [dose.passes for dose in sweep.doses.values()] == [1.0, 2.5]
    for dose in sweep.doses.values():
        for figure in (dose.steps, dose.replay_ratio, dose.per_step.mean, dose.per_step.student_t):
            assert isinstance(figure, Undefined)
            assert "passes" in figure.why
    assert sweep.largest_less_smallest.mean == 0
    fired = found["once", "cartpole-swingup"].triggers.retained["residual"].gradient_steps
    assert isinstance(fired, Undefined)  # `steps` is of no account there


def test_steps_and_passes_have_no_common_order(tmp_path):
    found = scored(
        tmp_path / "study", PASSES + arms(steps="mechanism = { steps = 10 }"), lambda arm, checkpoint: 1.0
    )
    sweep = found.doses["cartpole-swingup"]["all"]
    assert list(sweep.doses) == ["steps", "once", "often"]
    for figure in (sweep.order, sweep.largest_less_smallest, sweep.grade):
        assert "no common order" in figure.why


def test_no_steps_are_a_dose_that_nothing_is_divided_by(tmp_path):
    authored = GRID + arms(none="mechanism = { steps = 0 }", some="mechanism = { steps = 10 }")
    sweep = scored(tmp_path / "study", authored, lambda arm, checkpoint: 1.0).doses["cartpole-swingup"]["all"]
    assert sweep.doses["none"].replay_ratio == 0
    assert "without gradient steps" in sweep.doses["none"].per_step.mean.why


def test_an_arm_without_rows_is_named_and_the_ends_wait_for_it(tmp_path):
    found = scored(tmp_path / "study", THREE, lambda arm, at: None if arm == "dose-400" else means(arm, at))
    sweep = found.doses["cartpole-swingup"]["all"]
    assert (list(sweep.doses), sweep.missing) == (["dose-50", "dose-200"], ("dose-400",))
    assert sweep.order == "falls"
    assert sweep.largest_less_smallest.why == "arm `dose-400` is not scored here"
    assert {reason["figure"] for reason in found.to_json()["undefined"]} >= {
        "doses.cartpole-swingup.all.largest_less_smallest",
        "doses.cartpole-swingup.all.grade",
    }
    alone = score_ledger(tmp_path / "study", arm="dose-50", permutations=20, triggers="residual")
    assert alone.doses == {}


def test_decision_points_that_are_not_evenly_spaced_have_no_ratio(tmp_path):
    made = study(tmp_path / "study", THREE, means, change={2: {"step": 130}})
    sweep = score_ledger(made.path, permutations=20, triggers="residual").doses["cartpole-swingup"]["all"]
    dose = sweep.doses["dose-50"]
    assert "not the same number of control steps apart" in dose.interval.why
    assert dose.replay_ratio == dose.interval
    assert dose.per_step.mean == pytest.approx(-0.06)


@pytest.mark.parametrize("changed", ["settings = { rate = 0.1 }", "window = 500"])
def test_arms_without_another_dose_have_no_figures_of_doses(tmp_path, changed):
    authored = GRID + arms(one="", other=f"mechanism = {{ {changed} }}")
    found = scored(tmp_path / "study", authored, lambda arm, checkpoint: 1.0)
    assert found.doses == {}
    assert "doses" not in found.to_json()


def test_the_json_has_a_dose_by_its_arm(three):
    plain = json.loads(json.dumps(three.to_json(), allow_nan=False))
    dose = plain["doses"]["cartpole-swingup"]["all"]["doses"]["dose-400"]
    assert (dose["steps"], dose["passes"], dose["replay_ratio"], dose["rank"]) == (400, None, 8.0, 2)


def test_the_registered_study_of_doses_has_five_at_each_of_two_rates():
    groups = alike_but_for(DOSE.paths, read(find("dose")).arms, value=DOSE.value)
    assert {group.label: [arm.mechanism.steps for arm in group.arms] for group in groups} == {
        "rate 1": [25, 50, 100, 200, 400],
        "rate 0.1": [25, 50, 100, 200, 400],
    }
