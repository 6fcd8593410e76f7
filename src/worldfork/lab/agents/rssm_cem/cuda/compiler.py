"""CUDA source to PTX with NVIDIA's runtime compiler, which jax for GPUs brings along."""

import ctypes
import functools
import re
from importlib import util
from pathlib import Path

from worldfork.errors import WorldforkError

__all__ = ["compiled"]

TARGET = "compute_90a"  # Hopper, with its warpgroup products
VERSION = "8.0"  # of PTX: the first that has them. A driver refuses what says that it is newer than the driver.


@functools.cache
def compiled(source: str) -> str:
    """The PTX of `source`. The driver makes machine code of it when a program that holds it is loaded."""
    nvrtc = _library()
    program = ctypes.c_void_p()
    _check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"imagine.cu", 0, None, None))
    try:
        # No product and sum are joined but where the source says so: bits do not depend on the compiler's choice.
        options = [f"--gpu-architecture={TARGET}".encode(), b"--std=c++17", b"--fmad=false"]
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if status:
            log = _text(nvrtc, program, "ProgramLog")
            raise WorldforkError(f"The imagination kernel should compile; NVIDIA's compiler says:\n{log}")
        return re.sub(r"^\.version .*$", f".version {VERSION}", _text(nvrtc, program, "PTX"), flags=re.MULTILINE)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, text))
    return text.value.decode()


def _check(nvrtc: ctypes.CDLL, status: int) -> None:
    if status:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise WorldforkError(f"The CUDA compiler failed: {nvrtc.nvrtcGetErrorString(status).decode()}.")


@functools.cache
def _library() -> ctypes.CDLL:
    for candidate in _candidates():
        try:
            return ctypes.CDLL(candidate)
        except OSError:
            continue
    raise WorldforkError(
        "The imagination kernel needs NVIDIA's runtime compiler (libnvrtc), and none was found. Install "
        "'jax[cuda13]', which brings it along, or run the agent with `fused = false`."
    )


def _candidates() -> list[str]:
    """The compiler of the wheels that jax installs, then the system's."""
    package = util.find_spec("nvidia")
    roots = list(package.submodule_search_locations or []) if package else []
    wheels = [str(path) for root in roots for path in sorted(Path(root).glob("*/lib/libnvrtc.so.*"), reverse=True)]
    return [*wheels, "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"]
