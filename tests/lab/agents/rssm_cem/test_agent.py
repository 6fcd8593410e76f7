"""The agent's contract: pure, position-independent at one shape, trained as its scope says, never non-finite."""

import dataclasses
import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from worldfork import randomness, registry
from worldfork.errors import WorldforkError
from worldfork.lab.agents import differentiable
from worldfork.lab.agents.base import AgentPlugin, Window
from worldfork.lab.agents.rssm_cem import agent as rssm_cem
from worldfork.lab.agents.rssm_cem import planning as kernels
from worldfork.lab.agents.rssm_cem.optimiser import flatten, initialise
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin
from worldfork.lab.agents.rssm_cem.rssm import RSSM
from worldfork.lab.environments import load
from worldfork.lab.planner.cem import CEM
from worldfork.ledger.provenance import sources
from worldfork.randomness import Event, Purpose

SETTINGS = {
    "size": "tiny", "deter": 16, "hidden": 16, "groups": 2, "classes": 4, "bins": 9,
    "candidates": 16, "horizon": 2, "iterations": 2, "elites": 4, "sequences": 2, "length": 8,
}  # fmt: skip
SETS, EPISODES = 3, 2
STEPS = 60


@functools.cache
def agent():
    return RSSMCEMPlugin(**SETTINGS).build(load("cartpole-swingup"), precision="tf32")


@functools.cache
def parameters():
    fresh = jax.jit(jax.vmap(agent().model.initialise))(jax.random.split(jax.random.key(0), SETS))
    # The heads start at zero; give them something to disagree about.
    random = np.random.default_rng(9)
    return {name: x + 0.3 * random.normal(size=x.shape[1:]).astype(np.float32) for name, x in fresh.items()}


@functools.cache
def optimiser():
    return flatten(jax.jit(jax.vmap(initialise))(parameters()))


def keys(*shape: int, purpose: Purpose = Purpose.PLANNING) -> np.ndarray:
    count = int(np.prod(shape))
    return randomness.fold_in(randomness.words(Event(purpose=purpose)), np.arange(count)).reshape(*shape, 2)


def observations(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(SETS, EPISODES, 5))


def window(rows: int = 40) -> Window:
    random = np.random.default_rng(1)
    seen = random.normal(size=(SETS, rows + 1, 5))
    return Window(
        observation=seen[:, :-1],
        action=random.uniform(-1, 1, (SETS, rows, 1)),
        reward=random.uniform(0, 4, (SETS, rows)),
        next_observation=seen[:, 1:],
        first=np.arange(rows)[None].repeat(SETS, 0) % 20 == 0,
        size=np.array([rows] * SETS),
    )


def decide(chosen: np.ndarray, plan_keys: np.ndarray) -> np.ndarray:
    params = {name: x[chosen] for name, x in parameters().items()}
    belief = agent().begin(params, observations()[chosen])
    return agent().act(params, belief, plan_keys).action


def test_same_key_same_action():
    everyone = np.arange(SETS)
    np.testing.assert_array_equal(*(decide(everyone, keys(SETS, EPISODES)) for _ in range(2)))


def test_permuting_the_batch_permutes_the_actions():
    order = np.array([2, 0, 1])
    plan_keys = keys(SETS, EPISODES)
    np.testing.assert_array_equal(decide(order, plan_keys[order]), decide(np.arange(SETS), plan_keys)[order])


def test_a_set_acts_as_it_does_among_copies_of_itself():
    """Who else is in the batch does not matter at one shape."""
    plan_keys = keys(SETS, EPISODES)
    alone = decide(np.array([1, 1, 1]), plan_keys[[1, 1, 1]])
    np.testing.assert_array_equal(alone[0], decide(np.arange(SETS), plan_keys)[1])
    np.testing.assert_array_equal(alone[0], alone[2])


def test_parameters_that_are_not_finite_give_the_zero_action_and_say_so():
    broken = {name: x.at[1].set(jnp.nan) for name, x in parameters().items()}
    decision = agent().act(broken, agent().begin(broken, observations()), keys(SETS, EPISODES))
    assert np.isfinite(decision.action).all()
    np.testing.assert_array_equal(decision.replaced, [[False] * 2, [True] * 2, [False] * 2])
    np.testing.assert_array_equal(decision.action[1], 0.0)


@pytest.mark.nightly
def test_surprise_falls_when_the_model_is_trained_on_what_it_sees():
    trained = agent().fit(
        parameters(),
        optimiser(),
        window(),
        steps=STEPS,
        scope="model",
        batch_keys=keys(SETS, purpose=Purpose.UPDATE_BATCH),
    )
    assert (trained.loss_after < trained.loss_before).all()
    assert (agent().loss(trained.parameters, window()) < agent().loss(parameters(), window())).all()


@pytest.mark.parametrize(("scope", "moved"), [("model", {"model"}), ("model+value", {"model", "value"})])
def test_only_the_scope_is_trained(scope, moved):
    batch_keys = keys(SETS, purpose=Purpose.UPDATE_BATCH)
    fit = agent().fit(parameters(), optimiser(), window(), steps=3, scope=scope, batch_keys=batch_keys)
    changed = {
        name.split("/")[0] for name, x in fit.parameters.items() if not np.array_equal(x, parameters()[name])
    }
    assert changed == moved


def test_a_rate_is_a_share_of_both_learning_rates():
    batch_keys = keys(SETS, purpose=Purpose.UPDATE_BATCH)
    slow = dataclasses.replace(agent(), model_rate=0.1 * agent().model_rate, value_rate=0.1 * agent().value_rate)
    given = {"steps": 2, "scope": "model+value", "batch_keys": batch_keys}
    share = agent().fit(parameters(), optimiser(), window(), rate=0.1, **given)
    own = slow.fit(parameters(), optimiser(), window(), **given)
    for name, x in share.parameters.items():
        np.testing.assert_array_equal(x, own.parameters[name])


def test_another_rate_or_number_of_steps_is_the_same_program():
    given = {"scope": "model", "batch_keys": keys(SETS, purpose=Purpose.UPDATE_BATCH)}
    agent().fit(parameters(), optimiser(), window(), steps=1, **given)
    compiled = differentiable._train._cache_size()
    agent().fit(parameters(), optimiser(), window(), steps=2, rate=0.3, **given)
    dataclasses.replace(agent(), model_rate=1e-5).fit(parameters(), optimiser(), window(), steps=3, **given)
    assert differentiable._train._cache_size() == compiled


def test_a_fit_in_two_parts_goes_on_from_the_optimiser_it_is_given():
    """Every step's minibatch is drawn from its own number, so that only the state that is handed on can differ."""
    batch_keys = keys(SETS, purpose=Purpose.UPDATE_BATCH)
    given = {"scope": "model", "batch_keys": batch_keys}
    first = agent().fit(parameters(), optimiser(), window(), steps=1, **given)
    assert float(first.optimiser["count"][0]) == float(optimiser()["count"][0]) + 1
    second = agent().fit(first.parameters, first.optimiser, window(), steps=1, **given)
    fresh = agent().fit(first.parameters, optimiser(), window(), steps=1, **given)
    assert not np.array_equal(second.parameters["model/gru/weight"], fresh.parameters["model/gru/weight"])
    np.testing.assert_array_equal(first.optimiser["mean/value/head/0/weight"], 0.0)


def test_zero_steps_are_the_identity():
    batch_keys = keys(SETS, purpose=Purpose.UPDATE_BATCH)
    fit = agent().fit(parameters(), optimiser(), window(), steps=0, scope="model", batch_keys=batch_keys)
    for before, after in ((parameters(), fit.parameters), (optimiser(), fit.optimiser)):
        assert before.keys() == after.keys()
        for name, x in before.items():
            np.testing.assert_array_equal(x, after[name])


def test_padding_after_the_window_is_never_read():
    shorter = window(40)
    size = np.array([30] * SETS)
    poisoned = Window(
        *(np.where((np.arange(40) < 30).reshape(1, 40, *[1] * (x.ndim - 2)), x, np.nan) for x in (
            shorter.observation, shorter.action, shorter.reward, shorter.next_observation)),
        shorter.first, size,
    )  # fmt: skip
    fits = [
        agent().fit(
            parameters(),
            optimiser(),
            rows,
            steps=3,
            scope="model",
            batch_keys=keys(SETS, purpose=Purpose.UPDATE_BATCH),
        )
        for rows in (
            Window(
                *[getattr(shorter, f) for f in ("observation", "action", "reward", "next_observation", "first")],
                size,
            ),
            poisoned,
        )
    ]
    for name, x in fits[0].parameters.items():
        np.testing.assert_array_equal(x, fits[1].parameters[name])
    assert np.isfinite(agent().loss(parameters(), poisoned)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"horison": 3}, r"horison: not a known setting; known here: .*horizon"),
        ({"candidates": "x"}, "candidates: expected a whole number; got 'x'"),
        ({"candidates": 64.5}, "candidates: expected a whole number"),
        ({"elites": -1}, "elites: expected 2 or more; got -1"),
        ({"candidates": 32}, "`elites` are chosen among `candidates`; got 64 of 32"),
        (
            {"candidates": 64, "elites": 8, "proposals": 64},
            "some of the `candidates` are drawn; got 64 `proposals`",
        ),
        ({"size": "huge"}, "size: expected 'compact' or 'tiny'"),
        ({"discount": 1.0}, "discount: expected less than 1"),
        ({"model_rate": 0.0}, "model_rate: expected more than 0"),
        ({"length": 0}, "length: expected 1 or more"),
        ({"fused": "no"}, "fused: expected true or false"),
    ],
)
def test_settings_are_judged_when_they_are_registered(settings, message):
    with pytest.raises(WorldforkError, match=message):
        registry.build("agents", "rssm_cem", AgentPlugin, settings=settings, where="[tasks.walker-walk.settings]")


def test_every_setting_reaches_the_agent():
    chosen = {
        "deter": 24, "groups": 3, "classes": 5, "hidden": 7, "bins": 11, "reward_high": 2.0, "discount": 0.9,
        "unimix": 0.02, "candidates": 20, "horizon": 4, "iterations": 3, "elites": 5, "keep": 0.2, "colour": 0.1,
        "temperature": 2.0, "initial_std": 0.5, "minimum_std": 0.1, "proposals": 2, "sequences": 3, "length": 9,
        "model_rate": 1e-3, "value_rate": 2e-3, "fused": False,
    }  # fmt: skip
    assert {*chosen, "size"} == set(RSSMCEMPlugin.model_fields)
    built = RSSMCEMPlugin(**chosen).build(load("cartpole-swingup"), precision="fp16")
    found = {**dataclasses.asdict(built), **dataclasses.asdict(built.model), **dataclasses.asdict(built.planner)}
    assert {name: found[name] for name in chosen} == chosen
    assert (built.model.observation_size, built.model.action_size) == (5, 1)


def test_defaults_are_those_of_the_search_and_the_model():
    built = RSSMCEMPlugin().build(load("cartpole-swingup"), precision="tf32")
    assert built.planner == CEM()
    assert built.model == RSSM(5, 1)


def test_naming_the_agent_imports_neither_jax_nor_pretraining():
    code = (
        "import sys; from worldfork import registry; from worldfork.lab.agents.base import AgentPlugin\n"
        "registry.build('agents', 'rssm_cem', AgentPlugin, settings={'size': 'tiny'})\n"
        "print([name for name in sys.modules if name == 'jax' or 'pretraining' in name])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
    assert not [name for name in sources(["worldfork.lab.agents.rssm_cem"]) if "pretraining" in name]


def test_what_can_not_be_trained_is_said_before_it_is_tried():
    with pytest.raises(WorldforkError, match="float32, tf32, fp16, bf16"):
        RSSMCEMPlugin().build(load("cartpole-swingup"), precision="fp8")
    assert agent().scopes == ("model", "model+value")
    with pytest.raises(WorldforkError, match="'model\\+value'"):
        agent().fit(parameters(), optimiser(), window(), steps=1, scope="all", batch_keys=keys(SETS))
    with pytest.raises(WorldforkError, match="holds 4 transitions"):
        agent().fit(parameters(), optimiser(), window(4), steps=1, scope="model", batch_keys=keys(SETS))


def test_the_loss_leaves_out_what_fills_no_sequence():
    """A window of 40 is five sequences of 8; of 45, the last five transitions count for nothing."""
    whole, longer = window(40), window(45)
    longer = Window(
        *(np.concatenate([getattr(whole, name), getattr(longer, name)[:, 40:]], 1) for name in (
            "observation", "action", "reward", "next_observation", "first")),
        longer.size,
    )  # fmt: skip
    np.testing.assert_array_equal(agent().loss(parameters(), whole), agent().loss(parameters(), longer))


@functools.cache
def imagined(one):
    """What the agent expects of sixteen ways to act."""

    @jax.jit
    def values(params, observation, actions):
        latent = agent().model.begin(params, observation)
        return rssm_cem.imagination(one.imagined, params, latent)(actions)

    params = {name: np.asarray(x)[0] for name, x in parameters().items()}
    actions = np.random.default_rng(0).uniform(-1, 1, (16, 2, 1)).astype(np.float32)
    return values(params, observations()[0, 0].astype(np.float32), actions)


@pytest.mark.parametrize(("precision", "learning"), [("float32", "float32"), ("fp16", "tf32"), ("bf16", "tf32")])
def test_a_precision_changes_what_is_imagined_by_rounding_alone(precision, learning):
    """16 bits are for planning: what filters and learns keeps TF32."""
    other = RSSMCEMPlugin(**SETTINGS).build(load("cartpole-swingup"), precision=precision)
    assert other.model.precision == learning
    plain, rounded = imagined(agent()), imagined(other)
    np.testing.assert_allclose(rounded, plain, rtol=0.05)
    if learning != precision:
        assert not np.array_equal(rounded, plain)


def test_on_a_gpu_the_search_runs_in_the_kernel_unless_the_study_says_otherwise(monkeypatch):
    """What a CPU can show of it: the program that is sent to the GPU's compiler."""
    monkeypatch.setattr(kernels, "fits", lambda: True)
    monkeypatch.setattr(kernels, "compiled", lambda text: "what NVIDIA's compiler makes of the source")
    for fused in (True, False):
        settings = {"size": "tiny", "hidden": 64, "candidates": 256, "iterations": 2, "fused": fused}
        one = RSSMCEMPlugin(**settings).build(load("cartpole-swingup"), precision="fp16")
        params = jax.eval_shape(jax.vmap(one.model.initialise), jax.random.split(jax.random.key(0), 2))
        begin = functools.partial(rssm_cem._begin, one.model, one.planner.horizon)
        belief = jax.eval_shape(begin, params, jnp.zeros((2, 3, 5)))
        plan_keys = jnp.zeros((2, 3, 2), jnp.uint32)
        traced = rssm_cem._act.trace(one.imagined, one.planner, params, belief, plan_keys, fused=one.fused)
        assert ("gpu.ptx" in traced.lower(lowering_platforms=("cuda",)).as_text()) == fused
