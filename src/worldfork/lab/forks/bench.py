"""What a registration needs on the bench before it can run: worlds, agents, checkpoints, mechanisms.

Built when first asked for and kept: a bench is a cache of what the registration determines, nothing more.
"""

import functools
import hashlib
import importlib.metadata
from pathlib import Path
from typing import Any

import worldfork
from worldfork.errors import WorldforkError
from worldfork.lab.agents import catalogue as agents
from worldfork.lab.agents.base import Agent
from worldfork.lab.agents.checkpoints import Checkpoint
from worldfork.lab.environments import Environment, load
from worldfork.lab.environments.drift import Schedule
from worldfork.lab.mechanisms import catalogue as mechanisms
from worldfork.lab.mechanisms.base import Mechanism
from worldfork.randomness import Event, Purpose
from worldfork.registration import Arm, Cell, Registration, hold_owner, stream_owner

__all__ = ["BUNDLED", "Bench", "checkpoint_source", "source_digest"]

PACKAGE = Path(worldfork.__file__).parent
BUNDLED = PACKAGE / "bundled"  # checkpoints that come with the package


class Bench:
    """Everything that is built from one registration. `checkpoints` is the folder that holds their files."""

    def __init__(self, registration: Registration, checkpoints: Path, *, threads: int | None = None) -> None:
        self.registration = registration
        self.checkpoints = checkpoints
        self.threads = threads
        self.environment = functools.cache(self._environment)
        self.checkpoint = functools.cache(self._checkpoint)
        self._agents: dict[str, Agent] = {}
        self.owners = stream_owner(registration), hold_owner(registration)

    def _environment(self, task: str) -> Environment:
        return load(task, scale=self.registration.tasks[task].drift_scale, threads=self.threads)

    def agent(self, task: str, arm: Arm | None = None) -> Agent:
        """The task's agent; an arm's own precision and settings apply to its evaluations and updates."""
        registered = self.registration.tasks[task]
        precision = (arm.precision if arm else None) or registered.precision
        settings = {**registered.settings, **(arm.settings if arm else {})}
        key = f"{task} {precision} {sorted(settings.items())}"
        if key not in self._agents:
            build = agents.entry(registered.agent).function("build")
            assert build is not None
            self._agents[key] = build(self.environment(task), settings, precision)
        return self._agents[key]

    def _checkpoint(self, task: str, index: int) -> Checkpoint:
        registered, entry = self.registration.tasks[task], agents.entry(self.registration.tasks[task].agent)
        agent, environment = self.agent(task), self.environment(task)
        if registered.checkpoints == "generated":
            generate = entry.function("generate")
            if generate is None:
                raise WorldforkError(
                    f"The agent `{registered.agent}` can not be generated from a seed: say where its files are, "
                    f'as [tasks.{task}] checkpoints = "folder/{task}-{{checkpoint}}.safetensors" or "bundled".'
                )
            seed = self.registration.seed
            event = Event(purpose=Purpose.PRETRAINING, seed=seed, task=task, checkpoint=str(index))
            checkpoint: Checkpoint = generate(agent, environment, event)
        else:
            read = entry.function("load")
            if read is None:
                raise WorldforkError(f'The agent `{registered.agent}` has no files: checkpoints = "generated".')
            checkpoint = read(agent, environment, self.checkpoints / f"{task}-{index}.safetensors")
        floor = registered.competence_floor
        if floor is not None and checkpoint.clean_return < floor:
            raise WorldforkError(
                f"Checkpoint {index} of {task} returns {checkpoint.clean_return:.1f} in the clean world, below the "
                f"registered floor of {floor}: replace it by the next seed and say so (docs/protocol.md)."
            )
        return checkpoint

    def mechanism(self, arm: Arm) -> Mechanism:
        """What UPDATE does in this arm."""
        said = arm.mechanism
        return mechanisms.build(
            said.name, steps=said.steps, window=said.window, scope=said.scope, settings=said.settings
        )

    def schedule(self, cell: Cell) -> Schedule:
        """How the world drifts along this cell's stream."""
        period = self.registration.arm(cell.arm).stream.drift_period
        return Schedule(cell.direction, period)  # type: ignore[arg-type]

    def configuration(self, cell: Cell) -> dict[str, Any]:
        """cell.json: what determines the cell's rows, as resolved, and nothing else."""
        arm, task = self.registration.arm(cell.arm), self.registration.tasks[cell.task]
        agent, environment = self.agent(cell.task, arm), self.environment(cell.task)
        checkpoint = self.checkpoint(cell.task, cell.checkpoint)
        streams, holds = self.owners
        packages = ("numpy", *agents.entry(task.agent).packages)
        execution = self.registration.execution.model_dump(mode="json")
        return {
            "schema": "worldfork.cell/1",
            "cell": cell.id,
            "registration": self.registration.digest,
            "seed": self.registration.seed,
            "coordinates": {
                "arm": cell.arm,
                "task": cell.task,
                "checkpoint": cell.checkpoint,
                "direction": cell.direction,
                "stream_seed": cell.stream_seed,
            },
            "arm": arm.model_dump(mode="json", exclude={"name", "tasks", "stream_seeds"}),
            "task": task.model_dump(mode="json"),
            "units": {"episode_steps": environment.episode_steps, "action_repeat": environment.action_repeat},
            "checkpoint": {"digest": checkpoint.digest, "clean_return": checkpoint.clean_return},
            "shares": {
                "stream": streams[cell].id if streams[cell] != cell else None,
                "hold": holds[cell].id if holds[cell] != cell else None,
            },
            "block": execution if agent.shape_sensitive else None,
            "precision": arm.precision or task.precision,
            "device": agent.device,
            "simulator": environment.simulator,
            "packages": {name: importlib.metadata.version(name) for name in packages},
            "source": source_digest(),
        }


def checkpoint_source(registration: Registration, task: str, index: int, *, root: Path) -> Path | None:
    """Where a checkpoint's file comes from; None where it is generated. Relative paths start at `root`."""
    said = registration.tasks[task].checkpoints
    if said == "generated":
        return None
    if said == "bundled":
        return BUNDLED / f"{task}-{index}.safetensors"
    return root / said.replace("{checkpoint}", str(index)).replace("{task}", task)


@functools.cache
def source_digest() -> str:
    """SHA-256 of the code that makes rows: the lab and the randomness it runs on."""
    hashed = hashlib.sha256()
    for path in sorted([PACKAGE / "randomness.py", *PACKAGE.glob("lab/**/*.py")]):
        hashed.update(f"{path.relative_to(PACKAGE).as_posix()}\n".encode() + path.read_bytes())
    return hashed.hexdigest()
