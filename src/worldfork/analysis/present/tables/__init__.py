"""A score as tables: on a screen, in Markdown or LaTeX, and beside the paper's figures."""

from worldfork.analysis.present.tables.collection import LABELS, choose, paper_tables, papers_arm, planned_tables
from worldfork.analysis.present.tables.screen import show, show_gate
from worldfork.analysis.present.tables.table import TextTable, latex, markdown

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
