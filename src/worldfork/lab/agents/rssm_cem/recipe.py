"""The recipe of the paper's agent (`registrations/pretrain-*.toml`)."""

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from worldfork.lab.agents.pretraining.recipe import PretrainingRecipe, TaskSeeds
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin, Search, Size, Training
from worldfork.lab.agents.training import Count, Rate
from worldfork.registration.schema import digest


class Task(TaskSeeds):
    """A task's seeds, how its checkpoints are evaluated, and what they must reach."""

    planner: Search = Search()  # at deployment


LATER: Final = ("unroll", "collection_precision", "seeds_per_group")


class Recipe(Training, PretrainingRecipe):
    """Everything that determines a checkpoint, besides the hardware."""

    tasks: dict[str, Task] = Field(min_length=1)
    size: Size = "compact"
    discount: float = Field(default=0.985, gt=0, lt=1)
    bins: Annotated[int, Field(ge=2)] = 63
    environments: Count = 16
    planned: Count = 4  # of these, driven by the planner; the others by the imagination actor
    exploration: float = Field(default=0.25, ge=0)  # standard deviation of the noise added to planned actions
    gradient_steps: Count = 3  # per control step of all environments
    actor_rate: Rate = 1e-4
    # All rates fall linearly to this share of themselves over the second half: where they do not, the actor keeps
    # moving and the value head is always a little behind it.
    final_rate: float = Field(default=1.0, gt=0, le=1)
    actor_gradient: Literal["dynamics"] = "dynamics"  # through the model
    starts: Count = 256  # of imagination, per gradient step
    imagined: Count = 15  # steps of imagination
    trace: float = Field(default=0.95, ge=0, le=1)
    entropy: float = Field(default=3e-4, ge=0)
    replayed: float = Field(default=0.3, ge=0)  # weight of the value's TD(lambda) loss on replay
    slow: float = Field(default=0.02, gt=0, le=1)  # rate of the slow value's moving average
    unroll: Count = 1  # transitions compiled as one: fewer, longer kernels; another number rounds otherwise
    collection: Search = Search(candidates=256, horizon=3, iterations=4, elites=32)

    @model_validator(mode="after")
    def _possible(self) -> "Recipe":
        if self.planned >= self.environments:
            raise ValueError(f"`planned` leaves none of {self.environments} `environments` to the actor")
        if self.starts > self.sequences * self.length:
            raise ValueError(
                f"`starts` are chosen among the transitions of a minibatch, `sequences` x `length` = "
                f"{self.sequences * self.length}; got {self.starts}"
            )
        return self

    @property
    def kept_length(self) -> int:
        return self.length

    def plugin(self, planner: Search) -> RSSMCEMPlugin:
        training = {name: getattr(self, name) for name in Training.model_fields}
        return RSSMCEMPlugin(
            size=self.size, discount=self.discount, bins=self.bins, **training, **planner.model_dump()
        )

    def gradient_steps_in(self, episode_steps: int) -> int:
        return (self.episodes - self.random_episodes) * episode_steps * self.gradient_steps

    def rate_share(self, done: float) -> float:
        """Return the share of the learning rates that is left when `done` of the training (0 to 1) is behind."""
        return 1.0 - (1.0 - self.final_rate) * max(0.0, 2.0 * done - 1.0)

    def groups(self) -> "list[Recipe]":
        # Without a number all seeds of all tasks are one program: the tasks of a recipe train side by side.
        return [self] if self.seeds_per_group is None else super().groups()

    @property
    def digest(self) -> str:
        # A field that was added later leaves earlier digests alone where it says what was done before.
        later = {name for name in LATER if getattr(self, name) == Recipe.model_fields[name].default}
        return digest(self.model_dump(mode="json", by_alias=True, exclude={"replay", *later}))
