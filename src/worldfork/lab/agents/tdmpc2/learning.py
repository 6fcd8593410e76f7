"""The agent's side of training: losses, minibatches, optimisers and moving averages; and its search in
imagination."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from worldfork.lab.agents.base import Window
from worldfork.lab.agents.layers import Params
from worldfork.lab.agents.sequences import Sequences, cut_into_pieces, rows_of
from worldfork.lab.agents.tdmpc2 import losses, optimiser
from worldfork.lab.agents.tdmpc2.losses import draw_pair
from worldfork.lab.agents.tdmpc2.networks import Networks
from worldfork.lab.planner import mppi
from worldfork.lab.planner.mppi import MPPI, Plan

SCOPES: Final = {
    "model+value+policy": ("model", "value", "policy"),  # all that TD-MPC2 trains
    "model+value": ("model", "value"),
    "model": ("model",),
    "value": ("value",),
}

LOSSES: Final = ("model_loss", "policy_loss")  # of the two parts of an update

# Group -> what the names of its parameters begin with. Target Q functions go along with the values, and the range
# that the policy's loss is divided by with the policy.
GROUPS: Final = {
    "encoder": ("model/encoder/",),
    "dynamics": ("model/dynamics/",),
    "reward": ("model/reward/",),
    "value": ("value/", "target/"),
    "policy": ("policy/", "scale/"),
}


class WindowRows(NamedTuple):
    """A window's transitions, and where in it a sequence can begin that lies within one episode."""

    sequences: Sequences  # [T, ...]
    starts: Int[Array, "*P T"]
    possible: Int[Array, "*P"]  # starts that are real


@dataclasses.dataclass(frozen=True)
class LatentLoss:
    """Sequences of a window, and how TD-MPC2 learns from them (`worldfork.lab.agents.differentiable`)."""

    networks: Networks
    sequences: int
    length: int

    parts: ClassVar[tuple[str | tuple[str, ...], ...]] = (("model/", "value/"), "policy/")

    def rows(self, window: Window) -> WindowRows:
        starts, count = possible_starts(window, self.length)
        return WindowRows(rows_of(window), jnp.asarray(starts), jnp.asarray(count))

    def sample(self, rows: WindowRows, size: Array, key: Key[Array, ""]) -> Sequences:
        """Return a minibatch of sequences, each from a start drawn uniformly among those that are possible."""
        starts = rows.starts[jax.random.randint(key, (self.sequences,), 0, rows.possible)]
        index = starts[:, None] + jnp.arange(self.length)
        drawn: Sequences = jax.tree.map(lambda x: x[index], rows.sequences)
        return drawn

    def pieces(self, rows: WindowRows, size: Array) -> tuple[Sequences, Array]:
        return whole_pieces(rows.sequences, size, length=self.length)

    def loss(self, params: Params, batch: Sequences, key: Key[Array, ""], *, scope: str) -> Float[Array, ""]:
        """Return the loss of model and values."""
        return self.part_loss(0, params, batch, key=key, scope=scope, seen=None)[0]

    def part_loss(
        self, part: int, params: Params, batch: Sequences, *, key: Key[Array, ""], scope: str, seen: Any
    ) -> tuple[Float[Array, ""], Array]:
        """First model and values, which hand on the latents that they imagined; then the policy in these latents,
        which hands on the range of values."""
        sequences, length = batch.reward.shape
        if part == 0:
            shape = {"sequences": sequences, "steps": length, "functions": self.networks.values}
            draws = losses.draw(self.networks, key, **shape)
            return losses.world_loss(self.networks, params, batch, draws, parts=SCOPES[scope])
        draws = losses.draw(self.networks, key, sequences=sequences, steps=length + 1, functions=2)
        return losses.policy_loss(self.networks, params, seen, draws)

    def followers(self, trained: Collection[str]) -> tuple[str, ...]:
        each = {"value/": "target/", "policy/": "scale/"}
        return tuple(other for prefix, other in each.items() if any(name.startswith(prefix) for name in trained))

    def follow(self, params: Params, seen: Array) -> dict[str, Array]:
        return {**losses.follow_values(params), "scale/policy": seen}

    def optimiser(self, rates: Mapping[str, Any]) -> optax.GradientTransformation:
        return optimiser.adam(rates)

    def restore(self, moments: Params, names: Collection[str]) -> optax.OptState:
        return optimiser.restore(moments, names)

    def flatten(self, state: optax.OptState) -> dict[str, Array]:
        return optimiser.flatten(state)


def learn(
    loss_function: LatentLoss,
    params: Params,
    moments: Params,
    batch: Sequences,
    *,
    key: Key[Array, ""],
    rates: Mapping[str, float],
) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
    """Update everything of one parameter set: return new parameters, new moments, and both losses. It is what
    `differentiable.train` does in the scope of everything, for pretraining, which has replay instead of windows."""
    params, moments, found = dict(params), dict(moments), {}
    seen: Any = None
    for part, (name, prefixes) in enumerate(zip(LOSSES, loss_function.parts, strict=True)):
        chosen = {entry: x for entry, x in params.items() if entry.startswith(prefixes)}
        each = jax.random.fold_in(key, part) if part else key
        objective = functools.partial(_objective, loss_function, part, params, batch, each, seen)
        (found[name], seen), gradients = jax.value_and_grad(objective, has_aux=True)(chosen)
        updates, state = optimiser.adam(rates).update(gradients, optimiser.restore(moments, chosen), chosen)
        params |= optax.apply_updates(chosen, updates)
        moments |= optimiser.flatten(state)
    params |= loss_function.follow(params, seen)
    return params, moments, found


def _objective(
    loss_function: LatentLoss, part: int, params: Params, batch: Sequences, key: Array, seen: Any, chosen: Params
) -> tuple[Array, Array]:
    everything = {**params, **chosen}
    return loss_function.part_loss(part, everything, batch, key=key, scope="model+value+policy", seen=seen)


def possible_starts(window: Window, length: int) -> tuple[Int[np.ndarray, "P T"], Int[np.ndarray, " P"]]:
    """Of each window the rows from which `length` real transitions follow in one episode, padded at the end."""
    rows = window.reward.shape[1]
    place = np.arange(rows)
    # The row in which the episode after the one of each row begins, or the window's end.
    begins = np.where(window.first & (place < window.size[:, None]), place, rows)
    after = np.minimum.accumulate(begins[:, ::-1], 1)[:, ::-1]
    after = np.concatenate([after[:, 1:], np.full((len(after), 1), rows)], 1)
    possible = place + length <= np.minimum(after, window.size[:, None])
    order = np.argsort(~possible, axis=1, kind="stable")
    return order.astype(np.int32), possible.sum(1).astype(np.int32)


def whole_pieces(rows: Sequences, size: Array, *, length: int) -> tuple[Sequences, Array]:
    """Rows [T, ...] as sequences in order [n, 1, length, ...], and which of them are real and within an episode."""
    pieces, real = cut_into_pieces(rows, size, length=length)
    return pieces, real & ~jnp.any(pieces.first[:, 0, 1:], 1)


def search(
    networks: Networks,
    params: Params,
    latent: Float[Array, " L"],
    *,
    warm: Float[Array, "H A"],
    plan_key: Key[Array, ""],
    planner: MPPI,
) -> Plan:
    """Return the plan from one latent."""
    proposed = propose(networks, params, latent, key=mppi.proposal_key(plan_key, planner), planner=planner)
    imagine = imagination(networks, params, latent)
    return mppi.plan(imagine, warm, proposed=proposed, plan_key=plan_key, settings=planner)


def imagination(
    networks: Networks, params: Params, latent: Float[Array, " L"]
) -> Callable[[Float[Array, "N H A"], Key[Array, ""]], Float[Array, " N"]]:
    """Return the values of action sequences: discounted rewards, and then the mean of two Q functions at the
    policy's action."""

    def imagine(actions: Float[Array, "N H A"], key: Key[Array, ""]) -> Float[Array, " N"]:
        pair_key, normal_key = jax.random.split(key)
        after, value = latent[None], jnp.zeros(len(actions))
        for step in range(actions.shape[1]):
            action = actions[:, step]
            value += networks.discount**step * networks.reward(params, after, action)
            after = networks.advance(params, after, action)
        last = networks.policy(params, after).sample(jax.random.normal(normal_key, actions[:, 0].shape))
        # All Q functions and then two of them: decisions of a batch draw different ones, and share their weights.
        ends = networks.decode(networks.value_logits(params, after, last))
        two = ends[draw_pair(networks, pair_key)]
        return value + networks.discount ** actions.shape[1] * jnp.mean(two, 0)

    return imagine


def propose(
    networks: Networks, params: Params, latent: Float[Array, " L"], *, key: Key[Array, ""], planner: MPPI
) -> Float[Array, "M H A"]:
    """Action sequences that the policy draws as it goes along in imagination."""
    shape = (planner.horizon, planner.proposals, networks.action_size)
    normals = jax.random.normal(key, shape)
    after = jnp.broadcast_to(latent, (planner.proposals, len(latent)))
    actions = []
    for step, normal in enumerate(normals):
        actions.append(networks.policy(params, after).sample(normal))
        if step + 1 < planner.horizon:
            after = networks.advance(params, after, actions[-1])
    return jnp.stack(actions, 1)
