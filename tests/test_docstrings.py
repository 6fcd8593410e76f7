"""Language of the source: docstrings begin with a verb or a noun, public functions are complete."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import worldfork as wf

SOURCE = Path(wf.__file__).parent
QUESTIONS = (
    "What",
    "Whether",
    "Where",
    "How",
    "Who",
    "Whose",
    "Whoever",
    "Which",
    "When",
    "Why",
    "One",
    "The same",
)
NO_NAMES = {"said", "told", "heard", "known", "one", "own", "made", "spelled"}
Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def definitions(path: Path) -> Iterator[tuple[str, Definition]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Definition):
            yield f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 1)}", node


def begins_with_a_question(docstring: str) -> bool:
    return re.match(rf"({'|'.join(QUESTIONS)})\b", docstring) is not None


def names_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef):
            yield node.lineno, node.name.strip("_")


@pytest.mark.parametrize(
    ("docstring", "bad"),
    [("What is left.", True), ("The same, in words.", True), ("Whether it holds.", True), ("Whole rows.", False)],
)
def test_the_rule_knows_a_riddle(docstring: str, bad: bool) -> None:
    assert begins_with_a_question(docstring) == bad


def test_docstrings_begin_with_a_verb_or_with_what_the_thing_is() -> None:
    riddles = [
        f"{place}: {docstring.splitlines()[0]}"
        for path in modules()
        for place, node in definitions(path)
        if (docstring := ast.get_docstring(node)) and begins_with_a_question(docstring)
    ]
    assert not riddles, "\n".join(riddles)


def test_names_of_data_and_functions_are_nouns_and_verbs() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in modules()
        for line, name in names_of(ast.parse(path.read_text(encoding="utf-8")))
        if name in NO_NAMES
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", [name for name in wf.__all__ if inspect.isfunction(getattr(wf, name))])
def test_public_functions_list_their_arguments_and_show_a_call(name: str) -> None:
    function = getattr(wf, name)
    docstring = inspect.getdoc(function) or ""
    _, _, listed = docstring.partition("Args:\n")
    arguments = re.findall(r"^    (\w+): ", listed, flags=re.MULTILINE)
    assert arguments == list(inspect.signature(function).parameters)
    assert ">>> " in docstring
