"""A table as text, before anyone has chosen how to write it."""

import dataclasses

__all__ = ["PaperTable"]


@dataclasses.dataclass(frozen=True)
class PaperTable:
    """A caption, column heads, rows. The first `keys` columns say what a row is about."""

    label: str
    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: int = 1
