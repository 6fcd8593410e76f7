"""Episodes that end early: begun anew or left to wait, and nothing of what came after an end is learned from."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from falling import EDGE, Careful, Choosy, LedgePlugin, Together, Walker, WalkerPlugin
from kill_and_resume import chained
from typer.testing import CliRunner

import worldfork as wf
from worldfork.analysis.read.study import read_rows, study_table
from worldfork.analysis.read.triggers import segments
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.agents.stateful import StatefulAgent, Transitions, save_checkpoint, transitions_of
from worldfork.lab.environments.drift import Schedule
from worldfork.lab.episodes import Draws, roll_out
from worldfork.lab.forks.checkpoints import checkpoint_files
from worldfork.lab.forks.context import Context
from worldfork.lab.mechanisms.base import last
from worldfork.lab.replay import find_deployed, find_pair, replay_deployed, replay_pair
from worldfork.lab.run import run
from worldfork.lab.stream import Stream, deploy, logged, segment, window
from worldfork.ledger.cell import departures
from worldfork.ledger.store import Study
from worldfork.ledger.verify import verify
from worldfork.randomness import Event, Purpose, seed
from worldfork.registration import cells, parse

STUDY = """
schema = "worldfork.registration/1"
name = "ledge"
[grid]
tasks = ["ledge"]
checkpoints = [0, 1]
directions = ["away"]
[stream]
decision_points = 3
drift_period = 60
[evaluation]
episodes = 3
[mechanism]
steps = 2
window = 30
[execution]
forks_per_block = 2
[tasks.ledge]
agent = "falling:WalkerPlugin"
environment = "falling:LedgePlugin"
drift_scale = 0.5
AFTER
"""
DEPLOYMENT = """
[deployment]
evaluate_at = [1]
episodes = 2
[deployment.policies.periodic]
trigger = "periodic"
settings = {period = 2}
[deployment.policies.adwin]
trigger = "adwin"
"""
SAID = {"reset": "", "wait": 'after_end = "wait"'}
EVENT = Event(purpose=Purpose.INITIAL_STATE, task="ledge")
PACE = {"pace": np.ones((1, 1))}


def streamed(after_end: Any, *, limit: int = 0, points: int = 3, steps: int = 20) -> Stream:
    """A stream of whole strides."""
    world = LedgePlugin(limit=limit, episode_steps=steps).build(scale=1.0, threads=1)
    agent = StatefulAgent(Walker(world), world)
    (stream,) = deploy(
        agent,
        world,
        PACE,
        events=[EVENT],
        schedules=[Schedule("away", 100)],
        decision_points=points,
        action_noise=0.0,
        after_end=after_end,
    )
    return stream


def learnable(stream: Stream, k: int) -> Transitions:
    return transitions_of(window([stream.recording], [k]), 0)


def attempts(rows: Transitions) -> list[np.ndarray]:
    """The rows of each attempt."""
    return np.split(np.arange(len(rows)), np.flatnonzero(rows.first)[1:])


@pytest.mark.parametrize("after_end", ["reset", "wait"])
def test_all_that_is_learned_from_happened(after_end: str) -> None:
    rows = learnable(streamed(after_end), 3)
    np.testing.assert_array_equal(rows.next_observation, rows.observation + 1.0)
    np.testing.assert_array_equal(rows.reward, 1.0)
    np.testing.assert_array_equal(rows.terminated, rows.next_observation[:, 0] == EDGE)
    assert (rows.observation < EDGE).all()
    np.testing.assert_array_equal(rows.observation[rows.first, 0] < 2, True)
    if after_end == "wait":
        assert rows.first.sum() == rows.terminated.sum() == 3
        assert len(rows) == sum(EDGE - start for start in rows.observation[rows.first, 0])
    else:
        assert len(rows) == 60
        assert rows.first.sum() > 10
        np.testing.assert_array_equal(rows.first[1:], rows.terminated[:-1] | (np.arange(1, 60) % 20 == 0))


def test_an_attempt_begins_where_its_event_says() -> None:
    """Whatever happened before it: attempt j of an episode has a seed of its own, the same for UPDATE and HOLD."""
    rows = learnable(streamed("reset", points=2), 2)
    starts = rows.observation[rows.first, 0]
    expected, place = [], 0
    for episode in range(2):
        attempt, left = 0, 20
        while left > 0:
            start = seed(EVENT.at(episode=episode, iteration=attempt)) % 2
            expected.append(start)
            left -= int(EDGE) - start
            attempt, place = attempt + 1, place + 1
    assert starts.tolist() == expected
    assert len(set(expected)) == 2


@pytest.mark.parametrize("after_end", ["reset", "wait"])
def test_a_time_limit_is_no_fall(after_end: Any) -> None:
    rows = learnable(streamed(after_end, limit=3, points=2), 2)
    assert not rows.terminated.any()
    assert all(len(rows_of) <= 3 for rows_of in attempts(rows))
    np.testing.assert_array_equal(rows.next_observation, rows.observation + 1.0)
    assert len(rows) == (40 if after_end == "reset" else 6)


def test_returns_and_what_waits() -> None:
    world = LedgePlugin().build(scale=1.0, threads=1)
    agent = StatefulAgent(Walker(world), world)
    draws = Draws.of([EVENT], np.arange(4))
    levels = np.zeros((1, 20))
    for halves in (1, 2):
        waited, again = (
            roll_out(
                agent,
                world,
                PACE,
                draws,
                levels=levels,
                action_noise=0.0,
                trace=True,
                halves=halves,
                after_end=after_end,
            )
            for after_end in ("wait", "reset")
        )
        assert again.returns.tolist() == [[20.0] * 4]
        assert waited.returns.tolist() == [(EDGE - draws.seeds[0] % 2).tolist()]
        assert again.received.digests() == waited.received.digests()
        assert waited.trace is not None
        assert waited.trace.ends is not None
        np.testing.assert_array_equal(np.isnan(waited.trace.signals["error"]), ~waited.trace.ends.real)
        np.testing.assert_array_equal(waited.trace.signals["fell"] == 1.0, waited.trace.ends.terminated)
        np.testing.assert_array_equal(waited.trace.signals["earned"] == 1.0, waited.trace.ends.real)


def test_a_memory_begins_anew_in_the_attempts_that_do() -> None:
    world = LedgePlugin().build(scale=1.0, threads=1)
    inner = Walker(world)
    seen: list[int] = []
    inner.act = lambda observation: seen.append(inner.steps) or Walker.act(inner, observation)  # type: ignore[func-returns-value]
    agent = StatefulAgent(inner, world)
    draws = Draws.of([EVENT], np.arange(3))
    rolled = roll_out(agent, world, PACE, draws, levels=np.zeros((1, 20)), action_noise=0.0, trace=True)
    assert rolled.trace is not None
    assert rolled.trace.ends is not None
    counted = np.array(seen).reshape(20, 3).T
    first = rolled.trace.ends.first[0]
    expected = [[step - max(np.flatnonzero(row[: step + 1])) for step in range(20)] for row in first]
    assert counted.tolist() == expected


def test_windows_are_of_real_rows_and_say_where_they_ended() -> None:
    waiting = streamed("wait")
    whole = window([waiting.recording, streamed("reset").recording], [2, 2])
    assert whole.size.tolist()[1] == 40
    assert whole.size[0] < 11
    short = last(whole, 4)
    assert short.size.tolist() == [4, 4]
    assert short.terminated is not None
    assert short.terminated[0, 3]
    one = segment([waiting.recording], [2])
    assert one.reward.shape == (1, 20)
    assert one.size[0] == (waiting.log["real"] & (waiting.log["episode"] == 2)).sum()
    assert set(logged(waiting.log, 2)) >= {"terminated", "error", "fell"}
    assert all(len(column) == one.size[0] for column in logged(waiting.log, 2).values())


@pytest.mark.parametrize("after_end", ["reset", "wait"])
@pytest.mark.parametrize("honours", [True, False])
def test_a_value_learner_stops_at_the_fall(after_end: str, honours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the edge the checkpoint promises 100; who falls there earns 1 and no more."""
    monkeypatch.setattr(Careful, "honours", honours)
    careful = Careful(LedgePlugin().build(scale=1.0, threads=1))
    careful.learn(learnable(streamed(after_end, points=8), 8), steps=20, rate=1.0)
    left = EDGE - np.arange(EDGE)
    beyond = 0.0 if honours else 100.0 * 0.9**left
    np.testing.assert_allclose(careful.value[: int(EDGE)], (1 - 0.9**left) / 0.1 + beyond)


def write(folder: Path, after_end: str, *, more: str = "") -> Path:
    path = folder / "ledge.toml"
    path.write_text(STUDY.replace("AFTER", SAID[after_end]) + more)
    return path


@pytest.fixture(scope="module", params=["reset", "wait"])
def studied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    path = write(folder, request.param, more=DEPLOYMENT)
    run(path, folder / "study", probe=False)
    return path, folder / "study"


def test_a_study_is_verified_scored_and_told_what_it_is(studied: tuple[Path, Path]) -> None:
    path, folder = studied
    assert verify(folder).problems == ()
    study, after_end = Study(folder), path.parent.name.rstrip("0123456789")
    cell = study.cells()[0]
    assert cell.configuration["after_end"] == after_end
    assert ("after_end" in cell.configuration["task"]) == (after_end == "wait")
    assert {"terminated", "real"} <= cell.read_log().keys()
    assert wf.score(folder)["ledge"].verdict


def test_rows_of_another_meaning_are_told(studied: tuple[Path, Path]) -> None:
    study = Study(studied[1])
    cell, registered = cells(study.registration)[0], study.registered().registration
    said = study.cell(cell.id).configuration
    assert departures(said, cell, registered) == []
    other = "reset" if said["after_end"] == "wait" else "wait"
    assert departures({**said, "after_end": other}, cell, registered) == [
        f'after_end: "{said["after_end"]}" -> "{other}"'
    ]


def test_its_episodes_come_out_again(studied: tuple[Path, Path]) -> None:
    path, folder = studied
    study = Study(folder)
    registration = study.registration
    files = checkpoint_files(registration, root=path.parent, copies=folder / "checkpoints")
    context = Context(registration, files)
    cell = study.cells()[0].id
    assert replay_pair(study, context, find_pair(study, cell, k=2, episode=1)).exact
    assert replay_deployed(study, context, find_deployed(study, cell, policy="periodic", k=3)).exact


class Interrupted:
    """An executor that does so many tasks and is then stopped."""

    def __init__(self, tasks: int) -> None:
        self.left = tasks

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        for index, task in enumerate(tasks):
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            yield index, function(task)


def test_an_interrupted_run_goes_on_to_the_same_bytes(studied: tuple[Path, Path], tmp_path: Path) -> None:
    path, whole = studied
    for tasks in (3, 6):  # among forks, among segments
        folder = tmp_path / str(tasks)
        with pytest.raises(KeyboardInterrupt):
            run(path, folder, executor=Interrupted(tasks), probe=False)
        run(path, folder, probe=False)
        assert chained(folder) == chained(whole)


def test_the_desk_shows_a_detector_what_a_deployment_did(studied: tuple[Path, Path]) -> None:
    """Fed from the log of a stream or from the segments of never: without what lay past an end."""
    study = Study(studied[1])
    table = study_table(study, read_rows(study))
    preforks = [forks.prefork for of_task in table.arms.values() for forks in of_task.values()]
    assert preforks
    for prefork in preforks:
        for index, span in prefork.spans():
            for told in segments(prefork, index, span):
                assert np.isfinite(told.steps["error"]).all()
                assert (told.steps["reward"] == 1.0).all()
                assert "real" not in told.steps


def test_check_says_what_lay_past_an_end(tmp_path: Path) -> None:
    for after_end, words in (("wait", "past an end"), ("reset", "attempts")):
        path = write(tmp_path, after_end)
        done = CliRunner().invoke(app, ["check", str(path)])
        assert done.exit_code == 0, done.output
        assert words in " ".join(done.output.split())


def test_check_says_where_no_episode_ended_early(tmp_path: Path) -> None:
    path = write(tmp_path, "reset", more="environment_settings = {episode_steps = 3}\n")
    done = CliRunner().invoke(app, ["check", str(path)])
    assert done.exit_code == 0, done.output
    told = "of 8 episodes 0 ended early in the clean world and 0 at the far end of the drift"
    assert told in " ".join(done.output.split())


def test_check_looks_for_ends_at_the_far_end_of_the_drift_and_says_what_is_in_force(tmp_path: Path) -> None:
    """Four strides stay on the ledge, and four of twice the length do not."""
    more = "environment_settings = {episode_steps = 4}\n"
    for after_end, words in (("wait", "Of their control steps 0% and "), ("reset", 'so "reset" is in force')):
        path = write(tmp_path, after_end, more=more)
        path.write_text(path.read_text().replace("drift_scale = 0.5", "drift_scale = 4.0"))
        done = CliRunner().invoke(app, ["check", str(path)])
        told = " ".join(done.output.split())
        assert "of 8 episodes 0 ended early in the clean world and 8 at the far end of the drift" in told
        assert words in told


def test_a_clean_return_of_episodes_that_ended_otherwise_is_refused(tmp_path: Path) -> None:
    """What the frozen model has lost is measured from it: 3 steps till the fall, or 20 of several attempts."""
    world, plugin = LedgePlugin().build(scale=1.0, threads=1), WalkerPlugin()
    agent = plugin.build(world, precision="float32")
    for index in (0, 1):
        state = {"pace": np.array([1.0 - 0.1 * index])}
        save_checkpoint(state, tmp_path / f"{index}", agent=agent, environment=world, after_end="wait")
    named = f'checkpoints = "{tmp_path}/{{checkpoint}}.safetensors"\n'
    assert wf.check(write(tmp_path, "wait", more=named)).ready
    path = write(tmp_path, "reset", more=named)
    told = r'measured with after_end = "wait", and \[tasks.ledge\] has after_end = "reset"'
    assert re.search(told, wf.check(path).missing[0])
    with pytest.raises(WorldforkError, match=told) as caught:
        run(path, tmp_path / "study", probe=False)
    assert "failures.log" not in str(caught.value)
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("after_end", ["wait", "reset"])
def test_an_agent_that_measures_clean_returns_does_so_as_the_tasks_episodes_go_on(after_end: str) -> None:
    text = STUDY.replace("WalkerPlugin", "MeasuringPlugin").replace("AFTER", SAID[after_end])
    assert Context(parse(text), {}).checkpoint("ledge", 0).clean_return == {"wait": 5.0, "reset": 20.0}[after_end]
    other = {"wait": "reset", "reset": "wait"}[after_end]
    contradicted = f'{text}[tasks.ledge.settings]\nafter_end = "{other}"\n'
    with pytest.raises(WorldforkError, match=f'measured with after_end = "{other}".* takes the task\'s without it'):
        Context(parse(contradicted), {}).checkpoint("ledge", 0)


def test_a_setting_that_says_nothing_is_refused() -> None:
    text = STUDY.replace('"falling:LedgePlugin"', '"linear_quadratic"').replace("AFTER", SAID["wait"])
    context = Context(parse(text), {})
    with pytest.raises(WorldforkError, match=r"\[tasks.ledge\]: after_end = \"wait\" .* never do"):
        context.after_end("ledge")
    assert Context(parse(text.replace(SAID["wait"], "")), {}).after_end("ledge") is None


def test_an_agent_that_can_not_begin_anew_is_refused_before_anything_runs(tmp_path: Path) -> None:
    text = STUDY.replace("WalkerPlugin", "TogetherPlugin")
    with pytest.raises(
        WorldforkError, match=r"no `begin_again.*`reset\(observation, where\)`.*after_end = \"wait\""
    ):
        run(parse(text.replace("AFTER", "")), tmp_path / "study")
    assert not (tmp_path / "study").exists()
    context = Context(parse(text.replace("AFTER", SAID["wait"])), {})
    assert context.accepted(context.registration.arms[0], "ledge")


def test_a_mechanism_that_needs_more_than_may_be_left_is_refused() -> None:
    text = STUDY.replace("[mechanism]", '[mechanism]\nname = "accept-if-better"')
    for after_end in SAID:
        context = Context(parse(text.replace("AFTER", SAID[after_end])), {})
        if after_end == "reset":
            assert context.accepted(context.registration.arms[0], "ledge")
        else:
            with pytest.raises(WorldforkError, match=r"of a window of 1 transitions"):
                context.accepted(context.registration.arms[0], "ledge")


def test_episodes_that_share_a_memory_begin_anew_alone_or_not_at_all() -> None:
    world = LedgePlugin().build(scale=1.0, threads=1)
    assert StatefulAgent(Together(world), world).begin_again is None
    agent = StatefulAgent(Choosy(world), world)
    belief = agent.begin(PACE, np.zeros((1, 3, 1)))
    belief = agent.act(PACE, belief, np.zeros((1, 3, 2), np.uint32)).belief
    assert agent.begin_again is not None
    belief = agent.begin_again(PACE, belief, np.zeros((1, 3, 1)), np.array([[True, False, True]]))
    assert np.concatenate(belief.memory[0]).tolist() == [0, 1, 0]


class Pusher(Walker):
    """Pushes a pole until it falls."""


class PusherPlugin(WalkerPlugin):
    def make(self, environment: Any) -> Walker:
        return Pusher(environment)


@pytest.mark.parametrize("after_end", ["reset", "wait"])
def test_a_pendulum_of_gymnasium(after_end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """392 of the 400 rows of this window were copies of a fallen pole."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Pusher, "learnt", [])
    text = STUDY.replace("AFTER", SAID[after_end]).replace("ledge", "pole")
    text = text.replace("falling:LedgePlugin", "gymnasium:InvertedPendulum-v5").replace(
        "checkpoints = [0, 1]", "checkpoints = [0]"
    )
    text = text.replace("decision_points = 3", "decision_points = 2").replace("window = 30", "window = 400")
    text = text.replace("episodes = 3", "episodes = 1")
    text = text.replace("falling:WalkerPlugin", f"{__name__}:PusherPlugin")
    text += '\n[tasks.pole.environment_settings]\ndrift = "opt.gravity[2]"\nepisode_steps = 200\n'
    run(parse(text), tmp_path / "study", probe=False)
    rows = max(Pusher.learnt, key=len)
    moved = (rows.next_observation != rows.observation).any(axis=1)
    assert moved.all()
    np.testing.assert_array_equal(rows.terminated, np.abs(rows.next_observation[:, 1]) > 0.2)
    assert rows.terminated.sum() == (
        2 if after_end == "wait" else rows.first.sum() - (not rows.terminated[-1]) - (not rows.terminated[199])
    )
    assert (len(rows) == 400) == (after_end == "reset")
