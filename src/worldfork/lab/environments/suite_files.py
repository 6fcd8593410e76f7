"""The Control Suite's models, read from the installed dm_control package without importing it.

Importing dm_control pulls in OpenGL, and a machine without a display has no use for it. Only a handful of small XML
files are needed, so a bare folder `dm_control/suite` on the path, without the package around it, will do as well.
"""

import importlib.metadata
import importlib.util
import warnings
from pathlib import Path
from typing import Any, Final

import mujoco

from worldfork.errors import WorldforkError

__all__ = ["MUJOCO_VERSION", "check_versions", "compile_model", "compiled", "read_model"]

MUJOCO_VERSION: Final = "3.17.0"
DM_CONTROL_VERSION: Final = "1.0.50"
COMMON: Final = ("common/materials.xml", "common/skybox.xml", "common/visual.xml")


def read_model(xml: str) -> tuple[str, dict[str, bytes]]:
    """A suite model as it is published: its XML and the files it includes. This is what a renderer wants.

    >>> text, included = read_model("walker.xml")
    >>> sorted(included)
    ['./common/materials.xml', './common/skybox.xml', './common/visual.xml']
    """
    folder = suite_folder()
    return (folder / xml).read_text(), {f"./{name}": (folder / name).read_bytes() for name in COMMON}


def compile_model(xml: str) -> Any:
    """A suite model for stepping by the thousand: the same physics to the last bit, without what nobody reads."""
    check_versions()
    text, included = read_model(xml)
    spec = mujoco.MjSpec.from_string(text, include=included)
    for texture in spec.textures:
        texture.width = texture.height = 2
    for element in (*spec.cameras, *spec.lights):  # they follow the body, in every physics step
        spec.delete(element)
    # Per simulation; the default is 13 MB of address space, the four tasks use 18 KB.
    spec.memory = 1 << 20
    model = compiled(spec)
    model.opt.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_ENERGY)  # cartpole.xml asks for it
    if model.ntree == 1:
        # Constraints are solved apart where bodies do not touch. A single tree of bodies has nothing to part.
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    return model


def compiled(spec: Any) -> Any:
    """A model from its specification, without MuJoCo's advice to the suite's authors."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*settotalmass.*")  # cheetah.xml, as published
        return spec.compile()


def check_versions() -> None:
    """Refuse a pair of mujoco and dm_control that is not the one whose physics was verified."""
    try:
        dm_control = importlib.metadata.version("dm_control")
    except importlib.metadata.PackageNotFoundError:
        dm_control = DM_CONTROL_VERSION  # only the XML files are here: nothing to disagree with
    if (mujoco.__version__, dm_control) != (MUJOCO_VERSION, DM_CONTROL_VERSION):
        raise WorldforkError(
            f"The tasks need mujoco {MUJOCO_VERSION} with dm_control {DM_CONTROL_VERSION}; found mujoco "
            f"{mujoco.__version__} with dm_control {dm_control}. Other pairs crash or differ by rounding, which "
            f"chaos makes visible. Run: pip install mujoco=={MUJOCO_VERSION} dm_control=={DM_CONTROL_VERSION}"
        )


def suite_folder() -> Path:
    """Where dm_control keeps its suite; dm_control itself is not imported."""
    spec = importlib.util.find_spec("dm_control")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "suite"
        if all((folder / name).is_file() for name in COMMON):
            return folder
    raise WorldforkError(
        "The Control Suite's model files were not found: no folder dm_control/suite with common/*.xml is on the "
        f"Python path. Run: pip install --no-deps dm_control=={DM_CONTROL_VERSION}"
    )
