"""Plain simulators, each forgetting something, and the words that tell their author."""

import copy
from typing import Any

import numpy as np


class Space:
    """Actions in [-1, 1], drawn as Gymnasium's spaces are."""

    def seed(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def sample(self) -> np.ndarray:
        return self.generator.uniform(-1, 1, 1)


class Whole:
    """A cart with wind, whose pair keeps all of it."""

    def __init__(self) -> None:
        self.action_space = Space()

    def reset(self, *, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        self.wind = np.random.default_rng(seed)
        self.body, self.last = self.wind.normal(size=2), 0.0
        return self.body.copy(), {}

    def step(self, action: np.ndarray) -> tuple[Any, ...]:
        self.body[1] += 0.1 * float(action[0]) + 0.1 * self.last + 0.01 * self.wind.normal()
        self.body[0] += 0.1 * self.body[1]
        self.last = float(action[0])
        return self.body.copy(), -float(self.body[0] ** 2), False, False, {}

    def get_state(self) -> Any:
        return {"body": self.body.copy(), "last": self.last, "wind": self.wind.bit_generator.state}

    def set_state(self, state: Any) -> None:
        self.body, self.last = state["body"], state["last"]
        self.wind.bit_generator.state = state["wind"]


class Copied(Whole):
    """Offers no pair: it is copied as a whole."""

    get_state = set_state = None  # type: ignore[assignment]


class NoGenerator(Whole):
    def get_state(self) -> Any:
        return {"body": self.body.copy(), "last": self.last}

    def set_state(self, state: Any) -> None:
        self.body, self.last = state["body"], state["last"]


class NoLastAction(Whole):
    def set_state(self, state: Any) -> None:
        super().set_state({**state, "last": self.last})


class NoClock(Whole):
    """Ends an episode by a count that its pair leaves out."""

    def reset(self, *, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        self.clock = 0
        return super().reset(seed=seed)

    def step(self, action: np.ndarray) -> tuple[Any, ...]:
        self.clock += 1
        return (*super().step(action)[:3], self.clock >= 50, {})


class LateGust(NoClock):
    """Something that its pair leaves out acts late in an episode that has no end."""

    def step(self, action: np.ndarray) -> tuple[Any, ...]:
        observation, reward, *rest = super().step(action)
        return observation + (self.clock > 200), reward, False, False, rest[2]


class SpaceWithoutSeed(Whole):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = type("Free", (), {"sample": lambda self: np.zeros(1)})()  # type: ignore[assignment]


class ResetWithoutSeed(Whole):
    def reset(self) -> tuple[np.ndarray, dict[str, Any]]:  # type: ignore[override]
        return super().reset(seed=0)


class ReturnsANumber(Whole):
    def step(self, action: np.ndarray) -> Any:
        return super().step(action)[1]


class LiveView(Whole):
    def get_state(self) -> Any:
        return {**super().get_state(), "body": self.body}


class Unseeded(Whole):
    def reset(self, *, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        return super().reset(seed=np.random.SeedSequence().entropy)  # type: ignore[arg-type]


class OneServer(Copied):
    """Keeps its body in its class, as simulators that talk to one server do."""

    shared: Any = None

    def reset(self, *, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        first = super().reset(seed=seed)
        type(self).shared = self.body
        return first

    def step(self, action: np.ndarray) -> tuple[Any, ...]:
        self.body = type(self).shared
        return super().step(action)


class AnewWhenCopied(Copied):
    """Is made anew where it is copied, as Gymnasium's MuJoCo environments are."""

    def __deepcopy__(self, memo: Any) -> "AnewWhenCopied":
        anew = type(self)()
        anew.reset(seed=0)
        anew.action_space = copy.copy(self.action_space)
        return anew


SIMULATORS: list[tuple[type[Whole], str]] = [
    (NoGenerator, r"restored by `set_state` in the same object and stepped again.*not put back: `wind`"),
    (NoLastAction, r"restored in the same object, `save` returns something else \(`last`"),
    (NoClock, r"saved after 9 steps.*at step \d+ the episode ended\); not put back: `clock`"),
    (LateGust, r"went elsewhere \(at step \d+ `observation`.*not put back: `clock`"),
    (SpaceWithoutSeed, r"its action space, a Free, has no `seed`.*seeds a space"),
    (ResetWithoutSeed, r"its `reset` takes no `seed`.*seeds whatever the simulator draws from"),
    (ReturnsANumber, r"TypeError: .*None of its own lines was running: look at what its methods returned"),
    (LiveView, r"what `save` returned changed while the world went on \(`body`.*Return a copy"),
    (Unseeded, r"reset with one seed, took the same steps, and differ.*which `reset\(seed=\.\.\.\)` seeds"),
    (OneServer, r"went elsewhere|stepping another simulator in between changed"),
    (AnewWhenCopied, r"restored as a deep copy in the same object and stepped again, it went elsewhere"),
]
