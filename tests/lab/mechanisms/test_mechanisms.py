"""What each mechanism does, in the linear-quadratic world, where a step can be done by hand."""

import dataclasses
import re

import numpy as np
import pytest

from worldfork import registry
from worldfork.built_in import BUILT_IN
from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Window
from worldfork.lab.agents.linear_quadratic import LinearQuadratic, LinearQuadraticPlugin
from worldfork.lab.agents.training import Descent, scheduled
from worldfork.lab.environments.linear_quadratic import World
from worldfork.lab.mechanisms.base import Mechanism, Origin, Update
from worldfork.randomness import Event, Purpose, words

AGENT = LinearQuadraticPlugin(learning_rate=0.1, momentum=0.0).build(World(scale=2.0), precision="float64")
SETS = 2
Arrays = dict[str, np.ndarray]


def matrices(seed: int) -> Arrays:
    random = np.random.default_rng(seed)
    return {"A": random.normal(size=(SETS, 2, 2)), "B": random.normal(size=(SETS, 2, 1))}


def theta(parameters: Arrays) -> np.ndarray:
    return np.concatenate([parameters["A"], parameters["B"]], axis=2)


def still(parameters: Arrays) -> Arrays:
    return {name: np.zeros_like(array) for name, array in parameters.items()}


def world_of(parameters: Arrays, *, rows: int = 40, sizes: tuple[int, ...] = (40, 30), seed: int = 0) -> Window:
    """Transitions of a world that the parameters describe exactly: their loss is 0 there, and so its gradient."""
    random = np.random.default_rng(seed)
    given = random.normal(size=(SETS, rows, 3))
    after = np.einsum("pij,pnj->pni", theta(parameters), given)
    first = np.zeros((SETS, rows), bool)
    return Window(given[..., :2], given[..., 2:], np.zeros((SETS, rows)), after, first, np.array(sizes))


def update(
    name: str,
    *,
    window: Window,
    current: Arrays,
    origin: Arrays | None = None,
    replay: Window | None = None,
    velocity: Arrays | None = None,
    agent: LinearQuadratic = AGENT,
    **settings: object,
) -> Update:
    mechanism = registry.build("mechanisms", name, Mechanism, settings={"steps": 1, "window": 100, **settings})
    assert not mechanism.objection(agent, shortest=30, longest=40)
    origin = current if origin is None else origin
    return mechanism.update(
        agent,
        current,
        optimiser=velocity or still(current),
        origin=Origin(origin, still(origin), replay),
        window=window,
        batch_keys=np.stack([words(Event(purpose=Purpose.UPDATE_BATCH, fork=fork)) for fork in range(SETS)]),
    )


def test_an_anchor_pulls_toward_the_checkpoint_and_not_toward_the_current_parameters() -> None:
    """Where the loss has no gradient, the step is the penalty's alone: rate x strength of the way back."""
    current, origin = matrices(0), matrices(1)
    penalised = update("anchor", window=world_of(current), current=current, origin=origin, strength=0.5)
    np.testing.assert_allclose(
        theta(penalised.parameters), theta(current) - 0.05 * (theta(current) - theta(origin))
    )
    at_home = update("anchor", window=world_of(current), current=current, strength=0.5)
    np.testing.assert_allclose(theta(at_home.parameters), theta(current), atol=1e-12)


def test_elastic_weights_are_held_by_the_mean_squared_gradient_of_the_replay() -> None:
    current, origin = matrices(0), matrices(1)
    replay = world_of(matrices(2), rows=3, sizes=(3, 2), seed=5)
    penalised = update(
        "anchor", window=world_of(current), current=current, origin=origin, replay=replay, strength=0.5,
        importance="fisher",
    )  # fmt: skip
    for place, rows in enumerate((3, 2)):
        given = np.concatenate([replay.observation, replay.action], axis=2)[place, :rows]
        missed = given @ theta(origin)[place].T - replay.next_observation[place, :rows]
        fisher = np.mean((missed[:, :, None] * given[:, None, :]) ** 2, axis=0)
        away = theta(current)[place] - theta(origin)[place]
        np.testing.assert_allclose(theta(penalised.parameters)[place], theta(current)[place] - 0.05 * fisher * away)


def test_rehearsal_draws_its_share_from_the_replay_and_the_rest_from_the_window() -> None:
    """A world that the parameters describe has no gradient. With the window such a world, what moves is replay."""
    current, other = matrices(0), matrices(1)
    here, there = world_of(current), world_of(other, seed=3)
    moved = [
        update("rehearsal", window=here, current=current, replay=there, share=share).grad_norm
        for share in (0.25, 0.5, 0.9)
    ]
    assert (moved[0] > 0).all()
    assert (moved[0] < moved[1]).all()
    assert (moved[1] < moved[2]).all()
    nothing = update("rehearsal", window=here, current=current, replay=world_of(current, seed=4), share=0.5)
    np.testing.assert_allclose(nothing.grad_norm, 0.0, atol=1e-12)


def test_rehearsal_alone_learns_nothing_from_the_window() -> None:
    current, replay = matrices(0), world_of(matrices(1), seed=3)
    one, another = (
        update("rehearsal", window=world_of(matrices(seed)), current=current, replay=replay, share=1.0, steps=5)
        for seed in (2, 3)
    )
    for name in current:
        np.testing.assert_array_equal(one.parameters[name], another.parameters[name])
    assert (AGENT.loss(one.parameters, replay) < AGENT.loss(current, replay)).all()


def test_a_fraction_of_an_update_lies_between_before_and_after() -> None:
    current = matrices(0)
    given = {"window": world_of(matrices(1)), "current": current, "steps": 20}
    whole = update("finetune", **given).parameters
    for fraction in (0.25, 1.0, 1.5):
        part = update("interpolate", fraction=fraction, **given).parameters
        for name, before in current.items():
            np.testing.assert_array_equal(part[name], (1 - fraction) * before + fraction * whole[name])
    control = update("interpolate", groups=["control"], **given).parameters
    np.testing.assert_array_equal(control["A"], current["A"])
    np.testing.assert_array_equal(control["B"], whole["B"])


def test_rehearsal_forgets_less() -> None:
    origin, drifted = matrices(0), matrices(1)
    given = {"window": world_of(drifted), "current": origin, "steps": 300}
    old = world_of(origin, seed=3)
    losses = {
        name: AGENT.loss(update(name, **given, **more).parameters, old)
        for name, more in (("finetune", {}), ("rehearsal", {"replay": old, "share": 0.5}))
    }
    assert (losses["rehearsal"] < 0.5 * losses["finetune"]).all()


@pytest.mark.parametrize(("group", "moved"), [("transition", "A"), ("control", "B")])
def test_a_part_is_trained_alone_and_the_other_keeps_its_momentum_for_later(group: str, moved: str) -> None:
    current = matrices(0)
    velocity = {name: np.ones_like(array) for name, array in current.items()}
    after = update(
        "partial", window=world_of(matrices(1)), current=current, velocity=velocity, groups=[group], steps=3,
        agent=dataclasses.replace(AGENT, momentum=0.9),
    )  # fmt: skip
    for name in current:
        changed = not np.array_equal(after.parameters[name], current[name])
        assert changed == (name == moved)
        assert np.array_equal(after.optimiser[name], velocity[name]) == (name != moved)


def test_an_adapter_changes_the_matrix_by_its_rank_and_leaves_the_optimiser() -> None:
    current = matrices(0)
    after = update("adapter", window=world_of(matrices(1)), current=current, rank=1, steps=20)
    change = theta(after.parameters) - theta(current)
    singular = np.linalg.svd(change, compute_uv=False)
    assert (singular[:, 0] > 1e-3).all()
    assert (singular[:, 1] < 1e-12).all()
    for name, velocity in after.optimiser.items():
        np.testing.assert_array_equal(velocity, 0.0, err_msg=name)
    assert (after.loss_after < after.loss_before).all()


def test_an_adapters_factors_descend_along_the_gradient_of_the_loss() -> None:
    """The second step of a rank that suffices moves both factors; it is checked by differences of the loss."""
    current, seen = matrices(0), world_of(matrices(1))
    losses = [
        AGENT.loss(update("adapter", window=seen, current=current, rank=2, steps=steps).parameters, seen)
        for steps in (1, 50, 400)
    ]
    assert (losses[1] < losses[0]).all()
    assert (losses[2] < 0.05 * losses[0]).all()


def test_shrinking_and_perturbing() -> None:
    current, origin = matrices(0), matrices(1)
    given = {"window": world_of(current), "current": current, "origin": origin, "steps": 0}
    half = update("shrink-and-perturb", **given, keep=0.5, noise=0.0)
    np.testing.assert_allclose(theta(half.parameters), 0.5 * theta(current))
    back = update("shrink-and-perturb", **given, keep=0.25, noise=0.0, toward="checkpoint")
    np.testing.assert_allclose(theta(back.parameters), 0.25 * theta(current) + 0.75 * theta(origin))
    noisy = update("shrink-and-perturb", **given, keep=1.0, noise=0.1)
    away = (theta(noisy.parameters) - theta(current)) / 0.1
    assert 0.3 < away.std() < 2.0
    assert not np.array_equal(away[0], away[1])


def test_a_reset_goes_back_to_the_checkpoint_with_its_optimiser_then_trains() -> None:
    current, origin = matrices(0), matrices(1)
    seen, moving = world_of(matrices(2)), {name: np.ones_like(array) for name, array in current.items()}
    given = {"window": seen, "current": current, "origin": origin, "velocity": moving}
    alone = update("reset", **given, steps=0)
    np.testing.assert_array_equal(theta(alone.parameters), theta(origin))
    trained = update("reset", **given, steps=5)
    expected = update("finetune", window=seen, current=origin, steps=5)
    np.testing.assert_array_equal(theta(trained.parameters), theta(expected.parameters))
    part = update("reset", **given, steps=0, groups=["control"])
    np.testing.assert_array_equal(part.parameters["A"], current["A"])
    np.testing.assert_array_equal(part.parameters["B"], origin["B"])


def test_an_update_that_is_worse_on_what_it_has_not_seen_is_not_kept() -> None:
    """The older part of the windows is a world that the parameters do not know. The latest part of the first window
    is the same world, that of the second is one that they describe exactly."""
    current, drifted = matrices(0), matrices(1)
    seen, held = world_of(drifted, sizes=(40, 40)), world_of(current, sizes=(40, 40))
    mixed = seen.next_observation.copy()
    mixed[1, 32:] = held.next_observation[1, 32:]
    moving = {name: np.full_like(array, 0.5) for name, array in current.items()}
    after = update(
        "accept-if-better", window=dataclasses.replace(seen, next_observation=mixed), current=current,
        velocity=moving, steps=20, held_out=0.2,
    )  # fmt: skip
    assert after.param_shift[0] > 0.1
    assert after.param_shift[1] == 0
    np.testing.assert_array_equal(theta(after.parameters)[1], theta(current)[1])
    np.testing.assert_array_equal(after.optimiser["A"][1], moving["A"][1])
    assert not np.array_equal(after.optimiser["A"][0], moving["A"][0])
    assert after.loss_after[0] < after.loss_before[0]
    assert after.loss_after[1] == after.loss_before[1]
    np.testing.assert_array_equal(after.steps, 20)  # they were spent, kept or not
    strict = update("accept-if-better", window=seen, current=current, steps=1, held_out=0.2, margin=0.99)
    np.testing.assert_array_equal(strict.param_shift, 0.0)


def test_passes_are_the_same_dose_at_every_length_of_the_window() -> None:
    """Minibatches of 16: two passes over 40 transitions are 5 steps, over 30 they are 4."""
    current, seen = matrices(0), world_of(matrices(1))
    after = update("finetune", window=seen, current=current, passes=2.0)
    np.testing.assert_array_equal(after.steps, [5, 4])
    for place, steps in enumerate((5, 4)):
        alone = update("finetune", window=seen, current=current, steps=steps)
        np.testing.assert_array_equal(theta(after.parameters)[place], theta(alone.parameters)[place])
        assert after.grad_norm[place] == alone.grad_norm[place]


def test_a_schedule_scales_the_steps() -> None:
    """A line from 1 to 0 over 2 steps takes the first step in full and the second not at all."""
    current, seen = matrices(0), world_of(matrices(1))
    falling = update("finetune", window=seen, current=current, steps=2, schedule="linear")
    once = update("finetune", window=seen, current=current, steps=1)
    np.testing.assert_allclose(theta(falling.parameters), theta(once.parameters))
    rising = update("finetune", window=seen, current=current, steps=1, warmup=3)
    np.testing.assert_allclose(
        theta(rising.parameters) - theta(current), 0.25 * (theta(once.parameters) - theta(current))
    )


@pytest.mark.parametrize(
    ("optimiser", "settings"),
    [("sgd", {"momentum": 0.7}), ("adam", {}), ("adamw", {"weight_decay": 0.3})],
)
def test_optimisers_are_those_of_optax(optimiser: str, settings: dict[str, float]) -> None:
    import jax
    import optax

    from worldfork.lab.agents.linear_quadratic_training import stepped

    random = np.random.default_rng(0)
    start, gradients = random.normal(size=(SETS, 6)), random.normal(size=(6, SETS, 6))
    descent = Descent.model_validate({"optimiser": optimiser, "learning_rate": 0.1, **settings})
    along = [0.1 + 0.9 * (1 + np.cos(np.pi * n / 5)) / 2 for n in range(6)]
    rates = [0.5 * 0.1 * share * min(1, (n + 1) / 3) for n, share in enumerate(along)]
    shares = [scheduled("cosine", n, 6, warmup=2, final=0.1, xp=np) for n in range(6)]
    np.testing.assert_allclose([0.5 * 0.1 * share for share in shares], rates, rtol=1e-12)
    x, state = start, (np.zeros_like(start), np.zeros_like(start))
    for step, (rate, gradient) in enumerate(zip(rates, gradients, strict=True)):
        x, state = stepped(descent, x, gradient, state, step=step, rate=rate, momentum=descent.momentum)
    with jax.enable_x64(True):
        build = getattr(optax, optimiser)
        theirs, transformation = jax.numpy.asarray(start), build(1.0, **settings)
        held = transformation.init(theirs)
        for rate, gradient in zip(rates, gradients, strict=True):
            moves, held = build(rate, **settings).update(jax.numpy.asarray(gradient), held, theirs)
            theirs = optax.apply_updates(theirs, moves)
    np.testing.assert_allclose(x, theirs, rtol=1e-9)


class BlackBox:
    """An agent that trains itself."""

    scopes, device, shape_sensitive = ("model",), "cpu", False
    begin, act, observe = AGENT.begin, AGENT.act, AGENT.observe
    loss, fit = AGENT.loss, AGENT.fit


BLACK_BOX_ASKED = [
    ("finetune", {}, ""),
    ("none", {}, ""),
    ("reset", {}, ""),
    ("shrink-and-perturb", {}, ""),
    ("accept-if-better", {}, ""),
    ("finetune", {"passes": 1.0}, "passes over the window can not be had here"),
    (
        "finetune",
        {"optimiser": "sgd", "learning_rate": 0.1, "warmup": 1},
        "`sgd` and a schedule of the learning",
    ),
    ("rehearsal", {}, "minibatches mixed with replay can not be had here: this agent trains itself"),
    ("anchor", {"strength": 1.0}, "a penalty on parameters can not be had"),
    ("partial", {"groups": ["dynamics"]}, "groups of parameters can not be had"),
    ("interpolate", {}, "a part of an update can not be had"),
    ("adapter", {}, "adapters beside its weights can not be had"),
    ("shrink-and-perturb", {"toward": "fresh"}, "fresh parameters can not be had"),
    ("reset", {"to": "fresh"}, "fresh parameters can not be had"),
]


def test_a_black_box_is_asked_about_all_that_come_with_worldfork() -> None:
    assert {name for name, _, _ in BLACK_BOX_ASKED} == set(BUILT_IN["mechanisms"])


@pytest.mark.parametrize(("name", "settings", "words_said"), BLACK_BOX_ASKED)
def test_a_black_box_does_what_acts_on_data_and_parameters_and_the_rest_is_refused(
    name: str, settings: dict[str, object], words_said: str
) -> None:
    mechanism = registry.build("mechanisms", name, Mechanism, settings={"steps": 3, "window": 100, **settings})
    squares = LinearQuadraticPlugin(method="least_squares").build(World(scale=2.0), precision="float64")
    for agent in (BlackBox(), squares):
        objection = mechanism.objection(agent, shortest=30, longest=40)
        assert (words_said in objection) if words_said else not objection
    if not words_said:
        current = matrices(0)
        moved = mechanism.update(
            BlackBox(),
            current,
            optimiser=still(current),
            origin=Origin(matrices(1), still(current)),
            window=world_of(matrices(2)),
            batch_keys=np.stack([words(Event(purpose=Purpose.UPDATE_BATCH, fork=fork)) for fork in range(SETS)]),
        )
        assert (moved.param_shift > 0).all() == (name != "none")


@pytest.mark.parametrize(
    ("name", "settings", "words_said"),
    [
        (
            "partial",
            {"groups": ["decoder"]},
            r"no group of parameters 'decoder' here; the agent has dynamics, trans",
        ),
        ("rehearsal", {"share": 0.01}, r"a share of 0\.01 of a minibatch of 16 is 0 of them"),
        ("accept-if-better", {"held_out": 0.01}, r"of a window of 30 transitions a share of 0\.01 holds out 0"),
    ],
)
def test_settings_that_do_not_fit_the_agent_are_objected_to(
    name: str, settings: dict[str, object], words_said: str
) -> None:
    mechanism = registry.build("mechanisms", name, Mechanism, settings=settings)
    with pytest.raises(AssertionError):
        update(name, window=world_of(matrices(0)), current=matrices(0), **settings)
    assert re.search(words_said, mechanism.objection(AGENT, shortest=30, longest=40))


@pytest.mark.parametrize(
    ("name", "settings", "words_said"),
    [
        ("anchor", {}, "strength: it is missing"),
        ("anchor", {"strength": 0.0}, "strength: expected more than 0"),
        ("partial", {}, "groups: it is missing"),
        ("partial", {"groups": []}, "groups: expected at least 1"),
        ("adapter", {"rank": 0}, "rank: expected 1 or more"),
        ("rehearsal", {"share": 1.1}, "share: expected 1.0 or less"),
        ("interpolate", {"fraction": 0.0}, "fraction: expected more than 0"),
        ("accept-if-better", {"held_out": 0.0}, "held_out: expected more than 0"),
        ("shrink-and-perturb", {"keep": 1.0, "noise": 0.0}, "neither shrink nor perturb"),
        ("reset", {"to": "zero"}, "to: expected 'checkpoint' or 'fresh'"),
        ("finetune", {"optimiser": "adam"}, "`adam` needs a `learning_rate`"),
        ("finetune", {"learning_rate": 0.1}, "has its own learning rates: `rate` is the share"),
        (
            "finetune",
            {"optimiser": "adam", "learning_rate": 0.1, "momentum": 0.9},
            "`momentum` is a setting of `sgd`",
        ),
        ("finetune", {"final": 0.5}, "`final` is where a `linear` or `cosine` schedule ends"),
        ("finetune", {"passes": 0.0}, "passes: expected more than 0"),
        ("none", {"rate": 0.5}, "rate: not a known setting"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name: str, settings: dict[str, object], words_said: str) -> None:
    with pytest.raises(WorldforkError) as refused:
        registry.build("mechanisms", name, Mechanism, settings=settings)
    assert words_said in str(refused.value)
