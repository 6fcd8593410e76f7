"""The fused imagination: the plain model's values, whatever is in them, in a form a GPU's compiler accepts."""

import dataclasses
import functools
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import cuda_on_cpu  # beside this file
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from worldfork.errors import WorldforkError
from worldfork.lab.agents import layers
from worldfork.lab.agents.rssm_cem import planning as fused
from worldfork.lab.agents.rssm_cem import rssm
from worldfork.lab.agents.rssm_cem.cuda import kernel as compiler
from worldfork.lab.agents.rssm_cem.cuda.kernel import Kernel
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin
from worldfork.lab.agents.rssm_cem.rssm import RSSM, Latent

pytestmark = pytest.mark.skipif(
    cuda_on_cpu.COMPILER is None, reason="the kernel's source needs g++ to run on a CPU"
)

# 63 bins are padded to 64, and 2 actions to 16.
MODEL = RSSM(3, 2, deter=64, groups=8, classes=8, hidden=64, precision="fp16")
SETS, EPISODES, CANDIDATES, HORIZON = 2, 2, 64, 3


@pytest.fixture(autouse=True)
def on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "run_blocks", cuda_on_cpu.run_blocks)


def plain(model: RSSM, params: dict[str, jax.Array], latent: Latent, actions: jax.Array) -> jax.Array:
    latent = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(actions), *x.shape)), latent)
    total = jnp.zeros(len(actions))
    for step in range(actions.shape[1]):
        deter = model.advance(params, latent, actions[:, step])
        latent = Latent(deter, model.mean(model.prior(params, deter)))
        total += model.discount**step * model.reward(params, latent)
    return total + model.discount ** actions.shape[1] * model.value(params, latent)


def kernel(model: RSSM, params: dict[str, jax.Array], latent: Latent, actions: jax.Array) -> jax.Array:
    return fused.imagined_values(model, fused.prepare(model, params), latent, actions)


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


def test_two_warpgroups_share_the_weights_that_are_copied(monkeypatch: pytest.MonkeyPatch):
    """Blocks of two warpgroups, or of one: every candidate's value is the same."""
    params, latent, actions = inputs(MODEL)
    actions = jnp.concatenate([actions, -actions], 2)
    single = batched(kernel, MODEL)(params, latent, actions)
    monkeypatch.setattr(fused, "FEW", 0)
    both = jax.jit(jax.vmap(jax.vmap(functools.partial(kernel, MODEL), in_axes=(None, 0, 0))))
    np.testing.assert_array_equal(both(params, latent, actions), single)


@pytest.mark.nightly
def test_the_kernel_is_right_at_its_real_size(monkeypatch: pytest.MonkeyPatch):
    model = RSSMCEMPlugin().model(17, 6, precision="fp16")
    monkeypatch.setattr(fused, "FEW", 0)
    params, latent, actions = inputs(model)
    params, latent, actions = jax.tree.map(lambda x: x[:1], (params, latent, actions))
    actions = jnp.concatenate([actions, -actions], 2)
    truth = batched(plain, dataclasses.replace(model, precision="float32"))(params, latent, actions)
    assert error(batched(kernel, model)(params, latent, actions), truth) < 0.02


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize(("sets", "episodes", "actions"), [(120, 15, 1), (2, 30, 6), (1, 1, 21)])
def test_one_launch_takes_all_decisions_of_all_parameter_sets(
    precision: str, sets: int, episodes: int, actions: int, monkeypatch: pytest.MonkeyPatch
):
    """As the agent batches it. Weights are not repeated for the episodes that share them."""
    monkeypatch.undo()
    monkeypatch.setattr(fused, "compiled", lambda text: f"{len(text)} characters of source")
    model = RSSMCEMPlugin().model(17, actions, precision=precision)

    def values(params: dict[str, jax.Array], latent: Latent, actions: jax.Array) -> jax.Array:
        return jax.vmap(functools.partial(fused.imagined_values, model, fused.prepare(model, params)))(
            latent, actions
        )

    def like(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    params = jax.eval_shape(model.initialise, jax.random.key(0))
    params = {name: like(sets, *x.shape) for name, x in params.items()}
    latent = Latent(like(sets, episodes, model.deter), like(sets, episodes, model.stoch))
    traced = jax.jit(jax.vmap(values)).trace(params, latent, like(sets, episodes, 512, 5, actions))
    [call] = [
        line for line in traced.lower(lowering_platforms=("cuda",)).as_text().splitlines() if "gpu.ptx" in line
    ]
    groups = 2 if sets > 1 else 1
    launched = Kernel(model, groups)
    assert f"grid_x = {sets * episodes * 512 // (64 * groups)} :" in call
    assert f"block_x = {128 * (groups + 1)} :" in call
    assert f"shared_mem_bytes = {launched.memory} :" in call
    assert f"tensor<{sets}x1x{launched.weights // 2}x" in call
    assert launched.memory <= 227 * 1024
    assert launched.slots >= 3


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


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs NVIDIA's compiler")
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_nvidias_compiler_takes_the_source_and_warns_of_nothing(precision: str, groups: int, tmp_path: Path):
    model = RSSMCEMPlugin().model(17, 6, precision=precision)
    source = tmp_path / "imagine.cu"
    source.write_text(Kernel(model, groups).text())
    command = ["nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", "-Xptxas", "-v", "-o", "imagine.cubin"]
    done = subprocess.run([*command, source.name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr.lower()
    [spilled] = re.findall(r"(\d+) bytes spill stores", done.stderr)
    assert int(spilled) < 512


def test_a_machine_without_nvidias_compiler_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch):
    compiler._library.cache_clear()
    monkeypatch.setattr(compiler, "_candidates", lambda: ["a library that nobody has"])
    with pytest.raises(WorldforkError, match=r"jax\[cuda13\]"):
        compiler.compiled("extern")
