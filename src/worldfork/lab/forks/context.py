"""Worlds, agents and checkpoints that a registration names, built when first asked for and kept."""

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Final

from worldfork import registry
from worldfork.blobs import Blob, as_files
from worldfork.errors import WorldforkError
from worldfork.fixed_policies import FIXED_POLICIES
from worldfork.lab.agents.base import Agent, AgentPlugin, Checkpoint
from worldfork.lab.environments import Environment, EnvironmentPlugin
from worldfork.lab.environments.base import AfterEnd, can_end
from worldfork.lab.environments.drift import Schedule, schedule
from worldfork.lab.episodes import objection_to_ends
from worldfork.lab.mechanisms.base import Mechanism
from worldfork.lab.signals import Signal
from worldfork.ledger.closed_loop import recorded_signals
from worldfork.randomness import Event, Purpose
from worldfork.registration import Arm, Cell, Registration
from worldfork.registry import Located

TaskCheckpoint = tuple[str, int]  # the task, and the index of the checkpoint
KEPT: Final = 64  # checkpoints that were read last


class Context:
    """Everything that one registration determines. `checkpoints` names the files of each, the first one first."""

    def __init__(
        self,
        registration: Registration,
        checkpoints: Mapping[TaskCheckpoint, Sequence[Blob]],
        *,
        threads: int | None = None,
    ) -> None:
        self.registration = registration
        self.checkpoints = dict(checkpoints)
        self.threads = threads or int(os.environ.get("WORLDFORK_THREADS", 0)) or os.cpu_count() or 1
        self.environment = functools.cache(self._environment)
        self._read_checkpoint = functools.lru_cache(KEPT)(self._checkpoint)
        self._agents: dict[str, Agent] = {}

    def _environment(self, task: str) -> Environment:
        registered = self.registration.tasks[task]
        plugin = registry.build(
            "environments",
            registered.environment or task,
            EnvironmentPlugin,
            settings=registered.environment_settings,
            where=f"[tasks.{task}.environment_settings]",
        )
        return plugin.build(scale=float(registered.drift_scale), threads=self.threads)

    def after_end(self, task: str) -> AfterEnd | None:
        """Return what an episode of the task does once it has ended; None in a world whose episodes do not end
        early."""
        registered, environment = self.registration.tasks[task].after_end, self.environment(task)
        if can_end(environment):
            return registered or "reset"
        if registered is not None:
            raise WorldforkError(
                f'[tasks.{task}]: after_end = "{registered}" says what happens once an episode has ended early, '
                f"and those of `{environment.name}` never do (it does not say `can_end = True`): leave it out."
            )
        return None

    def agent_plugin(self, task: str, arm: Arm | None = None) -> AgentPlugin:
        """Return the task's agent as named and set; an arm's settings change its evaluations and updates."""
        registered = self.registration.tasks[task]
        return registry.build(
            "agents",
            registered.agent,
            AgentPlugin,
            settings={**registered.settings, **(arm.settings if arm else {})},
            where=f"[tasks.{task}.settings]",
        )

    def agent(self, task: str, arm: Arm | None = None) -> Agent:
        """Return the task's agent in an arm's precision and settings; without an arm, as it is deployed in
        streams."""
        plugin, precision = self.agent_plugin(task, arm), self.precision(task, arm)
        key = f"{task} {precision} {plugin!r}"
        if key not in self._agents:
            try:
                self._agents[key] = plugin.build(self.environment(task), precision=precision)
            except WorldforkError as error:
                raise WorldforkError(
                    f"[tasks.{task}], agent `{self.registration.tasks[task].agent}`: {error}"
                ) from error
        return self._agents[key]

    def precision(self, task: str, arm: Arm | None = None) -> str:
        """Return the precision of the task, or the arm's own choice."""
        return (arm.precision if arm else None) or self.registration.tasks[task].precision

    def checkpoint(self, task: str, index: int) -> Checkpoint:
        """Return the pretrained agent of a task."""
        return self._read_checkpoint(task, index, tuple(self.checkpoints.get((task, index), ())))

    def _checkpoint(self, task: str, index: int, files: tuple[Blob, ...]) -> Checkpoint:
        registered, plugin = self.registration.tasks[task], self.agent_plugin(task)
        agent, environment = self.agent(task), self.environment(task)
        if (
            getattr(plugin, "after_end", "") is None
        ):  # it measures clean returns, in episodes that end as the task's do
            plugin = plugin.model_copy(update={"after_end": self.after_end(task)})
        if registered.checkpoints == "generated":
            seed = self.registration.seed
            event = Event(purpose=Purpose.PRETRAINING, seed=seed, task=task, checkpoint=str(index))
            checkpoint = plugin.generate(agent, environment, event)
        else:
            with as_files(files, stem=f"{task}-{index}") as path:
                checkpoint = plugin.load(agent, environment, path)
        measured, studied = checkpoint.after_end, self.after_end(task)
        if measured is not None and studied is not None and measured != studied:
            raise WorldforkError(
                f'Checkpoint {index} of {task}: its clean return was measured with after_end = "{measured}", and '
                f'[tasks.{task}] has after_end = "{studied}": the two can not be compared. Register '
                f'after_end = "{measured}", or save the checkpoint with save_checkpoint(..., '
                f'after_end="{studied}"); an agent whose settings have an `after_end` takes the task\'s without it.'
            )
        floor = registered.competence_floor
        if floor is not None and checkpoint.clean_return < floor:
            raise WorldforkError(
                f"Checkpoint {index} of {task} returns {checkpoint.clean_return:.1f} in the clean world, below the "
                f"registered floor of {floor}: replace it by the next seed and say so (docs/protocol.md)."
            )
        return checkpoint

    def mechanism(self, arm: Arm) -> Mechanism:
        """Return the mechanism of this arm."""
        registered = arm.mechanism
        common = registered.model_dump(include={"steps", "window", "scope"})
        if taken := sorted(common.keys() & registered.settings.keys()):
            raise WorldforkError(f"`{taken[0]}` belongs in [mechanism], not in [mechanism.settings].")
        return registry.build(
            "mechanisms",
            registered.name,
            Mechanism,
            settings={**common, **registered.settings},
            where=f"[mechanism] of arm `{arm.name}`",
        )

    def accepted(self, arm: Arm, task: str) -> Mechanism:
        """Return the arm's mechanism, if it can update the task's agent; refused here, it is never refused in a
        block."""
        mechanism, environment = self.mechanism(arm), self.environment(task)
        steps, after_end = environment.episode_steps, self.after_end(task)
        for agent in (self.agent(task), self.agent(task, arm)):
            if refused := after_end and objection_to_ends(agent, environment, after_end=after_end):
                raise WorldforkError(f"[tasks.{task}], agent `{self.registration.tasks[task].agent}`: {refused}")
        objection = mechanism.objection(
            self.agent(task, arm),
            shortest=1 if after_end == "wait" else min(mechanism.window, steps),  # it may end at the first step
            longest=min(mechanism.window, arm.stream.decision_points * steps),
        )
        if objection:
            raise WorldforkError(f"arm `{arm.name}`, {task}, mechanism `{arm.mechanism.name}`: {objection}")
        return mechanism

    def require_replay(self, arm: Arm, task: str, index: int) -> None:
        """Refuse a mechanism that reads what a checkpoint was pretrained on where the checkpoint keeps none."""
        if self.mechanism(arm).reads_replay and self.checkpoint(task, index).replay is None:
            raise WorldforkError(
                f"arm `{arm.name}`: the mechanism `{arm.mechanism.name}` reads what a checkpoint was pretrained "
                f"on, and checkpoint {index} of {task} keeps none. {self.agent_plugin(task).replay_advice}"
            )

    @functools.cached_property
    def signals(self) -> dict[str, Signal]:
        """The signals that are read before each fork, by the name they have in the row."""
        signals: dict[str, Signal] = {}
        for name in self.registration.signals:
            label = registry.locate("signals", name).label
            if label in signals:
                raise WorldforkError(f"Two of the registered signals are called `{label}`: rename one of them.")
            signals[label] = registry.build("signals", name, Signal, where="`signals`")
        return signals

    def schedule(self, cell: Cell) -> Schedule:
        """Return the drift of the world along this cell's stream."""
        task, arm = self.registration.tasks[cell.task], self.registration.arm(cell.arm)
        log_scale = float(task.drift_scale) if task.drift == "log" else None
        return schedule(
            arm.stream.schedule,
            cell.direction,
            arm.stream.drift_period,
            event=cell.event(Purpose.DRIFT, self.registration.seed),
            log_scale=log_scale,
            settings=arm.stream.schedule_settings,
        )

    def code(self, cell: Cell) -> dict[str, Located]:
        """Locate the named things that compute this cell's rows."""
        return _code(self.registration, self.registration.arm(cell.arm), cell.task)


def _code(registration: Registration, arm: Arm, task: str) -> dict[str, Located]:
    registered = registration.tasks[task]
    return {
        "agent": registry.locate("agents", registered.agent),
        "environment": registry.locate("environments", registered.environment or task),
        "mechanism": registry.locate("mechanisms", arm.mechanism.name),
        "schedule": registry.locate("schedules", arm.stream.schedule),
        **{f"signal {name}": registry.locate("signals", name) for name in registration.signals},
    }


def outside_code(registration: Registration) -> list[Located]:
    """List what a registration names that does not come with worldfork: running it imports that code."""
    named = [
        located
        for arm in registration.arms
        for task in arm.tasks
        for located in _code(registration, arm, task).values()
    ]
    policies = registration.deployment.policies.values() if registration.deployment else ()
    ours = (*FIXED_POLICIES, *recorded_signals(registration))
    named += [registry.locate("triggers", policy.trigger) for policy in policies if policy.trigger not in ours]
    return [located for located in dict.fromkeys(named) if not located.ours]
