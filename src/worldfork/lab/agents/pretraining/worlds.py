"""The clean worlds that members learn in: several tasks side by side, padded to one shape.

Axes: M members (task by task, seed by seed), E environments, O and A the largest of the tasks.
"""

import dataclasses

import numpy as np
from jaxtyping import Float32

from worldfork import randomness
from worldfork.errors import WorldforkError
from worldfork.lab.agents.pretraining.recipe import PretrainingRecipe
from worldfork.lab.environments import Environment, State, load
from worldfork.lab.environments.base import prove_clean
from worldfork.randomness import Event, Purpose


@dataclasses.dataclass(frozen=True)
class Member:
    """A checkpoint in the making."""

    task: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.task}-{self.seed}"

    def event(self, purpose: Purpose) -> Event:
        return Event(purpose=purpose, task=self.task, checkpoint=str(self.seed))


class Worlds:
    """Physics of all members. `states` is the only thing that changes, and `reset` begins it anew."""

    def __init__(self, recipe: PretrainingRecipe, threads: int | None = None) -> None:
        self.environments: dict[str, Environment] = {task: load(task, threads=threads) for task in recipe.tasks}
        self.members = [Member(task, seed) for task, entry in recipe.tasks.items() for seed in entry.seeds]
        self.count = recipe.environments
        self.observation_size = max(env.observation_size for env in self.environments.values())
        self.action_size = max(env.action_size for env in self.environments.values())
        lengths = {task: env.episode_steps for task, env in self.environments.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{task} {length}" for task, length in lengths.items())
            raise WorldforkError(
                "The tasks of one recipe are trained side by side, so their episodes must have one length; "
                f"these have {listed} control steps. Write a recipe for each length."
            )
        self.episode_steps = next(iter(lengths.values()))
        self.states: dict[str, State] = {}

    def proofs(self) -> dict[str, dict[str, object]]:
        """Prove for every task that its physics is clean, as read back from its simulator."""
        return {task: prove_clean(env) for task, env in self.environments.items()}

    def masks(self) -> tuple[Float32[np.ndarray, "M O"], Float32[np.ndarray, "M A"]]:
        """Return which observations and actions of each member are real."""
        sizes = [self.environments[member.task] for member in self.members]
        return (
            np.stack([np.arange(self.observation_size) < env.observation_size for env in sizes]).astype(np.float32),
            np.stack([np.arange(self.action_size) < env.action_size for env in sizes]).astype(np.float32),
        )

    def reset(self, episode: int) -> Float32[np.ndarray, "M E O"]:
        """Begin an episode everywhere: initial states are functions of (task, seed, episode, environment)."""
        for task, env in self.environments.items():
            seeds = [
                randomness.seed(member.event(Purpose.INITIAL_STATE).at(episode=episode, iteration=number))
                for member in self.members
                if member.task == task
                for number in range(self.count)
            ]
            self.states[task] = env.reset(np.array(seeds))
        return self._padded({task: state.observation for task, state in self.states.items()})

    def step(self, action: Float32[np.ndarray, "M E A"]) -> tuple[Float32[np.ndarray, "M E"], np.ndarray]:
        """Take one control step everywhere; return rewards, and observations [M, E, O]."""
        rewards, observations = [], {}
        for task, env in self.environments.items():
            planned = action[self._rows(task), :, : env.action_size].reshape(-1, env.action_size)
            self.states[task], observations[task], reward = env.step(self.states[task], planned.astype(np.float64))
            rewards.append(reward.reshape(-1, self.count))
        return np.concatenate(rewards).astype(np.float32), self._padded(observations)

    def _rows(self, task: str) -> list[int]:
        return [row for row, member in enumerate(self.members) if member.task == task]

    def _padded(self, observations: dict[str, np.ndarray]) -> Float32[np.ndarray, "M E O"]:
        padded = np.zeros((len(self.members), self.count, self.observation_size), np.float32)
        for task, observation in observations.items():
            rows, size = self._rows(task), observation.shape[-1]
            padded[rows, :, :size] = observation.reshape(len(rows), self.count, size)
        return padded
