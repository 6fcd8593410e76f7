"""The fused imagination: the plain model's values, whatever is in them, in a form a GPU's compiler accepts."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from worldfork.lab.agents.rssm_cem import RSSMCEMPlugin
from worldfork.lab.agents.rssm_cem import kernel as fused
from worldfork.lab.agents.rssm_cem.model import layers, rssm
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM, Latent

# 192 hidden units are two pieces, 63 bins are padded, 64 candidates are two programs of two turns.
MODEL = RSSM(3, 2, deter=64, groups=8, classes=8, hidden=192)
TILE = fused.Tile(rows=16, inner=64)
SETS, EPISODES, CANDIDATES, HORIZON = 2, 2, 64, 3


def plain(model: RSSM, params: dict[str, jax.Array], latent: Latent, actions: jax.Array) -> jax.Array:
    latent = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(actions), *x.shape)), latent)
    total = jnp.zeros(len(actions))
    for step in range(actions.shape[1]):
        deter = model.advance(params, latent, actions[:, step])
        latent = Latent(deter, model.mean(model.prior(params, deter)))
        total += model.discount**step * model.reward(params, latent)
    return total + model.discount ** actions.shape[1] * model.value(params, latent)


def kernel(
    model: RSSM, params: dict[str, jax.Array], latent: Latent, actions: jax.Array, *, operand: Any = None
) -> jax.Array:
    prepared = fused.prepare(model, params, operand=operand)
    return fused.imagined_values(model, prepared, latent, actions, tile=TILE, interpret=True)


exact = functools.partial(kernel, operand=jnp.float32)


@functools.cache
def batched(imagine: Callable[..., jax.Array], model: RSSM) -> Callable[..., np.ndarray]:
    """As the agent batches it: episodes share their parameters, parameter sets do not."""
    return jax.jit(jax.vmap(jax.vmap(functools.partial(imagine, model), in_axes=(None, 0, 0))))


def inputs(model: RSSM) -> tuple[dict[str, jax.Array], Latent, jax.Array]:
    """Heads begin at zero and gains at one: noise on all parameters makes every one of them count."""
    random = np.random.default_rng(0)
    fresh = jax.jit(jax.vmap(model.initialise))(jax.random.split(jax.random.key(0), SETS))
    params = {name: x + 0.2 * random.normal(size=x.shape).astype(np.float32) for name, x in fresh.items()}
    batch = (SETS, EPISODES)
    deter = random.uniform(-1, 1, (*batch, model.deter)).astype(np.float32)
    stoch = np.eye(model.classes, dtype=np.float32)[random.integers(0, model.classes, (*batch, model.groups))]
    actions = random.uniform(-1, 1, (*batch, CANDIDATES, HORIZON, model.action_size)).astype(np.float32)
    return params, Latent(jnp.asarray(deter), jnp.asarray(stoch.reshape(*batch, -1))), jnp.asarray(actions)


def error(found: jax.Array, truth: jax.Array) -> float:
    """Root mean square, in units of the spread among candidates, which is what the planner sees."""
    spread = np.std(truth, -1, keepdims=True)
    assert spread.min() > 1.0
    return float(np.sqrt(np.mean(np.square((found - truth) / spread))))


def test_the_kernel_computes_the_plain_values():
    model = dataclasses.replace(MODEL, precision="tf32")  # on a CPU, float32 in full
    given = inputs(model)
    assert error(batched(exact, model)(*given), batched(plain, model)(*given)) < 1e-5


@pytest.mark.parametrize("precision", ["fp16", pytest.param("bf16", marks=pytest.mark.nightly)])
def test_the_kernel_is_as_exact_as_the_plain_model(precision: str, monkeypatch: pytest.MonkeyPatch):
    """It also rounds what it stores between layers, to the precision the next product has anyway."""
    model = dataclasses.replace(MODEL, precision=precision)
    given = inputs(model)
    truth = batched(plain, dataclasses.replace(model, precision="float32"))(*given)
    if precision == "fp16":  # it takes the place of TF32, which a CPU does not have
        for module in (layers, rssm):
            monkeypatch.setattr(module, "product", tf32_product)
    usual = error(batched(functools.partial(plain), model)(*given), truth)  # not as it was traced before
    assert 1e-3 < usual < 0.1
    assert error(batched(kernel, model)(*given), truth) < 1.5 * usual


def tf32_product(x: jax.Array, weight: jax.Array, *, precision: str) -> jax.Array:
    def rounded(x: jax.Array) -> jax.Array:
        bits = jax.lax.bitcast_convert_type(x, jnp.int32)
        return jax.lax.bitcast_convert_type((bits + (1 << 12)) >> 13 << 13, jnp.float32)  # to ten bits of mantissa

    return jnp.matmul(rounded(x), rounded(weight))


def test_non_finite_candidates_stay_so_and_harm_no_other():
    model = dataclasses.replace(MODEL, precision="fp16")
    params, latent, actions = inputs(model)
    clean = batched(kernel, model)(params, latent, actions)
    poisoned = actions.at[0, 1, 5, 1].set(jnp.nan).at[1, 0, 20, 2, 0].set(jnp.inf)
    found = batched(kernel, model)(params, latent, poisoned)
    bad = np.zeros(found.shape, bool)
    bad[0, 1, 5] = bad[1, 0, 20] = True
    np.testing.assert_array_equal(np.isfinite(found), ~bad)
    np.testing.assert_array_equal(found[~bad], clean[~bad])


def test_a_diverged_parameter_set_gives_no_finite_value():
    model = dataclasses.replace(MODEL, precision="fp16")
    params, latent, actions = inputs(model)
    params["model/prior/0/weight"] = params["model/prior/0/weight"].at[1, 3, 7].set(jnp.nan)
    found = batched(kernel, model)(params, latent, actions)
    assert np.isfinite(found[0]).all()
    assert not np.isfinite(found[1]).any()


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize(("sets", "actions"), [(120, 1), (120, 6), (1, 6)])
def test_the_kernel_lowers_for_a_gpu_at_its_real_size(precision: str, sets: int, actions: int):
    model = RSSMCEMPlugin().model(17, actions, precision=precision)
    tile = fused.Tile.of_batch(sets * 512)

    def values(params: dict[str, jax.Array], latent: Latent, actions: jax.Array) -> jax.Array:
        prepared = fused.prepare(model, params)
        return jax.vmap(functools.partial(fused.imagined_values, model, prepared, tile=tile))(latent, actions)

    def like(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    params = jax.eval_shape(model.initialise, jax.random.key(0))
    params = {name: like(sets, *x.shape) for name, x in params.items()}
    latent = Latent(like(sets, 15, model.deter), like(sets, 15, model.stoch))
    traced = jax.jit(jax.vmap(values)).trace(params, latent, like(sets, 15, 512, 5, actions))
    with pretended_gpu():
        assert "triton" in traced.lower(lowering_platforms=("cuda",)).as_text()


def pretended_gpu():
    """Newer versions of jax ask which GPU is meant before they lower for one."""
    from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

    device = AbstractDevice(device_kind="NVIDIA H200", num_cores=None, platform="gpu")
    return use_abstract_mesh(AbstractMesh((1,), ("device",), abstract_device=device))


def test_every_batch_that_the_kernel_takes_is_cut_into_whole_tiles():
    for candidates in (256, 512, fused.FEW, fused.FEW + 256, 120 * 30 * 512):
        tile = fused.Tile.of_batch(candidates)
        assert 256 % (tile.rows * tile.turns) == 0


def test_the_kernel_is_not_offered_where_it_cannot_run(monkeypatch: pytest.MonkeyPatch):
    model = RSSMCEMPlugin().model(17, 6, precision="bf16")
    assert not fused.available(model, 512)  # no GPU here
    monkeypatch.setattr(fused, "fits", lambda: True)
    assert fused.available(model, 512)
    assert fused.available(RSSMCEMPlugin(size="tiny").model(17, 6, precision="fp16"), 512)
    assert not fused.available(model, 500)
    for precision in ("float32", "tf32"):
        assert not fused.available(dataclasses.replace(model, precision=precision), 512)
    assert not fused.available(dataclasses.replace(model, hidden=200), 512)
    assert not fused.available(dataclasses.replace(model, groups=12), 512)
    assert not fused.available(dataclasses.replace(model, deter=1024), 512)
