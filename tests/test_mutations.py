"""The mutation runner: what it changes, what it leaves alone, and what it makes of tests that notice or do not."""

import importlib
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
SNIPPET = b'''"""A docstring with a 1 in it."""
__all__ = ["judge"]
LIMIT = 3


def judge(hold: float, update: float, seen: dict[str, int]) -> bool:
    assert hold > 0
    seen["n"] = 1
    seen.update(n=2)
    if not update < hold and seen:
        raise ValueError(f"\xc3\xa9 {hold + 1}")
    return report(hold=hold, update=update)
'''


@pytest.fixture(scope="module")
def runner() -> Any:
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("mutations")
    finally:
        sys.path.remove(str(FOLDER))


def changes(runner: ModuleType) -> set[tuple[str, str, str]]:
    return {(mutant.operator, mutant.before, mutant.after) for mutant in runner.mutants(SNIPPET, "x.py")}


def test_a_snippet_has_these_mutants_and_no_others(runner: ModuleType) -> None:
    call = "report(hold=hold, update=update)"
    guard = 'raise ValueError(f"é {hold + 1}")'
    assert changes(runner) == {
        ("constant", "3", "(4)"),
        ("constant", "3", "(2)"),
        ("deletion", 'seen["n"] = 1', "pass"),
        ("constant", "1", "(2)"),
        ("constant", "1", "(0)"),
        ("deletion", "seen.update(n=2)", "pass"),
        ("constant", "2", "(3)"),
        ("constant", "2", "(1)"),
        ("connective", "not update < hold and seen", "(not update < hold or seen)"),
        ("negation", "not update < hold", "(update < hold)"),
        ("comparison", "update < hold", "(update <= hold)"),
        ("pair", "update", "hold"),
        ("pair", "hold", "update"),
        ("deletion", guard, "pass"),
        ("default", f"return {call}", "return False"),
        ("default", f"return {call}", "return True"),
        ("pair", call, "report(hold=update, update=hold)"),
    }


def test_a_mutant_differs_in_its_place_alone_and_keeps_its_name_when_lines_move(runner: ModuleType) -> None:
    first = {mutant.id: mutant for mutant in runner.mutants(SNIPPET, "x.py")}
    later = {mutant.id: mutant for mutant in runner.mutants(b"\n\n" + SNIPPET, "x.py")}
    assert first.keys() == later.keys()
    assert len(first) == len(runner.mutants(SNIPPET, "x.py"))
    for name, mutant in first.items():
        changed = mutant.apply(SNIPPET)
        assert later[name].line == mutant.line + 2
        assert changed == SNIPPET[: mutant.start] + mutant.after.encode() + SNIPPET[mutant.end :]
        assert SNIPPET[mutant.start : mutant.end].decode() == mutant.before


def test_rooms_and_their_tests_exist(runner: ModuleType) -> None:
    for room, tests in runner.ROOMS.items():
        assert (runner.ROOT / runner.SOURCE / room).exists()
        assert all((runner.ROOT / path).exists() for path in tests)


def test_what_is_listed_as_equivalent_is_there_and_has_a_reason(runner: ModuleType) -> None:
    listed = [runner.Equivalent(**entry) for entry in tomllib.loads(runner.EQUIVALENT.read_text())["equivalent"]]
    for path in {entry.path for entry in listed}:
        known = runner.mutants((runner.ROOT / runner.SOURCE / path).read_bytes(), path)
        for entry in (entry for entry in listed if entry.path == path):
            assert any(entry.is_about(mutant) for mutant in known), entry
            assert len(entry.reason) > 20


def test_a_mistake_that_a_test_notices_is_killed_and_one_that_none_does_survives(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a tree of its own: one module, one test that looks at one of its two functions."""
    root = tmp_path / "checkout"
    (root / "src" / "worldfork").mkdir(parents=True)
    (root / "tests").mkdir()
    for name in ("__init__.py", "version.py"):
        (root / "src" / "worldfork" / name).write_text("")
    source = b"def seen(x: int) -> bool:\n    return x < 3\n\n\ndef unseen(x: int) -> bool:\n    return x > 3\n"
    (root / "src" / "worldfork" / "small.py").write_bytes(source)
    (root / "tests" / "test_small.py").write_text(
        "from worldfork.small import seen\ndef test_seen():\n    while not seen(2): pass\n    assert not seen(3)\n"
    )
    monkeypatch.setattr(runner, "ROOT", root)
    copy = runner.Copy(tmp_path / "work")
    tests = ["tests/test_small.py"]
    known = list(runner.mutants(source, "small.py"))
    tried = {mutant.after: mutant for mutant in known}
    endless = next(mutant for mutant in known if (mutant.within, mutant.after) == ("seen", "(2)"))
    assert copy.survives(None, tests, limit=None) == "survived"
    assert copy.survives(tried["(x <= 3)"], tests, limit=None) == "killed"
    assert copy.survives(tried["(x >= 3)"], tests, limit=None) == "survived"
    assert copy.survives(endless, tests, limit=1.0) == "timeout"  # it would wait for ever
    assert (root / "src" / "worldfork" / "small.py").read_bytes() == source  # the checkout was never touched
    assert (copy.root / "src" / "worldfork" / "small.py").read_bytes() == source
