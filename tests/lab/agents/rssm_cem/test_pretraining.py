"""Pretraining at a tiny size: deterministic, resumable, padded without effect; checkpoints one can trust."""

import dataclasses
import functools
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from test_recipe import SMALLEST
from typer.testing import CliRunner

from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.agents import checkpoints
from worldfork.lab.agents.pretraining import group, loop, outcomes
from worldfork.lab.agents.pretraining import replay as replays
from worldfork.lab.agents.pretraining.group import harvest
from worldfork.lab.agents.pretraining.worlds import Worlds
from worldfork.lab.agents.rssm_cem.agent import RSSMCEM
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin
from worldfork.lab.agents.rssm_cem.pretraining import Trainee, cut
from worldfork.lab.agents.rssm_cem.recipe import Recipe
from worldfork.lab.agents.sequences import Sequences
from worldfork.lab.environments import load as load_environment
from worldfork.lab.planner.cem import CEM
from worldfork.lab.tools.pretraining import pretrain, read_recipe


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("pretraining")


@pytest.fixture(scope="module")
def recipe(folder) -> Recipe:
    path = folder / "recipe.toml"
    path.write_text(SMALLEST)
    return read_recipe(path)


class ShortWorlds(Worlds):
    """Episodes of ten steps: the loop is the same, the test is not half an hour."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe, threads=1)
        self.episode_steps = 10


class ShorterWorlds(ShortWorlds):
    """And gates of five."""

    def __init__(self, recipe: Recipe, threads: int | None = None) -> None:
        super().__init__(recipe)
        for environment in self.environments.values():
            environment.episode_steps = 5


@pytest.fixture(scope="module")
def trained(recipe, folder):
    return loop.train(Trainee(recipe, ShortWorlds(recipe)), folder=folder / "whole")


@pytest.fixture(scope="module")
def harvested(recipe, folder, trained):
    return harvest(recipe, Trainee(recipe, ShorterWorlds(recipe)), trained, folder / "checkpoints")


def test_a_run_that_stops_and_goes_on_equals_one_that_did_not(recipe, folder, trained):
    def interrupt(episode, curves):
        if episode == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.train(Trainee(recipe, ShortWorlds(recipe)), folder=folder / "parts", watch=interrupt, save_every=1)
    resumed = loop.train(Trainee(recipe, ShortWorlds(recipe)), folder=folder / "parts")
    for whole, parts in zip(jax.tree.leaves(trained.learners), jax.tree.leaves(resumed.learners), strict=True):
        np.testing.assert_array_equal(whole, parts)
    assert [row["planned_return"] for row in resumed.curves] == [row["planned_return"] for row in trained.curves]


def test_another_recipe_does_not_go_on_from_it(recipe, tmp_path):
    state = {"x": np.arange(3.0)}
    loop.save_state(tmp_path, recipe, state, episode=7, curves=[], seconds=1.0)
    found, episode, _, _ = loop.load_state(tmp_path, recipe, state)
    assert episode == 7
    np.testing.assert_array_equal(found["x"], state["x"])
    with pytest.raises(WorldforkError, match="belongs to another recipe"):
        loop.load_state(tmp_path, recipe.model_copy(update={"entropy": 0.5}), state)


def test_a_broken_training_state_is_said_in_one_sentence(recipe, tmp_path):
    state = {"x": np.arange(3.0)}
    loop.save_state(tmp_path, recipe, state, episode=7, curves=[], seconds=1.0)
    whole = (tmp_path / loop.STATE).read_bytes()
    for broken in (whole[:-4], b"", b"no tensors at all"):
        (tmp_path / loop.STATE).write_bytes(broken)
        with pytest.raises(WorldforkError, match="truncated or not a training state"):
            loop.load_state(tmp_path, recipe, state)


def test_a_job_leaves_checkpoints_curves_and_a_record_and_is_not_done_twice(recipe, trained, tmp_path, monkeypatch):
    def train(trainee, *, folder, watch, **options):
        for episode in range(recipe.episodes):
            watch(episode, trained.curves[3 * episode : 3 * episode + 3])
        return trained

    monkeypatch.setattr(group, "Worlds", ShorterWorlds)
    monkeypatch.setattr(group, "train", train)  # what the other tests have trained: training twice proves no more
    steps, sentences = [], []
    done = pretrain(
        recipe, str(tmp_path), threads=1, progress=lambda *step: steps.append(step), notify=sentences.append
    )
    assert [path.name for path in done.checkpoints] == [
        "cartpole-swingup-0.safetensors", "cheetah-run-0.safetensors",
    ]  # fmt: skip
    assert all(path.exists() and path.with_suffix(".json").exists() for path in done.checkpoints)
    assert len((tmp_path / "curves.jsonl").read_text().splitlines()) == recipe.episodes * 3
    assert steps[0] == ("episodes", 0, 3)
    assert steps[-1] == ("tasks", 2, 2)
    assert sentences[1].startswith("episode 2 of 3: cartpole-swingup returns ")
    assert not (tmp_path / loop.STATE).exists()
    again = pretrain(recipe, tmp_path, notify=sentences.append)
    assert again == done
    assert "nothing to do" in sentences[-1]
    with pytest.raises(WorldforkError, match="holds the checkpoints of another recipe"):
        pretrain("pretrain-demo", tmp_path)
    for broken in ("[]", "{}", "]["):
        (tmp_path / outcomes.FINISHED).write_text(broken)
        with pytest.raises(WorldforkError, match="not the record"):
            pretrain(recipe, tmp_path)


def test_the_verb_prints_what_became_of_every_seed(tmp_path):
    demo = read_recipe("pretrain-demo")
    seed = {"task": "cartpole-swingup", "seed": 4, "gate": 812.0, "index": 0, "returns": [800.0], "digest": "a"}
    outcomes.write_finished(outcomes.Pretraining(tmp_path, demo.digest, 7.0, 1.0, (outcomes.TrainedSeed(**seed),)))
    shown = CliRunner().invoke(app, ["pretrain", "pretrain-demo", "-o", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "nothing to do" in shown.output
    assert "812.0" in shown.output
    assert "7 s of training" in shown.output


def test_a_state_of_another_version_is_not_gone_on_from(recipe, tmp_path):
    loop.save_state(tmp_path, recipe, {"x": np.arange(3.0)}, episode=7, curves=[], seconds=1.0)
    with pytest.raises(WorldforkError, match="another version of worldfork"):
        loop.load_state(tmp_path, recipe, {"x": np.arange(3.0), "y": np.arange(2.0)})


def test_episodes_of_two_lengths_do_not_train_side_by_side(recipe, monkeypatch):
    def load(task, threads):
        environment = load_environment(task, threads=threads)
        environment.episode_steps = 10 if task == "cheetah-run" else 20
        return environment

    monkeypatch.setattr("worldfork.lab.agents.pretraining.worlds.load", load)
    with pytest.raises(WorldforkError, match="cartpole-swingup 20, cheetah-run 10 control steps"):
        Worlds(recipe, threads=1)


def test_every_seed_is_its_own(trained):
    first, second = (trained.learners.params["model/gru/weight"][row] for row in (0, 1))
    assert not np.array_equal(first, second)


@functools.partial(jax.jit, static_argnums=0)
def predict(model, params, observation, action):
    """What a model expects after one action: its state, the first five observations, and the value."""
    latent = model.begin(params, observation)
    deter = model.advance(params, latent, action)
    after = latent._replace(deter=deter)
    return deter, model.decode(params, after)[:5], model.value(params, after)


def test_cutting_the_padding_changes_no_prediction(recipe, trained):
    """A cartpole member was trained beside cheetahs, padded to 17 observations and 6 actions."""
    tiny = RSSMCEMPlugin(size="tiny", bins=9)
    wide, narrow = tiny.model(17, 6), tiny.model(5, 1)
    learned = jax.device_get(trained.learners.params)
    params, sliced = ({name: x[0] for name, x in arrays.items()} for arrays in (learned, cut(learned, narrow)))
    observation, action = np.linspace(-1, 1, 5), np.array([0.3])
    padded = (np.pad(observation, (0, 12)), np.pad(action, (0, 5)))
    outputs = []
    for model, these, (seen, chosen) in ((wide, params, padded), (narrow, sliced, (observation, action))):
        outputs.append(predict(model, these, np.float32(seen), np.float32(chosen)))
    for ours, theirs in zip(*outputs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_the_gate_keeps_as_many_as_wanted_and_lists_the_rest(harvested, recipe):
    assert [(one.task, one.seed, one.index) for one in outcomes.choose(recipe, harvested)] == [
        ("cartpole-swingup", 0, 0),
        ("cartpole-swingup", 1, None),
        ("cheetah-run", 3, 0),
    ]


def test_a_checkpoint_keeps_whole_sequences_of_its_own_replay(copied, recipe, trained):
    """Beside the weights, whose digest knows nothing of it."""
    environment = cartpole()[1]
    manifest = checkpoints.read_manifest(copied)
    stored = RSSMCEMPlugin().load(*cartpole(), copied)
    replay, length = stored.replay, recipe.length
    count = min(recipe.replay // length, recipe.environments * (trained.replay.reward.shape[2] // length))
    assert manifest["replay"]["transitions"] == replay.reward.shape[1] == int(replay.size[0]) == count * length
    assert stored.replay_digest == manifest["replay"]["digest"] != stored.digest
    assert replay.observation.shape[2:] == (environment.observation_size,)
    assert replay.first[0, ::length].all()
    collected = {row.tobytes() for row in np.asarray(trained.replay.reward[0]).reshape(-1, 1)}
    assert all(row.tobytes() in collected for row in replay.reward[0].reshape(-1, 1))
    copied.with_suffix(".npz").write_bytes(b"something else")
    with pytest.raises(WorldforkError, match="not the replay that its checkpoint describes"):
        RSSMCEMPlugin().load(*cartpole(), copied)
    copied.with_suffix(".npz").unlink()
    assert RSSMCEMPlugin().load(*cartpole(), copied).replay is None


def test_pieces_are_drawn_once_each_and_begin_where_it_says(recipe):
    number = jax.numpy.arange(3 * 2 * 12.0).reshape(3, 2, 12)
    filled = Sequences(number[..., None], number[..., None], number, number[..., None], number == 0)
    kept = replays.keep_some(filled, 1, transitions=8, length=4, random=np.random.default_rng(0))
    begins = kept["reward"].reshape(2, 4)[:, 0]
    np.testing.assert_array_equal(kept["reward"].reshape(2, 4), begins[:, None] + np.arange(4))
    assert set(begins) <= {24.0, 28.0, 32.0, 36.0, 40.0, 44.0}
    assert len(set(begins)) == 2
    np.testing.assert_array_equal(kept["first"], [True, False, False, False] * 2)
    everything = replays.keep_some(filled, 1, transitions=999, length=4, random=np.random.default_rng(0))
    np.testing.assert_array_equal(everything["reward"], np.arange(24.0, 48.0))


def test_gate_and_report_plan_in_the_recipes_precision(recipe, trained, tmp_path, monkeypatch):
    agents = []

    def returns(agent, environment, parameters, *, checkpoints, episodes, occasion):
        agents.append(agent)
        return np.ones((len(checkpoints), episodes))

    monkeypatch.setattr("worldfork.lab.agents.pretraining.group.fixed_level_returns", returns)
    harvest(
        recipe.model_copy(update={"precision": "fp16"}), Trainee(recipe, ShortWorlds(recipe)), trained, tmp_path
    )
    assert {(agent.model.precision, agent.imagined.precision) for agent in agents} == {("tf32", "fp16")}
    manifest = checkpoints.read_manifest(tmp_path / "cartpole-swingup-seed0.safetensors")
    assert manifest["returns"]["precision"] == manifest["recipe"]["precision"] == "fp16"


@functools.cache
def cartpole() -> tuple[RSSMCEM, object]:
    environment = load_environment("cartpole-swingup", threads=1)
    training = {"sequences": 2, "length": 6}  # as in the recipe
    return RSSMCEMPlugin(size="tiny", bins=9, **training).build(environment, precision="tf32"), environment


@pytest.fixture
def copied(harvested, folder, tmp_path) -> Path:
    for suffix in (".safetensors", ".json", ".npz"):
        (tmp_path / f"c{suffix}").write_bytes(
            (folder / "checkpoints" / f"cartpole-swingup-seed0{suffix}").read_bytes()
        )
    return tmp_path / "c.safetensors"


def edit(path: Path, **changes: object) -> None:
    beside = path.with_suffix(".json")
    beside.write_text(json.dumps({**json.loads(beside.read_text()), **changes}))


def test_a_checkpoint_round_trips(copied, trained):
    checkpoint = RSSMCEMPlugin().load(*cartpole(), copied)
    learned = jax.device_get(trained.learners.params)
    ours = cut({name: x[:1] for name, x in learned.items()}, cartpole()[0].model)
    assert checkpoint.parameters.keys() == ours.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(checkpoint.parameters[name], array)
    assert checkpoint.optimiser.keys() >= {"count", "mean/model/gru/weight", "square/value/head/0/weight"}
    manifest = checkpoints.read_manifest(copied)
    assert manifest["clean_physics"]["read"] == manifest["clean_physics"]["nominal"]
    assert checkpoint.clean_return == np.mean(manifest["returns"]["episodes"])


def test_a_clean_return_of_another_planner_is_remarked_upon(copied):
    agent, environment = cartpole()
    theirs = CEM(**checkpoints.read_manifest(copied)["planner"])
    same, other = (dataclasses.replace(agent, planner=planner) for planner in (theirs, CEM(8, 2, 5, 2)))
    assert RSSMCEMPlugin().load(same, environment, copied).remark == ""
    assert "another planner (iterations 1, not 5)" in RSSMCEMPlugin().load(other, environment, copied).remark


def test_an_update_that_is_not_pretrainings_is_remarked_upon(copied):
    """The defaults are one; a study that registers others than its checkpoints' recipe is told."""
    assert all(
        Recipe.model_fields[name].default == RSSMCEMPlugin.model_fields[name].default
        for name in ("sequences", "length", "model_rate", "value_rate")
    )
    agent, environment = cartpole()
    agent = dataclasses.replace(agent, planner=CEM(**checkpoints.read_manifest(copied)["planner"]))
    other = dataclasses.replace(agent, length=12, model_rate=1e-5)
    remark = RSSMCEMPlugin().load(other, environment, copied).remark
    assert "otherwise than UPDATE will train it (length 6, not 12, model_rate 0.0004, not 1e-05)" in remark


def test_what_is_wrong_with_a_checkpoint_is_said_in_one_sentence(copied):
    content = copied.read_bytes()
    faults = {
        "truncated or altered": lambda: copied.write_bytes(content[:-100]),
        "not the file its manifest": lambda: copied.write_bytes(content[:-1] + bytes([content[-1] ^ 1])),
        "reads `worldfork.checkpoint/1`": lambda: edit(copied, schema="worldfork.checkpoint/2"),
        "was trained on walker-walk": lambda: edit(copied, task="walker-walk"),
        "another model": lambda: edit(copied, model={**cartpole()[0].described, "deter": 65}),
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
            RSSMCEMPlugin().load(*cartpole(), copied)


def test_a_foreign_file_with_a_matching_digest_is_refused(copied):
    import hashlib

    copied.write_bytes(b"not tensors at all")
    edit(copied, digest=hashlib.sha256(b"not tensors at all").hexdigest())
    with pytest.raises(WorldforkError, match="not a safetensors file"):
        RSSMCEMPlugin().load(*cartpole(), copied)
