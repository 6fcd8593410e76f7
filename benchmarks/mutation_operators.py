"""One-line changes to a source file, of the kinds that people make by mistake: what `mutations.py` tries.

Each operator looks at one node of the syntax tree and says what could stand in its place. The change is made in the
text, so that a mutant differs from the file in that place alone. Annotations, `__all__`, assertions and text inside
f-strings are left as they are: they change nothing that a test could see, or positions in them are not known.
"""

import ast
import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator

__all__ = ["OPERATORS", "Mutant", "mutants"]

# What could take a node's place.
Operator = Callable[[ast.AST], Iterator[str]]

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
PAIRS = {"hold": "update", "r_hold": "r_update", "min": "max", "minimum": "maximum"}
SWAPPED = {**PAIRS, **{second: first for first, second in PAIRS.items()}}
DEFAULTS = {
    "bool": ("False", "True"),
    "int": ("0",),
    "float": ("0.0",),
    "str": ("''",),
    "list": ("[]",),
    "dict": ("{}",),
    "tuple": ("()",),
    "Figure": ("0.0",),
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change: bytes `start` to `end` of the file at `path` become `after`."""

    path: str  # below src/worldfork
    within: str  # the function or class it is in, `Study.begin`
    line: int
    operator: str
    before: str
    after: str
    start: int
    end: int
    number: int  # among equal changes in the same place

    @property
    def id(self) -> str:
        """Stays what it is when lines move."""
        spelled = [self.path, self.within, self.operator, self.before, self.after, str(self.number)]
        return hashlib.sha256("\n".join(spelled).encode()).hexdigest()[:10]

    def apply(self, source: bytes) -> bytes:
        """The file with the change made."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutants(source: bytes, path: str) -> list[Mutant]:
    """Every mutant of one file, in the order of its lines."""
    tree = ast.parse(source)
    program = ast.dump(tree)
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    seen: Counter[tuple[str, ...]] = Counter()
    found = []
    for node, within, returned in _walk(tree, "", None):
        start = offsets[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = offsets[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        before = source[start:end].decode()
        for name, operator in OPERATORS.items():
            for after in _defaults(node, returned) if operator is None else operator(node):
                place = (within, name, before, after)
                mutant = Mutant(
                    path, within or "<module>", node.lineno, name, before, after, start, end, seen[place]
                )  # type: ignore[attr-defined]
                if _is_other_program(mutant.apply(source), program):
                    seen[place] += 1
                    found.append(mutant)
    return sorted(found, key=lambda mutant: (mutant.start, mutant.operator, mutant.after))


def _walk(node: ast.AST, within: str, returned: ast.expr | None) -> Iterator[tuple[ast.AST, str, ast.expr | None]]:
    """Every node with a position that may be changed, where it is, and what its function says it returns."""
    for field, child in _children(node):
        if _is_left_alone(field, child):
            continue
        inner, promised = within, returned
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = f"{within}.{child.name}" if within else child.name
            promised = child.returns if isinstance(child, ast.FunctionDef) else None
        # The name of a method that is called is no value: `known.update(...)`. What it is called on may be one.
        called = isinstance(node, ast.Call) and field == "func" and isinstance(child, ast.Attribute)
        if hasattr(child, "lineno") and not called:
            yield child, within, returned
        yield from _walk(child, inner, promised)


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield field, child


def _is_left_alone(field: str, child: ast.AST) -> bool:
    if field in ("annotation", "returns", "decorator_list", "bases"):
        return True
    if isinstance(child, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
        return True
    return isinstance(child, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in child.targets
    )


def _is_other_program(changed: bytes, program: str) -> bool:
    try:
        return ast.dump(ast.parse(changed)) != program
    except SyntaxError:
        return False


def comparisons(node: ast.AST) -> Iterator[str]:
    """`<` for `<=`, `is` for `is not`: one of a chain at a time."""
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            ops = [*node.ops[:index], FLIPPED[type(operator)](), *node.ops[index + 1 :]]
            yield f"({ast.unparse(ast.Compare(node.left, ops, node.comparators))})"


def constants(node: ast.AST) -> Iterator[str]:
    """One more, one less, and the other truth."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield str(not node.value)
        elif isinstance(node.value, int):
            yield from (f"({node.value + 1})", f"({node.value - 1})")
        elif isinstance(node.value, float):
            yield f"({node.value + 1.0})"


def connectives(node: ast.AST) -> Iterator[str]:
    """`and` for `or`, `&` for `|`."""
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        other_bits = ast.BitOr() if isinstance(node.op, ast.BitAnd) else ast.BitAnd()
        yield f"({ast.unparse(ast.BinOp(node.left, other_bits, node.right))})"


def negations(node: ast.AST) -> Iterator[str]:
    """A `not`, a `~` or a minus that was forgotten."""
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield f"({ast.unparse(node.operand)})"


def arithmetic(node: ast.AST) -> Iterator[str]:
    """Minus for plus, times for divided by; text that is put together is left alone."""
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _is_text(node):
        yield f"({ast.unparse(ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right))})"


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        or (isinstance(side, ast.BinOp) and _is_text(side))
        for side in sides
    )


def pairs(node: ast.AST) -> Iterator[str]:
    """HOLD for UPDATE and the other way about: a value that is read, and the two arguments of a call."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in SWAPPED:
        yield SWAPPED[node.id]
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in SWAPPED:
        yield f"{ast.unparse(node.value)}.{SWAPPED[node.attr]}"
    elif isinstance(node, ast.Call):
        given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        for first, second in PAIRS.items():
            if first in given and second in given:
                exchanged = {first: given[second], second: given[first]}
                keywords = [ast.keyword(k.arg, exchanged.get(k.arg or "", k.value)) for k in node.keywords]
                yield ast.unparse(ast.Call(node.func, node.args, keywords))


def deletions(node: ast.AST) -> Iterator[str]:
    """A statement that does something, left out."""
    does = isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Break)
    does |= isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    does |= isinstance(node, ast.Assign) and not any(isinstance(target, ast.Name) for target in node.targets)
    if does:
        yield "pass"


def _defaults(node: ast.AST, returned: ast.expr | None) -> Iterator[str]:
    """An empty answer of the type that the function promises."""
    if not isinstance(node, ast.Return) or node.value is None or returned is None:
        return
    spelled = ast.unparse(returned)
    if spelled.endswith("| None"):
        yield "return None"
    for value in DEFAULTS.get(spelled.split("[")[0].split(" |")[0], ()):
        yield f"return {value}"


OPERATORS: dict[str, Operator | None] = {
    "comparison": comparisons,
    "constant": constants,
    "connective": connectives,
    "negation": negations,
    "arithmetic": arithmetic,
    "pair": pairs,
    "deletion": deletions,
    "default": None,  # needs to know what its function returns
}
