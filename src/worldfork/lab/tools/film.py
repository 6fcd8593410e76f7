"""Episodes as videos, at the pace of the world: a replayed pair, UPDATE beside HOLD, or any states."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from worldfork.errors import WorldforkError
from worldfork.lab.deployments import replay as followed
from worldfork.lab.forks import replay as again
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.models import context_of
from worldfork.ledger.publish import leaves_windows_out
from worldfork.ledger.store import Study
from worldfork.progress import Progress, silent
from worldfork.registration.library import registrations

if TYPE_CHECKING:
    import numpy as np

    from worldfork.lab.environments.rendering import Camera
    from worldfork.video import Panel

__all__ = ["film_deployment", "film_replay", "refuse_copies", "shoot"]

GIF_PACE: Final = 0.08  # seconds per frame at least: a GIF's frames are stored whole where the camera moves


def film_replay(
    study: Study,
    cell: str,
    *,
    k: int,
    episode: int = 1,
    video: Path | str | None = None,
    whole_block: bool | None = None,
    progress: Progress = silent,
) -> again.Replay:
    """Run one matched episode of a study again in both branches, and show it where a `video` is named."""
    pair = again.find(study, cell, k=k, episode=episode)
    refuse_copies(study)
    context = context_of(study)

    def run() -> again.Replay:
        return again.replay(
            study,
            context,
            pair,
            whole_block=whole_block,
            progress=lambda done, total: progress("steps", done, total),
        )

    return run() if video is None else _filmed(run, context, pair, Path(video), progress=progress)


def film_deployment(
    study: Study,
    cell: str,
    *,
    policy: str,
    k: int,
    video: Path | str | None = None,
    whole_batch: bool | None = None,
    progress: Progress = silent,
) -> followed.FollowedReplay:
    """Run episode k of a deployment again, beside that of never, and show it where a `video` is named."""
    moment = followed.find_episode(study, cell, policy=policy, k=k)
    refuse_copies(study)
    context = context_of(study)

    def run() -> followed.FollowedReplay:
        return followed.replay_episode(
            study,
            context,
            moment,
            whole_batch=whole_batch,
            progress=lambda done, total: progress("steps", done, total),
        )

    if video is None:
        return run()
    from worldfork.lab.environments.rendering import Camera
    from worldfork.video import HOLD, UPDATE, Panel, check_format

    check_format(Path(video))
    with Camera(context.environment(moment.cell.task)) as camera:
        shown = run()
        shoot(
            camera,
            Path(video),
            [Panel(policy, UPDATE, shown.policy.returns), Panel("never", HOLD, shown.never.returns)],
            [shown.policy.physics, shown.never.physics],
            title=moment.cell.id,
            captions=[f"episode {k} of the deployment, drift level {level:.2f}" for level in shown.levels],
            progress=lambda done, total: progress("frames", done, total),
        )
    return shown


def refuse_copies(study: Study) -> None:
    """Say of a published copy what it lacks."""
    if leaves_windows_out(study):
        name = study.registration.name
        anew = f", or compute it anew: worldfork reproduce {name} -o FOLDER" if name in registrations() else ""
        raise WorldforkError(
            f"`{study.path}` is a published copy, without the models and recordings that an episode is replayed "
            f"from. Replay the study that it was made from{anew}."
        )


def _filmed(
    run: Callable[[], again.Replay], context: Context, pair: again.Pair, path: Path, *, progress: Progress
) -> again.Replay:
    """Replay and write the video; whatever keeps it from being written is said before the episode is run."""
    from worldfork.lab.environments.rendering import Camera
    from worldfork.video import HOLD, UPDATE, Panel, check_format

    check_format(path)
    with Camera(context.environment(pair.cell.task)) as camera:
        shown = run()
        shoot(
            camera,
            path,
            [Panel("UPDATE", UPDATE, shown.update.returns), Panel("HOLD", HOLD, shown.hold.returns)],
            [shown.update.physics, shown.hold.physics],
            title=pair.cell.id,
            captions=[
                f"k = {pair.row.k}, episode {pair.episode}, drift level {level:.2f}" for level in shown.levels
            ],
            progress=lambda done, total: progress("frames", done, total),
        )
    return shown


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
    """Write the episode to `path`: panel i shows the states `physics[i]`, a frame per control step; in a GIF,
    where steps are short, per few of them. The last moment is always shown."""
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
