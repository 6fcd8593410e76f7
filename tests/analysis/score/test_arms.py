"""Which arms a study compares: as predicted, within sweeps, or each with the first."""

from pathlib import Path

import pytest
from swept import GRID, arms

from worldfork.analysis.score.arms import compared_pairs
from worldfork.registration import parse, read

REGISTRATIONS = Path(__file__).parents[3] / "registrations"
GENTLE = "settings = { rate = 0.1 }"


def pairs(registration, *, without=()):
    present = [arm.name for arm in registration.arms if arm.name not in without]
    return [(f"{pair.later} - {pair.earlier}", pair.reason) for pair in compared_pairs(registration, present)]


def prediction(arm, against):
    return (
        f'[[predictions]]\nname = "{arm}-{against}"\narm = "{arm}"\nagainst = "{against}"\n'
        'task = "cartpole-swingup"\nfalsified_below = 0.0\n'
    )


@pytest.mark.parametrize(
    ("study", "expected"),
    [
        ("forward", [("forward - pinned", "predicted"), ("gentle-forward - gentle-pinned", "predicted")]),
        ("dose", [("dose-400 - dose-25", "predicted"), ("gentle-dose-400 - gentle-dose-25", "as predicted")]),
        (
            "scope",
            [
                ("model-and-value - model", "predicted"),
                ("gentle-model-and-value - gentle-model", "as predicted"),
            ],
        ),
        (
            "stochasticity",
            [("noise-1.2 - noise-0.0", "predicted"), ("gentle-noise-1.2 - gentle-noise-0.0", "predicted")],
        ),
        (
            "window",
            [
                (f"{rate}window-{window} - {rate}window-500", "sweep")
                for rate in ("", "gentle-")
                for window in ("2000", "2500", "all")
            ],
        ),
        ("corrected", [("gentle - corrected", "predicted")]),
        ("judge-walker", [("gentle - gentle-ewc", "predicted")]),  # the later less the earlier, as ever
    ],
)
def test_registered_studies_compare_what_they_ask_about(study, expected):
    assert pairs(read(REGISTRATIONS / f"{study}.toml")) == expected


@pytest.mark.parametrize("study", ["choose-cartpole", "mechanisms-demo"])
def test_a_list_of_alternatives_is_compared_with_the_first(study):
    registration = read(REGISTRATIONS / f"{study}.toml")
    first, *others = (arm.name for arm in registration.arms)
    assert pairs(registration) == [(f"{other} - {first}", "first") for other in others]


def test_a_swept_noise_and_its_episodes_are_one_setting():
    """The setting that varies first as arms were registered is the one that is swept."""
    noises = {
        f"{rate}noise_{sigma}": f"stream.action_noise = 0.{sigma}\nevaluation.episodes = {1 + sigma}"
        + (f"\nmechanism = {{ {GENTLE} }}" if rate else "")
        for sigma in (0, 3, 6)
        for rate in ("", "gentle_")
    }
    registration = parse(GRID + arms(**noises), name="noise")
    expected = [f"{rate}noise-{sigma} - {rate}noise-0" for rate in ("", "gentle-") for sigma in (3, 6)]
    assert [pair for pair, _ in pairs(registration)] == [
        f"gentle-noise-{sigma} - noise-{sigma}" for sigma in (0, 3, 6)
    ]
    ordered = dict(sorted(noises.items(), key=lambda item: item[0].startswith("gentle")))
    assert [pair for pair, _ in pairs(parse(GRID + arms(**ordered), name="noise"))] == expected


def test_arms_that_no_prediction_has_a_place_for_are_compared_by_the_next_rule():
    """A prediction about two mechanisms says nothing about a third."""
    mechanisms = {
        "finetune": "",
        "none": 'mechanism = { name = "none" }',
        "rehearsal": 'mechanism = { name = "rehearsal", settings = { share = 0.5 } }',
    }
    registration = parse(GRID + arms(**mechanisms) + prediction("finetune", "rehearsal"), name="some")
    assert pairs(registration) == [("rehearsal - finetune", "predicted"), ("none - finetune", "first")]


def test_an_arm_between_two_predicted_doses_is_left_to_the_sweep():
    doses = {f"dose_{steps}": f"mechanism = {{ steps = {steps} }}" for steps in (25, 100, 400)}
    more = arms(**doses, forward='mechanism = { steps = 25 }\nevaluation = { mode = "forward" }')
    registration = parse(GRID + more + prediction("dose-400", "dose-25"), name="some")
    assert pairs(registration) == [("dose-400 - dose-25", "predicted"), ("forward - dose-25", "first")]


def test_arms_without_rows_are_compared_with_nothing():
    """A study that is half run compares what it has, by the same rule."""
    registration = read(REGISTRATIONS / "stochasticity.toml")
    gentle = [arm.name for arm in registration.arms if arm.name.startswith("gentle")]
    assert pairs(registration, without=["noise-1.2", *gentle]) == [
        ("noise-0.3 - noise-0.0", "sweep"),
        ("noise-0.6 - noise-0.0", "sweep"),
    ]
    assert pairs(registration, without=[arm.name for arm in registration.arms[1:]]) == []
