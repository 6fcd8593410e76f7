"""The agent by name: its settings and their bounds, and the one place that builds model, planner and agent.

Reading a registration imports this module and no more, so JAX waits until something is built.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import AgentPlugin, Checkpoint
from worldfork.lab.agents.training import Count, Rate, precisions
from worldfork.lab.environments.base import Environment
from worldfork.validation import Record

if TYPE_CHECKING:
    from worldfork.lab.agents.rssm_cem.agent import RSSMCEM
    from worldfork.lab.agents.rssm_cem.rssm import RSSM
    from worldfork.lab.planner.cem import CEM


# `compact` is for an accelerator, `tiny` for CPUs.
Size = Literal["compact", "tiny"]
SIZES: Final[dict[Size, dict[str, int]]] = {
    "compact": {"deter": 256, "groups": 16, "classes": 16, "hidden": 192},
    "tiny": {"deter": 64, "groups": 8, "classes": 8, "hidden": 64},
}


class Search(Record):
    """A planner's settings; `worldfork.lab.planner.cem.CEM` says what they do."""

    candidates: Annotated[int, Field(ge=2)] = 512
    # Candidates that follow the actor, which then belongs to the checkpoint.
    proposals: int = Field(default=0, ge=0, exclude_if=lambda count: count == 0)
    horizon: Count = 3
    iterations: Count = 6
    elites: Annotated[int, Field(ge=2)] = 64
    keep: float = Field(default=0.0, ge=0, lt=1)
    colour: float = Field(default=0.0, ge=0, lt=1)
    temperature: float = Field(default=1.0, ge=0)
    initial_std: Rate = 0.8
    minimum_std: Rate = 0.05

    @model_validator(mode="after")
    def _as_many_as_there_are(self) -> "Search":
        if self.elites > self.candidates:
            raise ValueError(f"`elites` are chosen among `candidates`; got {self.elites} of {self.candidates}")
        if self.proposals >= self.candidates - int(self.keep * self.elites):
            raise ValueError(
                f"some of the `candidates` are drawn; got {self.proposals} `proposals` of {self.candidates}"
            )
        return self

    def planner(self) -> "CEM":
        """Return the search itself."""
        from worldfork.lab.planner.cem import CEM

        return CEM(**{name: getattr(self, name) for name in Search.model_fields})


class Training(Record):
    """Minibatches and learning rates. A recipe and a study have the same defaults, so that UPDATE goes on as
    pretraining went; a study that says otherwise than the recipe of its checkpoints is told so when it begins."""

    sequences: Count = 16
    length: Count = 32  # transitions of a sequence
    model_rate: Rate = 4e-4
    value_rate: Rate = 3e-4


class RSSMCEMPlugin(Search, Training, AgentPlugin):
    """The paper's agent with all of its settings: the planner's, those of UPDATE's minibatches, and the model's."""

    packages = ("jax", "jaxlib", "optax")
    optional_suffixes = (".npz",)  # the replay that mechanisms rehearse from

    size: Size = "compact"
    deter: Count | None = None  # of the deterministic state; this and the next three are the size's where not given
    groups: Count | None = None
    classes: Count | None = None
    hidden: Count | None = None
    bins: Annotated[int, Field(ge=2)] = 63  # of the reward and value distributions
    # The largest reward of one control step, with the smallest at 0: four environment steps of at most 1 in the
    # suite. The model can not express more: rewards outside are learnt, and imagined, as the nearest end.
    reward_high: float = Field(default=4.0, gt=0)
    discount: float = Field(default=0.985, gt=0, lt=1)
    unimix: float = Field(default=0.01, ge=0, lt=1)
    fused: bool = True  # plan with the GPU kernel where there is one for the model; differs by rounding

    def build(self, environment: Environment, *, precision: str) -> "RSSMCEM":
        """Return the agent for a task."""
        from worldfork.lab.agents.rssm_cem.agent import RSSMCEM

        learning, planning = precisions(precision)
        model = self.model(environment.observation_size, environment.action_size, precision=learning)
        training = {name: getattr(self, name) for name in Training.model_fields}
        return RSSMCEM(model, self.planner(), planning=planning, fused=self.fused, **training)

    def model(self, observation_size: int, action_size: int, *, precision: str = "tf32") -> "RSSM":
        """Return the model's shape for so many observations and actions."""
        from worldfork.lab.agents.rssm_cem.rssm import RSSM

        named = {name: getattr(self, name) for name in ("deter", "groups", "classes", "hidden")}
        shape = {**SIZES[self.size], **{name: value for name, value in named.items() if value is not None}}
        return RSSM(
            observation_size,
            action_size,
            **shape,
            bins=self.bins,
            reward_high=self.reward_high,
            discount=self.discount,
            unimix=self.unimix,
            precision=precision,
        )

    def load(self, agent: Any, environment: Any, path: Path) -> Checkpoint:
        """Return the checkpoint at `path`, a .safetensors file with a manifest beside it."""
        from worldfork.lab.agents.checkpoints import load

        checkpoint = load(path, agent, environment, training=Training.model_fields)
        actor = {name for name in checkpoint.parameters if name.startswith("actor/")}
        if self.proposals and not actor:
            raise WorldforkError(
                f"{path} has no actor to propose candidates: its recipe's planner asked for none. Register "
                "`proposals = 0`, or train it by a recipe whose planner has `proposals`."
            )
        if self.proposals or not actor:
            return checkpoint
        model = {name: array for name, array in checkpoint.parameters.items() if name not in actor}
        return dataclasses.replace(checkpoint, parameters=model)
