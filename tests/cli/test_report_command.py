"""`worldfork report` as a person uses it."""

import os
import signal
import subprocess
import sys
import urllib.request

import polars as pl
import pytest
from typer.testing import CliRunner
from waiting import PATIENCE

from worldfork.cli.main import app
from worldfork.errors import WorldforkError


@pytest.fixture
def table(tmp_path):
    rows = [
        {
            "task": "world",
            "checkpoint": c,
            "direction": d,
            "stream_seed": 0,
            "k": k,
            "r_hold": 10.0 - k,
            "r_update": 5.0 - 0.1 * c,
        }
        for c in range(3)
        for d in ("toward", "away")
        for k in range(1, 7)
    ]
    path = tmp_path / "forks.csv"
    pl.DataFrame(rows).write_csv(path)
    return path


def test_a_page_compares_the_triggers_that_are_named(table, tmp_path):
    page = tmp_path / "page.html"
    for arguments, shown in (((), True), (("--triggers", "clock"), False)):
        assert run(table, "-o", page, *arguments).exit_code == 0
        assert 'scope="row">clock</th>' in page.read_text(encoding="utf-8")
        assert ('scope="row">periodic</th>' in page.read_text(encoding="utf-8")) is shown
    assert "No trigger is called `clok`" in str(run(table, "-o", page, "--triggers", "clok").exception)


def run(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments), "--permutations", "50"])


def test_the_page_lies_beside_the_table_or_where_it_is_told(table, tmp_path):
    assert run(table).exit_code == 0
    assert "<!doctype html>" in table.with_suffix(".html").read_text()
    found = run(table, "-o", tmp_path / "new" / "page.html")
    assert str(tmp_path / "new" / "page.html") in found.output.replace("\n", "")
    assert (tmp_path / "new" / "page.html").read_text() == table.with_suffix(".html").read_text()


def test_an_index_says_on_standard_error_how_far_it_is(table, tmp_path):
    other = tmp_path / "other.csv"
    other.write_bytes(table.read_bytes())
    found = run(table, other, "-o", tmp_path / "pages" / "index.html")
    assert [line.partition(": ")[0] for line in found.stderr.splitlines()] == ["1 of 2", "2 of 2"]
    assert str(tmp_path / "pages" / "forks.html") in found.stderr.replace("\n", "")
    assert run(table, other, "-o", tmp_path / "pages" / "index.html", "--quiet").stderr == ""


def test_a_damaged_study_is_named_when_the_others_are_written(table, tmp_path):
    damaged = tmp_path / "damaged.tar.xz"
    damaged.write_bytes(b"\xfd7zXZ\x00 and no more")
    index = tmp_path / "pages" / "index.html"
    found = run(damaged, table, "-o", index)
    assert isinstance(found.exception, WorldforkError)  # exit code 2
    assert str(found.exception).startswith(f"`{damaged}` has no page: ")
    assert str(found.exception).endswith(f"{index} has the other 1.")
    assert "forks.html" in index.read_text(encoding="utf-8")
    assert not index.with_name("damaged.html").exists()


def test_a_folder_that_is_there_gets_the_page_inside(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(table, "-o", ".").exit_code == 0
    assert "<!doctype html>" in (tmp_path / "forks.html").read_text()


def test_several_ledgers_have_an_index_that_leads_to_a_page_each(table, tmp_path):
    other = tmp_path / "gains.csv"
    frame = pl.read_csv(table)
    frame.with_columns(r_update=pl.col("r_hold") + 2.0 + 0.1 * pl.col("checkpoint")).write_csv(other)
    found = run(table, other, "-o", tmp_path / "pages")  # a folder that is not there yet: the index is in it
    assert found.exit_code == 0, found.output
    index = (tmp_path / "pages" / "index.html").read_text()
    for name, words in (("forks", "Updating every time hurts"), ("gains", "Updating every time helps")):
        assert f'href="{name}.html"' in index
        assert words in index
        assert "<!doctype html>" in (tmp_path / "pages" / f"{name}.html").read_text()
        assert '<a href="index.html">' in (tmp_path / "pages" / f"{name}.html").read_text()
    assert index.count("<script") == 1
    with pytest.raises(WorldforkError, match="Name the index"):
        CliRunner().invoke(app, ["report", str(table), str(other)], catch_exceptions=False)
    same = ["report", str(table), str(table), "-o", str(tmp_path / "i.html")]
    with pytest.raises(WorldforkError, match="collide: forks"):
        CliRunner().invoke(app, same, catch_exceptions=False)


def test_one_ledger_goes_into_a_folder_that_is_not_there_yet(table, tmp_path):
    found = run(table, "-o", tmp_path / "pages")
    assert found.exit_code == 0, found.output
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["forks.html"]


def test_what_is_no_ledger_is_said_before_any_page_is_written(table, tmp_path):
    (tmp_path / "empty").mkdir()
    for wrong, words in (("empty", "is not a study"), ("nothing.csv", "There is no")):
        with pytest.raises(WorldforkError, match=words):
            CliRunner().invoke(
                app,
                ["report", str(table), str(tmp_path / wrong), "-o", str(tmp_path / "pages" / "index.html")],
                catch_exceptions=False,
            )
    assert not (tmp_path / "pages").exists()


def test_a_folder_that_can_not_be_made_is_one_clear_error(table, tmp_path):
    (tmp_path / "file").write_text("")
    found = run(table, "-o", tmp_path / "file" / "page.html")
    assert isinstance(found.exception, WorldforkError)


def test_figures(table, tmp_path):
    assert run(table, "--figures", tmp_path / "figures").exit_code == 0
    assert len(list((tmp_path / "figures").iterdir())) == 6


@pytest.mark.parametrize("more", [(), ("--live",)])
def test_no_ledger_is_one_clear_error(tmp_path, more):
    found = run(tmp_path / "nothing", *more)
    assert isinstance(found.exception, WorldforkError)


def test_live_prints_its_address_serves_it_and_ends_at_ctrl_c(table):
    command = [sys.executable, "-m", "worldfork.cli.main", "report", "--live", str(table), "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    with subprocess.Popen(
        [*command, "--permutations", "50"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        address = process.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
            assert b"forks.csv" in answer.read()
        process.send_signal(signal.SIGINT)
        rest, complaints = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "Closed." in rest
    assert "Traceback" not in complaints
