"""A study to pass on: small, and as checkable as what is left in it."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import worldfork
from worldfork.cli.main import app
from worldfork.desk.reading import study_frame
from worldfork.errors import WorldforkError
from worldfork.ledger import arrays
from worldfork.ledger.publish import publish
from worldfork.ledger.store import Study
from worldfork.ledger.verify import verify

DEMO = Path(__file__).parents[2] / "results" / "demo"
BUNDLED = Path(worldfork.__file__).parent / "bundled"


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """The demo's study as it was run, models and windows included."""
    shutil.copytree(DEMO, tmp_path / "study")
    for model in BUNDLED.glob("*.safetensors"):
        shutil.copyfile(model, tmp_path / "study" / "checkpoints" / model.name)
    (tmp_path / "study" / "published.json").unlink()
    return Study(tmp_path / "study")


def test_a_published_study_is_small_says_what_is_not_in_it_and_verifies(study: Study, tmp_path: Path) -> None:
    whole = verify(study.path)
    assert (whole.problems, whole.notes) == ((), ())
    written = publish(study, tmp_path / "slim")
    names = {path.suffix for path in (tmp_path / "slim").rglob("*") if path.is_file()}
    assert not names & {".safetensors", ".npz"}
    assert written == sum(path.stat().st_size for path in (tmp_path / "slim").rglob("*") if path.is_file())
    verdict = verify(tmp_path / "slim")
    assert verdict.problems == ()
    assert verdict.complete
    assert "3 of 3 models are not here: there are the digests in their manifests alone." in verdict.notes
    assert "The windows of 6 cells are not here; their rows hold the digests." in verdict.notes
    assert study_frame(Study(tmp_path / "slim")).equals(study_frame(study))


def test_what_is_left_is_still_checked(study: Study, tmp_path: Path) -> None:
    publish(study, tmp_path / "slim")
    slim = Study(tmp_path / "slim")
    cell = slim.cells()[0]
    log = cell.read_log()
    arrays.write_parquet(cell.path / "stream.parquet", {**log, "error": log["error"] + 1})
    assert "fork 1: stream.parquet" in verify(slim.path).problems[0]


def test_windows_are_missed_unless_they_were_left_out(study: Study) -> None:
    (study.cells()[0].path / "window.npz").unlink()
    assert "damaged or not there" in verify(study.path).problems[0]


@pytest.mark.parametrize("end", ["safetensors", "json"])
def test_another_model_or_manifest_is_found(study: Study, end: str) -> None:
    path = study.path / "checkpoints" / f"cartpole-swingup-1.{end}"
    if end == "json":
        path.write_text(json.dumps({**json.loads(path.read_text()), "digest": "another"}))
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert [problem.split(":")[0] for problem in verify(study.path).problems] == [
        f"checkpoints/cartpole-swingup-1.{end} is not what was written.",
        "checkpoint cartpole-swingup-1",
    ]


def test_the_verb_passes_no_damage_on_and_overwrites_nothing(study: Study, tmp_path: Path) -> None:
    def run(target: Path) -> object:
        return CliRunner().invoke(app, ["export", str(study.path), "--publish", "-o", str(target)]).exception

    assert run(tmp_path / "slim") is None
    assert isinstance(run(tmp_path / "slim"), WorldforkError)
    path = study.cells()[0].path / "forks.jsonl"
    path.write_text(path.read_text().replace("0", "1", 1))
    assert "is not what was written" in str(run(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


def test_a_folder_that_can_not_be_made_is_one_sentence(study: Study, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorldforkError, match="Could not write"):
        publish(study, tmp_path / "file" / "slim")


def test_a_marker_that_says_nothing_is_refused(study: Study) -> None:
    (study.path / "published.json").write_text("{}")
    with pytest.raises(WorldforkError, match="does not say what was left out"):
        verify(study.path)
