"""Source digests of the modules that compute rows, and versions of the packages that they run on.

Covered are the modules that a computation imports, directly or through others: worldfork's own, those of a
plug-in's package, and all others on the path that are not installed. Installed packages are identified by their
versions; an editable installation counts as source. Modules are read, never imported, so that no code runs.
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import itertools
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

# They name everything and compute nothing.
FRONT_DOOR: Final = frozenset({"worldfork", "worldfork.built_in"})
INSTALLED: Final = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
# Folders of other interpreters, of users, of clusters, and of Debian, which removes the lists of installed files.
INSTALLERS: Final = frozenset({"site-packages", "dist-packages"})


def sources(modules: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of every file that these modules import, by module name."""
    roots = list(dict.fromkeys(modules))
    followed = {name.partition(".")[0] for name in roots}
    found: dict[str, str] = {}
    waiting = [name for root in roots for name in _with_parents(root)]
    while waiting:
        name = waiting.pop()
        if name in found or name in FRONT_DOOR:
            continue
        file = _file(name)
        top = name.partition(".")[0]
        if file is None or (top not in followed and _installed(file, top)):
            continue
        found[name], imported = _read(file, name)
        waiting += [wider for other in imported for wider in _with_parents(other)]
    return dict(sorted(found.items()))


def changed_modules(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return one line per module that was changed, added or removed.

    >>> changed_modules({"kept": "0", "edited": "1", "left": "2"}, {"kept": "0", "edited": "7", "added": "3"})
    ['the module added is new', 'the module edited was changed', 'the module left is gone']
    """
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            verb = "was changed" if name in before and name in after else "is new" if name in after else "is gone"
            lines.append(f"the module {name} {verb}")
    return lines


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Return the installed version of each distribution; None for one that is not installed."""
    return {name: _version(name) for name in dict.fromkeys(packages)}


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _with_parents(name: str) -> list[str]:
    """Return a module and its parent packages, which an import runs too."""
    return list(itertools.accumulate(name.split("."), "{}.{}".format))


def _installed(file: Path, top: str) -> bool:
    """Return whether a file of the top-level module `top` came with Python or with an installed distribution."""
    return (
        any(file.is_relative_to(folder) for folder in INSTALLED)
        or not INSTALLERS.isdisjoint(file.parts)
        or file in _recorded(top)
    )


@cache
def _recorded(top: str) -> frozenset[Path]:
    """Return the files of a top-level module that installed distributions list; an editable one lists none."""
    return frozenset(
        Path(str(distribution.locate_file(line.rsplit(",", 2)[0]))).resolve()
        for distribution, lines in _records()
        for line in lines
        if line.startswith((f"{top}/", f"{top}."))
    )


@cache
def _records() -> list[tuple[importlib.metadata.Distribution, list[str]]]:
    """Return every distribution on the path, with the lines of its RECORD: name, digest, size."""
    found = importlib.metadata.distributions()
    return [(distribution, (distribution.read_text("RECORD") or "").splitlines()) for distribution in found]


@cache
def _file(name: str) -> Path | None:
    """Return the file of a module; None for one without source."""
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top)  # does not import a top-level module
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    folders = [Path(folder).resolve() for folder in spec.submodule_search_locations or ()]
    if not rest:
        return Path(spec.origin).resolve() if spec.origin and Path(spec.origin).is_file() else None
    for folder in folders:
        place = folder.joinpath(*rest)
        for file in (
            place.with_name(f"{place.name}.py"),
            place / "__init__.py",
            *sorted(place.parent.glob(f"{place.name}.*.so")),
        ):
            if file.is_file():
                return file
    return None


@cache
def _read(file: Path, name: str) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a file, and the modules that it may import."""
    content = file.read_bytes()
    imported = tuple(_imports(content, name, package=file.name == "__init__.py")) if file.suffix == ".py" else ()
    return hashlib.sha256(content).hexdigest(), imported


def _imports(content: bytes, name: str, *, package: bool) -> Iterator[str]:
    skipped: set[ast.AST] = set()
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            skipped.update(inner for statement in node.body for inner in ast.walk(statement))
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                parents = parts[: len(parts) - node.level + package]
                base = ".".join([*parents, *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)  # a module of a package, perhaps
