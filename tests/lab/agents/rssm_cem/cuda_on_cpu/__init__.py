"""The imagination kernel on a CPU: its own source, compiled by g++ with other instructions beneath it."""

import ctypes
import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from worldfork.lab.agents.rssm_cem.cuda.imagine import KERNEL
from worldfork.lab.agents.rssm_cem.cuda.kernel import STREAMING, UNIT, Kernel

HERE = Path(__file__).parent
COMPILER = shutil.which("g++")


def run_blocks(kernel: Kernel, given: Sequence[jax.Array], shape: tuple[int, ...]) -> jax.Array:
    """In the place of `kernel.run_blocks`."""

    def run(*arrays: np.ndarray) -> np.ndarray:
        values = np.full(shape, np.nan, np.float32)
        held = [np.ascontiguousarray(x) for x in (*arrays, values)]
        held[-1] = values
        blocks = values.size // (UNIT * kernel.groups)
        _program(kernel)(blocks, *(ctypes.c_void_p(x.ctypes.data) for x in held))
        return values

    return jax.pure_callback(run, jax.ShapeDtypeStruct(shape, jnp.float32), *given)


@functools.cache
def _program(kernel: Kernel) -> Callable[..., None]:
    instructions, launch = (HERE / "hopper.h").read_text(), (HERE / "run.cpp").read_text()
    text = "\n".join([kernel.definitions(), instructions, STREAMING, KERNEL, launch])
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    folder = Path(tempfile.mkdtemp(prefix="worldfork-kernel-"))
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    source.write_text(text)
    options = ["-O1", "-std=c++17", "-shared", "-fPIC", "-Wno-unknown-pragmas"]
    subprocess.run([str(COMPILER), *options, str(source), "-o", str(library)], check=True)
    program = ctypes.CDLL(str(library)).imagine_all
    program.restype = None
    shutil.rmtree(folder)
    return program
