"""Certainty-equivalent control: the gain that would be optimal if the estimated (A, B) were the world.

The model is the pair (A, B); UPDATE fits it to the window by gradient steps or by least squares. Pure NumPy, the
same digits whatever the batch, and the example to copy when bringing one's own agent.
"""

import dataclasses
from typing import Annotated, Final, Literal

import numpy as np
from jaxtyping import Bool, Float64, UInt32
from pydantic import Field

from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import AgentPlugin, Arrays, Checkpoint, Decision, Fit, Surprise, Window
from worldfork.lab.agents.linear_quadratic_training import COLUMNS, descend, matrix, predicted, product, total
from worldfork.lab.agents.training import TrainingPlan, chosen_prefixes
from worldfork.lab.environments.base import Environment
from worldfork.lab.environments.closed_form import expected_return
from worldfork.lab.environments.linear_quadratic import Matrices, World
from worldfork.randomness import Event, Purpose, consume, generator, normals

HORIZON: Final = 100  # Riccati steps: far beyond where the gain has settled
CLEAN_TRANSITIONS: Final = 60  # data a checkpoint is estimated from: few, so that it is imperfect


@dataclasses.dataclass(frozen=True)
class Belief:
    """The world is fully observed, so the belief is the observation, and the gain that answers it."""

    gain: Float64[np.ndarray, "P 2"]
    observation: Float64[np.ndarray, "P E 2"]
    action: Float64[np.ndarray, "P E 1"]


@dataclasses.dataclass(frozen=True)
class LinearQuadratic:
    """Settings only; `parameters` are {"A": [P, 2, 2], "B": [P, 2, 1]}, the optimiser's their velocities."""

    matrices: Matrices
    method: Literal["gradient", "least_squares"] = "gradient"
    learning_rate: float = 0.02
    momentum: float = 0.9
    batch: int = 16

    scopes = ("model",)
    shape_sensitive = False
    device = "cpu"

    def begin(self, parameters: Arrays, observation: Float64[np.ndarray, "P E 2"]) -> Belief:
        """Return the belief at an episode's first observation."""
        return Belief(self.gain(parameters), observation, np.zeros((*observation.shape[:2], 1)))

    def act(self, parameters: Arrays, belief: Belief, plan_keys: UInt32[np.ndarray, "P E 2"]) -> Decision:
        """Act by u = -K x. Nothing is drawn: the optimal controller of a linear world is deterministic."""
        with np.errstate(over="ignore", invalid="ignore"):
            force = -(
                belief.gain[:, None, 0] * belief.observation[..., 0]
                + belief.gain[:, None, 1] * belief.observation[..., 1]
            )
        replaced = ~np.isfinite(force)
        action = np.where(replaced, 0.0, force)[..., None]
        return Decision(action, replaced, dataclasses.replace(belief, action=action))

    def observe(self, parameters: Arrays, belief: Belief, observation: Float64[np.ndarray, "P E 2"]) -> Surprise:
        """Measure the mean squared error of the predicted observation. There is no latent, hence no KL."""
        with np.errstate(over="ignore", invalid="ignore"):
            given = np.concatenate([belief.observation, belief.action], axis=2)
            missed = observation - predicted(matrix(parameters), given)
            error = (missed[..., 0] * missed[..., 0] + missed[..., 1] * missed[..., 1]) / 2
        signals = {"error": error, "kl": np.full_like(error, np.nan)}
        return Surprise(signals, dataclasses.replace(belief, observation=observation))

    def begin_again(
        self,
        parameters: Arrays,
        belief: Belief,
        observation: Float64[np.ndarray, "P E 2"],
        where: Bool[np.ndarray, "P E"],
    ) -> Belief:
        """Return the belief, which is the observation, in episodes that begin anew as in the others."""
        return dataclasses.replace(belief, observation=observation)

    def loss(self, parameters: Arrays, window: Window) -> Float64[np.ndarray, " P"]:
        """Return the mean squared error of the prediction over the window."""
        with np.errstate(over="ignore", invalid="ignore"):
            given = np.concatenate([window.observation, window.action], axis=2)
            missed = window.next_observation - predicted(matrix(parameters), given)
            real = np.arange(missed.shape[1]) < window.size[:, None]
            error = np.where(real, (missed[..., 0] * missed[..., 0] + missed[..., 1] * missed[..., 1]) / 2, 0.0)
            return total(error) / window.size

    def fit(
        self,
        parameters: Arrays,
        optimiser: Arrays,
        window: Window,
        *,
        steps: int,
        scope: str,
        batch_keys: UInt32[np.ndarray, "P 2"],
        rate: float = 1.0,
    ) -> Fit:
        """Fit (A, B) to the window: `steps` normalised gradient steps with momentum, or least squares at once."""
        if scope != "model":
            raise WorldforkError(f"This agent is a model and nothing else: scope 'model', not {scope!r}.")
        if self.method == "gradient":
            plan = TrainingPlan(steps, scope, rate)
            return self.train(parameters, optimiser, window, plan=plan, batch_keys=batch_keys)
        consume(batch_keys, Purpose.UPDATE_BATCH)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            new, norm = _split(_least_squares(window)), np.zeros(len(window.size))
            return Fit(new, optimiser, self.loss(parameters, window), self.loss(new, window), norm)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Groups that can be trained by themselves. Least squares are a black box: no gradient, no groups."""
        everything = {"dynamics": ("A", "B"), "transition": ("A",), "control": ("B",)}
        return everything if self.method == "gradient" else {}

    @property
    def minibatch(self) -> tuple[int, int]:
        return self.batch, 1

    def trained(self, scope: str, name: str) -> bool:
        return True

    def train(
        self,
        parameters: Arrays,
        optimiser: Arrays,
        window: Window,
        *,
        plan: TrainingPlan,
        batch_keys: UInt32[np.ndarray, "P 2"],
    ) -> Fit:
        """Take normalised gradient steps as the plan says."""
        consume(batch_keys, Purpose.UPDATE_BATCH)
        names = chosen_prefixes(self, plan.groups) or tuple(COLUMNS)
        chosen = [column for name in names for column in COLUMNS[name]]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            theta, velocity, norm = descend(
                matrix(parameters),
                matrix(optimiser),
                window,
                plan=plan,
                columns=np.isin(np.arange(3), chosen),
                learning_rate=self.learning_rate,
                momentum=self.momentum,
                batch=self.batch,
                batch_keys=batch_keys,
            )
            before, new = self.loss(parameters, window), _split(theta)
            return Fit(new, _split(velocity), before, self.loss(new, window), norm)

    def fresh(self, parameters: Arrays, keys: UInt32[np.ndarray, "P 2"]) -> tuple[Arrays, Arrays]:
        """Return a world that nearly stands still and hardly answers, and no velocity."""
        drawn = 0.1 * normals(keys, 6, Purpose.UPDATE_BATCH).reshape(-1, 2, 3)
        theta = np.concatenate([np.eye(2), np.zeros((2, 1))], axis=1) + drawn
        return _split(theta), _split(np.zeros_like(theta))

    def gain(self, parameters: Arrays) -> Float64[np.ndarray, "P 2"]:
        """Return the optimal gain K of the estimated world, by Riccati's recursion. Not finite where there is
        none."""
        a, b = parameters["A"], parameters["B"]
        a_transposed, b_transposed = _transposed(a), _transposed(b)
        cost = np.broadcast_to(self.matrices.state_cost, a.shape)
        value = cost
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for _ in range(HORIZON):
                value_a, value_b = product(value, a), product(value, b)
                scale = self.matrices.action_cost + product(b_transposed, value_b)
                gain = product(b_transposed, value_a) / scale
                value = cost + product(a_transposed, value_a - product(value_b, gain))
        return gain[:, 0]


class LinearQuadraticPlugin(AgentPlugin):
    """The agent by name, and its settings."""

    packages = ("scipy",)

    method: Literal["gradient", "least_squares"] = "gradient"
    learning_rate: Annotated[float, Field(gt=0)] = 0.02
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    batch: Annotated[int, Field(ge=1)] = 16

    def build(self, environment: Environment, *, precision: str) -> LinearQuadratic:
        """Return the agent for a linear-quadratic world."""
        if not isinstance(environment, World) or precision != "float64":
            raise WorldforkError(
                f"The agent `linear_quadratic` controls the task `linear_quadratic` in precision `float64`; "
                f"got `{environment.name}` in `{precision}`."
            )
        return LinearQuadratic(environment.matrices, **self.model_dump())

    def generate(self, agent: LinearQuadratic, environment: World, event: Event) -> Checkpoint:
        """(A, B) by least squares on a little clean data, driven by random actions."""
        random = generator(event)
        position, force = random.normal(size=(CLEAN_TRANSITIONS, 2)), random.normal(size=(CLEAN_TRANSITIONS, 1))
        clean = environment.reset(random.integers(0, 2**32, CLEAN_TRANSITIONS))
        clean.physics[:, :2] = position
        _, after, reward = environment.step(clean, force, level=0.0)
        window = Window(
            observation=position[None],
            action=force[None],
            reward=reward[None],
            next_observation=after[None],
            first=np.ones((1, CLEAN_TRANSITIONS), np.bool_),
            size=np.array([CLEAN_TRANSITIONS]),
        )
        theta = _least_squares(window)
        parameters = _split(theta)
        optimiser = {name: np.zeros_like(array) for name, array in parameters.items()}
        levels = np.zeros(environment.episode_steps)
        clean_return = expected_return(environment.matrices, agent.gain(parameters), levels=levels)
        kept = {name: getattr(window, name) for name in ("observation", "action", "next_observation")}
        return Checkpoint(
            parameters,
            optimiser,
            clean_return,
            arrays.digest(parameters),
            replay=window,
            replay_digest=arrays.digest(kept),
        )


def _least_squares(window: Window) -> Float64[np.ndarray, "P 2 3"]:
    """Return the minimiser of the squared error, one stream at a time; the last decimal is no one's but the
    stream's."""
    found = []
    for p, rows in enumerate(window.size):
        given = np.concatenate([window.observation[p, :rows], window.action[p, :rows]], axis=1)
        normal = total((given[:, :, None] * given[:, None, :])[None])[0]
        moment = total((given[:, :, None] * window.next_observation[p, :rows, None, :])[None])[0]
        finite = np.isfinite(normal).all() and np.isfinite(moment).all()
        found.append(np.linalg.pinv(normal, hermitian=True) @ moment if finite else np.full((3, 2), np.nan))
    return _transposed(np.array(found))


def _split(theta: Float64[np.ndarray, "P 2 3"]) -> dict[str, np.ndarray]:
    return {"A": theta[..., :2], "B": theta[..., 2:]}


def _transposed(matrix: Float64[np.ndarray, "P i j"]) -> Float64[np.ndarray, "P j i"]:
    return np.swapaxes(matrix, -1, -2)
