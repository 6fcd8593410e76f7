"""Pretraining at a tiny size: deterministic, resumable, padded without effect; checkpoints one can trust."""

import dataclasses
import functools
import json
from pathlib import Path
from typing import get_args

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.agents.rssm_cem import checkpoints
from worldfork.lab.agents.rssm_cem.adoption import adopt
from worldfork.lab.agents.rssm_cem.agent import PRECISIONS, RSSMCEM, build
from worldfork.lab.agents.rssm_cem.deployment import deploy, planner_settings
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM
from worldfork.lab.agents.rssm_cem.pretraining import loop, saving
from worldfork.lab.agents.rssm_cem.pretraining.harvest import cut, harvest
from worldfork.lab.agents.rssm_cem.pretraining.recipe import Recipe, read_recipe
from worldfork.lab.agents.rssm_cem.pretraining.worlds import Worlds
from worldfork.lab.environments import load as load_environment
from worldfork.lab.planner.cem import CEM
from worldfork.lab.tools.drift_scale import GRIDS, registered_scale

RECIPES = Path(__file__).parents[4] / "registrations"
TEXT = """
schema = "worldfork.pretraining/1"
name = "smallest"
size = "tiny"
bins = 9
episodes = 3
environments = 2
planned = 1
gradient_steps = 1
sequences = 2
length = 6
starts = 4
imagined = 3
gate_episodes = 1
report_episodes = 1
actor_gradient = "dynamics"
[collection]
candidates = 8
horizon = 2
iterations = 1
elites = 2
[tasks.cartpole-swingup]
seeds = [0, 1]
wanted = 1
planner = { candidates = 8, horizon = 2, iterations = 1, elites = 2 }
[tasks.cheetah-run]
seeds = [3]
wanted = 1
planner = { candidates = 8, horizon = 2, iterations = 1, elites = 2 }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("pretraining")


@pytest.fixture(scope="module")
def recipe(folder) -> Recipe:
    path = folder / "recipe.toml"
    path.write_text(TEXT)
    return read_recipe(path)


class ShortWorlds(Worlds):
    """Episodes of ten steps: the loop is the same, the test is not half an hour."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe, threads=1)
        self.episode_steps = 10


@pytest.fixture(scope="module")
def trained(recipe, folder):
    return loop.pretrain(recipe, ShortWorlds(recipe), folder=folder / "whole")


@pytest.fixture(scope="module")
def harvested(recipe, folder, trained):
    worlds = ShortWorlds(recipe)
    for environment in worlds.environments.values():
        environment.episode_steps = 5
    return harvest(recipe, worlds, trained, folder / "checkpoints")


def test_a_run_that_stops_and_goes_on_equals_one_that_did_not(recipe, folder, trained):
    # Out of time at once, so it saves after one episode.
    assert loop.pretrain(recipe, ShortWorlds(recipe), folder=folder / "parts", stop_after=0.0) is None
    resumed = loop.pretrain(recipe, ShortWorlds(recipe), folder=folder / "parts")
    for whole, parts in zip(jax.tree.leaves(trained.learners), jax.tree.leaves(resumed.learners), strict=True):
        np.testing.assert_array_equal(whole, parts)
    assert [row["planned_return"] for row in resumed.curves] == [row["planned_return"] for row in trained.curves]


def test_another_recipe_does_not_go_on_from_it(recipe, tmp_path):
    state = {"x": np.arange(3.0)}
    saving.save(tmp_path, recipe, state, episode=7, curves=[], seconds=1.0)
    found, episode, _, _ = saving.load(tmp_path, recipe, state)
    assert episode == 7
    np.testing.assert_array_equal(found["x"], state["x"])
    with pytest.raises(WorldforkError, match="belongs to another recipe"):
        saving.load(tmp_path, recipe.model_copy(update={"entropy": 0.5}), state)


def test_a_broken_training_state_is_said_in_one_sentence(recipe, tmp_path):
    state = {"x": np.arange(3.0)}
    saving.save(tmp_path, recipe, state, episode=7, curves=[], seconds=1.0)
    whole = (tmp_path / saving.NAME).read_bytes()
    for broken in (whole[:-4], b"", b"no tensors at all"):
        (tmp_path / saving.NAME).write_bytes(broken)
        with pytest.raises(WorldforkError, match="truncated or not a training state"):
            saving.load(tmp_path, recipe, state)


def test_a_finished_folder_is_not_trained_again(recipe, tmp_path):
    assert saving.finished_recipe(tmp_path) is None
    saving.save(tmp_path, recipe, {"x": np.arange(3.0)}, episode=7, curves=[], seconds=1.0)
    saving.finish(tmp_path, {"recipe": recipe.digest})
    assert [path.name for path in tmp_path.iterdir()] == [saving.FINISHED]
    arguments = ["pretrain", str(RECIPES / "pretrain-demo.toml"), "-o", str(tmp_path)]
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, WorldforkError)
    assert "another recipe" in str(refused.exception)
    demo = read_recipe(RECIPES / "pretrain-demo.toml")
    saving.finish(tmp_path, {"recipe": demo.digest})
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    assert "nothing to do" in done.output
    (tmp_path / saving.FINISHED).write_text("[]")
    with pytest.raises(WorldforkError, match="not the record"):
        saving.finished_recipe(tmp_path)


def test_every_seed_is_its_own(trained):
    first, second = (trained.learners.params["model/gru/weight"][row] for row in (0, 1))
    assert not np.array_equal(first, second)


def test_cutting_the_padding_changes_no_prediction(recipe, trained):
    """A cartpole member was trained beside cheetahs, padded to 17 observations and 6 actions."""
    wide = RSSM.of_size("tiny", 17, 6, bins=9)
    narrow = RSSM.of_size("tiny", 5, 1, bins=9)
    params = {name: x[0] for name, x in trained.learners.params.items()}
    sliced = {name: x[0] for name, x in cut(trained.learners.params, narrow).items()}
    observation, action = np.linspace(-1, 1, 5), np.array([0.3])
    padded = (np.pad(observation, (0, 12)), np.pad(action, (0, 5)))
    outputs = []
    for model, these, (seen, chosen) in ((wide, params, padded), (narrow, sliced, (observation, action))):
        latent = model.begin(these, jax.numpy.asarray(seen, np.float32))
        deter = model.advance(these, latent, jax.numpy.asarray(chosen, np.float32))
        after = latent._replace(deter=deter)
        outputs.append((deter, model.decode(these, after)[:5], model.value(these, after)))
    for ours, theirs in zip(*outputs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_the_gate_keeps_as_many_as_wanted_and_lists_the_rest(harvested, recipe):
    assert [(one.task, one.seed, one.index) for one in harvested] == [
        ("cartpole-swingup", 0, 0),
        ("cartpole-swingup", 1, None),
        ("cheetah-run", 3, 0),
    ]


def test_a_recipe_may_name_every_precision_of_the_agent():
    assert get_args(Recipe.model_fields["precision"].annotation) == tuple(PRECISIONS)


def test_gate_and_report_plan_in_the_recipes_precision(recipe, trained, tmp_path, monkeypatch):
    agents = []

    def returns(agent, environment, parameters, *, checkpoints, episodes, occasion):
        agents.append(agent)
        return np.ones((len(checkpoints), episodes))

    monkeypatch.setattr("worldfork.lab.agents.rssm_cem.pretraining.harvest.standing_returns", returns)
    harvest(recipe.model_copy(update={"precision": "fp16"}), ShortWorlds(recipe), trained, tmp_path)
    assert {(agent.model.precision, agent.imagined.precision) for agent in agents} == {("tf32", "fp16")}
    manifest = checkpoints.read_manifest(tmp_path / "cartpole-swingup-0.safetensors")
    assert manifest["returns"]["precision"] == manifest["recipe"]["precision"] == "fp16"


@functools.cache
def cartpole() -> tuple[RSSMCEM, object]:
    environment = load_environment("cartpole-swingup", threads=1)
    return build(environment, {"size": "tiny", "bins": 9}, "tf32"), environment


@pytest.fixture
def copied(harvested, folder, tmp_path) -> Path:
    for suffix in (".safetensors", ".json"):
        (tmp_path / f"c{suffix}").write_bytes((folder / "checkpoints" / f"cartpole-swingup-0{suffix}").read_bytes())
    return tmp_path / "c.safetensors"


def edit(path: Path, **changes: object) -> None:
    beside = path.with_suffix(".json")
    beside.write_text(json.dumps({**json.loads(beside.read_text()), **changes}))


def test_a_checkpoint_round_trips(copied, trained):
    checkpoint = checkpoints.load(*cartpole(), copied)
    ours = cut({name: x[:1] for name, x in trained.learners.params.items()}, cartpole()[0].model)
    assert checkpoint.parameters.keys() == ours.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(checkpoint.parameters[name], array)
    assert checkpoint.optimiser.keys() >= {"count", "mean/model/gru/weight", "square/value/head/0/weight"}
    manifest = checkpoints.read_manifest(copied)
    assert manifest["clean_physics"]["read"] == manifest["clean_physics"]["nominal"]
    assert checkpoint.clean_return == np.mean(manifest["returns"]["episodes"])


def test_another_planner_is_adopted_with_returns_of_its_own(copied):
    before = checkpoints.read_manifest(copied)
    deployed = deploy([copied], precision="tf32", threads=1, horizon=1)
    deployed.environment.episode_steps = 5
    returns = adopt([copied], deployed)
    after = checkpoints.read_manifest(copied)
    assert after["planner"] == {**before["planner"], "horizon": 1}
    assert after["returns"]["mean"] == returns.mean() != before["returns"]["mean"]
    assert after["earlier_planners"] == [{"planner": before["planner"], "returns": before["returns"]}]
    assert after["digest"] == before["digest"]
    assert checkpoints.load(*cartpole(), copied).clean_return == returns.mean()


def test_a_clean_return_of_another_planner_is_remarked_upon(copied):
    agent, environment = cartpole()
    theirs = CEM(**checkpoints.read_manifest(copied)["planner"])
    same, other = (dataclasses.replace(agent, planner=planner) for planner in (theirs, CEM(8, 2, 5, 2)))
    assert checkpoints.load(same, environment, copied).remark == ""
    assert "another planner (iterations 1, not 5)" in checkpoints.load(other, environment, copied).remark


def test_a_planner_that_falls_at_the_gate_is_not_adopted(copied):
    recipe = checkpoints.read_manifest(copied)["recipe"]
    recipe["tasks"]["cartpole-swingup"]["floor"] = 1000.0
    edit(copied, recipe=recipe)
    before = checkpoints.read_manifest(copied)
    deployed = deploy([copied], precision="tf32", threads=1, horizon=1)
    deployed.environment.episode_steps = 5
    with pytest.raises(WorldforkError, match=r"below its floor of 1000\.0: no manifest was changed"):
        adopt([copied], deployed)
    assert checkpoints.read_manifest(copied) == before


def test_planner_settings_are_read_as_what_they_are():
    assert planner_settings(["temperature=2", "elites=32"]) == {"temperature": 2.0, "elites": 32}
    for wrong, message in (("elites=many", "is no int"), ("speed=3", "has no setting 'speed'")):
        with pytest.raises(WorldforkError, match=message):
            planner_settings([wrong])


def test_learning_rates_hold_for_half_of_the_training_and_fall_to_their_share(recipe):
    falling = recipe.model_copy(update={"final_rate": 0.2})
    assert [falling.rate_share(done) for done in (0.0, 0.5, 0.75, 1.0)] == pytest.approx([1.0, 1.0, 0.6, 0.2])
    assert recipe.rate_share(1.0) == 1.0


def test_what_is_wrong_with_a_checkpoint_is_said_in_one_sentence(copied):
    content = copied.read_bytes()
    faults = {
        "truncated or altered": lambda: copied.write_bytes(content[:-100]),
        "not the file its manifest": lambda: copied.write_bytes(content[:-1] + bytes([content[-1] ^ 1])),
        "reads `worldfork.checkpoint/1`": lambda: edit(copied, schema="worldfork.checkpoint/2"),
        "was trained on walker-walk": lambda: edit(copied, task="walker-walk"),
        "another model": lambda: edit(copied, model={**checkpoints.describe(cartpole()[0].model), "deter": 65}),
        "no proof": lambda: edit(copied, clean_physics={}),
        "do not have the shapes": lambda: edit(copied, shapes={"parameters/x": [1]}),
        "it was not written by worldfork": lambda: copied.with_suffix(".json").write_text(
            '{"schema": "worldfork.checkpoint/1"}'
        ),
        "not a checkpoint's manifest": lambda: copied.with_suffix(".json").write_text("]["),
        "There is no": lambda: copied.with_suffix(".json").unlink(),
    }
    manifest = copied.with_suffix(".json").read_text()
    for message, spoil in faults.items():
        copied.write_bytes(content)
        copied.with_suffix(".json").write_text(manifest)
        spoil()
        with pytest.raises(WorldforkError, match=message):
            checkpoints.load(*cartpole(), copied)


def test_a_foreign_file_with_a_matching_digest_is_refused(copied):
    import hashlib

    copied.write_bytes(b"not tensors at all")
    edit(copied, digest=hashlib.sha256(b"not tensors at all").hexdigest())
    with pytest.raises(WorldforkError, match="not a safetensors file"):
        checkpoints.load(*cartpole(), copied)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("episodes = 'many'", "episodes"),
        ("horizont = 3", "horizont"),
        ("discount = 1.5", "discount"),
        ("=", "not valid TOML"),
    ],
)
def test_a_bad_recipe_is_named(tmp_path, line, message):
    path = tmp_path / "bad.toml"
    lines = [kept for kept in TEXT.splitlines() if kept.split(" =")[0] != line.split(" =")[0]]
    path.write_text("\n".join([line, *lines]))
    with pytest.raises(WorldforkError, match=message):
        read_recipe(path)


@pytest.mark.parametrize("path", sorted(RECIPES.glob("pretrain*.toml")))
def test_committed_recipes_are_valid(path):
    assert read_recipe(path).tasks


def test_the_drift_rule():
    assert registered_scale((1.0, 1.25, 1.5), np.array([800.0, 400.0, 300.0])) == 1.25
    assert registered_scale((1.0, 0.5, 0.1), np.array([800.0, 790.0, 780.0])) == 0.1
    assert all(grid[0] == 1.0 for grid in GRIDS.values())
