"""Material of a page: a ledger, and all that scoring says about it."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worldfork.analysis.read.ledger import Ledger, Source, open_ledger
from worldfork.analysis.score import Score, score_ledger
from worldfork.ledger.row import Rows
from worldfork.ledger.store import Study
from worldfork.progress import Progress, silent


@dataclasses.dataclass(frozen=True)
class Material:
    """A ledger, scored. A flat table has no study, so neither rows nor streams nor a registration."""

    ledger: Ledger
    score: Score
    file: Path | None = None  # of a flat table

    @property
    def name(self) -> str:
        """Name of the page."""
        return self.ledger.name

    @property
    def study(self) -> Study | None:
        return self.ledger.study

    @property
    def question(self) -> str:
        """Question of a recorded ledger."""
        return self.ledger.recorder.question if self.ledger.recorder is not None else ""

    @property
    def rows(self) -> Rows:
        return self.ledger.rows


def gather(
    source: Source,
    *,
    higher_is_better: bool = True,
    failure_return: float | None = None,
    columns: Mapping[str, str] | None = None,
    progress: Progress = silent,
    **changes: Any,
) -> Material:
    """Read and score a study, a flat table or a data frame.

    `higher_is_better`, `failure_return` and `columns` say how a flat table is read; `changes` are of the rules, as
    in `score_ledger`.
    """
    ledger = open_ledger(source, higher_is_better=higher_is_better, failure_return=failure_return, columns=columns)
    scored = score_ledger(ledger, progress=progress, **changes)
    is_table = ledger.study is None and ledger.recorder is None
    file = Path(source) if is_table and isinstance(source, str | Path) else None
    return Material(ledger, scored, file)
