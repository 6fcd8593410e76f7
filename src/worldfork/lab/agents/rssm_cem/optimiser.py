"""Adam as optax transformations: a learning rate and a gradient clip for each group of parameters.

A group is the first part of a parameter's name: `model`, `value`, `actor`. Learning rates are data and may be
traced: another rate is the same compiled program. A checkpoint stores the state as a flat dictionary, and `flatten`
and `restore` translate.
"""

from collections.abc import Iterable, Mapping

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from worldfork.lab.agents.layers import Params, squared_norms

Rates = Mapping[str, float | Float[Array, ""]]  # group -> learning rate


def adam(rates: Rates, *, clip: float = 100.0) -> optax.GradientTransformation:
    """Adam for flat dictionaries of the groups in `rates`; each group is clipped to the gradient norm `clip`."""
    return optax.chain(clip_groups(clip), scale_by_adam(rates))


def initialise(params: Params) -> optax.OptState:
    """No steps taken: zero moments."""
    return adam({}).init(params)


def flatten(state: optax.OptState) -> dict[str, Array]:
    """Return the state as a checkpoint stores it: `count`, and `mean/<name>` and `square/<name>` of every
    parameter."""
    _, adam_state = state
    means = {f"mean/{name}": x for name, x in adam_state.mu.items()}
    return {"count": adam_state.count, **means, **{f"square/{name}": x for name, x in adam_state.nu.items()}}


def restore(flat: Params, names: Iterable[str]) -> optax.OptState:
    """Return the state of the parameters `names` back from a checkpoint's dictionary."""
    names = tuple(names)
    moments = ({name: flat[f"{moment}/{name}"] for name in names} for moment in ("mean", "square"))
    return optax.EmptyState(), optax.ScaleByAdamState(flat["count"], *moments)


def clip_groups(largest: float) -> optax.GradientTransformation:
    """Scale each group's gradients down to the norm `largest` where theirs is larger."""

    def update(
        gradients: Params, state: optax.EmptyState, params: Params | None = None
    ) -> tuple[dict[str, Array], optax.EmptyState]:
        squares = squared_norms(gradients)
        shares = {group: jnp.minimum(1.0, largest / (jnp.sqrt(x) + 1e-9)) for group, x in squares.items()}
        return {name: x * shares[_group(name)] for name, x in gradients.items()}, state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def scale_by_adam(rates: Rates) -> optax.GradientTransformation:
    """Gradients into steps. Differs from optax.adam in rounding alone: that one multiplies by the rate last, while
    the ledgers that are published were made by multiplying first, and must stay what they are to the last bit."""

    def begin(params: Params) -> optax.ScaleByAdamState:
        zeros = jax.tree.map(jnp.zeros_like, dict(params))
        return optax.ScaleByAdamState(jnp.zeros(()), zeros, zeros)

    def update(
        gradients: Params, state: optax.ScaleByAdamState, params: Params | None = None
    ) -> tuple[dict[str, Array], optax.ScaleByAdamState]:
        count = state.count + 1.0
        means = {name: 0.9 * state.mu[name] + 0.1 * x for name, x in gradients.items()}
        squares = {name: 0.999 * state.nu[name] + 0.001 * x**2 for name, x in gradients.items()}
        steps = {}
        for name in gradients:
            mean, square = means[name] / (1.0 - 0.9**count), squares[name] / (1.0 - 0.999**count)
            steps[name] = -(rates[_group(name)] * mean / (jnp.sqrt(square) + 1e-8))
        return steps, optax.ScaleByAdamState(count, means, squares)

    return optax.GradientTransformation(begin, update)


def _group(name: str) -> str:
    return name.split("/")[0]
