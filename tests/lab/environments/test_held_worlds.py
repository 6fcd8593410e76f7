"""A simulation that still holds a row goes on from it; everything else is restored, and nothing else differs."""

from typing import ClassVar

import numpy as np
import pytest

from worldfork.lab.environments import State, concatenate, restorable
from worldfork.lab.environments.restorable import Advanced, OneAtATime, Simulation


class Counted(Simulation):
    """Adds up its actions, and counts how often any of its kind was restored."""

    goes_on = True
    observation_size, action_size, action_bound = 1, 1, 1.0
    restored: ClassVar[list[float]] = []

    def another(self) -> "Counted":
        return type(self)()

    def set_factor(self, factor: float) -> None:
        pass

    def begin(self, seed: int) -> np.ndarray:
        self.place = float(seed)
        return np.array([self.place])

    def advance(self, action: np.ndarray) -> Advanced:
        self.place += float(action[0])
        return Advanced(np.array([self.place]), 1.0)

    def save(self) -> np.ndarray:
        return np.array([self.place])

    def restore(self, row: np.ndarray) -> None:
        self.place = float(row[0])
        self.restored.append(self.place)

    def parameters(self) -> dict[str, float]:
        return {"none": 1.0}


class Restored(Counted):
    goes_on = False


def world(kind: type[Counted] = Counted, threads: int = 1) -> OneAtATime:
    names = {"name": "counted", "simulator": "none", "parameter": "none"}
    return OneAtATime(kind, **names, episode_steps=9, action_repeat=1, scale=1.0, threads=threads, can_end=False)


def step(environment: OneAtATime, state: State) -> tuple[State, int]:
    """Take a step, and say how many worlds were restored for it; what it leads to is the same in any case."""
    Counted.restored.clear()
    action = np.full((len(state), 1), 0.125)
    after, observation, _ = environment.step(state, action)
    assert np.array_equal(observation, state.observation + 0.125)
    return after, len(Counted.restored)


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_that_follow_one_another_are_not_restored(threads: int) -> None:
    environment = world(threads=threads)
    state = environment.reset(np.arange(7))
    for _ in range(3):
        state, restored = step(environment, state)
        assert restored == 0
    state, restored = step(environment, state[np.array([5, 0, 3])])
    assert restored == 0


def test_halves_that_are_stepped_in_turn_are_not_restored() -> None:
    environment = world()
    state = environment.reset(np.arange(8))
    halves = [state[:4], state[4:]]
    for _ in range(3):
        for place in range(2):
            halves[place], restored = step(environment, halves[place])
            assert restored == 0
    assert np.array_equal(concatenate(halves).observation[:, 0], np.arange(8) + 0.375)


def test_a_row_that_was_asked_for_before_is_restored() -> None:
    environment = world()
    state = environment.reset(np.arange(4))
    step(environment, state)
    assert step(environment, state)[1] == 4
    assert step(environment, state[np.array([1, 1, 1])])[1] == 3


def test_one_bit_makes_another_row() -> None:
    environment = world()
    state = environment.reset(np.array([0, 0, 5]))
    state.physics[0, 1] = -0.0
    state.physics[2, 1] = np.nextafter(5.0, 6.0)
    Counted.restored.clear()
    environment.step(state, np.zeros((3, 1)))
    assert sorted(Counted.restored) == [0.0, 5.000000000000001]


def test_rows_that_begin_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations are found by the beginning of a row: none of it here, so that all rows begin alike."""
    monkeypatch.setattr(restorable, "HASHED", 0)
    environment = world()
    state = environment.reset(np.arange(4))
    for _ in range(3):
        state, _ = step(environment, state)


def test_worlds_beyond_those_that_are_kept_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restorable, "KEPT", 4)
    environment = world(threads=2)
    state = environment.reset(np.arange(6))
    for _ in range(3):
        state, restored = step(environment, state)
        assert restored == 2


def test_a_simulation_that_has_not_been_shown_to_go_on_is_always_restored() -> None:
    environment = world(Restored)
    state = environment.reset(np.arange(3))
    for _ in range(2):
        state, restored = step(environment, state)
        assert restored == 3
