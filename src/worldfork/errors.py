"""Errors a user can act on; the command line prints them without a traceback."""

__all__ = ["WorldforkError"]


class WorldforkError(Exception):
    """Something the user can fix: the message says what was expected, what came, and what to do."""
