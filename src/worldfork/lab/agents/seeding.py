"""Generators that everybody shares, seeded for the time of one call."""

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import UInt32


@contextlib.contextmanager
def seeded(key: UInt32[np.ndarray, "2"]) -> Iterator[int]:
    """Within this, every global generator (Python's, NumPy's, PyTorch's if it is there) begins from `key`; after it
    they are what they were. Yields the seed.

    >>> with seeded(np.array([1, 2], np.uint32)):
    ...     first = random.random()
    >>> with seeded(np.array([1, 2], np.uint32)):
    ...     first == random.random()
    True
    """
    number = int(key[0]) << 32 | int(key[1])
    pythons, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch: Any = sys.modules.get("torch")
    torchs = torch.get_rng_state() if torch else None
    cudas = torch.cuda.get_rng_state_all() if torch and torch.cuda.is_initialized() else None
    random.seed(number)
    np.random.seed(np.array([key[0], key[1]], np.uint32))  # noqa: NPY002
    if torch:
        # `torch.manual_seed` also notes its caller for every kind of accelerator, there or not. That takes longer
        # than a small network takes to act, and the processor's draws are the same without it.
        there = not hasattr(torch, "accelerator") or torch.accelerator.is_available()  # older than 2.6: as before
        (torch if there else torch.default_generator).manual_seed(number)
    try:
        yield number
    finally:
        random.setstate(pythons)
        np.random.set_state(numpys)  # noqa: NPY002
        if torch and torchs is not None:
            torch.set_rng_state(torchs)
        if cudas is not None:
            torch.cuda.set_rng_state_all(cudas)
