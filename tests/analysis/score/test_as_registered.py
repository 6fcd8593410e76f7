"""A study is scored by what its rows were made by, and as the part of it that is there."""

import json
import shutil
from pathlib import Path

import pytest
from published import folder_of

import worldfork as wf
from worldfork.errors import WorldforkError
from worldfork.ledger.store import Study
from worldfork.registration import canonical, digest


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The deployment demo, to be changed."""
    return Path(shutil.copytree(folder_of("deployment-demo"), tmp_path / "study"))


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("registration.json", '"episodes":', '"episodes" :', "registration.json is not what was written"),
        ("registration.toml", "#", "##", "registration.toml is not what was written"),
        ("deployments/thresholds.json", '"0":', '"0": ', "deployments/thresholds.json is not what was written"),
        ("checkpoints/cartpole-swingup-0.json", "{", "{ ", "checkpoints/cartpole-swingup-0.json is not what"),
    ],
)
def test_what_was_changed_beside_the_rows_is_not_scored(
    copy: Path, name: str, old: str, new: str, told: str
) -> None:
    edited(copy / name, old, new)
    with pytest.raises(WorldforkError, match=told) as refused:
        wf.score(copy)
    assert f"worldfork verify {copy}" in str(refused.value)


def test_another_registration_with_a_digest_of_its_own_is_not_scored(copy: Path) -> None:
    stored = json.loads((copy / "registration.json").read_text())["registration"]
    stored["about"] = "Something else?"
    (copy / "registration.json").write_text(canonical({"digest": digest(stored), "registration": stored}) + "\n")
    with pytest.raises(WorldforkError, match=r"registration.toml is not the one|another registration"):
        wf.score(copy)


def test_forks_that_are_not_there_are_counted_before_any_figure(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder_of("demo"), tmp_path / "study"))
    assert wf.score(copy).warnings == ()
    gone = Study(copy).cells()[0]
    forks = len(gone.rows())
    shutil.rmtree(gone.path)
    scored = wf.score(copy)
    assert scored.warnings[0].startswith(f"{forks} of 36 registered forks are not there")
    assert scored.to_json()["warnings"] == list(scored.warnings)
