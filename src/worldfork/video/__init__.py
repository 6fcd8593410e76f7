"""Videos of episodes: frames with their figures drawn on, and the files they go to."""

from worldfork.video.encoding import FORMATS, check_format, write
from worldfork.video.overlay import HOLD, PLAIN, UPDATE, Panel, frames

__all__ = ["FORMATS", "HOLD", "PLAIN", "UPDATE", "Panel", "check_format", "frames", "write"]
