"""The cross-entropy method over action sequences (paper, "Control depends on the world model").

The model enters as one callable, `imagine(actions) -> values`, so that planner and model never meet. Everything
random comes from one key; the warm start is passed in and out. Plans one decision: vmap it for many.

Axes: N candidates, M of which a policy proposes, H horizon, A actions, K elites.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from worldfork.errors import WorldforkError

Imagine = Callable[[Float[Array, "N H A"]], Float[Array, " N"]]
Search = tuple[Array, Array, Array, Array]  # mean, standard deviation, kept elites, the best value


@dataclasses.dataclass(frozen=True)
class CEM:
    """The search's settings: registered with a study.

    `proposals` of the candidates are action sequences of a policy, the same in every iteration.
    `colour` correlates the noise along the horizon (0: white, towards 1: constant); `keep` carries that share of
    the elites into the next iteration; `temperature` weights elites by exp(value / (temperature x their spread)),
    0 weights them equally.
    """

    candidates: int = 512
    horizon: int = 3
    iterations: int = 6
    elites: int = 64
    keep: float = 0.0
    colour: float = 0.0
    temperature: float = 1.0
    initial_std: float = 0.8
    minimum_std: float = 0.05
    proposals: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.elites <= self.candidates:
            raise WorldforkError(
                f"The planner keeps `elites` of `candidates`: at least 2 and no more than there are; got "
                f"{self.elites} of {self.candidates}."
            )
        if self.proposals < 0 or self.drawn < 1:
            raise WorldforkError(
                f"At least one of the planner's `candidates` is drawn; got {self.proposals} `proposals` and "
                f"{self.kept} kept elites of {self.candidates}."
            )

    @property
    def kept(self) -> int:
        """Elites that the next iteration begins with."""
        return int(self.keep * self.elites)

    @property
    def drawn(self) -> int:
        """Candidates that every iteration draws around its mean."""
        return self.candidates - self.kept - self.proposals


class Plan(NamedTuple):
    """The action to take now, the mean plan to start the next search from, and whether all of it was finite."""

    action: Float[Array, " A"]
    mean: Float[Array, "H A"]
    finite: Bool[Array, ""]


def plan(
    imagine: Imagine,
    warm: Float[Array, "H A"],
    plan_key: Key[Array, ""],
    *,
    settings: CEM,
    mask: Float[Array, " A"] | None = None,
    proposed: Float[Array, "M H A"] | None = None,
) -> Plan:
    """Search around `warm` for the action sequence in [-1, 1] whose imagined value is highest.

    `mask` zeroes actions that do not exist. `proposed` are the sequences of a policy, which the settings ask for:
    candidates of every iteration. Candidates whose value is not finite rank last; if no candidate is
    finite the action is zero and `finite` says so.
    """
    kept = settings.kept
    mask = jnp.ones(warm.shape[-1]) if mask is None else mask
    offered = [] if proposed is None else [jnp.where(jnp.isfinite(proposed), proposed, 0.0) * mask]
    mean = jnp.where(jnp.isfinite(warm), warm, 0.0) * mask
    std = jnp.full_like(mean, settings.initial_std)
    # The first iteration has no elites yet: the warm start itself stands in for them.
    elites = jnp.broadcast_to(mean, (kept, *mean.shape))

    def iterate(carry: Search, iteration: Array) -> tuple[Search, None]:
        mean, std, elites, _ = carry
        noise = coloured_noise(jax.random.fold_in(plan_key, iteration), settings, mean.shape)
        fresh = jnp.clip(mean + std * noise, -1.0, 1.0) * mask
        candidates = jnp.concatenate([elites, *offered, fresh])
        values = imagine(candidates)
        values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
        best, index = jax.lax.top_k(values, settings.elites)
        chosen = candidates[index]
        mean, std = refit(chosen, best, settings)
        return (mean, std, chosen[:kept], best[0]), None

    search: Search = (mean, std, elites, jnp.array(-jnp.inf))
    (mean, _, _, best), _ = jax.lax.scan(iterate, search, jnp.arange(settings.iterations))
    finite = jnp.isfinite(best) & jnp.all(jnp.isfinite(mean))
    mean = jnp.where(finite, mean, 0.0)
    return Plan(mean[0], mean, finite)


def proposal_key(plan_key: Key[Array, ""], settings: CEM) -> Key[Array, ""]:
    """Return the key of what a policy proposes: one that no iteration of the search draws from."""
    return jax.random.fold_in(plan_key, settings.iterations)


def coloured_noise(key: Key[Array, ""], settings: CEM, shape: tuple[int, ...]) -> Float[Array, "N H A"]:
    """Standard normals for all candidates that are drawn, autocorrelated along the horizon."""
    horizon, actions = shape
    white = jax.random.normal(key, (settings.drawn, horizon, actions))
    if settings.colour == 0.0:
        return white
    rho = settings.colour
    steps = [white[:, 0]]
    for t in range(1, horizon):
        steps.append(rho * steps[-1] + jnp.sqrt(1.0 - rho**2) * white[:, t])
    return jnp.stack(steps, 1)


def refit(
    elites: Float[Array, "K H A"], values: Float[Array, " K"], settings: CEM
) -> tuple[Float[Array, "H A"], Float[Array, "H A"]]:
    """Mean and standard deviation of the elites, the better ones weighing more; non-finite ones weigh nothing."""
    usable = jnp.isfinite(values)
    score = jnp.where(usable, values, jnp.min(jnp.where(usable, values, jnp.inf)))
    spread = jnp.std(score, where=usable) + 1e-6
    heat = jnp.zeros_like(score) if settings.temperature == 0.0 else score / (settings.temperature * spread)
    weight = jax.nn.softmax(jnp.where(usable, heat, -jnp.inf))[:, None, None]
    mean = jnp.sum(weight * elites, 0)
    std = jnp.sqrt(jnp.sum(weight * (elites - mean) ** 2, 0))
    return mean, jnp.maximum(std, settings.minimum_std)


def shift(mean: Float[Array, "H A"]) -> Float[Array, "H A"]:
    """Return the warm start for the next decision: one step on, the last action repeated."""
    return jnp.concatenate([mean[1:], mean[-1:]])
