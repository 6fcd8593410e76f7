"""What is in results/ against what is registered: checkpoints follow their recipes, studies their files."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from published import folder_of, rows_of
from scipy import stats

import worldfork as wf
from worldfork.analysis.present.page import Material, gather, render
from worldfork.analysis.present.tables.deployments import orders
from worldfork.analysis.score import Rules
from worldfork.analysis.score.predictions import prediction_problems
from worldfork.lab.agents.rssm_cem.recipe import Recipe
from worldfork.lab.tools.pretraining import read_recipe
from worldfork.registration import Registration, difference, parse, read
from worldfork.registration.library import recipe_of, registrations

ROOT = Path(__file__).parents[1]
PRETRAINED = {
    "demo": ROOT / "src" / "worldfork" / "bundled",
    "cartpole": ROOT / "results" / "pretraining-cartpole",
    "hopper": ROOT / "results" / "pretraining-hopper",
    "cartpole-32": ROOT / "results" / "pretraining-cartpole-32",
    "locomotion": ROOT / "results" / "pretraining-locomotion",
    "locomotion-12": ROOT / "results" / "pretraining-locomotion-12",
}
AS_THE_PAPER_DID = (
    "corrected",
    "dose",
    "forward",
    "hopper-control",
    "legacy",
    "precision",
    "replication",
    "replication-gentle",
    "scope",
    "stochasticity",
    "window",
)
WITH_POWER = (
    "power-cartpole",
    "power-cartpole-earlier",
    "choose-cartpole",
    "judge-cartpole",
    "power-locomotion",
    "choose-locomotion",
    "judge-walker",
    "judge-cheetah",
    "severity-walker",
    "which-policy-cartpole",
    "which-policy-walker",
    "which-policy-cheetah",
)


def manifests(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*-*.json"))}


@pytest.mark.parametrize("name", PRETRAINED)
def test_checkpoints_were_trained_by_the_recipe_that_is_registered(name: str) -> None:
    recipe = read_recipe(ROOT / "registrations" / f"pretrain-{name}.toml")
    found = manifests(PRETRAINED[name])
    assert len(found) == sum(task.wanted for task in recipe.tasks.values())
    for manifest in found.values():
        assert Recipe.model_validate(manifest["recipe"], strict=False) == recipe
        floor = recipe.tasks[manifest["task"]].floor
        assert sum(manifest["returns"]["gate"]) >= floor * recipe.gate_episodes


@pytest.mark.parametrize("study", [*AS_THE_PAPER_DID, *WITH_POWER])
def test_studies_deployed_the_published_checkpoints_with_the_published_planner(study: str) -> None:
    folder = folder_of(study)
    registered = parse((folder / "registration.toml").read_text(), name=study)
    sets = ("cartpole-32", "locomotion-12") if study in WITH_POWER else ("cartpole", "locomotion", "hopper")
    published = {name: found for each in sets for name, found in manifests(PRETRAINED[each]).items()}
    deployed = manifests(folder / "checkpoints")
    assert deployed
    for name, manifest in deployed.items():
        assert manifest["digest"] == published[name]["digest"]
        settings = registered.tasks[manifest["task"]].settings
        assert {key: settings[key] for key in ("candidates", "horizon", "iterations")} == {
            key: published[name]["planner"][key] for key in ("candidates", "horizon", "iterations")
        }


@pytest.mark.parametrize("study", [*AS_THE_PAPER_DID, *WITH_POWER])
def test_the_recipe_that_reproduce_trains_is_the_one_that_trained_the_published_checkpoints(study: str) -> None:
    registered = read(folder_of(study) / "registration.toml")
    for manifest in manifests(folder_of(study) / "checkpoints").values():
        folder = Path(registered.tasks[manifest["task"]].checkpoints).parent.name
        assert manifest["recipe"]["name"] == recipe_of(registered.name, folder)


def ran_and_registered(study: str) -> tuple[Registration, Registration]:
    name = study.removesuffix("-earlier")
    folders = folder_of(study) / "registration.toml", ROOT / "registrations" / f"{name}.toml"
    return read(folders[0]), read(folders[1])


@pytest.mark.parametrize("study", ["demo", "draws", "deployment-demo", *AS_THE_PAPER_DID, *WITH_POWER])
def test_studies_ran_what_is_registered(study: str) -> None:
    ran, registered = ran_and_registered(study)
    assert ran == registered


CLAIMS = [
    "corrected",
    "dose",
    "draws",
    "forward",
    "hopper-control",
    "power-cartpole",
    "power-locomotion",
    "precision",
    "scope",
    "severity-walker",
    "stochasticity",
    "which-policy-cartpole",
    "which-policy-cheetah",
    "which-policy-walker",
]


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_has_a_question_a_premise_a_family_and_both_rates(name: str) -> None:
    registered = read(ROOT / "registrations" / f"{name}.toml")
    assert registered.about.endswith("?")
    assert registered.predictions
    assert all(claim.premise is not None for claim in registered.predictions)
    assert prediction_problems(Rules.registered(registered).predictions) == []
    assert "\ntriggers = [" in _with_what_it_extends(name), "the candidates are named, and not left to a default"
    rates = [arm.mechanism.settings.get("rate", 1.0) for arm in registered.arms]
    assert set(rates) == {1.0, 0.1}
    assert rates.count(1.0) == rates.count(0.1)


def test_what_makes_no_claim_predicts_nothing_but_the_studies_that_are_frozen() -> None:
    others = set(registrations()) - set(CLAIMS)
    predicting = {name for name in others if read(ROOT / "registrations" / f"{name}.toml").predictions}
    # `mechanisms-demo` predicts that `none` gives 0; some judge a chosen update, rate and all; and of the two
    # replications, which are the two rates, the second to be registered has predictions. Studies that stop ask
    # again what others found. The others are registered and have no rows yet.
    judging = {"judge-cartpole", "judge-cheetah", "judge-walker"}
    stopping = {"stop-cartpole", "stop-locomotion"}
    waiting = {"evidence-tdmpc2", "evidence-tdmpc2-still", "evidence-tdmpc2-path", "try-cartpole"}
    assert predicting == {"mechanisms-demo", "replication-gentle", *judging, *stopping, *waiting}
    for name in waiting:
        assert all(claim.premise for claim in read(ROOT / "registrations" / f"{name}.toml").predictions)


def test_the_two_replications_are_the_two_arms_of_the_corrected_study_on_other_streams() -> None:
    corrected = read(ROOT / "registrations" / "corrected.toml")
    for arm, name in zip(corrected.arms, ("replication", "replication-gentle"), strict=True):
        repeated = read(ROOT / "registrations" / f"{name}.toml")
        (only,) = repeated.arms
        assert only.decisive() == arm.decisive()
        assert (repeated.tasks, repeated.scoring) == (corrected.tasks, corrected.scoring)
        assert {"stream_seeds"} == {
            field
            for field in type(repeated.grid).model_fields
            if getattr(repeated.grid, field) != getattr(corrected.grid, field)
        }


def test_the_legacy_study_is_the_corrected_one_on_cartpole_but_for_its_schedule() -> None:
    legacy, corrected = (read(ROOT / "registrations" / f"{name}.toml") for name in ("legacy", "corrected"))
    assert legacy.about.endswith("?")
    assert [arm.mechanism for arm in legacy.arms] == [arm.mechanism for arm in corrected.arms]
    assert {arm.mechanism.settings.get("rate", 1.0) for arm in legacy.arms} == {1.0, 0.1}
    for arm, other in zip(legacy.arms, corrected.arms, strict=True):
        assert difference(other.decisive(), arm.decisive()) == ["stream.drift_period: 20000 -> 2000"]
    (task,) = legacy.tasks
    assert legacy.tasks[task] == corrected.tasks[task]
    assert (legacy.scoring, legacy.execution) == (corrected.scoring, corrected.execution)


@pytest.mark.parametrize("name", ["forward", "hopper-control", "precision"])
def test_what_is_meant_to_be_null_has_a_margin(name: str) -> None:
    registered = read(ROOT / "registrations" / f"{name}.toml")
    assert all(claim.equivalent_within is not None for claim in registered.predictions)


def _with_what_it_extends(name: str) -> str:
    text = (ROOT / "registrations" / f"{name}.toml").read_text()
    extends = tomllib.loads(text).get("extends")
    return text + (_with_what_it_extends(extends.removesuffix(".toml")) if extends else "")


@pytest.mark.parametrize(
    ("study", "task", "first_rate", "tenth", "forks"),
    [
        ("forward", "*", "pinned", "gentle-pinned", 1440),
        ("dose", "*", "dose-200", "gentle-dose-200", 1440),
        ("window", "*", "window-all", "gentle-window-all", 1440),
        ("scope", "*", "model", "gentle-model", 1440),
        ("stochasticity", "cartpole-swingup", "noise-0.0", "gentle-noise-0.0", 480),
    ],
)
def test_arms_that_are_set_as_the_corrected_study_repeat_it_bit_for_bit(
    study: str, task: str, first_rate: str, tenth: str, forks: int
) -> None:
    """Computed anew: by other processes, on other occasions, beside other studies on the GPU."""
    compared = 0
    for arm, again in (("corrected", first_rate), ("gentle", tenth)):
        for cell in sorted((folder_of("corrected") / "cells").glob(f"{arm}-{task}-*")):
            repeated = folder_of(study) / "cells" / cell.name.replace(arm, again, 1)
            for one, other in zip(rows_of(cell), rows_of(repeated), strict=True):
                measured = ("k", "level", "draws", "hold", "update", "fit", "signals", "stream", "window")
                assert {name: one[name] for name in measured} == {name: other[name] for name in measured}
                compared += 1
    assert compared == forks


def test_blocks_of_another_shape_repeat_all_but_one_fork_and_bf16_plans_for_the_same_updated_models() -> None:
    """What docs/findings.md says of `precision`: one update of 480 rounds differently in blocks of 48."""
    cells = folder_of("precision") / "cells"
    repeated = {"blocks-48": 0, "bf16": 0}
    for rate in ("", "gentle-"):
        for cell in sorted(cells.glob(f"{rate}fp16-*")):
            for row, again in zip(rows_of(cell), rows_of(_of_arm(cell, "blocks-48")), strict=True):
                assert row["hold"] == again["hold"]
                repeated["blocks-48"] += row["update"] == again["update"]
            for row, again in zip(rows_of(cell), rows_of(_of_arm(cell, "bf16")), strict=True):
                assert row["hold"] != again["hold"]
                repeated["bf16"] += row["fit"] == again["fit"]
    assert repeated == {"blocks-48": 479, "bf16": 480}


def test_the_study_that_was_run_again_has_the_same_draws_and_no_return_in_common() -> None:
    """What docs/findings.md says of it: another kernel rounds otherwise, and every episode is another one."""
    compared = 0
    for cell in sorted((folder_of("power-cartpole-earlier") / "cells").iterdir()):
        again = folder_of("power-cartpole") / "cells" / cell.name
        for row, repeated in zip(rows_of(cell), rows_of(again), strict=True):
            assert (row["k"], row["level"], row["draws"]) == (repeated["k"], repeated["level"], repeated["draws"])
            for branch in ("hold", "update"):
                assert not set(row[branch]) & set(repeated[branch])
            compared += 1
    assert compared == 3072


def cells_of(study: str, arm: str) -> list[Path]:
    def made_by(cell: Path) -> str:
        return json.loads((cell / "cell.json").read_text())["coordinates"]["arm"]

    return [cell for cell in sorted((folder_of(study) / "cells").iterdir()) if made_by(cell) == arm]


MEASURED = ("k", "level", "draws", "hold", "update", "fit", "window")
SURPRISE = ("residual", "running_variance", "percentile")


@pytest.mark.parametrize(
    ("study", "arm", "other", "of_arm", "forks"),
    [
        ("which-policy-cartpole", "finetune", "power-cartpole", "corrected", 576),
        ("which-policy-cartpole", "gentle-rehearsal", "judge-cartpole", "gentle-rehearsal", 576),
        ("judge-cartpole", "gentle", "power-cartpole", "gentle", 1440),
        ("which-policy-walker", "gentle-ewc", "judge-walker", "gentle-ewc", 480),
        ("which-policy-cheetah", "gentle-ewc", "judge-cheetah", "gentle-ewc", 480),
        ("which-policy-walker", "finetune", "power-locomotion", "corrected", 480),
        ("which-policy-cheetah", "finetune", "power-locomotion", "corrected", 480),
    ],
)
def test_forks_that_another_study_has_too_are_the_same_bit_for_bit(
    study: str, arm: str, other: str, of_arm: str, forks: int
) -> None:
    """What docs/findings.md says of these studies: the forks that policies were fitted on are not new. Where
    streams were rolled out in batches of another size, what they record of surprise differs in its last digits, and
    nothing else does."""
    compared, batched_alike = 0, other != "power-locomotion"
    for cell in cells_of(study, arm):
        before = folder_of(other) / "cells" / cell.name.replace(arm, of_arm, 1)
        for row, known in zip(rows_of(cell), rows_of(before), strict=True):
            assert {name: row[name] for name in MEASURED} == {name: known[name] for name in MEASURED}
            assert (row["stream"] == known["stream"]) == batched_alike
            for name, value in row["signals"].items():
                near = name in SURPRISE and not batched_alike
                assert value == (
                    pytest.approx(known["signals"][name], rel=1e-3) if near else known["signals"][name]
                )
            compared += 1
    assert compared == forks


@pytest.fixture(scope="module")
def which_walker() -> Material:
    """The study of policies on walker, scored once."""
    return gather(folder_of("which-policy-walker"))


def test_policies_by_direction_are_the_rows_of_that_direction(which_walker: Material) -> None:
    study = wf.Study(folder_of("which-policy-walker"))
    outcome = which_walker.score.deployment["walker-walk"].policies["ewc-percentile"]
    forks, by_direction = study.forks().filter(pl.col("arm") == "gentle-ewc"), outcome.by_direction
    assert list(by_direction) == ["away", "toward"]
    for way, found in by_direction.items():
        gained, earned, fires = [], [], []
        for checkpoint in range(2, 12):
            own, never = (
                study.deployment(policy, f"{arm}-walker-walk-c{checkpoint}-{way}-s0").rows()
                for policy, arm in (("ewc-percentile", "gentle-ewc"), ("never", "finetune"))
            )
            gained.append(np.mean([a.episode_return - b.episode_return for a, b in zip(own, never, strict=True)]))
            fires.append(sum(row.fired for row in own))
            of_cell = forks.filter(pl.col("checkpoint") == str(checkpoint), pl.col("direction") == way)
            fired = of_cell["signal_percentile"] >= float(own[0].threshold)
            earned.append(((of_cell["r_update"] - of_cell["r_hold"]) * fired).mean())
        parted = np.subtract(gained, earned)
        half = stats.t.ppf(0.975, 9) * parted.std(ddof=1) / np.sqrt(10)
        assert (found.updates, found.mean) == pytest.approx((np.mean(fires), np.mean(gained)))
        assert (found.ledger_value, found.parted) == pytest.approx((np.mean(earned), parted.mean()))
        assert list(found.parted_student_t) == pytest.approx([parted.mean() - half, parted.mean() + half])


def _of_arm(cell: Path, arm: str) -> Path:
    return cell.with_name(cell.name.replace("fp16", arm, 1))


@pytest.mark.parametrize("study", ["forward", "dose", "window", "scope", "precision"])
def test_streams_that_are_left_out_are_those_of_the_corrected_study(study: str) -> None:
    def streams(name: str) -> set[str]:
        return {row["stream"] for cell in (folder_of(name) / "cells").iterdir() for row in rows_of(cell)}

    assert streams(study) <= streams("corrected")


def test_the_two_replications_have_the_same_streams_and_hold_returns() -> None:
    compared = 0
    for cell in sorted((folder_of("replication") / "cells").iterdir()):
        gentle = (
            folder_of("replication-gentle") / "cells" / cell.name.replace("replication", "replication-gentle", 1)
        )
        for row, other in zip(rows_of(cell), rows_of(gentle), strict=True):
            shared = ("k", "level", "draws", "hold", "signals", "stream", "window")
            assert {name: row[name] for name in shared} == {name: other[name] for name in shared}
            assert row["update"] != other["update"]
            compared += 1
    assert compared == 1440


@pytest.mark.parametrize("study", [*AS_THE_PAPER_DID, *WITH_POWER])
def test_copies_without_streams_have_what_detectors_answered(study: str) -> None:
    """But one, whose streams nobody has any more."""
    assert (folder_of(study) / "answers.json").exists() == (study != "power-cartpole-earlier")


def levels(study: str, direction: str) -> set[float]:
    """Every level that a fork of the study was taken at in one direction."""
    cells = (folder_of(study) / "cells").glob(f"*-{direction}-*")
    return {row["level"] for cell in cells for row in rows_of(cell)}


def test_the_demo_visits_the_same_levels_in_both_directions() -> None:
    """To the last bit, but for the ends: `toward` is forked at 0, `away` at 1."""
    assert levels("demo", "toward") ^ levels("demo", "away") == {0.0, 1.0}


def test_the_first_draw_of_the_study_with_draws_is_the_demo_and_the_others_share_all_but_the_update() -> None:
    def rows(study: str, cell: str) -> list[dict[str, Any]]:
        return rows_of(folder_of(study) / "cells" / cell)

    shared = ("k", "level", "signals", "hold", "stream", "window")
    compared = 0
    for cell in sorted(path.name for path in (folder_of("demo") / "cells").iterdir()):
        first = cell.replace("demo-", "full-rate-")
        others = [
            first + "-u1",
            first + "-u2",
            *(first.replace("full", "tenth") + end for end in ("", "-u1", "-u2")),
        ]
        for row, again in zip(rows("demo", cell), rows("draws", first), strict=True):
            measured = (*shared, "draws", "update", "fit", "delta")
            assert {name: row[name] for name in measured} == {name: again[name] for name in measured}
        for other in others:
            for row, drawn in zip(rows("demo", cell), rows("draws", other), strict=True):
                assert {name: row[name] for name in shared} == {name: drawn[name] for name in shared}
                assert row["update"] != drawn["update"]
                compared += 1
    assert compared == 5 * 36


def test_the_page_of_policies_with_two_updates_says_how_each_is_ordered(which_walker: Material) -> None:
    score = which_walker.score
    within = score.deployment["walker-walk"].forecast.within
    assert {arm: found.policies for arm, found in within.items()} == {"finetune": 6, "gentle-ewc": 13}
    page = re.sub(r"<[^>]*>", "", render(which_walker).html)
    assert "one stepfinetune+0.89 [+0.83, +0.94]one stepgentle-ewc−0.21 [−0.53, +0.21]" in page.replace("\xa0", " ")
    assert "by the direction of drift" in page
    table = orders(score.deployment)
    assert ("walker-walk", "one step", "gentle-ewc", "-0.21 [-0.53, +0.21]") in [row[:4] for row in table.rows]
