"""Pretraining of the paper's agent: the planner acts in some environments, an imagination actor in the others.

Functions act on one member; the programs vmap them. The first `planned` environments of a member are the planner's.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Key

from worldfork.lab.agents.pretraining import replay as replays
from worldfork.lab.agents.pretraining.loop import Trainee as AnyTrainee
from worldfork.lab.agents.pretraining.worlds import Worlds
from worldfork.lab.agents.rssm_cem.actor import policy, propose
from worldfork.lab.agents.rssm_cem.agent import RSSMCEM
from worldfork.lab.agents.rssm_cem.learner import Learner, Learning, Masks, initialise_learner, train_step
from worldfork.lab.agents.rssm_cem.optimiser import flatten
from worldfork.lab.agents.rssm_cem.planning import available, imagination, prepare
from worldfork.lab.agents.rssm_cem.recipe import Recipe
from worldfork.lab.agents.rssm_cem.rssm import RSSM, Latent
from worldfork.lab.agents.sequences import Sequences
from worldfork.lab.planner import cem
from worldfork.lab.planner.cem import CEM


@dataclasses.dataclass(frozen=True)
class Collecting:
    """Settings of acting in a member's environments; a recipe says what each of these is."""

    environments: int
    planned: int
    exploration: float  # standard deviation of the noise added to planned actions
    planner: CEM
    precision: str = "tf32"  # of the planner's imagination

    @classmethod
    def of(cls, recipe: Recipe) -> "Collecting":
        """Return those of a recipe."""
        planner, precision = recipe.collection.planner(), recipe.collection_precision
        return cls(recipe.environments, recipe.planned, recipe.exploration, planner, precision)


class Collector(NamedTuple):
    """State that each environment's driver carries from one control step to the next."""

    latent: Latent
    action: Float[Array, "E A"]
    warm: Float[Array, "planned H A"]


class Trainee(AnyTrainee):
    """The members of a group, of one or several tasks: observations and actions are padded to the largest."""

    recipe: Recipe

    def __init__(self, recipe: Recipe, worlds: Worlds) -> None:
        super().__init__(recipe, worlds)
        self.model = recipe.plugin(recipe.collection).model(worlds.observation_size, worlds.action_size)
        self.masks = Masks(*map(jnp.asarray, worlds.masks()))
        self.collecting = Collecting.of(recipe)
        minibatch = {"sequences": recipe.sequences, "length": recipe.length}
        self.programs = programs(
            self.model, learning_of(recipe), self.collecting, chunk=recipe.gradient_steps, **minibatch
        )

    def initialise(self, keys: Array) -> Learner:
        learners: Learner = jax.jit(jax.vmap(functools.partial(initialise_learner, self.model)))(keys)
        return learners

    def act(
        self,
        learners: Learner,
        memory: Collector | None,
        observation: Float32[np.ndarray, "M E O"],
        keys: Array,
        *,
        first: bool,
        random: bool,
    ) -> tuple[Array, Collector]:
        if memory is None:
            blank = initialise_collector(self.model, self.collecting)
            memory = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(observation), *x.shape)), blank)
        memory = self.programs[0](learners, memory, observation, keys, self.masks, first, random)
        return memory.action, memory

    def learn(
        self, learners: Learner, replay: Sequences, step: int, keys: Array
    ) -> tuple[Learner, dict[str, Array]]:
        share = self.recipe.rate_share(step / (self.recipe.episodes * self.worlds.episode_steps))
        return self.programs[1](learners, replay, step, keys, self.masks, share)

    def returns(self, earned: np.ndarray) -> dict[str, float]:
        planned = self.recipe.planned
        return {"planned_return": float(earned[:planned].mean()), "actor_return": float(earned[planned:].mean())}

    def arrays(self, learners: Learner) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        return jax.device_get({**learners.params, **learners.actor}), jax.device_get(flatten(learners.optimiser))

    def cut(self, arrays: dict[str, Any], agent: RSSMCEM) -> dict[str, Any]:
        """Drop the padding, and the actor where the agent's planner asks for no proposals."""
        kept = {name: x for name, x in arrays.items() if agent.planner.proposals or not name.startswith("actor/")}
        return cut(kept, agent.model)


@functools.lru_cache(maxsize=2)
def programs(
    model: RSSM, learning: Learning, collecting: Collecting, *, chunk: int, sequences: int, length: int
) -> tuple[Callable[..., Collector], Callable[..., tuple[Learner, dict[str, Array]]]]:
    """Return the two programs of a control step of all members: act, and learn for a chunk of gradient steps."""
    act = functools.partial(choose_actions, model=model, collecting=collecting)

    def learn(
        learner: Learner, replay: Sequences, filled: Array, key: Array, masks: Masks, share: Array
    ) -> tuple[Learner, dict[str, Array]]:
        def step(learner: Learner, key: Array) -> tuple[Learner, dict[str, Array]]:
            pick_key, learn_key = jax.random.split(key)
            batch = replays.sample(replay, filled, pick_key, sequences=sequences, length=length)
            return train_step(
                learner, batch, model=model, learning=learning, key=learn_key, masks=masks, share=share
            )

        learner, metrics = jax.lax.scan(step, learner, jax.random.split(key, chunk))
        return learner, jax.tree.map(lambda x: x[-1], metrics)

    return (
        jax.jit(jax.vmap(act, in_axes=(0, 0, 0, 0, 0, None, None))),
        jax.jit(jax.vmap(learn, in_axes=(0, 0, None, 0, 0, None)), donate_argnums=0),
    )


def learning_of(recipe: Recipe) -> Learning:
    """Return the settings of learning that a recipe registers."""
    return Learning(**{name: getattr(recipe, name) for name in Learning.__annotations__})


def initialise_collector(model: RSSM, collecting: Collecting) -> Collector:
    """Return the state of one member's drivers before the first control step."""
    shape = (collecting.environments,)
    return Collector(
        Latent(jnp.zeros((*shape, model.deter)), jnp.zeros((*shape, model.stoch))),
        jnp.zeros((*shape, model.action_size)),
        jnp.zeros((collecting.planned, collecting.planner.horizon, model.action_size)),
    )


def choose_actions(
    learner: Learner,
    collector: Collector,
    observation: Float[Array, "E O"],
    key: Key[Array, ""],
    masks: Masks,
    first: Bool[Array, ""],
    random: Bool[Array, ""],
    *,
    model: RSSM,
    collecting: Collecting,
) -> Collector:
    """Filter the observation and choose each environment's next action, in [-1, 1]; uniform ones if `random`."""
    plan_key, noise_key, actor_key, random_key = jax.random.split(key, 4)
    params = learner.params
    deter = model.advance(params, collector.latent, collector.action)
    corrected = model.posterior(params, deter, model.encode(params, observation))
    latent = jax.tree.map(
        lambda fresh, old: jnp.where(first, fresh, old),
        model.begin(params, observation),
        Latent(deter, model.mode(corrected)),
    )
    warm = jnp.where(first, 0.0, collector.warm)

    imagined = dataclasses.replace(model, precision=collecting.precision)
    prepared = prepare(imagined, params) if available(imagined, collecting.planner.candidates) else None

    def search(latent: Latent, warm: Array, key: Array) -> cem.Plan:
        planner, imagine = collecting.planner, imagination(imagined, params, latent, prepared)
        proposed = propose(
            imagined,
            learner.actor,
            params,
            latent,
            cem.proposal_key(key, planner),
            settings=planner,
            mask=masks.action,
        )
        return cem.plan(imagine, warm, key, settings=planner, mask=masks.action, proposed=proposed)

    planned = jax.vmap(search)(
        Latent(*(x[: collecting.planned] for x in latent)), warm, jax.random.split(plan_key, collecting.planned)
    )
    noise = collecting.exploration * jax.random.normal(noise_key, planned.action.shape)
    others = policy(learner.actor, Latent(*(x[collecting.planned :] for x in latent)))
    chosen = others.sample(jax.random.normal(actor_key, others.mean.shape))
    action = jnp.concatenate([planned.action + noise, chosen])
    uniform = jax.random.uniform(random_key, action.shape, minval=-1.0, maxval=1.0)
    action = jnp.clip(jnp.where(random, uniform, action), -1.0, 1.0) * masks.action
    return Collector(latent, action, jax.vmap(cem.shift)(planned.mean))


def cut(arrays: dict[str, Any], model: RSSM) -> dict[str, Any]:
    """Drop what belongs to padded observations and actions; their inputs were always zero, so nothing changes."""
    observations, inputs = model.observation_size, model.stoch + model.action_size
    ends: dict[str, tuple[slice, ...]] = {
        "model/encoder/0/weight": (slice(None), slice(observations)),
        "model/input/weight": (slice(None), slice(inputs)),
        "model/decoder/2/weight": (slice(None), slice(None), slice(observations)),
        "model/decoder/2/bias": (slice(None), slice(observations)),
    }
    if "actor/head/2/bias" in arrays:  # all means, then all deviations
        padded = arrays["actor/head/2/bias"].shape[-1] // 2
        outputs = np.r_[: model.action_size, padded : padded + model.action_size]
        arrays = arrays | {
            f"actor/head/2/{name}": arrays[f"actor/head/2/{name}"][..., outputs] for name in ("weight", "bias")
        }
    # An optimiser's moments carry a prefix before the parameter's name.
    bare = {name: name.removeprefix("mean/").removeprefix("square/") for name in arrays}
    return {name: x[ends[bare[name]]] if bare[name] in ends else x for name, x in arrays.items()}
