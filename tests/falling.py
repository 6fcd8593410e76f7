"""A walk along a ledge that ends where the ledge does, and agents that walk: every row of it can be written down.

The walker starts at 0 or 1 and moves by (1 + action) / 2 strides; every step earns 1, and at `EDGE` it falls.
"""

import dataclasses
from typing import Any, ClassVar

import numpy as np

from worldfork.lab.agents.base import Checkpoint
from worldfork.lab.agents.stateful import StatefulPlugin, Transitions
from worldfork.lab.environments.base import AfterEnd
from worldfork.lab.environments.restorable import RestorablePlugin
from worldfork.randomness import Event

EDGE = 5.0


class Box:
    """The part of Gymnasium's spaces that is read."""

    low, high = np.array([-1.0]), np.array([1.0])


class Ledge:
    action_space = Box()

    def __init__(self, limit: int) -> None:
        self.stride, self.limit = 1.0, limit

    def reset(self, *, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        self.place, self.taken = float(seed % 2), 0
        return np.array([self.place]), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.place += self.stride * 0.5 * (1.0 + float(action[0]))
        self.taken += 1
        return np.array([self.place]), 1.0, self.place >= EDGE, self.taken == self.limit, {}


class LedgePlugin(RestorablePlugin):
    simulator: ClassVar = "ledge 1"
    parameter: ClassVar = "stride"
    episode_steps: int = 20
    limit: int = 0  # steps after which the simulator stops an attempt; 0: never

    def make(self) -> Ledge:
        return Ledge(self.limit)

    def save(self, env: Ledge) -> Any:
        return np.array([env.place, env.taken])

    def restore(self, env: Ledge, saved: np.ndarray) -> None:
        env.place, env.taken = float(saved[0]), int(saved[1])

    def drift(self, env: Ledge, factor: float) -> None:
        env.stride = factor

    def read(self, env: Ledge) -> dict[str, float]:
        return {"stride": env.stride}


class Walker:
    """Walks at a pace that it learns to halve, counts its steps within an attempt, and keeps what it was taught."""

    learnt: ClassVar[list[Transitions]] = []

    def __init__(self, environment: Any) -> None:
        self.size = environment.action_size
        self.pace, self.steps = np.ones(1), 0

    def reset(self, observation: Any) -> None:
        self.steps = 0

    def act(self, observation: Any) -> Any:
        self.steps += 1
        return np.full(self.size, self.pace[0])

    def get_belief(self) -> int:
        return self.steps

    def set_belief(self, belief: int) -> None:
        self.steps = belief

    def learn(self, window: Transitions, *, steps: int, rate: float) -> dict[str, float]:
        self.learnt.append(window)
        self.pace = self.pace - rate * 0.1 * steps * float(window.terminated.mean())
        return {}

    def surprise(self, observation: Any, action: Any, after: Any, *, reward: Any, terminated: Any) -> Any:
        return {"error": abs(float(after[0] - observation[0]) - 1.0), "fell": terminated, "earned": reward}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"pace": self.pace.copy()}

    def set_state(self, state: Any) -> None:
        self.pace = state["pace"].copy()


class WalkerPlugin(StatefulPlugin):
    def make(self, environment: Any) -> Walker:
        return Walker(environment)

    def generate(self, agent: Any, environment: Any, event: Event) -> Checkpoint:
        pace = 1.0 - 0.1 * int(event.checkpoint or 0)
        return Checkpoint({"pace": np.array([[pace]])}, {}, clean_return=20.0, digest=f"walker {pace}")


class MeasuringPlugin(WalkerPlugin):
    """Measures clean returns as it makes a checkpoint, in episodes that go on as the task's do."""

    after_end: AfterEnd | None = None

    def generate(self, agent: Any, environment: Any, event: Event) -> Checkpoint:
        made = super().generate(agent, environment, event)
        returned = {"wait": 5.0, "reset": 20.0, None: -1.0}[self.after_end]
        return dataclasses.replace(made, clean_return=returned, after_end=self.after_end)


class Careful(Walker):
    """Learns what each place is worth, by fitted iteration; `honours` says whether it stops at a fall."""

    honours: ClassVar = True
    DISCOUNT: ClassVar = 0.9

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.value = np.full(8, 100.0)  # of every place, as if the ledge went on

    def learn(self, window: Transitions, *, steps: int, rate: float) -> dict[str, float]:
        here, there = window.observation[:, 0].astype(int), window.next_observation[:, 0].astype(int)
        for _ in range(steps):
            after = self.value[there] * (~window.terminated if self.honours else 1.0)
            target = window.reward + self.DISCOUNT * after
            for place in np.unique(here):
                self.value[place] = target[here == place].mean()
        return {}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"pace": self.pace.copy(), "value": self.value.copy()}

    def set_state(self, state: Any) -> None:
        self.pace, self.value = state["pace"].copy(), state["value"].copy()


class Together(Walker):
    """Takes all episodes at once and counts the steps of each, which it can forget for all of them alone."""

    together = True

    def reset(self, observation: Any) -> None:
        self.steps = np.zeros(len(observation))  # type: ignore[assignment]

    def act(self, observation: Any) -> Any:
        self.steps = self.steps + 1
        return np.full((len(observation), self.size), self.pace[0])


class Choosy(Together):
    """Forgets the episodes that begin anew and no others."""

    def reset(self, observation: Any, where: Any) -> None:  # type: ignore[override]
        self.steps = np.where(where, 0, self.steps)


class TogetherPlugin(WalkerPlugin):
    def make(self, environment: Any) -> Walker:
        return Together(environment)
