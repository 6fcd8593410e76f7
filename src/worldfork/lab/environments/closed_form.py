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
