"""The registrations and recipes that come with worldfork: the paper's arms, the demo and the calibration."""

from pathlib import Path
from typing import Final

from worldfork.errors import WorldforkError, nearest

PACKAGE = Path(__file__).parents[1]
BUNDLED = PACKAGE / "bundled"  # checkpoints that come with the package
FOLDERS = (PACKAGE / "registrations", PACKAGE.parents[1] / "registrations")  # installed, or in a checkout
# Recipe -> registrations whose checkpoints it trains, where the name of their folder does not tell.
WITH_POWER: Final = {
    "pretrain-cartpole-32": ("power-cartpole", "choose-cartpole", "judge-cartpole", "which-policy-cartpole"),
    "pretrain-locomotion-12": (
        *("power-locomotion", "choose-locomotion", "judge-walker", "judge-cheetah"),
        *("severity-walker", "which-policy-walker", "which-policy-cheetah"),
    ),
}


def find(name: str | Path) -> Path:
    """Return the file `name`, or the registration of that name that comes with the package."""
    if str(name) in recipes() and not is_file(name):
        raise WorldforkError(f"`{name}` is a recipe for pretraining, not a registration: worldfork pretrain {name}")
    return _find(name, registrations(), kind="registration")


def find_recipe(name: str | Path) -> Path:
    """Return the file `name`, or the recipe for pretraining of that name that comes with the package."""
    if str(name) in registrations() and not is_file(name):
        raise WorldforkError(f"`{name}` is a registration, not a recipe for pretraining: worldfork run {name}")
    return _find(name, recipes(), kind="recipe")


def _find(name: str | Path, available: dict[str, Path], *, kind: str) -> Path:
    if is_file(name):
        return Path(name)
    if Path(name).suffix == ".toml":
        raise WorldforkError(f"There is no {kind} at `{name}`.")
    if str(name) not in available:
        raise WorldforkError(
            f"There is no {kind} `{name}`: neither a file, nor one that comes with worldfork."
            f"{nearest(str(name), available)} `worldfork list {kind}s` names all {len(available)}."
        )
    return available[str(name)]


def is_file(name: str | Path) -> bool:
    """Return whether `name` is a file; raise for a name that no file can have."""
    try:
        return Path(name).is_file()
    except OSError as error:
        shown = str(name) if len(str(name)) < 200 else f"{name!s:.60}..."
        raise WorldforkError(f"`{shown}` can not be looked for ({error.strerror}).") from error


def recipe_of(registration: str, folder: str) -> str:
    """Return the recipe that trains the checkpoints of a registration, which are in checkpoints/`folder`.

    >>> recipe_of("corrected", "cartpole"), recipe_of("power-cartpole", "cartpole")
    ('pretrain-cartpole', 'pretrain-cartpole-32')
    """
    return next((recipe for recipe, names in WITH_POWER.items() if registration in names), f"pretrain-{folder}")


def registrations() -> dict[str, Path]:
    """Return the registrations that come with the package, by name."""
    return {name: path for name, path in _files().items() if not name.startswith("pretrain")}


def recipes() -> dict[str, Path]:
    """Return the recipes for pretraining that come with the package, by name."""
    return {name: path for name, path in _files().items() if name.startswith("pretrain")}


def _files() -> dict[str, Path]:
    return {path.stem: path for folder in FOLDERS for path in sorted(folder.glob("*.toml"))}
