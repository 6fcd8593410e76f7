"""Frames into a file: MP4 (H.264, plays anywhere) or GIF (plays in a README). Both encoders come as wheels."""

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import UInt8

from worldfork.errors import WorldforkError
from worldfork.ledger import files

__all__ = ["FORMATS", "check_format", "write"]

Frames = Iterable[UInt8[np.ndarray, "H W 3"]]

GIF_COLOURS: Final = 32  # the suite's worlds are plain: more spell out shading, at up to half the size again
LAST_FRAME: Final = 2.0  # seconds a GIF rests on its end, where the returns are read


def write(path: Path, frames: Frames, *, seconds: float) -> None:
    """Write frames that last `seconds` each, whole or not at all; the ending of `path` says how."""
    encode = FORMATS[check_format(path)]
    buffer = io.BytesIO()
    encode(buffer, frames, seconds)
    files.replace(path, buffer.getvalue())


def check_format(path: Path) -> str:
    """The ending of `path`, or an error that says which ones there are, before hours are spent on frames."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise WorldforkError(f"A video is a {' or '.join(FORMATS)} file; `{path}` is neither.")
    if not path.parent.is_dir():
        raise WorldforkError(f"There is no folder `{path.parent}` to put `{path.name}` into.")
    return ending


def _mp4(buffer: io.BytesIO, frames: Frames, seconds: float) -> None:
    import fractions

    import av

    rate = fractions.Fraction(1 / seconds).limit_denominator(1_000)
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": "26", "preset": "slow"})
        stream.pix_fmt = "yuv420p"  # what every player can play
        for number, frame in enumerate(frames):
            if number == 0:
                stream.height, stream.width = frame.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def _gif(buffer: io.BytesIO, frames: Frames, seconds: float) -> None:
    from PIL import Image

    def quantised() -> Iterator[Image.Image]:
        """The first frame's palette for all, undithered: what does not move then costs nothing."""
        palette: Image.Image | None = None
        for frame in frames:
            picture = Image.fromarray(frame)
            if palette is None:
                # Octree keeps rare colours, such as those of the curves; median cut averages them away.
                palette = picture.quantize(GIF_COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
            yield picture.quantize(palette=palette, dither=Image.Dither.NONE)

    first, *rest = quantised()
    each = round(1_000 * seconds)
    durations = [each] * len(rest) + [round(1_000 * LAST_FRAME)]
    first.save(buffer, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)


FORMATS: Final[dict[str, Callable[[io.BytesIO, Frames, float], None]]] = {".mp4": _mp4, ".gif": _gif}
