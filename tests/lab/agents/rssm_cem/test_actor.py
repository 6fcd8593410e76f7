"""The actor as a policy prior: what it proposes, and that no update touches it."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_agent import SETTINGS, keys
from test_pretraining import ShortWorlds, harvest
from test_recipe import SMALLEST

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Window
from worldfork.lab.agents.pretraining import loop
from worldfork.lab.agents.rssm_cem.actor import policy, propose
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin
from worldfork.lab.agents.rssm_cem.pretraining import Trainee, cut
from worldfork.lab.environments import load
from worldfork.lab.planner.cem import CEM
from worldfork.lab.tools.pretraining import read_recipe
from worldfork.randomness import Purpose

KEY = jax.random.key(3)


@functools.cache
def built(**settings):
    """An agent whose planner has proposals, and one parameter set of it."""
    agent = RSSMCEMPlugin(**SETTINGS, **settings).build(load("cheetah-run"), precision="tf32")
    params, moments = agent.fresh({}, keys(1))
    return agent, params, moments


def one_latent():
    agent, params, _ = built(proposals=4)
    params = {name: x[0] for name, x in params.items()}
    return agent.model, params, agent.model.begin(params, jnp.linspace(-1.0, 1.0, 17))


def test_the_first_proposal_follows_the_mean_of_the_actor_along_mean_latents():
    model, params, latent = one_latent()
    found = propose(
        model, params, params, latent, KEY, settings=CEM(candidates=8, elites=2, horizon=3, proposals=2)
    )
    assert found.shape == (2, 3, 6)
    for action in found[0]:
        np.testing.assert_allclose(action, policy(params, latent).mean, rtol=1e-5)
        deter = model.advance(params, latent, action)
        latent = latent._replace(deter=deter, stoch=model.mean(model.prior(params, deter)))
    assert float(jnp.abs(found[1] - found[0]).min()) > 0  # drawn


def test_proposals_are_within_bounds_masked_and_decided_by_their_key():
    model, params, latent = one_latent()
    settings = CEM(candidates=64, elites=2, proposals=32)
    mask = jnp.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    draw = functools.partial(propose, model, params, params, latent, settings=settings, mask=mask)
    found = draw(KEY)
    assert float(jnp.abs(found).max()) == 1.0  # wide draws are clipped
    np.testing.assert_array_equal(found[..., 2], 0.0)
    np.testing.assert_array_equal(found, draw(KEY))
    assert not np.array_equal(found[1:], draw(jax.random.key(4))[1:])
    assert propose(model, params, params, latent, KEY, settings=CEM()) is None


def test_what_the_agent_does_depends_on_its_actor_and_only_with_proposals():
    agent, params, _ = built(proposals=4)
    without = dataclasses.replace(agent, planner=dataclasses.replace(agent.planner, proposals=0))
    other = {name: x + (1.0 if name.startswith("actor/head/2/bias") else 0.0) for name, x in params.items()}
    observation, draws = np.linspace(-1, 1, 17)[None, None], keys(1, 1)

    def actions(agent, params):
        return np.asarray(agent.act(params, agent.begin(params, observation), draws).action)

    assert not np.array_equal(actions(agent, params), actions(agent, other))
    np.testing.assert_array_equal(actions(without, params), actions(without, other))


@pytest.mark.parametrize("scope", ["model", "model+value"])
def test_no_update_touches_the_actor(scope):
    agent, params, moments = built(proposals=4)
    random = np.random.default_rng(0)
    rows = [random.normal(size=(1, 60, size)).astype(np.float32) for size in (17, 6, 17)]
    first = np.arange(60)[None] == 0
    window = Window(rows[0], rows[1], random.random((1, 60)), rows[2], first, np.array([60]))
    fit = agent.fit(params, moments, window, steps=2, scope=scope, batch_keys=keys(1, purpose=Purpose.UPDATE_BATCH))
    assert not np.array_equal(fit.parameters["model/gru/weight"], params["model/gru/weight"])
    actor = [name for name in params if name.startswith("actor/")]
    assert actor
    for name in actor:
        np.testing.assert_array_equal(fit.parameters[name], params[name])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A recipe whose cartpole keeps its actor and whose cheetah does not: two tasks, padded, in one program."""
    folder = tmp_path_factory.mktemp("prior")
    text = SMALLEST.replace("elites = 2 }", "elites = 2, proposals = 2 }", 1)
    text = text.replace("elites = 2\n[tasks", "elites = 2\nproposals = 3\n[tasks")
    (folder / "recipe.toml").write_text(text)
    recipe = read_recipe(folder / "recipe.toml")
    done = loop.train(Trainee(recipe, ShortWorlds(recipe)), folder=folder / "state")
    worlds = ShortWorlds(recipe)
    for environment in worlds.environments.values():
        environment.episode_steps = 5
    harvest(recipe, Trainee(recipe, worlds), done, folder)
    return folder, done


def plugin(**settings):
    return RSSMCEMPlugin(size="tiny", bins=9, sequences=2, length=6, **settings)


def loaded(path, task, **settings):
    environment, chosen = load(task, threads=1), plugin(**settings)
    return chosen.load(chosen.build(environment, precision="tf32"), environment, path)


def test_a_checkpoint_keeps_its_actor_where_its_planner_asks_for_proposals(trained):
    folder, done = trained
    cartpole = folder / "cartpole-swingup-seed0.safetensors"
    assert json.loads(cartpole.with_suffix(".json").read_text())["planner"]["proposals"] == 2
    kept = loaded(cartpole, "cartpole-swingup", proposals=2).parameters
    whole = jax.device_get({name: x[0] for name, x in done.learners.actor.items()})
    # Padded to six actions: the first mean, and the first deviation.
    np.testing.assert_array_equal(kept["actor/head/2/bias"][0], whole["actor/head/2/bias"][[0, 6]])
    np.testing.assert_array_equal(kept["actor/head/2/weight"][0], whole["actor/head/2/weight"][:, [0, 6]])
    assert not [name for name in loaded(cartpole, "cartpole-swingup").parameters if name.startswith("actor/")]
    with pytest.raises(WorldforkError, match="has no actor to propose candidates"):
        loaded(folder / "cheetah-run-seed3.safetensors", "cheetah-run", proposals=2)


def test_cutting_the_padding_changes_no_action_of_the_actor():
    wide, narrow = plugin().model(17, 6), plugin().model(5, 1)
    actor = {"actor/head/2/weight": np.arange(24.0).reshape(1, 2, 12), "actor/head/2/bias": np.arange(12.0)[None]}
    found = cut(actor, narrow)
    np.testing.assert_array_equal(found["actor/head/2/weight"][0], [[0.0, 6.0], [12.0, 18.0]])
    np.testing.assert_array_equal(found["actor/head/2/bias"][0], [0.0, 6.0])
    np.testing.assert_array_equal(cut(actor, wide)["actor/head/2/bias"], actor["actor/head/2/bias"])
