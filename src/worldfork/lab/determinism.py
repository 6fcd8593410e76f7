"""The compiler's settings: what may not differ between two computations of one row, and where programs are kept.

XLA picks some GPU kernels by timing them, so that the same program can be compiled differently in another process;
and on a CPU it may use the processor's own approximate reciprocal square root, which makers tabulate differently.
Ledgers and checkpoints promise the same bytes on the same hardware; hence these flags. They are set when
`worldfork.lab` is imported, before JAX starts.
"""

import os
import platform
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from worldfork.errors import WorldforkError
from worldfork.ledger.row import CellRow
from worldfork.registration import difference

PINNED: Final = (
    "--xla_gpu_deterministic_ops=true",
    "--xla_gpu_autotune_level=0",
    "--xla_cpu_enable_platform_dependent_math=false",
)

# Makers of processors that gave the same digits under a version of jax: the demo's 36 rows, in every field. Their
# gradients differed under jax 0.11.2 (docs/reproducibility.md).
AGREEING: Final[Mapping[str, frozenset[str]]] = {"0.10.2": frozenset({"AuthenticAMD", "GenuineIntel"})}


def pin_compiler() -> None:
    """Add the flags to XLA_FLAGS, unless the user has set them to something else."""
    given = os.environ.get("XLA_FLAGS", "")
    added = [flag for flag in PINNED if flag.split("=")[0] not in given]
    if added and _jax_has_started():
        warnings.warn(
            "JAX was used before worldfork's lab was imported: its compiler is not pinned, and digits may not be "
            "reproducible. Import worldfork.lab first, or set XLA_FLAGS yourself.",
            RuntimeWarning,
            stacklevel=3,
        )
        return
    os.environ["XLA_FLAGS"] = " ".join([given, *added]).strip()


def flags() -> list[str]:
    """Return the compiler's flags as they stand, in order of their names."""
    return sorted(os.environ.get("XLA_FLAGS", "").split())


@cache
def processor() -> tuple[str, str]:
    """Return the maker of this machine's processor, and its model, as far as the system knows them."""
    maker = model = ""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = (part.strip() for part in line.partition(":"))
        maker = maker or (value if name in ("vendor_id", "CPU implementer") else "")
        model = model or (value if name == "model name" else "")
    return maker or platform.processor() or platform.machine(), model or platform.machine()


def as_recorded(here: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return what determines rows here, with the recorded maker of the processor if both are known to agree.

    >>> here = {"processor": "GenuineIntel", "packages": {"jax": "0.10.2"}}
    >>> as_recorded(here, {"processor": "AuthenticAMD"})["processor"]
    'AuthenticAMD'
    >>> as_recorded(here, {"processor": "0x41"})["processor"]
    'GenuineIntel'
    """
    agreeing = AGREEING.get(here["packages"].get("jax"), frozenset())
    if {here["processor"], recorded.get("processor")} <= agreeing:
        return {**here, "processor": recorded["processor"]}
    return dict(here)


def _jax_has_started() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    started = getattr(bridge, "backends_are_initialized", None)
    return bool(started and started())


def keep_compiled() -> None:
    """Use JAX's compilation cache unless it is already configured."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or os.environ.get("WORLDFORK_COMPILED", "on").lower() == "off":
        return
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "worldfork" / "compiled"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # no home to write to: compile every time
        return
    if not os.access(folder, os.W_OK):
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)  # worker processes inherit it
    if (jax := sys.modules.get("jax")) is not None and jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(folder))  # it has read its environment already


def require_again(name: str, written: CellRow, again: CellRow) -> None:
    """Raise an error if a row that is in the ledger came out otherwise when it was computed again."""
    again = again.model_copy(update={"prev": written.prev, "digest": written.digest})
    if again != written:
        before, after = (row.model_dump(mode="json", by_alias=True) for row in (written, again))
        raise WorldforkError(
            f"{name} came out differently when it was computed again: this machine or its libraries do not "
            "reproduce what the study began with. Go on where it began, or use a new folder.\n  "
            + "\n  ".join(difference(before, after))
        )
