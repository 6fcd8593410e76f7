"""`worldfork check`: what a registration says, before it costs anything."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from worldfork.lab.forks.context import Context
    from worldfork.registration import Registration

__all__ = ["check"]


def check(
    registration: str = typer.Argument(help="A registration's file, or the name of one that comes with worldfork."),
    cells: bool = typer.Option(False, "--cells", help="List every cell."),
    measure: bool = typer.Option(
        False, "--measure", help="Time a few steps here and estimate how long a run takes."
    ),
    like: Path | None = typer.Option(None, help="Take variances for the power estimate from this study or table."),
    as_json: bool = typer.Option(False, "--json", help="Everything, for a program."),
) -> None:
    """Validate a registration; say what never binds, what it costs, and what effect it could detect.

    Example: worldfork check dose --measure --like runs/corrected

    Exit code 0: it can run. 1: something it needs is missing. 2: it is not a valid registration.
    """
    import dataclasses
    import json

    from worldfork.cli.progress import bars
    from worldfork.lab.forks.context import Context
    from worldfork.lab.tools import cost
    from worldfork.registration import cells as cells_of
    from worldfork.registration import read
    from worldfork.registration.advice import never_binds
    from worldfork.registration.library import find

    path = find(registration)
    registered = read(path)
    context = Context(registered, {})
    units = {task: context.environment(task) for arm in registered.arms for task in arm.tasks}
    for arm in registered.arms:
        context.mechanism(arm)
        for task in arm.tasks:
            context.agent(task, arm)
    missing = _missing(registered, path.parent)
    grid = cells_of(registered)
    counts = cost.count(context)
    notes = never_binds(
        registered, {task: (u.episode_steps, u.episode_steps * u.action_repeat) for task, u in units.items()}
    )
    times: list[dict[str, Any]] = []
    if measure and not missing:
        with bars(quiet=as_json) as report:
            times = _times(context, path.parent, counts, report)
    found = {
        "schema": "worldfork.check/1",
        "name": registered.name,
        "digest": registered.digest,
        "cells": [cell.id for cell in grid],
        "never_binds": notes,
        "missing": missing,
        "work": [dataclasses.asdict(counted) for counted in counts],
        "seconds": times,
        "power": _power(registered, like),
    }
    print(json.dumps(found)) if as_json else _show(found, list_cells=cells)
    if missing:
        raise typer.Exit(1)


def _missing(registered: "Registration", root: Path) -> list[str]:
    """Checkpoints that are registered and not there."""
    from worldfork.lab.forks.context import checkpoint_source

    tasks = sorted({task for arm in registered.arms for task in arm.tasks})
    sources = [
        checkpoint_source(registered, task, index, root=root)
        for task in tasks
        for index in registered.grid.checkpoints
    ]
    absent = [source for source in sources if source is not None and not source.exists()]
    if not absent:
        return []
    return [f"{len(absent)} of {len(sources)} checkpoints are not there; the first is `{absent[0].resolve()}`."]


def _times(context: "Context", root: Path, counts: list[Any], progress: Any) -> list[dict[str, Any]]:
    """Seconds of every arm and task, from steps that are timed here and now."""
    from worldfork.lab.forks.context import Context
    from worldfork.lab.run import checkpoint_files
    from worldfork.lab.tools import cost

    times = []
    models = checkpoint_files(context.registration, root=root, copies=root)
    context = Context(context.registration, {place: files[0] for place, files in models.items()})
    for number, counted in enumerate(counts, start=1):
        arm = context.registration.arm(counted.arm)
        timing = cost.measure(context, arm, counted.task)
        spent = cost.seconds(
            counted,
            timing,
            episodes_per_block=2 * context.registration.execution.forks_per_block * arm.evaluation.episodes,
            episode_steps=context.environment(counted.task).episode_steps,
        )
        times.append({"arm": counted.arm, "task": counted.task, **spent, "calibrated_at": list(timing.episodes)})
        progress("timing", number, len(counts))
    return times


def _power(registered: "Registration", like: Path | None) -> list[dict[str, Any]]:
    """The minimum detectable effect of each arm and task, and where doubling the budget would help most."""
    import dataclasses

    from worldfork.desk.scoring.power import Design, design_components, minimum_detectable_effect
    from worldfork.desk.scoring.undefined import Undefined

    known: dict[str, dict[str, float]] = {
        task: {name: value**2 for name, value in guess.model_dump().items()}
        for task, guess in registered.guess.items()
    }
    if like is not None:
        from worldfork.desk.reading import open_ledger

        for tasks in reversed(list(open_ledger(like).table.arms.values())):
            for task, forks in tasks.items():
                variances = design_components(forks).traded()
                if not isinstance(variances, Undefined):
                    known[task] = variances
    lines = []
    for arm in registered.arms:
        for task in (task for task in arm.tasks if task in known and len(registered.grid.checkpoints) > 1):
            streams = len(registered.grid.directions) * len(arm.stream_seeds)
            count, m = float(streams * arm.stream.decision_points), float(arm.evaluation.episodes)
            now = Design(len(registered.grid.checkpoints), count, m)
            doubled = {
                name: minimum_detectable_effect(
                    dataclasses.replace(now, **{name: 2 * getattr(now, name)}), **known[task]
                )
                for name in ("checkpoints", "forks", "episodes")
            }
            mde = minimum_detectable_effect(now, **known[task])
            best = min(doubled, key=lambda name: doubled[name])
            lines.append({"arm": arm.name, "task": task, "mde": mde, "mde_at_double": doubled, "buys_most": best})
    return lines


def _show(found: dict[str, Any], *, list_cells: bool) -> None:
    typer.echo(f"{found['name']}: {len(found['cells'])} cells, digest {found['digest'][:16]}")
    for cell in found["cells"] if list_cells else []:
        typer.echo(f"  {cell}")
    for note in (*found["missing"], *found["never_binds"]):
        typer.echo(f"note  {note}")
    typer.echo(f"\n{'arm':<22}{'task':<20}{'forks':>7}{'gradient steps':>16}{'episodes':>10}{'control steps':>15}")
    for work in found["work"]:
        steps = work["evaluation_steps"] + work["stream_steps"]
        line = f"{work['updates']:>7,}{work['gradient_steps']:>16,}{work['evaluation_episodes']:>10,}{steps:>15,}"
        typer.echo(f"{work['arm']:<22}{work['task']:<20}{line}")
    for spent in found["seconds"]:
        parts = {name: spent[name] for name in ("streams", "updates", "evaluations")}
        said = ", ".join(f"{name} {value:,.0f} s" for name, value in parts.items())
        measured = f"timed at {', '.join(map(str, spent['calibrated_at']))} parallel episodes"
        typer.echo(f"time  {spent['arm']}, {spent['task']}: {sum(parts.values()):,.0f} s ({said}; {measured})")
    if found["seconds"]:
        total = sum(spent[name] for spent in found["seconds"] for name in ("streams", "updates", "evaluations"))
        typer.echo(f"time  all: {total:,.0f} s here, without compilation")
    for line in found["power"]:
        doubled = ", ".join(f"{name} {value:.3g}" for name, value in line["mde_at_double"].items())
        typer.echo(
            f"power {line['arm']}, {line['task']}: detects |dR| >= {line['mde']:.3g} at 80% power; with twice the "
            f"{doubled}. More {line['buys_most']} buy most."
        )
    if not found["power"]:
        typer.echo("power: not estimated. Give an earlier ledger with --like, or register a guess: [guess.TASK].")
