"""Tables and paragraphs in every medium: Markdown, LaTeX, CSV, HTML and the terminal.

A renderer knows a medium and no table in particular.
"""

import csv as csv_writer
import dataclasses
import io
import re
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from worldfork.analysis.present.table import Block, Column, Heading, Paragraph, Table, Toned
from worldfork.analysis.present.text.formatting import minus
from worldfork.analysis.present.text.terms import TERMS

if TYPE_CHECKING:
    import rich.table
    from rich.console import Console


def markdown(table: Table) -> str:
    """Return the table for a README or an issue."""
    ruler = ("---" if table.words(index) else "---:" for index in range(len(table.heads)))
    lines = [table.heads, tuple(ruler), *table.rows]
    below = ["", table.folded] if table.folded else []
    return "\n".join([f"**{table.caption}**", "", *("| " + " | ".join(line) + " |" for line in lines), *below, ""])


def latex(table: Table) -> str:
    """Return the table for a paper; it needs booktabs."""
    alignment = "".join("l" if table.words(index) else "r" for index in range(len(table.heads)))
    lines = [
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{_in_latex(' '.join(filter(None, (table.caption, table.folded))))}}}",
        rf"\label{{tab:{table.label}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        " & ".join(_in_latex(head) for head in table.heads) + r" \\",
        r"\midrule",
        *(" & ".join(_in_latex(cell) for cell in row) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _in_latex(text: str) -> str:
    escaped = re.sub(r"([_%&#$])", r"\\\1", text).replace("–", "--").replace("dR", r"$\Delta R$")
    return re.sub(r"(?<![\w$\\-])(\[[^\]]*\]|[+-]?\.?\d[\d.,]*\d|[+-]?\.?\d)(?![\w$-])", r"$\1$", escaped)


def csv(table: Table) -> str:
    """Return the heads and rows, separated by commas; the caption is left out.

    >>> csv(Table("effects", "Mean dR.", ("Task", "mean"), (("walker-walk", "-5.7 [-26.7, +15.4]"),)))
    'Task,mean\\nwalker-walk,"-5.7 [-26.7, +15.4]"\\n'
    """
    buffer = io.StringIO()
    writer = csv_writer.writer(buffer, lineterminator="\n")
    writer.writerows([table.heads, *table.rows])
    return buffer.getvalue()


def html(block: Block) -> str:
    """Return the block for a page or a notebook, with no script and no style of its own.

    Cells of words have the class `left`, toned ones `good`, `bad` or `open`; a head with a definition is a `term`.
    """
    match block:
        case Heading(text):
            return f"<h3>{escape(text)}</h3>"
        case Paragraph():
            lead = f"<strong{_class(block.tone)}>{_in_html(block.lead)}</strong>" if block.lead else ""
            names = "faint" if block.faint else "" if block.lead else block.tone
            return f"<p{_class(names)}>{lead}{_in_html(block.text)}</p>"
        case Table():
            return _html_table(block)


def _html_table(table: Table) -> str:
    caption = f"<caption>{_in_html(table.caption)}</caption>" if table.caption else ""
    columns = range(table.grouped, len(table.layout))
    heads = "".join(
        f'<th scope="col"{_class(_side(table, index))}>{_head(table.layout[index])}</th>' for index in columns
    )
    rows: list[str] = []
    group = None
    for row in table.rows:
        if table.grouped and row[0] != group:
            group = row[0]
            rows.append(f'<tr><th scope="rowgroup" colspan="{len(columns)}">{_in_html(group)}</th></tr>')
        cells = [_html_cell(table, index, row[index]) for index in range(table.grouped, len(row))]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    if table.folded:
        rows.append(f'<tr><td class="left" colspan="{len(columns)}">{_in_html(table.folded)}</td></tr>')
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _html_cell(table: Table, index: int, cell: str) -> str:
    tone = cell.tone if isinstance(cell, Toned) else ""
    if index < table.keys:
        return f'<th scope="row"{_class(tone)}>{_in_html(cell)}</th>'
    return f"<td{_class(' '.join(filter(None, (_side(table, index), tone))))}>{_in_html(cell)}</td>"


def _side(table: Table, index: int) -> str:
    """Return the class of a column that is set to the left."""
    return "left" if table.words(index) else ""


def _head(column: Column) -> str:
    if not column.term:
        return _in_html(column.head)
    means = escape(TERMS[column.term])
    return f'<span class="term" tabindex="0" data-means="{means}">{_in_html(column.head)}</span>'


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""


def _in_html(text: str) -> str:
    return escape(minus(text))


COLOURS = {"good": "green", "bad": "red", "open": "yellow", "": ""}
GAP = 2  # between two columns of a screen
NARROW_KEY = 26  # a name is broken at its hyphens beyond this where a screen has no room for the row


def show(blocks: Iterable[Block], console: "Console") -> None:
    """Print headings, paragraphs and tables on a screen of any width."""
    from rich.padding import Padding
    from rich.text import Text

    for place, block in enumerate(blocks):
        match block:
            case Heading(text):
                if place:
                    console.print()
                console.rule(Text(text, style="bold"))
            case Paragraph():
                lead = Text(block.lead, style=f"bold {COLOURS[block.tone]}".strip())
                style = "dim" if block.faint else "" if block.lead else COLOURS[block.tone]
                console.print(Text.assemble(lead, Text(block.text, style=style)))
            case Table():
                if block.caption:
                    console.print(Text(block.caption))
                for part in _parts(block, console.width):
                    console.print(_on_screen(part))
                if block.folded:
                    console.print(Padding(Text(block.folded, style="dim"), (0, 0, 0, 2 * block.grouped)))


def plain(blocks: Iterable[Block], *, width: int = 100) -> str:
    """Return what `show` prints, without colours."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None)
    show(blocks, console)
    written = console.file
    assert isinstance(written, io.StringIO)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def _parts(table: Table, width: int) -> list[Table]:
    """Return the table in parts of some columns each, so that each part fits on a screen; keys stand in every part.

    Heads are broken at spaces and names at hyphens first, then optional columns are left out from the last one on.
    What is still too wide is set in several parts: an interval is never broken.
    """
    shown = list(range(len(table.heads)))
    if _width(table, shown) <= width:
        return [_of_columns(table, shown)]
    narrow = _narrowed(table)
    for index in reversed(range(len(table.heads))):
        if table.layout[index].optional and _width(narrow, shown) > width:
            shown.remove(index)
    if _width(table, shown) <= width:
        return [_of_columns(table, shown)]
    keys, parts = shown[: table.keys], [shown[: table.keys]]
    for index in shown[table.keys :]:
        if len(parts[-1]) > table.keys and _width(narrow, [*parts[-1], index]) > width:
            parts.append(list(keys))
        parts[-1].append(index)
    return [_of_columns(narrow, part) for part in parts]


def _narrowed(table: Table) -> Table:
    """Return the table with names and heads over several lines: nothing of them is left out."""
    names = range(table.grouped, table.keys)
    rows = [
        ["\n".join(textwrap.wrap(cell, NARROW_KEY)) if index in names else cell for index, cell in enumerate(row)]
        for row in table.rows
    ]
    columns = []
    for index, column in enumerate(table.layout):
        width = max(map(len, [*_lines(rows, index), *column.head.split(), "-"]))
        head = "\n".join(textwrap.wrap(column.head, width, break_on_hyphens=False))
        columns.append(dataclasses.replace(column, head=head))
    return dataclasses.replace(table, columns=columns, rows=rows)


def _lines(rows: Sequence[Sequence[str]], index: int) -> list[str]:
    return [line for row in rows for line in row[index].split("\n")]


def _of_columns(table: Table, shown: Sequence[int]) -> Table:
    columns = [table.layout[index] for index in shown]
    rows = [[row[index] for index in shown] for row in table.rows]
    return dataclasses.replace(table, caption="", columns=columns, rows=rows, folded="")


def _width(table: Table, shown: Sequence[int]) -> int:
    """Return how many columns of a screen the table needs."""
    of_columns = [index for index in shown if not (table.grouped and index == 0)]
    widths = [max(map(len, [*_lines([table.heads, *table.rows], index), ""])) for index in of_columns]
    return sum(widths) + GAP * (len(widths) - 1) + GAP * table.grouped


def _on_screen(table: Table) -> "rich.table.Table":
    import rich.table
    from rich.text import Text

    drawn = rich.table.Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for index in range(table.grouped, len(table.heads)):
        drawn.add_column(
            table.heads[index],
            justify="left" if table.words(index) else "right",
            no_wrap=table.grouped or index >= table.keys,
        )
    group = None
    for row in table.rows:
        if table.grouped and row[0] != group:
            group = row[0]
            drawn.add_row(Text(group, style="dim"))
        cells = [Text(cell, style=COLOURS[cell.tone] if isinstance(cell, Toned) else "") for cell in row]
        if table.grouped:
            cells = [Text.assemble("  ", cells[1]), *cells[2:]]
        drawn.add_row(*cells)
    return drawn
