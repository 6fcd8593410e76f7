"""How checkpoints of TD-MPC2 are trained: a registered, strict record (`registrations/pretrain-tdmpc2-*.toml`)."""

import json
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from worldfork.errors import WorldforkError
from worldfork.lab.agents.rssm_cem.plugin import Count
from worldfork.lab.agents.tdmpc2.plugin import Search, Shape, TDMPC2Plugin, Training
from worldfork.records import Record, explain
from worldfork.registration.records import digest

__all__ = ["Recipe", "restore_recipe"]

Precision = Literal["float32", "tf32", "fp16", "bf16"]


class Task(Record):
    """A task's seeds, how its checkpoints are evaluated, and what they must reach."""

    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(min_length=1)
    floor: float = 0.0  # the competence gate: mean clean return below which a seed is rejected
    wanted: Count = 10  # checkpoints to keep: the first seeds that pass the gate
    planner: Search = Search()  # at deployment

    @model_validator(mode="after")
    def _distinct(self) -> "Task":
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"`seeds` names one twice: {list(self.seeds)}")
        return self


class Recipe(Shape, Training):
    """Everything that determines a checkpoint, besides the hardware. Defaults are the published values, but for
    several environments side by side: five, each with one random episode, are the five random episodes."""

    schema_: Literal["worldfork.pretraining/1"] = Field(alias="schema")
    agent: Literal["tdmpc2"]
    name: str
    about: str = ""
    tasks: dict[str, Task] = Field(min_length=1)
    episodes: Count  # of each environment, the random ones included
    environments: Count = 5  # per seed
    random_episodes: Count = 1  # of each environment, before any update
    updates: Count = 1  # per agent step, and so per transition of the random episodes
    collection: Search = Search()
    collection_precision: Precision = "tf32"  # of the planner that collects
    learning_precision: Precision = "tf32"  # of the networks as they learn
    replay: Annotated[int, Field(ge=0)] = 2000  # transitions that a checkpoint keeps; they change no weight
    seeds_per_group: Count | None = None  # of one task that are trained in one program; None: all of them
    precision: Precision = "tf32"  # of the gate's and the report's planner
    gate_episodes: Count = 20
    report_episodes: Count = 20

    @model_validator(mode="after")
    def _possible(self) -> "Recipe":
        if self.random_episodes >= self.episodes:
            raise ValueError(f"`random_episodes` leaves none of {self.episodes} `episodes` to learn in")
        return self

    def plugin(self, planner: Search) -> TDMPC2Plugin:
        """The agent that is trained, searching as `planner` says."""
        same = {name: getattr(self, name) for name in (*Shape.model_fields, *Training.model_fields)}
        return TDMPC2Plugin(**same, **planner.model_dump())

    def groups(self) -> "list[Recipe]":
        """The parts that are trained in a program each: one task, and some of its seeds."""
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
        """Of all that a weight depends on; how much of the replay is kept is not of that kind."""
        return digest(self.model_dump(mode="json", by_alias=True, exclude={"replay"}))


def restore_recipe(tables: dict[str, object], *, name: str) -> Recipe:
    """A recipe from tables that were read, from a TOML file or a checkpoint's manifest."""
    try:
        # By way of JSON, where strict means strict and arrays may still become tuples.
        return Recipe.model_validate_json(json.dumps(tables, default=str))
    except ValidationError as error:
        raise WorldforkError(f"{name} is not a valid recipe:\n  " + "\n  ".join(explain(error, Recipe))) from None
