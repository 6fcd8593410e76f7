"""Frames into a file: MP4 (H.264, plays anywhere) or GIF (plays in a README). Both encoders come as wheels."""

import dataclasses
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Float64, UInt8
from PIL import Image, ImageDraw, ImageFont

from worldfork.errors import WorldforkError
from worldfork.ledger import files

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
    """Return the ending of `path`, or an error that says which ones there are, before hours are spent on frames."""
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
        """Return the first frame's palette for all, undithered: what does not move then costs nothing."""
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


Colour = tuple[int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
# Neither orange nor blue: on the page these say that an update hurt or helped.
UPDATE: Final[Colour] = (190, 160, 255)
HOLD: Final[Colour] = (98, 205, 180)
PLAIN: Final[Colour] = (140, 220, 150)
INK: Final[Colour] = (235, 238, 242)
SOFT: Final[Colour] = (163, 170, 180)
FAINT: Final[Colour] = (70, 78, 90)
PAPER: Final[Colour] = (20, 24, 31)
HEADER, FOOTER, MARGIN = 32, 104, 10
LEFT, RIGHT = 46, 104  # beside the curves: the axis, and what each branch has returned


@dataclasses.dataclass(frozen=True)
class Panel:
    """A branch: its name, its colour, and the return up to each moment."""

    name: str
    colour: Colour
    returns: Float64[np.ndarray, " moments"]


def frames(
    panels: Sequence[Panel],
    pictures: Iterator[Sequence[UInt8[np.ndarray, "H W 3"]]],
    *,
    title: str,
    captions: Sequence[str],
) -> Iterator[UInt8[np.ndarray, "height width 3"]]:
    """Yield a frame per moment: `pictures` yields a picture per panel; `captions` says what holds at that
    moment."""
    title_font, label_font, small_font = (ImageFont.load_default(size=size) for size in (14, 16, 12))
    for moment, shown in enumerate(pictures):
        height, width = shown[0].shape[:2]
        canvas = Image.new("RGB", (width * len(panels), HEADER + height + FOOTER), PAPER)
        draw = ImageDraw.Draw(canvas)
        draw.text((MARGIN, HEADER // 2), title, INK, title_font, anchor="lm")
        draw.text((canvas.width - MARGIN, HEADER // 2), captions[moment], INK, title_font, anchor="rm")
        for index, (panel, picture) in enumerate(zip(panels, shown, strict=True)):
            left = index * width
            canvas.paste(Image.fromarray(picture), (left, HEADER))
            # A plate under the words: they stay legible whatever the world looks like behind them.
            draw.rectangle((left, HEADER, left + width, HEADER + 26), PAPER)
            draw.text((left + MARGIN, HEADER + 13), panel.name, panel.colour, label_font, anchor="lm")
            if index:
                draw.line((left, HEADER, left, HEADER + height), PAPER, width=2)
            earned = f"return {panel.returns[moment]:.1f}"
            draw.text((left + width - MARGIN, HEADER + 13), earned, INK, label_font, anchor="rm")
        _curves(draw, panels, moment, (0, HEADER + height, *canvas.size), small_font)
        yield np.asarray(canvas)


def _curves(
    draw: ImageDraw.ImageDraw, panels: Sequence[Panel], moment: int, box: tuple[int, int, int, int], font: Font
) -> None:
    """The running returns so far, named where they end, on an axis that holds all of them from the start; above
    them what the first branch has returned more than the second."""
    left, top, right, bottom = box[0] + LEFT, box[1] + 30, box[2] - RIGHT, box[3] - 20
    every = np.concatenate([panel.returns[np.isfinite(panel.returns)] for panel in panels])
    low, high = float(every.min(initial=0.0)), float(every.max(initial=1.0))
    for value in (low, high):
        place = bottom - (value - low) / (high - low) * (bottom - top)
        draw.line((left, place, right, place), FAINT)
        draw.text((left - 6, place), f"{value:.0f}", SOFT, font, anchor="rm")
    draw.text((MARGIN, box[1] + 15), "return so far", SOFT, font, anchor="lm")
    draw.text((right, box[3] - 9), "time in the episode", SOFT, font, anchor="rm")
    ends = []
    for panel in panels:
        values = np.nan_to_num(panel.returns[: moment + 1], nan=0.0, posinf=high, neginf=low)
        across = left + np.arange(moment + 1) * (right - left) / max(len(panel.returns) - 1, 1)
        up = bottom - (values - low) / (high - low) * (bottom - top)
        if moment:
            draw.line([*map(tuple, np.column_stack([across, up]).tolist())], panel.colour, width=2)
        draw.ellipse((across[-1] - 3, up[-1] - 3, across[-1] + 3, up[-1] + 3), panel.colour)
        ends.append(float(up[-1]))
    for panel, place in zip(panels, apart(ends, bottom), strict=True):
        words = f"{panel.name} {panel.returns[moment]:.0f}"
        draw.text((right + 8, place), words, panel.colour, font, anchor="lm")
    if len(panels) == 2:
        draw.text((box[2] - MARGIN, box[1] + 15), difference(panels, moment), INK, font, anchor="rm")


def apart(places: Sequence[float], bottom: int, room: float = 14.0) -> list[float]:
    """Return the same heights, moved apart where two names would stand on one another."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = list(places)
    for above, below in itertools.pairwise(order):
        moved[below] = max(moved[below], moved[above] + room)
    over = max(0.0, max(moved) - bottom)
    return [place - over for place in moved]


def difference(panels: Sequence[Panel], moment: int) -> str:
    """Describe what the update is worth in this episode, so far or at its end."""
    worth = round(float(panels[0].returns[moment] - panels[1].returns[moment]), 1) + 0.0  # no "-0.0"
    if moment + 1 < len(panels[0].returns):
        return f"dR so far {worth:+.1f}"
    effect = "helped" if worth > 0 else "hurt" if worth < 0 else "changed nothing"
    return f"dR of this episode {worth:+.1f}: updating {effect}"
