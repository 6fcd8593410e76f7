"""Films: the states and returns of one episode, whichever half of the batch it is in, and nothing else changed."""

import numpy as np
import pytest

from worldfork.lab.agents.linear_quadratic import LinearQuadraticPlugin
from worldfork.lab.environments.linear_quadratic import World
from worldfork.lab.episode_log import Film
from worldfork.lab.episodes import Draws, roll_out
from worldfork.randomness import Event, Purpose

WORLD = World(scale=3.0)
AGENT = LinearQuadraticPlugin().build(WORLD, precision="float64")
EVENT = Event(purpose=Purpose.INITIAL_STATE, task="linear_quadratic", checkpoint="0", fork=3)
SETS = 3
# Different parameter sets, so that a film of the wrong one is seen.
PARAMETERS = {
    "A": np.stack([WORLD.matrices.transition * (1 + 0.1 * p) for p in range(SETS)]),
    "B": np.stack([WORLD.matrices.control] * SETS),
}


@pytest.mark.parametrize("halves", [1, 2])
@pytest.mark.parametrize("episode", [0, 2, 4])
def test_a_film_ends_in_the_return_bit_for_bit(halves: int, episode: int) -> None:
    told: list[int] = []
    film = Film([2, 0], episode=episode, progress=told.append)
    draws = Draws.of([EVENT] * SETS, np.arange(5))
    levels = np.full((SETS, WORLD.episode_steps), 0.5)
    options = {"levels": levels, "action_noise": 0.3, "halves": halves}
    rolled = roll_out(AGENT, WORLD, PARAMETERS, draws, trace=True, record=film, **options)
    plain = roll_out(AGENT, WORLD, PARAMETERS, draws, **options)
    np.testing.assert_array_equal(rolled.returns, plain.returns)
    assert rolled.trace is not None
    moments = WORLD.episode_steps + 1
    assert told == list(range(moments))
    assert film.physics.shape[:2] == (2, moments)
    np.testing.assert_array_equal(film.physics[:, 0], rolled.received.start[[2, 0], episode])
    # The first two numbers of this world's state are what is observed.
    np.testing.assert_array_equal(film.physics[:, :-1, :2], rolled.trace.observation[[2, 0], episode])
    assert film.returns[:, -1].tolist() == rolled.returns[[2, 0], episode].tolist()
    assert (film.returns[:, 0] == 0).all()
