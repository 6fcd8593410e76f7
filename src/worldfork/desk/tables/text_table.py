"""A table as text, before anyone has chosen how to write it, and the two ways to write it."""

import dataclasses
import re

__all__ = ["TextTable", "latex", "markdown"]


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
