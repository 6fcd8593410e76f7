"""A study's own rows as forks, and as a flat table for any other tool.

Rows come out of `ledger.store` checked against their digests and against the one before; nothing here checks them
again. A branch with a return that is not finite has no mean: such forks can not be scored, and are listed instead.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import polars as pl
from jaxtyping import Float

from worldfork.desk.reading.columns import pad
from worldfork.desk.reading.files import EPISODES
from worldfork.desk.reading.outcomes import Forks, Outcomes
from worldfork.desk.reading.prefork import CellKey, Prefork, Stream
from worldfork.desk.reading.table import SIGNAL, Table
from worldfork.errors import WorldforkError
from worldfork.ledger.row import ForkRow
from worldfork.ledger.store import Study
from worldfork.registration import Cell, cells

__all__ = ["Rows", "flat_frame", "read_rows", "study_frame", "study_table"]

Rows = dict[Cell, list[ForkRow]]


def read_rows(study: Study) -> Rows:
    """Every registered cell with the rows it has so far."""
    rows = {cell: study.cell(cell.id).rows() for cell in cells(study.registration)}
    if not any(rows.values()):
        raise WorldforkError(f"`{study.path}` has no forks yet. Run the study first.")
    return rows


def study_frame(study: Study) -> pl.DataFrame:
    """A study as a flat table: what `worldfork export` writes."""
    return flat_frame(read_rows(study))


def flat_frame(rows: Rows) -> pl.DataFrame:
    """One row per fork, in the columns that `read_table` knows."""
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
    return pl.from_dicts(entries, infer_schema_length=None)


def study_table(study: Study, rows: Rows) -> Table:
    """The forks by arm and task, in the order registered: doses ascend as their author wrote them."""
    registration = study.registration
    signals = list(dict.fromkeys(name for in_order in rows.values() for row in in_order for name in row.signals))
    arms: dict[str, dict[str, Forks]] = {}
    for arm in registration.arms:
        for task in arm.tasks:
            group = {cell: in_order for cell, in_order in rows.items() if (cell.arm, cell.task) == (arm.name, task)}
            forks = _forks(study, group, signals)
            if forks is not None:
                forks = dataclasses.replace(forks, gradient_steps=arm.mechanism.steps)
                arms.setdefault(arm.name, {})[task] = forks
    unscored = tuple(_lost(cell, row) for cell, in_order in rows.items() for row in in_order if not _has_delta(row))
    if not arms:
        raise WorldforkError(f"None of the {len(unscored)} forks of `{study.path}` has a dR: {unscored[0]}.")
    return Table(arms, unscored=unscored)


def _forks(study: Study, rows: Rows, signals: Sequence[str]) -> Forks | None:
    """The forks of one arm and task, cells in order of their keys; None where none can be scored."""
    by_key = {_key(cell): (cell, [row for row in in_order if _has_delta(row)]) for cell, in_order in rows.items()}
    keys = sorted(key for key, (_, in_order) in by_key.items() if in_order)
    if not keys:
        return None
    scored = [(index, row) for index, key in enumerate(keys) for row in by_key[key][1]]
    streams = tuple(_stream(study, by_key[key][0]) for key in keys)
    return Forks(
        prefork=Prefork(
            task=by_key[keys[0]][0].task,
            cells=tuple(keys),
            cell=np.array([index for index, _ in scored], dtype=np.int64),
            k=np.array([row.k for _, row in scored], dtype=np.int64),
            level=_floats([row.level for _, row in scored]),
            signals={name: _floats([row.signals.get(name) for _, row in scored]) for name in signals},
            step=np.array([row.step for _, row in scored], dtype=np.int64),
            streams=streams if any(stream is not None for stream in streams) else (),
        ),
        outcomes=Outcomes(
            r_hold=_floats([row.r_hold for _, row in scored]),
            r_update=_floats([row.r_update for _, row in scored]),
            hold=pad([_floats(row.hold) for _, row in scored]),
            update=pad([_floats(row.update) for _, row in scored]),
        ),
    )


def _key(cell: Cell) -> CellKey:
    return CellKey(str(cell.checkpoint), cell.direction, cell.stream_seed)


def _has_delta(row: ForkRow) -> bool:
    return row.r_hold is not None and row.r_update is not None


def _lost(cell: Cell, row: ForkRow) -> str:
    return (
        f"{cell.arm}, {cell.task}, checkpoint {cell.checkpoint}, {cell.direction}, stream seed {cell.stream_seed}, "
        f"k = {row.k}: an episode's return is not finite, so the fork has no dR"
    )


def _floats(values: Sequence[float | None]) -> Float[np.ndarray, "values"]:
    """NaN for what is stored as null."""
    return np.array(values, dtype=np.float64)


def _stream(study: Study, cell: Cell) -> Stream | None:
    """A cell's step log; what an agent does not have (a KL, say) is missing at every step."""
    folder = study.cell(cell.id)
    if not (folder.path / "stream.parquet").exists():
        return None
    log = folder.read_log()
    nothing = np.full(len(next(iter(log.values()))), np.nan)
    columns = {name: np.asarray(log[name], dtype=np.float64) for name in ("error", "kl") if name in log}
    return Stream(error=columns.get("error", nothing), kl=columns.get("kl", nothing))
