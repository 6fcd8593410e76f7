"""A gradient step of pretraining: the world model, the imagination actor and the value head."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from worldfork.lab.agents import layers
from worldfork.lab.agents.layers import Params, frugal
from worldfork.lab.agents.rssm_cem import losses
from worldfork.lab.agents.rssm_cem.actor import initialise_actor, policy
from worldfork.lab.agents.rssm_cem.optimiser import adam, initialise
from worldfork.lab.agents.rssm_cem.rssm import RSSM, Latent
from worldfork.lab.agents.sequences import Sequences


@dataclasses.dataclass(frozen=True)
class Learning:
    """Settings of a member's learning; a recipe says what each of these is."""

    model_rate: float
    value_rate: float
    actor_rate: float
    starts: int
    imagined: int
    trace: float
    entropy: float
    replayed: float
    slow: float
    unroll: int  # transitions, real and imagined, that are compiled as one


class Masks(NamedTuple):
    """1 where a padded array holds something real, else 0."""

    observation: Float[Array, " O"]
    action: Float[Array, " A"]


class Learner(NamedTuple):
    """Everything that training changes."""

    params: Params
    optimiser: optax.OptState
    actor: Params
    actor_optimiser: optax.OptState
    slow: Params  # moving average of the value head
    spread: Float[Array, ""]  # moving average of the range of imagined returns


def initialise_learner(model: RSSM, key: Key[Array, ""]) -> Learner:
    model_key, actor_key = jax.random.split(key)
    params, actor = model.initialise(model_key), initialise_actor(model, actor_key)
    slow = {name: x for name, x in params.items() if name.startswith("value/")}
    return Learner(params, initialise(params), actor, initialise(actor), slow, jnp.zeros(()))


def train_step(
    learner: Learner,
    batch: Sequences,
    *,
    model: RSSM,
    learning: Learning,
    key: Key[Array, ""],
    masks: Masks,
    share: float | Float[Array, ""] = 1.0,
) -> tuple[Learner, dict[str, Float[Array, ""]]]:
    """World model, then actor and value from where the model's latents were; `share` scales the learning rates."""
    filter_key, start_key, dream_key = jax.random.split(key, 3)
    world = {name: x for name, x in learner.params.items() if name.startswith("model/")}

    def world_objective(world: Params) -> tuple[Array, losses.Filtered]:
        params = {**learner.params, **world}
        return losses.model_loss(model, params, batch, filter_key, masks.observation, unroll=learning.unroll)

    (model_loss, filtered), world_gradients = jax.value_and_grad(world_objective, has_aux=True)(world)
    replayed = jax.lax.stop_gradient(filtered.latent)

    flat = Latent(*(x.reshape(-1, x.shape[-1]) for x in replayed))
    chosen = jax.random.choice(start_key, len(flat.deter), (learning.starts,), replace=False)
    start = Latent(flat.deter[chosen], flat.stoch[chosen])

    def actor_objective(actor: Params) -> tuple[Array, tuple[Dream, Array]]:
        dream = imagine(learner, actor, model=model, learning=learning, start=start, key=dream_key, masks=masks)
        still = jax.lax.stop_gradient(dream)
        chosen = policy(actor, still.before)
        entropy = chosen.entropy(masks.action)
        # The gradient passes through the model, as in DreamerV1 and V2 for continuous actions.
        gain = dream.returns / jnp.maximum(1.0, still.spread)
        return -jnp.mean(gain + learning.entropy * entropy), (still, jnp.mean(entropy))

    (_, (dream, entropy)), actor_gradients = jax.value_and_grad(actor_objective, has_aux=True)(learner.actor)

    value_params = {name: x for name, x in learner.params.items() if name.startswith("value/")}

    def value_objective(value: Params) -> Array:
        params = {**learner.params, **value}
        logits = model.value_logits(params, dream.before)
        imagined = jnp.mean(layers.log_loss(logits, dream.returns, low=0.0, high=model.value_high))
        slow = {**learner.params, **learner.slow}
        return imagined + learning.replayed * losses.replay_value_loss(
            model, params, slow, batch, replayed, trace=learning.trace
        )

    value_loss, value_gradients = jax.value_and_grad(value_objective)(value_params)
    rates = {"model": share * learning.model_rate, "value": share * learning.value_rate}
    gradients = {**world_gradients, **value_gradients}
    updates, optimiser = adam(rates).update(gradients, learner.optimiser, learner.params)
    params = optax.apply_updates(learner.params, updates)
    updates, actor_optimiser = adam({"actor": share * learning.actor_rate}).update(
        actor_gradients, learner.actor_optimiser, learner.actor
    )
    actor = optax.apply_updates(learner.actor, updates)
    slow = {name: x + learning.slow * (params[name] - x) for name, x in learner.slow.items()}
    metrics = {
        "model_loss": model_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "kl": jnp.mean(losses.kl(filtered.posterior, filtered.prior)),
        "imagined_return": jnp.mean(dream.returns),
    }
    return Learner(params, optimiser, actor, actor_optimiser, slow, dream.spread), metrics


class Dream(NamedTuple):
    """Imagined transitions, time first: the latent before each action, and what came of it."""

    before: Latent
    returns: Float[Array, "T N"]
    spread: Float[Array, ""]


def imagine(
    learner: Learner,
    actor: Params,
    *,
    model: RSSM,
    learning: Learning,
    start: Latent,
    key: Key[Array, ""],
    masks: Masks,
) -> Dream:
    """Roll the actor out in the model."""
    slow = {**learner.params, **learner.slow}

    normal_key, gumbel_key = jax.random.split(key)
    dreams = (learning.imagined, len(start.deter))
    noise = (
        jax.random.normal(normal_key, (*dreams, model.action_size)),
        jax.random.gumbel(gumbel_key, (*dreams, model.groups, model.classes)),
    )

    def advance(latent: Latent, noise: tuple[Array, Array]) -> tuple[Latent, tuple[Latent, Latent]]:
        # Actors see latents, but their gradient does not flow back through what they saw.
        action = policy(actor, jax.lax.stop_gradient(latent)).sample(noise[0]) * masks.action
        deter = model.advance(learner.params, latent, jnp.clip(action, -1.0, 1.0))
        after = Latent(deter, model.sample(model.prior(learner.params, deter), noise[1]))
        return after, (latent, after)

    _, (before, after) = jax.lax.scan(frugal(advance), start, noise, unroll=learning.unroll)
    reward, value = model.reward(learner.params, after), model.value(slow, after)
    returns = losses.lambda_returns(reward, value, discount=model.discount, trace=learning.trace)
    low, high = jnp.percentile(returns, jnp.array([5.0, 95.0]))
    spread = learner.spread + 0.01 * (high - low - learner.spread)
    return Dream(before, returns, spread)
