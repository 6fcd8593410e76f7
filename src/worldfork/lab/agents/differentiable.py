"""Training plans carried out in JAX: one compiled call over P parameter sets, for any agent with a `LossFunction`.

The number of steps, rates, shares and strengths are data. What changes the program is the loss function, which
parameters are trained, and which parts a plan has. The plain plan of the paper's agent is the program that its
published rows were computed with, operation by operation: parts that a plan lacks leave no trace in it.
"""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, UInt32

from worldfork import randomness
from worldfork.lab.agents.base import Arrays, Fit, Window
from worldfork.lab.agents.layers import squared_norms
from worldfork.lab.agents.training import ADAPTER_KEY, FISHER_KEY, TrainingPlan, rehearsed, scheduled

Params = dict[str, Array]
Batch = Any  # a tree of arrays with a leading axis of sequences
# Trained parameters, each part's optimiser, what follows without a gradient, two losses and the gradient norm.
Training = tuple[Params, list[optax.OptState], Params, Array, Array, Array]
Fitted = tuple[Params, Params, Array, Array, Array]


@runtime_checkable
class LossFunction(Protocol):
    """An agent's loss and minibatches, for one parameter set. Hashable; learning rates are not in it, for they are
    data. Derive from it for what has a default here.

    A gradient step may have parts with losses of their own, such as an actor after its critic. Each part is clipped
    and optimised by itself, and sees what the parts before it have learnt.
    """

    def rows(self, window: Window) -> Any:
        """P windows as the arrays that are drawn from."""

    def sample(self, rows: Any, size: Array, key: Array) -> Batch:
        """Return a minibatch from one window's rows, of which the first `size` are real."""

    def pieces(self, rows: Any, size: Array) -> tuple[Batch, Array]:
        """Return one window as minibatches of a single sequence each, and which of them are real."""

    def loss(self, params: Mapping[str, Array], batch: Batch, key: Array, *, scope: str) -> Array:
        """Return the training loss on a minibatch; what is random in it comes from `key`."""

    def optimiser(self, rates: Mapping[str, Any]) -> optax.GradientTransformation:
        """Return the agent's own."""

    def restore(self, moments: Mapping[str, Array], names: Collection[str]) -> optax.OptState:
        """Return the own optimiser's state for these parameters, from a checkpoint's dictionary."""

    def flatten(self, state: optax.OptState) -> Params:
        """Back into a checkpoint's dictionary."""

    @property
    def parts(self) -> tuple[str | tuple[str, ...], ...]:
        """Prefixes of the names of each part's parameters, in the order in which they are trained."""
        return ("",)  # everything is one part

    def part_loss(
        self, part: int, params: Mapping[str, Array], batch: Batch, *, key: Array, scope: str, seen: Any
    ) -> tuple[Array, Any]:
        """Return the loss of a part, and what the next part is to see; `seen` is what the part before it returned.
        The first part is evaluated even if nothing of it is trained, and its loss is the one that is reported."""
        return self.loss(params, batch, key, scope=scope), None

    def followers(self, trained: Collection[str]) -> tuple[str, ...]:
        """Return the prefixes of the parameters that move without a gradient when `trained` are trained."""
        return ()

    def follow(self, params: Mapping[str, Array], seen: Any) -> Mapping[str, Array]:
        """These parameters after a gradient step: moving averages. `seen` is what the last part returned."""
        return {}


class Numbers(NamedTuple):
    """The part of a plan that is data; scalars for all parameter sets alike."""

    rates: dict[str, np.float32]  # of the agent's own optimiser, by group
    learning_rate: np.float32  # of another
    momentum: np.float32
    weight_decay: np.float32
    warmup: np.int32
    final: np.float32
    rehearsed: np.int32  # sequences of a minibatch that are drawn from the replay
    strength: np.float32
    scale: np.float32  # of an adapter, already divided by its rank


class Beside(NamedTuple):
    """Arrays of a parameter set beside its window, where the plan needs them."""

    replay: Any = None  # rows and size
    center: Params | None = None
    fisher: Any = None  # rows and size


@dataclasses.dataclass(frozen=True)
class Structure:
    """The part of a plan that shapes the program."""

    trained: tuple[str, ...]
    scope: str
    optimiser: Literal["own", "sgd", "adam", "adamw"]
    schedule: Literal["constant", "linear", "cosine"] | None  # None: always the whole rate
    rank: int | None
    steps_differ: bool


def train(
    loss_function: LossFunction,
    parameters: Arrays,
    optimiser: Arrays,
    window: Window,
    *,
    plan: TrainingPlan,
    trained: Callable[[str], bool],
    rates: Mapping[str, float],
    sequences: int,
    batch_keys: UInt32[np.ndarray, "P 2"],
) -> Fit:
    """Carry out `plan` on the parameters that `trained` picks by name; `rates` are the agent's own, by group, and
    `sequences` the size of a minibatch."""
    randomness.consume(batch_keys, randomness.Purpose.UPDATE_BATCH)
    descent, penalty = plan.descent, plan.penalty
    structure = Structure(
        trained=tuple(sorted(name for name in parameters if trained(name))),
        scope=plan.scope,
        optimiser=descent.optimiser,
        schedule=descent.schedule if descent.scheduled else None,
        rank=plan.adapter.rank if plan.adapter else None,
        steps_differ=not isinstance(plan.steps, int),
    )
    numbers = Numbers(
        rates={group: np.float32(plan.rate * rate) for group, rate in rates.items()},
        learning_rate=np.float32(plan.rate * (descent.learning_rate or 0.0)),
        momentum=np.float32(descent.momentum),
        weight_decay=np.float32(descent.weight_decay),
        warmup=np.int32(descent.warmup),
        final=np.float32(descent.final),
        rehearsed=np.int32(rehearsed(plan.rehearsal.share, sequences) if plan.rehearsal else 0),
        strength=np.float32(penalty.strength if penalty else 0.0),
        scale=np.float32(plan.adapter.scale / plan.adapter.rank if plan.adapter else 0.0),
    )
    beside = Beside(
        replay=_rows(loss_function, plan.rehearsal.replay) if plan.rehearsal else None,
        center={name: jnp.asarray(x) for name, x in penalty.center.items()} if penalty else None,
        fisher=_rows(loss_function, penalty.replay) if penalty and penalty.replay is not None else None,
    )
    rows, size = _rows(loss_function, window)
    steps = np.asarray(plan.steps, np.int32)
    new, state, before, after, norm = _train(
        *(dict(parameters), dict(optimiser), rows, size, batch_keys, numbers, steps, beside),
        loss_function=loss_function,
        structure=structure,
    )
    return Fit(new, state, np.asarray(before), np.asarray(after), np.asarray(norm))


def _rows(loss_function: LossFunction, window: Window) -> tuple[Any, Array]:
    return loss_function.rows(window), jnp.asarray(window.size)


@functools.partial(jax.jit, static_argnames=("loss_function", "structure"))
def _train(
    params: Params,
    moments: Params,
    rows: Any,
    size: Array,
    batch_keys: Array,
    numbers: Numbers,
    steps: Array,
    beside: Beside,
    *,
    loss_function: LossFunction,
    structure: Structure,
) -> Fitted:
    def fit_set(
        params: Params, moments: Params, rows: Any, size: Array, words: Array, steps: Array, beside: Beside
    ) -> Fitted:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        assemble, trained = _start(structure, params, key=key, scale=numbers.scale)

        # The names of what each part of a gradient step trains.
        parts = [[name for name in trained if name.startswith(prefixes)] for prefixes in loss_function.parts]
        objective = _objective(loss_function, structure, assemble)
        penalty = _penalty(
            objective, parts, loss_function, trained=trained, key=key, strength=numbers.strength, beside=beside
        )

        def descend(step: Array, carry: Training) -> Training:
            trained, states, following, before, _, _ = carry
            pick_key, latent_key = jax.random.split(jax.random.fold_in(key, step))
            batch = loss_function.sample(rows, size, pick_key)
            if beside.replay is not None:
                old_rows, old_size = beside.replay
                old = loss_function.sample(old_rows, old_size, jax.random.fold_in(pick_key, 1))
                batch = jax.tree.map(functools.partial(_mixed, numbers.rehearsed), old, batch)
            fixed, seen, after, learnt = {**params, **following}, None, before, []
            every_gradient: Params = {}
            for part, names in enumerate(parts):
                chosen = {name: trained[name] for name in names}
                (loss, seen), gradients = objective(part, chosen, trained, fixed, batch, latent_key, seen)
                state = states[part]
                if chosen:
                    gradients = penalty(chosen, gradients)
                    transformation = _transformation(loss_function, structure, numbers, step=step, steps=steps)
                    updates, state = transformation.update(gradients, state, chosen)
                if part == 0:
                    before, after = jnp.where(step == 0, loss, before), loss
                if chosen:
                    trained = {**trained, **optax.apply_updates(chosen, updates)}
                learnt.append(state)
                every_gradient |= gradients
            if following:
                followed = loss_function.follow(assemble(trained, fixed), seen)
                following = {name: followed[name] for name in following}
            return trained, learnt, following, before, after, _norm(every_gradient)

        unknown = jnp.full((), jnp.nan)  # what zero steps have to say
        # Only the agent's own optimiser, on parameters that it knows, goes on from the state that it is handed.
        persistent = structure.optimiser == "own" and structure.rank is None
        states = []
        for names in parts:
            chosen = {name: trained[name] for name in names}
            if persistent:
                states.append(loss_function.restore(moments, chosen) if chosen else ())
            else:
                states.append(_transformation(loss_function, structure, numbers, step=0, steps=steps).init(chosen))
        followers = loss_function.followers(structure.trained)
        following = {name: params[name] for name in params if name.startswith(followers)}
        start = (trained, states, following, unknown, unknown, unknown)
        trained, states, following, before, after, norm = jax.lax.fori_loop(0, steps, descend, start)
        for names, state in zip(parts, states, strict=True):
            moments = {**moments, **(loss_function.flatten(state) if persistent and names else {})}
        return assemble(trained, {**params, **following}), moments, before, after, norm

    axes = (0, 0, 0, 0, 0, 0 if structure.steps_differ else None, 0)
    return jax.vmap(fit_set, in_axes=axes)(params, moments, rows, size, batch_keys, steps, beside)


def _objective(
    loss_function: LossFunction, structure: Structure, assemble: Callable[[Params, Params], Params]
) -> Callable[..., tuple[tuple[Array, Any], Params]]:
    """Return a function from a part of what is trained, all of it, and the rest, to the part's loss and
    gradients."""

    def evaluate(
        part: int, chosen: Params, trained: Params, fixed: Params, batch: Batch, key: Array, seen: Any
    ) -> tuple[tuple[Array, Any], Params]:
        def loss(chosen: Params) -> tuple[Array, Any]:
            params = assemble({**trained, **chosen}, fixed)
            each = jax.random.fold_in(key, part) if part else key
            return loss_function.part_loss(part, params, batch, key=each, scope=structure.scope, seen=seen)

        return jax.value_and_grad(loss, has_aux=True)(chosen) if chosen else (loss(chosen), {})

    return evaluate


def _start(
    structure: Structure, params: Params, *, key: Array, scale: Array | np.float32
) -> tuple[Callable[[Params, Params], Params], Params]:
    """Return what is trained as it begins, and a function that makes it a whole parameter set."""
    if structure.rank is None:
        return lambda trained, fixed: {**fixed, **trained}, {name: params[name] for name in structure.trained}
    matrices = [name for name in structure.trained if params[name].ndim == 2]
    trained = {}
    for place, name in enumerate(matrices):
        inputs, outputs = params[name].shape
        drawn = jax.random.normal(
            jax.random.fold_in(jax.random.fold_in(key, ADAPTER_KEY), place), (inputs, structure.rank)
        )
        trained[f"{name}/left"] = drawn / jnp.sqrt(inputs)
        trained[f"{name}/right"] = jnp.zeros((structure.rank, outputs))

    def assemble(trained: Params, fixed: Params) -> Params:
        terms = {
            name: jnp.matmul(trained[f"{name}/left"], trained[f"{name}/right"], precision="highest")
            for name in matrices
        }
        return {**fixed, **{name: fixed[name] + scale * term for name, term in terms.items()}}

    return assemble, trained


def _penalty(
    objective: Callable[..., tuple[tuple[Array, Any], Params]],
    parts: list[list[str]],
    loss_function: LossFunction,
    *,
    trained: Params,
    key: Array,
    strength: Array | np.float32,
    beside: Beside,
) -> Callable[[Params, Params], Params]:
    """Return the gradient of the penalty, added to that of the loss; the loss that is reported stays the agent's
    own."""
    if beside.center is None:
        return lambda trained, gradients: gradients
    center = {name: beside.center[name] for name in trained}
    weight: Params | None = None
    if beside.fisher is not None:
        fisher_key = jax.random.fold_in(key, FISHER_KEY)
        pieces, real = loss_function.pieces(*beside.fisher)

        def add(total: Params, piece: tuple[Array, Batch, Array]) -> tuple[Params, None]:
            number, batch, counts = piece
            gradients: Params = {}
            seen, piece_key = None, jax.random.fold_in(fisher_key, number)
            for part, names in enumerate(parts):
                chosen = {name: center[name] for name in names}
                (_, seen), found = objective(part, chosen, center, beside.center, batch, piece_key, seen)
                gradients |= found
            return {name: total[name] + jnp.where(counts, x**2, 0.0) for name, x in gradients.items()}, None

        zero = jax.tree.map(jnp.zeros_like, center)
        total, _ = jax.lax.scan(add, zero, (jnp.arange(len(real)), pieces, real))
        weight = {name: x / jnp.sum(real) for name, x in total.items()}

    def penalised(trained: Params, gradients: Params) -> Params:
        away = {name: x - center[name] for name, x in trained.items()}
        away = away if weight is None else {name: weight[name] * x for name, x in away.items()}
        return {name: x + strength * away[name] for name, x in gradients.items()}

    return penalised


def _transformation(
    loss_function: LossFunction, structure: Structure, numbers: Numbers, *, step: Any, steps: Any
) -> optax.GradientTransformation:
    rates, rate = numbers.rates, numbers.learning_rate
    if structure.schedule is not None:
        share = scheduled(structure.schedule, step, steps, warmup=numbers.warmup, final=numbers.final, xp=jnp)
        rates, rate = {group: share * x for group, x in rates.items()}, share * rate
    match structure.optimiser:
        case "own":
            return loss_function.optimiser(rates)
        case "sgd":
            return optax.sgd(rate, momentum=numbers.momentum)
        case "adam":
            return optax.adam(rate)
        case "adamw":
            return optax.adamw(rate, weight_decay=numbers.weight_decay)


def _mixed(count: Array | np.int32, old: Array, recent: Array) -> Array:
    """Return the first `count` sequences from the replay, the others from the window."""
    first = jnp.arange(len(recent)) < count
    return jnp.where(first.reshape(-1, *[1] * (recent.ndim - 1)), old, recent)


def _norm(gradients: Params) -> Array:
    """Return the norm of all gradients together, group by group in the order of their names."""
    return jnp.sqrt(sum(squared_norms(gradients).values(), start=jnp.zeros(())))
