"""Where scoring's randomness comes from: the seed, the task, the figure and the cell, never the order of work."""

import numpy as np

from worldfork.desk.reading.prefork import CellKey
from worldfork.randomness import Event, Purpose, generator

__all__ = ["cell_draws", "figure_draws"]

# One number per figure that resamples. Figures never share draws, so leaving one out changes no other.
FIGURES = {"clusters": 1, "contraction": 2, "control": 3, "signs": 4, "wild": 5, "swap": 6, "thresholds": 7}


def figure_draws(figure: str, *, seed: int, task: str) -> np.random.Generator:
    """The draws of a figure on a whole task."""
    return generator(Event(purpose=Purpose.RESAMPLING, seed=seed, task=task, step=FIGURES[figure]))


def cell_draws(figure: str, cell: CellKey, *, seed: int, task: str) -> np.random.Generator:
    """The draws of a figure in one cell."""
    event = Event(
        purpose=Purpose.RESAMPLING,
        seed=seed,
        task=task,
        checkpoint=cell.checkpoint,
        direction=cell.direction,
        stream_seed=cell.stream_seed,
        step=FIGURES[figure],
    )
    return generator(event)
