"""`worldfork check`: what a registration says, before it costs anything."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from worldfork.cli import options
from worldfork.counting import plural

if TYPE_CHECKING:
    from worldfork.analysis.score.power import Power, Recommendation
    from worldfork.analysis.score.variance import Split
    from worldfork.lab.tools.check import Check
    from worldfork.registration import Registration


def check(
    registration: options.Registration,
    cells: bool = typer.Option(False, "--cells", help="List every cell."),
    step: bool = typer.Option(
        True, help="Take a real step in every task and arm; it compiles, so it takes a while."
    ),
    measure: bool = typer.Option(
        False, "--measure", help="Time a few steps here and estimate how long a run takes."
    ),
    probe: bool = typer.Option(
        False, "--probe", help="Compute one small block here and in another process: does it come out the same?"
    ),
    like: Path | None = typer.Option(None, help="Take variances for the power estimate from this study or table."),
    cost: str | None = typer.Option(
        None,
        help="What each costs, in one unit: checkpoint=600,draw=0.1,episode=0.05. Says which design is "
        "the cheapest for its precision. Default: the clocks of the study that --like names.",
    ),
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Validate a registration: build all it names and take a step; say what it costs and what it could detect.

    Example: worldfork check demo --measure --like results/demo

    Exit code 0: it can run. 1: something is missing, or the probe failed. 2: it is not a valid registration.
    """
    import worldfork as wf
    from worldfork.errors import WorldforkError
    from worldfork.progress import bars

    if like is not None and not like.exists() and not like.with_name(f"{like.name}.tar.xz").exists():
        raise WorldforkError(f"--like: there is no `{like}`.")  # said before the step, which takes a while
    prices = None if cost is None else _costs(cost)
    with bars(quiet=quiet or as_json) as progress:
        checked = wf.check(registration, step=step, measure=measure, probe=probe, progress=progress)
    power = wf.power(checked.registration, like=like, cost=prices)
    if as_json:
        options.print_json(_plain(checked, power))
    else:
        _show(checked, power, given=registration, list_cells=cells, like=like)
    if not checked.ready:
        raise typer.Exit(1)


def _costs(text: str) -> dict[str, float]:
    from worldfork.errors import WorldforkError

    try:
        return {name.strip(): float(value) for name, value in (part.split("=") for part in text.split(","))}
    except ValueError as error:
        raise WorldforkError(f"--cost takes checkpoint=600,draw=0.1,episode=0.05; got `{text}`.") from error


def _plain(checked: "Check", power: "list[Power]") -> dict[str, object]:
    import dataclasses

    return {
        "schema": "worldfork.check/2",
        "name": checked.registration.name,
        "digest": checked.registration.digest,
        "cells": checked.cells,
        "mechanisms": checked.mechanisms,
        "outside_code": checked.outside,
        "changes_nothing": checked.idle,
        "missing": checked.missing,
        "stepped": checked.stepped,
        **({"ends": checked.ends} if checked.ends else {}),
        "probe": checked.trial and {**dataclasses.asdict(checked.trial), "passed": checked.trial.passed},
        "work": [dataclasses.asdict(counted) for counted in checked.work],
        "deployments": [dataclasses.asdict(counted) for counted in checked.deployments],
        "deployment_seconds": list(checked.deployment_seconds),
        "seconds": [{**dataclasses.asdict(spent), "total": spent.total} for spent in checked.seconds],
        "power": [{**dataclasses.asdict(planned), "buys_most": planned.buys_most} for planned in power],
    }


def _stopping_words(registration: "Registration") -> str:
    """Return when a study may stop, and what the counts below then are."""
    stopping = registration.stopping
    assert stopping is not None, "a study without [stopping] does not stop"
    then = "every further one" if stopping.step == 1 else f"every {stopping.step} more"
    asked, budget = len(stopping.questions), len(registration.grid.checkpoints)
    return (
        f"{plural(asked, 'question')}, null {stopping.null}: a look after {stopping.first_look} of "
        f"{plural(budget, 'checkpoint')} and after {then}. The work below is that of all of them."
    )


def _trial_words(registration: "Registration") -> str:
    """Return the policies that try their updates, and for how long."""
    assert registration.deployment is not None, "no policy is registered"
    tried = {name: policy.trial for name, policy in registration.deployment.policies.items() if policy.trial}
    return ", ".join(f"`{name}` tries each update for {plural(n, 'episode')}" for name, n in sorted(tried.items()))


def _duration(seconds: float) -> str:
    """Return seconds in words that promise no more than an estimate can."""
    if seconds < 90:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} minutes" if seconds < 5400 else f"{seconds / 3600:,.1f} hours"


def _size(split: "Split") -> str:
    return (
        f"{plural(int(split.checkpoints), 'checkpoint')} x {plural(int(split.forks), 'fork')} x "
        f"{plural(int(split.draws), 'draw')} x {plural(int(split.episodes), 'episode')}"
    )


def _design_words(found: "Recommendation", *, deployments: int) -> list[str]:
    """Return what the registered design costs, and which one is as good for less."""
    cost, points = found.cost, max(1, round(found.best_forks / deployments))
    saved = f"{found.wasted:.0%} of the registered price buys nothing" if found.wasted else "nothing is wasted"
    return [
        f"a checkpoint costs {cost.checkpoint:.3g} to train, the stream of a fork {cost.stream:.2g}, an update "
        f"{cost.draw:.2g}, an episode {cost.episode:.2g}. Registered, {_size(found.registered)}: an interval "
        f"{found.width:.3g} wide for {found.price:,.0f}.",
        f"about {found.best_forks:.0f} forks a checkpoint are best ({plural(points, 'decision point')} in each of "
        f"{plural(deployments, 'deployment')}); as narrow for {found.price_cheapest:,.0f}: "
        f"{_size(found.cheapest)}. {saved}.",
    ]


def _show(checked: "Check", power: "list[Power]", *, given: str, list_cells: bool, like: Path | None) -> None:
    registered = checked.registration
    typer.echo(f"{registered.name}: {plural(len(checked.cells), 'cell')}, digest {registered.digest[:16]}")
    for cell in checked.cells if list_cells else ():
        typer.echo(f"  {cell}")
    for line in checked.mechanisms:
        typer.echo(f"arm   {line}")
    for line in (*checked.missing, *checked.idle, *checked.ends):
        typer.echo(f"note  {line}")
    for line in checked.outside:
        typer.echo(f"code  {line}")
    if checked.stepped:
        typer.echo(f"step  a stream, an update and an evaluation work: {', '.join(checked.stepped)}")
    if checked.trial:
        typer.echo(f"probe {checked.trial}")
    if registered.stopping is not None:
        typer.echo(f"stop  {_stopping_words(registered)}")
    arm_width = max([22, *(len(work.arm) + 2 for work in checked.work)])
    task_width = max([20, *(len(work.task) + 2 for work in checked.work)])
    header = f"{'forks':>7}{'gradient steps':>16}{'episodes':>10}{'control steps':>15}"
    typer.echo(f"\n{'arm':<{arm_width}}{'task':<{task_width}}{header}")
    for work in checked.work:
        steps = work.evaluation_steps + work.stream_steps
        line = f"{work.updates:>7,}{work.gradient_steps:>16,}{work.evaluation_episodes:>10,}{steps:>15,}"
        typer.echo(f"{work.arm:<{arm_width}}{work.task:<{task_width}}{line}")
    for counted in checked.deployments:
        typer.echo(
            f"follow {counted.task}: {plural(counted.policies, 'policy', 'policies')} x "
            f"{plural(counted.cells, 'cell')} x {plural(counted.segments, 'segment')}, "
            f"{plural(counted.sets, 'parameter set')} at a time; "
            f"{plural(counted.own_episodes, 'episode')} of their own, "
            f"{counted.evaluation_episodes:,} of evaluation, at most {plural(counted.most_updates, 'update')} "
            f"({plural(counted.most_gradient_steps, 'gradient step')})"
        )
        if counted.tried_sets:
            typer.echo(
                f"trial {counted.task}: {_trial_words(registered)}; an episode of a trial is simulated "
                f"twice: at most {plural(counted.most_trial_episodes, 'episode')} more"
            )
    for counted, took in zip(checked.deployments, checked.deployment_seconds, strict=False):
        listed = ", ".join(f"{name} {value:,.0f} s" for name, value in took.items())
        typer.echo(f"time  following, {counted.task}: at most {sum(took.values()):,.0f} s ({listed})")
    for spent in checked.seconds:
        parts = {"streams": spent.streams, "updates": spent.updates, "evaluations": spent.evaluations}
        listed = ", ".join(f"{name} {value:,.0f} s" for name, value in parts.items())
        timed = f"timed at {', '.join(map(str, spent.episodes))} parallel episodes"
        typer.echo(f"time  {spent.arm}, {spent.task}: {spent.total:,.0f} s ({listed}; {timed})")
    if checked.seconds:
        whole = sum(spent.total for spent in checked.seconds)
        whole += sum(sum(took.values()) for took in checked.deployment_seconds)
        typer.echo(f"time  all: about {_duration(whole)} here with one worker, without compilation")
    elif checked.ready:
        typer.echo("time  not estimated: --measure times a few steps")
    if checked.probed and checked.trial is None:
        typer.echo(
            f"probe a new run first tries {', '.join(checked.probed)} on one small block, several times, which is "
            "not in the time above (--no-probe leaves it out)"
        )
    for planned in power:
        doubled = ", ".join(f"{axis} {value:.3g}" for axis, value in planned.at_double.items())
        typer.echo(
            f"power {planned.arm}, {planned.task}: detects |dR| >= {planned.detectable:.3g} at 80% power; with "
            f"twice the {doubled}. More {planned.buys_most} buy most."
        )
        if planned.resolves is not None:
            looking = (
                f", {planned.resolves_anytime} where every one is looked at" if planned.resolves_anytime else ""
            )
            typer.echo(
                f"power {planned.arm}, {planned.task}: the earlier mean and spread would be resolved with "
                f"{plural(planned.resolves, 'checkpoint')}{looking}."
            )
        if planned.recommended is not None:
            deployments = len(registered.grid.directions) * len(registered.arm(planned.arm).stream_seeds)
            for words in _design_words(planned.recommended, deployments=deployments):
                typer.echo(f"design {planned.arm}, {planned.task}: {words}")
    if not power:
        if like is None:
            why = "Give an earlier ledger with --like, or register a guess: [guess.TASK]."
        else:
            tasks = ", ".join(registered.tasks)
            why = f"`{like}` has no forks of {tasks} to learn it from: give another, or register a guess."
        typer.echo(f"power: not estimated. {why}")
    if checked.ready:
        typer.secho(f"\nIt can run: worldfork run {given} -o runs/{registered.name}", bold=True)
    else:
        typer.secho("\nIt can not run yet: see the notes above.", bold=True)
