"""A score as tables: on a screen, in Markdown or LaTeX, and beside the paper's figures."""

from worldfork.desk.tables.collection import LABELS, choose, paper_tables, planned_tables
from worldfork.desk.tables.paper import papers_arm
from worldfork.desk.tables.screen import show, show_gate
from worldfork.desk.tables.text_table import TextTable, latex, markdown

__all__ = [
    "LABELS",
    "TextTable",
    "choose",
    "latex",
    "markdown",
    "paper_tables",
    "papers_arm",
    "planned_tables",
    "show",
    "show_gate",
]
