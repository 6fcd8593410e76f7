"""Columns of a stranger's table: what is wrong is refused by row and column, what is absent stays absent."""

import dataclasses
from collections.abc import Iterable
from typing import Final

import numpy as np
import polars as pl
from jaxtyping import Bool

from worldfork.desk.reading.base import EPISODES
from worldfork.desk.reading.outcomes import Returns
from worldfork.errors import WorldforkError

__all__ = ["Place", "decision_points", "episodes", "names", "numbers", "returns", "whole_numbers"]

MISSING: Final = ("", "nan", "na", "null", "none")


@dataclasses.dataclass(frozen=True)
class Place:
    """How to say where in a table something is."""

    name: str
    header: bool  # line 1 is the header, so row 1 is line 2

    def row(self, index: int) -> str:
        """A row, as its author counts."""
        return f"row {index + 1} (line {index + 2})" if self.header else f"row {index + 1}"

    def refuse(self, index: int, column: str, *, problem: str) -> WorldforkError:
        """The error to raise for one entry."""
        return WorldforkError(f"`{self.name}`, {self.row(index)}, column `{column}`: {problem}")


def names(frame: pl.DataFrame, column: str, *, place: Place) -> pl.Series:
    """A column of texts, none of them empty."""
    dtype = frame[column].dtype
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        raise place.refuse(0, column, problem=f"expected names, got a column of {dtype}. Write it as text.")
    texts = frame[column].cast(pl.String).str.strip_chars()
    absent = texts.is_null() | (texts == "")
    if absent.any():
        raise place.refuse(int(absent.arg_true()[0]), column, problem="expected a name, got nothing. Fill it in.")
    for text in texts.unique().sort():
        if not text.isprintable():  # a terminal would obey it instead of showing it
            index = int((texts == text).arg_true()[0])
            raise place.refuse(index, column, problem=f"{text!r} has characters that can not be shown. Rename it.")
    return texts


def numbers(frame: pl.DataFrame, column: str, *, place: Place, required: bool) -> pl.Series:
    """A column of finite numbers; NaN where one is missing and may be."""
    values = _parsed(frame, column, place=place)
    infinite = values.is_infinite().fill_null(False)
    if infinite.any():
        problem = "expected a finite number, got an infinite one. Leave it out or cap it."
        raise place.refuse(int(infinite.arg_true()[0]), column, problem=problem)
    if required and values.null_count():
        problem = "expected a number, got nothing. Fill it in."
        raise place.refuse(int(values.is_null().arg_true()[0]), column, problem=problem)
    return values.fill_null(float("nan")).alias(column)


def returns(frame: pl.DataFrame, column: str, *, place: Place, may_fail: bool) -> pl.Series:
    """A column of returns; NaN where one is missing or infinite, which is refused unless branches `may_fail`."""
    values = _parsed(frame, column, place=place)
    missing, infinite = values.is_null(), values.is_infinite().fill_null(False)
    broken = missing | infinite
    if broken.any() and not may_fail:
        index = int(broken.arg_true()[0])
        problem = (
            f"expected a finite return, got {'nothing' if missing[index] else 'an infinite one'}. "
            "Every fork has both returns. Correct it; or, where runs crashed, say what a crashed one counts as: "
            "--failure-return NUMBER, in Python failure_return=NUMBER."
        )
        raise place.refuse(index, column, problem=problem)
    return values.set(broken, None).fill_null(float("nan")).alias(column)


def _parsed(frame: pl.DataFrame, column: str, *, place: Place) -> pl.Series:
    """A column of numbers, null where one is missing."""
    given = frame[column]
    if given.dtype == pl.String:
        texts = given.str.strip_chars()
        given = pl.select(pl.when(texts.str.to_lowercase().is_in(MISSING)).then(None).otherwise(texts)).to_series()
    elif not (given.dtype.is_numeric() or given.dtype == pl.Null):
        raise place.refuse(0, column, problem=f"expected numbers, got a column of {given.dtype}.")
    values = given.cast(pl.Float64, strict=False)
    unread = given.is_not_null() & values.is_null()
    if unread.any():
        index = int(unread.arg_true()[0])
        problem = f"expected a number, got {given[index]!r}. Correct or remove the row."
        raise place.refuse(index, column, problem=problem)
    return values.fill_nan(None)


def whole_numbers(frame: pl.DataFrame, column: str, *, place: Place) -> pl.Series:
    """A column of whole numbers from 0."""
    values = numbers(frame, column, place=place, required=True)
    wrong = (values != values.round()) | (values < 0) | (values > 2**53)
    if wrong.any():
        index = int(wrong.arg_true()[0])
        raise place.refuse(index, column, problem=f"expected a whole number from 0, got {values[index]:g}.")
    return values.cast(pl.Int64)


def decision_points(frame: pl.DataFrame, *, place: Place) -> pl.Series:
    """The column `k`: whole numbers from 1."""
    values = whole_numbers(frame, "k", place=place)
    zero = values == 0
    if zero.any():
        problem = "decision points are counted from 1, and this one is 0. Add 1 to every k."
        raise place.refuse(int(zero.arg_true()[0]), "k", problem=problem)
    return values


def episodes(frame: pl.DataFrame, *, place: Place, failed: Bool[np.ndarray, "rows"]) -> dict[str, list[Returns]]:
    """The return of every episode of both branches, row by row; nothing where either column is absent. A fork with
    a `failed` branch may have none of that branch."""
    if any(column not in frame.columns for column in EPISODES):
        return {}
    lists = {
        column: [_returns(value, index, column, place) for index, value in enumerate(frame[column])]
        for column in EPISODES
    }
    for index, (hold, update) in enumerate(zip(*lists.values(), strict=True)):
        if len(hold) != len(update) and not (failed[index] and 0 in (len(hold), len(update))):
            problem = f"{len(update)} returns against {len(hold)} in `hold`: episodes are paired one to one."
            raise place.refuse(index, "update", problem=problem)
    return lists


def _returns(value: object, index: int, column: str, place: Place) -> Returns:
    if value is None:
        return ()
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise place.refuse(index, column, problem=f"expected a list of returns, got {value!r:.40}.")
    try:
        # None is a return that was not finite: it stays out of every variance.
        return np.array(list(value), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        problem = "expected a list of numbers; an entry is not one, or is too large."
        raise place.refuse(index, column, problem=problem) from None
