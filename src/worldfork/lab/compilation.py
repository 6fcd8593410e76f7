"""Compiled programs are kept on disk for the next process, and where."""

import os
import sys
from pathlib import Path


def keep_compiled() -> None:
    """Tell JAX where compiled programs are kept; whoever has told it already is not contradicted."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or os.environ.get("WORLDFORK_COMPILED", "on").lower() == "off":
        return
    folder = place()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # no home to write to: compile every time
        return
    if not os.access(folder, os.W_OK):
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)  # worker processes inherit it
    if (jax := sys.modules.get("jax")) is not None and jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(folder))  # it has read its environment already


def place() -> Path:
    """The folder of the compiled programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "worldfork" / "compiled"
