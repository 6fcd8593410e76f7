"""Expected return of a fixed linear gain, by moments: no simulation, no sampling, no shared code.

With u = -K x + sigma e the state's second moment S_t obeys S_0 = diag(start^2) and
S_{t+1} = (A_t - B K) S_t (A_t - B K)' + sigma^2 B B' + diag(noise^2), and the expected return is
-sum_t [tr((Q + K' R K) S_t) + sigma^2 tr R]. A gain that is not finite never acts: K = 0.
"""

import numpy as np
from jaxtyping import Float64

from worldfork.lab.environments.linear_quadratic import Matrices


def expected_return(
    matrices: Matrices,
    gain: Float64[np.ndarray, "1 2"],
    *,
    levels: Float64[np.ndarray, " steps"],
    action_noise: float = 0.0,
) -> float:
    """Return the expected return of an episode whose step t is at drift level `levels[t]`."""
    if not np.isfinite(gain).all():
        gain = np.zeros_like(gain)
    moment = np.diag(matrices.start**2)
    spread = np.diag(matrices.noise**2) + action_noise**2 * matrices.control @ matrices.control.T
    price = matrices.state_cost + gain.T @ matrices.action_cost @ gain
    total = 0.0
    for level in levels:
        total -= float(np.trace(price @ moment)) + action_noise**2 * float(np.trace(matrices.action_cost))
        closed_loop = matrices.transition + level * matrices.slope - matrices.control @ gain
        moment = closed_loop @ moment @ closed_loop.T + spread
    return total


def expected_returns(
    matrices: Matrices,
    gains: Float64[np.ndarray, "n 2"],
    *,
    levels: Float64[np.ndarray, "n steps"],
    action_noise: float = 0.0,
) -> Float64[np.ndarray, " n"]:
    """Return the expected returns of many gains at once, each along its own levels."""
    gain = np.where(np.isfinite(gains).all(axis=1)[:, None], gains, 0.0)[:, None, :]
    turned = np.swapaxes(gain, 1, 2)
    moment = np.broadcast_to(np.diag(matrices.start**2), (len(gains), 2, 2))
    spread = np.diag(matrices.noise**2) + action_noise**2 * matrices.control @ matrices.control.T
    price = matrices.state_cost + turned @ matrices.action_cost @ gain
    total = np.zeros(len(gains))
    for level in levels.T:
        total -= np.einsum("nij,nji->n", price, moment) + action_noise**2 * np.trace(matrices.action_cost)
        closed_loop = matrices.transition + level[:, None, None] * matrices.slope - matrices.control @ gain
        moment = closed_loop @ moment @ np.swapaxes(closed_loop, 1, 2) + spread
    return total
