"""A score as headings, paragraphs and tables, before anyone has chosen a medium.

`tables` and `text` build these from records; `render` writes them. Cells are text, formatted where the table is
built: the values themselves are in the frames of a `Score`.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from worldfork.analysis.present.strips import Strip

Tone = Literal["good", "bad", "open", "badge", ""]  # a badge is a grade of evidence


class Cell(str):
    """Text of a cell, with what a medium may add: a colour, all digits, an explanation, a link.

    >>> cell = Cell("-5.7", values=(-5.703,))
    >>> cell, cell.values, cell.tone
    ('-5.7', (-5.703,), '')
    """

    tone: Tone
    values: tuple[float, ...]  # the numbers that it shows, with every digit
    note: str  # why a figure is undefined, or what a word means here
    link: str

    def __new__(
        cls, text: str, tone: Tone = "", *, values: tuple[float, ...] = (), note: str = "", link: str = ""
    ) -> "Cell":
        """Return `text` with what goes with it."""
        cell = super().__new__(cls, text)
        cell.tone, cell.values, cell.note, cell.link = tone, values, note, link
        return cell


@dataclasses.dataclass(frozen=True)
class Column:
    """Head of a column and how its cells are set.

    `term` names the definition of the head in `TERMS`. Cells are set to the right, as numbers are, unless the
    column is `words`. A screen that is too narrow for all columns leaves out the `optional` ones first.
    """

    head: str
    term: str = ""
    words: bool = False
    optional: bool = False


Cells = Sequence[tuple[str | Column, str]]  # under their heads


class Row(NamedTuple):
    """Row of a table: what it is about, a cell under each head, and its chart."""

    key: Sequence[str]
    cells: Cells
    strip: Strip | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """Caption, columns and rows; the first `keys` columns say what a row is about.

    In a `grouped` table the first column is a heading of the rows that share it. `folded` stands below the rows and
    says which others were left out, as policies that never fired. `strips` are the charts of the rows, one each,
    for a medium that can draw.

    >>> from worldfork.analysis.present.render import markdown
    >>> print(markdown(Table("effects", "Mean dR.", ("Task", "mean"), (("walker-walk", "-5.7"),))))
    **Mean dR.**
    <BLANKLINE>
    | Task | mean |
    | --- | ---: |
    | walker-walk | -5.7 |
    <BLANKLINE>
    """

    label: str
    caption: str
    columns: Sequence[str | Column]
    rows: Sequence[Sequence[str]]
    keys: int = 1
    grouped: bool = False
    folded: str = ""
    strips: Sequence[Strip] = ()

    @classmethod
    def of(cls, label: str, caption: str, keys: Sequence[str], rows: Iterable[Row]) -> "Table":
        """Return a table of rows that name their columns.

        Args:
            label: the name of the table.
            caption: the sentence above it.
            keys: heads of the columns that say what a row is about.
            rows: what each is about, its cells under their heads, and its chart.

        >>> rows = [Row([task], [("mean", mean)]) for task, mean in (("walker", "-5.7"), ("cheetah", "+3.1"))]
        >>> Table.of("means", "Mean dR.", ["Task"], rows).rows
        (('walker', '-5.7'), ('cheetah', '+3.1'))
        """
        listed = list(rows)
        heads = [head for head, _ in listed[0].cells] if listed else []
        cells = [(*row.key, *(cell for _, cell in row.cells)) for row in listed]
        strips = [row.strip for row in listed if row.strip is not None]
        return cls(label, caption, [*keys, *heads], cells, keys=len(keys), strips=strips)

    def __post_init__(self) -> None:
        columns = tuple(Column(column) if isinstance(column, str) else column for column in self.columns)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows))

    @property
    def layout(self) -> tuple[Column, ...]:
        """Every column with its settings."""
        return tuple(column if isinstance(column, Column) else Column(column) for column in self.columns)

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the columns."""
        return tuple(column.head for column in self.layout)

    def words(self, index: int) -> bool:
        """Return whether the cells of a column are set to the left."""
        return index < self.keys or self.layout[index].words

    def without(self, *heads: str) -> "Table":
        """Return the table without these columns, and with as many fewer keys."""
        return self.at([index for index, head in enumerate(self.heads) if head not in heads])

    def brief(self) -> "Table":
        """Return the table without its optional columns."""
        return self.at([index for index, column in enumerate(self.layout) if not column.optional])

    def filled(self) -> "Table":
        """Return the table without columns that are empty in every row; keys stay."""
        return self.at(
            [at for at in range(len(self.columns)) if at < self.keys or any(row[at] for row in self.rows)]
        )

    def at(self, kept: Sequence[int]) -> "Table":
        """Return the table with the columns at these places alone."""
        return dataclasses.replace(
            self,
            columns=[self.layout[index] for index in kept],
            rows=[[row[index] for index in kept] for row in self.rows],
            keys=sum(index < self.keys for index in kept),
        )

    def records(self) -> list[dict[str, str]]:
        """Return the rows as dictionaries by head."""
        return [dict(zip(self.heads, row, strict=True)) for row in self.rows]


@dataclasses.dataclass(frozen=True)
class Heading:
    """Heading of a part of a summary: a task, or two arms."""

    text: str


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """Sentences; `lead` stands before them in bold. `tone` is of the lead, or of all. Remarks are `faint`."""

    text: str
    lead: str = ""
    tone: Tone = ""
    faint: bool = False


Block = Heading | Paragraph | Table
