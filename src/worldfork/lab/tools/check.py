"""A check of a registration before it costs anything: all that it names is built, and one real step is taken."""

import dataclasses
import itertools
import traceback
from pathlib import Path
from typing import Any, Final

import numpy as np

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.episodes import Draws, roll_out
from worldfork.lab.forks.checkpoints import checkpoint_files, checkpoint_source
from worldfork.lab.forks.context import Context, outside_code
from worldfork.lab.forks.label import read_signals, validation_losses
from worldfork.lab.tools import cost
from worldfork.lab.tools.probe import Probe, outside_tasks, place_of
from worldfork.lab.tools.probe import probe as probe_registration
from worldfork.lab.tools.short_episode import prepared_update, short_episode
from worldfork.ledger.closed_loop import policy_of
from worldfork.ledger.consistency import counted_twice
from worldfork.progress import Progress, silent
from worldfork.randomness import Event, Purpose
from worldfork.registration import Arm, Registration, cells, open_authored
from worldfork.registration.advice import idle_settings

SHOWN: Final = 10  # absent checkpoints that are named


@dataclasses.dataclass(frozen=True)
class Check:
    """The outcome of a check. `missing` is what keeps the study from running here; `idle` are settings that change
    nothing, such as a window longer than the stream."""

    registration: Registration
    cells: tuple[str, ...]
    outside: tuple[str, ...]  # code that running it imports and that does not come with worldfork
    mechanisms: tuple[str, ...]  # of every arm, with its settings
    idle: tuple[str, ...]
    missing: tuple[str, ...]
    stepped: tuple[str, ...]  # tasks and arms in which a real step was taken
    work: tuple[cost.Count, ...]
    seconds: tuple[cost.Seconds, ...]
    deployments: tuple[cost.DeploymentCount, ...] = ()  # what [deployment] amounts to, task by task
    deployment_seconds: tuple[dict[str, float], ...] = ()  # of each of these, at most
    ends: tuple[str, ...] = ()  # of worlds whose episodes can end early: how often they do
    probed: tuple[str, ...] = ()  # tasks that a new run tries first: not all of their code comes with worldfork
    trial: Probe | None = None  # what a small block that was computed several times showed

    @property
    def ready(self) -> bool:
        return not self.missing and (self.trial is None or self.trial.passed)


def check(
    registration: Registration | Path | str,
    *,
    step: bool = True,
    measure: bool = False,
    probe: bool = False,
    progress: Progress = silent,
) -> Check:
    """Build every world, agent, mechanism and signal that the registration names, and take a step with them.

    Whatever passes can run: settings are checked by those whose settings they are. `step` = False leaves out the
    step, which compiles; `measure` times more of them and estimates how long a run would take here, which is done
    without it where it costs next to nothing (agents that compute set by set);
    `probe` computes one small block twice here and once in another process.
    """
    authored, root = open_authored(registration)
    registered = authored.registration
    context = Context(registered, {})
    units = {}
    for arm in registered.arms:
        for task in arm.tasks:
            world = context.environment(task)
            units[task] = (world.episode_steps, world.episode_steps * world.action_repeat)
            context.agent(task)
            context.accepted(arm, task)  # what would fail in every block is refused here
    assert context.signals is not None
    _policies_accepted(registered)
    models, missing = _models(registered, root)
    work, deployments = cost.count(context), cost.count_deployments(context)
    stepped: list[str] = []
    ends: list[str] = []
    seconds: list[cost.Seconds] = []
    deployment_seconds: list[dict[str, float]] = []
    if not missing:
        context = Context(registered, models)
        missing = _unusable(context, progress)
    if not missing:
        for arm in registered.arms:
            for task, index in itertools.product(arm.tasks, registered.grid.checkpoints):
                context.require_replay(arm, task, index)
        if step:
            stepped = _steps(context, progress)
            ends = [sentence for task in registered.tasks if (sentence := count_ends(context, task))]
        quick = step and registered.deployment is None and all(cost.is_quick(context, of) for of in work)
        if measure or quick:
            for number, counted in enumerate(work, start=1):
                seconds.append(cost.measure(context, counted))
                progress("timing", number, len(work))
        if measure:
            deployment_seconds = [cost.measure_deployments(context, counted) for counted in deployments]
    return Check(
        registration=registered,
        cells=tuple(cell.id for cell in cells(registered)),
        outside=tuple(map(str, outside_code(registered))),
        mechanisms=tuple(
            f"{arm.name}: {arm.mechanism.name} ({context.mechanism(arm).describe()})" for arm in registered.arms
        ),
        idle=tuple(idle_settings(registered, units)),
        missing=tuple(missing),
        stepped=tuple(stepped),
        ends=tuple(ends),
        work=tuple(work),
        seconds=tuple(seconds),
        deployments=tuple(deployments),
        deployment_seconds=tuple(deployment_seconds),
        probed=tuple(outside_tasks(registered)),
        trial=probe_registration(registration) if probe and not missing else None,
    )


def _policies_accepted(registered: Registration) -> None:
    """Refuse a policy whose trigger is not known or can not be set up."""
    for name, policy in registered.deployment.policies.items() if registered.deployment else ():
        try:
            policy_of(registered, name, threshold="inf" if policy.needs_ledger else None).inner  # noqa: B018
        except WorldforkError as error:
            raise WorldforkError(f"[deployment.policies.{name}]: {error}") from error


def _models(registered: Registration, root: Path) -> tuple[Any, list[str]]:
    """Return the files of the checkpoints, or a sentence about those that are registered and not there."""
    try:
        return checkpoint_files(registered, root=root, copies=root), []
    except WorldforkError as error:
        places = {(cell.task, cell.checkpoint) for cell in cells(registered)}
        sources = [checkpoint_source(registered, *place, root=root) for place in sorted(places)]
        absent = [source for source in sources if source is not None and not source.exists()]
        named = ", ".join(source.name for source in absent[:SHOWN]) + (", ..." if len(absent) > SHOWN else "")
        among = f"{len(absent)} of {len(sources)} checkpoints are not there ({named}). " if absent else ""
        return None, [f"{among}{error}"]


def _unusable(context: Context, progress: Progress) -> list[str]:
    """Load every checkpoint, as a run does; return what is wrong with those that can not be used."""
    models: list[tuple[str, int, str]] = []
    failed: dict[str, list[str]] = {}  # often many fail alike: the first reason in full, then which
    places = sorted({(cell.task, cell.checkpoint) for cell in cells(context.registration)})
    for number, (task, index) in enumerate(places, start=1):
        try:
            models.append((task, index, context.checkpoint(task, index).digest))
        except Exception as error:
            reason = str(error) if isinstance(error, WorldforkError) else f"{type(error).__name__}: {error}"
            file = next((blob.path for blob in context.checkpoints.get((task, index), ())), None)
            alike = reason if file is None else reason.replace(file.stem, "")
            failed.setdefault(alike, [reason]).append(f"{index} of {task}" + (f" ({file})" if file else ""))
        progress("models", number, len(places))
    problems = [f"checkpoint {', '.join(which)} can not be used. {reason}" for reason, *which in failed.values()]
    return problems + counted_twice(models)


def _steps(context: Context, progress: Progress) -> list[str]:
    """Return a short episode, the signals on it, and one update, in every arm and task that differ in these."""
    done: dict[str, str] = {}
    pairs = [(arm, task) for arm in context.registration.arms for task in arm.tasks]
    for number, (arm, task) in enumerate(pairs, start=1):
        mechanism = context.mechanism(arm).model_copy(update={"steps": min(1, arm.mechanism.steps)})
        key = f"{task} {context.precision(task, arm)} {context.agent_plugin(task, arm)!r} {mechanism!r}"
        if key not in done:
            try:
                _take_step(context, arm, task)
            except Exception as error:
                reason = str(error) if isinstance(error, WorldforkError) else _described(error, context, task)
                raise WorldforkError(f"A step of {task} in arm `{arm.name}` fails. {reason}") from error
            done[key] = f"{task} in `{arm.name}`"
        progress("steps", number, len(pairs))
    return list(done.values())


def _described(error: Exception, context: Context, task: str) -> str:
    """Return an error of somebody's code with its place, and the sizes that it had to do with."""
    world, place = context.environment(task), place_of("".join(traceback.format_exception(error)))
    return (
        f"{type(error).__name__}: {error} ({place}). The world has "
        f"{plural(world.observation_size, 'observation')} and {plural(world.action_size, 'action')}."
    )


def _take_step(context: Context, arm: Arm, task: str) -> None:
    fork = short_episode(context, arm, task)
    loss = float(validation_losses(context, [fork])[0])
    read_signals(context, fork, level=0.0, validation_loss=loss)
    prepared_update(context, arm, task, fork.stream.recording, fork.k, steps=min(1, arm.mechanism.steps))()


SOME: Final = 4  # episodes that are looked at, of each checkpoint and level
MODELS: Final = 4  # checkpoints that they are of, at most


def count_ends(context: Context, task: str) -> str:
    """Describe how a few episodes end in the clean world and at the far end of the drift; "" for a world whose
    episodes do not end early."""
    if (after_end := context.after_end(task)) is None:
        return ""
    environment, indices = context.environment(task), context.registration.grid.checkpoints[:MODELS]
    event = Event(purpose=Purpose.INITIAL_STATE, task=task, direction="check")
    rolled = roll_out(
        context.agent(task),
        environment,
        arrays.concatenate([context.checkpoint(task, index).parameters for index in indices * 2]),
        Draws.of([event] * 2 * len(indices), np.arange(SOME)),
        levels=np.repeat([[0.0], [1.0]], len(indices), axis=0) * np.ones(environment.episode_steps),
        action_noise=0.0,
        trace=True,
        after_end=after_end,
    )
    assert rolled.trace is not None
    assert rolled.trace.ends is not None
    ends = rolled.trace.ends
    past = ~ends.real if after_end == "wait" else np.cumsum(ends.first, axis=2) > 1
    clean, far = (
        (int(half.any(axis=2).sum()), f"{half.mean():.0%}") for half in np.split(past, 2)
    )  # episodes that ended, and the share of steps past their end
    attempts = [half.sum() / (SOME * len(indices)) for half in np.split(ends.first, 2)]
    counts = (
        f"{task}: of {SOME * len(indices)} episodes {clean[0]} ended early in the clean world and {far[0]} at the "
        "far end of the drift. "
    )
    if after_end == "wait":
        return (
            f"{counts}Of their control steps {clean[1]} and {far[1]} lay past an end, where nothing is earned "
            "and nothing learned."
        )
    counts += f"They took {attempts[0]:.1f} and {attempts[1]:.1f} attempts each."
    if context.registration.tasks[task].after_end is not None:
        return counts
    return (
        f'{counts} No `after_end` is registered, so "reset" is in force: an episode begins anew after an end. With '
        'a reward for going on an end then costs next to nothing. after_end = "wait" would count what was earned '
        f"until the first end, and leave out {clean[1]} and {far[1]} of the control steps."
    )
