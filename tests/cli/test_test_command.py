"""`worldfork test`: the kit is chosen by what stands behind a name, and the report can be pasted."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import worldfork as wf
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.registration import authored, read
from worldfork.registration.library import find

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


class Alone(Agent):
    # Is made from nothing, for three observations and an action.
    def __init__(self):
        self.weights, self.moment = np.zeros(3), np.zeros(3)


class Handy(Alone):
    # Acts with two actions.
    def learn(self, window, *, steps, rate):
        pass

    def act(self, observation):
        return np.zeros(2)


class Rail(Cart):
    # Three observations and a time limit, with a pair that keeps all of it.
    def reset(self, *, seed):
        super().reset(seed=seed)
        return np.full(3, self.place[0]), {}

    def step(self, action):
        super().step(action)
        return np.full(3, self.place[0]), 0.0, False, self.clock >= 30, {}

    def get_state(self):
        return {"place": self.place.copy(), "clock": self.clock}

    def set_state(self, state):
        self.place, self.clock = state["place"].copy(), state["clock"]


class Pushes(Rail):
    # Has actions that are no row of numbers.
    def __init__(self):
        super().__init__()
        self.action_space.sample = lambda: 1


class Thrower(Cart):
    def reset(self, *, seed):
        raise RuntimeError("no server")


class Acts:
    def act(self, observation):
        return 0.0


class Pairs(Agent):
    def __init__(self, observations, actions):
        pass


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
    assert lines[-1].startswith("verdict: exact: what was examined is kept")


def test_the_verdict_says_how_much_was_examined() -> None:
    _, text = report("mine_tested:Cart", "--steps", "20")
    assert text.splitlines()[-1].endswith("kept (45 steps from 4 places; no episode ended)")
    _, text = report("mine_tested:Rail", "--steps", "50")
    assert text.splitlines()[-1].endswith("kept (60 steps from 4 places; an episode ended)")
    _, text = report("mine_tested:Agent")
    assert text.splitlines()[-1].endswith("kept (in `linear_quadratic`: 2 observations, 1 action)")


@pytest.mark.parametrize("agent", ["mine_tested:Agent", "mine_tested:Alone"])
def test_an_agent_is_tried_in_a_plain_simulator_and_may_be_made_from_nothing(agent: str) -> None:
    code, text = report(agent, "--in", "mine_tested:Rail")
    assert code == 0, text
    assert text.splitlines()[-1].endswith("kept (in `Rail`: 3 observations, 1 action)")


def test_a_world_whose_drift_is_a_setting_needs_none_here() -> None:
    pytest.importorskip("gymnasium", reason="Gymnasium comes with the extra `gymnasium`")
    code, text = report("mine_tested:Agent", "--in", "gymnasium:InvertedPendulum-v5")
    assert code == 0, text
    assert "in `InvertedPendulum-v5`: 4 observations, 1 action" in text


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        (
            "mine_tested:Forgetful",
            "restored by `set_state` in the same object and stepped again, it went elsewhere",
        ),
        ("mine_tested:Acts", "it has no `reset, learn, get_state, set_state`"),
        ("mine_tested:Half", "`set_state` had not put back `moment`"),
    ],
)
def test_a_broken_promise_is_shown_with_its_repair_and_the_exit_code_is_1(name: str, seen: str) -> None:
    code, text = report(name)
    assert code == 1
    assert seen in text
    assert "    do:   " in text
    assert "behind the broken one" in text
    assert text.splitlines()[-1].startswith("verdict: NOT exact: 1 promise broken")


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
        (
            ["mine_tested:Pairs"],
            r"takes arguments: name a function .* or one that takes a world and makes the agent",
        ),
        (["mine_tested:Nothing"], r"a Nothing, which is neither a simulator .* nor an agent \(it has no `act`"),
        (["mine_tested:Alone"], r"`linear_quadratic` has 2 obs.* with --in\. It raised ValueError.*`Agent\.learn`"),
        (["mine_tested:Handy"], r"`act` returned 2 numbers: the world `linear_quadratic` has .* 1 action\."),
        (
            ["mine_tested:Agent", "--in", "mine_tested:Pushes"],
            r"Its actions are .*an agent's are numbers on one axis",
        ),
        (["mine_tested:Agent", "--in", "mine_tested:Thrower"], r"RuntimeError: no server\. It .*`Thrower\.reset`"),
        (["mine_tested:Agent", "--in", "mine_tested.py:Rail"], r"names a file: write mine_tested:Rail"),
        (["mine_tested:Agent", "--set", "drift=1"], r"is no plug-in and has no settings: .* that sets \['drift'\]"),
        (["./mine_tested.py"], r"names a file: write mine_tested:NAME"),
        (
            ["nowhere_tested:Agent"],
            r"^`nowhere_tested:Agent` is in a module `nowhere_tested` that can not be found",
        ),
        (["mine_tested:Nowhere"], r"module `mine_tested` has no `Nowhere`"),
        (["residual", "--kind", "worlds"], r"--kind takes environments, agents"),
    ],
)
def test_a_name_that_stands_for_nothing_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(WorldforkError, match=message):
        report(*words)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "import numpy\nimport nowhere_at_all.sub\n",
            r"line 2: it imports `nowhere_at_all`, which is not installed",
        ),
        ("class Mine\n    pass\n", r"line 1: SyntaxError: expected ':'"),
        ("\nx = 1 / 0\n", r"line 2: ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_can_not_be_imported_is_one_sentence(source: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "unimportable.py").write_text(source)
    sentence = rf"`unimportable:Mine` can not be imported: .*unimportable\.py, {told}"
    with pytest.raises(WorldforkError, match=sentence):
        report("unimportable:Mine")
    with pytest.raises(WorldforkError, match=sentence):
        report("mine_tested:Agent", "--in", "unimportable:Mine")
    registered = authored(read(find("linear-quadratic"))).text.replace(
        'agent = "linear_quadratic"', 'agent = "unimportable:Mine"'
    )
    (tmp_path / "study.toml").write_text(registered)
    with pytest.raises(WorldforkError, match=sentence):
        wf.check(tmp_path / "study.toml")


def test_an_object_that_is_no_plug_in_is_told_which_one_it_takes(tmp_path: Path) -> None:
    registered = authored(read(find("linear-quadratic"))).text.replace(
        'agent = "linear_quadratic"', 'agent = "mine_tested:Agent"'
    )
    (tmp_path / "study.toml").write_text(registered)
    with pytest.raises(WorldforkError, match=r"comes as a StatefulPlugin \(docs/stateful\.md\)"):
        wf.check(tmp_path / "study.toml")
