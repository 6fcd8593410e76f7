"""How much a precision changes what a trained model imagines, in units of what tells candidates apart.

    python benchmarks/precision.py                                        # the bundled checkpoint
    python benchmarks/precision.py checkpoints/*/*-0.safetensors

Values of random action sequences (horizon 5) from latents that random actions led to: root mean square error
against full float32, over the spread among the candidates of one decision. On a CPU, TF32 is emulated by rounding
operands to ten bits of mantissa, and the GPU's kernel is compiled by g++ as the tests do it.
"""

import argparse
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

from worldfork.lab.agents import layers
from worldfork.lab.agents.checkpoints import read_manifest
from worldfork.lab.agents.rssm_cem import planning as fused
from worldfork.lab.agents.rssm_cem import rssm
from worldfork.lab.agents.rssm_cem.agent import imagination
from worldfork.lab.agents.rssm_cem.rssm import RSSM, Latent
from worldfork.registration.library import BUNDLED

DECISIONS, CANDIDATES, HORIZON = 6, 128, 5
ON_GPU = jax.default_backend() == "gpu"

Values = Callable[[RSSM, dict[str, jax.Array], Latent, jax.Array], jax.Array]


def plain(model: RSSM, params: dict[str, jax.Array], latent: Latent, actions: jax.Array) -> jax.Array:
    return imagination(model, params, latent)(actions)


def kernel(model: RSSM, params: dict[str, jax.Array], latent: Latent, actions: jax.Array) -> jax.Array:
    return fused.imagined_values(model, fused.prepare(model, params), latent, actions)


def tf32_product(x: jax.Array, weight: jax.Array, *, precision: str) -> jax.Array:
    """Operands rounded to the nearest ten bits of mantissa, the product in full."""

    def rounded(x: jax.Array) -> jax.Array:
        bits = jax.lax.bitcast_convert_type(x, jnp.int32)
        return jax.lax.bitcast_convert_type((bits + (1 << 12)) >> 13 << 13, jnp.float32)

    return jnp.matmul(rounded(x), rounded(weight), precision=jax.lax.Precision.HIGHEST)


@contextmanager
def emulated_tf32() -> Iterator[None]:
    usual = layers.product
    layers.product = rssm.product = tf32_product
    yield
    layers.product = rssm.product = usual


@contextmanager
def emulated_kernel() -> Iterator[None]:
    sys.path.append(str(Path(__file__).parents[1] / "tests/lab/agents/rssm_cem"))
    import cuda_on_cpu

    usual, fused.run_blocks = fused.run_blocks, cuda_on_cpu.run_blocks
    yield
    fused.run_blocks = usual


def reached(model: RSSM, params: dict[str, jax.Array], random: np.random.Generator) -> Latent:
    """Where thirty random actions lead."""

    @jax.jit
    def step(latent: Latent, action: jax.Array) -> Latent:
        deter = model.advance(params, latent, action)
        return Latent(deter, model.mean(model.prior(params, deter)))

    latent = Latent(jnp.zeros((DECISIONS, model.deter)), jnp.full((DECISIONS, model.stoch), 1.0 / model.classes))
    for _ in range(30):
        latent = step(latent, jnp.asarray(random.uniform(-1, 1, (DECISIONS, model.action_size)), jnp.float32))
    return latent


def errors(path: Path) -> dict[str, float]:
    arrays = load_file(path)
    params = {
        name.removeprefix("parameters/"): jnp.asarray(array)
        for name, array in arrays.items()
        if name.startswith("parameters/")
    }
    model = RSSM(**read_manifest(path)["model"], precision="float32")
    random = np.random.default_rng(0)
    latent = reached(model, params, random)
    shape = (DECISIONS, CANDIDATES, HORIZON, model.action_size)
    actions = jnp.asarray(random.uniform(-1, 1, shape), jnp.float32)

    def values(imagine: Values, precision: str) -> np.ndarray:
        one = functools.partial(imagine, dataclasses.replace(model, precision=precision), params)
        return np.asarray(jax.jit(jax.vmap(one))(latent, actions))

    truth = values(plain, "float32")
    spread = truth.std(-1, keepdims=True)
    found = {precision: values(plain, precision) for precision in ("fp16", "bf16")}
    with nullcontext() if fused.fits() else emulated_kernel():
        found |= {f"{precision} kernel": values(kernel, precision) for precision in ("fp16", "bf16")}
    with nullcontext() if ON_GPU else emulated_tf32():
        found["tf32"] = values(plain, "tf32")
    return {name: float(np.sqrt(np.mean(((given - truth) / spread) ** 2))) for name, given in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="*", type=Path, default=[BUNDLED / "cartpole-swingup-0.safetensors"])
    names = ("tf32", "fp16", "fp16 kernel", "bf16", "bf16 kernel")
    print(f"{'checkpoint':24}" + "".join(f"{name:>14}" for name in names) + f"   on {jax.devices()[0].device_kind}")
    for path in parser.parse_args().checkpoints:
        found = errors(path)
        print(f"{path.stem:24}" + "".join(f"{found[name]:14.1e}" for name in names), flush=True)


if __name__ == "__main__":
    main()
