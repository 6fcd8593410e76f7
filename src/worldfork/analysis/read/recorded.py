"""Recorded ledgers as flat tables."""

import polars as pl

from worldfork.analysis.read.outcomes import EPISODES, SIGNAL, Table
from worldfork.analysis.read.table import read_table
from worldfork.errors import WorldforkError
from worldfork.ledger.recorded import RecordedLedger

# Columns that are left out where no fork has anything in them.
OPTIONAL = ("arm", "direction", "stream_seed", "update_seed", "level", "clean_return")


def recorded_frame(ledger: RecordedLedger) -> pl.DataFrame:
    """Return the forks as a flat table, in the columns that `read_table` reads."""
    rows = ledger.rows()
    if not rows:
        raise WorldforkError(f"`{ledger.path}` has no forks yet. Record some first.")
    names = ("checkpoint", "k", *OPTIONAL, "r_update", "r_hold")
    signals = dict.fromkeys(name for row in rows for name in row.signals)
    used = [name for name in names if name not in OPTIONAL or any(getattr(row, name) for row in rows)]
    entries = [
        {
            "task": ledger.settings.task,
            **{name: getattr(row, name) for name in used},
            **{SIGNAL + name: row.signals.get(name) for name in signals},
            **{name: list(getattr(row, name)) for name in EPISODES},
        }
        for row in rows
    ]
    blank = [pl.col(name).replace("", "unnamed") for name in ("arm", "direction") if name in used]
    return pl.from_dicts(entries, infer_schema_length=None).with_columns(blank)


def read_recorded(ledger: RecordedLedger, *, failure_return: float | None = None) -> Table:
    """Return the forks as a table to score; `failure_return` counts where the recorder was given none."""
    settings = ledger.settings
    if settings.failure_return is not None and failure_return not in (None, settings.failure_return):
        raise WorldforkError(
            f"`{ledger.path}` records that a failure counts as {settings.failure_return:g}; got {failure_return:g}."
        )
    failure = failure_return if settings.failure_return is None else settings.failure_return
    return read_table(recorded_frame(ledger), higher_is_better=settings.higher_is_better, failure_return=failure)
