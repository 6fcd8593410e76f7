"""Random draws of scoring, by seed, task, figure and cell, never by the order of work; and ties of rounded
numbers."""

import contextlib
from collections.abc import Iterator
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from worldfork.randomness import Event, Purpose, generator
from worldfork.triggers import CellKey

# One number per figure that resamples. Figures never share draws, so leaving one out changes no other.
FIGURES = {"clusters": 1, "contraction": 2, "control": 3, "signs": 4, "wild": 5, "swap": 6, "thresholds": 7}


def figure_draws(figure: str, *, seed: int, task: str) -> np.random.Generator:
    """Return the draws of a figure on a whole task."""
    return generator(Event(purpose=Purpose.RESAMPLING, seed=seed, task=task, step=FIGURES[figure]))


def cell_draws(figure: str, cell: CellKey, *, seed: int, task: str) -> np.random.Generator:
    """Return the draws of a figure in one cell."""
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


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """Keep products on one thread. All of scoring's are small: threads that wait for one another take more time
    than they save. And a product that is dealt out to as many threads as there are cores may be rounded otherwise
    on another machine."""
    import threadpoolctl  # a machine that fits thresholds and scores nothing need not have it

    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield


def middle_95(values: Float[np.ndarray, "*some draws"]) -> Float[np.ndarray, "2 *some"]:
    """Return both ends of the middle 95% of draws."""
    return np.quantile(values, [0.025, 0.975], axis=-1)


ROUNDING: Final = 1e-9  # relative: what is nearer than this is equal


def tied(values: Float[np.ndarray, "values"]) -> Float[np.ndarray, "values"]:
    """Return the same values, with all that are equal but for rounding replaced by the smallest of them; NaN stays
    NaN.

    >>> tied(np.array([0.3, 0.1 + 0.2, 0.4])).tolist()
    [0.3, 0.3, 0.4]
    """
    defined = np.flatnonzero(~np.isnan(values))
    order = defined[np.argsort(values[defined], kind="stable")]
    first = np.flatnonzero(rises(values[order]))
    found = values.copy()
    found[order] = np.repeat(values[order][first], np.diff(np.r_[first, len(order)]))
    return found


def rises(ascending: Float[np.ndarray, "values"]) -> Bool[np.ndarray, "values"]:
    """Return where a value in ascending order exceeds the one before it by more than rounding; the first one
    does."""
    below, above = ascending[:-1], ascending[1:]
    # Infinities are equal to themselves: their difference would be undefined.
    with np.errstate(invalid="ignore"):
        gap = np.where(below == above, 0.0, above - below)
    size = np.maximum(np.abs(below), np.abs(above))
    apart = gap > ROUNDING * np.where(np.isinf(size), 0.0, size)
    return np.r_[True, apart][: len(ascending)]
