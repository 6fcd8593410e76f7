"""Every executor that has a name keeps the contract that is asked of anybody's."""

import pytest

from worldfork import registry
from worldfork.executors.local import Local
from worldfork.testing import check_executor


def test_this_process_keeps_the_contract() -> None:
    check_executor("local")


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in registry.names("executors") if name != "local"])
def test_so_do_clusters(name: str) -> None:
    """A cluster takes half a minute to begin; what a pool of workers does is in test_pool.py."""
    pytest.importorskip(name)
    check_executor(name)


def test_so_do_processes() -> None:
    """That a study has the same bytes with them is shown in lab/test_run.py, and here by night."""
    check_executor(Local(workers=2), study=False)


@pytest.mark.nightly
def test_so_do_processes_with_a_study() -> None:
    check_executor(Local(workers=2))
