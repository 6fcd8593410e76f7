"""A study of somebody else's agent in somebody else's world: a classifier that accepts labels and nothing else."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import worldfork as wf
from worldfork.lab.agents.stateful import save_checkpoint

MODULE = '''
import numpy as np
from worldfork.lab.agents.stateful import StatefulPlugin
from worldfork.lab.environments.base import EnvironmentPlugin, State


class Labelled:
    """Examples one after another: two numbers, and the label of the example before. An action above 0 says 1."""

    name, simulator, parameter = "labelled", "labelled-1", "boundary"
    observation_size, action_size, action_bound, episode_steps, action_repeat = 3, 1, 1.0, 20, 1

    def __init__(self, scale):
        self.scale = scale

    def reset(self, seeds, level=0.0):
        return self.shown(np.stack([seeds, np.zeros_like(seeds)], axis=1).astype(float), np.zeros(len(seeds)))

    def step(self, state, action, level=0.0):
        x = state.observation[:, :2]
        label = (x.sum(axis=1) > 0.5 * (1 + np.asarray(level) * (self.scale - 1))).astype(float)
        after = self.shown(state.physics + [0.0, 1.0], label)
        return after, after.observation, ((action[:, 0] > 0) == (label > 0)).astype(float)

    def shown(self, physics, label):
        drawn = [np.random.default_rng([int(seed), int(step)]).normal(size=2) for seed, step in physics]
        observation = np.concatenate([np.array(drawn).reshape(-1, 2), label[:, None]], axis=1)
        return State(physics, observation, np.zeros(len(physics), bool))

    def read_back(self):
        return {"boundary": 0.5}

    nominal = read_back


class LabelledPlugin(EnvironmentPlugin):
    def build(self, *, scale, threads):
        return Labelled(scale)


CALLS = []


class Classifier:
    """Logistic regression, trained an example at a time. It refuses labels that are not classes."""

    classes = (0, 1)

    def __init__(self):
        self.weights = np.zeros(3)

    def partial_fit(self, x, y):
        if not np.isin(y, self.classes).all():
            raise ValueError("classes should include all valid labels")
        for row, label in zip(np.c_[x, np.ones(len(x))], y):
            self.weights = self.weights + 0.1 * (label - self.chance(row)) * row

    def chance(self, row):
        return 1 / (1 + np.exp(-row @ self.weights))

    def reset(self, observation):
        pass

    def act(self, observation):
        return np.array([2 * self.chance(np.r_[observation[:2], 1.0]) - 1])

    def learn(self, window, *, steps, rate):
        CALLS.append(len(window))
        rows = np.random.randint(len(window), size=steps)
        self.partial_fit(window.observation[rows, :2], window.next_observation[rows, 2])

    def loss(self, window):
        labels = window.next_observation[:, 2]
        if not np.isin(labels, self.classes).all():
            raise ValueError("classes should include all valid labels")
        chances = np.array([self.chance(np.r_[row, 1.0]) for row in window.observation[:, :2]])
        return float(np.mean((chances - labels) ** 2))

    def surprise(self, observation, action, after):
        return float((self.chance(np.r_[observation[:2], 1.0]) - after[2]) ** 2)

    def get_state(self):
        return {"weights": self.weights.copy()}

    def set_state(self, state):
        self.weights = state["weights"].copy()


class Together(Classifier):
    """Acts in all episodes of a parameter set at once, so that their number is part of a ledger's identity."""

    together = True

    def act(self, observation):
        return np.array([super(Together, self).act(row) for row in observation])

    def surprise(self, observation, action, after):
        return np.array([super(Together, self).surprise(*rows) for rows in zip(observation, action, after)])


class ClassifierPlugin(StatefulPlugin):
    precisions = ("float64",)
    together: bool = False

    def make(self, environment):
        return Together() if self.together else Classifier()
'''
REGISTRATION = """
schema = "worldfork.registration/1"
name = "outside"
[grid]
tasks = ["labelled"]
checkpoints = [0, 1]
directions = ["away"]
[stream]
decision_points = 4
drift_period = 40
[evaluation]
episodes = 3
[mechanism]
steps = 10
window = 40
[tasks.labelled]
environment = "outside_labels:LabelledPlugin"
agent = "outside_labels:ClassifierPlugin"
checkpoints = "models/{checkpoint}.safetensors"
drift_scale = 4.0
precision = "float64"
"""
POLICIES = """
[deployment]
evaluate_at = [2, 4]
episodes = 2
[deployment.policies.periodic]
trigger = "periodic"
settings = { period = 2 }
[deployment.policies.residual]
trigger = "residual"
threshold = 0.1
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The module, with two checkpoints that it wrote; one for all tests, since a process imports a name once."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "outside_labels.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    module = importlib.import_module("outside_labels")
    world, plugin = module.Labelled(1.0), module.ClassifierPlugin()
    for index in range(2):
        agent, inner = plugin.build(world, precision="float64"), plugin.make(world)
        inner.weights[:] = [1.0, 1.0, -0.5 - 0.1 * index]
        path = folder / f"models/{index}"
        save_checkpoint(inner.get_state(), path, agent=agent, environment=world, episodes=2)
    yield module
    sys.path.remove(str(folder))
    del sys.modules["outside_labels"]


@pytest.fixture
def outside(module: ModuleType) -> ModuleType:
    """It, before anything was learnt."""
    module.CALLS.clear()
    return module


def written(module: ModuleType, text: str) -> Path:
    """The registration beside the checkpoints."""
    path = Path(str(module.__file__)).with_name("outside.toml")
    path.write_text(text)
    return path


def test_check_hands_an_agent_what_the_world_shows_and_no_invented_observations(outside: ModuleType) -> None:
    checked = wf.check(written(outside, REGISTRATION), measure=True)
    assert checked.ready
    assert checked.stepped == ("labelled in `outside`",)
    assert outside.CALLS, "the update was tried"
    assert max(outside.CALLS) <= 40


def test_policies_over_an_outside_agent_are_checked_run_verified_and_scored(
    outside: ModuleType, tmp_path: Path
) -> None:
    path, lines = written(outside, REGISTRATION + POLICIES), []
    assert wf.check(path).ready
    study = wf.run(path, tmp_path / "study", notify=lines.append)
    assert any(line.startswith("probed: `none` gave dR = 0.0") for line in lines)
    assert len(study.forks()) == 8
    verdict = wf.verify(study)
    assert verdict.problems == ()
    assert verdict.episodes == verdict.expected_episodes == 4 * 2 * 4  # policies, cells, decision points
    score = wf.score(study, permutations=50)
    assert len(score.effects()) > 0
    evaluated = study.episodes()
    assert set(evaluated["policy"]) == {"never", "always", "periodic", "residual"}


def test_run_says_that_it_probes_and_how_to_leave_that_out(outside: ModuleType, tmp_path: Path) -> None:
    path, lines = written(outside, REGISTRATION), []
    wf.run(path, tmp_path / "study", notify=lines.append)
    (probing,) = [line for line in lines if line.startswith("probing ")]
    assert "labelled" in probing
    assert "--no-probe" in probing
    assert "probe=False" in probing
    after = lines[lines.index(probing) + 1 :]
    assert any(line.startswith("probed: ") for line in after)
    lines.clear()
    wf.run(path, tmp_path / "unprobed", probe=False, notify=lines.append)
    assert not [line for line in lines if "prob" in line]


@pytest.mark.parametrize(("checkpoints", "points", "together"), [("[0]", 2, False), ("[0, 1]", 4, True)])
def test_an_agent_learns_once_per_fork(
    outside: ModuleType, tmp_path: Path, checkpoints: str, points: int, together: bool
) -> None:
    """A block has room for 20 forks: none that nobody asked for is trained to fill it."""
    text = REGISTRATION.replace("[0, 1]", checkpoints).replace("decision_points = 4", f"decision_points = {points}")
    path = written(outside, f"{text}settings = {{ together = {str(together).lower()} }}\n")
    study = wf.run(path, tmp_path / "study", probe=False)
    assert (study.cells()[0].configuration["block"] is not None) == together
    assert len(outside.CALLS) == len(study.forks())
    outside.CALLS.clear()
    wf.run(path, tmp_path / "probed")
    of_the_probe = 1 + 1 + (0 if together else 2)  # once, a second time, and in a block of two
    assert len(outside.CALLS) == len(study.forks()) + of_the_probe
    same = wf.Study(tmp_path / "probed").forks()
    assert same.equals(study.forks())


def test_a_policys_update_is_trained_once_too(outside: ModuleType, tmp_path: Path) -> None:
    study = wf.run(written(outside, REGISTRATION + POLICIES), tmp_path / "study", probe=False)
    fired = study.episodes()["fired"].sum()
    forks = len(study.forks())
    assert forks < len(outside.CALLS) <= forks + fired  # policies that have decided alike so far share a training
