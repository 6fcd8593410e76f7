"""A deployment's stream as it grows, and what a trigger and UPDATE see of it."""

from collections.abc import Mapping

import numpy as np

from worldfork.lab.stream import Recording, Stream, StreamLog
from worldfork.ledger.row import Number
from worldfork.triggers import Segment

__all__ = ["episode_of", "extended", "segment_of", "whole"]


def extended(stream: Stream | None, episode: Stream) -> Stream:
    """The stream with one more episode."""
    if stream is None:
        return episode
    log, transitions = (
        {name: np.concatenate([before[name], after[name]]) for name in after}
        for before, after in (
            (stream.log.columns(), episode.log.columns()),
            (stream.recording.columns(), episode.recording.columns()),
        )
    )
    return Stream(StreamLog.of(log), Recording(**transitions))


def episode_of(stream: Stream | None, k: int) -> Stream:
    """Episode k of a stream that has it."""
    assert stream is not None
    columns = stream.recording.columns()
    steps = len(columns["reward"]) // len(columns["final"])
    span = slice((k - 1) * steps, k * steps)
    log = {name: values[span] for name, values in stream.log.columns().items()}
    transitions = {name: values[k - 1 : k] if name == "final" else values[span] for name, values in columns.items()}
    return Stream(StreamLog.of(log), Recording(**transitions))


def whole(stream: Stream | None, points: int) -> Recording:
    """The transitions so far, in arrays as long as the whole deployment: what is to come is empty there, so that an
    update is computed at one shape whenever it fires."""
    assert stream is not None
    recording = stream.recording
    steps = len(recording.reward) // len(recording.final)

    def filled(values: np.ndarray, length: int) -> np.ndarray:
        return np.concatenate([values, np.zeros((length - len(values), *values.shape[1:]), values.dtype)])

    lengths = {name: points if name == "final" else points * steps for name in recording.columns()}
    return Recording(**{name: filled(values, lengths[name]) for name, values in recording.columns().items()})


def segment_of(episode: Stream, k: int, *, level: float, signals: Mapping[str, Number]) -> Segment:
    """One episode as a trigger is shown it: copies, which it can not write to."""
    steps = {name: np.array(column, np.float64) for name, column in episode.log.of_episode(k).items()}
    for column in steps.values():
        column.setflags(write=False)
    known = {name: float("nan") if value is None else value for name, value in signals.items()}
    return Segment(k=k, level=level, steps=steps, signals=known)
