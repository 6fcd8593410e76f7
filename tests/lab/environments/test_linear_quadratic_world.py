"""The world with a known answer: its closed form by hand, by simulation, and its noise by event."""

import numpy as np
import pytest

from worldfork.errors import WorldforkError
from worldfork.lab.environments.closed_form import expected_return
from worldfork.lab.environments.linear_quadratic import Matrices, World
from worldfork.randomness import Event, Purpose, fold_in, normals, words


def test_the_closed_form_by_hand() -> None:
    world = Matrices.pendulum(3.0)
    gain = np.array([[2.0, 1.0]])
    start, noise = world.start**2, world.noise**2
    price = np.diag([1.0, 0.1]) + 0.05 * np.array([[4.0, 2.0], [2.0, 1.0]])
    first = -(price[0, 0] * start[0] + price[1, 1] * start[1])
    assert expected_return(world, gain, levels=np.zeros(1)) == pytest.approx(first, rel=1e-14)
    # At level 1 the pull is 3: x' = [[1, .1], [.3 - .2, 1 - .1]] x + w.
    a, b = np.array([1.0, 0.1]), np.array([0.1, 0.9])
    moment = np.array([[a @ (start * a), a @ (start * b)], [a @ (start * b), b @ (start * b)]]) + np.diag(noise)
    second = -np.sum(price * moment)
    assert expected_return(world, gain, levels=np.ones(2)) == pytest.approx(first + second, rel=1e-12)


def test_action_noise_costs_its_price_even_at_once() -> None:
    world, gain = Matrices.pendulum(1.0), np.array([[0.0, 0.0]])
    quiet, noisy = (expected_return(world, gain, levels=np.zeros(1), action_noise=s) for s in (0.0, 2.0))
    assert quiet - noisy == pytest.approx(0.05 * 4.0)


@pytest.mark.parametrize(("level", "sigma"), [(0.0, 0.0), (0.8, 0.0), (0.8, 0.5)])
def test_the_closed_form_is_what_the_simulator_does_on_average(level: float, sigma: float) -> None:
    world, gain, count = World(scale=3.0), np.array([2.5, 1.5]), 4000
    state = world.reset(np.arange(count))
    total = np.zeros(count)
    random = np.random.default_rng(0)
    for _ in range(20):
        force = -state.observation @ gain + sigma * random.normal(size=count)
        state, _, reward = world.step(state, force[:, None], level)
        total += reward
    truth = expected_return(world.matrices, gain[None], levels=np.full(20, level), action_noise=sigma)
    assert abs(total.mean() - truth) < 4 * total.std() / np.sqrt(count)


def test_noise_is_a_function_of_seed_and_step() -> None:
    world = World(scale=1.0)
    state = world.reset(np.array([5, 9]))
    state, seen, _ = world.step(state, np.zeros((2, 1)))
    _, again, _ = world.step(state, np.zeros((2, 1)))
    drawn = normals(
        fold_in(words(Event(purpose=Purpose.PROCESS_NOISE, task="linear_quadratic")), 9, 1),
        2,
        Purpose.PROCESS_NOISE,
    )
    moved = world.matrices.transition @ seen[1]
    np.testing.assert_allclose(again[1], moved + world.matrices.noise * drawn, rtol=1e-12)


def test_overflow_is_marked_and_not_hidden() -> None:
    world = World(scale=1.0)
    state = world.reset(np.array([1, 2]))
    state.physics[0, :2] = 1e200
    after, _, reward = world.step(state, np.zeros((2, 1)))
    assert np.isinf(reward[0])
    state.physics[0, :2] = 1.7e308
    after, _, _ = world.step(state, np.zeros((2, 1)))
    np.testing.assert_array_equal(after.unstable, [True, False])
    with pytest.raises(WorldforkError, match="finite"):
        world.step(state, np.full((2, 1), np.nan))
