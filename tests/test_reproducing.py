"""docs/reproducing.md says what the commands it names print."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("reproducing", ROOT / "benchmarks" / "reproducing.py")
assert spec is not None
reproducing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reproducing)


@pytest.mark.nightly
def test_the_page_is_what_its_commands_print():
    page = reproducing.PAGE.read_text(encoding="utf-8")
    assert len(reproducing.BLOCK.findall(page)) >= 3
    assert reproducing.written(page) == page


def test_a_study_that_is_there_is_scored_and_text_around_it_stays():
    page = (
        "Before.\n<!-- worldfork score results/demo --markdown --permutations 20 -->\nstale\n<!-- end -->\nAfter.\n"
    )
    written = reproducing.written(page)
    assert written.startswith("Before.\n<!-- worldfork score results/demo --markdown --permutations 20 -->\n**")
    assert written.endswith("|\n<!-- end -->\nAfter.\n")
    assert "stale" not in written
    assert "| cartpole-swingup | 6 | " in written


def test_a_study_that_is_not_there_claims_nothing(tmp_path):
    (tmp_path / "registrations").symlink_to(ROOT / "registrations")
    page = "<!-- worldfork score results/hopper-control{} -->\n<!-- end -->"
    planned = reproducing.written(page.format(" --paper"), tmp_path)
    assert "| hopper-hop | paper | 10 | 240 of 240 | +1.0 [-0.3, +2.4] |" in planned
    assert "| hopper-hop | worldfork | not run yet |" in planned
    assert "Not run yet." in reproducing.written(page.format(" --markdown"), tmp_path)


def test_doses_that_are_not_run_yet_stand_beside_the_papers(tmp_path):
    (tmp_path / "registrations").symlink_to(ROOT / "registrations")
    page = "<!-- worldfork score results/{} --paper --tables doses -->\n<!-- end -->"
    planned = reproducing.written(page.format("dose"), tmp_path)
    assert "| cartpole-swingup | 50 | paper | – | 0.20 | – | – | -88.4 [-102.0, -71.9] |" in planned
    assert "| cartpole-swingup | 50 | worldfork | not run yet |" in planned
    assert "cartpole" not in reproducing.written(page.format("forward"), tmp_path)
