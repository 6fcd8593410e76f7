"""The paper's agent: an RSSM that filters, and CEM that plans through it (paper, Section 3.1).

The paper's has no actor. Ours may have its planner search among an actor's proposals too (`proposals`).
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, UInt32

from worldfork import randomness
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Arrays, Decision, Surprise, Window
from worldfork.lab.agents.differentiable import LossFunction
from worldfork.lab.agents.jax_agent import JaxAgent, on_its_way, single
from worldfork.lab.agents.layers import Params, symlog
from worldfork.lab.agents.rssm_cem import losses, optimiser
from worldfork.lab.agents.rssm_cem.actor import initialise_actor, propose
from worldfork.lab.agents.rssm_cem.planning import Prepared, available, imagination, prepare
from worldfork.lab.agents.rssm_cem.rssm import RSSM, Latent
from worldfork.lab.agents.sequences import Sequences, cut_into_pieces, rows_of, sample_sequences
from worldfork.lab.planner import cem
from worldfork.lab.planner.cem import CEM

SCOPES: Final = {"model": ("model",), "model+value": ("model", "value")}

# Group -> what the names of its parameters begin with. A scope still decides what the loss is: in the scope `model`
# the value head has none, and `heads` is the reward head.
GROUPS: Final = {
    "encoder": ("model/encoder/", "model/posterior/"),
    "dynamics": ("model/input/", "model/gru/", "model/prior/"),
    "decoder": ("model/decoder/",),
    "reward": ("model/reward/",),
    "value": ("value/",),
    "heads": ("model/reward/", "value/"),
}


@dataclasses.dataclass(frozen=True)
class SequenceLoss(LossFunction):
    """Sequences of a window, the world model's loss on them, and Adam (`worldfork.lab.agents.differentiable`)."""

    model: RSSM
    sequences: int
    length: int

    def rows(self, window: Window) -> Sequences:
        return rows_of(window)

    def sample(self, rows: Sequences, size: Array, key: Array) -> Sequences:
        return sample_sequences(rows, size, key, sequences=self.sequences, length=self.length)

    def pieces(self, rows: Sequences, size: Array) -> tuple[Sequences, Array]:
        return cut_into_pieces(rows, size, length=self.length)

    def loss(self, params: Params, batch: Sequences, key: Array, *, scope: str) -> Array:
        loss, filtered = losses.model_loss(self.model, params, batch, key)
        if "value" in SCOPES[scope]:
            loss += losses.replay_value_loss(self.model, params, params, batch, filtered.latent)
        return loss

    def optimiser(self, rates: Mapping[str, Any]) -> optax.GradientTransformation:
        return optimiser.adam(rates)

    def restore(self, moments: Params, names: Collection[str]) -> optax.OptState:
        return optimiser.restore(moments, names)

    def flatten(self, state: optax.OptState) -> dict[str, Array]:
        return optimiser.flatten(state)


class Belief(NamedTuple):
    """State that carries over from one control step to the next."""

    latent: Latent
    action: Float[Array, "P E A"]
    warm: Float[Array, "P E H A"]


@dataclasses.dataclass(frozen=True)
class RSSMCEM(JaxAgent):
    """Plain settings only, so that an agent is a value: equal settings, equal programs."""

    model: RSSM
    planner: CEM
    sequences: int  # a minibatch of UPDATE
    length: int
    model_rate: float
    value_rate: float
    planning: str | None = None  # the precision of imagination, if not the model's own
    fused: bool = True  # plan with the GPU kernel where there is one for the model; differs by rounding
    shape_sensitive: bool = True

    trained_parts: ClassVar = SCOPES
    groups: ClassVar = GROUPS

    @functools.cached_property
    def imagined(self) -> RSSM:
        """The model as the planner runs it."""
        return dataclasses.replace(self.model, precision=self.planning or self.model.precision)

    @property
    def described(self) -> dict[str, Any]:
        """The model's settings that its parameters depend on; precision is a matter of who runs it."""
        return {name: value for name, value in dataclasses.asdict(self.model).items() if name != "precision"}

    def begin(self, parameters: Arrays, observation: Float[np.ndarray, "P E O"]) -> Belief:
        """Return the belief at an episode's first observation."""
        return _begin(self.model, self.planner.horizon, dict(parameters), single(observation))

    def act(self, parameters: Arrays, belief: Belief, plan_keys: UInt32[np.ndarray, "P E 2"]) -> Decision:
        """Plan from the belief. A search without any finite candidate becomes the zero action, and is flagged."""
        randomness.consume(plan_keys, randomness.Purpose.PLANNING)
        belief, replaced = _act(self.imagined, self.planner, dict(parameters), belief, plan_keys, fused=self.fused)
        on_its_way(belief.action, replaced)
        return Decision(belief.action, replaced, belief)

    def observe(self, parameters: Arrays, belief: Belief, observation: Float[np.ndarray, "P E O"]) -> Surprise:
        """Filter the outcome of the last action; its prior prediction error and raw KL are the stream's signals."""
        latent, error, kl = _observe(self.model, dict(parameters), belief, single(observation))
        return Surprise({"error": error, "kl": kl}, belief._replace(latent=latent))

    def begin_again(
        self,
        parameters: Arrays,
        belief: Belief,
        observation: Float[np.ndarray, "P E O"],
        where: Bool[np.ndarray, "P E"],
    ) -> Belief:
        """Return the belief, dropped in the episodes that begin anew: no state before them, and no plan to start
        from."""
        return _begin_again(self.model, self.planner.horizon, dict(parameters), belief, single(observation), where)

    def loss(self, parameters: Arrays, window: Window) -> Float[np.ndarray, " P"]:
        """Return the training loss on the window, cut into sequences in order; transitions at its end that do not
        fill a sequence are left out (of an episode of 250, the last 26 at a length of 32 and the last 10 at 16)."""
        rows = self.loss_function.rows(window)
        return np.asarray(_loss(self.model, dict(parameters), rows, jnp.asarray(window.size), length=self.length))

    @property
    def loss_function(self) -> SequenceLoss:
        return SequenceLoss(self.model, self.sequences, self.length)

    @property
    def rates(self) -> dict[str, float]:
        return {"model": self.model_rate, "value": self.value_rate}

    def shortage(self, window: Window) -> str:
        return "" if int(window.size.min()) >= self.length else f"and a training sequence {self.length}"

    def fresh(self, parameters: Arrays, keys: UInt32[np.ndarray, "P 2"]) -> tuple[Arrays, Arrays]:
        """Parameters before any training, and an optimiser that has taken no step."""
        return _fresh(self.model, keys, actor=self.planner.proposals > 0)


@functools.partial(jax.jit, static_argnums=0, static_argnames="actor")
def _fresh(model: RSSM, keys: Array, *, actor: bool) -> tuple[dict[str, Array], dict[str, Array]]:
    def of_set(words: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        params = model.initialise(key)
        moments = optimiser.flatten(optimiser.initialise(params))
        if actor:
            params |= initialise_actor(model, jax.random.fold_in(key, 0))
        # A checkpoint's file keeps the number of steps as an array of one; a deployment goes on with either.
        return params, {**moments, "count": moments["count"][None]}

    return jax.vmap(of_set)(keys)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _begin(model: RSSM, horizon: int, params: Params, observation: Array) -> Belief:
    return _first_belief(model, horizon, params, observation)


def _first_belief(model: RSSM, horizon: int, params: Params, observation: Array) -> Belief:
    latent = jax.vmap(model.begin)(params, observation)
    batch = observation.shape[:2]
    return Belief(
        latent,
        jnp.zeros((*batch, model.action_size)),
        jnp.zeros((*batch, horizon, model.action_size)),
    )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _begin_again(
    model: RSSM, horizon: int, params: Params, belief: Belief, observation: Array, where: Array
) -> Belief:
    fresh = _first_belief(model, horizon, params, observation)
    picked: Belief = arrays.begun(belief, fresh, where)
    return picked


@functools.partial(jax.jit, static_argnums=(0, 1), static_argnames="fused")
def _act(
    model: RSSM, planner: CEM, params: Params, belief: Belief, plan_keys: Array, *, fused: bool
) -> tuple[Belief, Array]:
    def search(params: Params, prepared: Prepared | None, latent: Latent, warm: Array, words: Array) -> cem.Plan:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        imagine = imagination(model, params, latent, prepared)
        proposed = propose(model, params, params, latent, cem.proposal_key(key, planner), settings=planner)
        return cem.plan(imagine, warm, key, settings=planner, proposed=proposed)

    def search_all(params: Params, latent: Latent, warm: Array, words: Array) -> cem.Plan:
        prepared = prepare(model, params) if fused and available(model, planner.candidates) else None
        return jax.vmap(search, in_axes=(None, None, 0, 0, 0))(params, prepared, latent, warm, words)

    plans = jax.vmap(search_all)(params, belief.latent, belief.warm, plan_keys)
    warm = jax.vmap(jax.vmap(cem.shift))(plans.mean)
    return Belief(belief.latent, plans.action, warm), ~plans.finite


@functools.partial(jax.jit, static_argnums=0)
def _observe(model: RSSM, params: Params, belief: Belief, observation: Array) -> tuple[Latent, Array, Array]:
    def take_in(params: Params, latent: Latent, action: Array, observation: Array) -> tuple[Latent, Array, Array]:
        deter = model.advance(params, latent, action)
        prior = model.prior(params, deter)
        posterior = model.posterior(params, deter, model.encode(params, observation))
        predicted = model.decode(params, Latent(deter, model.mean(prior)))
        error = jnp.mean((predicted - symlog(observation)) ** 2, -1)
        return Latent(deter, model.mode(posterior)), error, losses.kl(posterior, prior)

    return jax.vmap(take_in)(params, belief.latent, belief.action, observation)


@functools.partial(jax.jit, static_argnums=0, static_argnames="length")
def _loss(model: RSSM, params: dict[str, Array], rows: Sequences, size: Array, *, length: int) -> Array:
    def of_set(params: Params, rows: Sequences, size: Array) -> Array:
        pieces, real = cut_into_pieces(rows, size, length=length)
        each = jax.vmap(lambda piece: losses.model_loss(model, params, piece, None)[0])(pieces)
        return jnp.sum(jnp.where(real, each, 0.0)) / jnp.sum(real)

    return jax.vmap(of_set)(params, rows, size)
