"""Registrations: strict, stable in digest and ids, and honest about what never binds."""

from pathlib import Path

import pytest

from worldfork.errors import WorldforkError
from worldfork.registration import (
    authored,
    cells,
    parse,
    read,
    read_authored,
    restore,
)
from worldfork.registration.library import find, registrations
from worldfork.registration.schema import CANDIDATES, canonical

FOLDER = Path(__file__).parents[2] / "registrations"
# Recipes for pretraining live in the same folder; they are read by the lab.
REGISTRATIONS = [path for path in sorted(FOLDER.glob("*.toml")) if "worldfork.registration/1" in path.read_text()]
SMALL = """
schema = "worldfork.registration/1"
name = "small"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0, 1]
directions = ["toward", "away"]
[stream]
decision_points = 4
drift_period = 100
[mechanism]
steps = 10
window = 100
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 2.0
"""
ARMS = """
[[arms]]
name = "few"
[[arms]]
name = "many"
mechanism = {steps = 20}
[[arms]]
name = "forward"
evaluation = {mode = "forward"}
[[arms]]
name = "noisy"
stream = {action_noise = 0.5}
"""


@pytest.mark.parametrize("path", REGISTRATIONS, ids=lambda path: path.stem)
def test_every_committed_registration_reads_and_is_named_after_its_file(path: Path) -> None:
    registration = read(path)
    assert registration.name == path.stem
    ids = [cell.id for cell in cells(registration)]
    assert len(set(ids)) == len(ids) > 0
    spelled = canonical(registration.model_dump(mode="json", by_alias=True))
    assert restore(spelled).digest == registration.digest


def test_an_arm_states_only_what_it_varies() -> None:
    many = parse(SMALL + ARMS).arm("many")
    assert (many.mechanism.steps, many.mechanism.window, many.stream.decision_points) == (20, 100, 4)


def test_the_digest_sees_every_value_and_nothing_else() -> None:
    reference = parse(SMALL).digest
    assert parse(SMALL.replace("steps = 10", "steps  =  10  # a comment")).digest == reference
    assert parse(SMALL.replace("steps = 10", "steps = 11")).digest != reference
    assert parse(SMALL.replace("drift_scale = 2.0", "drift_scale = 2.0000000000000004")).digest != reference


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("steps = 10", "stepz = 10", "known here: name, scope, settings, steps, window"),
        ("steps = 10", 'steps = "10"', "steps"),
        ("drift_scale = 2.0", "drift_scale = nan", "drift_scale"),
        ("checkpoints = [0, 1]", "checkpoints = [0, 0]", "twice"),
        ('directions = ["toward", "away"]', 'directions = ["sideways"]', "'toward' or 'away'"),
        ("[tasks.linear_quadratic]", "[tasks.other]", "add [tasks.linear_quadratic]"),
        ("[grid]", "[grid", "not valid TOML"),
        ("drift_period = 100", "drift_period = 0", "stream.drift_period: expected 1 or more; got 0"),
        ("worldfork.registration/1", "worldfork.registration/9", "worldfork.registration/1"),
    ],
)
def test_a_wrong_file_is_answered_with_what_to_change(old: str, new: str, told: str) -> None:
    with pytest.raises(WorldforkError, match="registration") as refusal:
        parse(SMALL.replace(old, new))
    assert told in str(refusal.value)


def test_a_mistake_in_a_shared_table_is_said_once_and_where_it_is() -> None:
    with pytest.raises(WorldforkError) as refusal:
        parse(SMALL.replace("steps = 10", "stepz = 10") + ARMS)
    (line,) = str(refusal.value).splitlines()[1:]
    assert line.strip().startswith("mechanism.stepz: not a known setting; known here: name, scope, settings, steps")


def test_what_a_file_extends_is_filled_in(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(SMALL)
    (tmp_path / "more.toml").write_text(
        'extends = "base.toml"\nname = "more"\n[mechanism]\nsteps = 11\n[[arms]]\nname = "only"\n'
        "stream = {action_noise = 0.5}\n"
    )
    found = read_authored(tmp_path / "more.toml")
    before = parse(SMALL)
    assert found.registration.name == "more"
    assert found.registration.arm("only").mechanism == before.arms[0].mechanism.model_copy(update={"steps": 11})
    assert found.registration.tasks == before.tasks
    assert parse(found.text) == found.registration  # what a study keeps says all of it
    (tmp_path / "base.toml").write_text('extends = "more.toml"\n' + SMALL)
    with pytest.raises(WorldforkError, match="extends it in turn"):
        read_authored(tmp_path / "more.toml")
    (tmp_path / "base.toml").unlink()
    with pytest.raises(WorldforkError, match=r"no registration at `base\.toml`"):
        read_authored(tmp_path / "more.toml")


@pytest.mark.parametrize("name", registrations())
def test_every_registration_that_comes_with_the_package_has_a_text_of_its_own(name: str) -> None:
    registration = read(find(name))
    assert parse(authored(registration).text) == registration


def test_a_recipe_is_not_a_registration() -> None:
    with pytest.raises(WorldforkError, match=r"recipe for pretraining.*worldfork pretrain"):
        parse('schema = "worldfork.pretraining/1"\n', name="pretrain-demo.toml")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("divergence_fraction = 1.5", "less than 1"),
        ('triggers = ["residual", "residual"]', "names something twice"),
        ("severity_edges = [0.9, 0.5]", "edges ascend"),
        ("contraction_edges = { cartpole-swingup = [450.0, 350.0] }", "edges ascend"),
    ],
)
def test_what_scoring_could_not_use_does_not_register(line, expected):
    with pytest.raises(WorldforkError, match=expected):
        parse(f"{SMALL}\n[scoring]\n{line}\n")


def test_the_family_of_triggers_is_registered_and_frozen_where_it_is_not():
    assert parse(SMALL).scoring.triggers == CANDIDATES
    named = parse(f'{SMALL}\n[scoring]\ntriggers = ["kl", "my_package:Surprise"]\n')
    assert named.scoring.triggers == ("kl", "my_package:Surprise")


PREDICTED = """
[[predictions]]
name = "down"
task = "linear_quadratic"
{}
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", "states no bound"),
        ("between = [1.0, 0.0]", "nothing does"),
        ("equivalent_within = 0.0", "more than 0"),
        ("equivalent_within = 1.0\nbetween = [0.0, 1.0]", "choose one"),
        ('between = [0.0, 1.0]\nagainst = "small"', "say which `arm`"),
        ('arm = "small"\nagainst = "small"\nfigure = "crn.gain"\nfalsified_below = 0.0', "on the mean dR"),
        ('arm = "small"\nagainst = "other"\nfalsified_below = 0.0', "not registered"),
        ('falsified_below = 0.0\npremise = { figure = "clean_return.mean" }', "neither `below` nor `above`"),
        ('falsified_below = 0.0\npremise = { figure = "crn.gain", task = "x", above = 1.0 }', "not registered"),
    ],
)
def test_a_prediction_that_could_not_be_answered_does_not_register(said, expected):
    with pytest.raises(WorldforkError, match=expected):
        parse(SMALL + PREDICTED.format(said))


def test_predictions_have_premises_and_margins():
    said = 'equivalent_within = 2.2\npremise = { figure = "clean_return.mean", below = 20.0 }'
    (prediction,) = parse(SMALL + PREDICTED.format(said)).predictions
    assert (prediction.premise.below, prediction.equivalent_within) == (20.0, 2.2)
