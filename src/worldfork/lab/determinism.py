"""What the compiler may not decide by timing: import this before JAX.

XLA picks some kernels by measuring them, so that the same program can be compiled differently in another process
and differ in its last bits. Ledgers and checkpoints promise the same bytes on the same hardware; hence these flags.
"""

import os
from typing import Final

__all__ = ["PINNED", "pin_compiler"]

PINNED: Final = ("--xla_gpu_deterministic_ops=true", "--xla_gpu_autotune_level=0")


def pin_compiler() -> None:
    """Add the flags to XLA_FLAGS, unless the user has set them to something else."""
    given = os.environ.get("XLA_FLAGS", "")
    added = [flag for flag in PINNED if flag.split("=")[0] not in given]
    os.environ["XLA_FLAGS"] = " ".join([given, *added]).strip()
