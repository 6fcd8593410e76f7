"""One environment acts with parameters prepared once and with programs of its own: the bits do not tell."""

import functools

import cuda_on_cpu  # beside this file
import jax
import numpy as np
import pytest

from worldfork.lab.agents.rssm_cem import RSSMCEMPlugin, agent, planning, small_batch
from worldfork.lab.agents.rssm_cem.agent import RSSMCEM
from worldfork.lab.agents.rssm_cem.small_batch import Frozen
from worldfork.lab.ahead import only_compiling
from worldfork.lab.environments import load
from worldfork.lab.episodes import Draws, Rolled, roll_out
from worldfork.lab.forks.ahead import rehearse_control_step
from worldfork.randomness import Event, Purpose

SMALL = {
    "size": "tiny", "deter": 16, "hidden": 16, "groups": 2, "classes": 4, "bins": 9,
    "candidates": 16, "horizon": 2, "iterations": 2, "elites": 4,
}  # fmt: skip
FOR_THE_KERNEL = {
    "size": "tiny", "deter": 64, "hidden": 64, "groups": 8, "classes": 8,
    "candidates": 128, "horizon": 2, "iterations": 2, "elites": 8,
}  # fmt: skip
STEPS = 6


@functools.cache
def world():
    return load("cartpole-swingup")


def build(settings: dict, precision: str = "tf32") -> RSSMCEM:
    return RSSMCEMPlugin(**settings).build(world(), precision=precision)


def parameters(of: RSSMCEM, sets: int = 1) -> dict[str, np.ndarray]:
    shapes = jax.eval_shape(of.model.initialise, jax.random.key(0))
    random = np.random.default_rng(3)
    return {name: random.normal(scale=0.4, size=(sets, *x.shape)).astype(np.float32) for name, x in shapes.items()}


def rolled(of: RSSMCEM, given: dict[str, np.ndarray], *, noise: float = 0.1) -> Rolled:
    draws = Draws.of([Event(purpose=Purpose.INITIAL_STATE, task=world().name)], np.arange(1))
    return roll_out(of, world(), given, draws, levels=np.zeros((1, STEPS)), action_noise=noise, trace=True)


def freezing(*, through_the_kernel: bool):
    """An agent that acts as with a kernel, wherever it is."""
    return lambda self, given, *, sets, episodes: small_batch.freeze(
        given, self.compiled_for, kernel=through_the_kernel
    )


def assert_same(general: Rolled, frozen: Rolled) -> None:
    assert general.trace is not None
    assert frozen.trace is not None
    np.testing.assert_array_equal(general.returns, frozen.returns)
    np.testing.assert_array_equal(general.replaced, frozen.replaced)
    assert general.received.digests() == frozen.received.digests()
    np.testing.assert_array_equal(general.trace.action, frozen.trace.action)
    np.testing.assert_array_equal(general.trace.final, frozen.trace.final)
    assert set(frozen.trace.signals) == {"error", "kl"}
    for name, values in general.trace.signals.items():
        np.testing.assert_array_equal(values, frozen.trace.signals[name])


@pytest.mark.parametrize(
    ("search", "precision"), [({}, "tf32"), ({"keep": 0.5, "colour": 0.5, "temperature": 0.0}, "fp16")]
)
def test_a_roll_out_has_the_same_bits(search, precision, monkeypatch):
    one = build({**SMALL, **search}, precision)
    general = rolled(one, parameters(one))
    monkeypatch.setattr(RSSMCEM, "frozen", freezing(through_the_kernel=False))
    frozen = rolled(one, parameters(one))
    assert general.trace is not None
    assert np.ptp(general.trace.action) > 0.1
    assert_same(general, frozen)


def test_plans_without_a_finite_candidate_are_flagged_as_ever(monkeypatch):
    one = build(SMALL)
    broken = {
        name: x * np.float32("nan") if name.startswith("value/") else x for name, x in parameters(one).items()
    }
    general = rolled(one, broken, noise=0.0)
    monkeypatch.setattr(RSSMCEM, "frozen", freezing(through_the_kernel=False))
    frozen = rolled(one, broken, noise=0.0)
    np.testing.assert_array_equal(frozen.replaced, STEPS)
    assert frozen.trace is not None
    np.testing.assert_array_equal(frozen.trace.action, 0.0)
    assert_same(general, frozen)


@pytest.mark.skipif(cuda_on_cpu.COMPILER is None, reason="the kernel's source needs g++ to run on a CPU")
def test_the_kernel_finds_what_was_prepared_once(monkeypatch):
    """The kernel's own source, run on this CPU."""
    monkeypatch.setattr(planning, "run_blocks", cuda_on_cpu.run_blocks)
    one = build(FOR_THE_KERNEL, "fp16")
    given = parameters(one)
    prepared = small_batch.freeze(given, one.compiled_for, kernel=True).planning
    each_time = jax.jit(jax.vmap(functools.partial(planning.prepare, one.imagined)))(given)
    assert set(prepared) == set(each_time) == {"weights", "rows", "by_stoch", "by_deter"}
    for name, values in each_time.items():
        np.testing.assert_array_equal(values, prepared[name])
    monkeypatch.setattr(RSSMCEM, "frozen", freezing(through_the_kernel=True))
    frozen = rolled(one, given)
    monkeypatch.undo()
    monkeypatch.setattr(planning, "run_blocks", cuda_on_cpu.run_blocks)
    monkeypatch.setattr(agent, "available", lambda model, candidates: True)
    monkeypatch.setattr(RSSMCEM, "frozen", lambda self, given, *, sets, episodes: given)
    general = rolled(one, given)
    assert general.trace is not None
    assert frozen.trace is not None
    # Written out, a CPU rounds the search otherwise: close at the first step, which nothing has led to.
    np.testing.assert_allclose(general.trace.action[:, :, 0], frozen.trace.action[:, :, 0], atol=1e-3)


@pytest.mark.parametrize(("sets", "episodes"), [(1, 1), (1, 2), (2, 1)])
def test_only_one_environment_on_a_gpu_goes_this_way(sets, episodes, monkeypatch):
    one = build(FOR_THE_KERNEL, "fp16")
    given = parameters(one, sets)
    assert one.frozen(given, sets=sets, episodes=episodes) is given  # no kernel here
    monkeypatch.setattr(agent, "available", lambda model, candidates: True)
    assert isinstance(one.frozen(given, sets=sets, episodes=episodes), Frozen) == (sets * episodes == 1)


def test_equal_settings_share_their_programs():
    assert build(SMALL).compiled_for is build(SMALL).compiled_for
    assert build(SMALL).compiled_for is not build({**SMALL, "candidates": 18}).compiled_for


def test_signals_are_computed_once_and_only_if_they_are_read():
    computed = []

    def compute():
        computed.append("signals")
        return {"error": 1.0, "kl": 2.0}

    signals = small_batch.OnDemand(compute)
    assert computed == []
    assert (signals["kl"], sorted(signals), len(signals)) == (2.0, ["error", "kl"], 2)
    assert computed == ["signals"]


def test_the_answer_is_written_where_the_host_reads_it():
    one = build(SMALL)
    frozen = small_batch.freeze(parameters(one), one.compiled_for, kernel=False)
    outcome = small_batch.begin(frozen, np.zeros((1, 1, world().observation_size), np.float32))
    decision = small_batch.respond(frozen, outcome, np.zeros((1, 1, 2), np.uint32))
    assert decision.action.whole.sharding.memory_kind == "pinned_host"
    assert decision.belief.answer.sharding.memory_kind == jax.devices()[0].default_memory().kind
    np.testing.assert_array_equal(decision.action, decision.belief.answer[..., :-1])


def test_it_can_be_rehearsed(monkeypatch):
    one = build({**SMALL, "candidates": 18})  # a program that no other test has compiled
    monkeypatch.setattr(RSSMCEM, "frozen", freezing(through_the_kernel=False))
    given = parameters(one)
    with only_compiling():
        rehearse_control_step(one, world(), given, sets=1, episodes=1)
    np.testing.assert_array_equal(rolled(one, given).replaced, 0)
