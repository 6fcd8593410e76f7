"""How checkpoints are trained: a registered, strict record (`registrations/pretrain-*.toml`)."""

import json
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worldfork.errors import WorldforkError
from worldfork.lab.planner.cem import CEM
from worldfork.registration.canonical import digest

__all__ = ["Recipe", "read_recipe"]

Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]


class Search(BaseModel):
    """A planner's settings, as `worldfork.lab.planner.cem.CEM` names them."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    candidates: Count = 512
    horizon: Count = 3
    iterations: Count = 6
    elites: Count = 64
    keep: float = Field(default=0.0, ge=0, lt=1)
    colour: float = Field(default=0.0, ge=0, lt=1)
    temperature: float = Field(default=1.0, ge=0)
    initial_std: Rate = 0.8
    minimum_std: Rate = 0.05

    def planner(self) -> CEM:
        return CEM(**self.model_dump())


class Task(BaseModel):
    """A task's seeds, how its checkpoints are evaluated, and what they must reach."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(min_length=1)
    floor: float = 0.0  # the competence gate: mean clean return below which a seed is rejected
    wanted: Count = 5  # checkpoints to keep: the first seeds that pass the gate
    planner: Search = Search()  # at deployment


class Recipe(BaseModel):
    """Everything that determines a checkpoint, besides the hardware."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    schema_: Literal["worldfork.pretraining/1"] = Field(alias="schema")
    name: str
    about: str = ""
    tasks: dict[str, Task] = Field(min_length=1)
    size: str = "compact"
    discount: float = Field(default=0.985, gt=0, lt=1)
    bins: Count = 63
    episodes: Count  # of each environment, the random first one included
    environments: Count = 16  # per seed
    planned: Count = 4  # of these, driven by the planner; the others by the imagination actor
    random_episodes: Count = 1
    exploration: float = Field(default=0.25, ge=0)  # standard deviation of the noise added to planned actions
    gradient_steps: Count = 3  # per control step of all environments
    sequences: Count = 16
    length: Count = 32
    model_rate: Rate = 4e-4
    value_rate: Rate = 3e-4
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
    slow: float = Field(default=0.02, gt=0, le=1)  # rate of the slow value's moving average
    collection: Search = Search(candidates=256, horizon=3, iterations=4, elites=32)
    # Of the gate's and the report's planner; training is TF32 in any case, and so is what plans while it collects.
    precision: Literal["float32", "tf32", "fp16", "bf16"] = "tf32"
    gate_episodes: Count = 20
    report_episodes: Count = 20

    def rate_share(self, done: float) -> float:
        """The share of the learning rates that is left when `done` of the training (0 to 1) is behind."""
        return 1.0 - (1.0 - self.final_rate) * max(0.0, 2.0 * done - 1.0)

    @property
    def digest(self) -> str:
        return digest(self.model_dump(mode="json", by_alias=True))


def read_recipe(path: Path) -> Recipe:
    """The recipe in a TOML file, or one clear error."""
    try:
        return Recipe.model_validate_json(_as_json(tomllib.loads(path.read_text())))
    except FileNotFoundError:
        raise WorldforkError(
            f"There is no recipe at {path}. `registrations/pretrain-*.toml` are examples."
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise WorldforkError(f"{path} is not valid TOML: {error}.") from None
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc']))}: {e['msg']} (got {e['input']!r})" for e in error.errors()]
        raise WorldforkError(f"{path} is not a valid recipe:\n" + "\n".join(lines)) from None


def _as_json(tables: dict[str, object]) -> str:
    """TOML arrays reach strict tuples by way of JSON."""
    return json.dumps(tables)
