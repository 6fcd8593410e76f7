"""A compact DreamerV3-style recurrent state-space model on proprioceptive observations (paper, Section 3.3).

A latent is a GRU state (deter) and a set of categorical variables (stoch). Filtering alternates `advance`, the
dynamics under an action, with `posterior`, the correction by an observation; imagination uses `advance` and
`prior`. Functions act on one parameter set and any leading batch axes; vmap them for many parameter sets.

Axes: O observations, A actions, D deterministic state, S = groups x classes stochastic state, K two-hot bins.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from worldfork.lab.agents import layers
from worldfork.lab.agents.layers import (
    Params,
    dense,
    initialise_dense,
    initialise_mlp,
    mlp,
    product,
    rms_norm,
    symlog,
)


class Latent(NamedTuple):
    """The model's belief: deterministic and stochastic state."""

    deter: Float[Array, "*b D"]
    stoch: Float[Array, "*b S"]


@dataclasses.dataclass(frozen=True)
class RSSM:
    """The model's shape; its parameters are passed in.

    `reward_high` is the largest reward of one control step; with the discount it bounds values too. Rewards outside
    [0, reward_high] are learnt as the nearest end (`twohot.two_hot` clips), so a world with others needs another.
    """

    observation_size: int
    action_size: int
    deter: int = 256
    groups: int = 16
    classes: int = 16
    hidden: int = 192
    bins: int = 63
    reward_high: float = 4.0
    discount: float = 0.985
    unimix: float = 0.01
    precision: str = "tf32"

    @property
    def stoch(self) -> int:
        return self.groups * self.classes

    @property
    def value_high(self) -> float:
        return self.reward_high / (1.0 - self.discount)

    def initialise(self, key: Key[Array, ""]) -> dict[str, Array]:
        """Return a fresh parameter set. Names begin with `model/` (the world model) or `value/` (the value
        head)."""
        enc, inp, gru, pri, post, dec, rew, val = jax.random.split(key, 8)
        hidden, feature = self.hidden, self.deter + self.stoch
        gates = initialise_dense(gru, "model/gru", hidden + self.deter, 3 * self.deter)
        return {
            **initialise_mlp(enc, "model/encoder", [self.observation_size, hidden, hidden]),
            **initialise_dense(inp, "model/input", self.stoch + self.action_size, hidden),
            "model/input/gain": jnp.ones(hidden),
            **gates,
            "model/gru/gain": jnp.ones(3 * self.deter),
            **initialise_mlp(pri, "model/prior", [self.deter, hidden, self.stoch]),
            **initialise_mlp(post, "model/posterior", [self.deter + hidden, hidden, self.stoch]),
            **initialise_mlp(dec, "model/decoder", [feature, hidden, hidden, self.observation_size]),
            # Heads that start at uniform predictions do not mislead the planner before they know anything.
            **initialise_mlp(rew, "model/reward", [feature, hidden, self.bins], output_scale=0.0),
            **initialise_mlp(val, "value/head", [feature, hidden, hidden, self.bins], output_scale=0.0),
        }

    def begin(self, params: Params, observation: Float[Array, "*b O"]) -> Latent:
        """Return the latent at the first observation of an episode or of a training sequence."""
        deter = jnp.zeros((*observation.shape[:-1], self.deter))
        logits = self.posterior(params, deter, self.encode(params, observation))
        return Latent(deter, self.mode(logits))

    def encode(self, params: Params, observation: Float[Array, "*b O"]) -> Float[Array, "*b H"]:
        """Return what an observation contributes to the first hidden layer of the posterior."""
        embedding = mlp(params, "model/encoder", symlog(observation), layers=2, precision=self.precision)
        weight = params["model/posterior/0/weight"][self.deter :]
        return product(jax.nn.silu(embedding), weight, precision=self.precision)

    def advance(self, params: Params, latent: Latent, action: Float[Array, "*c A"]) -> Float[Array, "*d D"]:
        """Return the deterministic state after `action`: a GRU with normalised gates.

        Products of latent and action are added, not taken of a concatenation, so that one latent meets many actions
        at the cost of one; and the action's, a handful of numbers, is no matrix product.
        """
        by_stoch, by_action = jnp.split(params["model/input/weight"], [self.stoch])
        inputs = product(latent.stoch, by_stoch, precision=self.precision) + params["model/input/bias"]
        inputs = inputs + jnp.sum(action[..., None] * by_action, -2)
        inputs = jax.nn.silu(rms_norm(params, "model/input", inputs))
        by_inputs, by_deter = jnp.split(params["model/gru/weight"], [self.hidden])
        gates = product(latent.deter, by_deter, precision=self.precision) + params["model/gru/bias"]
        gates = product(inputs, by_inputs, precision=self.precision) + gates
        reset, candidate, update = jnp.split(rms_norm(params, "model/gru", gates), 3, -1)
        candidate = jnp.tanh(jax.nn.sigmoid(reset) * candidate)
        update = jax.nn.sigmoid(update - 1.0)  # begins by remembering
        return update * candidate + (1.0 - update) * latent.deter

    def prior(self, params: Params, deter: Float[Array, "*b D"]) -> Float[Array, "*b G C"]:
        """Log-probabilities of the stochastic state before seeing the observation."""
        return self._logits(mlp(params, "model/prior", deter, layers=2, precision=self.precision))

    def posterior(
        self, params: Params, deter: Float[Array, "*b D"], evidence: Float[Array, "*b H"]
    ) -> Float[Array, "*b G C"]:
        """Log-probabilities of the stochastic state given what `encode` made of the observation."""
        name = "model/posterior"
        hidden = product(deter, params[f"{name}/0/weight"][: self.deter], precision=self.precision)
        hidden = jax.nn.silu(rms_norm(params, f"{name}/0", hidden + evidence + params[f"{name}/0/bias"]))
        return self._logits(dense(params, f"{name}/1", hidden, precision=self.precision))

    def decode(self, params: Params, latent: Latent) -> Float[Array, "*b O"]:
        """Return the predicted observation, in symlog space."""
        return mlp(params, "model/decoder", jnp.concatenate(latent, -1), layers=3, precision=self.precision)

    def reward_logits(self, params: Params, latent: Latent) -> Float[Array, "*b K"]:
        return mlp(params, "model/reward", jnp.concatenate(latent, -1), layers=2, precision=self.precision)

    def value_logits(self, params: Params, latent: Latent) -> Float[Array, "*b K"]:
        return mlp(params, "value/head", jnp.concatenate(latent, -1), layers=3, precision=self.precision)

    def reward(self, params: Params, latent: Latent) -> Float[Array, "*b"]:
        """Return the expected reward of the control step that led to `latent`."""
        return layers.expected(self.reward_logits(params, latent), low=0.0, high=self.reward_high)

    def value(self, params: Params, latent: Latent) -> Float[Array, "*b"]:
        """Return the expected discounted return from `latent` on."""
        return layers.expected(self.value_logits(params, latent), low=0.0, high=self.value_high)

    def sample(self, logits: Float[Array, "*b G C"], gumbel: Float[Array, "*b G C"]) -> Float[Array, "*b S"]:
        """Return a one-hot sample (the largest of logits + Gumbel noise) whose gradient passes straight through to
        the probabilities. Noise comes from outside, so that a sequence's is drawn at once."""
        probs = jnp.exp(logits)
        hot = jax.nn.one_hot(jnp.argmax(logits + gumbel, -1), self.classes)
        return self._flat(hot + probs - jax.lax.stop_gradient(probs))

    def mode(self, logits: Float[Array, "*b G C"]) -> Float[Array, "*b S"]:
        """Return the most likely one-hot state."""
        return self._flat(jax.nn.one_hot(jnp.argmax(logits, -1), self.classes))

    def mean(self, logits: Float[Array, "*b G C"]) -> Float[Array, "*b S"]:
        """Return the probabilities themselves."""
        return self._flat(jnp.exp(logits))

    def _flat(self, groups: Float[Array, "*b G C"]) -> Float[Array, "*b S"]:
        return groups.reshape(*groups.shape[:-2], self.stoch)

    def _logits(self, flat: Float[Array, "*b S"]) -> Float[Array, "*b G C"]:
        """Log-probabilities mixed with a little of the uniform distribution, so that no KL is infinite."""
        probs = jax.nn.softmax(flat.reshape(*flat.shape[:-1], self.groups, self.classes))
        return jnp.log((1.0 - self.unimix) * probs + self.unimix / self.classes)
