"""`replay` and `evaluate --video` on cartpole: the ledger's returns bit for bit, and files that play."""

import json
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from kill_and_resume import REGISTRATION
from PIL import Image
from rendered import need_renderer, run
from typer.testing import CliRunner

import worldfork as wf
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab import replay as again
from worldfork.lab.environments.suite import SuiteEnvironment
from worldfork.lab.forks.checkpoints import context_of
from worldfork.lab.run import run as run_study
from worldfork.ledger.publish import publish
from worldfork.ledger.store import Study
from worldfork.registration.library import BUNDLED

SMALL = """
schema = "worldfork.registration/1"
name = "small"
[grid]
tasks = ["cartpole-swingup"]
checkpoints = [0]
directions = ["toward", "away"]
[stream]
decision_points = 2
drift_period = 160
[evaluation]
episodes = 2
[mechanism]
steps = 2
[execution]
forks_per_block = 3
streams_per_batch = 2
halves = 2
[tasks.cartpole-swingup]
agent = "rssm_cem"
checkpoints = "bundled"
drift_scale = 1.5
[tasks.cartpole-swingup.settings]
size = "tiny"
candidates = 8
horizon = 2
iterations = 1
elites = 2
sequences = 2
length = 8
"""


@pytest.fixture(scope="module", autouse=True)
def short_episodes() -> Iterator[None]:
    """Of twenty steps: what is written and replayed is the same, a twelfth of it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SuiteEnvironment, "episode_steps", 20)
        yield


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory, short_episodes: None) -> Study:
    folder = tmp_path_factory.mktemp("filmed")
    (folder / "small.toml").write_text(SMALL)
    return run_study(folder / "small.toml", folder / "study")


# The third fork of a full block, and the only one of a padded block.
@pytest.mark.parametrize("k", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_replayed_returns_are_the_ledgers_bit_for_bit(ledger: Study, k: int) -> None:
    cell = "small-cartpole-swingup-c0-away-s0"
    context = context_of(ledger)
    shown = again.replay_pair(ledger, context, again.find_pair(ledger, cell, k=k, episode=2))
    assert shown.whole_block  # this agent feels its batch's shape
    assert shown.differences == ()
    row = ledger.cell(cell).rows()[k - 1]
    assert (shown.update.returns[-1], shown.hold.returns[-1]) == (row.update[1], row.hold[1])
    assert shown.exact
    assert row.update[1] != row.hold[1]
    assert (shown.levels == row.level).all()


@pytest.mark.nightly
@pytest.mark.parametrize(("ending", "frames"), [("gif", 11), ("mp4", 21)])
def test_the_verb_writes_a_video_that_plays(
    ledger: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, frames: int
) -> None:
    need_renderer()
    # In this process, which has compiled what the ledger was made with; no other test of it opens a context.
    monkeypatch.delenv("MUJOCO_GL")
    path, cell = tmp_path / f"pair.{ending}", "small-cartpole-swingup-c0-toward-s0"
    options = ["--cell", cell, "--k", "2", "--episode", "2", "-o", str(path)]
    done = CliRunner().invoke(app, ["replay", str(ledger.path), *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    row = ledger.cell(cell).rows()[1]
    assert f"UPDATE  returned {row.update[1]!r}, as in the ledger, bit for bit" in done.stdout
    assert f"HOLD  returned {row.hold[1]!r}, as in the ledger, bit for bit" in done.stdout
    assert path.stat().st_size < 600_000
    if ending == "gif":
        with Image.open(path) as gif:
            assert (gif.n_frames, gif.size) == (frames, (640, 376))
    else:
        with av.open(str(path)) as container:
            sizes = [(frame.width, frame.height) for frame in container.decode(video=0)]
        assert sizes == [(640, 376)] * frames


@pytest.mark.nightly
def test_an_evaluation_can_be_watched(tmp_path: Path) -> None:
    need_renderer()
    path = tmp_path / "first.gif"
    search = [
        "--set",
        "candidates=16",
        "--set",
        "horizon=1",
        "--set",
        "iterations=1",
        "--episodes",
        "2",
        "--threads",
        "1",
    ]
    names = [str(BUNDLED / f"cartpole-swingup-{index}.safetensors") for index in (0, 1)]
    done = run("-m", "worldfork.cli.main", "evaluate", *names, *search, "--json", "--video", str(path))
    assert done.returncode == 0, done.stderr
    assert [len(returns) for returns in json.loads(done.stdout)["returns"].values()] == [2, 2]
    with Image.open(path) as gif:
        assert (gif.n_frames, gif.size) == (126, (320, 376))


def test_what_can_not_be_shown_is_said_first(ledger: Study, tmp_path: Path) -> None:
    def fails(folder: Path, *options: str) -> str:
        with pytest.raises(WorldforkError) as said:
            CliRunner().invoke(app, ["replay", str(folder), *options], catch_exceptions=False)
        return str(said.value)

    cell = ["--cell", "small-cartpole-swingup-c0-away-s0"]
    assert "small-cartpole-swingup-c0-toward-s0" in fails(ledger.path, "--cell", "cartpole", "--k", "1")
    assert "1 to 2" in fails(ledger.path, *cell, "--k", "3")
    assert "1 to 2" in fails(ledger.path, *cell, "--k", "1", "--episode", "3")
    assert ".mp4 or .gif" in fails(ledger.path, *cell, "--k", "1", "-o", str(tmp_path / "pair.webm"))
    assert "switches rendering off" in fails(ledger.path, *cell, "--k", "1", "-o", str(tmp_path / "pair.gif"))
    publish(ledger, tmp_path / "published.tar.xz")
    assert "a published copy, without the models" in fails(tmp_path / "published", *cell, "--k", "1")
    (tmp_path / "killed.toml").write_text(REGISTRATION)
    run_study(tmp_path / "killed.toml", tmp_path / "study")
    cell = ["--cell", "few-linear_quadratic-c0-away-s0"]
    assert "linear_quadratic has no picture" in fails(
        tmp_path / "study", *cell, "--k", "1", "-o", str(tmp_path / "a.gif")
    )


def test_help_shows_an_example() -> None:
    shown = CliRunner().invoke(app, ["replay", "--help"])
    assert "Example: worldfork replay" in " ".join(shown.output.split())


def test_a_fork_is_named_whole_or_not_at_all(tmp_path: Path) -> None:
    for options, words in ((["--k", "2"], "name it with --cell"), (["--cell", "c"], "Which decision point of c")):
        with pytest.raises(WorldforkError, match=words):
            CliRunner().invoke(app, ["replay", str(tmp_path), *options], catch_exceptions=False)


def test_what_was_replayed_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = np.zeros((3, 1))
    update, hold = (again.Branch(moments, np.array([0.0, 1.0, last]), 2.5) for last in (2.5, 4.0))
    shown = again.Replay({"update": update, "hold": hold}, levels=moments[:, 0], whole_block=False, differences=())
    monkeypatch.setattr(wf, "replay", lambda *arguments, **settings: shown)
    done = CliRunner().invoke(app, ["replay", str(tmp_path), "--cell", "c", "--k", "2", "--json"])
    assert json.loads(done.stdout) == {
        "schema": "worldfork.replay/1",
        "videos": [
            {
                "video": "c-k2-e1.mp4",
                "cell": "c",
                "k": 2,
                "episode": 1,
                "policy": None,
                "exact": False,
                "branches": {
                    "UPDATE": {"returned": 2.5, "recorded": 2.5, "exact": True},
                    "HOLD": {"returned": 4.0, "recorded": 2.5, "exact": False},
                },
            }
        ],
    }
