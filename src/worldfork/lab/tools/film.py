"""Episodes as videos, at the pace of the world: a replayed pair, UPDATE beside HOLD, or any states."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from worldfork.errors import WorldforkError
from worldfork.lab.forks.checkpoints import context_of
from worldfork.lab.replay import (
    DeployedEpisode,
    Pair,
    Replay,
    find_deployed,
    find_pair,
    replay_deployed,
    replay_pair,
)
from worldfork.ledger.publish import RECORDINGS, left_out
from worldfork.ledger.store import Study
from worldfork.progress import Progress, shows_progress, silent
from worldfork.registration.library import registrations

if TYPE_CHECKING:
    import numpy as np

    from worldfork.lab.environments.rendering import Camera
    from worldfork.video import Panel


GIF_PACE: Final = 0.08  # seconds per frame at least: a GIF's frames are stored whole where the camera moves


@shows_progress
def replay(
    study: Study | Path | str,
    cell: str,
    *,
    k: int,
    episode: int = 1,
    policy: str | None = None,
    video: Path | str | None = None,
    whole_block: bool | None = None,
    progress: Progress | None = None,
) -> Replay:
    """Run one matched episode again in both branches, from the ledger.

    Args:
        study: a study, or its folder.
        cell: a cell's id, as the ledger and the page name it.
        k: the decision point, from 1.
        episode: which of its matched episodes, from 1.
        policy: replay episode k of this policy's deployment instead, beside that of never.
        video: also show it: an .mp4 or .gif file.
        whole_block: rebuild the ledger's whole block, or run the pair alone; by default what the digits need.
        progress: called with (what, done, total); by default bars in a terminal or notebook.

    >>> import worldfork as wf
    >>> wf.replay("runs/demo", "demo-cartpole-swingup-c0-away-s0", k=6, video="pair.gif")  # doctest: +SKIP
    """
    study = study if isinstance(study, Study) else Study(study)
    show = progress or silent
    found: Pair | DeployedEpisode
    if policy is None:
        found, moment = find_pair(study, cell, k=k, episode=episode), f"k = {k}, episode {episode}"
    else:
        found = find_deployed(study, cell, policy=policy, k=k)
        moment = f"episode {k} of the deployment"
    refuse_copies(study)
    context = context_of(study)

    def run() -> Replay:
        if isinstance(found, Pair):
            return replay_pair(study, context, found, whole_block=whole_block, progress=show)
        return replay_deployed(study, context, found, whole_block=whole_block, progress=show)

    if video is None:
        return run()
    from worldfork.lab.environments.rendering import Camera
    from worldfork.video import HOLD, UPDATE, Panel, check_format

    path = Path(video)
    check_format(path)  # here, as the camera: whatever keeps it from being written is said before the episode runs
    with Camera(context.environment(found.cell.task)) as camera:
        replayed = run()
        names = {"update": "UPDATE", "hold": "HOLD"}
        panels = [
            Panel(names.get(name, name), colour, branch.returns)
            for (name, branch), colour in zip(replayed.branches.items(), (UPDATE, HOLD), strict=False)
        ]
        shoot(
            camera,
            path,
            panels,
            [branch.physics for branch in replayed.branches.values()],
            title=found.cell.id,
            captions=[f"{moment}, drift level {level:.2f}" for level in replayed.levels],
            progress=functools.partial(show, "frames"),
        )
    return replayed


def refuse_copies(study: Study) -> None:
    """Raise an error that says what a published copy lacks."""
    if RECORDINGS in left_out(study):
        name = study.registration.name
        anew = f", or compute it anew: worldfork reproduce {name} -o FOLDER" if name in registrations() else ""
        raise WorldforkError(
            f"`{study.path}` is a published copy, without the models and recordings that an episode is replayed "
            f"from. Replay the study that it was made from{anew}."
        )


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
