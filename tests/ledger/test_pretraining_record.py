"""Seeds that a gate rejected stay with the study, whichever recipe they came from."""

import json
from pathlib import Path

import pytest

from worldfork.errors import WorldforkError
from worldfork.lab.forks.checkpoints import checkpoint_files, keep_checkpoints
from worldfork.ledger.pretraining import Seed, keep_record, read_seeds
from worldfork.ledger.store import Study, writing
from worldfork.registration import parse

AUTHORED = """
schema = "worldfork.registration/1"
name = "two-recipes"
[grid]
tasks = ["walker-walk", "cheetah-run"]
checkpoints = [0]
directions = ["away"]
[tasks.cheetah-run]
agent = "rssm_cem"
drift_scale = 2.0
checkpoints = "{task}/{task}-{checkpoint}.safetensors"
[tasks.walker-walk]
agent = "rssm_cem"
drift_scale = 2.0
checkpoints = "{task}/{task}-{checkpoint}.safetensors"
"""


def pretrained(root: Path, task: str, gates: list[float], floor: float, *, spare: str | None = None) -> None:
    """What pretraining leaves: the first seed above the floor is checkpoint 0; of `spare` nothing is forked."""
    folder = root / task
    folder.mkdir()
    kept = next(seed for seed, gate in enumerate(gates) if gate >= floor)
    recipe = {"recipe": {"tasks": {task: {"floor": floor}}}, "recipe_digest": task * 8, "digest": f"{task} {kept}"}
    recipe["returns"] = {"mean": gates[kept] + 5}  # since then another planner was adopted
    (folder / f"{task}-0.safetensors").write_bytes(b"model")
    (folder / f"{task}-0.json").write_text(json.dumps(recipe))
    seeds = [
        {"task": task, "seed": seed, "gate": gate, "returns": [gate, gate + 2], "index": None, "digest": None}
        | ({"index": 0, "digest": f"{task} {kept}"} if seed == kept else {})
        for seed, gate in enumerate(gates)
    ]
    if spare:
        seeds.append({"task": spare, "seed": 9, "gate": 1.0, "returns": [1.0], "index": 0, "digest": "elsewhere"})
    (folder / "pretraining.json").write_text(json.dumps({"recipe": task * 8, "seeds": seeds}))


@pytest.fixture
def study(tmp_path: Path) -> Study:
    pretrained(tmp_path, "walker-walk", [200.0, 400.0, 500.0], 300.0)
    pretrained(tmp_path, "cheetah-run", [350.0], 278.0, spare="walker-walk")
    registration = parse(AUTHORED)
    with writing(tmp_path / "study", registration, authored=AUTHORED) as study:
        study.begin({})
        keep_checkpoints(study, checkpoint_files(registration, root=tmp_path, copies=study.path / "checkpoints"))
    return study


def test_every_seed_of_every_recipe_is_listed_with_its_fate(study: Study) -> None:
    assert len(list((study.path / "pretraining").iterdir())) == 2
    assert read_seeds(study) == [
        Seed("walker-walk", 0, 200.0, 300.0, 201.0, None, "rejected"),
        Seed("walker-walk", 1, 400.0, 300.0, 401.0, 405.0, "checkpoint 0"),
        Seed("walker-walk", 2, 500.0, 300.0, 501.0, None, "spare"),
        Seed("cheetah-run", 0, 350.0, 278.0, 351.0, 355.0, "checkpoint 0"),
    ]


def test_without_its_recipe_the_floor_is_not_known(study: Study) -> None:
    path = study.path / "checkpoints" / "walker-walk-0.json"
    path.write_text(json.dumps({"digest": json.loads(path.read_text())["digest"]}))
    assert [one.fate for one in read_seeds(study)][:3] == ["not kept", "checkpoint 0", "not kept"]


def test_checkpoints_without_a_record_leave_none(study: Study, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with writing(study.path, parse(AUTHORED), authored=AUTHORED) as again:
        again.begin({})
        keep_record(again, tmp_path / "elsewhere")
    assert len(list((study.path / "pretraining").iterdir())) == 2


def test_a_broken_record_is_one_clear_error(study: Study, tmp_path: Path) -> None:
    (tmp_path / "walker-walk" / "pretraining.json").write_text("{")
    with writing(study.path, parse(AUTHORED), authored=AUTHORED) as again:
        again.begin({})
        with pytest.raises(WorldforkError, match="can not be read"):
            keep_record(again, tmp_path / "walker-walk")


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("pretraining", {"recipe": "r"}, "seeds"),
        ("pretraining", {"recipe": "../../elsewhere", "seeds": []}, "recipe"),
        ("pretraining", {"recipe": "r", "seeds": [{"task": "walker-walk"}]}, r"seeds\.0\.seed"),
        ("checkpoints", {"digest": "d", "returns": [1.0]}, "returns"),
        ("checkpoints", {"digest": "d", "recipe": {"tasks": {"walker-walk": {"floor": "high"}}}}, "floor"),
    ],
)
def test_records_without_their_fields_are_one_sentence(
    study: Study, name: str, content: dict[str, object], place: str
) -> None:
    (study.path / name / "stranger.json").write_text(json.dumps(content))
    with pytest.raises(WorldforkError, match=rf"stranger\.json` is not what worldfork writes: .*{place}"):
        read_seeds(study)
