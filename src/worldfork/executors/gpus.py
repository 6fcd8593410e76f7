"""Which GPUs a process may use, and how much memory of one that it shares with others."""

import os
from pathlib import Path
from typing import Final

__all__ = ["share_memory", "visible_gpus"]

SHARED: Final = 0.9  # of a GPU's memory: the rest is for what CUDA itself keeps in every process
CHOSEN_BY_THE_USER: Final = (
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_CLIENT_MEM_FRACTION",  # the newer name: JAX refuses to start where both are set
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
)


def visible_gpus(drivers: Path = Path("/proc/driver/nvidia/gpus")) -> list[str]:
    """The NVIDIA GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; found without starting any."""
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    return [str(index) for index in range(len(list(drivers.iterdir())))] if drivers.is_dir() else []


def share_memory(share: float) -> None:
    """Have JAX take this share of its GPU's memory, unless the user has said how much it takes.

    By itself each process takes three quarters when it first computes, so that a second one on the same GPU dies.
    Must be called before JAX is used.
    """
    if share < 1 and not any(name in os.environ for name in CHOSEN_BY_THE_USER):
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{SHARED * share:.3f}"
