"""The registrations and recipes that come with worldfork: the paper's arms, the demo and the calibration."""

from pathlib import Path

from worldfork.errors import WorldforkError

__all__ = ["BUNDLED", "find", "find_recipe", "recipes", "registrations"]

PACKAGE = Path(__file__).parents[1]
BUNDLED = PACKAGE / "bundled"  # checkpoints that come with the package
FOLDERS = (PACKAGE / "registrations", PACKAGE.parents[1] / "registrations")  # installed, or in a checkout


def find(name: str | Path) -> Path:
    """The file `name`, or the registration of that name that comes with the package."""
    if Path(name).is_file():
        return Path(name)
    if Path(name).suffix == ".toml":
        raise WorldforkError(f"There is no registration at `{name}`.")
    known = registrations()
    if str(name) in recipes():
        raise WorldforkError(f"`{name}` is a recipe for pretraining, not a registration: worldfork pretrain {name}")
    if str(name) not in known:
        raise WorldforkError(
            f"There is no registration `{name}`: neither a file, nor one that comes with worldfork "
            f"({', '.join(sorted(known))})."
        )
    return known[str(name)]


def find_recipe(name: str | Path) -> Path:
    """The file `name`, or the recipe for pretraining of that name that comes with the package."""
    if Path(name).is_file():
        return Path(name)
    if Path(name).suffix == ".toml":
        raise WorldforkError(f"There is no recipe at `{name}`.")
    known = recipes()
    if str(name) in registrations():
        raise WorldforkError(f"`{name}` is a registration, not a recipe for pretraining: worldfork run {name}")
    if str(name) not in known:
        raise WorldforkError(
            f"There is no recipe `{name}`: neither a file, nor one that comes with worldfork "
            f"({', '.join(sorted(known))})."
        )
    return known[str(name)]


def registrations() -> dict[str, Path]:
    """Those that come with the package, by name."""
    return {name: path for name, path in _files().items() if not name.startswith("pretrain")}


def recipes() -> dict[str, Path]:
    """The recipes for pretraining that come with the package, by name."""
    return {name: path for name, path in _files().items() if name.startswith("pretrain")}


def _files() -> dict[str, Path]:
    return {path.stem: path for folder in FOLDERS for path in sorted(folder.glob("*.toml"))}
