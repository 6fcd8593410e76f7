"""What an update and a search begin from: known answers for minibatches, Adam's state and the warm start."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_agent import EPISODES, SETS, agent, keys, observations, optimiser, parameters, window

from worldfork.lab.agents.sequences import Sequences, sample_sequences
from worldfork.randomness import Purpose


def counted(rows: int) -> Sequences:
    """Rows that say their own number."""
    number = jnp.arange(rows, dtype=jnp.float32)
    return Sequences(number[:, None], number[:, None], number, number[:, None], number == 0)


@pytest.mark.parametrize("size", [8, 9, 11, 20])
def test_every_start_of_a_window_is_drawn_and_no_other(size: int) -> None:
    """Of 20 rows the first `size` are real: sequences of 8 begin at 0, 1, ..., size - 8."""
    drawn = sample_sequences(counted(20), jnp.asarray(size), jax.random.key(0), sequences=400, length=8)
    starts = np.asarray(drawn.reward[:, 0])
    assert set(starts) == set(range(size - 8 + 1))
    np.testing.assert_array_equal(drawn.reward, starts[:, None] + np.arange(8))  # rows in order, none left out
    for field in ("observation", "action", "next_observation"):
        np.testing.assert_array_equal(getattr(drawn, field)[..., 0], drawn.reward)


def test_every_gradient_step_has_a_minibatch_of_its_own() -> None:
    """At a learning rate of zero the model stays, and the loss of step n is that of its minibatch alone.

    The observation grows along the window, so that where a sequence begins decides its loss; what the latent's
    samples add is small beside it. One minibatch for all steps would give one loss.
    """
    rows = window()
    growth = np.exp(np.linspace(0.0, 12.0, rows.reward.shape[1]))[None, :, None]
    grown = dataclasses.replace(rows, observation=0 * rows.observation + growth)
    grown = dataclasses.replace(grown, next_observation=grown.observation)
    given = {"scope": "model", "batch_keys": keys(SETS, purpose=Purpose.UPDATE_BATCH), "rate": 0.0}
    fits = [agent().fit(parameters(), optimiser(), grown, steps=steps, **given) for steps in (1, 2, 3, 4, 5, 6)]
    for name, x in parameters().items():
        np.testing.assert_array_equal(fits[-1].parameters[name], x)
    losses = np.array([fit.loss_after for fit in fits])
    np.testing.assert_array_equal([fit.loss_before for fit in fits], losses[:1].repeat(6, axis=0))
    assert (np.sort(losses, axis=0)[1:] - np.sort(losses, axis=0)[:-1] > 0).all()
    assert (losses.std(axis=0) > 5.0).all(), losses


def test_an_update_goes_on_from_the_moments_and_the_count_of_its_checkpoint() -> None:
    """Moments so large that the gradient adds nothing to them: Adam's step is then a number that is known."""
    count, rate = 10.0, 0.5
    moments = {name: jnp.full_like(x, 1e9 if name.startswith("mean/") else 1e18) for name, x in optimiser().items()}
    moments["count"] = jnp.full_like(optimiser()["count"], count)
    batch_keys = keys(SETS, purpose=Purpose.UPDATE_BATCH)
    fit = agent().fit(parameters(), moments, window(), steps=1, scope="model", batch_keys=batch_keys, rate=rate)
    mean, square = 0.9e9 / (1 - 0.9 ** (count + 1)), 0.999e18 / (1 - 0.999 ** (count + 1))
    step = -rate * agent().model_rate * mean / np.sqrt(square)
    for name, x in parameters().items():
        moved = np.asarray(fit.parameters[name]) - np.asarray(x)
        expected = step if name.startswith("model/") else 0.0
        np.testing.assert_allclose(moved, expected, rtol=1e-2, atol=1e-7)
    np.testing.assert_array_equal(fit.optimiser["count"], count + 1)


def test_a_search_begins_where_the_last_one_ended() -> None:
    """A search of one iteration that looks no further than a thousandth around its start returns its start."""
    near = dataclasses.replace(agent().planner, horizon=3, iterations=1, initial_std=1e-3, minimum_std=1e-3)
    searching = dataclasses.replace(agent(), planner=near)
    belief = searching.begin(parameters(), observations())
    assert belief.warm.shape == (SETS, EPISODES, 3, 1)
    np.testing.assert_array_equal(belief.warm, 0.0)  # an episode's first search has nothing to go on from
    belief = belief._replace(warm=jnp.broadcast_to(jnp.array([0.1, 0.4, -0.7])[:, None], belief.warm.shape))
    for step, expected in enumerate((0.1, 0.4, -0.7, -0.7)):
        decision = searching.act(parameters(), belief, keys(4, SETS, EPISODES)[step])
        np.testing.assert_allclose(decision.action, expected, atol=0.02)
        belief = searching.observe(parameters(), decision.belief, observations(step)).belief
