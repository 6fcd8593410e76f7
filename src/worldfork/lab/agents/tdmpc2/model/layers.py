"""Dense layers with layer normalisation, Mish and SimNorm on flat dictionaries of arrays.

A layer owns the names under its prefix: `weight` and `bias`, and `gain` and `shift` where it is normalised.
"""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from worldfork.lab.agents.rssm_cem.model.layers import Params, product

__all__ = ["dense", "hidden", "initialise_mlp", "layer_norm", "mish", "mlp", "simnorm"]


def initialise_mlp(
    key: Key[Array, ""], name: str, sizes: Sequence[int], *, normalised: bool, zero: bool = False
) -> dict[str, Array]:
    """Weights from a normal of standard deviation 0.02 truncated at two, zero biases: sizes = [inputs, hidden...,
    outputs]. All hidden layers are normalised, the last one where `normalised`; `zero` makes it all zeros."""
    params: dict[str, Array] = {}
    pairs = list(itertools.pairwise(sizes))
    for layer, ((inputs, outputs), each) in enumerate(zip(pairs, jax.random.split(key, len(pairs)), strict=True)):
        last = layer == len(pairs) - 1
        weight = 0.02 * jax.random.truncated_normal(each, -2.0, 2.0, (inputs, outputs))
        params[f"{name}/{layer}/weight"] = jnp.zeros_like(weight) if zero and last else weight
        params[f"{name}/{layer}/bias"] = jnp.zeros(outputs)
        if normalised or not last:
            params[f"{name}/{layer}/gain"] = jnp.ones(outputs)
            params[f"{name}/{layer}/shift"] = jnp.zeros(outputs)
    return params


def dense(params: Params, name: str, *parts: Float[Array, "*#b _"], precision: str) -> Float[Array, "*#b o"]:
    """x W + b, where x is the parts side by side. Each part meets its own rows of W, so that one that is the same
    for a whole batch (a latent, for all candidates of a search) is multiplied once."""
    weight, begin = params[f"{name}/weight"], 0
    total = params[f"{name}/bias"]
    for part in parts:
        end = begin + part.shape[-1]
        total = total + product(part, weight[begin:end], precision=precision)
        begin = end
    return total


def layer_norm(params: Params, name: str, x: Float[Array, "*b o"]) -> Float[Array, "*b o"]:
    """x with mean 0 and variance 1 along its last axis, times a learned gain, plus a learned shift."""
    # Both means in one pass over x: the next one is the last.
    mean, square = jnp.mean(x, -1, keepdims=True), jnp.mean(x * x, -1, keepdims=True)
    variance = jnp.maximum(square - mean * mean, 0.0)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * params[f"{name}/gain"] + params[f"{name}/shift"]


def mish(x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """x tanh(log(1 + exp(x))), with one exponential: tanh(log(1 + e)) = (e^2 + 2e) / (e^2 + 2e + 2)."""
    e = jnp.exp(jnp.minimum(x, 20.0))  # beyond, the factor is 1 in float32
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


def simnorm(x: Float[Array, "*b o"], *, group: int) -> Float[Array, "*b o"]:
    """A softmax within every `group` neighbours: each group lies on a simplex."""
    return jax.nn.softmax(x.reshape(*x.shape[:-1], -1, group)).reshape(x.shape)


def hidden(
    params: Params,
    name: str,
    *parts: Float[Array, "*#b _"],
    precision: str,
    kept: Bool[Array, "*#b o"] | None = None,
    dropout: float = 0.0,
) -> Float[Array, "*#b o"]:
    """Mish(LayerNorm(x W + b)); with dropout, of which `kept` says where it spares x W + b."""
    x = dense(params, name, *parts, precision=precision)
    if kept is not None:
        x = jnp.where(kept, x / (1.0 - dropout), 0.0)
    return mish(layer_norm(params, name, x))


def mlp(
    params: Params,
    name: str,
    *parts: Float[Array, "*#b _"],
    layers: int,
    precision: str,
    group: int | None = None,
    kept: Bool[Array, "*#b o"] | None = None,
    dropout: float = 0.0,
) -> Float[Array, "*#b o"]:
    """Hidden layers and a last one that is linear, or, with `group`, normalised and put on simplices."""
    x = hidden(params, f"{name}/0", *parts, precision=precision, kept=kept, dropout=dropout)
    for layer in range(1, layers - 1):
        x = hidden(params, f"{name}/{layer}", x, precision=precision)
    last = f"{name}/{layers - 1}"
    x = dense(params, last, x, precision=precision)
    return x if group is None else simnorm(layer_norm(params, last, x), group=group)
