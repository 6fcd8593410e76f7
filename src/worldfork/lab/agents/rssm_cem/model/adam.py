"""Adam on flat dictionaries of arrays: its state is a flat dictionary too, ready for a checkpoint."""

from collections.abc import Mapping

import jax.numpy as jnp
from jaxtyping import Array, Float

from worldfork.lab.agents.rssm_cem.model.layers import Params

__all__ = ["initialise", "step"]


def initialise(params: Params) -> dict[str, Array]:
    """No steps taken: zero moments."""
    moments = {f"{moment}/{name}": jnp.zeros_like(x) for moment in ("mean", "square") for name, x in params.items()}
    return {"count": jnp.zeros(()), **moments}


def step(
    params: Params,
    gradients: Params,
    state: Mapping[str, Array],
    *,
    rates: Mapping[str, float | Array],
    clip: float = 100.0,
) -> tuple[dict[str, Array], dict[str, Array], Float[Array, ""]]:
    """One step on the parameters that have gradients; the others, and their moments, stay as they are.

    `rates` maps the first part of a name (`model`, `value`) to its learning rate; each such group is clipped to the
    gradient norm `clip` by itself. Returns parameters, state, and the norm of all gradients before clipping.
    """
    count = state["count"] + 1.0
    squares = {group: jnp.zeros(()) for group in rates}
    for name, gradient in gradients.items():
        squares[name.split("/")[0]] += jnp.sum(gradient**2)
    new_params, new_state = dict(params), {**state, "count": count}
    for name, gradient in gradients.items():
        group = name.split("/")[0]
        gradient = gradient * jnp.minimum(1.0, clip / (jnp.sqrt(squares[group]) + 1e-9))
        mean = 0.9 * state[f"mean/{name}"] + 0.1 * gradient
        square = 0.999 * state[f"square/{name}"] + 0.001 * gradient**2
        unbiased = mean / (1.0 - 0.9**count), square / (1.0 - 0.999**count)
        new_params[name] = params[name] - rates[group] * unbiased[0] / (jnp.sqrt(unbiased[1]) + 1e-8)
        new_state |= {f"mean/{name}": mean, f"square/{name}": square}
    return new_params, new_state, jnp.sqrt(sum(squares.values(), start=jnp.zeros(())))
