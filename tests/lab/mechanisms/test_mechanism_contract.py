"""What every mechanism promises: no steps is the identity, and nothing outside the window is read."""

import numpy as np
import pytest

from worldfork import registry
from worldfork.built_in import BUILT_IN
from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Window
from worldfork.lab.agents.linear_quadratic import LinearQuadraticPlugin
from worldfork.lab.environments.linear_quadratic import World
from worldfork.lab.mechanisms.base import Mechanism, Origin, Update, last
from worldfork.randomness import Event, Purpose, words
from worldfork.testing import check_mechanism

AGENT = LinearQuadraticPlugin().build(World(scale=2.0), precision="float64")
SETTINGS: list[tuple[str, dict[str, object]]] = [
    ("finetune", {}),
    ("finetune", {"passes": 3.0, "optimiser": "adamw", "learning_rate": 0.01, "weight_decay": 0.1}),
    ("finetune", {"optimiser": "sgd", "learning_rate": 0.1, "momentum": 0.5, "schedule": "cosine", "warmup": 2}),
    ("none", {}),
    ("rehearsal", {"share": 0.25}),
    ("anchor", {"strength": 0.5}),
    ("anchor", {"strength": 10.0, "importance": "fisher"}),
    ("partial", {"groups": ["control"]}),
    ("interpolate", {"fraction": 0.5, "groups": ["control"]}),
    ("adapter", {"rank": 1}),
    ("shrink-and-perturb", {}),
    ("shrink-and-perturb", {"toward": "fresh", "keep": 0.5}),
    ("reset", {}),
    ("reset", {"to": "fresh", "groups": ["transition"]}),
    ("accept-if-better", {}),
]
every_mechanism = pytest.mark.parametrize(
    ("name", "settings"), SETTINGS, ids=[" ".join([name, *settings]) for name, settings in SETTINGS]
)


def build(name: str, *, steps: int = 5, window: int = 20, **settings: object) -> Mechanism:
    given = {"steps": steps, "window": window, **settings}
    return registry.build("mechanisms", name, Mechanism, settings=given)


def given() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], Window, np.ndarray]:
    random = np.random.default_rng(0)
    parameters = {"A": random.normal(size=(2, 2, 2)), "B": random.normal(size=(2, 2, 1))}
    optimiser = {name: np.zeros_like(array) for name, array in parameters.items()}
    shapes = {"observation": (2, 60, 2), "action": (2, 60, 1), "reward": (2, 60), "next_observation": (2, 60, 2)}
    arrays = {name: random.normal(size=shape) for name, shape in shapes.items()}
    seen = Window(**arrays, first=np.zeros((2, 60), bool), size=np.array([60, 15]))
    keys = np.stack([words(Event(purpose=Purpose.UPDATE_BATCH, fork=fork)) for fork in (1, 2)])
    return parameters, optimiser, seen, keys


def run(mechanism: Mechanism, *, window: Window | None = None) -> Update:
    parameters, optimiser, seen, keys = given()
    return mechanism.update(
        AGENT,
        parameters,
        optimiser=optimiser,
        origin=Origin(parameters, optimiser),
        window=window or seen,
        batch_keys=keys,
    )


@every_mechanism
def test_it_keeps_the_contract(name: str, settings: dict[str, object]) -> None:
    """What `worldfork.testing` asks of anybody's mechanism."""
    check_mechanism(name, settings=settings)


def test_all_that_come_with_worldfork_are_held_to_it() -> None:
    assert {name for name, _ in SETTINGS} == set(BUILT_IN["mechanisms"])


def test_no_steps_is_no_update_but_for_what_begins_elsewhere() -> None:
    """The kit asks for the identity wherever a mechanism does not say otherwise; these two say so, and no other."""
    moving = {name for name, settings in SETTINGS if not build(name, **settings).rests_without_steps}
    assert moving == {"reset", "shrink-and-perturb"}


@pytest.mark.parametrize(
    ("name", "settings"),
    [*SETTINGS, ("shrink-and-perturb", {"toward": "checkpoint"})],
)
def test_the_checkpoint_is_read_by_those_that_look_back_to_it_alone(name: str, settings: dict[str, object]) -> None:
    """As the table of docs/mechanisms.md says: the others do not notice another checkpoint."""
    mechanism = build(name, **settings)
    parameters, optimiser, seen, keys = given()
    replay = seen if mechanism.reads_replay else None
    updates = [
        mechanism.update(
            AGENT,
            parameters,
            optimiser=optimiser,
            origin=Origin({key: scale * x for key, x in parameters.items()}, optimiser, replay),
            window=seen,
            batch_keys=keys,
        )
        for scale in (1.0, 1.5)
    ]
    same = all(np.array_equal(*(one.parameters[key] for one in updates)) for key in parameters)
    looks_back = name == "anchor" or "checkpoint" in (
        getattr(mechanism, "to", ""),
        getattr(mechanism, "toward", ""),
    )
    assert same != looks_back


def test_what_the_mechanism_could_see_is_counted() -> None:
    for name in ("finetune", "none"):
        update = run(build(name))
        np.testing.assert_array_equal(update.transitions, [20, 15])


def test_a_gentler_update_takes_shorter_steps() -> None:
    def shift(**settings: float) -> np.ndarray:
        return run(build("finetune", steps=1, **settings)).param_shift

    np.testing.assert_array_equal(shift(rate=1.0), shift())
    np.testing.assert_allclose(shift(rate=0.1), 0.1 * shift())


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(WorldforkError, match=r"rate: expected (more than 0|a finite number|a number)"):
        build("finetune", rate=rate)


def test_fine_tuning_moves_the_parameters_and_counts_what_is_not_finite() -> None:
    parameters, _, seen, _ = given()
    update = run(build("finetune"))
    moved = np.sqrt(sum(((update.parameters[k] - parameters[k]) ** 2).sum(axis=(1, 2)) for k in parameters))
    np.testing.assert_allclose(update.param_shift, moved)
    assert (update.param_shift > 0).all()
    seen.next_observation[0, 55] = np.inf
    broken = run(build("finetune", steps=60), window=seen)
    np.testing.assert_array_equal(broken.non_finite, [6, 0])


def test_the_last_rows_are_the_last_rows() -> None:
    _, _, seen, _ = given()
    cut = last(seen, 20)
    np.testing.assert_array_equal(cut.observation[0], seen.observation[0, 40:])
    np.testing.assert_array_equal(cut.observation[1, :15], seen.observation[1, :15])
    assert (cut.observation[1, 15:] == 0).all()
    assert last(seen, 60) is seen
    shifted = last(seen, 20, same_shape=True)
    assert shifted.observation.shape == seen.observation.shape
    np.testing.assert_array_equal(shifted.size, cut.size)
    np.testing.assert_array_equal(shifted.observation[:, :20], cut.observation)
    assert (shifted.observation[:, 20:] == 0).all()


def test_an_unknown_mechanism_or_setting_is_answered() -> None:
    with pytest.raises(WorldforkError, match=r"no mechanism called 'dream'.*finetune, none"):
        build("dream")
    with pytest.raises(
        WorldforkError, match=r"rehearsal: not a known setting; known here: final, learning_rate, momentum, "
    ):
        build("finetune", rehearsal=1)
