"""Every executor that has a name keeps the contract that is asked of anybody's."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from worldfork import registry
from worldfork.executors.base import ExecutorPlugin
from worldfork.executors.local import CHOSEN_BY_THE_USER, Local
from worldfork.executors.ray import _Worker
from worldfork.testing import check_executor


def test_this_process_keeps_the_contract() -> None:
    check_executor("local")


# Without a cluster: Ray begins one, and submitit's jobs are processes of this machine.
CLUSTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "ray": ("ray", {}),
    "slurm": ("submitit", {"cluster": "local", "workers": 2}),
}


def test_every_executor_is_examined() -> None:
    assert {"local", *CLUSTERS} == set(registry.names("executors"))


@pytest.mark.nightly
@pytest.mark.parametrize("name", CLUSTERS)
def test_so_do_clusters(name: str, tmp_path: Path) -> None:
    """A cluster takes half a minute to begin; what a pool of workers does is in test_pool.py."""
    package, settings = CLUSTERS[name]
    pytest.importorskip(package)
    check_executor(name, settings=settings | ({"folder": str(tmp_path)} if name == "slurm" else {}))


def test_so_do_processes() -> None:
    """That a study has the same bytes with them is shown in lab/test_run.py, and here by night."""
    check_executor(Local(workers=2), study=False)


@pytest.mark.nightly
def test_so_do_processes_with_a_study() -> None:
    check_executor(Local(workers=2))


def test_what_the_kit_builds_it_closes() -> None:
    closed: list[str] = []

    class Serial(ExecutorPlugin):
        def map(self, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
            for index, job in enumerate(jobs):
                yield index, function(job)

        def close(self) -> None:
            closed.append("closed")

    check_executor(Serial, study=False)
    assert closed == ["closed"]
    check_executor(Serial(), study=False)
    assert closed == ["closed"], "another's executor is for its owner to close"


@pytest.mark.parametrize(("gpus", "expected"), [(0.0, None), (0.5, "0.450"), (1.0, None), (2.0, None)])
def test_a_worker_on_part_of_a_gpu_takes_part_of_its_memory(
    gpus: float, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {name: value for name, value in os.environ.items() if name not in CHOSEN_BY_THE_USER}
    monkeypatch.setattr(os, "environ", variables)
    _Worker(2, gpus)
    assert variables["WORLDFORK_THREADS"] == "2"
    assert variables.get("XLA_PYTHON_CLIENT_MEM_FRACTION") == expected
