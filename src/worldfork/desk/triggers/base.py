"""What a trigger said of every fork of a table: numbers, alarms, or nothing and why."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["Alarms", "Reading", "Signal", "Unavailable"]


@dataclasses.dataclass(frozen=True)
class Signal:
    """A number per fork; NaN is a missing signal, which never fires."""

    values: Float[np.ndarray, "forks"]


@dataclasses.dataclass(frozen=True)
class Alarms:
    """A decision per fork."""

    fired: Bool[np.ndarray, "forks"]


@dataclasses.dataclass(frozen=True)
class Unavailable:
    """Nothing to read, and why."""

    why: str


Reading = Signal | Alarms | Unavailable
