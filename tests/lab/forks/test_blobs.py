"""Blobs: what a worker reads is what the task names, wherever it comes from."""

import dataclasses
import pickle
from pathlib import Path

import pytest
from kill_and_resume import REGISTRATION

from worldfork.blobs import Blob, as_files, blob_of, fetching, read_blob
from worldfork.errors import Failed, WorldforkError
from worldfork.lab.forks.jobs import Describe, Described, Label, Labelled, Setting, identity_of, perform
from worldfork.lab.forks.label import Fork
from worldfork.lab.forks.plan import StoredStream, _read, stored_stream
from worldfork.lab.run import run
from worldfork.ledger.store import Study
from worldfork.registration import canonical, cells


def test_a_blob_is_named_by_its_content_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_bytes(b"{}")
    second.write_bytes(b"{}")
    assert blob_of(first) == blob_of(second)
    assert read_blob(blob_of(first)) == b"{}"


def test_what_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"weights")
    blob = blob_of(path)
    path.write_bytes(b"other weights")
    with pytest.raises(WorldforkError, match="changed since this run began"):
        read_blob(blob)
    with fetching(lambda name: b"damaged"), pytest.raises(WorldforkError, match="damaged on its way"):
        read_blob(blob)


def test_files_that_came_from_elsewhere_lie_beside_each_other_and_do_not_stay(tmp_path: Path) -> None:
    contents = {}
    blobs = []
    for suffix in (".safetensors", ".json"):
        path = tmp_path / f"model{suffix}"
        path.write_bytes(suffix.encode())
        blobs.append(blob_of(path))
        contents[blobs[-1].name] = suffix.encode()
        path.unlink()
    with fetching(contents.__getitem__), as_files(blobs, stem="walker-walk-3") as path:
        assert path.name == "walker-walk-3.safetensors"
        assert path.with_suffix(".json").read_bytes() == b".json"
    assert not path.parent.exists()


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("blobs")
    (folder / "registration.toml").write_text(REGISTRATION)
    return run(folder / "registration.toml", folder / "study")


def block_of(study: Study, **identity: object) -> Label:
    """The first three forks of a study, as its driver would hand them out."""
    registration = study.registration
    cell = cells(registration)[0]
    setting = Setting(canonical(registration.model_dump(mode="json", by_alias=True)), ())
    points = tuple(Fork(cell, k, stored_stream(study, cell)) for k in (1, 2, 3))
    return Label(setting, points, {**identity_of(study.cell(cell.id).configuration), **identity})


def test_a_task_names_its_files_and_carries_none_of_their_content(study: Study) -> None:
    task = block_of(study)
    assert sum(blob.path.stat().st_size for blob in task.blobs) > 3 * len(pickle.dumps(task))
    contents = {blob.name: blob.path.read_bytes() for blob in task.blobs}
    asked = []

    def fetch(name: str) -> bytes:
        asked.append(name)
        return contents[name]

    _read.cache_clear()
    elsewhere = [Blob(blob.name, Path("/nowhere") / blob.path.name) for blob in task.blobs]
    moved = tuple(Fork(fork.cell, fork.k, StoredStream(elsewhere[0], elsewhere[1])) for fork in task.forks)
    with fetching(fetch):
        result = perform(Label(task.setting, moved, task.identity))
        again = perform(Label(task.setting, moved, task.identity))
    assert sorted(asked) == sorted(contents), "each is fetched once"
    assert isinstance(result, Labelled)
    assert isinstance(again, Labelled)
    assert result == again
    written = study.cell(task.forks[0].cell.id).rows()[:3]
    assert [row.update for row in result.rows] == [row.update for row in written]


def test_two_machines_of_one_kind_describe_a_study_alike(study: Study) -> None:
    task = block_of(study)
    here = perform(Describe(task.setting, (task.forks[0].cell,)))
    assert isinstance(here, Described)
    assert here == dataclasses.replace(here, host={"host": "another"})
    assert here != dataclasses.replace(here, configurations=[{**here.configurations[0], "device": "another"}])


@pytest.mark.parametrize(
    ("name", "value"),
    [("device", "NVIDIA H200"), ("compiler_flags", ["--other"]), ("packages", {"numpy": "0.1"}), ("source", "0")],
)
def test_a_worker_of_another_kind_computes_nothing(study: Study, name: str, value: object) -> None:
    refused = perform(block_of(study, **{name: value}))
    assert isinstance(refused, Failed)
    assert refused.unfit
    assert name in refused.reason
    assert "Rows of two kinds are never mixed" in refused.reason
