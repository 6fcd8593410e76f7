"""Distributions over a fixed grid of scalars: regression by classification with two-hot targets.

The grid is linear over a known range. The suite's rewards lie in [0, 1] per environment step, so both rewards and
discounted values have known bounds, and a linear grid resolves value differences between actions that a symexp
grid blurs at large values.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

__all__ = ["expected", "log_loss", "two_hot"]


def two_hot(x: Float[Array, "*b"], *, low: float, high: float, bins: int) -> Float[Array, "*b {bins}"]:
    """Weights on the two grid points around x, so that their expectation is x (clipped to the range)."""
    position = jnp.clip((x - low) / (high - low), 0.0, 1.0) * (bins - 1)
    return jnp.maximum(0.0, 1.0 - jnp.abs(position[..., None] - jnp.arange(bins)))


def expected(logits: Float[Array, "*b k"], *, low: float, high: float) -> Float[Array, "*b"]:
    """The mean of the distribution that `logits` describe on the grid."""
    return jax.nn.softmax(logits) @ jnp.linspace(low, high, logits.shape[-1])


def log_loss(logits: Float[Array, "*b k"], x: Float[Array, "*b"], *, low: float, high: float) -> Float[Array, "*b"]:
    """Cross-entropy of the two-hot target for x."""
    target = two_hot(x, low=low, high=high, bins=logits.shape[-1])
    return -jnp.sum(target * jax.nn.log_softmax(logits), -1)
