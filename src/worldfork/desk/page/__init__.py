"""The page: one HTML file with everything that a study says, and its live view."""

from worldfork.desk.page.index import index_line, render_index
from worldfork.desk.page.live import Watched, server
from worldfork.desk.page.material import Material, gather
from worldfork.desk.page.page import Page, default_place, render, write_page

__all__ = [
    "Material",
    "Page",
    "Watched",
    "default_place",
    "gather",
    "index_line",
    "render",
    "render_index",
    "server",
    "write_page",
]
