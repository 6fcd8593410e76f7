"""A table as text, before anyone has chosen how to write it, and the two ways to write it."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from worldfork.analysis.score import Score


@dataclasses.dataclass(frozen=True)
class TextTable:
    """A caption, column heads, rows. The first `keys` columns say what a row is about."""

    label: str
    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: int = 1


def markdown(table: TextTable) -> str:
    """The table for a README or an issue."""
    ruler = ("---" if index < table.keys else "---:" for index in range(len(table.heads)))
    lines = [table.heads, tuple(ruler), *table.rows]
    return "\n".join([f"**{table.caption}**", "", *("| " + " | ".join(line) + " |" for line in lines), ""])


def latex(table: TextTable) -> str:
    """The table for a paper; it needs booktabs."""
    body = [" & ".join(_math(cell) for cell in row) + r" \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\small",
            rf"\caption{{{_math(table.caption)}}}",
            rf"\label{{tab:{table.label}}}",
            rf"\begin{{tabular}}{{{'l' * table.keys}{'r' * (len(table.heads) - table.keys)}}}",
            r"\toprule",
            " & ".join(_math(head) for head in table.heads) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _math(text: str) -> str:
    escaped = re.sub(r"([_%&#$])", r"\\\1", text).replace("–", "--").replace("dR", r"$\Delta R$")
    return re.sub(r"(?<![\w$\\-])(\[[^\]]*\]|[+-]?\.?\d[\d.,]*\d|[+-]?\.?\d)(?![\w$-])", r"$\1$", escaped)


def scalars(score: Score) -> pl.DataFrame:
    """One row per figure, `name` and `value`; names are paths into the score's JSON. Undefined ones are missing."""
    plain = {name: value for name, value in score.to_json().items() if name not in ("schema", "undefined")}
    rows = [{"name": name, "value": value} for name, value in _numbers(plain, "")]
    return pl.DataFrame(rows, schema={"name": pl.String, "value": pl.Float64})


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, int | float):
        yield path, float(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(inner, f"{path}/{name}" if path else str(name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _numbers(inner, f"{path}/{_label(inner, place)}")


def _label(item: Any, place: int) -> str:
    """An item of a list by its name, where it has one."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else str(place)
