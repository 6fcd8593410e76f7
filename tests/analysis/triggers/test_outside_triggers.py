"""Triggers of other people: by `module:attribute`, by entry point, and never imported unless they are named."""

import json
import re
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

from worldfork.cli.main import app
from worldfork.errors import WorldforkError

SOURCE = '''
from worldfork.analysis.read.triggers import Trigger

print("imported")


class Late(Trigger):
    """Fires from decision point `first` on."""

    first: int = 4

    def begin(self, cell, *, event):
        return None

    def decide(self, memory, segment):
        return memory, segment.k >= self.first
'''
ENTRY_POINTS = "[worldfork.triggers]\nlate = my_late_trigger:Late\n"


@pytest.fixture
def folder(tmp_path):
    """A table, and beside it an installed package with one trigger."""
    (tmp_path / "my_late_trigger.py").write_text(SOURCE)
    installed = tmp_path / "my_late_trigger-1.2.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-late-trigger\nVersion: 1.2\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    rows = [
        {"checkpoint": c, "k": k, "r_hold": 100.0, "r_update": 100.0 + (10 if k >= 4 else -10) + c, "signal_a": -k}
        for c in range(3)
        for k in range(1, 7)
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "forks.csv")
    return tmp_path


def run(folder, *arguments):
    command = [sys.executable, "-m", "worldfork.cli.main", "score", "forks.csv", "--permutations", "50", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_trigger_of_ones_own_is_named_in_both_ways_and_scored(folder):
    names = ["my_late_trigger:Late", "late"]
    shown = run(folder, "--json", "--triggers", ",".join([*names, "a"]))
    assert shown.returncode == 0, shown.stderr
    imported, _, printed = shown.stdout.partition("\n")
    triggers = json.loads(printed)["arms"][""]["tasks"]["forks"]["triggers"]
    assert imported == "imported"
    assert list(triggers) == [*names, "a"]
    for name in names:
        assert triggers[name]["policy_total"] == pytest.approx(3 * (10 + 11 + 12))
        assert triggers[name]["auc"] is None


def test_code_of_others_is_not_imported_unless_it_is_named(folder):
    shown = run(folder, "--json")
    assert shown.returncode == 0, shown.stderr
    assert "imported" not in shown.stdout
    assert "late" not in json.loads(shown.stdout)["arms"][""]["tasks"]["forks"]["triggers"]


def test_a_name_that_nobody_offers_is_answered_with_the_known_ones(folder):
    shown = run(folder, "--triggers", "early")
    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr
    words = " ".join(shown.stderr.split())
    assert re.search("No trigger is called `early`; known here: adwin.*late.*`module:attribute`", words), words


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("elsewhere:Late", "a module `elsewhere` that can not be found"),
        ("my_late_trigger:Early", "has no `Early`"),
        ("my_late_trigger:Trigger.begin", "a class that derives from"),
    ],
)
def test_a_name_that_stands_for_nothing_is_one_clear_line(folder, name, message, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "my_late_trigger", raising=False)
    with pytest.raises(WorldforkError, match=message):
        CliRunner().invoke(app, ["score", str(folder / "forks.csv"), "--triggers", name], catch_exceptions=False)
    monkeypatch.delitem(sys.modules, "my_late_trigger", raising=False)
