"""The cheapest design for a width: the closed form, brute force, and costs from a study's clocks."""

import math

import pytest
import stopped
from published import RESULTS

import worldfork as wf
from worldfork.analysis.score.power import Cost, costs_of, interval_width, recommend, training_seconds
from worldfork.analysis.score.variance import Split
from worldfork.ledger.documents import as_file
from worldfork.ledger.store import Study

NOISE = {"checkpoint": 4.0, "fork": 12.0, "episode": 16.0}  # variances
COST = Cost(checkpoint=50.0, stream=0.5, draw=1.0, episode=0.25)
REGISTERED = Split(checkpoints=20, forks=48, draws=1, episodes=4)


def test_the_width_is_students():
    error = math.sqrt((4.0 + (12.0 + 16.0 / 4) / 48) / 20)
    assert interval_width(REGISTERED, NOISE) == pytest.approx(2 * 2.093024 * error, rel=1e-6)


def test_the_best_number_of_forks_is_the_closed_form():
    """sqrt(variance within / variance between x price of a checkpoint / price of a fork)."""
    found = recommend(REGISTERED, NOISE, COST)
    fork = 0.5 + 1.0 + 2 * 4 * 0.25
    assert found.best_forks == pytest.approx(math.sqrt((12.0 + 16.0 / 4) / 4.0 * 50.0 / fork))
    assert abs(found.forks_alone.forks - found.best_forks) < 3


def test_no_cheaper_design_is_as_narrow():
    found = recommend(REGISTERED, NOISE, COST)
    assert interval_width(found.cheapest, NOISE) <= found.width * (1 + 1e-9)
    assert found.price_cheapest <= found.price_forks_alone <= found.price
    assert 0 < found.wasted < 1
    for checkpoints in range(8, 60):
        for forks in range(1, 60):
            for episodes in (2, 4, 8):
                design = Split(checkpoints=checkpoints, forks=forks, draws=1, episodes=episodes)
                if COST.study(design) < found.price_cheapest:
                    assert interval_width(design, NOISE) > found.width


def test_a_design_that_is_the_best_wastes_nothing():
    found = recommend(recommend(REGISTERED, NOISE, COST).cheapest, NOISE, COST)
    assert found.wasted == pytest.approx(0.0, abs=0.02)


def test_costs_are_those_of_the_clocks(tmp_path):
    """The time of a batch of streams is noted in every cell of it, and counts once."""
    study = stopped.write(tmp_path / "study")
    for cell in study.cells():
        arm = cell.configuration["coordinates"]["arm"]
        if arm == "few":
            cell.note("timings.jsonl", {"what": "streams", "seconds": 6.6, "worker": "w"})
        took = {"what": "block", "seconds": 9.0, "updates": 3.0, "evaluations": 6.0, "worker": "w"}
        cell.note("timings.jsonl", took)
    record = {"recipe": "r", "training_seconds": 90.0, "evaluation_seconds": 9.0, "seeds": []}
    record["seeds"] = [
        {"task": "linear_quadratic", "seed": 0, "gate": 1.0, "index": index, "returns": [1.0], "digest": None}
        for index in (0, 1, None)
    ]
    (study.path / "pretraining").mkdir()
    (study.path / "pretraining" / "r.json").write_bytes(as_file(record))
    assert training_seconds(study) == {"linear_quadratic": 99.0 / 2}
    costs = costs_of(study)
    few, many = costs["few", "linear_quadratic"], costs["many", "linear_quadratic"]
    assert few == Cost(checkpoint=49.5, stream=6.6 / 33, draw=1.0, episode=6.0 / (3 * 2 * 2))
    assert many == Cost(checkpoint=49.5, stream=6.6 / 33, draw=1.0, episode=6.0 / (3 * 2))  # HOLD is that of `few`


def test_a_published_study_says_how_many_forks_were_enough():
    plans = {plan.arm: plan.recommended for plan in wf.power("power-cartpole", like=RESULTS / "power-cartpole")}
    assert {arm: round(found.best_forks) for arm, found in plans.items()} == {"corrected": 18, "gentle": 17}
    assert plans["corrected"].cost.checkpoint == pytest.approx(9.6, abs=0.05)
    assert {round(found.wasted, 2) for found in plans.values()} == {0.16, 0.17}
    assert Study(RESULTS / "power-cartpole").packed
