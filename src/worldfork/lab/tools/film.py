"""Episodes as videos, at the pace of the world: a replayed pair, UPDATE beside HOLD, or any states."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from worldfork.errors import WorldforkError
from worldfork.lab import replay
from worldfork.lab.forks.checkpoints import context_of
from worldfork.ledger.publish import WINDOWS, left_out
from worldfork.ledger.store import Study
from worldfork.progress import Progress, silent
from worldfork.registration.library import registrations

if TYPE_CHECKING:
    import numpy as np

    from worldfork.lab.environments.base import Environment
    from worldfork.lab.environments.rendering import Camera
    from worldfork.video import Panel


GIF_PACE: Final = 0.08  # seconds per frame at least: a GIF's frames are stored whole where the camera moves
Replayed = TypeVar("Replayed", replay.Replay, replay.DeploymentReplay)


def film_replay(
    study: Study,
    cell: str,
    *,
    k: int,
    episode: int = 1,
    video: Path | str | None = None,
    whole_block: bool | None = None,
    progress: Progress = silent,
) -> replay.Replay:
    """Run one matched episode of a study again in both branches, and write a `video` of it where one is named."""
    pair = replay.find_pair(study, cell, k=k, episode=episode)
    refuse_copies(study)
    context = context_of(study)
    return _filmed(
        lambda steps: replay.replay_pair(study, context, pair, whole_block=whole_block, progress=steps),
        context.environment(pair.cell.task),
        video,
        branches=lambda done: (("UPDATE", done.update), ("HOLD", done.hold)),
        title=pair.cell.id,
        moment=f"k = {k}, episode {episode}",
        progress=progress,
    )


def film_deployment(
    study: Study,
    cell: str,
    *,
    policy: str,
    k: int,
    video: Path | str | None = None,
    whole_batch: bool | None = None,
    progress: Progress = silent,
) -> replay.DeploymentReplay:
    """Run episode k of a deployment again, beside `never`'s, and write a `video` of it where one is named."""
    episode = replay.find_deployed(study, cell, policy=policy, k=k)
    refuse_copies(study)
    context = context_of(study)
    return _filmed(
        lambda steps: replay.replay_deployed(study, context, episode, whole_batch=whole_batch, progress=steps),
        context.environment(episode.cell.task),
        video,
        branches=lambda done: ((policy, done.policy), ("never", done.never)),
        title=episode.cell.id,
        moment=f"episode {k} of the deployment",
        progress=progress,
    )


def refuse_copies(study: Study) -> None:
    """Raise an error that says what a published copy lacks."""
    if WINDOWS in left_out(study):
        name = study.registration.name
        anew = f", or compute it anew: worldfork reproduce {name} -o FOLDER" if name in registrations() else ""
        raise WorldforkError(
            f"`{study.path}` is a published copy, without the models and recordings that an episode is replayed "
            f"from. Replay the study that it was made from{anew}."
        )


def _filmed(
    run: Callable[[Callable[[int, int], None]], Replayed],
    environment: "Environment",
    video: Path | str | None,
    *,
    branches: Callable[[Replayed], Sequence[tuple[str, replay.Branch]]],
    title: str,
    moment: str,
    progress: Progress,
) -> Replayed:
    """Replay, and write the video if one is wanted."""

    def steps(done: int, total: int) -> None:
        progress("steps", done, total)

    if video is None:
        return run(steps)
    from worldfork.lab.environments.rendering import Camera
    from worldfork.video import HOLD, UPDATE, Panel, check_format

    path = Path(video)
    check_format(path)  # here, as the camera: whatever keeps it from being written is said before the episode runs
    with Camera(environment) as camera:
        replayed = run(steps)
        shown = branches(replayed)
        colours = (UPDATE, HOLD)
        panels = [Panel(name, each, branch.returns) for (name, branch), each in zip(shown, colours, strict=True)]
        shoot(
            camera,
            path,
            panels,
            [branch.physics for _, branch in shown],
            title=title,
            captions=[f"{moment}, drift level {level:.2f}" for level in replayed.levels],
            progress=lambda done, total: progress("frames", done, total),
        )
    return replayed


def shoot(
    camera: "Camera",
    path: Path,
    panels: Sequence["Panel"],
    physics: Sequence["np.ndarray"],
    *,
    title: str,
    captions: Sequence[str],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write the episode to `path`: panel i shows the states `physics[i]`, a frame per control step.

    In a GIF, where steps are short, there is a frame per few of them. The last moment is always shown.
    """
    from worldfork.video import frames, write

    gif = path.suffix.lower() == ".gif"
    stride = max(1, round(GIF_PACE / camera.seconds_per_step)) if gif else 1
    moments = [*range(0, len(captions) - 1, stride), len(captions) - 1]

    def pictures() -> Iterator[list["np.ndarray"]]:
        for done, moment in enumerate(moments, start=1):
            yield [camera.picture(states[moment]) for states in physics]
            progress(done, len(moments))

    shown = [dataclasses.replace(panel, returns=panel.returns[moments]) for panel in panels]
    film = frames(shown, pictures(), title=title, captions=[captions[moment] for moment in moments])
    write(path, film, seconds=stride * camera.seconds_per_step)
