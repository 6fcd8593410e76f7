"""Model predictive path integral control with candidates from a policy (Hansen, Su and Wang, "TD-MPC2", ICLR 2024).

The model enters as one callable, `imagine(actions, key) -> values`, and the policy as action sequences that it
proposes, so that planner, model and policy never meet. Everything random comes from one key; the warm start is
passed in and out. Plans one decision: vmap it for many.

Axes: N candidates, M of which the policy proposes, H horizon, A actions, K elites.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from worldfork.errors import WorldforkError

Search = tuple[Array, Array, Array, Array]  # mean, standard deviation, elites, their values
Imagine = Callable[[Float[Array, "N H A"], Key[Array, ""]], Float[Array, " N"]]


@dataclasses.dataclass(frozen=True)
class MPPI:
    """The search's settings, registered with a study; defaults are the published ones.

    Elites weigh exp(temperature x value), relative to the best of them.
    """

    candidates: int = 512
    proposals: int = 24
    horizon: int = 3
    iterations: int = 6
    elites: int = 64
    temperature: float = 0.5
    minimum_std: float = 0.05
    maximum_std: float = 2.0

    def __post_init__(self) -> None:
        if not (1 <= self.elites <= self.candidates and 0 <= self.proposals < self.candidates):
            raise WorldforkError(
                "The planner follows `elites` of `candidates`, of which `proposals` are the policy's: at least one "
                f"elite and fewer proposals than candidates; got {self.elites} and {self.proposals} of "
                f"{self.candidates}."
            )


class Plan(NamedTuple):
    """The action to take now, how widely actions were searched there, the mean plan, and whether all was finite."""

    action: Float[Array, " A"]
    std: Float[Array, " A"]  # of the action: what exploration adds to it
    mean: Float[Array, "H A"]
    finite: Bool[Array, ""]


def plan(
    imagine: Imagine,
    warm: Float[Array, "H A"],
    *,
    proposed: Float[Array, "M H A"],
    plan_key: Key[Array, ""],
    settings: MPPI,
) -> Plan:
    """Search around `warm` and among what the policy proposes; follow an elite drawn by its weight.

    Candidates whose value is not finite rank last; if none is finite the action is zero and `finite` says so.
    """
    mean = jnp.where(jnp.isfinite(warm), warm, 0.0)
    std = jnp.full_like(mean, settings.maximum_std)
    drawn = settings.candidates - settings.proposals
    start = (mean, std, jnp.zeros((settings.elites, *mean.shape)), jnp.zeros(settings.elites))

    def iterate(search: Search, iteration: Array) -> tuple[Search, None]:
        mean, std, _, _ = search
        noise_key, imagine_key = jax.random.split(jax.random.fold_in(plan_key, iteration))
        noise = jax.random.normal(noise_key, (drawn, *mean.shape))
        candidates = jnp.concatenate([proposed, jnp.clip(mean + std * noise, -1.0, 1.0)])
        values = imagine(candidates, imagine_key)
        best, index = jax.lax.top_k(jnp.where(jnp.isfinite(values), values, -jnp.inf), settings.elites)
        elites = candidates[index]
        return (*refit(elites, best, settings), elites, best), None

    (mean, std, elites, values), _ = jax.lax.scan(iterate, start, jnp.arange(settings.iterations))
    # The Gumbel trick: an elite by its weight, in one draw.
    luck = jax.random.gumbel(jax.random.fold_in(plan_key, settings.iterations), values.shape)
    followed = jnp.argmax(settings.temperature * (values - values[0]) + luck)
    finite = jnp.isfinite(values[0]) & jnp.all(jnp.isfinite(mean)) & jnp.all(jnp.isfinite(elites))
    action, mean = (jnp.where(finite, x, 0.0) for x in (elites[followed, 0], mean))
    return Plan(action, jnp.where(finite, std[0], 0.0), mean, finite)


def proposal_key(plan_key: Key[Array, ""], settings: MPPI) -> Key[Array, ""]:
    """Return the key of what the policy proposes: one that no iteration of the search draws from."""
    return jax.random.fold_in(plan_key, settings.iterations + 1)


def refit(
    elites: Float[Array, "K H A"], values: Float[Array, " K"], settings: MPPI
) -> tuple[Float[Array, "H A"], Float[Array, "H A"]]:
    """Weighted mean and standard deviation of the elites, best first; non-finite ones weigh nothing."""
    weight = jax.nn.softmax(settings.temperature * (values - values[0]))[:, None, None]
    mean = jnp.sum(weight * elites, 0)
    std = jnp.sqrt(jnp.sum(weight * (elites - mean) ** 2, 0))
    return mean, jnp.clip(std, settings.minimum_std, settings.maximum_std)


def shift(mean: Float[Array, "H A"]) -> Float[Array, "H A"]:
    """Return the warm start for the next decision: one step on, with zero as the last action."""
    return jnp.concatenate([mean[1:], jnp.zeros_like(mean[-1:])])
