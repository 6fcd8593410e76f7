"""What a report is made of: the forks of a study or of a flat table, and all that scoring says about them."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worldfork.desk.reading.ledger import open_ledger
from worldfork.desk.reading.study import Rows
from worldfork.desk.reading.table import Table
from worldfork.desk.scoring import Rules, Score, score_ledger
from worldfork.errors import WorldforkError
from worldfork.ledger.store import Study

__all__ = ["Material", "gather", "manifests"]


@dataclasses.dataclass(frozen=True)
class Material:
    """A ledger, scored. A flat table has no study, so neither rows nor streams nor a registration."""

    path: Path
    rules: Rules
    table: Table
    score: Score
    study: Study | None = None
    rows: Rows = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the page calls itself."""
        return self.study.registration.name if self.study else self.path.name


def gather(
    path: Path,
    *,
    seed: int = 0,
    permutations: int = 20_000,
    begin: Callable[[int], None] = lambda forks: None,
    watch: Callable[[str], None] = lambda what: None,
    advance: Callable[[int], None] = lambda forks: None,
) -> Material:
    """Read and score the ledger at `path`; every later arm is compared with the first. `begin` hears of how many
    forks there are to score, `watch` and `advance` of how far it got."""
    ledger = open_ledger(path)
    begin(len(ledger.table))
    finished = 0

    def progress(what: str, done: int, total: int) -> None:
        nonlocal finished
        watch(what)
        advance(done - finished)
        finished = done

    scored = score_ledger(ledger, seed=seed, permutations=permutations, progress=progress)
    return Material(
        path=path, rules=scored.rules, table=ledger.table, score=scored, study=ledger.study, rows=ledger.rows
    )


def manifests(study: Study) -> list[dict[str, Any]]:
    """The manifests of the study's checkpoints, those that were trained rather than generated."""
    found = []
    for path in sorted((study.path / "checkpoints").glob("*.json")):
        try:
            found.append({"file": path.stem, **json.loads(path.read_text(encoding="utf-8"))})
        except (OSError, ValueError) as error:
            raise WorldforkError(
                f"`{path}` is not a readable manifest ({error}). Run `worldfork verify`."
            ) from error
    return found
