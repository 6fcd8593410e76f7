"""A copy without streams has what triggers answered on them, and its score is that of the study."""

import dataclasses
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployed import DEPLOYED
from kill_and_resume import REGISTRATION
from tiny import TWO_ARMS, contents, unpacked_copy, write
from typer.testing import CliRunner

import worldfork as wf
from worldfork.analysis.present.tables.deployments import forecasts
from worldfork.analysis.read.ledger import open_ledger
from worldfork.analysis.read.stream_answers import stream_answers
from worldfork.analysis.read.triggers import read_triggers
from worldfork.analysis.score.thresholds import Unanswered, fit_thresholds
from worldfork.analysis.score.undefined import Undefined
from worldfork.cli.main import app
from worldfork.ledger.publish import Answers
from worldfork.ledger.store import Study
from worldfork.ledger.verify import root, verify

TASK = "linear_quadratic"
DETECTORS = ("adwin", "page_hinkley", "kswin", "conformal")
# Detectors that fire on so short a stream, and one as a score asks it, but under the seed of the registration.
ANSWERED = (
    DEPLOYED.replace('name = "deployed"', 'name = "answered"\nseed = 5').replace(
        "checkpoints = [0, 1]", "checkpoints = [0, 1, 2]"
    )
    + """
[deployment.policies.page-hinkley]
trigger = "page_hinkley"
settings = {threshold = 5.0}

[deployment.policies.kswin]
trigger = "worldfork.triggers.kswin:Kswin"
settings = {alpha = 0.2, window = 20, recent = 8}

[deployment.policies.conformal]
trigger = "conformal"
arm = "many"
settings = {capital = 2.0}

[deployment.policies.usual]
trigger = "kswin"

[deployment.policies.matched]
trigger = "random"
matches = "conformal"
"""
)
DRAWN = (
    REGISTRATION.replace("mechanism = {steps = 10}", "mechanism = {steps = 10}\nupdate_seeds = [0, 1]")
    + '[[arms]]\nname = "noisy"\nstream = {action_noise = 0.2}\n'
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("answered")
    (folder / "answered.toml").write_text(ANSWERED)
    return wf.run(folder / "answered.toml", folder / "study")


@pytest.fixture(scope="module")
def copy(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(study.path, tmp_path_factory.mktemp("copies") / "copy")


def export(study: Path, folder: Path, *options: str) -> Path:
    """Return the copy that the command makes, unpacked into `folder`."""
    packed = folder.parent / "packed" / f"{folder.name}.tar.xz"
    options = options or ("--without-streams",)
    done = CliRunner().invoke(app, ["export", str(study), "--publish", *options, "-o", str(packed)])
    assert done.exit_code == 0, done.exception
    with tarfile.open(packed) as tar:
        tar.extractall(folder.parent, filter="data")
    return folder


def scored(study: Study | Path, **rules: Any) -> dict[str, Any]:
    return wf.score(study, permutations=50, **rules).to_json()


def stored(copy: Path) -> dict[str, Any]:
    return json.loads((copy / "answers.json").read_text())


def alter(copy: Path, change: Any) -> None:
    """Change what is stored, and sign it anew."""
    answers = stored(copy)
    change(answers)
    del answers["digest"]
    (copy / "answers.json").write_bytes(Answers.model_validate_json(json.dumps(answers)).content())


def test_the_score_of_a_copy_without_streams_is_that_of_the_study(study: Study, copy: Path) -> None:
    copy = Study(copy)
    assert not list(copy.path.rglob("*.parquet"))
    verdict = verify(copy.path)
    assert (verdict.problems, verdict.complete, root(copy)) == ((), True, root(study))
    assert (
        "3 streams are not here; rows hold their digests. What adwin, page_hinkley, kswin, conformal, "
        "worldfork.triggers.kswin:Kswin answered on them is in answers.json, as the publisher's word: no row "
        "holds its digest." in verdict.notes
    )
    found = scored(copy)
    assert found == scored(study)
    assert set(DETECTORS) <= set(found["arms"]["few"]["tasks"][TASK]["triggers"])
    followed = found["deployment"][TASK]
    assert (
        len({followed["policies"][policy]["ledger_value"] for policy in ("page-hinkley", "kswin", "conformal")})
        == 3
    )
    assert followed["forecast"]["rank_correlation"] is not None


def test_answers_take_a_few_bytes_and_say_whose_they_are(study: Study, copy: Path) -> None:
    answers = stored(copy)
    asked = {(one["trigger"], one["seed"], len(one["settings"])) for one in answers["triggers"]}
    assert asked == {
        ("adwin", None, 1),
        ("page_hinkley", None, 2),
        ("kswin", 0, 3),
        ("kswin", 5, 3),
        ("conformal", 0, 2),
        ("conformal", 5, 2),
        ("worldfork.triggers.kswin:Kswin", 5, 3),
    }
    assert len(answers["triggers"]) == 8
    assert sorted(answers["streams"]) == [f"few-{TASK}-c{checkpoint}-away-s0" for checkpoint in range(3)]
    for cell, answered in answers["streams"].items():
        assert answered["stream"] == study.cell(cell).rows()[0].stream
        assert {len(series) for series in answered["answers"]} == {4}
    written = "".join(series for answered in answers["streams"].values() for series in answered["answers"])
    assert set(written) == {"0", "1"}


def test_under_another_seed_what_draws_is_left_out_with_the_reason(study: Study, copy: Path) -> None:
    whole, without = (wf.score(each, permutations=50, seed=1)["few", TASK] for each in (study, copy))
    assert set(whole.triggers_unavailable) == {"kl"}
    assert set(without.triggers_unavailable) == {"kl", "kswin", "conformal"}
    assert without.triggers_unavailable["conformal"] == (
        "draws random numbers: this copy was published without streams, and has what it answered under seed 0, not "
        "under seed 1"
    )
    for name in ("adwin", "page_hinkley", "residual"):
        assert without.triggers.retained[name].policy_total == whole.triggers.retained[name].policy_total
    # What policies would have done is asked under the seed of the registration, whatever the score's is.
    assert wf.score(copy, permutations=5, seed=1).deployment == wf.score(study, permutations=5, seed=1).deployment


def test_a_copy_of_a_copy_has_the_same_answers(copy: Path, tmp_path: Path) -> None:
    for name, options in (("again", ("--without-streams",)), ("and-again", ("--publish",))):
        export(copy, tmp_path / name, *options)
        assert contents(tmp_path / name) == contents(copy)


def test_a_copy_from_before_is_scored_without_what_read_its_streams(study: Study, tmp_path: Path) -> None:
    unpacked_copy(study, tmp_path / "old", streams=False)
    assert not (tmp_path / "old" / "answers.json").exists()
    whole, old = (wf.score(each, permutations=50) for each in (study, tmp_path / "old"))
    assert set(old["few", TASK].triggers_unavailable) == {"kl", *DETECTORS}
    assert "nor a copy that was published without streams" in old["few", TASK].triggers_unavailable["adwin"]
    (known,), (left,) = (each.deployment.values() for each in (whole, old))
    for name, outcome in known.policies.items():
        mute = name in ("page-hinkley", "kswin", "conformal", "usual")
        ledger_value = left.policies[name].ledger_value
        assert isinstance(ledger_value, Undefined) == mute
        assert ledger_value == outcome.ledger_value or mute
        assert left.policies[name].returned == outcome.returned
    assert "its trigger `conformal` needs the error of every step" in str(left.policies["conformal"].ledger_value)
    assert isinstance(left.forecast.rank_correlation, Undefined)
    assert "what the one-step ledger says of `" in left.forecast.rank_correlation.why
    assert isinstance(left.forecast.bootstrap, Undefined)
    table = forecasts({TASK: left})
    ranks = {row[1]: row[table.heads.index("rank")] for row in table.rows}
    mute = {"page-hinkley", "kswin", "conformal", "usual"}
    assert {name for name, rank in ranks.items() if rank.startswith("–")} == mute


def test_streams_that_are_put_back_are_asked_themselves(study: Study, copy: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    shutil.copytree(copy, target)

    def turned(answers: dict[str, Any]) -> None:
        for answered in answers["streams"].values():
            answered["answers"] = [series.translate({48: 49, 49: 48}) for series in answered["answers"]]

    alter(target, turned)
    assert verify(target).problems == ()
    assert scored(target) != scored(study)
    put_back = sorted(stored(target)["streams"])
    for cell in put_back[:2]:
        shutil.copy(study.cell(cell).path / "stream.parquet", target / "cells" / cell / "stream.parquet")
    anew = stream_answers(Study(target))
    assert anew is not None
    whole, made_up = stored(copy)["streams"], stored(target)["streams"]
    expected = {cell: (whole if cell in put_back[:2] else made_up)[cell]["answers"] for cell in put_back}
    assert {cell: list(answered.answers) for cell, answered in anew.streams.items()} == expected
    last = put_back[2]
    shutil.copy(study.cell(last).path / "stream.parquet", target / "cells" / last / "stream.parquet")
    assert scored(target) == scored(study)


def test_thresholds_are_not_fitted_on_a_publishers_word(study: Study, copy: Path) -> None:
    """A ledger is registered by its root, and that does not cover answers.json."""
    assert fit_thresholds(study, root=study.path).policies.keys() == {"matched"}
    with pytest.raises(
        Unanswered, match=r"The trigger `conformal` needs the error of every step .*without streams\.$"
    ):
        fit_thresholds(Study(copy), root=copy)


def test_arms_of_other_streams_and_several_draws_of_an_update_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "drawn.toml").write_text(DRAWN)
    study = wf.run(tmp_path / "drawn.toml", tmp_path / "study")
    copy = export(study.path, tmp_path / "copy")
    assert {cell.partition("-")[0] for cell in stored(copy)["streams"]} == {"few", "noisy"}
    assert len(stored(copy)["streams"]) == 4
    assert scored(copy) == scored(study)


@pytest.mark.parametrize("ahead", ["few", "many"])
def test_where_arms_have_come_less_far_the_stream_is_answered_to_the_furthest(tmp_path: Path, ahead: str) -> None:
    study = write(
        tmp_path / "study", authored=TWO_ARMS, of_cell=lambda cell, k: {} if k == 1 or cell.arm == ahead else None
    )
    copy = export(study.path, tmp_path / "copy")
    (answered,) = stored(copy)["streams"].values()
    assert {len(series) for series in answered["answers"]} == {3}
    assert verify(copy).problems == ()
    for arm in ("few", "many"):
        of_both = [read_triggers(open_ledger(each).table.arms[arm][TASK].prefork) for each in (study, copy)]
        for name in DETECTORS:
            np.testing.assert_array_equal(*(each[name].fired for each in of_both))


def test_a_fork_that_was_lost_changes_no_stored_answer(copy: Path) -> None:
    prefork = open_ledger(copy).table.arms["few"][TASK].prefork
    lost = prefork.take(prefork.k != 2)
    for name in DETECTORS:
        whole, rest = (read_triggers(each, names=[name])[name].fired for each in (prefork, lost))
        np.testing.assert_array_equal(rest, whole[prefork.k != 2])


def test_answers_of_other_settings_are_not_taken(copy: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    shutil.copytree(copy, target)

    def other(answers: dict[str, Any]) -> None:
        for one in answers["triggers"]:
            if one["trigger"] == "adwin":
                one["settings"]["delta"] = 0.003

    alter(target, other)
    unavailable = wf.score(target, permutations=5)["few", TASK].triggers_unavailable
    assert set(unavailable) == {"kl", "adwin"}


def test_only_what_reads_a_stream_is_taken_from_what_is_stored(copy: Path, tmp_path: Path) -> None:
    """A file of a stranger's may list a coin or a clock: nobody asks it."""
    target = tmp_path / "copy"
    shutil.copytree(copy, target)

    def schedule(answers: dict[str, Any]) -> None:
        answers["triggers"].append({"trigger": "periodic", "settings": {"period": 4}, "seed": None})
        for answered in answers["streams"].values():
            answered["answers"].append("1111")

    alter(target, schedule)
    assert verify(target).problems == ()
    assert scored(target) == scored(copy)


def test_numbers_are_read_back_as_numbers(copy: Path) -> None:
    prefork = open_ledger(copy).table.arms["few"][TASK].prefork
    who = next(one for one in prefork.answered(0) if one.trigger == "adwin" and one.seed is None)
    said = dataclasses.replace(prefork, answers=tuple({who: (0.5, None, 2.0, 1.0)} for _ in prefork.cells))
    values = read_triggers(said, names=["adwin"])["adwin"].values
    np.testing.assert_array_equal(values, np.tile([0.5, np.nan, 2.0, 1.0], len(prefork.cells)))
