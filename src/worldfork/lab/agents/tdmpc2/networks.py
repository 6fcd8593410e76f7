"""The networks of TD-MPC2: encoder, latent dynamics, reward, an ensemble of Q functions, and a policy prior.

Nothing is reconstructed: a latent holds what predicts the next latent, rewards and values. Functions act on one
parameter set and any leading batch axes; vmap them for many parameter sets.

Axes: O observations, A actions, L latent, Q functions of the ensemble, K two-hot bins in symlog space.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from worldfork.errors import WorldforkError
from worldfork.lab.agents import layers as shared
from worldfork.lab.agents.layers import Params, product, symlog

LOG_STD = (-10.0, 2.0)  # bounds of the policy's log standard deviation


class Policy(NamedTuple):
    """A normal distribution before tanh: what it draws is squashed into [-1, 1]."""

    mean: Float[Array, "*b A"]
    log_std: Float[Array, "*b A"]

    def sample(self, normal: Float[Array, "*b A"]) -> Float[Array, "*b A"]:
        """Return the action that a standard normal draw becomes; zeros give the most likely one."""
        return jnp.tanh(self.mean + jnp.exp(self.log_std) * normal)

    def log_probability(self, normal: Float[Array, "*b A"]) -> Float[Array, "*b"]:
        """Return the log density of that action."""
        action = self.sample(normal)
        gaussian = -0.5 * normal**2 - self.log_std - 0.5 * jnp.log(2.0 * jnp.pi)
        return jnp.sum(gaussian - jnp.log(jnp.maximum(1.0 - action**2, 0.0) + 1e-6), -1)


@dataclasses.dataclass(frozen=True)
class Networks:
    """Shapes and constants; parameters are passed in.

    Their names begin with `model/encoder/`, `model/dynamics/`, `model/reward/`, `value/`, `target/` (moving
    averages of `value/`), `policy/` and `scale/` (the range of values that the policy's loss is divided by).
    """

    observation_size: int
    action_size: int
    discount: float
    latent: int = 512
    encoder: int = 256
    hidden: int = 512
    values: int = 5
    bins: int = 101
    bound: float = 10.0  # of rewards and values in symlog space
    group: int = 8  # of SimNorm
    dropout: float = 0.01
    precision: str = "tf32"

    def __post_init__(self) -> None:
        if self.latent % self.group or self.values < 2:
            raise WorldforkError(
                f"`latent` is made of groups of {self.group}, and the ensemble has two Q functions or more; got "
                f"{self.latent} and {self.values}."
            )

    def initialise(self, key: Key[Array, ""]) -> dict[str, Array]:
        """Parameters before any training: rewards and values are predicted as zero."""
        keys = jax.random.split(key, 5)
        seen = [self.observation_size, self.encoder, self.latent]
        both, inner = self.latent + self.action_size, [self.hidden, self.hidden]
        values: dict[str, Array] = {}
        for member, each in enumerate(jax.random.split(keys[3], self.values)):
            values |= initialise_mlp(
                each, f"value/{member}", [both, *inner, self.bins], normalised=False, zero=True
            )
        return {
            **initialise_mlp(keys[0], "model/encoder", seen, normalised=True),
            **initialise_mlp(keys[1], "model/dynamics", [both, *inner, self.latent], normalised=True),
            **initialise_mlp(keys[2], "model/reward", [both, *inner, self.bins], normalised=False, zero=True),
            **values,
            **{name.replace("value/", "target/", 1): x for name, x in values.items()},
            **initialise_mlp(keys[4], "policy", [self.latent, *inner, 2 * self.action_size], normalised=False),
            "scale/policy": jnp.ones(1),
        }  # fmt: skip

    def encode(self, params: Params, observation: Float[Array, "*b O"]) -> Float[Array, "*b L"]:
        """Return the latent of an observation."""
        return mlp(params, "model/encoder", observation, layers=2, precision=self.precision, group=self.group)

    def advance(
        self, params: Params, latent: Float[Array, "*#b L"], action: Float[Array, "*#b A"]
    ) -> Float[Array, "*#b L"]:
        """Return the latent that an action leads to."""
        return mlp(params, "model/dynamics", latent, action, layers=3, precision=self.precision, group=self.group)

    def reward_logits(
        self, params: Params, latent: Float[Array, "*#b L"], action: Float[Array, "*#b A"]
    ) -> Float[Array, "*#b K"]:
        return mlp(params, "model/reward", latent, action, layers=3, precision=self.precision)

    def reward(
        self, params: Params, latent: Float[Array, "*#b L"], action: Float[Array, "*#b A"]
    ) -> Float[Array, "*#b"]:
        """Return the reward expected of an action."""
        return self.decode(self.reward_logits(params, latent, action))

    def value_logits(
        self,
        params: Params,
        latent: Float[Array, "*#b L"],
        action: Float[Array, "*#b A"],
        *,
        name: Literal["value", "target"] = "value",
        pair: Int[Array, "2"] | None = None,
        kept: Bool[Array, "Q *#b H"] | None = None,
    ) -> Float[Array, "Q *#b K"]:
        """Return the Q functions, all of them or a pair; `kept` is their dropout."""
        first = f"{name}/0/"
        layers = [key.removeprefix(first) for key in params if key.startswith(first)]
        members = {
            f"q/{layer}": jnp.stack([params[f"{name}/{member}/{layer}"] for member in range(self.values)])
            for layer in layers
        }
        if pair is not None and self.values > 2:
            members = {layer: x[pair] for layer, x in members.items()}
        shape: dict[str, Any] = {"layers": 3, "precision": self.precision, "dropout": self.dropout}
        return jax.vmap(lambda member, kept: mlp(member, "q", latent, action, kept=kept, **shape))(members, kept)

    def policy(self, params: Params, latent: Float[Array, "*b L"]) -> Policy:
        """Return the policy prior."""
        raw = mlp(params, "policy", latent, layers=3, precision=self.precision)
        mean, spread = jnp.split(raw, 2, -1)
        low, high = LOG_STD
        return Policy(mean, low + 0.5 * (high - low) * (jnp.tanh(spread) + 1.0))

    def decode(self, logits: Float[Array, "*b K"]) -> Float[Array, "*b"]:
        """Return the number that a distribution over the bins stands for: symexp of its mean."""
        grid = jnp.linspace(-self.bound, self.bound, self.bins)
        # A plain sum: how a product with a vector is rounded depends on a set's place in the batch.
        return symexp(jnp.sum(jax.nn.softmax(logits) * grid, -1))

    def log_loss(self, logits: Float[Array, "*b K"], x: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """Cross-entropy of the two-hot target for x."""
        return shared.log_loss(logits, symlog(x), low=-self.bound, high=self.bound)


def symexp(x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """Return the inverse of symlog."""
    return jnp.sign(x) * (jnp.exp(jnp.abs(x)) - 1.0)


def discount_of(episode_steps: int) -> float:
    """Return the published rule: (n/5 - 1) / (n/5) for episodes of n agent steps, within 0.95 and 0.995.

    >>> discount_of(250), discount_of(500), discount_of(25)
    (0.98, 0.99, 0.95)
    """
    fifth = episode_steps / 5
    return min(max((fifth - 1) / fifth, 0.95), 0.995)


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
    """Return a softmax within every `group` neighbours: each group lies on a simplex."""
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
    kept: Bool[Array, "*#b _"] | None = None,
    dropout: float = 0.0,
) -> Float[Array, "*#b o"]:
    """Hidden layers and a last one that is linear, or, with `group`, normalised and put on simplices."""
    x = hidden(params, f"{name}/0", *parts, precision=precision, kept=kept, dropout=dropout)
    for layer in range(1, layers - 1):
        x = hidden(params, f"{name}/{layer}", x, precision=precision)
    last = f"{name}/{layers - 1}"
    x = dense(params, last, x, precision=precision)
    return x if group is None else simnorm(layer_norm(params, last, x), group=group)
