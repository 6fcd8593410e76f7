"""Files to begin with run, or score, as they are written; a score's figures can be read by a tracker."""

import functools
import json
import re
import tomllib
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import worldfork as wf
from worldfork.analysis.read.table import COLUMNS, template_frame, write_template
from worldfork.analysis.score import score_ledger
from worldfork.analysis.score.frames import values
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.registration import parse, read
from worldfork.registration.library import registrations
from worldfork.registration.reference import annotated_example, json_schema


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_a_template_is_a_table(tmp_path: Path, suffix: str) -> None:
    path = write_template(tmp_path / f"forks{suffix}")
    table = wf.read_table(path)
    assert len(table) == 24
    assert not table.ignored


def test_the_four_columns_are_enough(tmp_path: Path) -> None:
    needed = list(COLUMNS)[:4]
    score = wf.score(template_frame().filter(pl.col("direction") == "away").select(needed), permutations=50)
    assert score["table"].verdict


def test_from_a_template_to_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["new", "forks.csv"])
    assert done.exit_code == 0
    assert all(f"\n{name} " in f"\n{done.output}" for name in COLUMNS)
    typed = re.findall(r"worldfork (score|report) (forks\.csv)", done.output)
    assert typed == [("score", "forks.csv"), ("report", "forks.csv")]
    for words in typed:
        again = CliRunner().invoke(app, [*words, "--permutations", "50"])
        assert again.exit_code == 0, again.output
    assert (tmp_path / "forks.html").is_file()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "forks.csv"
    path.write_text("mine")
    with pytest.raises(WorldforkError, match="is there already"):
        write_template(path)
    assert path.read_text() == "mine"


def test_a_registration_to_edit_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["new", "My study.toml"])
    assert done.exit_code == 0, done.output
    registered = read(tmp_path / "My study.toml")
    assert registered.name == "my-study"
    study = wf.run(tmp_path / "My study.toml", tmp_path / "study")
    assert len(study.forks()) == 128
    again = CliRunner().invoke(app, ["new", "My study.toml"])
    assert again.exit_code != 0
    assert read(tmp_path / "My study.toml") == registered


def test_every_default_of_the_example_is_the_records(tmp_path: Path) -> None:
    """A key that is commented out can be put back without changing what is registered."""
    text = annotated_example("mine")
    uncommented = re.sub(r"^# (\w+ = )", r"\1", text.partition("\n# What a study could")[0], flags=re.MULTILINE)
    assert uncommented != text
    assert parse(uncommented) == parse(text)
    above = text.partition("\n[grid]")[0].splitlines()[1:]
    assert not [line for line in above if line.startswith("#")], "a key above all tables is set, or left out"


def test_an_editors_schema_takes_every_registration_that_comes_with_worldfork() -> None:
    schema = json.loads(json_schema())
    for path in registrations().values():
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        assert set(tables) <= set(schema["properties"]), path.name
        for name in ("grid", "stream", "evaluation", "mechanism", "scoring", "execution"):
            known = schema["$defs"][name.capitalize()]["properties"]
            assert set(tables.get(name, {})) <= set(known), path.name


def test_every_key_of_a_registration_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs" / "registration.md").read_text(encoding="utf-8")
    assert [row for row in page.splitlines() if row.startswith("| `") and row.endswith("|  |")] == []


@pytest.mark.parametrize("kind", ["registrations", "recipes", "agents", "triggers", "schedules"])
def test_what_comes_with_worldfork_is_listed_with_its_purpose(kind: str) -> None:
    listed = json.loads(CliRunner().invoke(app, ["list", kind, "--json"]).stdout)[kind]
    assert {"registrations": "demo", "recipes": "pretrain-demo", "agents": "rssm_cem"}.get(kind, "") in {
        "",
        *listed,
    }
    assert [name for name, purpose in listed.items() if not purpose] == []


def test_a_kind_that_is_not_there_is_answered_with_those_that_are() -> None:
    assert "Did you mean triggers?" in str(CliRunner().invoke(app, ["list", "trigger"]).exception)


def test_figures_for_a_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write_template(tmp_path / "forks.csv")
    quick = functools.partial(score_ledger, permutations=50)
    monkeypatch.setattr("worldfork.analysis.score.score_ledger", quick)
    done = CliRunner().invoke(app, ["export", str(table), "-o", str(tmp_path / "figures.jsonl"), "--values"])
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in (tmp_path / "figures.jsonl").read_text().splitlines()]
    score = quick(table)
    mean = score["example"].effect.all_attempted.mean
    named = {line["name"]: line["value"] for line in lines}
    assert [name for name, value in named.items() if name.endswith("all_attempted/mean") and value == mean]
    assert values(score)["value"].is_finite().all()
    assert len(named) == len(lines), "a name stands for one figure"


def test_figures_or_a_copy(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export", "x", "-o", "y.csv", "--values", "--publish"])
    assert done.exit_code == 2
