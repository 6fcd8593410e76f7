"""Studies as one data set: forks, cells, folds and streams as Parquet, with a data card.

Anything that reads Parquet reads it; `datasets` finds its tables by the card's header. Numbers are in single
precision. The cells have the digest that their rows end in, and the card the root of every ledger: a table can be
held against the ledgers that it was made from.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from worldfork.analysis.read.frames import flat_frame
from worldfork.analysis.read.outcomes import EPISODES, SIGNAL
from worldfork.analysis.read.study import read_rows, study_table
from worldfork.analysis.read.triggers import Alarms, read_triggers
from worldfork.errors import WorldforkError
from worldfork.ledger import files
from worldfork.ledger.arrays import content_digest, parquet_columns
from worldfork.ledger.row import Rows
from worldfork.ledger.store import Study
from worldfork.ledger.verify import require_as_registered
from worldfork.ledger.verify import root as root_of

TABLES: Final = ("forks", "cells", "folds", "streams")
ALARM: Final = "alarm_"  # columns with the answers of detectors, which read every step of a stream
DETECTORS: Final = ("adwin", "page_hinkley", "kswin", "conformal")
STREAM_COLUMNS: Final = ("reward", "error", "kl")  # that a deployment has
LISTED: Final = 6  # episodes of a fork up to which the return of each is kept
FOLDS: Final = 8
PUBLISHED: Final = Path(__file__).parents[3] / "results" / "dataset"  # in a clone


@dataclasses.dataclass(frozen=True)
class Dataset:
    """The tables of a data set as polars frames; `streams` may be empty."""

    forks: pl.DataFrame
    cells: pl.DataFrame
    folds: pl.DataFrame
    streams: pl.DataFrame


def load(folder: Path | str | None = None) -> Dataset:
    """Return the tables of a data set.

    Args:
        folder: as `worldfork dataset` wrote it; None is the published one.

    >>> import worldfork as wf
    >>> data = wf.benchmark.load()
    >>> data.forks.filter(study="power-cartpole", arm="gentle").height
    1536
    """
    where = PUBLISHED if folder is None else Path(folder)
    if missing := [name for name in TABLES if not (where / f"{name}.parquet").is_file()]:
        raise WorldforkError(
            f"`{where}` has no {missing[0]}.parquet. Expected a data set: `worldfork dataset STUDY... -o FOLDER` "
            "makes one, and results/dataset of a clone is the published one."
        )
    return Dataset(**{name: _read(where / f"{name}.parquet") for name in TABLES})


def write(studies: Sequence[Study], folder: Path, *, streams: Iterable[Path] = ()) -> Dataset:
    """Write the tables of studies and their data card into a new folder, and return them.

    Args:
        studies: finished studies or published copies.
        folder: the new folder.
        streams: folders with the streams that copies leave out; those with a digest that the rows have are taken.
    """
    if not studies:
        raise WorldforkError("A data set is made of one study or more: worldfork dataset STUDY... -o FOLDER")
    names = [study.registration.name for study in studies]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise WorldforkError(f"Two studies are called `{twice[0]}`: take one of them.")
    for study in studies:
        require_as_registered(study)
    read = [(study, read_rows(study)) for study in studies]
    cells = pl.concat([_cells(study, rows) for study, rows in read])
    data = Dataset(
        forks=pl.concat([_forks(study, rows) for study, rows in read], how="diagonal"),
        cells=cells,
        folds=_folds(cells),
        streams=_streams([*(study.path for study in studies), *streams], set(cells["stream"])),
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        _save(getattr(data, name), folder / f"{name}.parquet")
    roots = [(study.registration.name, study.registration_digest, root_of(study)) for study in studies]
    files.replace(folder / "README.md", _card(data, roots, folder).encode())
    return data


def _forks(study: Study, rows: Rows) -> pl.DataFrame:
    """Return the forks of a study, with what detectors answered at each."""
    frame = flat_frame(rows).drop(f"{SIGNAL}clock", f"{SIGNAL}drift", strict=False)  # these are k and level
    if frame.select(pl.max_horizontal(pl.col(*EPISODES).list.len().max())).item() > LISTED:
        frame = frame.with_columns(pl.lit(None, pl.List(pl.Float64)).alias(name) for name in EPISODES)
    key = ("arm", "task", "checkpoint", "direction", "stream_seed", "k")
    parts = []
    for arm, tasks in study_table(study, rows).arms.items():
        for task, forks in tasks.items():
            prefork = forks.prefork
            owners = [prefork.cells[index] for index in prefork.cell]
            answers = read_triggers(prefork, names=DETECTORS)
            parts.append(
                pl.DataFrame(
                    {
                        "arm": [arm] * len(forks),
                        "task": [task] * len(forks),
                        "checkpoint": [owner.checkpoint for owner in owners],
                        "direction": [owner.direction for owner in owners],
                        "stream_seed": [owner.stream_seed for owner in owners],
                        "k": prefork.k,
                        **{
                            ALARM + name: reading.fired if isinstance(reading, Alarms) else [None] * len(forks)
                            for name, reading in answers.items()
                        },
                    },
                    schema_overrides={ALARM + name: pl.Boolean for name in answers},
                )
            )
    dr = (pl.col("r_update") - pl.col("r_hold")).alias("dR")
    joined = frame.with_columns(dr).join(pl.concat(parts), on=key, how="left", maintain_order="left")
    lists, last = list(EPISODES), ("r_hold", "r_update", "dR", *EPISODES)
    drawn = [] if "update_seed" in joined.columns else [pl.lit(0).alias("update_seed")]
    first = ("arm", "task", "checkpoint", "direction", "stream_seed", "update_seed", "k", "step", "level")
    named = joined.with_columns(drawn).select(
        pl.lit(study.registration.name).alias("study"), *first, pl.exclude(*first, *last), *last
    )
    singles = [pl.col(pl.Float64).cast(pl.Float32), pl.col(*lists).cast(pl.List(pl.Float32))]
    return named.with_columns(*singles).with_columns(pl.col(pl.Int64).cast(pl.Int32))


def _cells(study: Study, rows: Rows) -> pl.DataFrame:
    """Return the cells of a study that have rows: their model, their stream, the digest that their rows end in."""
    entries = []
    for cell, in_order in rows.items():
        if not in_order:
            continue
        checkpoint = study.cell(cell.id).configuration.get("checkpoint") or {}
        where = {**cell.coordinates, "checkpoint": str(cell.checkpoint)}
        entries.append(
            {
                "study": study.registration.name,
                **{name: where[name] for name in ("arm", "task", "checkpoint", "direction", "stream_seed")},
                "update_seed": cell.update_seed,
                "forks": len(in_order),
                "clean_return": checkpoint.get("clean_return"),
                "model": checkpoint.get("digest"),
                "stream": in_order[0].stream,
                "last_row": in_order[-1].digest,
            }
        )
    return pl.from_dicts(entries, infer_schema_length=None).with_columns(
        pl.col("clean_return").cast(pl.Float64), pl.col("model").cast(pl.String)
    )


def _folds(cells: pl.DataFrame) -> pl.DataFrame:
    """Return the fold of every model: one for all studies, dealt out in turn, the largest study of a task first.

    Studies of the same models then share their folds, and what is fitted on one may be judged on another.
    """
    named = cells.with_columns(pl.coalesce("model", "checkpoint").alias("model"))
    size = pl.col("model").n_unique().over("study", "task")
    models = (
        named.sort(size, descending=True, maintain_order=True).select("task", "model").unique(maintain_order=True)
    )
    fold = (pl.int_range(pl.len()).over("task") % FOLDS).cast(pl.Int32).alias("fold")
    return models.with_columns(fold).sort("task", "fold", maintain_order=True)


def _streams(folders: Iterable[Path], wanted: set[str]) -> pl.DataFrame:
    """Return the streams with these digests, each once."""
    schema: dict[str, type[pl.DataType]] = {
        "stream": pl.String,
        "t": pl.Int32,
        **dict.fromkeys(STREAM_COLUMNS, pl.Float32),
    }
    found: dict[str, pl.DataFrame] = {}
    for path in sorted(path for folder in folders for path in folder.rglob("stream.parquet")):
        columns = parquet_columns(path.read_bytes(), path)
        digest = content_digest(columns)
        if digest in wanted and digest not in found:
            steps = np.arange(1, len(next(iter(columns.values()))) + 1)
            logged = {name: columns[name] if name in columns else [None] * len(steps) for name in STREAM_COLUMNS}
            found[digest] = pl.DataFrame({"t": steps, **logged}).select(pl.lit(digest).alias("stream"), pl.all())
    return (
        pl.concat([frame.cast(pl.Schema(schema)) for frame in found.values()])
        if found
        else pl.DataFrame(schema=schema)
    )


def _read(path: Path) -> pl.DataFrame:
    frame = pl.from_arrow(pq.ParquetFile(path, pre_buffer=False).read(use_threads=False))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _save(frame: pl.DataFrame, path: Path) -> None:
    """Write a frame; numbers are split into bytes, which packs what was measured by a third better."""
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())  # without text views, which few readers know
    numbers = [name for name, kind in frame.schema.items() if kind == pl.Float32]
    lists = [f"{name}.list.element" for name, kind in frame.schema.items() if kind == pl.List(pl.Float32)]
    others = [name for name, kind in frame.schema.items() if kind not in (pl.Float32, pl.List(pl.Float32))]
    encoding = dict.fromkeys([*numbers, *lists], "BYTE_STREAM_SPLIT")
    pq.write_table(
        table, path, compression="zstd", compression_level=19, use_dictionary=others, column_encoding=encoding
    )


def _card(data: Dataset, roots: Sequence[tuple[str, str, str]], folder: Path) -> str:
    """Return the data card: a header that `datasets` reads, and what every column is and is not for."""
    configs = "\n".join(f"- config_name: {name}\n  data_files: {name}.parquet" for name in TABLES)
    digests = "\n".join(
        f"- `{name}.parquet`: {hashlib.sha256((folder / f'{name}.parquet').read_bytes()).hexdigest()}"
        for name in TABLES
    )
    ledgers = "\n".join(f"| `{name}` | `{registered}` | `{root}` |" for name, registered, root in roots)
    sizes = (
        f"{data.forks.height:,} forks of {data.cells.height:,} cells, {data.folds.height} models and "
        f"{data.streams.height:,} control steps of {data.streams['stream'].n_unique()} streams"
    )
    template = (Path(__file__).parent / "card.md").read_text(encoding="utf-8")
    return template.format(configs=configs, digests=digests, ledgers=ledgers, sizes=sizes)
