"""Names of agents, environments, mechanisms, triggers, signals and executors, ours and yours.

A name is one that comes with worldfork, an entry point of an installed package (group `worldfork.agents`, ...), or
`module:attribute`. It stands for a `Plugin`: a frozen record whose fields are its settings, checked when they are
registered, and whose methods do the work. Nothing is imported before it is asked for. `gymnasium:HalfCheetah-v5` is
of a family, as is `dm_control:pendulum-swingup`: what stands before the colon comes with worldfork, what stands
behind it is one of its settings.

    build("mechanisms", "finetune", Mechanism, settings={"steps": 200, "window": 10_000})
    build("triggers", "my_package.triggers:Median", Trigger)
"""

import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import sys
import traceback
from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeVar, get_args

from pydantic import ValidationError

from worldfork.built_in import BUILT_IN, FAMILIES, Group
from worldfork.errors import WorldforkError
from worldfork.validation import Record, explain
from worldfork.version import __version__

TARGET: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
Kind = TypeVar("Kind", bound="Plugin")


class Plugin(Record):
    """Base class of everything that can be named: its fields are settings, its methods do the work."""

    packages: ClassVar[tuple[str, ...]] = ()  # distributions whose versions are part of a ledger's identity


@dataclasses.dataclass(frozen=True)
class Located:
    """Place of a named thing, found without importing it."""

    group: Group
    name: str
    target: str  # module:attribute
    distribution: str | None  # that it was installed with; None for a module that lies on the path by itself
    version: str | None

    @property
    def module(self) -> str:
        return self.target.partition(":")[0]

    @property
    def ours(self) -> bool:
        """Return True if it comes with worldfork."""
        return self.module.partition(".")[0] == "worldfork"

    @property
    def label(self) -> str:
        """A short name for columns and tables: `module:attribute` is called by its attribute."""
        return self.name.rpartition(":")[2].rpartition(".")[2] if ":" in self.name else self.name

    def __str__(self) -> str:
        origin = f"{self.distribution} {self.version}" if self.distribution else "a module on the path"
        return f"{self.group[:-1]} `{self.name}`: {self.target} ({origin})"


def names(group: Group) -> list[str]:
    """Return the known names: worldfork's, then those that installed packages offer as entry points."""
    return [*BUILT_IN[group], *sorted(set(_entry_points(group)) - set(BUILT_IN[group]))]


def locate(group: Group, name: str) -> Located:
    """Locate the thing of that name. A package can not take a name that comes with worldfork."""
    assert group in get_args(Group)
    if name in BUILT_IN[group]:
        return Located(group, name, BUILT_IN[group][name], "worldfork", __version__)
    if (family := _family(group, name)) is not None:
        return Located(group, name, family[0], "worldfork", __version__)
    if TARGET.fullmatch(name):
        if name.startswith("__main__:"):
            raise WorldforkError(
                f"The {group[:-1]} `{name}` is in the running script or notebook: put it into a file of its own, "
                "as in `my_module:Name`, where other processes find it and its source is part of the ledger."
            )
        _search_here(name.partition(":")[0])
        return Located(group, name, name, *_distribution(name.partition(".")[0].partition(":")[0]))
    offered = _entry_points(group)
    if name not in offered:
        recorded = (
            f"; and where they are recorded, {', '.join(_writable('signals'))}" if group == "triggers" else ""
        )
        raise WorldforkError(
            f"There is no {group[:-1]} called {name!r}. Known here: {', '.join(_writable(group))}{recorded}. "
            "One of your own is named as `module:attribute`."
        )
    entry = offered[name]
    distribution = entry.dist
    return Located(
        group,
        name,
        entry.value,
        distribution.name if distribution else None,
        distribution.version if distribution else None,
    )


def load(group: Group, name: str, contract: type[Kind]) -> type[Kind]:
    """Import and return the class that the name stands for, which derives from `contract`.

    Importing it runs its author's code.
    """
    located = locate(group, name)
    thing = find(located)
    if not (isinstance(thing, type) and issubclass(thing, contract)):
        if group == "triggers" and _kind(thing) == "Signal":
            raise WorldforkError(
                f"`{name}` is a signal, not a trigger. What a study records of it is called `{located.label}`: "
                "give that name."
            )
        inside = " An object that keeps its state inside comes as a StatefulPlugin (docs/stateful.md)."
        raise WorldforkError(
            f"The {group[:-1]} `{name}` is {thing!r:.60}: a name stands for a class that derives from "
            f"{contract.__module__}.{contract.__qualname__} (docs/extending.md).{inside * (group == 'agents')}"
        )
    return thing


def find(located: Located) -> Any:
    """Import what was located, whatever it is."""
    name = located.name
    _, _, attribute = located.target.partition(":")
    try:
        thing: Any = importlib.import_module(located.module)
    except WorldforkError:
        raise
    except Exception as error:
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent and f"{located.module}.".startswith(f"{absent}."):
            raise WorldforkError(
                f"`{name}` is in a module `{located.module}` that can not be found. Install it, or "
                f"run the command in the folder of `{located.module.partition('.')[0]}`: the current folder and "
                "PYTHONPATH are searched, and the folder of a registration is not."
            ) from error
        if located.ours:
            raise
        raise WorldforkError(f"`{name}` can not be imported: {_import_problem(error)}") from error
    for part in attribute.split("."):
        if not hasattr(thing, part):
            raise WorldforkError(f"`{name}`: module `{located.module}` has no `{attribute}`.")
        thing = getattr(thing, part)
    return thing


def _import_problem(error: Exception) -> str:
    """Return the file, the line and the reason for which a module could not be imported."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}."
    lines = traceback.extract_tb(error.__traceback__)
    last = [line for line in lines if not line.filename.startswith("<frozen ")][-1]
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        reason = f"it imports `{error.name}`, which is not installed. Install {package}"
    return f"{last.filename}, line {last.lineno}: {reason.rstrip('.')}."


def is_known(group: Group, name: str) -> bool:
    """Return True for a name that comes with worldfork, a family among them, or that a package offers."""
    return name in names(group) or _family(group, name) is not None


def build(
    group: Group,
    name: str,
    contract: type[Kind],
    *,
    settings: Mapping[str, Any] | None = None,
    where: str = "",
) -> Kind:
    """Return the record of that name with these settings; errors name the table `where` they come from."""
    kind = load(group, name, contract)
    family = _family(group, name)
    named = {} if family is None else {family[1]: name.partition(":")[2]}
    try:
        # By way of JSON, where strict means strict and arrays may still become tuples.
        return kind.model_validate_json(json.dumps({**named, **(settings or {})}, default=str))
    except ValidationError as error:
        lines = explain(error, kind)
        place = f"{where}: " if where else ""
        raise WorldforkError(
            f"{place}the {group[:-1]} `{name}` can not be set up:\n  " + "\n  ".join(lines)
        ) from error


def _kind(thing: Any) -> str | None:
    """Return the contract that a plug-in's class keeps: `Signal`, `Mechanism`, ..."""
    bases = thing.__mro__ if isinstance(thing, type) else ()
    return next((base.__name__ for base in bases if Plugin in base.__bases__), None)


def _family(group: Group, name: str) -> tuple[str, str] | None:
    """Return the target of a name of the form family:rest, and the setting that the rest is; else None."""
    family, colon, rest = name.partition(":")
    return FAMILIES.get(group, {}).get(family) if colon and rest else None


def _writable(group: Group) -> list[str]:
    """Return the names that can be written, families with the setting that follows their colon."""
    return [*names(group), *(f"{family}:{what[1].upper()}" for family, what in FAMILIES.get(group, {}).items())]


def _search_here(module: str) -> None:
    """Search the current folder too if the module is not found without it."""
    if importlib.util.find_spec(module.partition(".")[0]) is None and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that nothing there can take the place of an installed module


@functools.cache
def _entry_points(group: Group) -> dict[str, importlib.metadata.EntryPoint]:
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=f"worldfork.{group}")}


@functools.cache
def _distribution(package: str) -> tuple[str | None, str | None]:
    """The distribution that installed a top-level package, and its version."""
    if package == "worldfork":
        return "worldfork", __version__
    installed = importlib.metadata.packages_distributions().get(package, [])
    return (installed[0], importlib.metadata.version(installed[0])) if installed else (None, None)
