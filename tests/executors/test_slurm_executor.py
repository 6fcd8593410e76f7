"""SLURM's jobs, as far as they can be tried without SLURM: submitit's local ones are processes of this machine."""

import os
import signal
from pathlib import Path

import pytest

from worldfork.errors import Failed, WorldforkError
from worldfork.executors.slurm import Slurm

submitit = pytest.importorskip("submitit")


def local(folder: Path, **settings: object) -> Slurm:
    return Slurm.model_validate({"cluster": "local", "folder": str(folder / "jobs"), "workers": 2, **settings})


def first_time(job: tuple[str, int]) -> bool:
    """Whether nobody did this job before."""
    try:
        os.close(os.open(f"{job[0]}/{job[1]}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def killed_once(job: tuple[str, int]) -> int:
    if job[1] == 1 and first_time(job):
        os.kill(os.getpid(), signal.SIGKILL)
    return job[1] ** 2


def mode_of_the_folder(job: int) -> int:
    return os.stat(os.environ["SUBMITIT_FOLDER"]).st_mode


def of_another_kind(job: tuple[str, int]) -> Failed:
    return Failed("device: NVIDIA, here cpu", "", unfit=True)


def wrong_once(job: tuple[str, int]) -> int:
    return -1 if first_time(job) else job[1] ** 2


@pytest.fixture(autouse=True)
def these_tests_are_found_by_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(found))
    # A job that was killed left nothing, and a local disk is not late.
    monkeypatch.setattr(submitit.core.core.Job, "_results_timeout_s", 0)


@pytest.mark.nightly
def test_a_job_that_is_killed_costs_time_only_and_leaves_nothing(tmp_path: Path) -> None:
    jobs = [(str(tmp_path), number) for number in range(3)]
    assert dict(local(tmp_path).map(killed_once, jobs)) == {0: 0, 1: 1, 2: 4}
    assert list((tmp_path / "jobs").iterdir()) == []


@pytest.mark.nightly
def test_nobody_else_reads_or_writes_the_folder_of_jobs(tmp_path: Path) -> None:
    [(_, mode)] = local(tmp_path).map(mode_of_the_folder, [0])
    assert mode & 0o077 == 0


@pytest.mark.nightly
def test_of_two_jobs_that_differ_a_third_decides(tmp_path: Path) -> None:
    assert dict(local(tmp_path, workers=1, twice=1).map(wrong_once, [(str(tmp_path), 5)])) == {0: 25}


@pytest.mark.nightly
def test_where_every_job_is_of_another_kind_the_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorldforkError, match="NVIDIA, here cpu"):
        list(local(tmp_path).map(of_another_kind, [(str(tmp_path), 0)]))


def test_where_there_is_no_slurm_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorldforkError, match="no `sbatch` here"):
        list(Slurm(folder=str(tmp_path / "jobs")).map(killed_once, []))
    assert not (tmp_path / "jobs").exists()
