"""A registration restricted to some of its tasks keeps what is said of them, and nothing about the others."""

import pytest

from worldfork.registration import parse
from worldfork.registration.reading import only_tasks

WHOLE = """
schema = "worldfork.registration/1"
name = "whole"
[grid]
tasks = ["one", "two", "three"]
checkpoints = [0]
directions = ["away"]
[tasks.one]
agent = "linear_quadratic"
drift_scale = 2.0
[tasks.two]
agent = "linear_quadratic"
drift_scale = 2.0
[tasks.three]
agent = "linear_quadratic"
drift_scale = 2.0
[[arms]]
name = "few"
[[arms]]
name = "many"
mechanism = { steps = 400 }
[[arms]]
name = "of-three"
tasks = ["three"]
mechanism = { steps = 7 }
"""
PREDICTIONS = {
    "of-one": 'task = "one"',
    "one-by-arm": 'task = "one"\narm = "few"',
    "one-between-arms": 'task = "one"\narm = "few"\nagainst = "many"',
    "one-if-two": 'task = "one"\npremise = { figure = "clean_return.mean", task = "two", above = 0.0 }',
    "one-if-one": 'task = "one"\npremise = { figure = "clean_return.mean", above = 0.0 }',
    "of-two": 'task = "two"',
    "of-an-arm-of-three": 'task = "one"\narm = "of-three"',
    "against-an-arm-of-three": 'task = "one"\narm = "few"\nagainst = "of-three"',
}
SAID = "".join(
    f'[[predictions]]\nname = "{name}"\nfalsified_below = 0.0\n{said}\n' for name, said in PREDICTIONS.items()
)
OF_ONE = {"of-one", "one-by-arm", "one-between-arms", "one-if-one"}


@pytest.mark.parametrize(
    ("tasks", "kept"),
    [
        (["one"], OF_ONE),
        (["two"], {"of-two"}),
        (["one", "two"], OF_ONE | {"one-if-two", "of-two"}),
        (["one", "three"], OF_ONE | {"of-an-arm-of-three", "against-an-arm-of-three"}),
        (["one", "two", "three"], set(PREDICTIONS)),
    ],
)
def test_predictions_about_the_tasks_that_are_run_are_kept(tasks: list[str], kept: set[str]) -> None:
    part = only_tasks(parse(WHOLE + SAID), tasks)
    assert {prediction.name for prediction in part.predictions} == kept
    assert set(part.tasks) == set(part.grid.tasks) == set(tasks)


def test_classes_of_the_tasks_that_are_run_are_kept() -> None:
    edges = "[scoring.contraction_edges]\none = [1.0, 2.0]\ntwo = [3.0]\n"
    assert only_tasks(parse(WHOLE + edges), ["one", "three"]).scoring.contraction_edges == {"one": (1.0, 2.0)}
