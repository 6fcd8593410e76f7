"""Deficit in deployment return: the paper's addition after registration, hence exploratory."""

from worldfork.desk.triggers.base import Recorded

__all__ = ["ReturnDeficit"]


class ReturnDeficit(Recorded):
    """The checkpoint's clean return minus the return of the segment before the fork."""

    needs = "the checkpoint's clean return and the segment's return"
