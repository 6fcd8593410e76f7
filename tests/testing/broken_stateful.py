"""Agents that keep their state inside, each hiding something, and the words that tell their author."""

import random
from typing import Any

import numpy as np

from worldfork.lab.agents.stateful import StatefulPlugin


class Learner:
    """A linear model of the world, trained with momentum; plans by sampling around its last plan."""

    def __init__(self, environment: Any) -> None:
        observations, actions = environment.observation_size, environment.action_size
        self.weights = np.random.normal(size=(observations + actions, observations))  # noqa: NPY002
        self.momentum = np.zeros_like(self.weights)
        self.count = np.zeros(())
        self.plan = np.zeros(actions)

    def reset(self, observation: np.ndarray) -> None:
        self.plan = np.zeros_like(self.plan)

    def act(self, observation: np.ndarray) -> np.ndarray:
        tried = self.plan + np.random.normal(size=(8, len(self.plan)))  # noqa: NPY002
        costs = [float(np.abs(self.predict(observation, action)).sum()) for action in tried]
        self.plan = 0.5 * self.plan + 0.5 * tried[int(np.argmin(costs))]
        return self.plan + 0.1 * random.random()

    def predict(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        return np.concatenate([observation, action]) @ self.weights

    def learn(self, window: Any, *, steps: int, rate: float) -> dict[str, float]:
        before = self.loss(window)
        for _ in range(steps):
            row = np.random.randint(len(window))  # noqa: NPY002
            given = np.concatenate([window.observation[row], window.action[row]])
            missed = given @ self.weights - window.next_observation[row]
            self.momentum = 0.9 * self.momentum + np.outer(given, missed)
            self.weights = self.weights - rate * 0.01 * self.momentum
            self.count = self.count + 1
        return {"loss_before": before, "loss_after": self.loss(window)}

    def loss(self, window: Any) -> float:
        given = np.concatenate([window.observation, window.action], axis=1)
        return float(np.mean((given @ self.weights - window.next_observation) ** 2))

    def surprise(self, observation: np.ndarray, action: np.ndarray, after: np.ndarray) -> dict[str, float]:
        missed = after - self.predict(observation, action)
        return {"error": float(np.mean(missed**2)), "largest": float(np.abs(missed).max())}

    def get_state(self) -> dict[str, np.ndarray]:
        return {
            "weights": self.weights.copy(),
            "count": self.count.copy(),
            "optimiser.momentum": self.momentum.copy(),
        }

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.weights, self.count = state["weights"].copy(), state["count"].copy()
        self.momentum = state["optimiser.momentum"].copy()

    def get_belief(self) -> np.ndarray:
        return self.plan

    def set_belief(self, belief: np.ndarray) -> None:
        self.plan = belief


class DropsOptimiser(Learner):
    """As TD-MPC2's `save` does."""

    def get_state(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights.copy(), "count": self.count.copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.weights, self.count = state["weights"].copy(), state["count"].copy()


class KeepsPlan(Learner):
    """As TD-MPC2's warm start is kept."""

    get_belief = set_belief = property(lambda self: self.nothing)  # type: ignore[assignment]


class KeepsMeasure(Learner):
    """Plans nothing ahead; says in `surprise` what `act` computed, and leaves it out of its belief."""

    effort = 0.0
    get_belief = set_belief = property(lambda self: self.nothing)  # type: ignore[assignment]

    def act(self, observation: np.ndarray) -> np.ndarray:
        self.plan = np.zeros_like(self.plan)
        action = super().act(observation)
        self.plan = np.zeros_like(self.plan)
        self.effort = float(np.abs(action).sum())
        return action

    def surprise(self, observation: np.ndarray, action: np.ndarray, after: np.ndarray) -> dict[str, float]:
        return {**super().surprise(observation, action, after), "effort": self.effort}


class LazyOptimiser(Learner):
    """As an optimiser in PyTorch: its moments are there after the first step."""

    def get_state(self) -> dict[str, np.ndarray]:
        state = super().get_state()
        return state if self.count else {name: x for name, x in state.items() if name != "optimiser.momentum"}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        super().set_state({"optimiser.momentum": np.zeros_like(self.momentum), **state})


class NeverForgets(Learner):
    """Its last plan survives a reset."""

    def reset(self, observation: np.ndarray) -> None:
        pass


class OwnGenerator(Learner):
    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.rng = np.random.default_rng(3)

    def act(self, observation: np.ndarray) -> np.ndarray:
        return super().act(observation) + self.rng.normal()


class Normalises(Learner):
    """Running statistics of what it sees, updated as it acts."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.mean = np.zeros(environment.observation_size)

    def act(self, observation: np.ndarray) -> np.ndarray:
        self.mean = 0.9 * self.mean + 0.1 * observation
        return super().act(observation - self.mean)

    def get_state(self) -> dict[str, np.ndarray]:
        return {**super().get_state(), "mean": self.mean.copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        super().set_state(state)
        self.mean = state["mean"].copy()


class HandsOutItself(Learner):
    def learn(self, window: Any, *, steps: int, rate: float) -> dict[str, float]:
        weights = self.weights
        report = super().learn(window, steps=steps, rate=rate)
        weights[:] = self.weights
        self.weights = weights
        return report

    def get_state(self) -> dict[str, np.ndarray]:
        return {**super().get_state(), "weights": self.weights}


class HalfSet(Learner):
    def set_state(self, state: dict[str, np.ndarray]) -> None:
        super().set_state(state)
        self.count = self.count + 1


class Pickles(Learner):
    def get_state(self) -> Any:
        return {"agent": self}


class TargetLeftOut(Learner):
    """Acts with a slow copy of its weights that its state does not hold."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.target = self.weights.copy()

    def learn(self, window: Any, *, steps: int, rate: float) -> dict[str, float]:
        report = super().learn(window, steps=steps, rate=rate)
        self.target = 0.5 * self.target + 0.5 * self.weights
        return report

    def predict(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        return np.concatenate([observation, action]) @ self.target


class GrowingBuffer(Learner):
    """Keeps every row that it learned from."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.rows = np.zeros((0, environment.observation_size))

    def learn(self, window: Any, *, steps: int, rate: float) -> dict[str, float]:
        self.rows = np.concatenate([self.rows, window.observation])
        return super().learn(window, steps=steps, rate=rate)

    def get_state(self) -> dict[str, np.ndarray]:
        return {**super().get_state(), "buffer.o": self.rows.copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        super().set_state(state)
        self.rows = state["buffer.o"].copy()


class Scattered(TargetLeftOut):
    """Leaves out something of each kind: what `learn` changes, what `act` changes, and a generator."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.rng, self.last = np.random.default_rng(3), 0.0

    def act(self, observation: np.ndarray) -> np.ndarray:
        action = super().act(observation) + self.rng.normal() + self.last
        self.last = float(action[0])
        return action

    def learn(self, window: Any, *, steps: int, rate: float) -> dict[str, float]:
        self.last = self.rng.normal()
        return super().learn(window, steps=steps, rate=rate)


class SeededNow(TargetLeftOut):
    """Has a generator of its own, which is seeded before every call."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.rng = np.random.default_rng(3)

    def seed(self, number: int) -> None:
        self.rng = np.random.default_rng(number)


class ActsInWords(Learner):
    def act(self, observation: np.ndarray) -> Any:
        return {"torque": super().act(observation)}


class IgnoresReplay(Learner):
    """Takes a replay and learns from the window alone."""

    def learn(self, window: Any, *, steps: int, rate: float, replay: Any = None, share: float = 0.0) -> Any:
        return super().learn(window, steps=steps, rate=rate)


class KeepsReplay(Learner):
    """Goes on with the last replay that it was handed."""

    kept: Any = None

    def learn(self, window: Any, *, steps: int, rate: float, replay: Any = None, share: float = 0.0) -> Any:
        self.kept = replay if replay is not None else self.kept
        if self.kept is not None:
            super().learn(self.kept, steps=steps, rate=rate)
        return super().learn(window, steps=steps, rate=rate)


class WritesReplay(Learner):
    """Normalises the replay in place."""

    def learn(self, window: Any, *, steps: int, rate: float, replay: Any = None, share: float = 0.0) -> Any:
        if replay is not None:
            replay.reward[:] -= 1.0
            super().learn(replay, steps=steps, rate=rate)
        return super().learn(window, steps=steps, rate=rate)


class NoLearning:
    """Only acts."""

    def reset(self, observation: np.ndarray) -> None:
        pass

    def act(self, observation: np.ndarray) -> np.ndarray:
        return np.zeros(1)

    def get_state(self) -> dict[str, np.ndarray]:
        return {"nothing": np.zeros(1)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        pass


class LearnerPlugin(StatefulPlugin):
    """The agent that is right, with checkpoints from a seed."""

    precisions = ("float64",)

    def make(self, environment: Any) -> Learner:
        return Learner(environment)


def plugin_of(agent: type) -> StatefulPlugin:
    class Broken(StatefulPlugin):
        def make(self, environment: Any) -> Any:
            return agent(environment) if issubclass(agent, Learner) else agent()

    return Broken()


STATEFUL: list[tuple[type, str]] = [
    (DropsOptimiser, r"taught the same again, it came out otherwise.*had not put back `momentum`.*optimiser\."),
    (KeepsPlan, r"another episode in between changed what it did.*`act` changes `plan`.*Return it in `get_belief`"),
    (KeepsMeasure, r"another episode in between changed what it did \(.*effort.*`act` changes `effort`"),
    (LazyOptimiser, r"`learn` made names.*optimiser\.momentum.*when the agent is made"),
    (NeverForgets, r"after another episode and `reset` it acts otherwise.*`plan`.*`reset` forgets"),
    (OwnGenerator, r"after another episode and `reset` it acts otherwise.*`rng`.*seeded in `seed"),
    (Normalises, r"`act` changed the state \(`mean`.*belongs to `get_belief`"),
    (HandsOutItself, r"arrays of `get_state` changed while it learned \(`weights`.*Return copies"),
    (HalfSet, r"set to its own state, it has another \(`count`.*sets every array"),
    (Pickles, r"`get_state` returned \{'agent': 'Pickles'\}.*NumPy arrays by name"),
    (TargetLeftOut, r"set to its state acts otherwise.*they differ in .*`target`"),
    (GrowingBuffer, r"`buffer\.o` changed its shape from \(0, 2\) to \(64, 2\).*ring buffer with a count"),
    (
        Scattered,
        r"Return `target` in `get_state`\. `act` changes `last`: .*`get_belief`\. `rng` is a generator: seed",
    ),
    (SeededNow, r"they differ in `target`\. Return `target` in `get_state`\."),
    (ActsInWords, r"`act` returned a dict \(.*An action is an array of numbers"),
    (NoLearning, r"it has no `learn`\. An agent has .*`learn\(window, \*, steps, rate\)`.*docs/stateful\.md"),
    (IgnoresReplay, r"another replay made no difference to what it learned"),
    (KeepsReplay, r"something of a replay was left for the next time"),
    (WritesReplay, r"`learn` changed the replay that it was handed \(`reward`"),
]
