"""Which GPUs a process may use, and how it shares one with others: its memory, and its time."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["share_memory", "shared", "visible_gpus"]

SHARED: Final = 0.9  # of a GPU's memory: the rest is for what CUDA itself keeps in every process
CHOSEN_BY_THE_USER: Final = (
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_CLIENT_MEM_FRACTION",  # the newer name: JAX refuses to start where both are set
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
)
MPS: Final = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
DAEMON: Final = Path("/tmp/nvidia-mps/control")  # noqa: S108 - where NVIDIA's listens unless it is told otherwise


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


@contextlib.contextmanager
def shared(processes: int) -> Iterator[None]:
    """Let this process and those it begins, so many in all, share a GPU: each takes its part of the memory, and
    where NVIDIA's MPS is installed their kernels run at once instead of in turns. Must begin before JAX is used.
    """
    if not visible_gpus():
        yield
        return
    ours = {*CHOSEN_BY_THE_USER, *MPS} - os.environ.keys()  # what others set meanwhile is theirs
    share_memory(1 / processes)
    try:
        with _kernels_at_once():
            yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _kernels_at_once(running: Path = DAEMON) -> Iterator[None]:
    """Under an MPS daemon of our own, unless there is one already or none is installed."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ or running.exists():
        yield
        return
    folder = tempfile.mkdtemp(prefix="worldfork-mps-")
    os.environ |= dict.fromkeys(MPS, folder)
    daemon = subprocess.run([control, "-d"], capture_output=True, check=False)  # noqa: S603 - NVIDIA's, from PATH
    try:
        yield
    finally:
        if daemon.returncode == 0:
            # It goes once its last client has gone, which may be this process: nobody waits for it.
            with tempfile.TemporaryFile() as order:
                order.write(b"quit\n")
                order.seek(0)
                subprocess.Popen([control], stdin=order, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
