"""How checkpoints are trained: a registered, strict record (`registrations/pretrain-*.toml`)."""

import json
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError, model_validator

from worldfork.errors import WorldforkError
from worldfork.lab.agents.rssm_cem.plugin import Count, Rate, RSSMCEMPlugin, Search, Size, Training
from worldfork.records import Record, explain
from worldfork.registration import reading
from worldfork.registration.library import find_recipe
from worldfork.registration.records import digest

__all__ = ["Recipe", "read_recipe", "read_tables", "restore_recipe"]


Precision = Literal["float32", "tf32", "fp16", "bf16"]


class Task(Record):
    """A task's seeds, how its checkpoints are evaluated, and what they must reach."""

    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(min_length=1)
    floor: float = 0.0  # the competence gate: mean clean return below which a seed is rejected
    wanted: Count = 5  # checkpoints to keep: the first seeds that pass the gate
    planner: Search = Search()  # at deployment

    @model_validator(mode="after")
    def _distinct(self) -> "Task":
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"`seeds` names one twice: {list(self.seeds)}")
        return self


LATER: Final = ("unroll", "collection_precision", "seeds_per_group")


class Recipe(Training):
    """Everything that determines a checkpoint, besides the hardware."""

    schema_: Literal["worldfork.pretraining/1"] = Field(alias="schema")
    name: str
    about: str = ""
    tasks: dict[str, Task] = Field(min_length=1)
    size: Size = "compact"
    discount: float = Field(default=0.985, gt=0, lt=1)
    bins: Annotated[int, Field(ge=2)] = 63
    episodes: Count  # of each environment, the random first one included
    environments: Count = 16  # per seed
    planned: Count = 4  # of these, driven by the planner; the others by the imagination actor
    random_episodes: Count = 1
    exploration: float = Field(default=0.25, ge=0)  # standard deviation of the noise added to planned actions
    gradient_steps: Count = 3  # per control step of all environments
    actor_rate: Rate = 1e-4
    # All rates fall linearly to this share of themselves over the second half: where they do not, the actor keeps
    # moving and the value head is always a little behind it.
    final_rate: float = Field(default=1.0, gt=0, le=1)
    actor_gradient: Literal["reinforce", "dynamics"] = "reinforce"  # score function, or through the model
    starts: Count = 256  # of imagination, per gradient step
    imagined: Count = 15  # steps of imagination
    trace: float = Field(default=0.95, ge=0, le=1)
    entropy: float = Field(default=3e-4, ge=0)
    replayed: float = Field(default=0.3, ge=0)  # weight of the value's TD(lambda) loss on replay
    replay: Annotated[int, Field(ge=0)] = 2000  # transitions that a checkpoint keeps; they change no weight
    slow: float = Field(default=0.02, gt=0, le=1)  # rate of the slow value's moving average
    unroll: Count = 1  # transitions compiled as one: fewer, longer kernels; another number rounds otherwise
    collection: Search = Search(candidates=256, horizon=3, iterations=4, elites=32)
    collection_precision: Precision = "tf32"  # of the planner that collects
    # Seeds of one task that are trained in one program; None: all seeds of all tasks in one. Digits depend on how
    # many a program trains, so that this belongs to the recipe and not to the machines.
    seeds_per_group: Count | None = None
    # Of the gate's and the report's planner; training is TF32 in any case.
    precision: Precision = "tf32"
    gate_episodes: Count = 20
    report_episodes: Count = 20

    @model_validator(mode="after")
    def _possible(self) -> "Recipe":
        if self.planned >= self.environments:
            raise ValueError(f"`planned` leaves none of {self.environments} `environments` to the actor")
        if self.random_episodes >= self.episodes:
            raise ValueError(f"`random_episodes` leaves none of {self.episodes} `episodes` to learn in")
        if self.starts > self.sequences * self.length:
            raise ValueError(
                f"`starts` are chosen among the transitions of a minibatch, `sequences` x `length` = "
                f"{self.sequences * self.length}; got {self.starts}"
            )
        return self

    def agent(self, planner: Search) -> RSSMCEMPlugin:
        """The agent that is trained, searching as `planner` says."""
        training = {name: getattr(self, name) for name in Training.model_fields}
        return RSSMCEMPlugin(
            size=self.size, discount=self.discount, bins=self.bins, **training, **planner.model_dump()
        )

    def rate_share(self, done: float) -> float:
        """The share of the learning rates that is left when `done` of the training (0 to 1) is behind."""
        return 1.0 - (1.0 - self.final_rate) * max(0.0, 2.0 * done - 1.0)

    def groups(self) -> "list[Recipe]":
        """The parts that are trained in a program each: this recipe with some of its seeds."""
        size = self.seeds_per_group
        if size is None:
            return [self]
        return [
            self.model_copy(
                update={"tasks": {task: entry.model_copy(update={"seeds": entry.seeds[first : first + size]})}}
            )
            for task, entry in self.tasks.items()
            for first in range(0, len(entry.seeds), size)
        ]

    @property
    def digest(self) -> str:
        """Of all that a weight depends on. How much of the replay is kept is not of that kind; and a field that was
        added later leaves the digests of earlier recipes as they were, where it says what was done before."""
        later = {name for name in LATER if getattr(self, name) == Recipe.model_fields[name].default}
        return digest(self.model_dump(mode="json", by_alias=True, exclude={"replay", *later}))


def read_recipe(recipe: str | Path) -> Recipe:
    """The recipe in a TOML file, or the one of that name that comes with worldfork; or one clear error."""
    tables, path = read_tables(recipe)
    return restore_recipe(tables, name=str(path))


def read_tables(recipe: str | Path) -> tuple[dict[str, object], Path]:
    """What is in a recipe's file, of whichever agent, and where that file is."""
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


def restore_recipe(tables: dict[str, object], *, name: str) -> Recipe:
    """A recipe from tables that were read, from a TOML file or a checkpoint's manifest."""
    try:
        # By way of JSON, where strict means strict and arrays may still become tuples.
        return Recipe.model_validate_json(json.dumps(tables, default=str))
    except ValidationError as error:
        raise WorldforkError(f"{name} is not a valid recipe:\n  " + "\n  ".join(explain(error, Recipe))) from None
