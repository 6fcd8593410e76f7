"""`worldfork test`: the kit is chosen by what stands behind a name, and the report can be pasted."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from worldfork.cli.main import app
from worldfork.errors import WorldforkError

MINE = """
import numpy as np
from worldfork.triggers import Trigger


class Space:
    def seed(self, seed):
        self.generator = np.random.default_rng(seed)

    def sample(self):
        return self.generator.uniform(-1, 1, 1)


class Cart:
    def __init__(self, drag=0.1):
        self.drag, self.action_space = drag, Space()

    def reset(self, *, seed):
        self.place, self.clock = np.random.default_rng(seed).normal(size=1), 0
        return self.place.copy(), {}

    def step(self, action):
        self.clock += 1
        self.place = self.place * (1 - self.drag) + action + 0.01 * self.clock
        return self.place.copy(), 0.0, False, False, {}


class Heavy(Cart):
    def __init__(self, mass):
        super().__init__(drag=1 / mass)


class Forgetful(Cart):
    def get_state(self):
        return self.place.copy()

    def set_state(self, state):
        self.place = state.copy()


def cart():
    return Cart()


class Agent:
    predicts = False

    def __init__(self, world):
        self.weights, self.moment = np.zeros(world.observation_size), np.zeros(world.observation_size)

    def reset(self, observation):
        pass

    def act(self, observation):
        return np.atleast_1d(observation @ self.weights)

    def learn(self, window, *, steps, rate):
        self.moment = 0.9 * self.moment + window.observation.mean(0)
        self.weights = self.weights - rate * self.moment

    def get_state(self):
        return {"weights": self.weights.copy(), "optimiser.moment": self.moment.copy()}

    def set_state(self, state):
        self.weights, self.moment = state["weights"].copy(), state["optimiser.moment"].copy()


class Half(Agent):
    def get_state(self):
        return {"weights": self.weights.copy()}

    def set_state(self, state):
        self.weights = state["weights"].copy()


class Never(Trigger):
    def begin(self, cell, *, event):
        return None

    def decide(self, memory, segment):
        return memory, False


class Nothing:
    pass


NUMBER = 7
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_tested.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))


def report(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["test", *words])
    if isinstance(done.exception, WorldforkError):
        raise done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("mine_tested:Cart", "The simulator `Cart`"),
        ("mine_tested:cart", "The simulator `cart`"),
        ("mine_tested:Agent", "The agent `Agent`"),
        ("mine_tested:Never", "The trigger `mine_tested:Never`"),
        ("linear_quadratic", "The environment `linear_quadratic`"),
        ("finetune", "The mechanism `finetune`"),
        ("residual", "The signal `residual`"),
    ],
)
def test_what_stands_behind_a_name_is_examined(name: str, subject: str) -> None:
    kind = ["--kind", "environments"] if name == "linear_quadratic" else []
    code, text = report(name, *kind)
    assert code == 0, text
    lines = text.splitlines()
    assert lines[0] == subject
    assert lines[1].startswith("versions: worldfork ")
    assert lines[-1] == "verdict: exact: what was examined is kept"


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        (
            "mine_tested:Forgetful",
            "restored by `set_state` in the same object and stepped again, it went elsewhere",
        ),
        ("mine_tested:Nothing", "what was made, a Nothing, has no `reset, step, action_space`"),
        ("mine_tested:Half", "`set_state` had not put back `moment`"),
    ],
)
def test_a_broken_promise_is_shown_with_its_repair_and_the_exit_code_is_1(name: str, seen: str) -> None:
    code, text = report(name)
    assert code == 1
    assert seen in text
    assert "    do:   " in text
    assert "behind the broken one" in text
    assert text.splitlines()[-1] == "verdict: NOT exact: 1 promise broken"


def test_the_report_for_a_program() -> None:
    code, text = report("mine_tested:Half", "--json")
    record = json.loads(text)
    assert code == 1
    assert record["schema"] == "worldfork.test/1"
    assert record["verdict"] == "broken"
    assert set(record["broken"][0]) == {"rule", "seen", "remedy"}
    assert {"worldfork", "numpy"} <= record["versions"].keys()
    assert record["not_reached"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clock"], r"several things: say --kind signals or --kind triggers"),
        (["nothing of the sort"], r"no environment called 'nothing of the sort'"),
        (["mine_tested:NUMBER"], r"is a int, and neither a plug-in of worldfork's nor a class or function"),
        (["mine_tested:Heavy"], r"`mine_tested:Heavy` takes arguments: name a function that takes none"),
        (["mine_tested:Nowhere"], r"module `mine_tested` has no `Nowhere`"),
        (["residual", "--kind", "worlds"], r"--kind takes environments, agents"),
    ],
)
def test_a_name_that_stands_for_nothing_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(WorldforkError, match=message):
        report(*words)
