"""The registrations that come with worldfork: the paper's arms, the demo and the calibration."""

from pathlib import Path

from worldfork.errors import WorldforkError

__all__ = ["find"]

PACKAGE = Path(__file__).parents[1]
FOLDERS = (PACKAGE / "registrations", PACKAGE.parents[1] / "registrations")  # installed, or in a checkout


def find(name: str | Path) -> Path:
    """The file `name`, or the registration of that name that comes with the package."""
    if Path(name).is_file():
        return Path(name)
    files = (path for folder in FOLDERS for path in sorted(folder.glob("*.toml")))
    known = {path.stem: path for path in files if not path.stem.startswith("pretrain")}  # those are recipes
    if str(name) not in known:
        raise WorldforkError(
            f"There is no registration `{name}`: neither a file, nor one that comes with worldfork "
            f"({', '.join(sorted(known))})."
        )
    return known[str(name)]
