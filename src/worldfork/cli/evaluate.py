"""`worldfork evaluate`: what a checkpoint can do."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import typer

__all__ = ["evaluate"]


def evaluate(
    checkpoints: list[Path] = typer.Argument(help="Checkpoints (.safetensors) of one task."),
    level: float = typer.Option(0.0, min=0.0, max=1.0, help="Drift level: 0 is clean physics, 1 the full scale."),
    scale: float = typer.Option(1.0, min=0.0, help="What level 1 multiplies the drifting parameter by."),
    episodes: int = typer.Option(20, min=1, help="Episodes per checkpoint."),
    candidates: int | None = typer.Option(
        None, min=2, help="The planner's candidates, if not the checkpoint's own."
    ),
    horizon: int | None = typer.Option(None, min=1, help="Its horizon."),
    iterations: int | None = typer.Option(None, min=1, help="Its iterations."),
    setting: list[str] = typer.Option([], "--set", help="Any other of its settings, such as temperature=2.0."),
    precision: str = typer.Option("tf32", help="float32, tf32, fp16 or bf16."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads for physics; all of them by default."),
    video: Path | None = typer.Option(None, help="Also show the first checkpoint's first episode: .mp4 or .gif."),
    adopt: bool = typer.Option(
        False,
        "--adopt",
        help="Make this planner the checkpoints' own: gate and clean returns anew, on the recipe's episodes.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the returns as JSON."),
) -> None:
    """Roll checkpoints out with the planner alone, at a drift level that stands still.

    Example: worldfork evaluate checkpoints/walker-walk-0.safetensors --level 0.5 --scale 0.05
    """
    from worldfork.lab.determinism import pin_compiler

    pin_compiler()
    import json

    from rich.console import Console
    from rich.table import Table

    from worldfork.cli.filming import shoot
    from worldfork.errors import WorldforkError
    from worldfork.lab.agents.rssm_cem.adoption import adopt as adopt_planner
    from worldfork.lab.agents.rssm_cem.deployment import deploy, planner_settings
    from worldfork.lab.episodes import Film
    from worldfork.lab.episodes.standing import standing_returns

    if adopt and (level or video is not None):
        raise WorldforkError("--adopt measures clean returns: leave --level and --video out.")
    asked = {"candidates": candidates, "horizon": horizon, "iterations": iterations}
    search: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    search |= planner_settings(setting)
    deployed = deploy(checkpoints, precision=precision, scale=scale, threads=threads, **search)
    with ExitStack() as stack:
        film = camera = None
        if video is not None:
            from worldfork.lab.environments.rendering import Camera
            from worldfork.video import PLAIN, Panel, check_format

            check_format(video)
            film, camera = Film([0], episode=0), stack.enter_context(Camera(deployed.environment))
        said = f"{len(checkpoints) * episodes} episodes of {deployed.environment.name}"
        stack.enter_context(Console(stderr=True).status(said))
        if adopt:
            returns = adopt_planner(checkpoints, deployed)
        else:
            returns = standing_returns(
                deployed.agent,
                deployed.environment,
                deployed.parameters,
                checkpoints=deployed.names,
                episodes=episodes,
                occasion="evaluate",
                level=level,
                record=film,
            )
        if video is not None and film is not None and camera is not None:
            shoot(
                camera,
                video,
                [Panel(checkpoints[0].stem, PLAIN, film.returns[0])],
                [film.physics[0]],
                title=deployed.environment.name,
                captions=[f"level {level:.2f}"] * film.returns.shape[1],
            )
    if video is not None:
        typer.echo(f"{video}: {video.stat().st_size / 1000:.0f} kB.", err=True)
    if as_json:
        rows = dict(zip(map(str, checkpoints), returns.tolist(), strict=True))
        typer.echo(json.dumps({"task": deployed.environment.name, "level": level, "scale": scale, "returns": rows}))
        return
    table = Table(title=f"{deployed.environment.name} at level {level:g}: returns of {returns.shape[1]} episodes")
    for column in ("checkpoint", "mean", "sd", "min", "max"):
        table.add_column(column, justify="left" if column == "checkpoint" else "right")
    for path, mine in zip(checkpoints, returns, strict=True):
        spread = f"{mine.std(ddof=1):.1f}" if len(mine) > 1 else "-"
        table.add_row(path.stem, f"{mine.mean():.1f}", spread, f"{mine.min():.1f}", f"{mine.max():.1f}")
    Console().print(table)
