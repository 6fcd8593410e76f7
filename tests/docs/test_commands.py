"""Every command that the documentation and the verbs' help print works, or would where it takes an accelerator.

A command that a core does in a second or two is run. Of the others the verb, the options and their values are
parsed, and what they name must be there: registrations, recipes, bundled checkpoints, arms, cells; a study or a
checkpoint of the reader's own must have been made by another documented command.
"""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from pages import PAGES, ROOT, Command, commands, examples_in_help
from studies import RECORDED, furnish, stand_in_file
from typer.exceptions import TyperException
from typer.testing import CliRunner

from worldfork.cli.main import VERBS, app
from worldfork.lab.tools.pretraining import read_recipe
from worldfork.ledger.archive import is_archive, locate
from worldfork.registration import cells, read
from worldfork.registration.library import BUNDLED, find

FOUND = [*(command for page in PAGES for command in commands(page)), *examples_in_help()]
MENTIONS = [command for command in FOUND if command.mention]
COMPLETE = [command for command in FOUND if not command.mention]
ALL = typer.main.get_command(app)
PARSERS = ALL.commands

# What a page says in capitals is the reader's to fill in.
FILLED = {
    "REGISTRATION": "linear-quadratic",
    "FILE": "linear-quadratic",
    "study.toml": "linear-quadratic",
    "STUDY": "runs/lq",
    "LEDGER": "runs/lq",
    "TABLE": "forks.csv",
    "FOLDER": "somewhere",
    "RECIPE": "pretrain-demo",
    "CHECKPOINT": "bundled:cartpole-swingup-0",
    "CHECKPOINTS": "bundled:cartpole-swingup-0",
    "CELL": "linear-quadratic-linear_quadratic-c0-away-s0",
    "K": "1",
    "N": "2",
    "REASON": "a reason",
    "DIGEST": "0" * 64,
    "ROOT": "0" * 64,
}
# Published ledgers that take seconds to score.
LARGE = re.compile(r"results/(scope|corrected|dose|window|forward|precision|\w+-cartpole)")


def arguments(command: Command) -> list[str]:
    """The words after the verb, with what the reader fills in filled in."""
    words = [re.sub(r"\bNAME\b", "demo", word) for word in command.words[1:]]
    return words if command.words[0] == "new" else [FILLED.get(word, word) for word in words]


def parsed(command: Command) -> dict[str, Any]:
    verb = command.words[0]
    assert verb in PARSERS, f"there is no verb {verb!r}: {', '.join(VERBS)}"
    return dict(PARSERS[verb].make_context(verb, arguments(command)).params)


def well_formed(verb: str) -> list[Command]:
    """The commands of a verb that can be parsed; those that can not fail a test of their own."""
    return [command for command in COMPLETE if command.words[0] == verb and not problem(command)]


def problem(command: Command) -> str:
    try:
        parsed(command)
    except (AssertionError, TyperException) as error:
        return str(error) or type(error).__name__
    return ""


def ran_studies() -> dict[str, str]:
    """The study folders that documented commands write, and the registration of each."""
    made = {"runs/demo": "demo"}  # worldfork demo --cartpole
    for page in PAGES:
        runs = re.findall(r'wf\.run\("([\w-]+)", "(runs/[\w-]+)"', page.read_text(encoding="utf-8"))
        made |= {folder: registration for registration, folder in runs}
    for command in well_formed("run"):
        given = parsed(command)
        made[str(given["output"])] = given["registration"]
    return {study: name for study, name in made.items() if study.startswith("runs/")}


def written() -> set[str]:
    """The files that documented commands write for the reader to edit."""
    return {str(parsed(command)["path"]) for command in well_formed("new")}


def trained() -> dict[str, str]:
    """The folders that documented commands write checkpoints to, and the recipe of each."""
    given = [parsed(command) for command in well_formed("pretrain")]
    return {str(one["output"]): one["recipe"] for one in given}


def known_ledger(ledger: Path | str) -> bool:
    """Whether a reader has it: their own table, a published ledger, or a study that a documented command ran."""
    return (
        str(ledger) in ("forks.csv", RECORDED)
        or (ROOT / ledger / "registration.json").is_file()
        or is_archive(locate(ROOT / ledger))
        or str(ledger) in ran_studies()
    )


def known_checkpoint(name: str) -> bool:
    if name.startswith("bundled:"):
        return (BUNDLED / f"{name.removeprefix('bundled:')}.safetensors").is_file()
    folder, file = str(Path(name).parent), Path(name).name
    return folder in trained() and any(file.startswith(f"{task}-") for task in read_recipe(trained()[folder]).tasks)


@pytest.mark.parametrize("command", MENTIONS, ids=str)
def test_verbs_and_options_that_are_mentioned_exist(command: Command) -> None:
    verbs = [word for word in command.words if not word.startswith("-")]
    parser = PARSERS[verbs[0]] if verbs else ALL
    offered = {name for option in parser.params for name in (*option.opts, *option.secondary_opts)}
    assert set(command.words) - set(verbs) <= offered


@pytest.mark.parametrize("command", COMPLETE, ids=str)
def test_what_a_command_names_is_there(command: Command) -> None:
    assert not problem(command), problem(command)
    verb, given = command.words[0], parsed(command)
    if verb in ("run", "check", "calibrate", "reproduce"):
        assert str(given["registration"]) in written() or read(find(given["registration"])).arms
    if verb == "pretrain":
        assert read_recipe(given["recipe"]).tasks
    if verb in ("evaluate", "calibrate-drift"):
        assert all(known_checkpoint(name) for name in given["checkpoints"]), given["checkpoints"]
    for name in ("ledger", "study", "like", "replication"):
        assert given.get(name) is None or known_ledger(given[name]), f"nobody has {given[name]}"
    assert all(known_ledger(ledger) for ledger in given.get("ledgers") or ()), f"nobody has {given['ledgers']}"
    if verb == "replay" and given["cell"] is not None:
        registered = read(find(ran_studies()[str(given["study"])]))
        cell = next(cell for cell in cells(registered) if cell.id == given["cell"])
        assert given["k"] <= registered.arm(cell.arm).stream.decision_points
        assert given["episode"] <= registered.arm(cell.arm).evaluation.episodes


def runs_in_a_moment(command: Command) -> bool:
    verb, given = command.words[0], parsed(command)
    if given.get("executor", "local") != "local":
        return False  # a cluster takes half a minute to begin
    if verb in ("run", "check"):
        return str(given["registration"]).startswith("linear-quadratic")
    return verb in ("new", "list", "score", "verify", "export", "calibrate") or (
        verb == "report" and not given["live"]
    )


def shortened(command: Command, folder: Path) -> list[str]:
    """The command at a size of no account, with what it writes in a folder of its own."""
    verb, words, given = command.words[0], arguments(command), parsed(command)
    if verb in ("run", "check"):
        words[words.index(given["registration"])] = str(stand_in_file(given["registration"], folder))
    if verb == "calibrate" and not given["pinning"]:
        words = [str(stand_in_file(given["registration"], folder)), *words, "--forks", "1", "--episodes", "3"]
    if verb == "new":
        words = [str(folder / given["path"].name)]
    if verb in ("run", "export"):
        words[words.index("-o") + 1] = str(folder / given["output"].name)
    if verb in ("score", "report"):
        words += ["--permutations", "50"]
    return [verb, *words]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    furnish(folder, ran_studies())
    return folder


def shape(command: Command) -> tuple[str, ...]:
    """The verb, its options, and the values of `--tables`: other ledgers and numbers show nothing new."""
    words = command.words
    values = [after for word, after in itertools.pairwise(words) if word == "--tables"]
    return (words[0], *sorted(word for word in words if word.startswith("-")), *values)


def cases() -> list[Any]:
    """Each command once, however many pages print it; by day one of each shape."""
    chosen = {" ".join(c.words): c for c in COMPLETE if not problem(c) and runs_in_a_moment(c)}
    mentioned = {" ".join(c.words): c for c in MENTIONS if c.words == ["calibrate", "--pinning"]}
    listed, seen = [], set()
    for command in (chosen | mentioned).values():
        writes = command.words[0] in ("new", "run")  # what they write differs
        nightly = LARGE.search(command.text) or (shape(command) in seen and not writes)
        seen |= set() if LARGE.search(command.text) else {shape(command)}
        listed.append(pytest.param(command, id=str(command), marks=[pytest.mark.nightly] if nightly else []))
    return listed


@pytest.mark.parametrize("command", cases())
def test_a_command_that_is_quick_runs(
    command: Command, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clone)
    monkeypatch.syspath_prepend(clone)  # files that a page prints
    done = CliRunner().invoke(app, shortened(command, tmp_path))
    expected = 1 if {"DIGEST", "ROOT"} & set(command.words) else 0  # they stand for another root
    assert done.exit_code == expected, f"{done.output}\n{done.exception!r}"


def test_commands_are_found_where_pages_print_them() -> None:
    printed = {" ".join(command.words) for command in COMPLETE}
    assert {"replay runs/demo --cell demo-cartpole-swingup-c2-away-s0 --k 6 --episode 1 -o pair.gif"} <= printed
    assert {"new study.toml", "run linear-quadratic -o runs/lq"} <= printed
    assert len(COMPLETE) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_is_left_out_of_a_command(page: Path) -> None:
    elided = [str(command) for command in commands(page) if "..." in command.words]
    assert not elided, "write the command out: a reader can not type dots"
