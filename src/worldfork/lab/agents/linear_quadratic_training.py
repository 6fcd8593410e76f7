"""Training plans carried out in NumPy for the linear-quadratic agent, with the same digits whatever the batch.

The trained matrix is [A B], of 2 x 3 numbers for each of P parameter sets, or an adapter's two factors of it. The
optimisers `sgd`, `adam` and `adamw` are optax's, written out.
"""

from typing import Any, Final, no_type_check

import numpy as np
from jaxtyping import Bool, Float64, UInt32

from worldfork.lab.agents.base import Window
from worldfork.lab.agents.training import ADAPTER_KEY, Adapter, Descent, TrainingPlan, rehearsed, scheduled
from worldfork.randomness import Purpose, fold_in, normals

COLUMNS: Final = {"A": (0, 1), "B": (2,)}  # of [A B]
Matrix = Float64[np.ndarray, "P 2 3"]
Flat = Float64[np.ndarray, "P n"]  # what is trained: the matrix, or an adapter's two factors, in one row


def descend(
    theta: Matrix,
    velocity: Matrix,
    window: Window,
    *,
    plan: TrainingPlan,
    columns: Bool[np.ndarray, "3"],
    learning_rate: float,
    momentum: float,
    batch: int,
    batch_keys: UInt32[np.ndarray, "P 2"],
) -> tuple[Matrix, Matrix, Float64[np.ndarray, " P"]]:
    """Take the gradient steps of a plan that trains these columns of [A B]; the rates are the agent's own.

    Return the matrix, the velocities of the agent's own optimiser, and the norm of the last gradient.
    """
    sets, descent = len(theta), plan.descent
    steps = np.broadcast_to(np.asarray(plan.steps), (sets,))
    own_optimiser = descent.optimiser == "own"
    rate = plan.rate * (learning_rate if own_optimiser else descent.learning_rate or 0.0)
    momentum = momentum if own_optimiser else descent.momentum
    trained = theta.reshape(sets, -1) if plan.adapter is None else _adapter(plan.adapter.rank, batch_keys)
    chosen = np.tile(columns, 2) if plan.adapter is None else np.ones(trained.shape[1], np.bool_)
    # The velocity goes on where it is the whole matrix that is trained by the agent's own optimiser.
    persistent = own_optimiser and plan.adapter is None
    state = (velocity.reshape(sets, -1) if persistent else np.zeros_like(trained), np.zeros_like(trained))
    weight = _importance(plan)
    norm = np.zeros(sets)
    for step in range(int(steps.max())):
        step_keys = fold_in(batch_keys, step)
        given, target = _minibatch(window, plan, step_keys=step_keys, batch=batch)
        now = _assembled(theta, trained, plan)
        gradient = _gradient(now, given, target)
        if plan.penalty is not None:
            gradient = gradient + plan.penalty.strength * weight * (now - matrix(plan.penalty.center))
        if not columns.all():
            gradient = np.where(columns, gradient, 0.0)
        slope = gradient.reshape(sets, -1) if plan.adapter is None else _factors(gradient, trained, plan.adapter)
        taken: Any = rate
        if descent.scheduled:
            warmup, final = descent.warmup, descent.final
            share = scheduled(descent.schedule, step, steps, warmup=warmup, final=final, xp=np)
            taken = rate * np.broadcast_to(share, (sets,))[:, None]
        after, moved = stepped(descent, trained, slope, state, step=step, rate=taken, momentum=momentum)
        going = (step < steps)[:, None]
        trained = np.where(going & chosen, after, trained)
        state = (np.where(going, moved[0], state[0]), np.where(going, moved[1], state[1]))
        norm = np.where(going[:, 0], np.sqrt(total(slope * slope)), norm)
    if persistent:
        velocity = np.where(columns, state[0].reshape(velocity.shape), velocity)
    return _assembled(theta, trained, plan), velocity, norm


def stepped(
    descent: Descent,
    x: Flat,
    gradient: Flat,
    state: tuple[Flat, Flat],
    *,
    step: int,
    rate: float | Float64[np.ndarray, "P 1"],
    momentum: float,
) -> tuple[Flat, tuple[Flat, Flat]]:
    """Return what is trained after a step, and the optimiser's state: a velocity, or two moments."""
    first, second = state
    match descent.optimiser:
        case "own":
            velocity = momentum * first - rate * gradient
            return x + velocity, (velocity, second)
        case "sgd":
            trace = gradient + momentum * first
            return x - rate * trace, (trace, second)
    mean, square = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient * gradient
    scaled = np.sqrt(square / (1.0 - 0.999 ** (step + 1))) + 1e-8
    away = mean / (1.0 - 0.9 ** (step + 1)) / scaled + descent.weight_decay * x
    return x - rate * away, (mean, square)


def _minibatch(
    window: Window, plan: TrainingPlan, *, step_keys: UInt32[np.ndarray, "P 2"], batch: int
) -> tuple[Float64[np.ndarray, "P n 3"], Float64[np.ndarray, "P n 2"]]:
    """Return inputs and targets of a minibatch; the first of them are from the replay where it is rehearsed."""
    given, target = _rows(window, fold_in(step_keys[:, None], np.arange(batch))[..., 0])
    if plan.rehearsal is not None:
        old_keys = fold_in(step_keys[:, None], batch + np.arange(batch))
        old_given, old_target = _rows(plan.rehearsal.replay, old_keys[..., 0])
        old = (np.arange(batch) < rehearsed(plan.rehearsal.share, batch))[:, None]
        given, target = np.where(old, old_given, given), np.where(old, old_target, target)
    return given, target


def _rows(window: Window, drawn: UInt32[np.ndarray, "P n"]) -> tuple[np.ndarray, np.ndarray]:
    stream, rows = np.arange(len(drawn))[:, None], drawn % window.size[:, None]
    given = np.concatenate([window.observation[stream, rows], window.action[stream, rows]], axis=2)
    return given, window.next_observation[stream, rows]


def _gradient(theta: Matrix, given: Float64[np.ndarray, "P n 3"], target: Float64[np.ndarray, "P n 2"]) -> Matrix:
    """Of half the mean squared error on a minibatch, divided by the mean square of what it is predicted from."""
    missed = predicted(theta, given) - target
    scale = total((given * given).reshape(len(theta), -1))
    return total(missed[..., :, None] * given[..., None, :]) / scale[:, None, None]


def predicted(theta: Matrix, given: Float64[np.ndarray, "P n 3"]) -> Float64[np.ndarray, "P n 2"]:
    tilt, velocity, force = (given[..., i] for i in range(3))
    a = theta[:, None]
    return np.stack([a[..., i, 0] * tilt + a[..., i, 1] * velocity + a[..., i, 2] * force for i in (0, 1)], axis=-1)


def _importance(plan: TrainingPlan) -> Any:
    """1, or the mean squared gradient of each transition of the replay, at the center."""
    if plan.penalty is None or plan.penalty.replay is None:
        return 1.0
    replay, center = plan.penalty.replay, matrix(plan.penalty.center)
    given = np.concatenate([replay.observation, replay.action], axis=2)
    missed = predicted(center, given) - replay.next_observation
    squares = (missed[..., :, None] * given[..., None, :]) ** 2
    real = np.arange(squares.shape[1]) < replay.size[:, None]
    return total(np.where(real[..., None, None], squares, 0.0)) / replay.size[:, None, None]


def _adapter(rank: int, batch_keys: UInt32[np.ndarray, "P 2"]) -> Flat:
    """Return the two factors as they begin: one drawn, one zero, so that nothing has changed yet."""
    drawn = normals(fold_in(batch_keys, ADAPTER_KEY), 2 * rank, Purpose.UPDATE_BATCH)
    return np.concatenate([drawn / np.sqrt(2.0), np.zeros((len(batch_keys), 3 * rank))], axis=1)


def _left_and_right(trained: Flat, rank: int) -> tuple[np.ndarray, np.ndarray]:
    return trained[:, : 2 * rank].reshape(-1, 2, rank), trained[:, 2 * rank :].reshape(-1, rank, 3)


def _assembled(theta: Matrix, trained: Flat, plan: TrainingPlan) -> Matrix:
    if plan.adapter is None:
        return trained.reshape(theta.shape)
    left, right = _left_and_right(trained, plan.adapter.rank)
    return theta + plan.adapter.scale / plan.adapter.rank * product(left, right)


def _factors(gradient: Matrix, trained: Flat, adapter: Adapter) -> Flat:
    """Return the gradient of an adapter's factors, from that of their product."""
    left, right = _left_and_right(trained, adapter.rank)
    slopes = product(gradient, np.swapaxes(right, 1, 2)), product(np.swapaxes(left, 1, 2), gradient)
    scale = adapter.scale / adapter.rank
    return np.concatenate([scale * slope.reshape(len(trained), -1) for slope in slopes], axis=1)


@no_type_check  # called thousands of times for one gain, where tests would check little else
def product(
    left: Float64[np.ndarray, "P i l"], right: Float64[np.ndarray, "P l j"]
) -> Float64[np.ndarray, "P i j"]:
    total = left[..., :, 0, None] * right[..., None, 0, :]
    for index in range(1, left.shape[-1]):
        total = total + left[..., :, index, None] * right[..., None, index, :]
    return total


def matrix(parameters: Any) -> Matrix:
    return np.concatenate([parameters["A"], parameters["B"]], axis=2)


def total(values: Float64[np.ndarray, "P n *rest"]) -> Float64[np.ndarray, "P *rest"]:
    """Return the sum over the second axis, term after term: the same digits in a batch of one and of a thousand."""
    return np.cumsum(values, axis=1)[:, -1]
