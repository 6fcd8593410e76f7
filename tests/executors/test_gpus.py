"""How processes share a GPU's memory."""

import os

import pytest

from worldfork.executors.local import CHOSEN_BY_THE_USER, share_memory


def test_a_process_takes_its_share_unless_the_user_has_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CHOSEN_BY_THE_USER:
        monkeypatch.delenv(name, raising=False)
    share_memory(1.0)
    assert not os.environ.keys() & set(CHOSEN_BY_THE_USER)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    share_memory(0.5)
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in os.environ
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "")  # so that it is put back afterwards
    del os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"]
    share_memory(0.5)
    assert os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.450"
