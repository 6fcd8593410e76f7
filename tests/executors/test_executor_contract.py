"""Every executor that has a name keeps the contract that is asked of anybody's."""

import pytest

from worldfork import registry
from worldfork.executors.local import Local
from worldfork.testing import check_executor


@pytest.mark.parametrize("name", registry.names("executors"))
def test_it_keeps_the_contract(name: str) -> None:
    if name != "local":
        pytest.importorskip(name)
    check_executor(name)


def test_so_do_processes() -> None:
    """That a study has the same bytes with them is shown in lab/test_run.py, and here by night."""
    check_executor(Local(workers=2), study=False)


@pytest.mark.nightly
def test_so_do_processes_with_a_study() -> None:
    check_executor(Local(workers=2))
