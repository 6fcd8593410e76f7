"""The paper's figures beside ours. `paper.toml` holds them as printed, with the place they are from."""

import functools
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from worldfork.desk.tables.text_table import TextTable

__all__ = ["beside_paper", "not_run_yet", "stated"]

NOT_RUN: Final = "not run yet"


@functools.cache
def stated() -> dict[str, TextTable]:
    """Every table in which the paper states figures of ours."""
    given = tomllib.loads(Path(__file__).with_name("paper.toml").read_text(encoding="utf-8"))
    return {
        label: TextTable(
            label,
            f"Paper: {table['source']}.",
            tuple(table["heads"]),
            tuple(tuple(row) for row in table["rows"]),
            keys=table["keys"],
        )
        for label, table in given.items()
    }


def beside_paper(ours: TextTable) -> TextTable:
    """Above each of our rows the paper's, where it states one: once, where several of ours are about the same."""
    if ours.label not in stated() or not ours.rows:
        return ours
    paper = {row[: ours.keys]: row[ours.keys :] for row in stated()[ours.label].rows}
    rows = []
    for row in ours.rows:
        key = row[: ours.keys]
        if key in paper:
            rows.append((*key, "paper", *paper.pop(key)))
        rows.append((*key, "worldfork", *row[ours.keys :]))
    return _named(ours, rows)


def not_run_yet(ours: TextTable, tasks: Collection[str]) -> TextTable:
    """The paper's rows about these tasks, with our place below each left free. `ours` has no rows yet."""
    rows = []
    for row in stated()[ours.label].rows if ours.label in stated() else ():
        if row[0] in tasks:
            key, rest = row[: ours.keys], row[ours.keys :]
            rows += [(*key, "paper", *rest), (*key, "worldfork", NOT_RUN, *[""] * (len(rest) - 1))]
    return _named(ours, rows) if rows else ours


def _named(ours: TextTable, rows: list[tuple[str, ...]]) -> TextTable:
    heads = (*ours.heads[: ours.keys], "by", *ours.heads[ours.keys :])
    caption = f"{ours.caption} {stated()[ours.label].caption}"
    return TextTable(ours.label, caption, heads, tuple(rows), keys=ours.keys + 1)
