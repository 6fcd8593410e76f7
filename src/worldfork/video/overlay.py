"""Frames of an episode with its figures on them: what it is above, pictures side by side, running returns below.

Axes: H by W pixels; moments are what is shown, one frame each.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from jaxtyping import Float64, UInt8
from PIL import Image, ImageDraw, ImageFont

__all__ = ["HOLD", "PLAIN", "UPDATE", "Panel", "frames"]

Colour = tuple[int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
# Neither orange nor blue: on the page these say that an update hurt or helped.
UPDATE: Final[Colour] = (190, 160, 255)
HOLD: Final[Colour] = (98, 205, 180)
PLAIN: Final[Colour] = (140, 220, 150)
INK: Final[Colour] = (235, 238, 242)
FAINT: Final[Colour] = (110, 120, 134)
PAPER: Final[Colour] = (20, 24, 31)
HEADER, FOOTER, MARGIN = 32, 68, 10


@dataclasses.dataclass(frozen=True)
class Panel:
    """One branch: its name, its colour, and the return up to each moment."""

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
    """One frame per moment: `pictures` yields a picture per panel; `captions` says what holds at that moment."""
    title_font, label_font, small_font = (ImageFont.load_default(size=size) for size in (14, 16, 11))
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
    """The running returns so far, on an axis that holds all of them from the start."""
    left, top, right, bottom = box[0] + MARGIN, box[1] + MARGIN, box[2] - MARGIN, box[3] - MARGIN
    every = np.concatenate([panel.returns[np.isfinite(panel.returns)] for panel in panels])
    low, high = float(every.min(initial=0.0)), float(every.max(initial=1.0))
    draw.line((left, bottom, right, bottom), FAINT)
    draw.text((left, top), f"{high:.0f}", FAINT, font, anchor="lt")
    for panel in panels:
        values = np.nan_to_num(panel.returns[: moment + 1], nan=0.0, posinf=high, neginf=low)
        across = left + np.arange(moment + 1) * (right - left) / max(len(panel.returns) - 1, 1)
        up = bottom - (values - low) / (high - low) * (bottom - top)
        if moment:
            draw.line([*map(tuple, np.column_stack([across, up]).tolist())], panel.colour, width=2)
        draw.ellipse((across[-1] - 3, up[-1] - 3, across[-1] + 3, up[-1] + 3), panel.colour)
