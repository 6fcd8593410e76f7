"""Material of a page: a ledger, and all that scoring says about it."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from worldfork.analysis.read.ledger import Ledger, Source, open_ledger
from worldfork.analysis.read.outcomes import Table
from worldfork.analysis.read.study import Rows
from worldfork.analysis.score import Rules, Score, score_ledger
from worldfork.ledger.store import Study
from worldfork.progress import Progress, silent
from worldfork.triggers import Trigger


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

    @property
    def table(self) -> Table:
        return self.ledger.table

    @property
    def rules(self) -> Rules:
        return self.score.rules


def gather(
    source: Source,
    *,
    seed: int = 0,
    permutations: int = 20_000,
    triggers: Sequence[str | Trigger] | str | None = None,
    higher_is_better: bool = True,
    failure_return: float | None = None,
    progress: Progress = silent,
) -> Material:
    """Read and score a study, a flat table or a data frame.

    `triggers` are those to compare, where not all that can be read without importing anything; `higher_is_better`
    and `failure_return` say how a flat table is read.
    """
    ledger = open_ledger(source, higher_is_better=higher_is_better, failure_return=failure_return)
    scored = score_ledger(ledger, seed=seed, permutations=permutations, triggers=triggers, progress=progress)
    is_table = ledger.study is None and ledger.recorder is None
    file = Path(source) if is_table and isinstance(source, str | Path) else None
    return Material(ledger, scored, file)
