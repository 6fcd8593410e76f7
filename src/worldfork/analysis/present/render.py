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
from typing import TYPE_CHECKING, Final

from worldfork.analysis.present.strips import EDGE, Axis, Strip, axis_of
from worldfork.analysis.present.table import Block, Cell, Column, Heading, Paragraph, Table
from worldfork.analysis.present.text.formatting import defined, minus
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.score.undefined import Interval

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


def html(block: Block, *, charts: bool = False) -> str:
    """Return the block for a notebook, or with `charts` for a page that has their style; no script is in it.

    Cells of words have the class `left`, toned ones `good`, `bad` or `open`; a word with a definition is a `term`.
    Numbers keep every digit in <data>. Each cell names its column, for screens that set a row over several lines.
    """
    match block:
        case Heading(text):
            return f"<h3>{escape(text)}</h3>"
        case Paragraph():
            lead = f"<strong{_class(block.tone)}>{_in_html(block.lead)}</strong>" if block.lead else ""
            names = "faint" if block.faint else "" if block.lead else block.tone
            return f"<p{_class(names)}>{lead}{_in_html(block.text)}</p>"
        case Table():
            return _html_table((block if charts else dataclasses.replace(block, strips=())).filled())


def _html_table(table: Table) -> str:
    caption = f"<caption>{_in_html(table.caption)}</caption>" if table.caption else ""
    axis = axis_of(table.strips) if table.strips else None
    columns = range(table.grouped, len(table.layout))
    heads = [f'<th scope="col"{_class(_side(table, index))}>{_head(table.layout[index])}</th>' for index in columns]
    drawn_at = table.keys - table.grouped
    if axis is not None:
        heads.insert(drawn_at, f'<th class="wide">{axis_line(axis)}</th>')
    across, rows, group = len(heads), [], None
    for place, row in enumerate(table.rows):
        if table.grouped and row[0] != group:
            group = row[0]
            term = _explained(_in_html(group), group.note if isinstance(group, Cell) else "")
            rows.append(f'<tr class="group"><th scope="rowgroup" colspan="{across}">{term}</th></tr>')
        cells = [_html_cell(table, index, row[index]) for index in columns]
        if axis is not None:
            cells.insert(drawn_at, f'<td class="wide">{strip(axis, table.strips[place])}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    if table.folded:
        rows.append(
            f'<tr class="group"><td class="left wrap" colspan="{across}">{_in_html(table.folded)}</td></tr>'
        )
    body = f"<thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f"<table{_class('strips' if axis else '')}>{caption}{body}</table>"


def _html_cell(table: Table, index: int, text: str) -> str:
    cell = text if isinstance(text, Cell) else Cell(text)
    shown = re.sub(r"(?<=\[)[^]]*", lambda inside: inside[0].replace(" ", "\N{NO-BREAK SPACE}"), _in_html(cell))
    if cell.values:
        shown = f'<data value="{escape(" ".join(map(repr, map(float, cell.values))))}">{shown}</data>'
    if cell.tone == "badge":
        shown = f'<span class="grade {cell}" tabindex="0" data-means="{escape(cell.note)}">{shown}</span>'
    elif cell.link:
        shown = f'<a href="{escape(cell.link)}">{shown}</a>'
    else:
        shown = _explained(shown, cell.note)
    tone = "" if cell.tone == "badge" else cell.tone
    if index < table.keys:
        return f'<th scope="row"{_class(tone)}>{shown}</th>'
    long = "wrap" if len(cell) > LONG and not cell.values else ""
    names = [_side(table, index), tone, long, "" if cell else "empty"]
    head = escape(table.heads[index], quote=True)
    return f'<td{_class(" ".join(filter(None, names)))} data-head="{head}">{shown}</td>'


def _side(table: Table, index: int) -> str:
    """Return the class of a column that is set to the left."""
    return "left" if table.words(index) else ""


def _head(column: Column) -> str:
    return _explained(_in_html(column.head), TERMS[column.term] if column.term else "")


def _explained(shown: str, note: str) -> str:
    """Return HTML that says more by pointer and by keyboard."""
    return f'<span class="term" tabindex="0" data-means="{escape(note)}">{shown}</span>' if note else shown


def strip(axis: Axis, drawn: Strip) -> str:
    """Return places on a line, in per cent of its width: a chart without a script. The numbers stand beside it."""
    parts = [_mark("zero", axis, 0.0), *(f'<i class="fold" style="left:{fold:.2f}%"></i>' for fold in axis.folds)]
    if interval := defined(drawn.chance_interval):
        parts += [_bar("band", axis, interval), _mark("chance", axis, defined(drawn.chance))]
    parts += [_bar("thin", axis, defined(drawn.student_t)), _bar("thick", axis, defined(drawn.bootstrap))]
    parts += [_mark("checkpoint", axis, value) for value in drawn.dots]
    parts += [_mark("forecast", axis, None if drawn.forecast is None else defined(drawn.forecast))]
    parts += [_mark(f"mean {drawn.kind}".strip(), axis, defined(drawn.mean))]
    return f'<span class="strip{" tall" if drawn.checkpoints else ""}" aria-hidden="true">{"".join(parts)}</span>'


def _mark(name: str, axis: Axis, value: float | None, text: str = "") -> str:
    return "" if value is None else f'<i class="{name}" style="left:{axis.at(value):.2f}%">{text}</i>'


def _bar(name: str, axis: Axis, ends: Interval | None) -> str:
    return "" if ends is None else f'<i class="{name}" style="{place(axis, *ends)}"></i>'


def place(axis: Axis, low: float, high: float) -> str:
    """Return the style of a bar from one value to another."""
    left, right = axis.at(low), axis.at(high)
    return f"left:{left:.2f}%;width:{max(0.4, right - left):.2f}%"


def axis_line(axis: Axis) -> str:
    """Return the labelled ticks of a line; labels at its ends do not stick out."""
    texts = {tick: minus(f"{tick:,.10g}") for tick in axis.labelled}
    ticks = []
    for tick, text in texts.items():
        place, minor = axis.at(tick), "minor" if axis.minor(tick) else ""
        end = "first" if place < EDGE else "last" if place > 100 - EDGE else ""
        ticks.append(f'<b{_class(f"{minor} {end}".strip())} style="left:{place:.2f}%">{text}</b>')
    long = " long" if max(map(len, texts.values())) > LONG_LABEL else ""
    return f'<span class="strip ticks{long}" aria-hidden="true">{"".join(ticks)}</span>'


LONG_LABEL: Final = 4  # characters of a tick that take more room than most


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""


def _in_html(text: str) -> str:
    return escape(minus(text))


LONG = 24  # characters of words that a cell of a page breaks
COLOURS = {"good": "green", "bad": "red", "open": "yellow", "badge": "", "": ""}
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
                for part in _parts(block.filled(), console.width):
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
        return [table.at(shown)]
    narrow = _narrowed(table)
    for index in reversed(range(len(table.heads))):
        if table.layout[index].optional and _width(narrow, shown) > width:
            shown.remove(index)
    if _width(table, shown) <= width:
        return [table.at(shown)]
    keys, parts = shown[: table.keys], [shown[: table.keys]]
    for index in shown[table.keys :]:
        if len(parts[-1]) > table.keys and _width(narrow, [*parts[-1], index]) > width:
            parts.append(list(keys))
        parts[-1].append(index)
    return [narrow.at(part) for part in parts]


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


def _width(table: Table, shown: Sequence[int]) -> int:
    """Return how many columns of a screen the table needs."""
    of_columns = [index for index in shown if not (table.grouped and index == 0)]
    widths = [max(map(len, [*_lines([table.heads, *table.rows], index), ""])) for index in of_columns]
    if table.grouped and shown[:2] == [0, 1]:  # headings stand in the column of the names, which are indented
        widths[0] = max(widths[0] + GAP, *map(len, _lines(table.rows, 0)))
    return sum(widths) + GAP * (len(widths) - 1)


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
        cells = [Text(cell, style=COLOURS[cell.tone] if isinstance(cell, Cell) else "") for cell in row]
        if table.grouped:
            cells = [Text.assemble("  ", cells[1]), *cells[2:]]
        drawn.add_row(*cells)
    return drawn
