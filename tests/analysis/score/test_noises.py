"""Arms that differ in the noise of their stream: surprise and dR side by side, by hand."""

import json

import pytest
from swept import GRID, HALF_WIDTH, arms, scored

from worldfork.analysis.score.undefined import Undefined
from worldfork.registration import read
from worldfork.registration.library import find

NOISES = GRID + arms(
    noise_0="stream = { action_noise = 0.0 }",
    noise_6="stream = { action_noise = 0.6 }\nevaluation = { episodes = 3 }",
    noise_3="stream = { action_noise = 0.3 }\nevaluation = { episodes = 2 }",
)
DELTA = {"noise-0": (-2.0, -4.0), "noise-3": (-2.0, -2.0), "noise-6": (-5.0, -9.0)}
RESIDUAL = {"noise-0": (0.1, 0.3), "noise-3": (0.4, 0.4), "noise-6": (0.9, 0.9)}
HOLD = {"noise-0": 100.0, "noise-3": 90.0, "noise-6": 50.0}


def signals(arm, checkpoint):
    missing = arm == "noise-6" and checkpoint == 1
    return {"residual": RESIDUAL[arm][checkpoint], "kl": None if missing else 2.0 * RESIDUAL[arm][checkpoint]}


def write(folder, *, delta=lambda arm, checkpoint: DELTA[arm][checkpoint], authored=NOISES):
    return scored(folder, authored, delta, hold=lambda arm, checkpoint: HOLD[arm], signals=signals)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    return write(tmp_path_factory.mktemp("noises") / "study")


def test_noises_ascend_with_the_episodes_of_each(noisy):
    sweep = noisy.noises["cartpole-swingup"]["all"]
    assert [(arm, one.action_noise, one.episodes) for arm, one in sweep.noises.items()] == [
        ("noise-0", 0.0, 1),
        ("noise-3", 0.3, 2),
        ("noise-6", 0.6, 3),
    ]
    assert (sweep.baseline, sweep.missing) == ("noise-0", ())
    assert [one.r_hold for one in sweep.noises.values()] == pytest.approx([100, 90, 50])
    assert [(one.forks, one.diverged) for one in sweep.noises.values()] == [(8, 0)] * 3


def test_surprise_and_what_updating_is_worth_are_each_held_against_the_least_noise(noisy):
    noises = noisy.noises["cartpole-swingup"]["all"].noises
    calm, most = noises["noise-0"], noises["noise-6"]
    assert calm.mean == pytest.approx(-3)
    assert calm.student_t == pytest.approx((-3 - HALF_WIDTH, -3 + HALF_WIDTH))
    assert most.rise.mean == pytest.approx(-4)  # -5 - -2 and -9 - -4
    assert most.rise.student_t == pytest.approx((-4 - HALF_WIDTH, -4 + HALF_WIDTH))
    residual = most.signals["residual"]
    assert residual.mean == pytest.approx(0.9)
    assert residual.rise.mean == pytest.approx(0.7)  # .8 and .6
    assert residual.rise.student_t == pytest.approx((0.7 - 0.1 * HALF_WIDTH, 0.7 + 0.1 * HALF_WIDTH))
    assert calm.signals["residual"].student_t == pytest.approx((0.2 - 0.1 * HALF_WIDTH, 0.2 + 0.1 * HALF_WIDTH))
    for nothing in (calm.rise, calm.signals["residual"].rise):
        assert "the least noise is what the others are compared with" in nothing.why


def test_a_signal_that_was_not_recorded_is_left_out_of_its_mean_and_of_its_rise(noisy):
    kl = noisy.noises["cartpole-swingup"]["all"].noises["noise-6"].signals["kl"]
    assert (kl.n_defined, kl.mean) == (4, pytest.approx(1.8))  # of the first checkpoint alone
    assert kl.rise.mean == pytest.approx(1.6)  # less that checkpoint's .2, not the mean of both
    assert isinstance(kl.rise.student_t, Undefined)


def test_the_share_that_helped_and_how_the_residual_ranks_are_those_of_the_arm(noisy):
    """About a checkpoint's mean forks lie at -3, -1, 1 and 3."""
    noises = noisy.noises["cartpole-swingup"]["all"].noises
    assert [one.helped for one in noises.values()] == pytest.approx([1 / 8, 2 / 8, 0])
    for arm, one in noises.items():
        ranked = noisy[arm, "cartpole-swingup"].triggers.all_attempted["residual"]
        assert (one.residual_auc, one.residual_auc_interval) == (ranked.auc, ranked.auc_interval)


def test_without_the_least_noise_there_is_nothing_to_rise_from(tmp_path):
    found = write(tmp_path / "study", delta=lambda arm, at: None if arm == "noise-0" else DELTA[arm][at])
    sweep = found.noises["cartpole-swingup"]["all"]
    assert (list(sweep.noises), sweep.missing) == (["noise-3", "noise-6"], ("noise-0",))
    for one in sweep.noises.values():
        assert one.rise.why == one.signals["residual"].rise.why == "arm `noise-0` is not scored here"


def test_arms_under_one_noise_have_no_figures_of_noise(tmp_path):
    authored = GRID + arms(noise_0="evaluation = { episodes = 1 }", noise_3="evaluation = { episodes = 2 }")
    found = write(tmp_path / "study", authored=authored)
    assert found.noises == {}
    assert "noises" not in found.to_json()


def test_the_json_has_a_noise_by_its_arm(noisy):
    plain = json.loads(json.dumps(noisy.to_json(), allow_nan=False))
    noise = plain["noises"]["cartpole-swingup"]["all"]["noises"]["noise-3"]
    assert (noise["action_noise"], noise["episodes"]) == (0.3, 2)
    assert noise["signals"]["residual"]["rise"]["mean"] == pytest.approx(0.2)
    assert "doses" not in plain


def test_the_registered_study_of_noise_ramps_its_episodes():
    registered = read(find("stochasticity"))
    ramp = [(arm.stream.action_noise, arm.evaluation.episodes) for arm in registered.arms]
    assert ramp == [(0.0, 30), (0.3, 30), (0.6, 75), (1.2, 120)] * 2  # at both rates
