"""Pretraining in groups: who trains one changes no byte, what is finished stays, what would differ is refused."""

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_pretraining import ShorterWorlds
from test_recipe import SMALLEST

from worldfork.errors import Failed, WorldforkError
from worldfork.lab.agents.pretraining import group
from worldfork.lab.agents.pretraining.outcomes import TrainedSeed, choose, seed_stem
from worldfork.lab.agents.rssm_cem.recipe import Recipe
from worldfork.lab.tools import pretraining
from worldfork.lab.tools.pretraining import pretrain, read_recipe

TASK = "cartpole-swingup"
ONE_TASK = SMALLEST[: SMALLEST.index("[tasks.cheetah-run]")].replace("seeds = [0, 1]", "seeds = [4, 0, 7]")


class Elsewhere:
    """Workers that are handed pickles and share nothing else. The last task comes back first; after `power` groups
    the power is gone."""

    def __init__(self, *, power: int = 99) -> None:
        self.power = power
        self.trained: list[int] = []

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any], /) -> Iterator[tuple[int, Any]]:
        for index, task in reversed(list(enumerate(tasks))):
            if isinstance(task, pretraining.TrainGroup):
                if len(self.trained) == self.power:
                    yield index, Failed("a power cut", "nobody knows")
                    continue
                self.trained.append(task.number)
            work, given = pickle.loads(pickle.dumps((function, task)))
            yield index, pickle.loads(pickle.dumps(work(given)))


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """Three seeds of cartpole, of which two are wanted, each trained by itself."""
    monkeypatch.setattr(group, "Worlds", ShorterWorlds)
    path = tmp_path / "recipe.toml"
    path.write_text("seeds_per_group = 1\n" + ONE_TASK.replace("wanted = 1", "wanted = 2"))
    return read_recipe(path)


def checkpoints(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("cartpole-swingup-*")}


def made_up(recipe: Recipe, number: int, **options: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What a group of one seed would come to, without training it."""
    (seed,) = recipe.groups()[number].tasks[TASK].seeds
    files = {f"{seed_stem(TASK, seed)}{suffix}": f"{seed}{suffix}".encode() for suffix in pretraining.SUFFIXES}
    curve = {"task": TASK, "seed": seed, "episode": 0, "env_steps": 1000, "planned_return": float("nan")}
    seeds = [dataclasses.asdict(TrainedSeed(TASK, seed, 800.0, [float(seed)], f"{seed}"))]
    return {"seeds": seeds, "curves": [curve], "training_seconds": 1.0, "evaluation_seconds": 2.0}, files


@pytest.mark.parametrize("really", [pytest.param(True, marks=pytest.mark.nightly), False])
def test_who_trains_a_group_changes_no_byte_and_finished_groups_are_not_trained_again(
    recipe, tmp_path, monkeypatch, really
):
    if not really:
        monkeypatch.setattr(group, "train_group", made_up)
    here, there = tmp_path / "here", tmp_path / "there"
    steps: list[tuple[str, int, int]] = []
    done = pretrain(recipe, here, threads=1, progress=lambda *step: steps.append(step))
    cut_short, rest = Elsewhere(power=1), Elsewhere()
    with pytest.raises(WorldforkError, match=r"(?s)2 of 3 groups could not be trained.*group 0 .*: a power cut"):
        pretrain(recipe, there, executor=cut_short)
    assert "nobody knows" in (there / "failures.log").read_text()
    sentences: list[str] = []
    again = pretrain(recipe, there, executor=rest, notify=sentences.append)
    assert (cut_short.trained, rest.trained) == ([2], [1, 0])
    assert sentences[0] == "1 of 3 groups are trained already."
    assert sorted(checkpoints(here)) == [
        f"cartpole-swingup-{index}{suffix}" for index in (0, 1) for suffix in (".json", ".npz", ".safetensors")
    ]
    assert checkpoints(there) == checkpoints(here)
    assert again.seeds == done.seeds
    assert [(seed.seed, seed.index) for seed in done.seeds] == [(4, 0), (0, 1), (7, None)]
    assert (there / "curves.jsonl").read_bytes() == (here / "curves.jsonl").read_bytes()
    assert ("groups", 3, 3) in steps
    assert not (there / "groups").exists()


def test_a_seed_that_falls_at_the_gate_is_replaced_by_the_next_one_of_another_group(recipe):
    strict = recipe.tasks[TASK].model_copy(update={"floor": 500.0})
    recipe = recipe.model_copy(update={"tasks": {TASK: strict}})
    gates = {7: 900.0, 4: 600.0, 0: 100.0}
    fates = choose(recipe, [TrainedSeed(TASK, seed, gate, [gate], f"{seed}") for seed, gate in gates.items()])
    assert [(fate.seed, fate.index, fate.digest) for fate in fates] == [(4, 0, "4"), (0, None, None), (7, 1, "7")]


def test_groups_are_the_recipes_and_not_the_machines(recipe):
    assert [list(group.tasks["cartpole-swingup"].seeds) for group in recipe.groups()] == [[4], [0], [7]]
    pairs = recipe.model_copy(update={"seeds_per_group": 2})
    assert [list(group.tasks["cartpole-swingup"].seeds) for group in pairs.groups()] == [[4, 0], [7]]
    whole = recipe.model_copy(update={"seeds_per_group": None})
    assert whole.groups() == [whole]
    assert len({entry.digest for entry in (recipe, pairs, whole, *recipe.groups())}) == 6


class Idle:
    """Workers that say what they would train with, and train nothing."""

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any], /) -> Iterator[tuple[int, Any]]:
        for index, task in enumerate(tasks):
            described = isinstance(task, pretraining.DescribeTrainer)
            yield index, function(task) if described else Failed("a power cut", "")


def begin(recipe: Recipe, folder: Path) -> None:
    """As if one group had been trained."""
    with pytest.raises(WorldforkError, match="a power cut"):
        pretrain(recipe, folder, executor=Idle())
    (folder / "groups" / "0").mkdir()
    (folder / "groups" / "0" / pretraining.RECORD).write_text("{}")


def test_what_would_train_otherwise_is_refused(recipe, tmp_path, monkeypatch):
    trainer = group.trainer(recipe, module="worldfork.lab.agents.rssm_cem.pretraining")
    begin(recipe, tmp_path)
    monkeypatch.setattr(group, "trainer", lambda recipe, module: {**trainer, "device": "another kind"})
    with pytest.raises(WorldforkError, match=r"trained otherwise:\n  trainer\.device: .* -> .another kind"):
        pretrain(recipe, tmp_path, executor=Idle())
    task = pretraining.TrainGroup(recipe.model_dump_json(by_alias=True), 0, trainer, tmp_path, 10)
    refused = pretraining.perform(task)
    assert isinstance(refused, Failed)
    assert refused.unfit
    assert "device" in refused.reason


def test_another_recipe_is_not_mixed_into_a_folder_that_is_half_done(recipe, tmp_path):
    pairs = recipe.model_copy(update={"seeds_per_group": 2})
    with pytest.raises(WorldforkError, match="a power cut"):
        pretrain(pairs, tmp_path, executor=Idle())  # of which nothing is there
    begin(recipe, tmp_path)
    with pytest.raises(WorldforkError, match=r"trained otherwise:\n  recipe: "):
        pretrain(pairs, tmp_path, executor=Idle())


@pytest.mark.parametrize(
    ("given", "groups", "expected"),
    [
        (({}, None), 1, {"workers": 1, "deadline": None}),
        (({}, 2), 1, {"workers": 2, "deadline": None}),
        (({}, None), 3, {"deadline": None}),
        (({"deadline": 60}, 2), 3, {"workers": 2, "deadline": 60}),
    ],
)
def test_a_training_has_no_deadline_but_the_one_that_is_asked_for(given, groups, expected):
    settings, workers = given
    assert pretraining._settings("local", workers, settings, groups=groups) == expected
