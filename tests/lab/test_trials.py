"""Updates on trial: kept where they return more than the model before them, and taken back where they do not."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployed import DEPLOYED, TRIED, Interrupted
from jaxtyping import UInt32
from kill_and_resume import REGISTRATION, chained
from tiny import forge
from typer.testing import CliRunner

import worldfork as wf
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Agent, Arrays, Fit, Window
from worldfork.lab.agents.linear_quadratic import LinearQuadratic
from worldfork.lab.closed_loop import segment
from worldfork.lab.closed_loop.state import Models, State
from worldfork.lab.environments.closed_form import expected_return
from worldfork.lab.environments.linear_quadratic import Matrices
from worldfork.lab.mechanisms.base import Mechanism, Origin, Update, last, updated
from worldfork.lab.run import run
from worldfork.ledger.closed_loop import DeploymentRow
from worldfork.ledger.store import Study
from worldfork.ledger.verify import root, verify
from worldfork.registration import parse


class Told(Mechanism):
    """An update to the world as it is at drift level 1, with the motor's force times `force`."""

    force: float = 1.0

    def update(
        self,
        agent: Agent,
        parameters: Arrays,
        *,
        optimiser: Arrays,
        origin: Origin,
        window: Window,
        batch_keys: UInt32[np.ndarray, "P 2"],
    ) -> Update:
        assert isinstance(agent, LinearQuadratic)
        seen = last(window, self.window)
        told = model(agent.matrices, force=self.force)
        given = {name: np.broadcast_to(told[name], np.shape(array)).copy() for name, array in parameters.items()}
        moved = {name: array + 1.0 for name, array in optimiser.items()}
        losses = agent.loss(parameters, seen), agent.loss(given, seen)
        return updated(parameters, Fit(given, moved, *losses, np.zeros(len(seen.size))), seen, steps=0)


def model(matrices: Matrices, *, force: float, level: float = 1.0) -> dict[str, np.ndarray]:
    return {"A": (matrices.transition + level * matrices.slope)[None], "B": force * matrices.control[None]}


# From the second episode on the drift is at its end.
KNOWN = (
    REGISTRATION.replace('name = "killed"', 'name = "tried"')
    .replace("checkpoints = [0]", "checkpoints = [0, 1]")
    .replace('directions = ["toward", "away"]', 'directions = ["away"]')
    .replace("decision_points = 4", "decision_points = 6")
    .replace("drift_period = 100", "drift_period = 50")
    .replace("drift_scale = 2.0", "drift_scale = 8.0")
    + f"""
[[arms]]
name = "helps"
mechanism = {{name = "{__name__}:Told"}}

[[arms]]
name = "hurts"
mechanism = {{name = "{__name__}:Told", settings = {{force = -1.0}}}}

[deployment]
arm = "helps"

[deployment.policies.late]
trigger = "periodic"
settings = {{period = 3}}
arm = "hurts"
trial = 2
"""
    + "".join(
        f"""
[deployment.policies.{arm}-{trial}]
trigger = "periodic"
settings = {{period = 2}}
arm = "{arm}"
trial = {trial}
"""
        for arm in ("helps", "hurts")
        for trial in (0, 1, 2)
    )
)


def write(folder: Path, text: str) -> Path:
    path = folder / "registration.toml"
    path.write_text(text)
    return path


def cells_of(study: Study, policy: str) -> list[list[DeploymentRow]]:
    """Every deployment of a policy, by checkpoint."""
    found = [folder.rows() for folder in study.deployments() if folder.policy == policy]
    assert len(found) == 2
    return found


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("tried")
    return run(write(folder, TRIED), folder / "study")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("known")
    return run(write(folder, KNOWN), folder / "study")


def test_the_closed_form_says_which_update_helps_and_which_hurts() -> None:
    matrices = Matrices.pendulum(8.0)
    agent = LinearQuadratic(matrices)
    helped, before, hurt = (
        expected_return(matrices, agent.gain(model(matrices, force=force, level=level)), levels=np.ones(50))
        for force, level in ((1.0, 1.0), (1.0, 0.0), (-1.0, 1.0))
    )
    assert helped / 2 > before > 1000 * hurt  # returns are negative


@pytest.mark.parametrize("trial", [1, 2])
def test_an_update_that_hurts_is_taken_back_with_its_optimiser(known: Study, trial: int) -> None:
    for rows, never in zip(cells_of(known, f"hurts-{trial}"), cells_of(known, "never"), strict=True):
        assert [row.trial.kept for row in rows if row.trial and row.trial.kept is not None] == [False] * 2
        # The trial of two episodes ends where the trigger fires again.
        in_force = {1: (2, 4, 6), 2: (2, 3, 4, 5, 6)}[trial]
        assert [row.k for row in rows if row.state != never[0].state] == list(in_force)
        assert [row.k for row in rows if row.fired] == [2, 4, 6]
        # Every update begins at the checkpoint's optimiser again, and so comes out the same.
        assert rows[1].state == rows[3].state == rows[5].state
        for row, frozen in zip(rows, never, strict=True):
            assert row.trial is not None or row.episode_return == frozen.episode_return


@pytest.mark.parametrize("trial", [1, 2])
def test_an_update_that_helps_is_kept(known: Study, trial: int) -> None:
    for rows, plain_rows in zip(cells_of(known, f"helps-{trial}"), cells_of(known, "helps-0"), strict=True):
        first = next(row for row in rows if row.trial and row.trial.kept is not None)
        assert first.trial is not None
        assert (first.k, first.trial.kept) == (2 + trial, True)
        for row, other in zip(rows[: first.k - 1], plain_rows, strict=False):
            assert (row.state, row.episode_return, row.stream) == (other.state, other.episode_return, other.stream)


def test_an_update_that_returns_as_much_is_not_kept(known: Study) -> None:
    """The second update changes the optimiser alone, so that both play the same episode. It fires while another
    policy's update is on trial."""
    assert any(row.trial and row.trial.kept is None for row in cells_of(known, "late")[0] if row.k == 4)
    for rows in cells_of(known, "helps-1"):
        assert [row.fired for row in rows] == [False, True] * 3
        again = rows[4].trial
        assert again is not None
        assert again.incumbent_return == rows[4].episode_return
        assert again.kept is False
        assert rows[3].state != rows[4].state == rows[2].state


def test_an_incumbent_returns_what_the_deployment_returns_without_the_update(known: Study, tried: Study) -> None:
    for rows, never in zip(cells_of(known, "hurts-1"), cells_of(known, "never"), strict=True):
        for row, frozen in zip(rows, never, strict=True):  # every update is taken back
            assert row.draws == frozen.draws
            assert (row.trial is not None) == (row.k in (3, 5))
            assert row.trial is None or row.trial.incumbent_return == frozen.episode_return
    for policy, trial in (("try", 1), ("try-two", 2)):
        for rows, never in zip(cells_of(tried, policy), cells_of(tried, "never"), strict=True):
            for row, frozen in zip(rows[1 : 1 + trial], never[1 : 1 + trial], strict=True):
                assert row.trial is not None
                assert row.trial.incumbent_return == frozen.episode_return != row.episode_return


def test_the_trigger_is_fed_during_a_trial_and_its_alarms_are_not_acted_on(tried: Study) -> None:
    for rows in cells_of(tried, "try"):
        assert [row.fired for row in rows] == [True] * 4
        assert [row.trial is not None for row in rows] == [False, True, True, True]
    for rows in cells_of(tried, "try-two"):
        assert [row.fired for row in rows] == [True, False, True, False]
        assert [row.trial and row.trial.kept is not None for row in rows] == [None, False, True, False]
        assert [row.gradient_steps for row in rows] == [10, 0, 10, 0]


def test_a_batch_that_is_filled_up_tries_the_same_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that needs full batches gets them; the sets that fill one up are never on trial."""
    text = TRIED.replace("checkpoints = [0, 1]", "checkpoints = [0, 1, 2]")
    alone = run(write(tmp_path, text), tmp_path / "alone")
    monkeypatch.setattr(LinearQuadratic, "shape_sensitive", True)
    text = text.replace("cells_per_batch = 1", "cells_per_batch = 2")
    with pytest.raises(KeyboardInterrupt):
        run(write(tmp_path, text), tmp_path / "filled", executor=Interrupted(5))
    filled = run(write(tmp_path, text), tmp_path / "filled")
    assert verify(filled.path).problems == ()
    for folder in alone.deployments():
        again = filled.deployment(folder.policy, folder.id)
        assert again.configuration["block"]["tried"] == ["try", "try-two"]
        for row, other in zip(again.rows(), folder.rows(), strict=True):
            assert {**row.payload(), "prev": ""} == {**other.payload(), "prev": ""}


def test_policies_without_trials_do_not_notice_those_that_have_one(tmp_path: Path, tried: Study) -> None:
    alone = run(write(tmp_path, DEPLOYED), tmp_path / "study")
    for folder in alone.deployments():
        beside = tried.deployment(folder.policy, folder.id).rows()
        assert [{**row.payload(), "prev": ""} for row in beside] == [
            {**row.payload(), "prev": ""} for row in folder.rows()
        ]
        assert b'"trial"' not in (folder.path / folder.lines).read_bytes()


def test_a_deployment_without_trials_is_what_it_was(tried: Study) -> None:
    golden = json.loads((Path(__file__).parents[1] / "golden" / "deployments.json").read_text())
    assert parse(DEPLOYED).digest == golden["registration"]
    assert parse(DEPLOYED.replace("period = 2}", "period = 2}\ntrial = 0")).digest == golden["registration"]
    for place, rows in golden["rows"].items():
        policy, cell = place.split("/")
        for row, known_row in zip(tried.deployment(policy, cell).rows(), rows, strict=True):
            assert sorted(row.payload()) == golden["fields"]
            assert row.draws == known_row["draws"]
            assert row.fired == known_row["fired"]
            assert row.episode_return == pytest.approx(known_row["episode_return"], rel=1e-9)
            assert row.evaluation == (known_row["evaluation"] and pytest.approx(known_row["evaluation"], rel=1e-9))


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (DEPLOYED, {1: [5], 2: [5], 3: [5], 4: [5]}),
        # Five of nine policies try their updates. The first fire is at 2, the last one whose trial begins at 4.
        (KNOWN, {1: [9], 2: [9], 3: [9, 5], 4: [9, 5], 5: [9, 5], 6: [9, 5]}),
        (KNOWN.replace("trial = 2", "trial = 1"), {1: [9], 2: [9], 3: [9, 5], 4: [9, 5], 5: [9, 5], 6: [9]}),
    ],
    ids=["without", "with", "with-pauses"],
)
def test_incumbents_play_together_and_only_while_a_trial_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, calls: dict[int, list[int]]
) -> None:
    played: dict[int, list[int]] = {}
    real = segment._next_episode

    def counted(shape: Any, cells: list[Any], parameters: Any, **more: Any) -> Any:
        played.setdefault(more["k"] + 1, []).append(len(cells))
        return real(shape, cells, parameters, **more)

    monkeypatch.setattr(segment, "_next_episode", counted)
    run(write(tmp_path, text.replace("checkpoints = [0, 1]", "checkpoints = [0]")), tmp_path / "study")
    assert played == calls


@pytest.mark.parametrize("segments", [3, 5])
def test_a_run_that_is_stopped_during_a_trial_goes_on_from_its_rows(
    tmp_path: Path, tried: Study, segments: int
) -> None:
    path, folder = write(tmp_path, TRIED), tmp_path / "study"
    with pytest.raises(KeyboardInterrupt):
        run(path, folder, executor=Interrupted(segments))
    ended = [rows[-1] for rows in (found.rows() for found in Study(folder).deployments()) if rows]
    assert any(row.policy == "try-two" and (row.fired or row.trial.kept is None) for row in ended if row.k < 4)
    run(path, folder)
    assert chained(folder) == chained(tried.path)
    assert root(Study(folder)) == root(tried)


@pytest.mark.parametrize("policy", ["hurts-1", "helps-2"])
def test_a_run_whose_updates_were_taken_back_goes_on_from_its_rows(
    tmp_path: Path, known: Study, policy: str
) -> None:
    """Cut after the fifth segment: every deployment has had a trial that was decided by then."""
    path = write(tmp_path, KNOWN)
    with pytest.raises(KeyboardInterrupt):
        run(path, tmp_path / "study", executor=Interrupted(5))
    assert any(row.trial for row in cells_of(Study(tmp_path / "study"), policy)[0])
    run(path, tmp_path / "study")
    assert chained(tmp_path / "study") == chained(known.path)


@pytest.mark.parametrize(("policy", "k"), [("try", 4), ("try-two", 3), ("try-two", 4)])
def test_an_episode_of_a_trial_is_replayed_bit_for_bit(tried: Study, policy: str, k: int) -> None:
    folder = next(folder for folder in tried.deployments() if folder.policy == policy)
    shown = wf.replay(tried.path, folder.id, policy=policy, k=k)
    assert shown.exact
    assert shown.branches[policy].returns[-1] == folder.rows()[k - 1].episode_return


def test_incumbents_leave_the_process_as_numpy_arrays() -> None:
    jnp = pytest.importorskip("jax.numpy")
    held = Models({"w": jnp.ones((1, 3))}, {"m": jnp.zeros((1, 1))}, ("a",))
    state = State(3, Models({"w": jnp.ones((2, 3))}, {}, ("a", "b")), (), (0, 0), held, {0: ()})
    again = pickle.loads(pickle.dumps(state))
    assert type(again.incumbents.parameters["w"]) is type(again.models.parameters["w"]) is np.ndarray
    assert type(again.incumbents.optimiser["m"]) is np.ndarray
    assert again.under_trial == {0: ()}


def test_studies_with_trials_verify(tried: Study, known: Study) -> None:
    for study in (tried, known):
        verdict = verify(study.path)
        assert verdict.problems == ()
        assert verdict.complete


def fired(row: dict[str, Any]) -> None:
    fit = {
        "grad_norm": 0.0,
        "loss_after": 0.0,
        "loss_before": 0.0,
        "non_finite": 0,
        "param_shift": 0.0,
        "window": 1,
    }
    row.update(fired=True, fit=fit)


@pytest.mark.parametrize(
    ("policy", "k", "change", "told"),
    [
        (
            "never",
            2,
            lambda row: row.update(trial={"incumbent_return": -1.0, "kept": None}),
            "it has the return of an incumbent, and no update is on trial.",
        ),
        (
            "try-two",
            2,
            lambda row: row.pop("trial"),
            "an update is on trial, and what its incumbent returned is missing.",
        ),
        (
            "try-two",
            3,
            lambda row: row["trial"].update(kept=not row["trial"]["kept"]),
            "by the returns of the trial.",
        ),
        (
            "try-two",
            3,
            lambda row: row["trial"].update(incumbent_return=row["trial"]["incumbent_return"] + 100.0),
            "`kept` is True, and False by the returns of the trial.",
        ),
        ("try-two", 3, lambda row: row["trial"].update(kept=None), "`kept` is None, and "),
        ("try-two", 2, lambda row: row["trial"].update(kept=True), "`kept` is True, and None by "),
        ("try-two", 2, fired, "an update fired while another one was on trial."),
        ("hurts-1", 3, lambda row: row.update(state="0" * 64), "is not that of the model which"),
        ("hurts-1", 5, lambda row: row["trial"].update(kept=True), "`kept` is True, and False by "),
        ("never", 3, lambda row: row.update(state="0" * 64), "is not that of the model which"),
        ("try", 2, lambda row: row["trial"].update(returned=1.0), "trial.returned: not a known setting"),
    ],
)
def test_a_trial_that_contradicts_its_rows_is_found(
    tmp_path: Path,
    tried: Study,
    known: Study,
    policy: str,
    k: int,
    change: Callable[[dict[str, Any]], object],
    told: str,
) -> None:
    study = known if policy == "hurts-1" else tried
    shutil.copytree(study.path, tmp_path / "copy")
    folder = next(folder for folder in Study(tmp_path / "copy").deployments() if folder.policy == policy)
    forge(folder.path / folder.lines, lambda row: change(row) if row["k"] == k else None)
    (problem, *_) = verify(tmp_path / "copy").problems
    assert told in problem
    assert policy in problem


def test_rows_that_say_another_outcome_are_not_carried_on(tmp_path: Path, known: Study) -> None:
    path = write(tmp_path, KNOWN)
    with pytest.raises(KeyboardInterrupt):
        run(path, tmp_path / "study", executor=Interrupted(4))
    folder = next(folder for folder in Study(tmp_path / "study").deployments() if folder.policy == "hurts-1")
    forge(folder.path / folder.lines, lambda row: row.pop("trial", None) if row["k"] == 3 else None)
    with pytest.raises(WorldforkError, match="decision 3 does not come out again as its row says"):
        run(path, tmp_path / "study")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("trial = 2", "trial = 4"), "expected 3 or less"),
        (("trial = 2", "trial = -1"), "expected 0 or more"),
        (("trial = 2", "trial = true"), "expected a whole number"),
        (('trigger = "always"\ntrial = 1', 'trigger = "never"\ntrial = 1'), '"never" does not'),
        (("mechanism = {steps = 10}", 'mechanism = {name = "none"}'), "there is no update to try"),
        (
            ("decision_points = 4", "decision_points = 2"),
            "begins after the first one, and the deployment has 2 episodes: no trial would end",
        ),
    ],
)
def test_a_trial_that_could_not_be_is_not_registered(change: tuple[str, str], said: str) -> None:
    assert change[0] in TRIED
    with pytest.raises(WorldforkError, match=said):
        parse(TRIED.replace("evaluate_at = [2, 4]", "evaluate_at = [2]").replace(*change))


def test_check_says_what_trials_cost(tried: Study) -> None:
    done = CliRunner().invoke(app, ["check", str(tried.path / "registration.toml"), "--no-step"])
    (line,) = [line for line in done.output.splitlines() if line.startswith("trial")]
    assert line == (
        "trial linear_quadratic: `try` tries each update for 1 episode, `try-two` tries each update for 2 "
        "episodes; an episode of a trial is simulated twice: at most 12 episodes more"
    )
