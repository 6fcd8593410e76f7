"""TD-MPC2 behind the agent's contract: a latent of the last observation, and a search that a policy prior joins."""

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, UInt32

from worldfork import randomness
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Arrays, Decision, Surprise, Window
from worldfork.lab.agents.jax_agent import JaxAgent, on_its_way, single
from worldfork.lab.agents.layers import Params
from worldfork.lab.agents.sequences import Sequences
from worldfork.lab.agents.tdmpc2 import losses
from worldfork.lab.agents.tdmpc2.learning import GROUPS, SCOPES, LatentLoss, possible_starts, search, whole_pieces
from worldfork.lab.agents.tdmpc2.networks import Networks
from worldfork.lab.agents.tdmpc2.optimiser import initialise, rates_of
from worldfork.lab.planner import mppi
from worldfork.lab.planner.mppi import MPPI, Plan


class Belief(NamedTuple):
    """State that carries over: the latent of the last observation, the action planned on it, and the next warm
    start."""

    latent: Float[Array, "P E L"]
    action: Float[Array, "P E A"]
    warm: Float[Array, "P E H A"]


@dataclasses.dataclass(frozen=True)
class TDMPC2(JaxAgent):
    """Plain settings only, so that an agent is a value: equal settings, equal programs."""

    networks: Networks
    planner: MPPI
    sequences: int  # a minibatch of UPDATE
    length: int
    rate: float
    planning: str | None = None  # the precision of imagination, if not the networks' own
    shape_sensitive: bool = True

    trained_parts: ClassVar = SCOPES
    groups: ClassVar = GROUPS

    @functools.cached_property
    def imagined(self) -> Networks:
        """The networks as the planner runs them."""
        return dataclasses.replace(self.networks, precision=self.planning or self.networks.precision)

    @property
    def described(self) -> dict[str, Any]:
        """The networks' settings that their parameters depend on; precision is a matter of who runs them."""
        settings = {name: value for name, value in dataclasses.asdict(self.networks).items() if name != "precision"}
        return {"agent": "tdmpc2", **settings}

    @property
    def loss_function(self) -> LatentLoss:
        """The loss that it learns from."""
        return LatentLoss(self.networks, self.sequences, self.length)

    def begin(self, parameters: Arrays, observation: Float[np.ndarray, "P E O"]) -> Belief:
        """Return the belief at an episode's first observation."""
        return _begin(self.networks, self.planner.horizon, dict(parameters), single(observation))

    def act(self, parameters: Arrays, belief: Belief, plan_keys: UInt32[np.ndarray, "P E 2"]) -> Decision:
        """Plan from the belief. A search without any finite candidate becomes the zero action, and is flagged."""
        randomness.consume(plan_keys, randomness.Purpose.PLANNING)
        belief, replaced = _act(self.imagined, self.planner, dict(parameters), belief, plan_keys)
        on_its_way(belief.action, replaced)
        return Decision(belief.action, replaced, belief)

    def observe(self, parameters: Arrays, belief: Belief, observation: Float[np.ndarray, "P E O"]) -> Surprise:
        """Take in the outcome of the last action. Nothing is decoded, so that `error` is in the latent space: the
        consistency error, the mean squared difference of the imagined latent from the encoded one. Beside it stand
        the reward that was expected of the action, and how far apart the Q functions were on it."""
        latent, signals = _observe(self.networks, dict(parameters), belief, single(observation))
        return Surprise(signals, belief._replace(latent=latent))

    def begin_again(
        self,
        parameters: Arrays,
        belief: Belief,
        observation: Float[np.ndarray, "P E O"],
        where: Bool[np.ndarray, "P E"],
    ) -> Belief:
        """Drop the belief of the episodes in `where`: no state before them, and no plan to start from."""
        begun: Belief = arrays.begun(belief, self.begin(parameters, observation), jnp.asarray(where))
        return begun

    def loss(self, parameters: Arrays, window: Window) -> Float[np.ndarray, " P"]:
        """Return the loss of model and values on the window, cut into sequences in order, without anything random:
        the policy's most likely action, the minimum of all target Q functions. Sequences that do not lie within one
        episode, and what fills none at the end, are left out."""
        rows = self.loss_function.rows(window).sequences
        return np.asarray(
            _loss(self.networks, dict(parameters), rows, jnp.asarray(window.size), length=self.length)
        )

    @property
    def rates(self) -> dict[str, float]:
        return rates_of(self.rate)

    def shortage(self, window: Window) -> str:
        if possible_starts(window, self.length)[1].all():
            return ""
        return f"and none of {self.length} in a row within one episode, which a training sequence needs"

    def fresh(self, parameters: Arrays, keys: UInt32[np.ndarray, "P 2"]) -> tuple[Arrays, Arrays]:
        """Parameters before any training, and optimisers that have taken no step."""
        return _fresh(self.networks, keys)


def fresh_learner(networks: Networks, key: Key[Array, ""]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return one parameter set before any training, and its optimisers."""
    params = networks.initialise(key)
    return params, initialise(params)


@functools.partial(jax.jit, static_argnums=0)
def _fresh(networks: Networks, keys: Array) -> tuple[dict[str, Array], dict[str, Array]]:
    return jax.vmap(functools.partial(fresh_learner, networks))(jax.random.wrap_key_data(keys, impl="threefry2x32"))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _begin(networks: Networks, horizon: int, params: Params, observation: Array) -> Belief:
    latent = jax.vmap(networks.encode)(params, observation)
    batch = observation.shape[:2]
    return Belief(
        latent,
        jnp.zeros((*batch, networks.action_size)),
        jnp.zeros((*batch, horizon, networks.action_size)),
    )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _act(
    networks: Networks, planner: MPPI, params: Params, belief: Belief, plan_keys: Array
) -> tuple[Belief, Array]:
    def plan(params: Params, latent: Array, warm: Array, words: Array) -> Plan:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        return search(networks, params, latent, warm=warm, plan_key=key, planner=planner)

    each_episode = jax.vmap(plan, in_axes=(None, 0, 0, 0))
    plans = jax.vmap(each_episode)(params, belief.latent, belief.warm, plan_keys)
    warm = jax.vmap(jax.vmap(mppi.shift))(plans.mean)
    return Belief(belief.latent, plans.action, warm), ~plans.finite


@functools.partial(jax.jit, static_argnums=0)
def _observe(
    networks: Networks, params: Params, belief: Belief, observation: Array
) -> tuple[Array, dict[str, Array]]:
    def take_in(params: Params, latent: Array, action: Array, observation: Array) -> tuple[Array, dict[str, Array]]:
        after = networks.encode(params, observation)
        values = networks.decode(networks.value_logits(params, latent, action))
        return after, {
            "error": jnp.mean((networks.advance(params, latent, action) - after) ** 2, -1),
            "expected_reward": networks.reward(params, latent, action),
            "value_spread": jnp.std(values, 0),
        }

    return jax.vmap(take_in)(params, belief.latent, belief.action, observation)


@functools.partial(jax.jit, static_argnums=0, static_argnames="length")
def _loss(networks: Networks, params: Params, rows: Sequences, size: Array, *, length: int) -> Array:
    def of_set(params: Params, rows: Sequences, size: Array) -> Array:
        pieces, real = whole_pieces(rows, size, length=length)
        parts = ("model", "value")
        each = jax.vmap(lambda piece: losses.world_loss(networks, params, piece, None, parts=parts)[0])(pieces)
        return jnp.sum(jnp.where(real, each, 0.0)) / jnp.sum(real)

    return jax.vmap(of_set)(params, rows, size)
