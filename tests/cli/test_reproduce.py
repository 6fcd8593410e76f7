"""From an empty folder to the page by one command: resumable at every point, with and without the lab."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kill_and_resume import REGISTRATION
from typer.testing import CliRunner

import worldfork as wf
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.tools.needed_recipes import needed_recipes
from worldfork.registration import Registration, authored, cells, parse, read
from worldfork.registration.library import find, registrations
from worldfork.registration.reading import only_tasks

SMALL = """
schema = "worldfork.registration/1"
name = "small"
[grid]
tasks = ["cartpole-swingup"]
checkpoints = [0, 1]
directions = ["away"]
[stream]
decision_points = 2
drift_period = 2000
[evaluation]
episodes = 2
[mechanism]
steps = 2
[execution]
forks_per_block = 4
streams_per_batch = 2
[tasks.cartpole-swingup]
agent = "rssm_cem"
checkpoints = "../checkpoints/small/{task}-{checkpoint}.safetensors"
drift_scale = 1.5
[tasks.cartpole-swingup.settings]
size = "tiny"
bins = 9
candidates = 8
horizon = 2
iterations = 1
elites = 2
sequences = 2
length = 6
"""
RECIPE = """
schema = "worldfork.pretraining/1"
name = "pretrain-small"
size = "tiny"
bins = 9
episodes = 2
environments = 2
planned = 1
gradient_steps = 1
sequences = 2
length = 6
starts = 4
imagined = 3
gate_episodes = 1
report_episodes = 1
[collection]
candidates = 8
horizon = 2
iterations = 1
elites = 2
[tasks.cartpole-swingup]
seeds = [0, 1]
wanted = 2
planner = { candidates = 8, horizon = 2, iterations = 1, elites = 2 }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "pretrain-small.toml").write_text(RECIPE)
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path / "small.toml"


def stage_names(folder: Path) -> list[str]:
    return [json.loads(line)["stage"] for line in (folder / "stages.jsonl").read_text().splitlines()]


def invoke(*words: object) -> str:
    done = CliRunner().invoke(app, ["reproduce", *map(str, words), "--quiet"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_finished_study_needs_nothing_of_the_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "killed.toml").write_text(REGISTRATION)
    output = invoke(tmp_path / "killed.toml", "-o", tmp_path / "all")
    assert "16 forks in 4 cells, complete; 0 problems." in output
    assert "sum of the stages" in output
    assert stage_names(tmp_path / "all") == ["run killed", "verify", "score", "page"]
    page, tables = tmp_path / "all" / "index.html", tmp_path / "all" / "tables.md"
    first = tables.read_bytes()
    page.unlink()
    tables.unlink()
    monkeypatch.setattr(wf, "run", lambda *args, **options: pytest.fail("nothing is left to run"))
    invoke(tmp_path / "killed.toml", "-o", tmp_path / "all")
    assert tables.read_bytes() == first
    assert page.stat().st_size > 10_000
    assert stage_names(tmp_path / "all")[4:] == ["verify", "score", "page"]


def test_a_machine_without_the_analysis_stops_after_verify_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "killed.toml").write_text(REGISTRATION)
    words = ["worldfork", "reproduce", str(tmp_path / "killed.toml"), "-o", str(tmp_path / "all"), "--quiet"]
    script = (
        f"import sys; sys.modules['polars'] = None; sys.argv = {words!r}\n"
        "from worldfork.cli.main import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "complete and verified. Its tables and its page need the analysis, and `polars`" in done.stderr
    assert stage_names(tmp_path / "all")[:2] == ["run killed", "verify"]
    assert wf.verify(tmp_path / "all" / "study").complete


def recipes_of(registration: Registration, folder: Path, *, beside: Path) -> list[tuple[Path, Path]]:
    return needed_recipes(registration, folder / "registrations", beside=beside, within=folder)


def test_what_is_pretrained_is_what_the_registration_names(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    ((recipe, trained),) = recipes_of(read(small), folder, beside=small.parent)
    assert (recipe, trained) == (folder / "registrations/pretrain-small.toml", folder / "checkpoints/small")
    assert recipe.read_text() == RECIPE
    cartpole = only_tasks(read(find("corrected")), ["cartpole-swingup"])
    pairs = recipes_of(cartpole, folder, beside=find("corrected").parent)
    assert [recipe.stem for recipe, _ in pairs] == ["pretrain-cartpole"]


NEEDED = {"corrected": ["cartpole", "locomotion"], "demo": [], "linear-quadratic": []}


@pytest.mark.parametrize("name", registrations())
def test_every_registration_that_comes_along_can_be_reproduced(name: str, tmp_path: Path) -> None:
    """Its recipes are found, and train every checkpoint that it names."""
    pairs = recipes_of(read(find(name)), tmp_path, beside=find(name).parent)
    assert all(recipe.is_file() and folder.parent == tmp_path / "checkpoints" for recipe, folder in pairs)
    assert [folder.name for _, folder in pairs] == NEEDED.get(name, [folder.name for _, folder in pairs])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "checkpoints = [0, 1]",
            "checkpoints = [0, 2]",
            "checkpoint 2 of cartpole-swingup; pretrain-small.toml trains 2",
        ),
        ("../checkpoints/small/", "../checkpoints/none/", "no recipe `pretrain-none`"),
        ("../checkpoints/small/", "/elsewhere/", "lies outside the output folder"),
    ],
)
def test_what_no_recipe_gives_is_refused_before_anything_runs(
    small: Path, tmp_path: Path, old: str, new: str, words: str
) -> None:
    small.write_text(SMALL.replace(old, new))
    with pytest.raises(WorldforkError, match=words):
        invoke(small, "-o", tmp_path / "new")
    assert not (tmp_path / "new" / "study").exists()


def test_some_tasks_have_the_cells_and_the_text_that_the_whole_has() -> None:
    whole: Registration = read(find("corrected"))
    part = only_tasks(whole, ["walker-walk"])
    assert cells(part) == tuple(cell for cell in cells(whole) if cell.task == "walker-walk")
    assert part.tasks == {"walker-walk": whole.tasks["walker-walk"]}
    assert {prediction.task for prediction in part.predictions} == {"walker-walk"}
    assert parse(authored(part).text) == part
    assert only_tasks(whole, list(whole.tasks)) is whole
    with pytest.raises(WorldforkError, match="no task 'hopper-hop'; its tasks are cartpole-swingup"):
        only_tasks(whole, ["hopper-hop"])


@pytest.mark.nightly
def test_from_an_empty_folder_to_the_page(small: Path, tmp_path: Path) -> None:
    output = invoke(small, "-o", tmp_path / "new")
    assert "pretrain pretrain-small" in output
    assert (tmp_path / "new/index.html").is_file()
    assert "cartpole-swingup" in (tmp_path / "new/tables.md").read_text()
    assert wf.verify(tmp_path / "new/study").complete
