"""The registrations that come with worldfork: the paper's arms, the demo and the calibration."""

from pathlib import Path

from worldfork.errors import WorldforkError

__all__ = ["find", "registrations"]

PACKAGE = Path(__file__).parents[1]
FOLDERS = (PACKAGE / "registrations", PACKAGE.parents[1] / "registrations")  # installed, or in a checkout


def find(name: str | Path) -> Path:
    """The file `name`, or the registration of that name that comes with the package."""
    if Path(name).is_file():
        return Path(name)
    if Path(name).suffix == ".toml":
        raise WorldforkError(f"There is no registration at `{name}`.")
    known = registrations()
    if str(name) not in known:
        raise WorldforkError(
            f"There is no registration `{name}`: neither a file, nor one that comes with worldfork "
            f"({', '.join(sorted(known))})."
        )
    return known[str(name)]


def registrations() -> dict[str, Path]:
    """Those that come with the package, by name."""
    files = (path for folder in FOLDERS for path in sorted(folder.glob("*.toml")))
    return {path.stem: path for path in files if not path.stem.startswith("pretrain")}  # those are recipes
