"""What a study, a registration or a checkpoint from a stranger can not do. SECURITY.md names these tests."""

import hashlib
import json
import os
import pickle
import re
import shutil
import sys
from pathlib import Path

import pytest
from deployed import DEPLOYED
from kill_and_resume import REGISTRATION
from tiny import contents, forge, rechain
from typer.testing import CliRunner

from worldfork.analysis.read.ledger import open_ledger
from worldfork.analysis.read.stream_answers import stream_answers
from worldfork.analysis.read.triggers import is_reference
from worldfork.analysis.score.deployments import score_deployments
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.run import run
from worldfork.ledger.publish import publish
from worldfork.ledger.row import gain, mean
from worldfork.ledger.store import Study
from worldfork.ledger.verify import verify
from worldfork.registration import Registration, canonical, digest, parse, restore
from worldfork.registration.library import BUNDLED

FEW = Path(__file__).parents[2] / "registrations" / "linear-quadratic.toml"
PLUGIN = "raise SystemExit('the code of a stranger ran')\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study as it was run."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "small.toml").write_text(REGISTRATION)
    run(folder / "small.toml", folder / "study")
    return folder / "study"


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Study:
    shutil.copytree(made, tmp_path / "study")
    return Study(tmp_path / "study")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "thesis.tex"
    path.parent.mkdir()
    path.write_text("a year of work\n")
    return path


def command(*arguments: str | Path) -> int:
    return CliRunner().invoke(app, [str(argument) for argument in arguments]).exit_code


REPORT = ("report", "--permutations", "50")


@pytest.mark.parametrize("name", ["index.html", ".index.html.partial"])
def test_a_page_is_not_written_through_a_link(study: Study, victim: Path, name: str) -> None:
    (study.path / "report").mkdir()
    (study.path / "report" / name).symlink_to(victim)
    assert command(*REPORT, study.path) == 1  # the error that `main` prints
    assert victim.read_text() == "a year of work\n"
    page = victim.with_name("page.html")  # a place of the reader's own: there the link is replaced
    page.symlink_to(victim)
    (study.path / "report" / name).unlink()
    assert command(*REPORT, study.path, "-o", page) == 0
    assert victim.read_text() == "a year of work\n"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not page.is_symlink()


@pytest.mark.parametrize("verb", ["verify", "score", "report", "export", "run", "replay"])
@pytest.mark.parametrize("name", ["registration.toml", "cells/few-linear_quadratic-c0-away-s0/stream.parquet"])
def test_nothing_is_read_through_a_link_that_leads_out(study: Study, victim: Path, verb: str, name: str) -> None:
    """A file of the reader's, read as if it were the study's, could end up on a page that is passed on."""
    (study.path / name).unlink()
    (study.path / name).symlink_to(victim)
    arguments = {
        "run": [FEW, "-o", study.path],
        "export": [study.path, "-o", victim.with_name("x.csv")],
        "replay": [study.path, "--cell", "few-linear_quadratic-c0-away-s0", "--k", "1"],
    }.get(verb, [study.path])
    with pytest.raises(WorldforkError, match=r"is a link that leads out of `.*study`, to `.*thesis\.tex`"):
        CliRunner().invoke(app, [verb, *map(str, arguments)], catch_exceptions=False)
    assert contents(victim.parent) == {"thesis.tex": b"a year of work\n"}


def test_a_study_moved_as_a_whole_is_read_and_so_are_links_within_it(study: Study, tmp_path: Path) -> None:
    (tmp_path / "shortcut").symlink_to(study.path)
    first, second = (study.cell(f"{arm}-linear_quadratic-c0-away-s0").path for arm in ("few", "many"))
    (second / "stream.parquet").unlink()
    (second / "stream.parquet").symlink_to(first / "stream.parquet")
    assert verify(tmp_path / "shortcut").problems == ()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_in_a_study_is_refused_and_not_waited_for(study: Study) -> None:
    rows = study.cells()[0].path / "forks.jsonl"
    rows.unlink()
    os.mkfifo(rows)
    with pytest.raises(WorldforkError, match=r"forks\.jsonl` is neither a file nor a folder"):
        verify(study.path)


@pytest.mark.parametrize("place", ["/dev/zero", "../../elsewhere/thesis.tex", "..", "", "a\\..\\b", "a\0b"])
def test_a_list_of_kept_files_names_no_place_outside(study: Study, place: str) -> None:
    listed = {place: hashlib.sha256(b"a year of work\n").hexdigest()}
    (study.path / "kept.json").write_text(canonical({"digest": digest(listed), "files": listed}) + "\n")
    (problem,) = verify(study.path).problems
    assert "kept.json` is not what worldfork writes: files" in problem
    assert "expected a place inside the study" in problem


def test_what_a_study_names_is_shown_on_a_terminal_and_not_obeyed(study: Study, tmp_path: Path) -> None:
    shutil.copytree(study.cells()[0].path, study.path / "cells" / "\x1b]0;owned\x07\u202e")
    listed = {"\x1b[2J": "0" * 64}
    (study.path / "kept.json").write_text(canonical({"digest": digest(listed), "files": listed}) + "\n")
    done = CliRunner().invoke(app, ["verify", str(study.path)])
    assert done.exit_code == 1
    assert "\\x1b]0;owned\\x07\\u202e is not a cell of the registration" in done.output
    assert "\\x1b[2J is missing" in done.output
    assert not {"\x1b", "\x07", "\u202e"} & set(done.output)
    assert str(WorldforkError("a\x1b[2Jb\n\tc \u00e9")) == "a\\x1b[2Jb\n\tc \u00e9"


READING = [
    ["score"],
    ["score", "-v"],
    ["score", "--markdown"],
    ["export", "-o", "forks.csv"],
    ["report"],
    ["verify"],
]


@pytest.mark.parametrize("verb", READING, ids=" ".join)
@pytest.mark.parametrize("name", ["\x1b[2J", "\x1b]0;owned\x07", "a\nb", "\u202e"])
def test_a_signal_whose_name_a_terminal_would_obey_is_refused(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for cell in study.cells():
        forge(cell.path / "forks.jsonl", lambda row: row["signals"].update({name: 1.0}))
    done = CliRunner().invoke(app, [verb[0], str(study.path), *verb[1:]])
    assert done.exit_code == 1
    said = done.output if done.exception is None or isinstance(done.exception, SystemExit) else str(done.exception)
    assert "line 1: not a fork row" in said
    assert "has characters that can not be shown" in said
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert not (tmp_path / "forks.csv").exists()


def returned(hold: float, update: float) -> dict[str, object]:
    """What a fork of five episodes says that returned the same in each."""
    means = mean((hold,) * 5), mean((update,) * 5)
    return {
        "hold": [hold] * 5,
        "update": [update] * 5,
        "r_hold": means[0],
        "r_update": means[1],
        "delta": gain(*means),
    }


@pytest.mark.parametrize("verb", [["score"], ["report"], ["export", "--values", "-o", "figures.csv"]], ids=" ".join)
@pytest.mark.parametrize(("hold", "update"), [(1.7e308, 1.7e308), (1e308, -1e308), (1e307, 2e307), (-1e151, 0.0)])
def test_returns_that_overflow_verify_and_are_one_sentence_where_figures_are_made(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str], hold: float, update: float
) -> None:
    monkeypatch.chdir(tmp_path)
    for cell in study.cells():
        forge(cell.path / "forks.jsonl", lambda row: row.update(returned(hold, update)))
    assert verify(study.path).problems == ()
    assert command("verify", study.path) == 0
    with pytest.raises(
        WorldforkError, match=rf"fork 1: a return of {re.escape(f'{hold:g}')}; figures are computed of"
    ):
        CliRunner().invoke(app, [verb[0], str(study.path), *verb[1:]], catch_exceptions=False)


def test_the_smallest_returns_are_scored(study: Study) -> None:
    for cell in study.cells():
        forge(cell.path / "forks.jsonl", lambda row: row.update(returned(5e-324, 0.0)))
    assert command("verify", study.path) == 0
    assert command("score", study.path, "--permutations", "50") == 0


@pytest.mark.parametrize("verb", ["score", "report", "verify"])
def test_a_step_that_no_array_holds_is_one_sentence(study: Study, verb: str) -> None:
    for cell in study.cells():
        forge(cell.path / "forks.jsonl", lambda row: row.update(step=2**70))
    done = CliRunner().invoke(app, [verb, str(study.path)])
    said = done.output if isinstance(done.exception, SystemExit) else str(done.exception)
    assert done.exit_code == 1
    assert "line 1: not a fork row" in said


def test_a_deployment_whose_returns_overflow_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "deployed.toml").write_text(DEPLOYED)
    study = run(tmp_path / "deployed.toml", tmp_path / "study")
    for folder in study.deployments():
        forge(folder.path / "episodes.jsonl", lambda row: row.update(episode_return=1e308))
    for verb in ("score", "report"):
        with pytest.raises(WorldforkError, match=r"under `never`, episode 1: a return of 1e\+308; figures are"):
            CliRunner().invoke(app, [verb, str(study.path)], catch_exceptions=False)


def test_a_trained_seed_whose_returns_overflow_is_one_sentence(study: Study) -> None:
    record = {"recipe": "r", "seeds": [{"task": "linear_quadratic", "seed": 0, "gate": 1.0, "index": 0}]}
    record["seeds"][0] |= {"returns": [1e308, 1e308], "digest": "c"}
    (study.path / "pretraining").mkdir()
    (study.path / "pretraining" / "r.json").write_text(json.dumps(record))
    with pytest.raises(WorldforkError, match=r"r\.json` is not what worldfork writes: seeds\.0\.returns\.0"):
        CliRunner().invoke(app, ["score", str(study.path), "--permutations", "50"], catch_exceptions=False)


def test_a_report_folder_that_leads_elsewhere_is_refused(study: Study, victim: Path) -> None:
    (study.path / "report").symlink_to(victim.parent)
    with pytest.raises(WorldforkError, match=r"report` is a link that leads out of `.*study`"):
        CliRunner().invoke(app, [*REPORT, str(study.path)], catch_exceptions=False)
    assert sorted(path.name for path in victim.parent.iterdir()) == ["thesis.tex"]


OF_A_CELL = ("timings.jsonl", "forks.jsonl", "execution.json", "cell.json", "stream.parquet", "window.npz")
FILES = [f"cells/few-linear_quadratic-c0-away-s0/{name}" for name in (*OF_A_CELL, ".cell.json.partial")]


@pytest.mark.parametrize("place", [*FILES, "registration.json", "registration.toml", "amendments.jsonl", ".lock"])
def test_a_run_is_not_carried_on_through_a_link(study: Study, victim: Path, place: str) -> None:
    """Rows are missing, so that everything is written to; the link holds what was there, so that it can be read."""
    for rows in study.path.glob("cells/*/forks.jsonl"):
        rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:1]))
    path = study.path / place
    if path.exists():
        shutil.copyfile(path, victim)
        path.unlink()
    path.symlink_to(victim)
    before = contents(victim.parent)
    command("run", study.path / "registration.toml", "-o", study.path, "--quiet")
    assert contents(victim.parent) == before


@pytest.mark.parametrize("place", ["cells", "sources", "checkpoints", "pretraining"])
def test_a_run_is_not_carried_on_in_a_folder_that_leads_elsewhere(study: Study, victim: Path, place: str) -> None:
    if (study.path / place).exists():
        shutil.copytree(study.path / place, victim.parent, dirs_exist_ok=True)
        shutil.rmtree(study.path / place)
    (study.path / place).symlink_to(victim.parent)
    before = contents(victim.parent)
    command("run", study.path / "registration.toml", "-o", study.path, "--quiet")
    assert contents(victim.parent) == before


def test_a_file_from_outside_is_not_passed_on(study: Study, victim: Path, tmp_path: Path) -> None:
    (study.path / "notes.txt").symlink_to(victim)
    with pytest.raises(WorldforkError, match=r"notes\.txt` is a link that leads out of"):
        publish(study, tmp_path / "published.tar.xz")
    assert not (tmp_path / "published.tar.xz").exists()


def names_outside_code(study: Study) -> None:
    """Make the study one of an agent and a candidate that do not come with worldfork; every digest is computed
    anew."""
    spelled = study.registered().registration
    spelled["scoring"]["triggers"] = ["residual", "stranger_plugin:Trigger"]
    spelled["tasks"]["linear_quadratic"]["agent"] = "stranger_plugin:Agent"
    for cell in study.cells():
        rechain(
            study,
            cell.id,
            lambda stored: (
                stored.update(registration=digest(spelled)),
                stored["task"].update(agent="stranger_plugin:Agent"),
            ),
        )
    stored = {"digest": digest(spelled), "registration": spelled}
    (study.path / "registration.json").write_text(canonical(stored) + "\n")
    text = (study.path / "registration.toml").read_text()
    text = text.replace('agent = "linear_quadratic"', 'agent = "stranger_plugin:Agent"')
    text += '\n[scoring]\ntriggers = ["residual", "stranger_plugin:Trigger"]\n'
    (study.path / "registration.toml").write_text(text)
    (study.path / "kept.json").unlink()


def test_reading_a_study_imports_none_of_the_code_that_it_names(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stranger_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    names_outside_code(study)
    assert verify(study.path).problems == ()
    assert command("verify", study.path) == 0
    shown = CliRunner().invoke(app, ["score", str(study.path), "--permutations", "50"])
    assert shown.exit_code == 0
    said = (
        "Left out: stranger_plugin:Trigger (does not come with worldfork, and is imported only where it is named: "
    )
    assert f"{said}--triggers residual,stranger_plugin:Trigger)." in " ".join(shown.output.split())
    assert command(*REPORT, study.path) == 0
    assert command("export", study.path, "-o", tmp_path / "forks.csv") == 0
    assert command("export", study.path, "--publish", "-o", tmp_path / "published.tar.xz") == 0
    assert "stranger_plugin" not in sys.modules


STRANGE = "stranger_trigger:Trigger"


@pytest.mark.parametrize(
    ("trigger", "settings"),
    [
        (STRANGE, {}),
        ("worldfork.triggers.policy:Policy", {"trigger": STRANGE}),
    ],  # a policy has a trigger of its own
)
def test_neither_scoring_nor_publishing_imports_a_trigger_that_the_study_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trigger: str, settings: dict[str, str]
) -> None:
    (tmp_path / "stranger_trigger.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deployed.toml").write_text(DEPLOYED)
    study = run(tmp_path / "deployed.toml", tmp_path / "study")

    class Renamed(Study):
        """The same study, as if its periodic policy had been of a stranger's trigger."""

        @property
        def registration(self) -> Registration:
            spelled = study.registration.model_dump(mode="json", by_alias=True)
            spelled["deployment"]["policies"]["periodic"] |= {"trigger": trigger, "settings": settings}
            return restore(canonical(spelled))

    searched = list(sys.path)
    (scored,) = score_deployments(Renamed(study.path), open_ledger(study.path).table.arms).values()
    answers = stream_answers(Renamed(study.path))
    assert not is_reference(trigger)
    assert "stranger_trigger" not in sys.modules
    assert sys.path == searched  # it was not even looked for
    assert f"--triggers {trigger}" in str(scored.policies["periodic"])
    assert answers is not None
    assert trigger not in [asked.trigger for asked in answers.triggers]
    assert "does not come with worldfork" not in str(scored.policies["coin"])


def test_running_a_policy_within_a_policy_is_refused_and_imports_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it would import is in the settings of a trigger of ours, where no notice looks."""
    (tmp_path / "stranger_trigger.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    nested = 'trigger = "worldfork.triggers.policy:Policy"\nsettings = { trigger = "stranger_trigger:Trigger" }'
    text = re.sub(r'trigger = "periodic"\n(settings = .*\n)?', nested + "\n", DEPLOYED)
    assert nested in text
    (tmp_path / "deployed.toml").write_text(text)
    with pytest.raises(WorldforkError, match="is a policy, and no trigger of another one"):
        run(tmp_path / "deployed.toml", tmp_path / "study")
    assert "stranger_trigger" not in sys.modules


def test_running_a_registration_says_first_which_outside_code_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stranger_plugin.py").write_text("Agent = print\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "small.toml"
    path.write_text(REGISTRATION.replace('agent = "linear_quadratic"', 'agent = "stranger_plugin:Agent"'))
    heard: list[tuple[str, bool]] = []
    with pytest.raises(WorldforkError):
        run(path, tmp_path / "study", notify=lambda line: heard.append((line, "stranger_plugin" in sys.modules)))
    sys.modules.pop("stranger_plugin")
    line, imported = heard[0]
    assert "code that does not come with worldfork: agent `stranger_plugin:Agent`" in line
    assert not imported
    assert not (tmp_path / "study").exists()


class Harmful:
    """What a pickle can do and a checkpoint can not."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return (os.mkdir, (str(self.path),))


def test_a_checkpoint_is_never_unpickled(tmp_path: Path) -> None:
    content = pickle.dumps(Harmful(tmp_path / "harm"))
    model = tmp_path / "cartpole-swingup-0.safetensors"
    model.write_bytes(content)
    manifest = json.loads((BUNDLED / "cartpole-swingup-0.json").read_text())
    manifest["digest"] = hashlib.sha256(content).hexdigest()
    model.with_suffix(".json").write_text(json.dumps(manifest))
    (tmp_path / "demo.toml").write_text(
        'extends = "demo"\n[tasks.cartpole-swingup]\ncheckpoints = "cartpole-swingup-{checkpoint}.safetensors"\n'
        "[grid]\ncheckpoints = [0]\n"
    )
    with pytest.raises(WorldforkError, match=r"cartpole-swingup-0\.safetensors"):
        run(tmp_path / "demo.toml", tmp_path / "study")
    assert not (tmp_path / "harm").exists()
    assert not (tmp_path / "study").exists()


def test_a_registration_is_data_and_nothing_in_it_is_evaluated() -> None:
    about = "{{ 7 * 7 }} ${HOME} `id` __import__('os')"
    assert parse(REGISTRATION.replace('name = "killed"', f'name = "killed"\nabout = "{about}"')).about == about


@pytest.mark.parametrize(
    "text",
    [
        *("a = " + "[" * 20_000, "a = " + "{b=" * 5_000, "a" + ".a" * 5_000 + " = 1"),
        *(
            "a" + ".a" * 50_000 + " = 1",
            "[a" + ".a" * 50_000 + "]",
        ),  # which Python's parser alone reads for minutes
    ],
    ids=str.__len__,
)
def test_a_registration_that_is_nested_without_end_is_one_sentence(text: str) -> None:
    with pytest.raises(WorldforkError, match="nested too deeply"):
        parse(text)


def test_every_test_that_security_md_names_is_there() -> None:
    root = Path(__file__).parents[2]
    named, path = 0, root
    for reference in re.findall(
        r"`((?:tests/[\w/]+\.py)?::test_\w+)`", (root / "SECURITY.md").read_text(encoding="utf-8")
    ):
        file, _, test = reference.partition("::")
        path = root / file if file else path
        assert f"def {test}(" in path.read_text(encoding="utf-8"), reference
        named += 1
    assert named > 15


MALFORMED = {
    "amendments.jsonl": "{}\n",
    "kept.json": "[]",
    "registration.toml": "\x00",
    "checkpoints/linear_quadratic-0.json": '{"returns": {"gate": "high"}}',
    "pretraining/recipe.json": '{"seeds": 7}',
    "cells/few-linear_quadratic-c0-away-s0/execution.json": "[]",
    "cells/few-linear_quadratic-c0-away-s0/cell.json": "{}",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_records_reach_no_template(study: Study, name: str) -> None:
    (study.path / name).parent.mkdir(exist_ok=True)
    (study.path / name).write_text(MALFORMED[name])
    done = CliRunner().invoke(app, [*REPORT, str(study.path)])
    assert isinstance(done.exception, WorldforkError | None), done.exception
    assert verify(study.path).problems or name.startswith(("checkpoints", "pretraining")) or "execution" in name
