"""`worldfork evaluate`: what a checkpoint can do."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from worldfork.cli import options
from worldfork.counting import plural

if TYPE_CHECKING:
    from worldfork.lab.tools.evaluation import LoadedAgent


def evaluate(
    checkpoints: options.Checkpoints,
    level: float = typer.Option(0.0, min=0.0, max=1.0, help="Drift level: 0 is clean physics, 1 the full scale."),
    scale: float | None = typer.Option(None, min=0.0, help="What level 1 multiplies the drifting parameter by."),
    episodes: int = typer.Option(20, min=1, help="Episodes per checkpoint."),
    setting: list[str] = typer.Option(
        [], "--set", help="NAME=VALUE: a setting of the planner, such as iterations=2. Repeat it for several."
    ),
    precision: options.Precision = "tf32",
    threads: options.Threads = None,
    video: Path | None = typer.Option(None, help="Also show the first checkpoint's first episode: .mp4 or .gif."),
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Roll checkpoints out with the planner alone, at a drift level that stands still.

    Example: worldfork evaluate bundled:cartpole-swingup-0 --level 0.5 --scale 1.75
    """
    from rich.console import Console

    from worldfork.errors import WorldforkError
    from worldfork.lab.tools.evaluation import load_agent

    if level and scale is None:
        raise WorldforkError(
            f"--level {level:g} is a share of a drift whose end is not given: add --scale, what level 1 multiplies "
            "the drifting parameter by, such as --scale 1.75."
        )
    planner = options.settings_of(setting)
    scale = 1.0 if scale is None else scale
    loaded = load_agent(checkpoints, precision=precision, scale=scale, threads=threads, planner=planner)
    task = loaded.environment.name
    with Console(stderr=True, quiet=quiet or as_json).status(
        f"{plural(len(checkpoints) * episodes, 'episode')} of {task}"
    ):
        returns = _returns(loaded, level=level, episodes=episodes, video=video)
    if video is not None:
        typer.echo(f"{video}: {video.stat().st_size / 1000:.0f} kB.", err=True)
    if as_json:
        rows = dict(zip(checkpoints, returns.tolist(), strict=True))
        options.print_json({"task": task, "level": level, "scale": scale, "returns": rows})
    else:
        _show(f"{task} at level {level:g}", [path.stem for path in loaded.paths], returns)


def _returns(loaded: "LoadedAgent", *, level: float, episodes: int, video: Path | None) -> Any:
    """Returns of every checkpoint; the first one's first episode goes into the video, if one is wanted."""
    from worldfork.lab.episode_log import Film
    from worldfork.lab.tools.film import shoot

    with ExitStack() as stack:
        film = camera = None
        if video is not None:
            from worldfork.lab.environments.rendering import Camera
            from worldfork.video import PLAIN, Panel, check_format

            check_format(video)
            film, camera = Film([0], episode=0), stack.enter_context(Camera(loaded.environment))
        returns = loaded.returns("evaluate", episodes=episodes, level=level, record=film)
        if video is not None and film is not None and camera is not None:
            shoot(
                camera,
                video,
                [Panel(loaded.paths[0].stem, PLAIN, film.returns[0])],
                [film.physics[0]],
                title=loaded.environment.name,
                captions=[f"drift level {level:.2f}"] * film.returns.shape[1],
            )
    return returns


def _show(title: str, names: list[str], returns: Any) -> None:
    rows = []
    for name, row in zip(names, returns, strict=True):
        spread = f"{row.std(ddof=1):.1f}" if len(row) > 1 else "-"
        rows.append((name, f"{row.mean():.1f}", spread, f"{row.min():.1f}", f"{row.max():.1f}"))
    columns = ("checkpoint", "mean", "sd", "min", "max")
    options.print_table(f"{title}: returns of {plural(returns.shape[1], 'episode')}", columns, rows)
