"""Courses in JAX: what is trained, on what, and that numbers are data. A structure compiles: most run nightly."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_agent import SETS, agent, keys, optimiser, parameters, window

from worldfork.lab.agents import differentiable
from worldfork.lab.agents.rssm_cem.agent import GROUPS, SCOPES, SequenceLoss
from worldfork.lab.agents.training import Adapter, Descent, L2Penalty, Rehearsal, TrainingPlan
from worldfork.randomness import Purpose


def train(plan: TrainingPlan, *, start=None, rows=None):
    batch_keys = keys(SETS, purpose=Purpose.UPDATE_BATCH)
    given = parameters() if start is None else start
    return agent().train(given, optimiser(), rows or window(), plan=plan, batch_keys=batch_keys)


def moved(fit) -> set[str]:
    return {name for name, x in fit.parameters.items() if not np.array_equal(x, parameters()[name])}


def test_every_parameter_is_in_a_group_and_every_group_holds_some():
    names = set(parameters())
    held = {group: {name for name in names if name.startswith(prefixes)} for group, prefixes in GROUPS.items()}
    assert set().union(*held.values()) == names
    assert all(held.values())
    assert held["heads"] == held["reward"] | held["value"]


def test_a_minibatch_is_mixed_sequence_by_sequence():
    recent, old = jnp.zeros((4, 3, 2)), jnp.ones((4, 3, 2))
    for count in range(5):
        mixed = differentiable._mixed(np.int32(count), old, recent)
        np.testing.assert_array_equal(mixed.sum((1, 2)), [6.0] * count + [0.0] * (4 - count))


def test_a_window_is_cut_into_whole_sequences_and_padding_is_none():
    loss_function = SequenceLoss(agent().model, 2, 8)
    rows = jax.tree.map(lambda x: x[0], loss_function.rows(window()))
    pieces, real = loss_function.pieces(rows, jnp.asarray(17))
    assert pieces.reward.shape == (5, 1, 8)
    np.testing.assert_array_equal(real, [True, True, False, False, False])
    np.testing.assert_array_equal(pieces.reward[1, 0], rows.reward[8:16])


@pytest.mark.nightly
def test_adapters_of_a_rank_and_other_numbers_are_one_program():
    """The gain and bias stay; the matrices of the dynamics move by the rank; the optimiser is left as it was."""
    fit = train(TrainingPlan(6, "model", groups=("dynamics",), adapter=Adapter(2, 2.0)))
    weights = {name for name in parameters() if name.startswith(GROUPS["dynamics"]) and name.endswith("/weight")}
    assert moved(fit) == weights
    for name in weights:
        change = np.asarray(fit.parameters[name] - parameters()[name], np.float64)
        singular = np.linalg.svd(change, compute_uv=False)
        assert (singular[:, 2:] < 1e-6).all(), name  # the rounding of the sum with the matrix
    for name, x in fit.optimiser.items():
        np.testing.assert_array_equal(x, optimiser()[name])
    compiled = differentiable._train._cache_size()
    train(TrainingPlan(3, "model", 0.3, groups=("dynamics",), adapter=Adapter(2, 5.0)))
    assert differentiable._train._cache_size() == compiled


@pytest.mark.nightly
@pytest.mark.parametrize("group", ["decoder", "heads"])
def test_a_group_is_trained_as_far_as_the_scope_goes(group):
    fit = train(TrainingPlan(3, "model", groups=(group,)))
    inside = {name for name in parameters() if name.startswith(GROUPS[group])}
    assert moved(fit) == {name for name in inside if name.split("/")[0] in SCOPES["model"]}
    untouched = next(name for name in parameters() if name.startswith("model/gru"))
    np.testing.assert_array_equal(fit.optimiser[f"mean/{untouched}"], optimiser()[f"mean/{untouched}"])


@pytest.mark.nightly
def test_a_penalty_without_a_gradient_of_the_loss_leads_back_to_its_center():
    """The strength is so large that the loss is nothing beside it, under plain descent."""
    center = {name: x + 0.1 for name, x in parameters().items()}
    sgd = Descent(optimiser="sgd", learning_rate=1e-6)
    fit = train(TrainingPlan(1, "model", descent=sgd, penalty=L2Penalty(center, 1e6)))
    for name in ("model/gru/weight", "model/reward/1/bias"):
        np.testing.assert_allclose(fit.parameters[name], center[name], atol=2e-3)
    np.testing.assert_array_equal(fit.parameters["value/head/0/weight"], parameters()["value/head/0/weight"])


@pytest.mark.nightly
def test_importance_is_that_of_the_replay_and_of_its_real_rows():
    """Where the replay says that nothing matters, EWC is plain; what lies beyond its size is not read."""
    rows = window()
    short = dataclasses.replace(rows, size=np.array([16] * SETS))
    spoilt = dataclasses.replace(short, reward=np.where(np.arange(40) < 16, short.reward, 3.9))
    moved_center = {name: x + 0.01 for name, x in parameters().items()}
    fits = [
        train(TrainingPlan(3, "model", penalty=L2Penalty(moved_center, 50.0, replay)))
        for replay in (short, spoilt, rows)
    ]
    for name, x in fits[0].parameters.items():
        np.testing.assert_array_equal(x, fits[1].parameters[name])
    assert not np.array_equal(fits[0].parameters["model/gru/weight"], fits[2].parameters["model/gru/weight"])


@pytest.mark.nightly
def test_what_is_rehearsed_is_the_replay():
    """Another replay is another update, and the share is data."""
    other = dataclasses.replace(window(), reward=window().reward[:, ::-1].copy())
    fits = [train(TrainingPlan(3, "model", rehearsal=Rehearsal(replay, 0.5))) for replay in (window(), other)]
    assert not np.array_equal(fits[0].parameters["model/gru/weight"], fits[1].parameters["model/gru/weight"])
    compiled = differentiable._train._cache_size()
    train(TrainingPlan(3, "model", rehearsal=Rehearsal(other, 0.9)))
    assert differentiable._train._cache_size() == compiled


@pytest.mark.nightly
def test_sets_take_their_own_number_of_steps_by_another_optimiser():
    adam = Descent(optimiser="adam", learning_rate=1e-3, schedule="linear", warmup=1)
    together = train(TrainingPlan(np.array([2, 5, 5]), "model", descent=adam))
    alone = train(TrainingPlan(5, "model", descent=adam))
    for name in ("model/gru/weight", "model/decoder/0/weight"):
        ours, theirs = np.asarray(together.parameters[name]), np.asarray(alone.parameters[name])
        np.testing.assert_allclose(ours[1:], theirs[1:], rtol=1e-4, atol=1e-6)
        assert not np.allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(together.optimiser["count"], optimiser()["count"])
