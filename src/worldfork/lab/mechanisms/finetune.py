"""The paper's mechanism: N gradient steps on the last W transitions (paper, "Problem setting")."""

from worldfork.lab.mechanisms.composed import Composed

__all__ = ["FineTune"]


class FineTune(Composed):
    """`steps` gradient steps on the last `window` transitions; `scope` says what is trained."""
