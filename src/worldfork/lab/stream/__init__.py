"""The frozen deployment: its log, its recording, and what of it is known at each decision point."""

from worldfork.lab.stream.deployment import Recording, Stream, StreamLog, cut, deploy
from worldfork.lab.stream.windows import segment, window

__all__ = ["Recording", "Stream", "StreamLog", "cut", "deploy", "segment", "window"]
