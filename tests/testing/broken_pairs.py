"""Pairs of functions that do not save and restore a simulator, and the words that tell their author."""

from typing import Any, ClassVar

import numpy as np

from worldfork.lab.environments.restorable import RestorablePlugin, generator_numbers, restore_generator


class Box:
    """The part of Gymnasium's spaces that is read."""

    low, high = np.array([-1.0]), np.array([1.0])


class Cart:
    """A cart on a rail with a gusty wind and a slow motor: position, speed, motor and generator are its state."""

    action_space = Box()

    def __init__(self) -> None:
        self.mass = 2.0

    def reset(self, *, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        self.np_random = np.random.default_rng(seed)
        self.body = self.np_random.normal(size=2)  # position and speed
        self.motor, self.clock = 0.0, 0
        return self.body.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.motor += 0.5 * (float(action[0]) - self.motor)
        gust = 0.1 * self.np_random.normal()
        self.body[1] += 0.1 * (self.motor + gust) / self.mass
        self.body[0] += 0.1 * self.body[1]
        self.clock += 1
        return self.body.copy(), -abs(float(self.body[0])), self.clock >= 60, False, {}


class Whole(RestorablePlugin):
    """The pair that is right."""

    simulator: ClassVar = "cart 1"
    parameter: ClassVar = "mass"
    episode_steps: int = 40

    def make(self) -> Cart:
        return Cart()

    def save(self, env: Cart) -> Any:
        return np.concatenate([env.body, [env.motor, env.clock], generator_numbers(env.np_random)])

    def restore(self, env: Cart, saved: np.ndarray) -> None:
        env.body, env.motor, env.clock = saved[:2].copy(), float(saved[2]), int(saved[3])
        restore_generator(env.np_random, saved[4:])

    def drift(self, env: Cart, factor: float) -> None:
        env.mass = 2.0 * factor

    def read(self, env: Cart) -> dict[str, float]:
        return {"mass": env.mass}


class NoGenerator(Whole):
    def save(self, env: Cart) -> Any:
        return super().save(env)[:4]

    def restore(self, env: Cart, saved: np.ndarray) -> None:
        env.body, env.motor, env.clock = saved[:2].copy(), float(saved[2]), int(saved[3])


class NoMotor(Whole):
    def save(self, env: Cart) -> Any:
        return np.delete(super().save(env), 2)

    def restore(self, env: Cart, saved: np.ndarray) -> None:
        motor = env.motor
        super().restore(env, np.insert(saved, 2, motor))


class NoClock(Whole):
    """Leaves out the count of its time limit."""

    episode_steps: int = 80

    def save(self, env: Cart) -> Any:
        return np.delete(super().save(env), 3)

    def restore(self, env: Cart, saved: np.ndarray) -> None:
        super().restore(env, np.insert(saved, 3, env.clock))


class HalfRestored(Whole):
    def restore(self, env: Cart, saved: np.ndarray) -> None:
        super().restore(env, np.concatenate([[0.0], saved[1:]]))


class LiveView(Whole):
    """Hands out the simulator's own array, of a simulator that is nothing else."""

    def make(self) -> Any:
        return Sled()

    def save(self, env: Any) -> Any:
        return env.body

    def restore(self, env: Any, saved: np.ndarray) -> None:
        env.body[:] = saved


class Sled(Cart):
    """A cart without wind, motor and clock."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.body[1] += 0.1 * float(action[0]) / self.mass
        self.body[0] += 0.1 * self.body[1]
        return self.body.copy(), -abs(float(self.body[0])), False, False, {}


class Growing(Whole):
    def save(self, env: Cart) -> Any:
        return np.concatenate([super().save(env), np.zeros(env.clock)])

    def restore(self, env: Cart, saved: np.ndarray) -> None:
        super().restore(env, np.concatenate([saved[:3], [0.0], saved[4:14]]))


class Wordy(Whole):
    def save(self, env: Cart) -> Any:
        return {"body": env.body}


class Compounding(Whole):
    def drift(self, env: Cart, factor: float) -> None:
        env.mass *= factor


class Undrifted(Whole):
    def drift(self, env: Cart, factor: float) -> None:
        pass


PAIRS: list[tuple[type[RestorablePlugin], str]] = [
    (NoGenerator, r"stepped again, it went elsewhere.*draws from its generator as it steps: keep that too"),
    (NoMotor, r"stepped again, it went elsewhere.*not put back: `motor`.*Of these, put"),
    (NoClock, r"saved after 9 steps.*at step \d+ the episode ended\); not put back: `clock`"),
    (HalfRestored, r"`save` returns something else.*sets every number that `save` returns"),
    (LiveView, r"what `save` returned changed while the world went on.*Return a copy"),
    (Growing, r"`save` returns something else \(float64 of shape \(\d+,\) became float64 of shape \(\d+,\)"),
    (Wordy, r"what `save` returned is object of shape \(\); expected numbers on one axis"),
    (Compounding, r"`read` says .*multiplies the nominal value, not the present one"),
    (Undrifted, r"with the factor 0\.5 `read` still says"),
]
