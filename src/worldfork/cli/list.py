"""`worldfork list`: names that can be given to the other verbs and to a registration."""

from typing import Final, cast, get_args

import typer

from worldfork.built_in import Group
from worldfork.cli import options

REGISTRATIONS: Final = "registrations"
RECIPES: Final = "recipes"


def list_names(
    kind: str | None = typer.Argument(
        None, help=f"One kind alone: {REGISTRATIONS}, {RECIPES}, {', '.join(get_args(Group))}."
    ),
    as_json: options.AsJson = False,
) -> None:
    """List what comes with worldfork and what installed packages add: registrations, agents, mechanisms, triggers.

    Example: worldfork list triggers
    """
    from worldfork.errors import WorldforkError, nearest

    kinds = (REGISTRATIONS, RECIPES, *get_args(Group))
    if kind is not None and kind not in kinds:
        raise WorldforkError(f"There is no kind `{kind}`.{nearest(kind, kinds)} There are {', '.join(kinds)}.")
    chosen = kinds if kind is None else (kind,)
    listed = {name: _members(name) for name in chosen}
    if as_json:
        options.print_json(listed)
        return
    for name, members in listed.items():
        typer.secho(name, bold=True)
        width = max(map(len, members), default=0)
        for member, about in members.items():
            typer.echo(f"  {member:<{width}}  {about}".rstrip())
    typer.echo("\nOne of your own is named as module:attribute: a file beside you, or an installed package.")


def _members(kind: str) -> dict[str, str]:
    """Return the names of one kind, each with a few words on what it is."""
    import tomllib

    from worldfork.built_in import FAMILIES
    from worldfork.registration import library
    from worldfork.registry import locate, names

    if kind in (REGISTRATIONS, RECIPES):
        files = library.registrations() if kind == REGISTRATIONS else library.recipes()
        return {
            name: str(tomllib.loads(path.read_text(encoding="utf-8")).get("about", ""))
            for name, path in sorted(files.items())
        }
    group = cast("Group", kind)
    members = {}
    for name in names(group):
        located = locate(group, name)
        members[name] = (
            _purpose(located.target) if located.ours else f"from {located.distribution} {located.version}"
        )
    families = {
        f"{family}:{of[1].upper()}": f"{of[1]} of {family}" for family, of in FAMILIES.get(group, {}).items()
    }
    return members | families


def _purpose(target: str) -> str:
    """Return the first sentence of a class' docstring, read from its source: nothing is imported to list it."""
    import ast
    import importlib.util
    from pathlib import Path

    module, _, wanted = target.partition(":")
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == wanted:
            first = (ast.get_docstring(node) or "").split("\n\n")[0]
            return " ".join(first.split()).partition(". ")[0]
        if isinstance(node, ast.ImportFrom) and node.module and wanted in {alias.name for alias in node.names}:
            return _purpose(f"{node.module}:{wanted}")
    return ""
