"""The frozen deployment: its log, its recording, and what of it is known at each decision point."""

from worldfork.lab.stream.deployment import Recording, StreamLog, columns, deploy
from worldfork.lab.stream.signals import signals
from worldfork.lab.stream.windows import segment, window

__all__ = ["Recording", "StreamLog", "columns", "deploy", "segment", "signals", "window"]
