"""From the states of an episode to a video file, at the pace of the world: what `replay` and `evaluate` share."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from worldfork.lab.environments.rendering import Camera
    from worldfork.video import Panel

__all__ = ["shoot"]

GIF_PACE = 0.08  # seconds per frame at least: a GIF's frames are stored whole where the camera moves


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
    import dataclasses

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
