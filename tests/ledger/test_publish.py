"""A study to pass on: small, and as checkable as what is left in it."""

import json
import shutil
from pathlib import Path

import pytest
from deployed import DEPLOYED
from tiny import TWO_ARMS, contents, findings, rechain, unpacked_copy, write
from typer.testing import CliRunner

import worldfork
from worldfork.analysis.read.frames import stream_frame, study_frame
from worldfork.analysis.score import score_ledger
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.ledger import arrays
from worldfork.ledger.publish import publish
from worldfork.ledger.store import Study
from worldfork.ledger.verify import root, verify

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
    unpacked_copy(study, tmp_path / "slim")
    names = {path.suffix for path in (tmp_path / "slim").rglob("*") if path.is_file()}
    assert not names & {".safetensors", ".npz"}
    verdict = verify(tmp_path / "slim")
    assert verdict.problems == ()
    assert verdict.complete
    assert "3 of 3 models are not here: there are the digests in their manifests alone." in verdict.notes
    assert "The windows of 6 cells are not here; their rows hold the digests." in verdict.notes
    assert study_frame(Study(tmp_path / "slim")).equals(study_frame(study))


def test_what_is_left_is_still_checked(study: Study, tmp_path: Path) -> None:
    unpacked_copy(study, tmp_path / "slim")
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


# --- what several cells share, and rows


FEW, MANY = (f"{arm}-linear_quadratic-c0-away-s0" for arm in ("few", "many"))


def test_a_stream_that_cells_share_is_kept_once_and_read_from_either(tmp_path: Path) -> None:
    study = write(tmp_path / "study", authored=TWO_ARMS)
    unpacked_copy(study, tmp_path / "slim")
    assert [path.parent.name for path in tmp_path.glob("slim/cells/*/stream.parquet")] == [FEW]
    slim = Study(tmp_path / "slim")
    for cell in (FEW, MANY):
        assert arrays.content_digest(slim.cell(cell).read_log()) == slim.cell(cell).rows()[0].stream
    assert findings(slim.path) == ""
    assert root(slim) == root(study)
    arrays.write_parquet(slim.cell(FEW).path / "stream.parquet", {"step": study.cell(FEW).read_log()["step"]})
    assert [problem.split(",")[0] for problem in verify(slim.path).problems] == [FEW, MANY]


def test_a_stream_that_differs_from_its_owners_is_kept(tmp_path: Path) -> None:
    study = write(tmp_path / "study", authored=TWO_ARMS)
    log = study.cell(MANY).read_log()
    arrays.write_parquet(study.cell(MANY).path / "stream.parquet", {**log, "error": log["error"] + 1})
    unpacked_copy(study, tmp_path / "slim")
    assert len(list(tmp_path.glob("slim/cells/*/stream.parquet"))) == 2


def test_a_shared_stream_is_missed_in_a_study_that_is_no_copy(tmp_path: Path) -> None:
    study = write(tmp_path / "study", authored=TWO_ARMS)
    (study.cell(MANY).path / "stream.parquet").unlink()
    assert "damaged or not there" in findings(study.path)


def test_the_owner_of_a_stream_is_a_cell_of_the_study(tmp_path: Path) -> None:
    study = write(tmp_path / "study", authored=TWO_ARMS)
    (study.cell(MANY).path / "stream.parquet").unlink()
    rechain(study, MANY, lambda stored: stored["shares"].update(stream="../../../elsewhere"))
    assert "its stream is that of a cell of this study; got `../../../elsewhere`" in findings(study.path)


def test_a_copy_is_not_run_into(tmp_path: Path) -> None:
    unpacked_copy(write(tmp_path / "study", rows=2), tmp_path / "slim")
    before = contents(tmp_path / "slim")
    with pytest.raises(WorldforkError, match="is a published copy"):
        write(tmp_path / "slim")
    assert contents(tmp_path / "slim") == before


def test_a_copy_is_one_file(tmp_path: Path) -> None:
    with pytest.raises(WorldforkError, match=r"A published study is one file, NAME\.tar\.xz"):
        publish(write(tmp_path / "study"), tmp_path / "slim")
    assert not (tmp_path / "slim").exists()


# --- without streams


def test_a_copy_without_streams_says_so_wherever_one_is_needed(study: Study, tmp_path: Path) -> None:
    invoked = CliRunner().invoke(
        app, ["export", str(study.path), "--publish", "--without-streams", "-o", str(tmp_path / "slim.tar.xz")]
    )
    assert "without models, windows and streams" in " ".join(invoked.output.split())
    slim = Study(tmp_path / "slim")
    assert not list(slim.path.rglob("*.parquet"))
    assert "cells/*/stream.parquet" in json.loads((slim.path / "published.json").read_text())["left_out"]
    verdict = verify(slim.path)
    assert (verdict.problems, verdict.complete) == ((), True)
    assert (
        "6 streams are not here; rows hold their digests. What adwin, page_hinkley, kswin, conformal answered on "
        "them is in answers.json, as the publisher's word: no row holds its digest." in verdict.notes
    )
    assert root(slim) == root(study)
    with pytest.raises(WorldforkError, match="was published without streams"):
        stream_frame(slim)
    whole, without = (score_ledger(each.path, permutations=5).to_json() for each in (study, slim))
    assert whole == without


def test_a_copy_with_neither_streams_nor_answers_says_what_it_can_not_read(study: Study, tmp_path: Path) -> None:
    unpacked_copy(study, tmp_path / "slim", streams=False)
    slim = Study(tmp_path / "slim")
    assert (
        "6 streams are not here; rows hold their digests. The detectors that read them can not be scored from this "
        "copy." in verify(slim.path).notes
    )
    names = ("residual", "adwin")
    whole, without = (score_ledger(each.path, permutations=5, triggers=names) for each in (study, slim))
    known, left = whole["cartpole-swingup"], without["cartpole-swingup"]
    assert known.triggers_unavailable == {}
    assert list(left.triggers_unavailable) == ["adwin"]
    assert "published without streams" in left.triggers_unavailable["adwin"]
    recorded, in_the_copy = (each.triggers.retained["residual"] for each in (known, left))
    for figure in ("policy_total", "auc", "auc_interval", "gains", "random", "random_shift", "swapped"):
        assert getattr(in_the_copy, figure) == getattr(recorded, figure)
    for name, p in recorded.adjusted.items():
        assert in_the_copy.adjusted[name] >= p, "a candidate that can not be read has p = 1"


def test_a_copy_of_a_copy_is_without_what_either_leaves_out(study: Study, tmp_path: Path) -> None:
    unpacked_copy(study, tmp_path / "slim", streams=False)
    unpacked_copy(Study(tmp_path / "slim"), tmp_path / "again")
    assert contents(tmp_path / "slim") == contents(tmp_path / "again")


def test_streams_are_missed_unless_they_were_left_out(study: Study, tmp_path: Path) -> None:
    unpacked_copy(study, tmp_path / "slim")
    next(tmp_path.glob("slim/cells/*/stream.parquet")).unlink()
    assert "damaged or not there" in findings(tmp_path / "slim")


def test_rows_of_two_streams_do_not_verify_where_the_stream_is_left_out(tmp_path: Path) -> None:
    unpacked_copy(write(tmp_path / "study", change={2: {"stream": "another"}}), tmp_path / "slim", streams=False)
    assert "fork 2: stream.parquet or window.npz is not the one" in findings(tmp_path / "slim")


def test_leaving_streams_out_is_said_of_a_copy_alone(study: Study, tmp_path: Path) -> None:
    invoked = CliRunner().invoke(
        app, ["export", str(study.path), "--without-streams", "-o", str(tmp_path / "f.csv")]
    )
    assert invoked.exit_code == 2
    assert not (tmp_path / "f.csv").exists()


# --- the verb


def test_the_verb_passes_no_damage_on_and_overwrites_nothing(study: Study, tmp_path: Path) -> None:
    def run(target: Path) -> object:
        return CliRunner().invoke(app, ["export", str(study.path), "--publish", "-o", str(target)]).exception

    assert run(tmp_path / "slim.tar.xz") is None
    assert isinstance(run(tmp_path / "slim.tar.xz"), WorldforkError)
    path = study.cells()[0].path / "forks.jsonl"
    path.write_text(path.read_text().replace("0", "1", 1))
    assert "is not what was written" in str(run(tmp_path / "other.tar.xz"))
    assert not (tmp_path / "other.tar.xz").exists()


def test_a_folder_that_can_not_be_made_is_one_sentence(study: Study, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorldforkError, match="Could not write"):
        publish(study, tmp_path / "file" / "slim.tar.xz")


def test_a_marker_that_says_nothing_is_refused(study: Study) -> None:
    (study.path / "published.json").write_text("{}")
    with pytest.raises(WorldforkError, match="does not say what was left out"):
        verify(study.path)


@pytest.fixture
def followed(tmp_path: Path) -> Study:
    """A study with policies that are followed all the way."""
    (tmp_path / "deployed.toml").write_text(DEPLOYED)
    return worldfork.run(tmp_path / "deployed.toml", tmp_path / "followed")


def test_without_streams_the_logs_of_deployments_are_left_out_too(followed: Study, tmp_path: Path) -> None:
    unpacked_copy(followed, tmp_path / "slim", streams=False)
    slim = Study(tmp_path / "slim")
    assert not list((slim.path / "deployments").rglob("*.parquet"))
    verdict = verify(slim.path)
    assert (verdict.problems, verdict.complete, verdict.episodes) == ((), True, verify(followed.path).episodes)
    for what in ("transitions", "logs"):
        assert f"The {what} of the deployments are not here; their rows hold the digests." in verdict.notes
    assert root(slim) == root(followed)
    of_both = [score_ledger(study, permutations=9, triggers=("residual",)).deployment for study in (followed, slim)]
    assert of_both[0] == of_both[1]


def test_logs_of_deployments_are_missed_unless_they_were_left_out(followed: Study, tmp_path: Path) -> None:
    unpacked_copy(followed, tmp_path / "copy")
    logs = sorted((tmp_path / "copy" / "deployments" / "segments").glob("*.parquet"))
    assert logs
    for log in logs:
        log.unlink()
    (problem,) = verify(tmp_path / "copy").problems
    assert "no .parquet file of segments has it" in problem
