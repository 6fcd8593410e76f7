"""Ledgers whose chain was made anew: `verify` holds rows against the registration, cell.json and the log beside."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployed import DEPLOYED
from tiny import AUTHORED, CELL, STREAM, forge, rechain, write

from worldfork.lab.run import run
from worldfork.ledger import arrays
from worldfork.ledger.closed_loop import read_log_parts, segment_files
from worldfork.ledger.consistency import _signals
from worldfork.ledger.store import Study
from worldfork.ledger.verify import root, verify

SIGNALS = {"residual": 0.3, "kl": None, "running_variance": 0.0, "percentile": 0.3, "return_deficit": 1.0}
OF_RAMP = {"drift": 0.005, "clock": 2.0}


def forged(study: Study, change: Callable[[dict[str, Any]], object], *, k: int = 2) -> tuple[str, ...]:
    """The problems once row k of a tiny study says something else."""
    forge(study.path / "cells" / CELL / "forks.jsonl", lambda row: change(row) if row["k"] == k else None)
    return verify(study.path).problems


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"nonfinite_returns": {"hold": 0, "update": 1}},
            "`nonfinite_returns` of update is 1, and 0 of its returns",
        ),
        ({"hold": [None, 2.0], "r_hold": None, "delta": None}, "`nonfinite_returns` of hold is 0, and 1 of its"),
        (
            {"unstable_episodes": {"hold": 3, "update": 0}},
            "`unstable_episodes` of hold are more than its 2 episodes",
        ),
        ({"step": 99}, "`step` 99 and `env_step` 100 are not those of the end of episode 2"),
        ({"env_step": 200}, "`step` 100 and `env_step` 200 are not those of the end of episode 2"),
        ({"level": 0.5}, "`level` is 0.5, and the registered schedule is at 0.005"),
        ({"rate": -1e308}, "`level` or `rate` is not that of the stream"),
        ({"signals": {"residual": 0.3001}}, "the signal `residual` is 0.3001, and 0.3"),
        ({"signals": {"residual": None}}, "the signal `residual` is None, and 0.3"),
        ({"signals": {"kl": 0.1}}, "the signal `kl` is 0.1, and None by the stream"),
        ({"signals": {"running_variance": 1.0}}, "the signal `running_variance` is 1.0, and "),
        ({"signals": {"percentile": 1.0}}, "the signal `percentile` is 1.0, and 0.3 by the stream"),
        ({"signals": {"return_deficit": 0.5}}, "the signal `return_deficit` is 0.5, and 1.0 by the stream"),
        ({"signals": {"drift": 0.006}}, "the signal `drift` is 0.006, and should be 0.005"),
        ({"signals": {"clock": 3.0}}, "the signal `clock` is 3.0, and should be 2.0"),
    ],
)
def test_a_row_that_contradicts_its_study_is_found(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    (problem,) = forged(write(tmp_path / "study"), lambda row: row.update(change))
    assert problem.startswith(f"{CELL}, fork 2: ")
    assert told in problem


def test_what_follows_from_the_stream_passes(tmp_path: Path) -> None:
    assert forged(write(tmp_path / "study"), lambda row: row.update(signals={**SIGNALS, **OF_RAMP})) == ()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("env_step",), -5),
        (("step",), 2**63),
        (("nonfinite_returns", "hold"), -1),
        (("unstable_episodes", "update"), -1),
        (("nonfinite_actions", "hold"), -1),
        (("fit", "window"), -1),
        (("fit", "non_finite"), -1),
    ],
)
def test_a_count_is_not_negative_and_fits_an_array(tmp_path: Path, place: tuple[str, ...], value: int) -> None:
    def change(row: dict[str, Any]) -> None:
        for name in place[:-1]:
            row = row[name]
        row[place[-1]] = value

    (problem,) = forged(write(tmp_path / "study"), change)
    assert "line 2: not a fork row" in problem
    assert "expected 0 or more" in problem or "expected less than" in problem


def with_log(study: Study, **columns: np.ndarray) -> tuple[str, ...]:
    """The problems once another log lies beside the rows, whose digest they name."""
    log = {name: values for name, values in {**STREAM, **columns}.items() if len(values)}
    written = arrays.write_parquet(study.path / "cells" / CELL / "stream.parquet", log)
    forge(study.path / "cells" / CELL / "forks.jsonl", lambda row: row.update(stream=written))
    return verify(study.path).problems


NOTHING = np.zeros(0)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"level": NOTHING}, "the stream has no column `level`"),
        ({"level": STREAM["level"][::-1]}, "the levels of the stream are not those of the registered schedule"),
        ({"rate": STREAM["rate"] * 2}, "the levels of the stream are not those of the registered schedule"),
        ({"step": STREAM["step"][::-1]}, "the steps of the stream do not follow one another"),
        ({"env_step": STREAM["step"] * 2}, "the steps of the stream are not those of its episodes"),
        ({"episode": STREAM["step"] // 75 + 1}, "the steps of the stream are not those of its episodes"),
    ],
)
def test_a_log_that_can_not_be_one_is_found(tmp_path: Path, columns: dict[str, np.ndarray], told: str) -> None:
    assert with_log(write(tmp_path / "study"), **columns) == (f"{CELL}: {told}.",)


def test_a_log_that_ends_early_is_found(tmp_path: Path) -> None:
    short = {name: values[:120] for name, values in STREAM.items()}
    (problem,) = with_log(write(tmp_path / "study"), **short)
    assert problem == f"{CELL}, fork 3: the stream has 20 steps of episode 3, and 50 are in one."


def test_steps_past_an_end_are_in_no_signal(tmp_path: Path) -> None:
    """As the log of a world says it whose episodes can end early."""
    real = np.arange(150) % 50 < 10
    error = np.where(real, 0.3, 7.0)
    assert with_log(write(tmp_path / "study"), error=error, real=real) == ()
    assert "the signal `residual`" in "".join(with_log(Study(tmp_path / "study"), error=error))


def test_a_schedule_of_another_shape_is_held_against_the_stream(tmp_path: Path) -> None:
    authored = AUTHORED.replace("[stream]", '[stream]\nschedule = "step"\nschedule_settings = {at = 0.005}')
    level = np.where(STREAM["step"] >= 100, 1.0, 0.0)
    rate = np.where(STREAM["step"] == 99, 1.0, 0.0)

    def follow(row: dict[str, Any]) -> None:
        row.update(level=float(row["k"] >= 2), rate=float(row["k"] == 2))

    study = write(tmp_path / "study", authored=authored)
    forge(study.path / "cells" / CELL / "forks.jsonl", follow)
    assert with_log(study, level=level, rate=rate) == ()
    assert forged(study, lambda row: row.update(level=0.5)) == (
        f"{CELL}, fork 2: `level` or `rate` is not that of the stream.",
    )
    forge(study.path / "cells" / CELL / "forks.jsonl", follow)
    assert with_log(study, level=level, rate=rate / 2) == (
        f"{CELL}: the levels of the stream are not those of the registered schedule.",
    )


def test_the_direction_and_the_repeat_are_those_of_the_cell(tmp_path: Path) -> None:
    study = write(tmp_path / "study")
    rechain(study, CELL, lambda made: made["units"].update(action_repeat=2))
    assert "`step` 50 and `env_step` 50" in verify(study.path).problems[0]
    authored = AUTHORED.replace('["away"]', '["toward"]')
    (problem,) = verify(write(tmp_path / "toward", authored=authored).path).problems
    assert "`level` is 0.0025, and the registered schedule is at 0.9975" in problem


def test_signals_are_computed_as_they_are_defined() -> None:
    log = {
        "error": np.array([1.0, 2.0, 6.0]),
        "reward": np.array([1.0, 1.0, -3.0]),
        "kl": np.array([0.0, 0.0, 3.0]),
    }
    found = {name: value for name, value, _ in _signals(log, 10.0)}
    known = {"residual": 3.0, "running_variance": 7.0, "percentile": 5.6, "kl": 1.0, "return_deficit": 11.0}
    assert found == pytest.approx(known)
    undefined = {
        name: value for name, value, _ in _signals({"error": np.array([np.inf]), "reward": np.zeros(1)}, None)
    }
    assert undefined == {"residual": None, "running_variance": None, "percentile": None, "kl": None}


# --- deployments


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("followed")
    (folder / "deployed.toml").write_text(DEPLOYED)
    run(folder / "deployed.toml", folder / "study")
    return folder / "study"


@pytest.fixture
def study(followed: Path, tmp_path: Path) -> Study:
    shutil.copytree(followed, tmp_path / "study")
    return Study(tmp_path / "study")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda row: row.update(state="x"), "`state` is 'x', which is no digest"),
        (lambda row: row.update(episode_return=row["episode_return"] + 1e-9), "`episode_return` is "),
        (
            lambda row: row.update(episode_return=None),
            "`episode_return` is None, and the rewards of its log sum to ",
        ),
        (lambda row: row.update(step=7), "`step` 7 and `env_step` 100 are not those of the end of episode 2"),
        (lambda row: row.update(level=0.25), "`level` is 0.25, and the registered schedule is at 1.0"),
        (lambda row: row["signals"].update(residual=0.5), "the signal `residual` is 0.5, and "),
        (lambda row: row["signals"].update(clock=7.0), "the signal `clock` is 7.0, and should be 2.0"),
        (lambda row: row.update(gradient_steps=-1), "line 2: not a episode row"),
        (lambda row: row.update(nonfinite_actions=-1), "line 2: not a episode row"),
    ],
)
def test_a_deployment_that_contradicts_its_study_is_found(study: Study, change: Any, told: str) -> None:
    assert verify(study.path).problems == ()
    folder = study.deployments()[0]
    forge(folder.path / "episodes.jsonl", lambda row: change(row) if row["k"] == 2 else None)
    problems = verify(study.path).problems
    assert told in problems[0], problems


@pytest.mark.parametrize("kind", ["cells", "deployments"])
def test_a_configuration_in_another_spelling_is_found(study: Study, kind: str) -> None:
    """The values are the same, and so is every chain."""
    folder = getattr(study, kind)()[0]
    path = folder.path / "cell.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=1))
    problems = verify(study.path).problems
    assert problems == (f"{folder.title}: cell.json is not in canonical form; it was edited.",)


# --- what nothing lists


def test_a_study_as_it_is_run_has_nothing_that_is_not_listed(study: Study) -> None:
    (study.path / "report").mkdir()
    (study.path / "report" / "index.html").write_text("made from the ledger")
    assert verify(study.path).notes == ()


def test_files_that_nothing_lists_are_named_as_not_covered(study: Study) -> None:
    before = root(study)
    (study.path / "cells" / "extra").mkdir()
    _, segment = segment_files(study.path, suffix=".parquet")[0]
    stray = segment.with_name("stray-k1.parquet")
    (part, *_) = read_log_parts(segment)
    names = {name: np.full(len(part.columns["step"]), "nobody") for name in ("policy", "cell")}
    arrays.write_parquet(stray, {**names, **part.columns})
    for place in ("evil.txt", "cells/extra/forks.jsonl", f"cells/{study.cells()[0].id}/evil.txt"):
        (study.path / place).write_text("")
    verdict = verify(study.path)
    assert verdict.problems == ()
    assert verdict.notes == (
        f"4 files that nothing here lists are not covered by the root: cells/extra/forks.jsonl, "
        f"cells/{study.cells()[0].id}/evil.txt, deployments/segments/stray-k1.parquet and 1 more.",
    )
    assert root(study) == before
