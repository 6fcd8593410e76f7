"""Certainty-equivalent control: the right gain, a fit that fits, and digits that do not depend on the batch."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Agent, Window
from worldfork.lab.agents.linear_quadratic import LinearQuadratic, LinearQuadraticPlugin
from worldfork.lab.environments.linear_quadratic import World
from worldfork.randomness import Event, Purpose, words

WORLD = World(scale=3.0)


def agent(**settings: object) -> LinearQuadratic:
    return LinearQuadraticPlugin(**settings).build(WORLD, precision="float64")  # type: ignore[arg-type]


def parameters(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    a = WORLD.matrices.transition + 0.05 * random.normal(size=(count, 2, 2))
    return {"A": a, "B": WORLD.matrices.control + 0.02 * random.normal(size=(count, 2, 1))}


def window(count: int, rows: int, *, level: float = 0.0, padding: int = 0, noise: float = 0.0) -> Window:
    """Transitions of the world without noise, or with a little."""
    random = np.random.default_rng(1)
    x, u = random.normal(size=(count, rows, 2)), random.normal(size=(count, rows, 1))
    a = WORLD.matrices.transition + level * WORLD.matrices.slope
    after = x @ a.T + u @ WORLD.matrices.control.T + noise * random.normal(size=x.shape)

    def pad(values: np.ndarray) -> np.ndarray:
        return np.pad(values, [(0, 0), (0, padding), *[(0, 0)] * (values.ndim - 2)])

    reward, first = np.zeros((count, rows)), np.zeros((count, rows), bool)
    return Window(pad(x), pad(u), pad(reward), pad(after), pad(first), np.full(count, rows))


def keys(count: int) -> np.ndarray:
    return np.stack([words(Event(purpose=Purpose.UPDATE_BATCH, fork=index)) for index in range(count)])


def test_it_is_an_agent() -> None:
    assert isinstance(agent(), Agent)


def test_the_gain_solves_the_riccati_equation() -> None:
    some = parameters(4)
    q, r = WORLD.matrices.state_cost, WORLD.matrices.action_cost
    for a, b, gain in zip(some["A"], some["B"], agent().gain(some), strict=True):
        value = solve_discrete_are(a, b, q, r)
        np.testing.assert_allclose(gain, np.linalg.solve(r + b.T @ value @ b, b.T @ value @ a)[0], rtol=1e-9)


@pytest.mark.parametrize("method", ["gradient", "least_squares"])
def test_fitting_finds_the_drifted_world(method: str) -> None:
    some = parameters(2)
    optimiser = {name: np.zeros_like(array) for name, array in some.items()}
    seen = window(2, 200, level=1.0)
    fit = agent(method=method, learning_rate=0.2).fit(
        some, optimiser, seen, steps=2000, scope="model", batch_keys=keys(2)
    )
    truth = WORLD.matrices.transition + WORLD.matrices.slope
    np.testing.assert_allclose(fit.parameters["A"], np.broadcast_to(truth, (2, 2, 2)), atol=1e-6)
    assert (fit.loss_after < 1e-10).all()
    np.testing.assert_allclose(fit.loss_before, agent().loss(some, seen), rtol=0)


@pytest.mark.parametrize("method", ["gradient", "least_squares"])
def test_no_digit_depends_on_the_batch_or_the_padding(method: str) -> None:
    many, seen = parameters(7), window(7, 60, noise=0.1)
    optimiser = {name: np.zeros_like(array) for name, array in many.items()}
    chosen = agent(method=method)
    whole = chosen.fit(many, optimiser, seen, steps=20, scope="model", batch_keys=keys(7))
    padded = window(7, 60, noise=0.1, padding=13)
    for index in range(7):
        pick = np.array([index])
        alone = Window(**{name: values[pick] for name, values in padded.columns.items()}, size=padded.size[pick])
        single = chosen.fit(
            arrays.take(many, pick),
            arrays.take(optimiser, pick),
            alone,
            steps=20,
            scope="model",
            batch_keys=keys(7)[pick],
        )
        for name in ("A", "B"):
            np.testing.assert_array_equal(single.parameters[name][0], whole.parameters[name][index])
        assert single.loss_after[0] == whole.loss_after[index]
        np.testing.assert_array_equal(chosen.gain(single.parameters)[0], chosen.gain(whole.parameters)[index])


def test_parameters_that_are_not_finite_act_with_zero_and_say_so() -> None:
    broken = {name: np.full_like(array, np.nan) for name, array in parameters(1).items()}
    belief = agent().begin(broken, np.ones((1, 3, 2)))
    decision = agent().act(broken, belief, np.zeros((1, 3, 2), np.uint32))
    assert decision.replaced.all()
    assert (decision.action == 0).all()


def test_a_checkpoint_is_a_function_of_its_event_and_imperfect() -> None:
    world = World(scale=2.0)
    event = Event(purpose=Purpose.PRETRAINING, checkpoint="0")
    one, same, other = (
        LinearQuadraticPlugin().generate(agent(), world, e)
        for e in (event, event, Event(purpose=Purpose.PRETRAINING, checkpoint="1"))
    )
    assert one.digest == same.digest != other.digest
    assert one.clean_return == same.clean_return < 0
    assert 1e-4 < np.abs(one.parameters["A"][0] - world.matrices.transition).max() < 0.2


def test_wrong_settings_are_answered_with_the_known_ones() -> None:
    with pytest.raises(
        WorldforkError, match=r"rate: not a known setting; known here: batch, learning_rate, method"
    ):
        registry.build("agents", "linear_quadratic", LinearQuadraticPlugin, settings={"rate": 1})
    with pytest.raises(WorldforkError, match="float64"):
        LinearQuadraticPlugin().build(WORLD, precision="bf16")
    with pytest.raises(WorldforkError, match="scope 'model'"):
        agent().fit({}, {}, window(1, 5), steps=1, scope="model+value", batch_keys=keys(1))
    with pytest.raises(WorldforkError, match=r"no agent called 'dqn'.*linear_quadratic, rssm_cem"):
        registry.locate("agents", "dqn")


def test_arrays_are_handled_in_their_own_library() -> None:
    jnp = pytest.importorskip("jax.numpy")
    mixed = arrays.concatenate([{"w": jnp.ones((2, 3))}, {"w": np.zeros((1, 3), np.float32)}])
    assert isinstance(mixed["w"], type(jnp.ones(1)))
    assert arrays.size(mixed) == 3
    np.testing.assert_allclose(arrays.shift({"w": np.zeros((3, 3))}, mixed), [3**0.5, 3**0.5, 0.0])
    np.testing.assert_array_equal(
        arrays.count_non_finite({"w": np.array([[1.0, np.nan], [np.inf, np.nan]])}), [1, 2]
    )
    assert isinstance(WORLD, World)
