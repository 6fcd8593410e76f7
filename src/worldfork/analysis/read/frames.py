"""Studies and recorded ledgers as data frames, for any other tool: forks, streams, deployments."""

import dataclasses

import polars as pl

from worldfork.analysis.read.outcomes import EPISODES, SIGNAL, ForkTable
from worldfork.analysis.read.study import deployment_rows, read_rows
from worldfork.analysis.read.table import read_table
from worldfork.errors import WorldforkError
from worldfork.ledger.closed_loop import TrialRecord
from worldfork.ledger.publish import STREAMS, left_out
from worldfork.ledger.recorded import RecordedLedger
from worldfork.ledger.row import Rows
from worldfork.ledger.store import Study
from worldfork.registration import stream_owner


def study_frame(study: Study) -> pl.DataFrame:
    """Return a study as a flat table: what `worldfork export` writes."""
    return flat_frame(read_rows(study))


def stream_frame(study: Study) -> pl.DataFrame:
    """Return every control step of every deployment, with the cell that ran it; cells that share a stream take it
    once."""
    registration = study.registration
    parts = []
    for cell, owner in stream_owner(registration).items():
        if cell == owner and (study.cell(cell.id).path / "stream.parquet").exists():
            where = {**cell.coordinates, "checkpoint": str(cell.checkpoint)}
            log = pl.DataFrame(dict(study.cell(cell.id).read_log()))
            parts.append(log.select(*(pl.lit(value).alias(name) for name, value in where.items()), pl.all()))
    if not parts and STREAMS in left_out(study):
        raise WorldforkError(f"`{study.path}` was published without streams: ask the study that it is a copy of.")
    if not parts:
        raise WorldforkError(f"`{study.path}` has no streams yet. Run the study first.")
    return pl.concat(parts, how="diagonal")


def flat_frame(rows: Rows) -> pl.DataFrame:
    """Return one row per fork, in the columns that `read_table` knows."""
    entries = [
        {
            **dataclasses.asdict(cell),
            "checkpoint": str(cell.checkpoint),
            **{name: getattr(row, name) for name in ("k", "step", "level", "r_update", "r_hold")},
            **{SIGNAL + name: value for name, value in row.signals.items()},
            **{name: list(getattr(row, name)) for name in EPISODES},
        }
        for cell, in_order in rows.items()
        for row in in_order
    ]
    frame = pl.from_dicts(entries, infer_schema_length=None)
    drawn_once = not any(cell.update_seed for cell in rows)
    return frame.drop("update_seed") if drawn_once else frame


def deployment_frame(study: Study) -> pl.DataFrame:
    """Return one row per policy, cell and episode, for any other tool."""
    deployed = deployment_rows(study)
    tried = any(row.trial for in_order in deployed.values() for row in in_order)
    return pl.from_dicts(
        [
            {
                "policy": policy,
                **cell.coordinates,
                "checkpoint": str(cell.checkpoint),
                **{name: getattr(row, name) for name in ("k", "step", "level", "episode_return", "fired")},
                "answer": None if row.answer is None else float(row.answer),
                "threshold": None if row.threshold is None else float(row.threshold),
                "gradient_steps": row.gradient_steps,
                **({name: getattr(row.trial, name, None) for name in TrialRecord.model_fields} if tried else {}),
                "evaluation": None if row.evaluation is None else list(row.evaluation),
                **{f"signal_{name}": value for name, value in row.signals.items()},
            }
            for (policy, cell), in_order in deployed.items()
            for row in in_order
        ],
        infer_schema_length=None,
    )


# Columns that are left out where no fork has anything in them.
OPTIONAL = ("arm", "direction", "stream_seed", "update_seed", "level", "clean_return")


def recorded_frame(ledger: RecordedLedger) -> pl.DataFrame:
    """Return the forks as a flat table of returns, in the columns that `read_table` reads: the signs of recorded
    costs are turned."""
    frame = _as_recorded(ledger)
    if ledger.settings.higher_is_better:
        return frame
    means = {name: 0.0 - pl.col(name) for name in ("r_update", "r_hold", "clean_return") if name in frame.columns}
    episodes = {name: pl.col(name).list.eval(0.0 - pl.element()) for name in EPISODES}
    return frame.with_columns(**means, **episodes)


def _as_recorded(ledger: RecordedLedger) -> pl.DataFrame:
    """Return the forks as a flat table, in the recorder's own sign."""
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


def read_recorded(ledger: RecordedLedger, *, failure_return: float | None = None) -> ForkTable:
    """Return the forks as a table to score; `failure_return` counts where the recorder was given none."""
    settings = ledger.settings
    if settings.failure_return is not None and failure_return not in (None, settings.failure_return):
        raise WorldforkError(
            f"`{ledger.path}` records that a failure counts as {settings.failure_return:g}; got {failure_return:g}."
        )
    failure = failure_return if settings.failure_return is None else settings.failure_return
    return read_table(_as_recorded(ledger), higher_is_better=settings.higher_is_better, failure_return=failure)
