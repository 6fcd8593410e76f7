"""What a report is made of: the forks of a study or of a flat table, and all that scoring says about them."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worldfork.desk.reading import table
from worldfork.desk.scoring import Rules, Score, score
from worldfork.errors import WorldforkError
from worldfork.ledger.row import ForkRow
from worldfork.ledger.store import Study
from worldfork.registration import Cell, cells

__all__ = ["Material", "gather", "manifests", "open_ledger"]


@dataclasses.dataclass(frozen=True)
class Material:
    """A ledger, scored. A flat table has no study, so neither rows nor streams nor a registration."""

    path: Path
    rules: Rules
    table: table.Table
    score: Score
    study: Study | None = None
    rows: dict[Cell, list[ForkRow]] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the page calls itself."""
        return self.study.registration.name if self.study else self.path.name


def open_ledger(path: Path) -> tuple[table.Table, Rules, Study | None]:
    """The forks at `path`, and the rules to score them by: those that were registered, or the paper's."""
    if not path.exists():
        raise WorldforkError(f"There is no `{path}`. Expected a study folder or a .csv, .parquet or .jsonl table.")
    if not path.is_dir():
        return table.read(path), Rules(), None
    study = Study(path)
    found, registration = table.read(path), study.registration
    arms = {
        arm.name: {task: found.arms[arm.name][task] for task in arm.tasks if task in found.arms[arm.name]}
        for arm in registration.arms  # in the order registered: doses ascend as their author wrote them
        if arm.name in found.arms
    }
    return dataclasses.replace(found, arms=arms), Rules.registered(registration), study


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
    forks, rules, study = open_ledger(path)
    rules = dataclasses.replace(rules, seed=seed, permutations=permutations)
    begin(sum(len(one) for tasks in forks.arms.values() for one in tasks.values()))
    first, *others = forks.arms
    scored = score(
        forks.arms,
        rules,
        contrasts=[(other, first) for other in others],
        unscored=forks.unscored,
        watch=watch,
        advance=advance,
    )
    rows = {cell: study.cell(cell.id).rows() for cell in cells(study.registration)} if study else {}
    return Material(path=path, rules=rules, table=forks, score=scored, study=study, rows=rows)


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
