"""Policies that are followed all the way: on common random numbers, exactly resumable, and blind to the future."""

import copy
import dataclasses
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from deployed import DEPLOYED, Interrupted
from kill_and_resume import chained
from typer.testing import CliRunner
from waiting import PATIENCE

import worldfork as wf
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.closed_loop import state
from worldfork.lab.closed_loop.state import Models, State
from worldfork.lab.run import run
from worldfork.ledger.closed_loop import DeploymentRow, read_log_parts, read_recording_parts, segment_files
from worldfork.ledger.store import Study
from worldfork.ledger.verify import root, verify
from worldfork.randomness import Event, Purpose
from worldfork.registration import cells, parse
from worldfork.triggers import CellKey, Segment, Trigger
from worldfork.triggers.policy import Policy

TWIN = """
[deployment.policies.again]
trigger = "always"
"""
CELL = "few-linear_quadratic-c0-away-s0"


def write(folder: Path, text: str = DEPLOYED) -> Path:
    path = folder / "registration.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployed")
    run(write(folder), folder / "study")
    return folder / "study"


def rows_of(study: Study, policy: str, cell: str = CELL) -> list[DeploymentRow]:
    arm = "many" if policy == "residual" else "few"
    return study.deployment(policy, cell.replace("few", arm)).rows()


def coordinates() -> list[str]:
    return [cell.id for cell in cells(parse(DEPLOYED)) if cell.arm == "few"]


def test_a_deployment_is_complete_and_verifies(reference: Path) -> None:
    verdict = verify(reference)
    assert verdict.problems == ()
    assert verdict.complete
    assert (verdict.episodes, verdict.expected_episodes) == (40, 40)


def test_never_is_the_one_step_stream_bit_for_bit(reference: Path) -> None:
    study = Study(reference)
    for cell in coordinates():
        for read, suffix, frozen in zip(
            (read_log_parts, read_recording_parts),
            (".parquet", ".npz"),
            study.cell(cell).read_stream(),
            strict=True,
        ):
            parts = {
                k: part.columns
                for k, path in segment_files(reference, suffix=suffix)
                for part in read(path)
                if (part.policy, part.cell) == ("never", cell)
            }
            assert frozen.keys() == parts[1].keys()
            for name, values in frozen.items():
                carried = np.concatenate([parts[k][name] for k in sorted(parts)])
                assert values.dtype == carried.dtype
                np.testing.assert_array_equal(values, carried)
        for fork, row in zip(study.cell(cell).rows(), rows_of(study, "never", cell), strict=True):
            assert (fork.signals, fork.level, fork.step) == (row.signals, row.level, row.step)
            if row.evaluation is not None:
                assert row.evaluation == fork.hold
                assert row.evaluation_draws == fork.draws.hold


def test_who_fires_first_at_k_has_the_one_step_update_of_k(reference: Path) -> None:
    """Until its first update a deployment is the frozen stream, and that update is the fork's own."""
    study, met = Study(reference), 0
    for policy, cell in itertools.product(("always", "coin", "periodic", "residual"), coordinates()):
        arm = "many" if policy == "residual" else "few"
        forks, rows = study.cell(cell.replace("few", arm)).rows(), rows_of(study, policy, cell)
        first = next((row for row in rows if row.fired), None)
        if first is not None:
            assert first.fit == forks[first.k - 1].fit
            if first.evaluation is not None:
                assert first.evaluation == forks[first.k - 1].update
                met += 1
    assert met >= 2


def test_policies_meet_the_same_draws_and_stay_equal_until_they_part(reference: Path) -> None:
    study, parted = Study(reference), 0
    policies = ("never", "always", "coin", "periodic")
    for cell, (one, other) in itertools.product(coordinates(), itertools.combinations(policies, 2)):
        same = True
        for mine, theirs in zip(rows_of(study, one, cell), rows_of(study, other, cell), strict=True):
            assert (mine.draws, mine.evaluation_draws) == (theirs.draws, theirs.evaluation_draws)
            if same:
                assert (mine.episode_return, mine.stream, mine.window) == (
                    theirs.episode_return,
                    theirs.stream,
                    theirs.window,
                )
            same = same and mine.fired == theirs.fired
            if same:
                assert (mine.state, mine.fit, mine.evaluation) == (theirs.state, theirs.fit, theirs.evaluation)
            else:
                parted += mine.state != theirs.state
    assert parted > 5


def test_fired_updates_persist_with_their_optimiser(reference: Path) -> None:
    for cell in coordinates():
        rows = rows_of(Study(reference), "always", cell)
        assert len({row.state for row in rows}) == len(rows)
        assert [row.fit.window for row in rows if row.fit] == [50, 100, 100, 100]
        assert [row.gradient_steps for row in rows] == [5] * 4
    held = [row for row in rows_of(Study(reference), "periodic") if not row.fired]
    assert [row.gradient_steps for row in held] == [0, 0]


def test_one_training_serves_policies_that_have_decided_alike(
    tmp_path: Path, reference: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[list[str]] = []
    real = state._alike

    def counted(shape: Any, at: State, fired: list[int]) -> Any:
        alike = real(shape, at, fired)
        groups.extend([shape.batch.sets[index][0] for index in group] for group in alike)
        return alike

    monkeypatch.setattr(state, "_alike", counted)
    text = DEPLOYED.replace("checkpoints = [0, 1]", "checkpoints = [0]")
    study = run(write(tmp_path, text + TWIN), tmp_path / "study")
    assert all(("always" in group) == ("again" in group) for group in groups)
    fired = sum(row.fired for policy in study.deployments() for row in policy.rows())
    assert sum(map(len, groups)) == fired > len(groups)
    for policy in ("always", "again", "periodic", "coin"):
        expected = rows_of(Study(reference), "always" if policy == "again" else policy)
        for row, before in zip(rows_of(study, policy), expected, strict=True):
            assert (row.state, row.fit, row.evaluation) == (before.state, before.fit, before.evaluation)


class OneAtATime:
    """An executor that takes the tasks there are, does them, and never asks for more."""

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        return iter([(index, function(task)) for index, task in enumerate(list(tasks))])


def test_neither_batches_nor_who_computes_them_change_a_digit(tmp_path: Path, reference: Path) -> None:
    text = DEPLOYED.replace("cells_per_batch = 1\n", "").replace("forks_per_block = 3", "forks_per_block = 2")
    run(write(tmp_path, text), tmp_path / "study", executor=OneAtATime())

    def payloads(folder: Path) -> list[dict[str, object]]:
        folders = Study(folder).deployments()
        return [{**row.payload(), "prev": ""} for deployed in folders for row in deployed.rows()]

    assert payloads(tmp_path / "study") == payloads(reference)


@pytest.mark.nightly
def test_two_workers_write_the_same_bytes(tmp_path: Path, reference: Path) -> None:
    run(write(tmp_path), tmp_path / "two", workers=2)
    assert chained(tmp_path / "two") == chained(reference)


def test_an_interrupted_deployment_goes_on_from_its_rows(tmp_path: Path, reference: Path) -> None:
    path, study = write(tmp_path), tmp_path / "study"
    with pytest.raises(KeyboardInterrupt):
        run(path, study, executor=Interrupted(5))
    # A kill while a segment was being written: some of its rows are there, one half, and the rest not at all.
    ends = sorted(study.glob("deployments/*/*/episodes.jsonl"))
    for rows in ends[:3]:
        rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:-1]))
    torn = ends[3].read_bytes()
    ends[3].write_bytes(torn[: len(torn) - 40])
    run(path, study)
    assert chained(study) == chained(reference)
    assert root(Study(study)) == root(Study(reference))


@pytest.mark.nightly
def test_kills_lose_nothing_of_a_deployment() -> None:
    script = Path(__file__).parents[1] / "kill_and_resume.py"
    command = [sys.executable, str(script), "--injected", "40", "--random", "10", "--deployment"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert "40 injected and 10 random kills survived" in done.stdout


def changed(line: str, **fields: object) -> str:
    return json.dumps({**json.loads(line), **fields}, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("damage", ["row", "stream", "window", "policy", "lost"])
def test_damage_to_a_deployment_is_found(tmp_path: Path, reference: Path, damage: str) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(reference, copy)
    folder = copy / "deployments" / "always" / CELL
    rows = folder / "episodes.jsonl"
    if damage == "row":
        lines = rows.read_text().splitlines()
        rows.write_text("\n".join([lines[0], changed(lines[1], episode_return=0.0), *lines[2:]]) + "\n")
    elif damage == "lost":
        rows.write_text("\n".join(rows.read_text().splitlines()[1:]) + "\n")
    elif damage == "policy":
        os.replace(copy / "deployments" / "always", copy / "deployments" / "coin-2")
    else:
        name = {"stream": "{}-k2.parquet", "window": "{}-k2.npz"}[damage].format(CELL)
        segments = copy / "deployments" / "segments"
        shutil.copy(segments / name.replace("k2", "k3"), segments / name)
    assert verify(copy).problems
    assert not verify(reference).problems


def test_a_policy_that_met_other_draws_than_never_does_not_verify(tmp_path: Path, reference: Path) -> None:
    """Well chained, and no pair: a difference to `never` would be one of luck."""
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(reference, copy)
    folder = Study(copy).deployment("periodic", CELL)
    rows = folder.rows()
    (folder.path / folder.lines).unlink()
    folder.open(folder.plan(folder.configuration))
    folder.append([rows[0], rows[1].model_copy(update={"draws": "0" * 64}), *rows[2:]])
    (problem,) = verify(copy).problems
    assert f"{CELL} under `periodic`, episode 2: it received other random draws than `" in problem


def test_a_deployment_under_another_policy_is_refused(tmp_path: Path, reference: Path) -> None:
    import shutil

    shutil.copytree(reference, tmp_path / "copy")
    before = chained(tmp_path / "copy")
    text = DEPLOYED.replace("threshold = 0.007", "threshold = 0.008")
    with pytest.raises(WorldforkError, match="another configuration"):
        run(write(tmp_path, text), tmp_path / "copy", amend="a better threshold")
    assert chained(tmp_path / "copy") == before


@pytest.mark.parametrize(("policy", "k"), [("never", 3), ("always", 4), ("residual", 4), ("periodic", 1)])
def test_an_episode_is_replayed_from_the_ledger_bit_for_bit(reference: Path, policy: str, k: int) -> None:
    cell = CELL.replace("few", "many") if policy == "residual" else CELL
    shown = wf.replay(reference, cell, policy=policy, k=k)
    assert shown.exact
    assert shown.branches[policy].returns[-1] == rows_of(Study(reference), policy)[k - 1].episode_return
    with pytest.raises(WorldforkError, match="its policies are"):
        wf.replay(reference, cell, policy="sometimes", k=k)


def test_the_verbs_say_what_was_followed(tmp_path: Path, reference: Path) -> None:
    def invoke(*arguments: str) -> str:
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    assert "40 of 40 episodes of deployments, complete" in invoke("verify", str(reference))
    said = invoke("check", str(reference / "registration.toml"), "--no-step")
    assert "follow linear_quadratic: 5 policies x 2 cells x 4 segments, 5 parameter sets at a time" in said
    assert "at most 32 updates" in said
    assert "40 episodes in" in invoke("export", str(reference), "--deployments", "-o", str(tmp_path / "e.csv"))
    invoke("export", str(reference), "--publish", "-o", str(tmp_path / "published.tar.xz"))
    published = Study(tmp_path / "published")
    assert not list(published.path.glob("deployments/segments/*.npz"))
    assert verify(published.origin).problems == ()
    assert root(published) == root(Study(reference))


class Peeking(Trigger):
    """Wants what it has not been shown: there is nowhere to get it from."""

    needs: ClassVar = ("error",)

    def begin(self, cell: CellKey, *, event: Any) -> list[Segment]:
        return []

    def decide(self, memory: list[Segment], segment: Segment) -> tuple[list[Segment], bool]:
        memory = [*memory, segment]
        assert [seen.k for seen in memory] == list(range(1, segment.k + 1))
        assert all(len(column) == 50 for column in segment.steps.values())
        assert all(column.base is None and not column.flags.writeable for column in segment.steps.values())
        assert {field.name for field in dataclasses.fields(segment)} == {"k", "level", "steps", "signals"}
        return memory, segment.k == 2


def test_a_policy_is_fed_segment_by_segment(tmp_path: Path) -> None:
    text = DEPLOYED.replace('trigger = "periodic"\nsettings = {period = 2}', f'trigger = "{__name__}:Peeking"')
    text = text.replace("checkpoints = [0, 1]", "checkpoints = [0]").replace("evaluate_at = [2, 4]", "")
    study = run(write(tmp_path, text), tmp_path / "study")
    assert [row.fired for row in rows_of(study, "periodic")] == [False, True, False, False]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('trigger = "residual"\nthreshold = 0.007', 'trigger = "residual"'), "needs a threshold"),
        (('arm = "many"', 'arm = "none"'), "`none`"),
        (("evaluate_at = [2, 4]", "evaluate_at = [5]"), "evaluate_at"),
        (("rate = 0.5", ""), "rate"),
        (("[deployment.policies.coin]", "[deployment.policies.never]"), "part of every deployment"),
        (
            ("mechanism = {steps = 10}", "mechanism = {steps = 10}\nprecision = 'float64'"),
            "more than its mechanism",
        ),
        (("evaluate_at = [2, 4]", 'evaluate_at = [2]\nledger = "elsewhere"'), "go together"),
    ],
)
def test_what_could_not_be_deployed_is_not_registered(change: tuple[str, str], said: str) -> None:
    assert change[0] in DEPLOYED
    with pytest.raises(WorldforkError, match=said):
        parse(DEPLOYED.replace(*change))


def test_numbers_without_a_threshold_and_alarms_with_one_are_told_apart() -> None:
    segment = Segment(k=1, level=0.0, steps={}, signals={"residual": 0.5})
    for policy, said in (
        (Policy(trigger="residual", recorded=True), "answers with numbers"),
        (Policy(trigger="periodic", threshold=0.5), "raises alarms"),
    ):
        memory = policy.begin(CellKey("0", "away", 0), event=Event(purpose=Purpose.RESAMPLING))
        with pytest.raises(WorldforkError, match=said):
            policy.decide(memory, segment)


def test_a_state_that_leaves_the_process_takes_only_numpy_along() -> None:
    jnp = pytest.importorskip("jax.numpy")
    models = Models({"w": jnp.ones((2, 3))}, {"m": jnp.zeros((2, 1))}, ("a", "b"))
    again = copy.copy(models)  # by the protocol with which executors send it to another process
    assert type(again.parameters["w"]) is np.ndarray
    assert type(again.optimiser["m"]) is np.ndarray
    assert again.digests == ("a", "b")
    np.testing.assert_array_equal(again.parameters["w"], np.ones((2, 3)))
    assert not isinstance(models.parameters["w"], np.ndarray)
