"""Video files: they decode to the frames that went in, or say what is wrong before anything is written."""

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from worldfork.errors import WorldforkError
from worldfork.video import write

COUNT = 9


def moving_square() -> Iterator[np.ndarray]:
    """An orange square that moves over blue, eight pixels a frame."""
    for number in range(COUNT):
        frame = np.full((64, 96, 3), (20, 40, 90), np.uint8)
        frame[16:32, 8 * number : 8 * number + 16] = (255, 159, 64)
        yield frame


def decoded(path: Path) -> tuple[list[np.ndarray], float]:
    """The frames of a file and how long the first one lasts."""
    if path.suffix == ".gif":
        with Image.open(path) as gif:
            frames = []
            for number in range(gif.n_frames):
                gif.seek(number)
                frames.append((np.asarray(gif.convert("RGB")), gif.info["duration"] / 1000))
        return [frame for frame, _ in frames], frames[0][1]
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)], 1 / stream.average_rate


@pytest.mark.parametrize("ending", [".mp4", ".gif"])
def test_what_went_in_comes_out(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"square{ending}"
    write(path, moving_square(), seconds=0.04)
    frames, seconds = decoded(path)
    assert len(frames) == COUNT
    assert float(seconds) == pytest.approx(0.04)
    for came, went in zip(frames, moving_square(), strict=True):
        assert np.abs(came.astype(int) - went).mean() < 8


def test_what_can_not_be_written_is_said_before_a_frame_is_made(tmp_path: Path) -> None:
    def never() -> Iterator[np.ndarray]:
        raise AssertionError("a frame was asked for")
        yield

    with pytest.raises(WorldforkError, match=r"\.mp4 or \.gif"):
        write(tmp_path / "square.avi", never(), seconds=0.04)
    with pytest.raises(WorldforkError, match="no folder"):
        write(tmp_path / "nowhere" / "square.gif", never(), seconds=0.04)


@pytest.mark.parametrize("ending", [".mp4", ".gif"])
def test_a_video_that_fails_half_way_leaves_no_file(tmp_path: Path, ending: str) -> None:
    def torn() -> Iterator[np.ndarray]:
        yield from list(moving_square())[:3]
        raise FloatingPointError("no such world")

    with pytest.raises(FloatingPointError):
        write(tmp_path / f"torn{ending}", torn(), seconds=0.04)
    assert list(tmp_path.iterdir()) == []
