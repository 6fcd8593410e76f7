"""An agent that keeps its state inside becomes a pure one: what it draws, remembers and learns is handed over."""

import random
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken_stateful import GrowingBuffer, Learner, LearnerPlugin

import worldfork as wf
from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays, stateful
from worldfork.lab.agents.stateful import StatefulAgent, StatefulPlugin, save_checkpoint, seeded, transitions_of
from worldfork.lab.agents.stateful_checkpoints import read_checkpoint
from worldfork.lab.environments.linear_quadratic import World
from worldfork.lab.episodes import Draws, roll_out
from worldfork.lab.run import run
from worldfork.randomness import Event, Purpose
from worldfork.registration import parse
from worldfork.testing import check_agent
from worldfork.testing.samples import keys, random_window

WORLD = World(scale=2.0)


class Together(Learner):
    """Takes all episodes at once."""

    together = True

    def reset(self, observation: np.ndarray) -> None:
        self.plan = np.zeros((len(observation), 1))

    def act(self, observation: np.ndarray) -> np.ndarray:
        self.plan = 0.5 * self.plan + np.random.normal(size=self.plan.shape)  # noqa: NPY002
        return self.plan

    def surprise(self, observation: np.ndarray, action: np.ndarray, after: np.ndarray) -> Any:
        return np.abs(after - observation).sum(axis=1)


class TogetherPlugin(LearnerPlugin):
    def make(self, environment: Any) -> Learner:
        return Together(environment)


class Rehearser(Learner):
    """Rehearses: of each minibatch of one, the share of its chance. It notes what it is handed."""

    handed: list[dict[str, Any]] = []

    def learn(self, window: Any, *, steps: int, rate: float, replay: Any = None, share: float = 0.0) -> Any:
        Rehearser.handed.append({"window": window, "replay": replay, "share": share})
        for _ in range(steps):
            source = replay if np.random.random() < share else window  # noqa: NPY002
            super().learn(source, steps=1, rate=rate)


class RehearserPlugin(LearnerPlugin):
    def make(self, environment: Any) -> Learner:
        return Rehearser(environment)


class Quiet(Learner):
    """Measures nothing and has no loss."""

    surprise = loss = property(lambda self: self.nothing)  # type: ignore[assignment]

    def learn(self, window: Any, *, steps: int, rate: float) -> Any:
        self.weights = self.weights - rate * 0.01 * steps * np.random.normal(size=self.weights.shape)  # noqa: NPY002


class QuietPlugin(LearnerPlugin):
    def make(self, environment: Any) -> Learner:
        return Quiet(environment)


class Lone(Learner):
    """Returns its only action as a number, and reads it as the list of one that it becomes."""

    def act(self, observation: np.ndarray) -> Any:
        return float(super().act(observation)[0])

    def surprise(self, observation: np.ndarray, action: np.ndarray, after: np.ndarray) -> Any:
        return abs(float(after[0] - action[0]))


class LonePlugin(LearnerPlugin):
    def make(self, environment: Any) -> Learner:
        return Lone(environment)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three checkpoints, each trained a little."""
    folder, paths = tmp_path_factory.mktemp("checkpoints"), []
    for index in range(3):
        plugin = LearnerPlugin()
        agent = plugin.build(WORLD, precision="float64")
        inner = agent._inner
        with seeded(np.array([index, 1], np.uint32)):
            window = random_window(WORLD, rows=64, sizes=(64,))
            inner.learn(_first(window), steps=40 + index, rate=1.0)
        path = folder / f"lq-{index}.safetensors"
        clean = save_checkpoint(inner.get_state(), path, agent=agent, environment=WORLD, episodes=2)
        assert np.isfinite(clean)
        paths.append(path)
    return paths


def _first(window: Any) -> Any:
    return transitions_of(window, 0)


@pytest.mark.parametrize(
    "plugin",
    [
        LearnerPlugin,
        pytest.param(TogetherPlugin, marks=pytest.mark.nightly),
        QuietPlugin,
        RehearserPlugin,
        LonePlugin,
    ],
)
def test_it_keeps_the_contract_of_an_agent(plugin: type[StatefulPlugin], files: list[Path]) -> None:
    report = check_agent(plugin, WORLD, precision="float64", checkpoints=files)
    assert "An agent that keeps its state inside gives all of it away" in report.kept
    assert not report.not_examined


def test_a_checkpoint_is_the_state_that_was_saved(files: list[Path]) -> None:
    plugin = LearnerPlugin()
    agent = plugin.build(WORLD, precision="float64")
    checkpoint = plugin.load(agent, WORLD, files[0])
    assert set(checkpoint.parameters) == {"weights", "count"}
    assert set(checkpoint.optimiser) == {"optimiser.momentum"}
    assert checkpoint.parameters["count"].tolist() == [40.0]


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ("{}", "clean_return: it is missing"),
        ("not JSON", "Invalid JSON"),
        ('{"clean_return": NaN}', "clean_return: expected a finite number"),
        (f'{{"clean_return": {"9" * 400}}}', "clean_return: expected a finite number"),
        ('{"clean_return": 1.0, "replay": 3}', "replay: expected a text"),
    ],
)
def test_a_record_that_is_none_is_one_sentence(record: str, told: str, files: list[Path], tmp_path: Path) -> None:
    copy = Path(shutil.copy(files[0], tmp_path / "lq-0.safetensors"))
    copy.with_suffix(".json").write_text(record)
    with pytest.raises(WorldforkError, match=rf"lq-0\.json` is not the record of a checkpoint.*{told}"):
        read_checkpoint(copy)


def test_a_state_that_is_none_is_one_sentence(files: list[Path], tmp_path: Path) -> None:
    copy = Path(shutil.copy(files[0].with_suffix(".json"), tmp_path / "lq-0.json")).with_suffix(".safetensors")
    copy.write_bytes(b"PK")
    with pytest.raises(WorldforkError, match=r"lq-0\.safetensors` is not the state of a checkpoint"):
        read_checkpoint(copy)


def test_an_update_carries_the_optimiser_on(files: list[Path]) -> None:
    """Two updates one after the other are what the agent itself would have come to."""
    plugin = LearnerPlugin()
    agent = plugin.build(WORLD, precision="float64")
    checkpoint = plugin.load(agent, WORLD, files[0])
    window = random_window(WORLD, rows=64, sizes=(50,))
    batch_keys = keys(Purpose.UPDATE_BATCH, 2)
    given = {"steps": 3, "scope": "model"}
    fit = agent.fit(checkpoint.parameters, checkpoint.optimiser, window, batch_keys=batch_keys[:1], **given)
    fit = agent.fit(fit.parameters, fit.optimiser, window, batch_keys=batch_keys[1:], **given)
    alone = Learner(WORLD)
    alone.set_state({name: array[0] for name, array in {**checkpoint.parameters, **checkpoint.optimiser}.items()})
    for key in batch_keys:
        with seeded(key):
            alone.learn(_first(window), steps=3, rate=1.0)
    assert np.array_equal(fit.parameters["weights"][0], alone.weights)
    assert np.array_equal(fit.optimiser["optimiser.momentum"][0], alone.momentum)
    assert fit.loss_before.shape == (1,)
    assert np.isnan(fit.grad_norm).all(), "it does not measure that"


REHEARSING = """
schema = "worldfork.registration/1"
name = "rehearsing"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0, 1]
directions = ["away"]
[stream]
decision_points = 1
drift_period = 50
[evaluation]
episodes = 1
[mechanism]
steps = 3
window = 30
[tasks.linear_quadratic]
agent = "AGENT"
checkpoints = "{checkpoint}.safetensors"
precision = "float64"
drift_scale = 2.0
[[arms]]
name = "rehearsing"
mechanism = { name = "rehearsal", settings = { share = 0.75 } }
"""
OTHERS = ("finetune", "reset", "shrink-and-perturb", "accept-if-better")  # that a black box can do too


def test_an_agent_is_handed_the_replay_of_its_own_checkpoint_by_rehearsal_alone(tmp_path: Path) -> None:
    plugin = RehearserPlugin()
    agent = plugin.build(WORLD, precision="float64")
    seen = random_window(WORLD, rows=40, sizes=(40, 25))
    kept = [transitions_of(seen, stream) for stream in range(2)]
    for index, replay in enumerate(kept):
        state = plugin.make(WORLD).get_state()
        save_checkpoint(state, tmp_path / f"{index}", agent=agent, environment=WORLD, episodes=1, replay=replay)
    path = tmp_path / "rehearsing.toml"
    others = "".join(f'[[arms]]\nname = "{name}"\nmechanism = {{ name = "{name}" }}\n' for name in OTHERS)
    path.write_text(REHEARSING.replace("AGENT", f"{__name__}:RehearserPlugin") + others)
    assert wf.check(path).ready
    Rehearser.handed.clear()
    study = wf.run(path, tmp_path / "study", probe=False)
    rehearsed = [given for given in Rehearser.handed if given["replay"] is not None]
    assert [given["share"] for given in rehearsed] == [0.75, 0.75]
    for given, replay in zip(rehearsed, kept, strict=True):
        for name, values in vars(replay).items():
            assert np.array_equal(getattr(given["replay"], name), values), name
    assert len(Rehearser.handed) == len(study.forks()) == 2 * (1 + len(OTHERS))
    shifts = {cell.id.partition("-linear")[0]: cell.rows()[0].fit.param_shift for cell in study.cells()}
    assert shifts["rehearsing"] != shifts["finetune"]
    digests = {cell.id: cell.configuration["checkpoint"].get("replay") for cell in study.cells()}
    assert {name.partition("-linear")[0] for name, digest in digests.items() if digest} == {"rehearsing"}
    assert wf.verify(study).problems == ()


def test_an_agent_that_takes_no_replay_is_refused_in_a_sentence(tmp_path: Path) -> None:
    plugin = LearnerPlugin()
    agent = plugin.build(WORLD, precision="float64")
    for index in range(2):
        state = plugin.make(WORLD).get_state()
        save_checkpoint(state, tmp_path / f"{index}", agent=agent, environment=WORLD, episodes=1)
    path = tmp_path / "rehearsing.toml"
    path.write_text(REHEARSING.replace("AGENT", "broken_stateful:LearnerPlugin"))
    with pytest.raises(WorldforkError, match="can rehearse if its `learn` takes `replay` and `share`"):
        wf.check(path)
    path.write_text(REHEARSING.replace("AGENT", f"{__name__}:RehearserPlugin"))
    with pytest.raises(WorldforkError, match=r"keeps none\..*save_checkpoint\(\.\.\., replay=transitions\)"):
        wf.check(path)


def test_a_replay_that_is_not_the_checkpoints_is_refused(tmp_path: Path) -> None:
    plugin = RehearserPlugin()
    agent = plugin.build(WORLD, precision="float64")
    replay = transitions_of(random_window(WORLD, rows=20, sizes=(20,)), 0)
    file, state = tmp_path / "one.safetensors", plugin.make(WORLD).get_state()
    save_checkpoint(state, file, agent=agent, environment=WORLD, episodes=1, replay=replay)
    checkpoint = plugin.load(agent, WORLD, file)
    assert checkpoint.replay is not None
    assert checkpoint.replay.size.tolist() == [20]
    file.with_suffix(".npz").write_bytes(b"something else")
    with pytest.raises(WorldforkError, match=r"one\.npz is not the replay that its checkpoint describes"):
        plugin.load(agent, WORLD, file)
    file.with_suffix(".npz").unlink()
    assert plugin.load(agent, WORLD, file).replay is None


def test_global_generators_are_seeded_from_the_key_and_left_alone() -> None:
    torch = pytest.importorskip("torch", reason="the shim seeds PyTorch where it is installed")

    def draw() -> list[float]:
        return [random.random(), float(np.random.random()), float(torch.rand(()))]  # noqa: NPY002

    before = draw_states(torch)
    with seeded(np.array([1, 2], np.uint32)):
        first = draw()
    with seeded(np.array([1, 2], np.uint32)):
        second = draw()
    with seeded(np.array([1, 3], np.uint32)):
        third = draw()
    assert first == second
    assert all(a != b for a, b in zip(first, third, strict=True))
    assert draw_states(torch) == before


@pytest.mark.parametrize("there", [False, True])
def test_pytorch_is_seeded_as_by_itself_and_everywhere_if_there_is_an_accelerator(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="the shim seeds PyTorch where it is installed")
    whole, called = torch.manual_seed, []
    monkeypatch.setattr(torch, "manual_seed", lambda number: (called.append(number), whole(number)))
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: there)
    with seeded(np.array([2**32 - 1, 5], np.uint32)) as number:
        drawn = torch.rand(3)
        assert called == ([number] if there else [])
        whole(number)
        assert torch.equal(torch.rand(3), drawn)


def draw_states(torch: Any) -> list[bytes]:
    numpys = np.random.get_state()[1].tobytes()  # noqa: NPY002
    return [repr(random.getstate()).encode(), numpys, torch.get_rng_state().numpy().tobytes()]


class Counting(Learner):
    """Counts how often it is asked for its error."""

    asked = 0

    def surprise(self, observation: np.ndarray, action: np.ndarray, after: np.ndarray) -> float:
        Counting.asked += 1
        return super().surprise(observation, action, after)


class Forgetful(Counting):
    """Remembers nothing from step to step."""

    get_belief = property()  # as if it had none


@pytest.mark.parametrize(("kind", "evaluated"), [(Forgetful, 0), (Counting, 3)])
def test_nothing_is_measured_where_nobody_reads_it(kind: type[Counting], evaluated: int) -> None:
    agent = StatefulAgent(kind(WORLD), WORLD)
    parameters = {name: array[None] for name, array in kind(WORLD).get_state().items()}
    draws = Draws.of([Event(purpose=Purpose.PLANNING)], np.arange(1))
    returns = {}
    for trace, asked in ((False, evaluated), (True, 3)):
        Counting.asked = 0
        rolled = roll_out(agent, WORLD, parameters, draws, levels=np.zeros((1, 3)), action_noise=0.0, trace=trace)
        assert Counting.asked == asked
        returns[trace] = rolled.returns
    assert np.array_equal(returns[False], returns[True])


class Loading(Learner):
    """Counts how often it is set to a state."""

    loads = 0

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        Loading.loads += 1
        super().set_state(state)


@pytest.mark.parametrize(("objects", "loads"), [(3, 3), (2, None), (1, None)])
def test_sets_that_take_turns_are_loaded_once_where_each_has_an_object(
    objects: int, loads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Separate(LearnerPlugin):
        object_per_set = True

        def make(self, environment: Any) -> Learner:
            return Loading(environment)

    size = sum(array.nbytes for array in Loading(WORLD).get_state().values())
    monkeypatch.setattr(stateful, "HELD", (objects - 1) * size)
    draws = Draws.of([Event(purpose=Purpose.PLANNING, checkpoint=name) for name in "abc"], np.arange(2))
    group = np.random.default_rng(0).normal(size=(3, *LearnerPlugin().make(WORLD).weights.shape))
    came = {}
    for plugin in (LearnerPlugin(), Separate()):
        agent = plugin.build(WORLD, precision="float64")
        whole = {name: np.stack([array] * 3) for name, array in agent._inner.get_state().items()}
        parameters = {"weights": group, "count": whole["count"]}
        moments = {name: whole[name] for name in whole.keys() - parameters.keys()}
        rolls = []
        for _ in range(2):
            Loading.loads = 0
            rolled = roll_out(
                agent, WORLD, parameters, draws, levels=np.zeros((3, 4)), action_noise=0.1, trace=True
            )
            assert rolled.trace is not None
            rolls += [rolled.trace.action, rolled.trace.signals["error"]]
            if isinstance(plugin, Separate):
                assert len(agent._objects) == objects
                assert Loading.loads == loads if loads else Loading.loads > 3
            window = random_window(WORLD, rows=9, sizes=(9, 9, 9))
            fit = agent.fit(
                parameters, moments, window, steps=3, scope="model", batch_keys=keys(Purpose.UPDATE_BATCH, 3)
            )
            parameters, moments = dict(fit.parameters), dict(fit.optimiser)
        came[type(plugin)] = rolls
    for mine, other in zip(*came.values(), strict=True):
        assert np.array_equal(mine, other)


def test_parameters_that_are_not_finite_act_with_zero() -> None:
    agent = StatefulAgent(Learner(WORLD), WORLD)
    state = {name: array[None].repeat(2, axis=0) for name, array in agent._inner.get_state().items()}
    state["weights"][1] = np.nan
    parameters = {name: array for name, array in state.items() if not name.startswith("optimiser.")}
    belief = agent.begin(parameters, np.zeros((2, 1, 2)))
    decision = agent.act(parameters, belief, keys(Purpose.PLANNING, 2, 1))
    assert decision.replaced.tolist() == [[False], [True]]
    assert decision.action[1, 0, 0] == 0.0
    assert arrays.size(parameters) == 2


def test_what_it_does_not_know_is_refused() -> None:
    plugin = LearnerPlugin()
    with pytest.raises(WorldforkError, match="computes in float64; got the precision 'float16'"):
        plugin.build(WORLD, precision="float16")


class Moments(Learner):
    """An optimiser whose moments appear when it first steps, as PyTorch's do."""

    def get_state(self) -> dict[str, np.ndarray]:
        state = super().get_state()
        return {**state, "optimiser.square": self.momentum**2} if self.count else state


class Forgetting(Learner):
    def get_state(self) -> dict[str, np.ndarray]:
        state = super().get_state()
        return {name: state[name] for name in ("weights",)} if self.count else state


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        (Moments, "names that the checkpoint lacks: optimiser.square. Create what they stand for"),
        (GrowingBuffer, r"After `learn` `buffer\.o` changed its shape from \(0, 2\) to \(16, 2\)\. Keep arrays"),
        (Forgetting, "names that `get_state` does not return after `learn`: count, optimiser.momentum"),
    ],
)
def test_what_learning_adds_or_loses_is_not_dropped_in_silence(inner: type[Learner], words: str) -> None:
    with seeded(np.zeros(2, np.uint32)):
        agent = StatefulAgent(inner(WORLD), WORLD)
    state = agent._inner.get_state()
    optimiser = {name: array[None] for name, array in state.items() if name.startswith("optimiser.")}
    parameters = {name: array[None] for name, array in state.items() if name not in optimiser}
    window = random_window(WORLD, rows=16, sizes=(16,))
    with pytest.raises(WorldforkError, match=words):
        agent.fit(parameters, optimiser, window, steps=1, scope="model", batch_keys=keys(Purpose.UPDATE_BATCH, 1))


class Slow(Learner):
    """Lets another thread in between what it draws; `entered` counts who is inside."""

    entered = 0
    most = 0

    def learn(self, window: Any, *, steps: int, rate: float) -> dict[str, float]:
        Slow.entered += 1
        Slow.most = max(Slow.most, Slow.entered)
        time.sleep(0)
        report = super().learn(window, steps=steps, rate=rate)
        Slow.entered -= 1
        return report


def test_threads_of_one_process_wait_for_each_other() -> None:
    """Generators are global and the agent is one object: an executor of threads must not mix two tasks."""
    with seeded(np.zeros(2, np.uint32)):
        agent = StatefulAgent(Slow(WORLD), WORLD)
    state = agent._inner.get_state()
    optimiser = {"optimiser.momentum": state.pop("optimiser.momentum")[None]}
    parameters = {name: array[None] for name, array in state.items()}
    window = random_window(WORLD, rows=16, sizes=(16,))

    def fit(index: int) -> np.ndarray:
        batch_keys = keys(Purpose.UPDATE_BATCH, 8)[index : index + 1]
        fitted = agent.fit(parameters, optimiser, window, steps=40, scope="model", batch_keys=batch_keys)
        return np.asarray(fitted.parameters["weights"])

    alone = [fit(index) for index in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, range(8)))
    assert Slow.most == 1
    assert all(np.array_equal(*pair) for pair in zip(alone, together, strict=True))


class Unpredicting(Learner):
    """Has a surprise of its own and predicts nothing."""

    predicts = False

    def surprise(  # type: ignore[override]
        self, observation: np.ndarray, action: np.ndarray, after: np.ndarray, *, reward: float
    ) -> Any:
        return {"temporal_difference": reward - 1.0}


class UnpredictingPlugin(LearnerPlugin):
    def make(self, environment: Any) -> Learner:
        return Unpredicting(environment)


def test_an_agent_without_predictions_says_so(files: list[Path], tmp_path: Path) -> None:
    assert check_agent(UnpredictingPlugin, WORLD, precision="float64", checkpoints=files)
    text = f"""
schema = "worldfork.registration/1"
name = "unpredicting"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0]
directions = ["away"]
[stream]
decision_points = 2
[evaluation]
episodes = 1
[mechanism]
steps = 1
[execution]
forks_per_block = 1
[tasks.linear_quadratic]
agent = "{__name__}:UnpredictingPlugin"
drift_scale = 2.0
precision = "float64"
checkpoints = "{files[0].parent}/lq-{{checkpoint}}.safetensors"
"""
    study = run(parse(text), tmp_path / "study", probe=False)
    for row in study.cells()[0].rows():
        assert row.signals["residual"] is row.signals["percentile"] is None
        assert row.signals["return_deficit"] is not None
    assert "temporal_difference" in study.cells()[0].read_log()
    assert "error" not in study.cells()[0].read_log()
    followed = '\n[deployment]\nevaluate_at = [1]\nepisodes = 1\n[deployment.policies.adwin]\ntrigger = "adwin"\n'
    with pytest.raises(WorldforkError, match=r"policies.adwin.*reads the one-step `error`.*`predicts = False`"):
        run(parse(text + followed), tmp_path / "followed", probe=False)
    assert not (tmp_path / "followed").exists()
