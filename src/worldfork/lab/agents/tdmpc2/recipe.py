"""The recipe of TD-MPC2 (`registrations/pretrain-tdmpc2-*.toml`)."""

from typing import Literal

from pydantic import Field

from worldfork.lab.agents.pretraining.recipe import Precision, PretrainingRecipe, TaskSeeds
from worldfork.lab.agents.tdmpc2.plugin import Search, Shape, TDMPC2Plugin, Training
from worldfork.lab.agents.training import Count


class Task(TaskSeeds):
    """A task's seeds, how its checkpoints are evaluated, and what they must reach."""

    wanted: Count = 10
    planner: Search = Search()  # at deployment


class Recipe(Shape, Training, PretrainingRecipe):
    """Everything that determines a checkpoint, besides the hardware. Defaults are the published values, but for
    several environments side by side: five, each with one random episode, are the five random episodes."""

    agent: Literal["tdmpc2"]
    tasks: dict[str, Task] = Field(min_length=1)
    environments: Count = 5
    updates: Count = 1  # per agent step, and so per transition of the random episodes
    collection: Search = Search()
    learning_precision: Precision = "tf32"  # of the networks as they learn

    @property
    def kept_length(self) -> int:
        return 25  # ten of them are an episode

    def plugin(self, planner: Search) -> TDMPC2Plugin:
        same = {name: getattr(self, name) for name in (*Shape.model_fields, *Training.model_fields)}
        return TDMPC2Plugin(**same, **planner.model_dump())

    def gradient_steps_in(self, episode_steps: int) -> int:
        return self.episodes * episode_steps * self.environments * self.updates
