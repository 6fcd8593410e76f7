"""Training plans carried out in NumPy for the linear-quadratic agent, with the same digits whatever the batch.

The trained matrix is [A B], of 2 x 3 numbers for each of P parameter sets, or an adapter's two factors of it. The
optimisers `sgd`, `adam` and `adamw` are optax's, written out.
"""

import dataclasses
from typing import Any, Final, no_type_check

import numpy as np
from jaxtyping import Bool, Float64, Integer, UInt32

from worldfork.lab.agents.base import Window
from worldfork.lab.agents.training import ADAPTER_KEY, TrainingPlan, rehearsed, scheduled
from worldfork.randomness import Purpose, fold_in, normals

COLUMNS: Final = {"A": (0, 1), "B": (2,)}  # of [A B]
Matrix = Float64[np.ndarray, "P 2 3"]


@dataclasses.dataclass(frozen=True)
class Trained:
    """[A B], the velocities of the agent's own optimiser, and the norm of the last gradient."""

    theta: Matrix
    velocity: Matrix
    norm: Float64[np.ndarray, " P"]


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
) -> Trained:
    """Return the gradient steps of a plan that trains these columns of [A B]; the rates are the agent's own."""
    sets = len(theta)
    steps = np.broadcast_to(np.asarray(plan.steps), (sets,))
    adapter = _adapter(plan, batch_keys)
    trained = {"theta": theta} if adapter is None else adapter
    optimiser = _Optimiser(plan, own_rate=learning_rate, own_momentum=momentum)
    # The velocity goes on where it is the whole matrix that is trained by the agent's own optimiser.
    persistent = plan.descent.optimiser == "own" and adapter is None
    state = optimiser.begin(trained, velocity if persistent else None)
    weight = _importance(plan)
    norm = np.zeros(sets)
    for step in range(int(steps.max())):
        step_keys = fold_in(batch_keys, step)
        given, target = _minibatch(window, plan, step_keys=step_keys, batch=batch)
        gradient = _gradient(_assembled(theta, trained, plan), given, target)
        if plan.penalty is not None:
            gradient = gradient + plan.penalty.strength * weight * (trained["theta"] - matrix(plan.penalty.center))
        if not columns.all():
            gradient = np.where(columns, gradient, 0.0)
        gradients = {"theta": gradient} if adapter is None else _factors(gradient, trained, plan)
        after, moved = optimiser.step(trained, gradients, state, step=step, steps=steps)
        if not columns.all() and adapter is None:
            after = {"theta": np.where(columns, after["theta"], trained["theta"])}
        going = step < steps
        trained, state = (
            _kept(going, after, trained),
            [_kept(going, *pair) for pair in zip(moved, state, strict=True)],
        )
        flat = np.concatenate([x.reshape(sets, -1) for x in gradients.values()], axis=1)
        norm = np.where(going, np.sqrt(total(flat * flat)), norm)
    if persistent:
        velocity = np.where(columns, state[0]["theta"], velocity)
    return Trained(_assembled(theta, trained, plan), velocity, norm)


class _Optimiser:
    """Steps from gradients, for a dictionary of arrays; the state is a list of dictionaries like it."""

    def __init__(self, plan: TrainingPlan, *, own_rate: float, own_momentum: float) -> None:
        self.chosen = plan.descent
        own_optimiser = self.chosen.optimiser == "own"
        self.rate = plan.rate * own_rate if own_optimiser else plan.rate * (self.chosen.learning_rate or 0.0)
        self.momentum = own_momentum if own_optimiser else self.chosen.momentum

    def begin(self, trained: dict[str, Any], velocity: Matrix | None) -> list[dict[str, Any]]:
        zeros = {name: np.zeros_like(x) for name, x in trained.items()}
        if velocity is not None:
            return [{"theta": velocity}]
        return [zeros] if self.chosen.optimiser in ("own", "sgd") else [zeros, zeros]

    def step(
        self,
        trained: dict[str, Any],
        gradients: dict[str, Any],
        state: list[dict[str, Any]],
        *,
        step: int,
        steps: Integer[np.ndarray, " P"],
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        rate = self._rate(step, steps)
        match self.chosen.optimiser:
            case "own":
                velocity = {name: self.momentum * state[0][name] - rate * x for name, x in gradients.items()}
                return {name: x + velocity[name] for name, x in trained.items()}, [velocity]
            case "sgd":
                trace = {name: x + self.momentum * state[0][name] for name, x in gradients.items()}
                return {name: x - rate * trace[name] for name, x in trained.items()}, [trace]
        mean = {name: 0.9 * state[0][name] + 0.1 * x for name, x in gradients.items()}
        square = {name: 0.999 * state[1][name] + 0.001 * x * x for name, x in gradients.items()}
        after = {}
        for name, x in trained.items():
            scaled = np.sqrt(square[name] / (1.0 - 0.999 ** (step + 1))) + 1e-8
            away = mean[name] / (1.0 - 0.9 ** (step + 1)) / scaled + self.chosen.weight_decay * x
            after[name] = x - rate * away
        return after, [mean, square]

    def _rate(self, step: int, steps: Integer[np.ndarray, " P"]) -> Any:
        if not self.chosen.scheduled:
            return self.rate
        warmup, final = self.chosen.warmup, self.chosen.final
        share = scheduled(self.chosen.schedule, step, steps, warmup=warmup, final=final, xp=np)
        return self.rate * np.broadcast_to(share, steps.shape)[:, None, None]


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


def _adapter(plan: TrainingPlan, batch_keys: UInt32[np.ndarray, "P 2"]) -> dict[str, Any] | None:
    """Return the two factors as they begin: one drawn, one zero, so that nothing has changed yet."""
    if plan.adapter is None:
        return None
    rank, sets = plan.adapter.rank, len(batch_keys)
    drawn = normals(fold_in(batch_keys, ADAPTER_KEY), 2 * rank, Purpose.UPDATE_BATCH)
    return {"left": drawn.reshape(sets, 2, rank) / np.sqrt(2.0), "right": np.zeros((sets, rank, 3))}


def _assembled(theta: Matrix, trained: dict[str, Any], plan: TrainingPlan) -> Matrix:
    if plan.adapter is None:
        return trained["theta"]
    return theta + plan.adapter.scale / plan.adapter.rank * product(trained["left"], trained["right"])


def _factors(gradient: Matrix, trained: dict[str, Any], plan: TrainingPlan) -> dict[str, Any]:
    """Return the gradient of an adapter's factors, from that of their product."""
    assert plan.adapter is not None
    scale = plan.adapter.scale / plan.adapter.rank
    left = product(gradient, np.swapaxes(trained["right"], 1, 2))
    return {"left": scale * left, "right": scale * product(np.swapaxes(trained["left"], 1, 2), gradient)}


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


def _kept(going: Bool[np.ndarray, " P"], after: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the step where it was still to be taken."""
    if going.all():
        return after
    return {name: np.where(going[:, None, None], x, before[name]) for name, x in after.items()}


def total(values: Float64[np.ndarray, "P n *rest"]) -> Float64[np.ndarray, "P *rest"]:
    """Return the sum over the second axis, term after term: the same digits in a batch of one and of a thousand."""
    return np.cumsum(values, axis=1)[:, -1]
