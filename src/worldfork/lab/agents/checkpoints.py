"""What an agent is deployed from: parameters, optimiser state, and the clean return it had."""

import dataclasses

from worldfork.lab.agents.base import Arrays

__all__ = ["Checkpoint"]


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """One pretrained agent; every array has a leading axis of one. No replay: UPDATE sees the stream alone."""

    parameters: Arrays
    optimiser: Arrays
    clean_return: float  # mean return at drift level 0 without noise: what `return_deficit` is measured from
    digest: str  # of everything above
    remark: str = ""  # what a reader should know of it, if anything
