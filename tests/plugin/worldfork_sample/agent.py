"""Three models of the tank; what they disagree on is logged at every step."""

import dataclasses
import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import AgentPlugin, Checkpoint, Decision, Fit, Surprise, Window
from worldfork.lab.episodes import fixed_level_returns
from worldfork.randomness import Event, Purpose, fold_in, generator, normals
from worldfork_sample.planning import nearest

MEMBERS = 3


@dataclasses.dataclass(frozen=True)
class Belief:
    height: np.ndarray  # [P, E]
    inflow: np.ndarray  # [P, E]


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """Parameters are {"keep": [P, 3], "gain": [P, 3]}: height' = keep * height + gain * inflow."""

    candidates: int
    learning_rate: float

    scopes = ("model",)
    shape_sensitive = False
    device = "cpu"

    def begin(self, parameters: Any, observation: np.ndarray) -> Belief:
        return Belief(observation[..., 0], np.zeros(observation.shape[:2]))

    def act(self, parameters: Any, belief: Belief, plan_keys: np.ndarray) -> Decision:
        """Some inflows are drawn; the one whose predicted height is nearest to 1 is chosen."""
        drawn = np.clip(normals(fold_in(plan_keys, 0), self.candidates, Purpose.PLANNING), -1.0, 1.0)
        predicted = _mean(_predict(parameters, belief.height[..., None], drawn))
        inflow = nearest(drawn, predicted)
        replaced = ~np.isfinite(predicted).all(axis=-1)
        inflow = np.where(replaced, 0.0, inflow)
        return Decision(inflow[..., None], replaced, Belief(belief.height, inflow))

    def observe(self, parameters: Any, belief: Belief, observation: np.ndarray) -> Surprise:
        members = _predict(parameters, belief.height, belief.inflow)
        error = np.square(observation[..., 0] - _mean(members))
        spread = np.maximum(np.maximum(members[0], members[1]), members[2]) - np.minimum(
            np.minimum(members[0], members[1]), members[2]
        )
        return Surprise({"error": error, "disagreement": spread}, Belief(observation[..., 0], belief.inflow))

    def loss(self, parameters: Any, window: Window) -> np.ndarray:
        members = _predict(parameters, window.observation[..., 0], window.action[..., 0])
        real = np.arange(window.reward.shape[1]) < window.size[:, None]
        error = np.where(real, np.square(window.next_observation[..., 0] - _mean(members)), 0.0)
        return np.cumsum(error, axis=1)[:, -1] / window.size

    def fit(
        self,
        parameters: Any,
        optimiser: Any,
        window: Window,
        *,
        steps: int,
        scope: str,
        batch_keys: np.ndarray,
        rate: float = 1.0,
    ) -> Fit:
        """Gradient steps; every member draws its own transitions."""
        if scope not in self.scopes:
            raise WorldforkError(f"This agent trains its `model`; got the scope {scope!r}.")
        before = self.loss(parameters, window)
        keep, gain = parameters["keep"], parameters["gain"]
        sets = np.arange(len(keep))[:, None]
        norm = np.zeros(len(keep))
        for step in range(steps):
            rows = fold_in(fold_in(batch_keys, step)[:, None], np.arange(MEMBERS))[..., 0] % window.size[:, None]
            height, inflow = window.observation[sets, rows, 0], window.action[sets, rows, 0]
            missed = keep * height + gain * inflow - window.next_observation[sets, rows, 0]
            norm = np.sqrt(np.cumsum(np.square(missed), axis=1)[:, -1])
            keep = keep - rate * self.learning_rate * missed * height
            gain = gain - rate * self.learning_rate * missed * inflow
        fitted = {"keep": keep, "gain": gain}
        return Fit(fitted, optimiser, before, self.loss(fitted, window), norm)


class EnsemblePlugin(AgentPlugin):
    suffixes = (".npz",)

    candidates: int = 8
    learning_rate: float = 0.1

    def build(self, environment: Any, *, precision: str) -> Ensemble:
        if precision != "float64" or environment.observation_size != 1:
            raise WorldforkError(f"The ensemble keeps a tank in float64; got {environment.name} in {precision}.")
        return Ensemble(self.candidates, self.learning_rate)

    def generate(self, agent: Any, environment: Any, event: Event) -> Checkpoint:
        drawn = generator(event).normal(size=(2, 1, MEMBERS))
        parameters = {"keep": 0.95 + 0.02 * drawn[0], "gain": 0.2 + 0.02 * drawn[1]}
        return Checkpoint(parameters, {}, _clean_return(agent, environment, parameters), arrays.digest(parameters))

    def load(self, agent: Any, environment: Any, path: Path) -> Checkpoint:
        content = path.read_bytes()
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            parameters = {name: stored[name][None] for name in ("keep", "gain")}
        digest = hashlib.sha256(content).hexdigest()
        return Checkpoint(parameters, {}, _clean_return(agent, environment, parameters), digest)


def _clean_return(agent: Any, environment: Any, parameters: Any) -> float:
    returns = fixed_level_returns(
        agent, environment, parameters, checkpoints=["sample"], episodes=4, occasion="clean return"
    )
    return float(returns.mean())


def _predict(parameters: Any, height: np.ndarray, inflow: np.ndarray) -> list[np.ndarray]:
    """What each member expects, for heights [P, E] or [P, E, candidates]."""

    def one(values: np.ndarray) -> np.ndarray:
        return values.reshape(-1, *[1] * (inflow.ndim - 1))

    with np.errstate(over="ignore", invalid="ignore"):
        return [
            one(parameters["keep"][:, member]) * height + one(parameters["gain"][:, member]) * inflow
            for member in range(MEMBERS)
        ]


def _mean(members: list[np.ndarray]) -> np.ndarray:
    return (members[0] + members[1] + members[2]) / 3.0
