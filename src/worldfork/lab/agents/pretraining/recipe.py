"""Recipes: how checkpoints are trained, a registered and strict record (`registrations/pretrain-*.toml`).

Fields that every agent's recipe has are here; the recipe of an agent lies beside it. None of this needs JAX, so
that a driver can read a recipe.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, model_validator

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import AgentPlugin
from worldfork.lab.agents.training import Count
from worldfork.registration import reading
from worldfork.registration.library import find_recipe
from worldfork.registration.schema import digest
from worldfork.validation import Record, explain

Precision = Literal["float32", "tf32", "fp16", "bf16"]
Kind = TypeVar("Kind", bound="PretrainingRecipe")


class TaskSeeds(Record):
    """A task's seeds, and what their checkpoints must reach."""

    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(min_length=1)
    floor: float = 0.0  # the competence gate: mean clean return below which a seed is rejected
    wanted: Count = 5  # checkpoints to keep: the first seeds that pass the gate

    @model_validator(mode="after")
    def _distinct(self) -> "TaskSeeds":
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"`seeds` names one twice: {list(self.seeds)}")
        return self


class PretrainingRecipe(Record):
    """Everything that determines a checkpoint, besides the hardware. An agent adds its own fields."""

    schema_: Literal["worldfork.pretraining/1"] = Field(alias="schema")
    name: str
    about: str = ""
    tasks: Any  # task -> a `TaskSeeds` with the planner at deployment
    episodes: Count  # of each environment, the random first ones included
    environments: Count  # per seed
    random_episodes: Count = 1  # of each environment
    collection: Any  # the planner that collects
    collection_precision: Precision = "tf32"
    replay: Annotated[int, Field(ge=0)] = 2000  # transitions that a checkpoint keeps; they change no weight
    # Seeds of one task that are trained in one program; None: all of them. Digits depend on how many a program
    # trains, so that this belongs to the recipe and not to the machines.
    seeds_per_group: Count | None = None
    precision: Precision = "tf32"  # of the gate's and the report's planner
    gate_episodes: Count = 20
    report_episodes: Count = 20

    @model_validator(mode="after")
    def _some_to_learn_in(self) -> "PretrainingRecipe":
        if self.random_episodes >= self.episodes:
            raise ValueError(f"`random_episodes` leaves none of {self.episodes} `episodes` to learn in")
        return self

    @property
    def kept_length(self) -> int:
        """Transitions of each sequence of the replay that a checkpoint keeps."""
        raise NotImplementedError

    def plugin(self, planner: Any) -> AgentPlugin:
        """Return the agent that is trained, searching as `planner` says."""
        raise NotImplementedError

    def gradient_steps_in(self, episode_steps: int) -> int:
        """Return the gradient steps of a whole training whose episodes have so many control steps."""
        raise NotImplementedError

    def groups(self: Kind) -> list[Kind]:
        """Return the parts that are trained in a program each: one task, and some of its seeds."""
        return [
            self.model_copy(
                update={"tasks": {task: entry.model_copy(update={"seeds": entry.seeds[first : first + size]})}}
            )
            for task, entry in self.tasks.items()
            for size in [self.seeds_per_group or len(entry.seeds)]
            for first in range(0, len(entry.seeds), size)
        ]

    @property
    def digest(self) -> str:
        """The digest of all that a weight depends on; how much of the replay is kept is not of that kind."""
        return digest(self.model_dump(mode="json", by_alias=True, exclude={"replay"}))


def read_tables(recipe: str | Path) -> tuple[dict[str, object], Path]:
    """Read the file of any agent's recipe: `recipe` is its path, or the name of one that comes with worldfork."""
    path = find_recipe(recipe)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorldforkError(f"A recipe is a TOML file; `{path}` could not be read ({error}).") from error
    tables = reading.loads(text, name=str(path), kind="a recipe for pretraining")
    schema = str(tables.get("schema", ""))
    # A registration that extends another need not repeat its schema.
    if schema.startswith("worldfork.registration/") or tables.keys() & {"extends", "grid", "arms"}:
        raise WorldforkError(f"{path} is a registration, not a recipe for pretraining: worldfork run {path}")
    return tables, path


def restore(kind: type[Kind], tables: dict[str, object], *, name: str) -> Kind:
    """Return a recipe of this kind from tables that were read, from a TOML file or a checkpoint's manifest."""
    try:
        # By way of JSON, where strict means strict and arrays may still become tuples.
        return kind.model_validate_json(json.dumps(tables, default=str))
    except ValidationError as error:
        raise WorldforkError(f"{name} is not a valid recipe:\n  " + "\n  ".join(explain(error, kind))) from None
