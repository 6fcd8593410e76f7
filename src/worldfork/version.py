"""Version of worldfork."""

__version__ = "0.1.0"
