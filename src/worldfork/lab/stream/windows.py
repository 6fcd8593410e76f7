"""The stream as a mechanism sees it at a decision point: its last transitions, and nothing after the fork.

Rows past an episode's end are no transitions, and are in no window: a window has as many rows as are real.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from worldfork.lab.agents.base import Window
from worldfork.lab.stream.deployment import Recording

__all__ = ["segment", "window"]


def window(recordings: Sequence[Recording], decision_points: Sequence[int]) -> Window:
    """Everything since deployment began, for fork k of each recording, padded to the length of the stream."""
    spans = [(0, k) for k in decision_points]
    return _stacked(recordings, spans, length=max(len(recording.reward) for recording in recordings))


def segment(recordings: Sequence[Recording], decision_points: Sequence[int]) -> Window:
    """Only the episode that ends at fork k: nothing of it was ever trained on."""
    length = max(len(recording.reward) // len(recording.final) for recording in recordings)
    return _stacked(recordings, [(k - 1, k) for k in decision_points], length=length)


def _stacked(recordings: Sequence[Recording], spans: Sequence[tuple[int, int]], *, length: int) -> Window:
    """Episodes [begin, end) of each recording, as rows of one length."""
    rows = [_rows(recording, *span) for recording, span in zip(recordings, spans, strict=True)]
    sizes = np.array([len(row["reward"]) for row in rows])
    padded = {
        name: np.stack(
            [np.pad(row[name], [(0, length - len(row[name])), *[(0, 0)] * (row[name].ndim - 1)]) for row in rows]
        )
        for name in rows[0]
    }
    return Window(**padded, size=sizes)


def _rows(recording: Recording, begin: int, end: int) -> dict[str, NDArray[np.generic]]:
    steps = len(recording.reward) // len(recording.final)
    span = slice(begin * steps, end * steps)
    columns = {name: values[span] for name, values in recording.columns().items() if name != "final"}
    if (real := columns.pop("real", None)) is not None:
        return {name: values[real] for name, values in columns.items()}
    # What an action led to is the next observation, and at an episode's end the last one of that episode.
    after = recording.observation[span].reshape(end - begin, steps, -1)
    led_to = np.concatenate([after[:, 1:], recording.final[begin:end, None]], axis=1)
    return {**columns, "next_observation": led_to.reshape(len(columns["observation"]), -1)}
