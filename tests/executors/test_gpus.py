"""How processes share a GPU: who takes how much of its memory, and whose kernels run at once."""

import os
from pathlib import Path

import pytest

from worldfork.executors.local import CHOSEN_BY_THE_USER, _kernels_at_once, shared

PLACES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An MPS that notes what it is told, and where; the file that it writes."""
    heard = tmp_path / "heard"
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text(f'#!/bin/sh\n[ "$1" ] || read order\necho "$1$order $CUDA_MPS_PIPE_DIRECTORY" >> {heard}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for name in (*PLACES, *CHOSEN_BY_THE_USER):
        monkeypatch.delenv(name, raising=False)
    return heard


def wait_for_lines(path: Path, count: int) -> list[str]:
    while len(lines := path.read_text().splitlines()) < count:
        pass
    return lines


def test_a_shared_gpu_has_a_daemon_of_its_own_for_as_long_as_it_is_shared(control: Path) -> None:
    with shared(3):
        place = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
        assert os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.300"
        assert control.read_text() == f"-d {place}\n"
    assert not os.environ.keys() & {*PLACES, *CHOSEN_BY_THE_USER}
    assert wait_for_lines(control, 2)[1] == "quit " + place


def test_a_daemon_that_is_there_is_neither_doubled_nor_ended(
    control: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = tmp_path / "running"
    running.touch()
    with _kernels_at_once(running):
        assert not os.environ.keys() & set(PLACES)
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/the/users")
    with shared(2):
        assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == "/the/users"
    assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == "/the/users"
    assert not control.exists()


def test_without_a_gpu_or_without_the_daemon_nothing_is_started(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with shared(2):
        assert not os.environ.keys() & {*PLACES, *CHOSEN_BY_THE_USER}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("PATH", "/nowhere")
    with shared(2):
        assert not os.environ.keys() & set(PLACES)
        assert os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.450"
    assert not control.exists()
