"""A simulation that still holds a row goes on from it; everything else is restored, and nothing else differs."""

from typing import ClassVar

import numpy as np
import pytest

from worldfork.lab.environments import State, concatenate, restorable
from worldfork.lab.environments.restorable import Advanced, OneAtATime, Simulation


class Counted(Simulation):
    """Adds up its actions, and counts how often any of its kind was restored."""

    goes_on = True
    name, simulator, parameter, can_end = "counted", "none", "none", False
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
    return OneAtATime(kind, first=kind(), episode_steps=9, action_repeat=1, scale=1.0, threads=threads)


def step(environment: OneAtATime, state: State) -> tuple[State, int]:
    """Take a step, and say how many worlds were restored for it; what it leads to is the same in any case."""
    Counted.restored.clear()
    action = np.full((len(state), 1), 0.125)
    after, observation, _ = environment.step(state, action)
    assert np.array_equal(observation, state.observation + 0.125)
    return after, len(Counted.restored)


def begun(environment: OneAtATime, worlds: int) -> State:
    """Return states after a first step, for which every world is restored from its row."""
    state, restored = step(environment, environment.reset(np.arange(worlds)))
    assert restored == worlds
    return state


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_that_follow_one_another_are_not_restored(threads: int) -> None:
    environment = world(threads=threads)
    state = begun(environment, 7)
    for _ in range(3):
        state, restored = step(environment, state)
        assert restored == 0
    state, restored = step(environment, state[np.array([5, 0, 3])])
    assert restored == 0


def test_halves_that_are_stepped_in_turn_are_not_restored() -> None:
    environment = world()
    state = begun(environment, 8)
    halves = [state[:4], state[4:]]
    for _ in range(3):
        for place in range(2):
            halves[place], restored = step(environment, halves[place])
            assert restored == 0
    assert np.array_equal(concatenate(halves).observation[:, 0], np.arange(8) + 0.5)


def test_a_row_that_was_asked_for_before_is_restored() -> None:
    environment = world()
    state = begun(environment, 4)
    step(environment, state)
    assert step(environment, state)[1] == 4
    assert step(environment, state[np.array([1, 1, 1])])[1] == 3


def test_one_bit_makes_another_row() -> None:
    environment = world()
    state = begun(environment, 2)
    state.physics[1, 1] = np.nextafter(state.physics[1, 1], 9.0)
    Counted.restored.clear()
    environment.step(state, np.zeros((2, 1)))
    assert Counted.restored == [state.physics[1, 1]]


def test_a_batch_beyond_the_simulations_that_are_kept_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restorable, "KEPT", 4)
    environment = world(threads=2)
    wide, narrow = begun(environment, 6), begun(environment, 3)
    for _ in range(2):
        wide, restored = step(environment, wide)
        assert restored == 6
        narrow, restored = step(environment, narrow)
        assert restored == 0


def test_no_more_simulations_are_made_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restorable, "KEPT", 4)
    environment = world()
    for seed in range(3):
        state = environment.reset(np.arange(3) + 10 * seed)
        for _ in range(2):
            state, _ = step(environment, state)
    assert len(environment._held) == 4


def test_a_simulation_that_has_not_been_shown_to_go_on_is_always_restored() -> None:
    environment = world(Restored)
    state = environment.reset(np.arange(3))
    for _ in range(2):
        state, restored = step(environment, state)
        assert restored == 3
