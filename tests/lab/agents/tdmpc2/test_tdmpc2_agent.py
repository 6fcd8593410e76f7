"""TD-MPC2 behind the agent's contract: scopes, groups, moving averages, signals, and training for mechanisms."""

import dataclasses
import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from untrained import SMALLEST

from worldfork import randomness, registry
from worldfork.errors import WorldforkError
from worldfork.lab.agents import differentiable
from worldfork.lab.agents.base import AgentPlugin, Checkpoint, Window
from worldfork.lab.agents.tdmpc2.agent import TDMPC2
from worldfork.lab.agents.tdmpc2.learning import GROUPS, SCOPES, imagination, learn
from worldfork.lab.agents.tdmpc2.optimiser import rates_of
from worldfork.lab.agents.tdmpc2.plugin import TDMPC2Plugin
from worldfork.lab.agents.training import TrainingPlan
from worldfork.lab.environments import load
from worldfork.lab.mechanisms.base import Mechanism
from worldfork.lab.planner.mppi import MPPI
from worldfork.randomness import Event, Purpose
from worldfork.testing import check_mechanism

SETS, EPISODES = 3, 2


@functools.cache
def world():
    return load("cartpole-swingup", threads=1, scale=0.5)


@functools.cache
def agent() -> TDMPC2:
    return TDMPC2Plugin(**SMALLEST).build(world(), precision="float32")


@functools.cache
def start():
    """Parameters that have something to say, and their optimisers."""
    parameters, optimiser = agent().fresh({}, keys(SETS, purpose=Purpose.PRETRAINING))
    random = np.random.default_rng(9)
    moved = {name: x + 0.3 * random.normal(size=x.shape).astype(np.float32) for name, x in parameters.items()}
    return {**moved, "scale/policy": jnp.full((SETS, 1), 2.5)}, optimiser


def keys(*shape: int, purpose: Purpose = Purpose.UPDATE_BATCH) -> np.ndarray:
    count = int(np.prod(shape))
    return randomness.fold_in(randomness.words(Event(purpose=purpose)), np.arange(count)).reshape(*shape, 2)


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


@functools.cache
def fitted(scope: str, steps: int = 3):
    return agent().fit(*start(), window(), steps=steps, scope=scope, batch_keys=keys(SETS))


def moved(before, after) -> set[str]:
    return {name for name, x in after.items() if not np.array_equal(x, before[name])}


EVERYTHING = "model+value+policy"


@pytest.mark.parametrize(
    ("scope", "parts"),
    [
        (EVERYTHING, {"model", "value", "target", "policy", "scale"}),
        pytest.param("model+value", {"model", "value", "target"}, marks=pytest.mark.nightly),
        ("model", {"model"}),
        pytest.param("value", {"value", "target"}, marks=pytest.mark.nightly),
    ],
)
def test_a_scope_trains_its_parts_and_averages_follow_what_is_trained(scope, parts):
    parameters, optimiser = start()
    fit = fitted(scope)
    changed = moved(parameters, fit.parameters)
    assert {name.split("/")[0] for name in changed} == parts
    assert changed == {name for name in parameters if name.split("/")[0] in parts}
    counts = {name: float(np.asarray(x).max()) for name, x in fit.optimiser.items() if name.startswith("count/")}
    assert counts == {"count/model": 3.0, "count/policy": 3.0 if "policy" in parts else 0.0}
    assert moved(optimiser, fit.optimiser) >= {"count/model"}
    assert np.isfinite(fit.loss_after).all()


def test_targets_move_a_hundredth_of_the_way_at_every_step():
    parameters, _ = start()
    fit = fitted(EVERYTHING, steps=1)
    for name, x in parameters.items():
        if name.startswith("target/"):
            ahead = fit.parameters[name.replace("target/", "value/")]
            np.testing.assert_allclose(fit.parameters[name], 0.99 * x + 0.01 * ahead, rtol=1e-5, atol=1e-6)


def test_pretraining_and_update_take_the_same_step():
    """The minibatch that `fit` draws, given to the update that pretraining is made of."""
    parameters, moments = start()
    one = agent()
    fit = fitted(EVERYTHING, steps=1)

    def by_hand(params, moments, rows, words):
        key = jax.random.fold_in(jax.random.wrap_key_data(words, impl="threefry2x32"), 0)
        pick_key, latent_key = jax.random.split(key)
        batch = one.loss_function.sample(rows, jnp.asarray(40), pick_key)
        return learn(one.loss_function, params, moments, batch, key=latent_key, rates=rates_of(one.rate))

    params, after, metrics = jax.jit(jax.vmap(by_hand))(
        parameters, moments, one.loss_function.rows(window()), keys(SETS)
    )
    for ours, theirs in ((params, fit.parameters), (after, fit.optimiser)):
        assert ours.keys() == theirs.keys()
        for name, x in theirs.items():
            np.testing.assert_allclose(ours[name], x, rtol=2e-4, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(metrics["model_loss"], fit.loss_after, rtol=1e-5)


def test_zero_steps_are_the_identity():
    parameters, optimiser = start()
    fit = fitted(EVERYTHING, steps=0)
    assert not moved(parameters, fit.parameters)
    assert not moved(optimiser, fit.optimiser)


def test_a_rate_is_a_share_and_other_numbers_are_the_same_program():
    given = {"scope": EVERYTHING, "batch_keys": keys(SETS), "steps": 2}
    share = agent().fit(*start(), window(), rate=0.1, **given)
    compiled = differentiable._train._cache_size()
    own = dataclasses.replace(agent(), rate=0.1 * agent().rate).fit(*start(), window(), **given)
    assert differentiable._train._cache_size() == compiled
    for name, x in share.parameters.items():
        np.testing.assert_allclose(x, own.parameters[name], rtol=1e-6, atol=1e-9)


@pytest.mark.nightly
def test_a_group_is_trained_alone():
    fit = agent().train(
        *start(), window(), plan=TrainingPlan(1, EVERYTHING, groups=("policy",)), batch_keys=keys(SETS)
    )
    changed = moved(start()[0], fit.parameters)
    assert {name.split("/")[0] for name in changed} == {"policy", "scale"}
    names = set(start()[0])
    held = [{name for name in names if name.startswith(prefixes)} for prefixes in GROUPS.values()]
    assert set().union(*held) == names
    assert sum(map(len, held)) == len(names)


def test_a_surprise_is_the_consistency_error_and_what_was_expected():
    parameters, _ = start()
    one, random = agent(), np.random.default_rng(0)
    before, after = random.normal(size=(2, SETS, EPISODES, 5))
    belief = one.begin(parameters, before)
    decision = one.act(parameters, belief, keys(SETS, EPISODES, purpose=Purpose.PLANNING))
    surprise = one.observe(parameters, decision.belief, after)
    assert set(surprise.signals) == {"error", "expected_reward", "value_spread"}
    networks = one.networks
    params = {name: x[1] for name, x in parameters.items()}
    latent = networks.encode(params, jnp.asarray(before[1, 0], jnp.float32))
    action = decision.action[1, 0]
    expected = networks.advance(params, latent, action)
    seen = networks.encode(params, jnp.asarray(after[1, 0], jnp.float32))
    np.testing.assert_allclose(surprise.signals["error"][1, 0], np.mean((expected - seen) ** 2), rtol=1e-4)
    reward = networks.reward(params, latent, action)
    np.testing.assert_allclose(surprise.signals["expected_reward"][1, 0], reward, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(surprise.belief.latent[1, 0], seen, rtol=1e-4, atol=1e-6)


def test_a_plan_is_worth_its_rewards_and_the_values_at_its_end():
    networks = agent().networks
    params = {name: x[0] for name, x in start()[0].items()}
    latent = networks.encode(params, jnp.ones(5))
    actions, key = jnp.linspace(-1, 1, 6).reshape(2, 3, 1), jax.random.key(5)
    value = imagination(networks, params, latent)(actions, key)
    expected, after = 0.0, jnp.broadcast_to(latent, (2, 8))
    for step in range(3):
        expected += 0.98**step * networks.reward(params, after, actions[:, step])
        after = networks.advance(params, after, actions[:, step])
    last = networks.policy(params, after).sample(jax.random.normal(jax.random.split(key)[1], (2, 1)))
    ends = networks.decode(networks.value_logits(params, after, last))
    np.testing.assert_allclose(value, expected + 0.98**3 * ends.mean(0), rtol=1e-4)


def test_parameters_that_are_not_finite_give_the_zero_action_and_say_so():
    broken = {name: x.at[1].set(jnp.nan) for name, x in start()[0].items()}
    belief = agent().begin(broken, np.ones((SETS, EPISODES, 5)))
    decision = agent().act(broken, belief, keys(SETS, EPISODES, purpose=Purpose.PLANNING))
    assert np.isfinite(decision.action).all()
    np.testing.assert_array_equal(decision.replaced, [[False] * 2, [True] * 2, [False] * 2])
    np.testing.assert_array_equal(decision.action[1], 0.0)


def test_what_can_not_be_trained_is_said_before_it_is_tried():
    with pytest.raises(WorldforkError, match="float32, tf32, fp16, bf16"):
        TDMPC2Plugin().build(world(), precision="fp8")
    with pytest.raises(WorldforkError, match="'model\\+value\\+policy'"):
        agent().fit(*start(), window(), steps=1, scope="all", batch_keys=keys(SETS))
    short = dataclasses.replace(window(40), first=np.ones((SETS, 40), bool))
    with pytest.raises(WorldforkError, match="none of 3 in a row within one episode"):
        agent().fit(*start(), short, steps=1, scope="model", batch_keys=keys(SETS))


def test_every_setting_reaches_the_agent():
    chosen = {
        "latent": 16, "encoder": 7, "hidden": 9, "values": 3, "dropout": 0.02, "discount": 0.9,
        "candidates": 20, "proposals": 5, "horizon": 4, "iterations": 3, "elites": 6, "temperature": 0.7,
        "minimum_std": 0.1, "maximum_std": 1.5, "sequences": 3, "length": 5, "rate": 1e-3,
    }  # fmt: skip
    assert {*chosen, "size"} == set(TDMPC2Plugin.model_fields)
    built = TDMPC2Plugin(**chosen).build(world(), precision="bf16")
    found = {**dataclasses.asdict(built), **dataclasses.asdict(built.networks), **dataclasses.asdict(built.planner)}
    assert {name: found[name] for name in chosen} == chosen
    assert (built.networks.precision, built.imagined.precision) == ("tf32", "bf16")
    default = TDMPC2Plugin().build(world(), precision="tf32")
    assert default.planner == MPPI()
    assert (default.networks.discount, default.scopes) == (0.98, tuple(SCOPES))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"candidates": 32}, "`elites` are chosen among `candidates`; got 64 of 32"),
        ({"proposals": 512}, "`proposals` are some of the `candidates`"),
        ({"size": "2M"}, "size: expected '1M', '5M' or 'tiny'"),
        ({"values": 1}, "values: expected 2 or more"),
    ],
)
def test_settings_are_judged_when_they_are_registered(settings, message):
    with pytest.raises(WorldforkError, match=message):
        registry.build("agents", "tdmpc2", AgentPlugin, settings=settings)


def test_naming_the_agent_imports_no_jax():
    code = (
        "import sys; from worldfork import registry; from worldfork.lab.agents.base import AgentPlugin\n"
        "registry.build('agents', 'tdmpc2', AgentPlugin, settings={'size': 'tiny'})\n"
        "print([name for name in sys.modules if name == 'jax' or 'pretraining' in name])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def checkpoint(index: int) -> Checkpoint:
    parts = [{name: x[index : index + 1] for name, x in arrays.items()} for arrays in start()]
    filled = {field.name: getattr(window(), field.name) for field in dataclasses.fields(Window)}
    columns = {name: values[:1] for name, values in filled.items() if values is not None}
    return Checkpoint(*parts, 0.0, str(index), replay=Window(**columns))


@pytest.mark.nightly
def test_it_keeps_the_contract_of_a_mechanisms_agent():
    check_mechanism("finetune", agent=agent(), environment=world(), checkpoint=checkpoint(0),
                    settings={"steps": 2, "scope": EVERYTHING})  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("rehearsal", {"share": 0.25}),
        ("anchor", {"strength": 10.0, "importance": "fisher"}),
        ("adapter", {"rank": 1}),
        ("partial", {"groups": ["value"]}),
        ("shrink-and-perturb", {"toward": "fresh", "keep": 0.5}),
        ("reset", {"to": "fresh", "groups": ["policy"]}),
        ("accept-if-better", {}),
        ("finetune", {"optimiser": "adamw", "learning_rate": 0.01, "weight_decay": 0.1}),
    ],
)
def test_every_mechanism_works_with_it(name, settings):
    given = {"steps": 2, "scope": EVERYTHING, **settings}
    built = registry.build("mechanisms", name, Mechanism, settings=given)
    check_mechanism(built, agent=agent(), environment=world(), checkpoint=checkpoint(0))
