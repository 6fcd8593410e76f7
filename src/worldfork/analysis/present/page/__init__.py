"""The page: one HTML file with everything that a study says, its live view, and an index of several."""

from worldfork.analysis.present.page.index import index_line, render_index, write_index
from worldfork.analysis.present.page.live import Watched, server
from worldfork.analysis.present.page.material import Material, gather
from worldfork.analysis.present.page.page import Page, default_place, page_name, render, write_page

__all__ = [
    "Material",
    "Page",
    "Watched",
    "default_place",
    "gather",
    "index_line",
    "page_name",
    "render",
    "render_index",
    "server",
    "write_index",
    "write_page",
]
