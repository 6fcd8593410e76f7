"""The agent by name: its settings and their bounds, and the one place that builds networks, planner and agent.

Reading a registration imports this module and no more, so JAX waits until something is built.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from worldfork.lab.agents.base import AgentPlugin, Checkpoint
from worldfork.lab.agents.training import Count, Rate, precisions
from worldfork.lab.environments.base import Environment
from worldfork.validation import Record

if TYPE_CHECKING:
    from worldfork.lab.agents.tdmpc2.agent import TDMPC2
    from worldfork.lab.agents.tdmpc2.networks import Networks
    from worldfork.lab.planner.mppi import MPPI


# Two published sizes, called by their number of parameters, and one for CPUs.
Size = Literal["1M", "5M", "tiny"]
SIZES: Final[dict[Size, dict[str, int]]] = {
    "1M": {"latent": 128, "encoder": 256, "hidden": 384, "values": 2},
    "5M": {"latent": 512, "encoder": 256, "hidden": 512, "values": 5},
    "tiny": {"latent": 32, "encoder": 32, "hidden": 32, "values": 2},
}


class Search(Record):
    """A planner's settings; `worldfork.lab.planner.mppi.MPPI` says what they do."""

    candidates: Annotated[int, Field(ge=2)] = 512
    proposals: Annotated[int, Field(ge=0)] = 24
    horizon: Count = 3
    iterations: Count = 6
    elites: Count = 64
    temperature: float = Field(default=0.5, ge=0)
    minimum_std: Rate = 0.05
    maximum_std: Rate = 2.0

    @model_validator(mode="after")
    def _as_many_as_there_are(self) -> "Search":
        if self.elites > self.candidates:
            raise ValueError(f"`elites` are chosen among `candidates`; got {self.elites} of {self.candidates}")
        if self.proposals >= self.candidates:
            raise ValueError(f"`proposals` are some of the `candidates`; got {self.proposals} of {self.candidates}")
        return self

    def planner(self) -> "MPPI":
        """Return the search itself."""
        from worldfork.lab.planner.mppi import MPPI

        return MPPI(**{name: getattr(self, name) for name in Search.model_fields})


class Training(Record):
    """Minibatches and the learning rate, with the published values; a recipe and a study have the same defaults."""

    sequences: Count = 256
    length: Count = 3  # transitions of a sequence, which is as far as the losses look
    rate: Rate = 3e-4  # of all but the encoder, which learns at 0.3 of it


class Shape(Record):
    """The networks' widths. A study and the recipe of its checkpoints name the same."""

    size: Size = "1M"
    latent: Count | None = None  # this and the next three are the size's where not given
    encoder: Count | None = None
    hidden: Count | None = None
    values: Annotated[int, Field(ge=2)] | None = None  # Q functions of the ensemble
    dropout: float = Field(default=0.01, ge=0, lt=1)  # in the first layer of each Q function
    discount: float | None = Field(default=None, gt=0, lt=1)  # None: by the length of an episode

    def networks(self, environment: Environment, *, precision: str = "tf32") -> "Networks":
        """Return the networks for a task."""
        from worldfork.lab.agents.tdmpc2.networks import Networks, discount_of

        named = {name: getattr(self, name) for name in ("latent", "encoder", "hidden", "values")}
        widths = {**SIZES[self.size], **{name: value for name, value in named.items() if value is not None}}
        return Networks(
            environment.observation_size,
            environment.action_size,
            discount_of(environment.episode_steps) if self.discount is None else self.discount,
            dropout=self.dropout,
            precision=precision,
            **widths,
        )


class TDMPC2Plugin(Search, Training, Shape, AgentPlugin):
    """TD-MPC2 with all of its settings: the planner's, those of UPDATE's minibatches, and the networks'."""

    packages = ("jax", "jaxlib", "optax")
    optional_suffixes = (".npz",)  # the replay that mechanisms rehearse from

    def build(self, environment: Environment, *, precision: str) -> "TDMPC2":
        """Return the agent for a task."""
        from worldfork.lab.agents.tdmpc2.agent import TDMPC2

        learning, planning = precisions(precision)
        networks = self.networks(environment, precision=learning)
        training = {name: getattr(self, name) for name in Training.model_fields}
        return TDMPC2(networks, self.planner(), planning=planning, **training)

    def load(self, agent: Any, environment: Any, path: Path) -> Checkpoint:
        """Return the checkpoint at `path`, a .safetensors file with a manifest beside it."""
        from worldfork.lab.agents.checkpoints import load

        return load(path, agent, environment, training=Training.model_fields)
