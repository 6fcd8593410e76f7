"""The two Adams of TD-MPC2: one for encoder, dynamics, reward and Q functions, and one for the policy prior.

Each has a count of its own and clips its gradients together. The encoder learns at 0.3 of the rate; the policy's
Adam has a larger epsilon. The state of each is stored as flat arrays: `count/model` or `count/policy`, and
`mean/<name>` and `square/<name>` of every parameter.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from worldfork.lab.agents.layers import Params

TRAINED: Final = ("model/", "value/", "policy/")  # what the names of trained parameters begin with
ENCODER_SHARE: Final = 0.3
CLIP: Final = 20.0
EPSILON: Final = {"model": 1e-8, "policy": 1e-5}


def rates_of(rate: float) -> dict[str, float]:
    """Learning rates by group of parameters."""
    return {"encoder": ENCODER_SHARE * rate, "model": rate, "value": rate, "policy": rate}


def adam(rates: Mapping[str, Any]) -> optax.GradientTransformation:
    """Adam for parameters that are all of one of the two parts; their gradients are clipped to a norm of 20."""

    def begin(params: Params) -> optax.ScaleByAdamState:
        zeros = jax.tree.map(jnp.zeros_like, dict(params))
        return optax.ScaleByAdamState(jnp.zeros(1), zeros, zeros)

    def update(
        gradients: Params, state: optax.ScaleByAdamState, params: Params | None = None
    ) -> tuple[dict[str, Array], optax.ScaleByAdamState]:
        norm = jnp.sqrt(sum(jnp.sum(gradient**2) for gradient in gradients.values()))
        share = jnp.minimum(1.0, CLIP / (norm + 1e-6))
        count, epsilon = state.count + 1.0, EPSILON[_part(gradients)]
        means = {name: 0.9 * state.mu[name] + 0.1 * share * x for name, x in gradients.items()}
        squares = {name: 0.999 * state.nu[name] + 0.001 * (share * x) ** 2 for name, x in gradients.items()}
        steps = {}
        for name in gradients:
            mean, square = means[name] / (1.0 - 0.9**count), squares[name] / (1.0 - 0.999**count)
            steps[name] = -rates[_group(name)] * mean / (jnp.sqrt(square) + epsilon)
        return steps, optax.ScaleByAdamState(count, means, squares)

    return optax.GradientTransformation(begin, update)


def initialise(params: Params) -> dict[str, Array]:
    """No steps taken: zero counts and moments, as a checkpoint stores them."""
    trained = {name: jnp.zeros_like(x) for name, x in params.items() if name.startswith(TRAINED)}
    moments = {f"{moment}/{name}": x for moment in ("mean", "square") for name, x in trained.items()}
    return {"count/model": jnp.zeros(1), "count/policy": jnp.zeros(1), **moments}


def restore(flat: Params, names: Collection[str]) -> optax.ScaleByAdamState:
    """Return the state of the parameters `names`, all of one part, from a checkpoint's dictionary."""
    moments = ({name: flat[f"{moment}/{name}"] for name in names} for moment in ("mean", "square"))
    return optax.ScaleByAdamState(flat[f"count/{_part(names)}"], *moments)


def flatten(state: optax.ScaleByAdamState) -> dict[str, Array]:
    """Back into a checkpoint's dictionary."""
    means = {f"mean/{name}": x for name, x in state.mu.items()}
    squares = {f"square/{name}": x for name, x in state.nu.items()}
    return {f"count/{_part(state.mu)}": state.count, **means, **squares}


def _part(names: Collection[str]) -> str:
    return "policy" if all(name.startswith("policy/") for name in names) else "model"


def _group(name: str) -> str:
    return "encoder" if name.startswith("model/encoder/") else name.split("/")[0]
