"""The command itself: where it prints, what it is given that is no study, and names that no file can have."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tiny import AUTHORED, write
from typer.testing import CliRunner

from worldfork.analysis.read.table import write_template
from worldfork.cli import options
from worldfork.cli.main import VERBS, app, main
from worldfork.errors import WorldforkError

FULL = Path("/dev/full")  # a disk on which there never is room
LONG = "a" * 256  # one letter more than a file's name may have


def refused(*arguments: str | Path) -> str:
    with pytest.raises(WorldforkError) as refusal:
        CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    return str(refusal.value)


def run_command(*arguments: str | Path, stdout: int, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "worldfork.cli.main", *map(str, arguments)]
    around = {**os.environ, **environment}
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=around, check=False)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "forks.csv"
    write_template(path)
    return path


@pytest.mark.skipif(not FULL.exists(), reason="there is no such device here")
@pytest.mark.parametrize("option", ["--verbose", "--json"])
def test_a_full_disk_behind_standard_output_is_one_sentence(table: Path, option: str) -> None:
    with FULL.open("wb") as full:
        done = run_command("score", table, "--permutations", "20", option, stdout=full.fileno())
    assert done.returncode == 2
    assert done.stderr.decode().strip() == (
        "worldfork: standard output, or a file, can not be read or written (No space left on device)."
    )


@pytest.mark.parametrize("option", ["--verbose", "--markdown"])
def test_what_standard_output_can_not_write_is_spelled_out(table: Path, option: str) -> None:
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"}
    arguments = ("score", table, "--permutations", "20", option)
    done = run_command(*arguments, stdout=subprocess.PIPE, **plain)
    assert (done.returncode, done.stderr.strip()) == (0, b"")
    assert done.stdout.isascii()
    assert b"\\u2013" in done.stdout
    if option == "--markdown":  # a screen's frames are drawn otherwise
        written = run_command(*arguments, stdout=subprocess.PIPE, PYTHONUTF8="1").stdout.decode()
        assert done.stdout.decode("unicode-escape") == written


def test_what_the_system_refuses_is_one_sentence_with_the_files_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["worldfork", "new", str(tmp_path / f"{LONG}.csv")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said == f"worldfork: `{tmp_path / LONG}.csv` can not be read or written (File name too long).\n"
    monkeypatch.setenv("WORLDFORK_TRACEBACK", "1")
    with pytest.raises(OSError, match="File name too long"):
        main()


@pytest.mark.parametrize("verb", ["score", "verify", "report", "export", "run"])
def test_a_name_that_no_file_can_have_is_one_sentence(tmp_path: Path, verb: str) -> None:
    named = tmp_path / LONG
    (tmp_path / "tiny.toml").write_text(AUTHORED)
    arguments = {
        "run": ["run", tmp_path / "tiny.toml", "-o", named],
        "export": ["export", named, "-o", tmp_path / "x.csv"],
    }
    told = refused(*arguments.get(verb, [verb, named]))
    assert told == f"`{named}` can not be looked for (File name too long)."
    assert "can not be looked for" in refused("run", LONG, "-o", tmp_path / "x")


@pytest.mark.parametrize("verb", ["score", "verify", "report", "export"])
def test_a_folder_that_is_no_study_is_told_from_one(tmp_path: Path, verb: str) -> None:
    """Links that lead out of somebody's own folder are no concern of ours."""
    folder = tmp_path / "mine"
    (folder / ".venv").mkdir(parents=True)
    (folder / ".venv" / "python").symlink_to(sys.executable)
    arguments = [verb, folder, *(["-o", tmp_path / "x.csv"] if verb == "export" else [])]
    expected = (
        f"`{folder}` is not a study: that is a folder with a registration.json, as `worldfork run` writes it; "
    )
    assert refused(*arguments) == f"{expected}this one holds `.venv`."
    for name in ("a.txt", "b.txt", "notes.md"):
        (folder / name).write_text("")
    assert refused(*arguments) == f"{expected}this one holds `.venv`, `a.txt`, `b.txt` and 1 more."
    (folder / "forks.csv").write_text("")
    assert refused(*arguments).endswith(f"and 2 more. Name what is in it: {folder / 'forks.csv'}")
    write(folder / "study")
    assert refused(*arguments).endswith(f"and 3 more. Name what is in it: {folder / 'study'}")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refused(verb, empty, *arguments[2:]).endswith("this one holds nothing.")


def test_a_study_whose_registration_leads_out_of_it_is_still_refused(tmp_path: Path) -> None:
    study = write(tmp_path / "study")
    (study.path / "registration.json").rename(tmp_path / "elsewhere.json")
    (study.path / "registration.json").symlink_to(tmp_path / "elsewhere.json")
    assert "is a link that leads out of" in refused("score", study.path)


@pytest.mark.parametrize("option", ["--verbose", "--json"])
def test_a_reader_who_has_read_enough_is_no_error(table: Path, option: str) -> None:
    """As in `worldfork score ... | head`: the pipe is closed before anything is written to it."""
    read, written = os.pipe()
    os.close(read)
    try:
        done = run_command("score", table, "--permutations", "20", option, stdout=written)
    finally:
        os.close(written)
    assert done.stderr.strip() == b""


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_json_and_quiet_are_spelled_and_explained_alike(verb: str) -> None:
    parameters = {each.name: each for each in typer.main.get_command(app).commands[verb].params}  # type: ignore[attr-defined]
    source = inspect.getsource(sys.modules[VERBS[verb].__module__])
    assert "quiet" in parameters or not re.search(r"bars\(|\.status\(", source)
    assert "bars(transient=True)" not in source  # bars that no option silences
    assert ("as_json" in parameters) == (verb not in ("demo", "new"))  # demo runs verbs, new writes a file
    for name, option in (("quiet", options.Quiet), ("as_json", options.AsJson)):
        if name in parameters:
            assert parameters[name].help == option.__metadata__[0].help


def test_the_command_imports_nothing_heavy_before_a_verb_runs() -> None:
    heavy = {"jax", "matplotlib", "mujoco", "numpy", "polars", "pyarrow", "scipy"}
    script = f"import sys, worldfork.cli.main; sys.exit(str(sorted({heavy} & set(sys.modules))))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"
