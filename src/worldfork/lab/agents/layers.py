"""Dense layers and RMS normalisation on flat dictionaries of arrays.

A parameter set is a flat dictionary name -> array, as a checkpoint stores it; a layer owns the names under its
prefix. Initialisers fill the dictionary, functions read it.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

Params = Mapping[str, Array]
HALVES = {"fp16": jnp.float16, "bf16": jnp.bfloat16}
Step = TypeVar("Step", bound=Callable[..., Any])


def initialise_dense(
    key: Key[Array, ""], name: str, inputs: int, outputs: int, *, scale: float = 1.0
) -> dict[str, Array]:
    """Truncated-normal weights with variance scale**2 / inputs, zero biases."""
    # 0.87963 is the standard deviation of a unit normal truncated at two
    weights = jax.random.truncated_normal(key, -2.0, 2.0, (inputs, outputs)) * (scale / 0.87963 / jnp.sqrt(inputs))
    return {f"{name}/weight": weights, f"{name}/bias": jnp.zeros(outputs)}


def dense(params: Params, name: str, x: Float[Array, "*b i"], *, precision: str = "tf32") -> Float[Array, "*b o"]:
    """x W + b."""
    return product(x, params[f"{name}/weight"], precision=precision) + params[f"{name}/bias"]


def product(x: Float[Array, "*b i"], weight: Float[Array, "i o"], *, precision: str) -> Float[Array, "*b o"]:
    """x W, accumulated in float32. `precision` is that of the operands: `float32` in full, `tf32` as the hardware
    likes, `fp16` (the ten bits of TF32's mantissa, in a narrower range) or `bf16` (seven)."""
    if precision in HALVES:
        x, weight = x.astype(HALVES[precision]), weight.astype(HALVES[precision])
        return jnp.matmul(x, weight, preferred_element_type=jnp.float32)
    exactness = jax.lax.Precision.HIGHEST if precision == "float32" else jax.lax.Precision.DEFAULT
    return jnp.matmul(x, weight, precision=exactness)


def rms_norm(params: Params, name: str, x: Float[Array, "*b i"]) -> Float[Array, "*b i"]:
    """x scaled to unit root mean square, times a learned gain."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * params[f"{name}/gain"]


def initialise_mlp(
    key: Key[Array, ""], name: str, sizes: Sequence[int], *, output_scale: float = 1.0
) -> dict[str, Array]:
    """Hidden layers with normalisation, and a last dense layer: sizes = [inputs, hidden..., outputs]."""
    params: dict[str, Array] = {}
    keys = jax.random.split(key, len(sizes) - 1)
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        last = layer == len(sizes) - 2
        params |= initialise_dense(
            keys[layer], f"{name}/{layer}", inputs, outputs, scale=output_scale if last else 1.0
        )
        if not last:
            params[f"{name}/{layer}/gain"] = jnp.ones(outputs)
    return params


def mlp(
    params: Params, name: str, x: Float[Array, "*b i"], *, layers: int, precision: str = "tf32"
) -> Float[Array, "*b o"]:
    """`layers` dense layers with SiLU(RMSNorm(.)) between them; the last is linear."""
    for layer in range(layers):
        x = dense(params, f"{name}/{layer}", x, precision=precision)
        if layer < layers - 1:
            x = jax.nn.silu(rms_norm(params, f"{name}/{layer}", x))
    return x


def frugal(step: Step) -> Step:
    """Return a step of a scan of which the backward pass keeps matrix products alone and computes the rest again: a
    small model's time goes into moving intermediate results, not into computing them."""
    kept = jax.checkpoint_policies.dots_saveable
    return jax.checkpoint(step, policy=kept, prevent_cse=False)  # type: ignore[return-value]


def two_hot(x: Float[Array, "*b"], *, low: float, high: float, bins: int) -> Float[Array, "*b {bins}"]:
    """Weights on the two grid points around x, so that their expectation is x (clipped to the range)."""
    position = jnp.clip((x - low) / (high - low), 0.0, 1.0) * (bins - 1)
    return jnp.maximum(0.0, 1.0 - jnp.abs(position[..., None] - jnp.arange(bins)))


def expected(logits: Float[Array, "*b k"], *, low: float, high: float) -> Float[Array, "*b"]:
    """Return the mean of the distribution that `logits` describe on the grid."""
    return jax.nn.softmax(logits) @ jnp.linspace(low, high, logits.shape[-1])


def log_loss(logits: Float[Array, "*b k"], x: Float[Array, "*b"], *, low: float, high: float) -> Float[Array, "*b"]:
    """Cross-entropy of the two-hot target for x."""
    target = two_hot(x, low=low, high=high, bins=logits.shape[-1])
    return -jnp.sum(target * jax.nn.log_softmax(logits), -1)


def symlog(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the logarithm of the magnitude with the sign kept: compresses large observations."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def squared_norms(gradients: Params) -> dict[str, Array]:
    """Return the squared norm of each group of parameters: a group is the first part of a name."""
    squares: dict[str, Array] = {}
    for name, gradient in gradients.items():
        group = name.split("/")[0]
        squares[group] = squares.get(group, jnp.zeros(())) + jnp.sum(gradient**2)
    return squares
