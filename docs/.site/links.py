"""For the site alone: what lies outside the folder of the documentation is named there and not linked."""

import re
from typing import Any

PICTURE = re.compile(r"!\[([^\]]*)\]\(\.\./[^)]+\)")
LINK = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by the builder with the text of each page."""
    return LINK.sub(r"\1 (`\2`)", PICTURE.sub(r"*\1* (in the repository)", markdown))
