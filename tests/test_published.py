"""What is in results/ against what is registered: checkpoints follow their recipes, studies their files."""

import json
from pathlib import Path
from typing import Any

import pytest

from worldfork.lab.agents.rssm_cem.pretraining.recipe import Recipe, read_recipe
from worldfork.registration import parse, read

ROOT = Path(__file__).parents[1]
PRETRAINED = {
    "demo": ROOT / "src" / "worldfork" / "bundled",
    "cartpole": ROOT / "results" / "pretraining-cartpole",
    "locomotion": ROOT / "results" / "pretraining-locomotion",
}
STUDIES = ("scope", "precision", "rate")


def manifests(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*-?.json"))}


@pytest.mark.parametrize("name", PRETRAINED)
def test_checkpoints_were_trained_by_the_recipe_that_is_registered(name: str) -> None:
    recipe = read_recipe(ROOT / "registrations" / f"pretrain-{name}.toml")
    found = manifests(PRETRAINED[name])
    assert len(found) == sum(task.wanted for task in recipe.tasks.values())
    for manifest in found.values():
        assert Recipe.model_validate(manifest["recipe"], strict=False) == recipe
        floor = recipe.tasks[manifest["task"]].floor
        assert sum(manifest["returns"]["gate"]) >= floor * recipe.gate_episodes


@pytest.mark.parametrize("study", STUDIES)
def test_studies_deployed_the_published_checkpoints_with_the_published_planner(study: str) -> None:
    folder = ROOT / "results" / study
    registered = parse((folder / "registration.toml").read_text(), name=study)
    published = manifests(PRETRAINED["cartpole"]) | manifests(PRETRAINED["locomotion"])
    deployed = manifests(folder / "checkpoints")
    assert deployed
    for name, manifest in deployed.items():
        assert manifest["digest"] == published[name]["digest"]
        settings = registered.tasks[manifest["task"]].settings
        assert {key: settings[key] for key in ("candidates", "horizon", "iterations")} == {
            key: published[name]["planner"][key] for key in ("candidates", "horizon", "iterations")
        }


@pytest.mark.parametrize("study", [*STUDIES, "demo"])
def test_studies_ran_what_is_registered(study: str) -> None:
    ran, registered = (
        read(path)
        for path in (
            ROOT / "results" / study / "registration.toml",
            ROOT / "registrations" / f"{study}.toml",
        )
    )
    assert ran == registered


def test_the_rate_study_repeats_the_primary_arm_bit_for_bit() -> None:
    """Its first arm is the scope study's, run anew on another machine of the same kind."""
    compared = 0
    for cell in sorted((ROOT / "results" / "rate" / "cells").glob("began-with-*")):
        first = ROOT / "results" / "scope" / "cells" / cell.name.replace("began-with", "model")
        rows, again = (
            [json.loads(line) for line in (folder / "forks.jsonl").read_text().splitlines()]
            for folder in (first, cell)
        )
        for one, other in zip(rows, again, strict=True):
            measured = ("k", "level", "draws", "hold", "update", "fit", "signals")
            assert {name: one[name] for name in measured} == {name: other[name] for name in measured}
            compared += 1
    assert compared == 720


def levels(study: str, direction: str) -> set[float]:
    """Every level that a fork of the study was taken at in one direction."""
    cells = (ROOT / "results" / study / "cells").glob(f"*-{direction}-*")
    return {json.loads(line)["level"] for cell in cells for line in (cell / "forks.jsonl").open()}


def test_the_demo_visits_the_same_levels_in_both_directions() -> None:
    """To the last bit, but for the ends: `toward` is forked at 0, `away` at 1."""
    assert levels("demo", "toward") ^ levels("demo", "away") == {0.0, 1.0}


@pytest.mark.parametrize("study", STUDIES)
def test_earlier_studies_say_that_their_levels_differ_by_rounding(study: str) -> None:
    toward, away = levels(study, "toward"), levels(study, "away")
    assert toward ^ away > {0.0, 1.0}, "made anew: results/README.md and docs/reproducing.md need not say so"
    assert {round(level, 12) for level in toward} ^ {round(level, 12) for level in away} == {0.0, 1.0}
    for page in ("results/README.md", "docs/reproducing.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert f"{study}/`" in text or f"results/{study}`" in text
        assert "levels of the two directions differed in their last bits" in text
