"""Strict records, and messages about values that are not valid ones."""

import re
import typing
from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails


class Record(BaseModel):
    """Frozen and strict: an unknown field is an error, a number is never a string."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


# What pydantic calls an error -> what is expected; braces are filled from the error's context.
EXPECTED: Final = {
    "missing": "it is missing",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "bool_type": "expected true or false",
    "string_type": "expected a text in quotes",
    "finite_number": "expected a finite number",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "dict_type": "expected a table",
    "model_type": "expected a table",
    "model_attributes_type": "expected a table",
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected {ge} or more",
    "less_than": "expected less than {lt}",
    "less_than_equal": "expected {le} or less",
    "literal_error": "expected {expected}",
    "too_short": "expected at least {min_length} of them",
    "too_long": "expected at most {max_length} of them",
    "string_pattern_mismatch": "expected a name in small letters, digits, `_`, `.` and single `-`",
}
# The name that pydantic gives to one of the kinds that a setting may have.
KIND: Final = re.compile(r"(float|int|bool|str|literal\[.*\])$")


def explain(
    error: ValidationError, model: type[BaseModel], *, place: str = "", also: Sequence[str] = ()
) -> list[str]:
    """Return a line for each mistake: its place, what was expected, what came.

    `place` precedes each location; `also` are settings that the file may have and the record has not.
    """
    details = error.errors()
    # A list whose only item is wrong is also too short by then: only the innermost mistake is the author's.
    inner = [detail for detail in details if not any(_contains(detail["loc"], other["loc"]) for other in details)]
    return [_line(detail, model, place, also) for detail in _by_setting(inner)]


def _by_setting(details: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Join the errors of a setting that may be of several kinds, such as a word or a number, into one."""
    joined: dict[tuple[int | str, ...], ErrorDetails] = {}
    for detail in details:
        location = detail["loc"]
        if location and KIND.match(str(location[-1])):
            location = location[:-1]
            before = [joined[location]["ctx"]["expected"]] if location in joined else []
            expected = ", or ".join([*before, _expected(detail).removeprefix("expected ")])
            detail = {**detail, "type": "literal_error", "loc": location, "ctx": {"expected": expected}}
        joined[location] = detail
    return list(joined.values())


def _contains(outer: Sequence[int | str], inner: Sequence[int | str]) -> bool:
    return len(outer) < len(inner) and tuple(inner[: len(outer)]) == tuple(outer)


def _line(detail: ErrorDetails, model: type[BaseModel], place: str, also: Sequence[str]) -> str:
    location = ".".join(str(part) for part in (*([place] if place else []), *detail["loc"])) or "the file"
    if detail["type"] == "extra_forbidden":
        fields = [field.alias or name for name, field in _at(model, detail["loc"][:-1]).items()]
        settings = ", ".join(sorted([*fields, *(also if len(detail["loc"]) == 1 else ())]))
        return f"{location}: not a known setting; " + (
            f"known here: {settings}" if settings else "there are none here"
        )
    if detail["type"] in ("value_error", "assertion_error"):
        return f"{location}: {detail['msg'].removeprefix('Value error, ').removeprefix('Assertion failed, ')}"
    came = "" if detail["type"] == "missing" else f"; got {detail.get('input')!r:.60}"
    return f"{location}: {_expected(detail)}{came}"


def _expected(detail: ErrorDetails) -> str:
    """Return what was expected in words."""
    template = EXPECTED.get(detail["type"])
    return template.format(**detail.get("ctx", {})) if template else detail["msg"]


def _at(model: Any, location: Sequence[int | str]) -> dict[str, Any]:
    """The fields of the record at `location` inside `model`."""
    for part in location:
        fields = getattr(model, "model_fields", {})
        model = fields[part].annotation if part in fields else model
        model = _record_inside(model) or model
    return dict(getattr(model, "model_fields", {}))


def _record_inside(annotation: Any) -> Any:
    """The record that a list, a table or an optional holds."""
    if not typing.get_args(annotation):
        return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    inside = (_record_inside(argument) for argument in typing.get_args(annotation))
    return next((record for record in inside if record is not None), None)
