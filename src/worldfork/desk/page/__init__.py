"""The page: one HTML file with everything that a study says, and its live view."""

from worldfork.desk.page.live import Watched, server
from worldfork.desk.page.material import Material, gather
from worldfork.desk.page.page import Page, default_place, render, write_page

__all__ = ["Material", "Page", "Watched", "default_place", "gather", "render", "server", "write_page"]
