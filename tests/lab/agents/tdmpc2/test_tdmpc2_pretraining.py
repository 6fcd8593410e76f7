"""Pretraining of TD-MPC2 at a tiny size: seeds side by side, resumable, repeated to the last bit; and its files."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import AgentPlugin
from worldfork.lab.agents.checkpoints import read_manifest
from worldfork.lab.agents.pretraining import group, loop
from worldfork.lab.agents.pretraining.replay import sample_within_episodes
from worldfork.lab.agents.pretraining.worlds import Worlds
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin
from worldfork.lab.agents.sequences import Sequences
from worldfork.lab.agents.tdmpc2.pretraining import Trainee
from worldfork.lab.agents.tdmpc2.recipe import Recipe
from worldfork.lab.environments import load as load_environment
from worldfork.lab.tools.evaluation import load_agent
from worldfork.lab.tools.pretraining import pretrain, read_recipe
from worldfork.registry import build

SMALLEST = """
schema = "worldfork.pretraining/1"
agent = "tdmpc2"
name = "smallest"
size = "tiny"
latent = 8
encoder = 8
hidden = 8
sequences = 4
episodes = 3
environments = 2
replay = 50
gate_episodes = 1
report_episodes = 1
[collection]
candidates = 8
proposals = 2
iterations = 1
elites = 2
[tasks.cartpole-swingup]
seeds = [0, 1]
wanted = 1
planner = { candidates = 8, proposals = 2, iterations = 1, elites = 2 }
"""
STEPS = 25


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("pretraining")


@pytest.fixture(scope="module")
def recipe(folder) -> Recipe:
    path = folder / "recipe.toml"
    path.write_text(SMALLEST)
    return read_recipe(path)


class ShortWorlds(Worlds):
    """Episodes of 25 steps, and gates of as many; the discount stays that of whole ones."""

    def __init__(self, recipe: Recipe, threads: int | None = None) -> None:
        super().__init__(recipe, threads=1)
        self.episode_steps = STEPS

    def proofs(self):
        for environment in self.environments.values():
            environment.episode_steps = STEPS  # the gate comes last
        return super().proofs()


@pytest.fixture(scope="module")
def trained(recipe, folder):
    return loop.train(Trainee(recipe, ShortWorlds(recipe)), folder=folder / "whole")


@pytest.mark.nightly
def test_a_run_that_stops_and_goes_on_equals_one_that_did_not(recipe, folder, trained):
    def interrupt(episode, curves):
        if episode == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.train(Trainee(recipe, ShortWorlds(recipe)), folder=folder / "parts", watch=interrupt, save_every=1)
    resumed = loop.train(Trainee(recipe, ShortWorlds(recipe)), folder=folder / "parts")
    for whole, parts in zip(jax.tree.leaves(trained[0]), jax.tree.leaves(resumed[0]), strict=True):
        np.testing.assert_array_equal(whole, parts)
    assert resumed.curves == trained.curves


def test_as_many_updates_at_once_as_there_are_transitions_and_then_one_per_step(recipe, trained):
    """50 transitions of the random episodes; then two environments for 50 steps, one update for each of them."""
    counts = trained.learners.moments["count/model"], trained.learners.moments["count/policy"]
    np.testing.assert_array_equal(counts, np.full((2, 2, 1), 3 * recipe.environments * STEPS))
    assert [row["episode"] for row in trained.curves] == [0, 0, 1, 1, 2, 2]
    assert [row["env_steps"] for row in trained.curves[::2]] == [200, 400, 600]
    assert all({"planned_return", "model_loss", "policy_loss"} <= row.keys() for row in trained.curves)


def test_every_seed_is_its_own_and_explores(trained):
    first, second = (trained.learners.params["model/dynamics/0/weight"][row] for row in (0, 1))
    assert not np.array_equal(first, second)
    actions = np.asarray(trained.replay.action)
    assert np.abs(actions).max() <= 1.0
    assert len(np.unique(actions[:, :, :STEPS])) > 90  # random ones
    assert len(np.unique(actions[:, :, STEPS:])) > 90


def test_minibatches_lie_within_episodes_that_are_there():
    """Two environments, episodes of 5 steps, 8 steps done: of sequences of 3 those from 0, 1, 2 and 5."""
    number = jnp.arange(24.0).reshape(2, 12)
    replay = Sequences(number[..., None], number[..., None], number, number[..., None], number == 0)
    drawn = sample_within_episodes(replay, 8, jax.random.key(0), sequences=300, length=3, episode=5)
    begins = np.asarray(drawn.reward[:, 0])
    assert set(begins) == {0, 1, 2, 5, 12, 13, 14, 17}
    np.testing.assert_array_equal(drawn.reward, begins[:, None] + np.arange(3))


@pytest.fixture(scope="module")
def finished(recipe, folder, trained):
    """A whole pretraining by the verb's function, of what the other tests have trained."""
    patch = pytest.MonkeyPatch()

    def train(trainee, *, folder, watch, **options):
        for episode in range(recipe.episodes):
            watch(episode, trained.curves[2 * episode : 2 * episode + 2])
        return trained

    with patch.context():
        patch.setattr(group, "Worlds", ShortWorlds)
        patch.setattr(group, "train", train)
        sentences: list[str] = []
        done = pretrain(recipe, folder / "done", threads=1, notify=sentences.append)
    patch.undo()
    return done, sentences


def test_a_finished_pretraining_has_checkpoints_curves_and_a_record(recipe, finished, folder):
    done, sentences = finished
    assert [path.name for path in done.checkpoints] == ["cartpole-swingup-0.safetensors"]
    assert [(seed.seed, seed.index) for seed in done.seeds] == [(0, 0), (1, None)]
    assert sentences[0].startswith("episode 1 of 3: cartpole-swingup returns ")
    rows = [json.loads(line) for line in (folder / "done" / "curves.jsonl").read_text().splitlines()]
    assert len(rows) == 6
    assert (folder / "done" / "curves.png").exists()
    manifest = read_manifest(done.checkpoints[0])
    assert manifest["training"]["gradient_steps"] == manifest["training"]["control_steps"] == 3 * STEPS * 2
    assert manifest["recipe_digest"] == recipe.digest
    assert manifest["model"]["agent"] == "tdmpc2"


def test_a_checkpoint_comes_back_with_the_moments_of_both_optimisers(recipe, finished, trained):
    [path] = finished[0].checkpoints
    environment = load_environment("cartpole-swingup", threads=1)
    settings = {name: getattr(recipe, name) for name in ("size", "latent", "encoder", "hidden", "sequences")}
    planner = recipe.tasks["cartpole-swingup"].planner.model_dump()
    plugin = build("agents", "tdmpc2", AgentPlugin, settings={**settings, **planner})
    agent = plugin.build(environment, precision="tf32")
    agent = dataclasses.replace(agent, networks=dataclasses.replace(agent.networks, discount=discount(path)))
    found = plugin.load(agent, environment, path)
    for ours, theirs in ((found.parameters, trained.learners.params), (found.optimiser, trained.learners.moments)):
        assert ours.keys() == theirs.keys()
        for name, x in theirs.items():
            np.testing.assert_array_equal(ours[name], x[:1])
    assert found.remark == ""
    assert found.replay.reward.shape == (1, 50)
    other = dataclasses.replace(agent, rate=1e-4, planner=dataclasses.replace(agent.planner, iterations=3))
    remark = plugin.load(other, environment, path).remark
    assert "another planner (iterations 1, not 3)" in remark
    assert "rate 0.0003, not 0.0001" in remark
    other = dataclasses.replace(agent, networks=dataclasses.replace(agent.networks, discount=0.5))
    with pytest.raises(WorldforkError, match=r"another model than the one registered \(.*discount"):
        plugin.load(other, environment, path)
    paper = RSSMCEMPlugin(size="tiny").build(environment, precision="tf32")
    with pytest.raises(WorldforkError, match="another model than the one registered"):
        RSSMCEMPlugin(size="tiny").load(paper, environment, path)
    with pytest.raises(WorldforkError, match="checkpoints of the agent `tdmpc2`, and this is for those of"):
        load_agent([path], precision="tf32")


def discount(path: Path) -> float:
    """That of the short episodes."""
    return read_manifest(path)["model"]["discount"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("agent = 'dreamer'", "trains the agent 'dreamer', and recipes are for rssm_cem, tdmpc2"),
        ("random_episodes = 3", "`random_episodes` leaves none of 3 `episodes`"),
        ("gradient_steps = 3", "gradient_steps: not a known setting; known here: .*updates"),
    ],
)
def test_a_bad_recipe_is_named_in_a_line(tmp_path, line, message):
    path = tmp_path / "bad.toml"
    kept = [one for one in SMALLEST.splitlines() if one.split(" =")[0] != line.split(" =")[0]]
    path.write_text("\n".join([line, *kept]))
    with pytest.raises(WorldforkError, match=message):
        read_recipe(path)


def test_a_group_is_one_task_and_some_of_its_seeds(recipe):
    both = {"cartpole-swingup": recipe.tasks["cartpole-swingup"], "cheetah-run": recipe.tasks["cartpole-swingup"]}
    several = recipe.model_copy(update={"tasks": both})
    assert [list(group.tasks) for group in several.groups()] == [["cartpole-swingup"], ["cheetah-run"]]
    alone = several.model_copy(update={"seeds_per_group": 1})
    assert [[one.seeds for one in group.tasks.values()] for group in alone.groups()] == [[(0,)], [(1,)]] * 2
    assert len({each.digest for each in (recipe, several, alone)}) == 3
