"""Flat tables in and out: one row per fork, from this package's studies or from anyone's harness.

`read` takes a .csv, .parquet or .jsonl file and gives the forks of every arm and task, rows in a canonical order so
that the order in the file changes no figure. What is wrong is refused by row and column; what is merely absent (a
signal, a level) stays absent.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from jaxtyping import Float

from worldfork.desk.reading.outcomes import Forks, Outcomes
from worldfork.desk.reading.prefork import CellKey, Prefork, Stream
from worldfork.errors import WorldforkError
from worldfork.ledger.store import Study
from worldfork.registration import cells as registration_cells

__all__ = ["Table", "assemble", "read", "read_study", "study_frame", "write"]

TEXT: Final = ("task", "checkpoint", "direction")
WHOLE: Final = ("stream_seed", "k")
NUMBERS: Final = ("r_update", "r_hold")
REQUIRED: Final = (*TEXT, *WHOLE, *NUMBERS)
EPISODES: Final = ("hold", "update")
SIGNAL: Final = "signal_"
UNNAMED: Final = ""  # the arm of a table that names none
MISSING: Final = ("", "nan", "na", "null", "none")
ORDER: Final = ("arm", "task", "checkpoint", "direction", "stream_seed", "k")


@dataclasses.dataclass(frozen=True)
class Table:
    """Forks by arm and task, the columns that were not read, and the forks that have no dR."""

    arms: Mapping[str, Mapping[str, Forks]]
    ignored: tuple[str, ...] = ()
    unscored: tuple[str, ...] = ()


def read(path: Path) -> Table:
    """The flat table or the study folder at `path`."""
    if path.is_dir():
        return read_study(path)
    kinds = {".csv": _csv, ".parquet": _parquet, ".jsonl": _jsonl}
    if path.suffix.lower() not in kinds:
        raise WorldforkError(
            f"A flat table ends in {', '.join(kinds)}; got `{path.name}`. A study is a folder with forks in cells/."
        )
    if not path.is_file():
        raise WorldforkError(f"There is no file `{path}`.")
    if path.stat().st_size == 0:
        raise WorldforkError(f"`{path}` is empty. Expected a table with the columns {', '.join(REQUIRED)}.")
    try:
        frame = kinds[path.suffix.lower()](path)
    except (pl.exceptions.PolarsError, UnicodeDecodeError, OSError) as error:
        raise WorldforkError(f"`{path}` could not be read as {path.suffix[1:]}: {_first_line(error)}") from error
    return assemble(frame, name=str(path), header=path.suffix.lower() == ".csv")


def assemble(
    frame: pl.DataFrame,
    *,
    name: str,
    header: bool = False,
    streams: Mapping[tuple[str, str, CellKey], Stream] | None = None,
    gradient_steps: Mapping[str, int] | None = None,
) -> Table:
    """Check a table and cut it into arms and tasks.

    `streams` (by arm, task and cell) and `gradient_steps` (by arm) are what a study knows beyond its rows.
    """
    if absent := [column for column in REQUIRED if column not in frame.columns]:
        raise WorldforkError(
            f"`{name}` lacks the column{'s' * (len(absent) > 1)} {', '.join(absent)}; it has "
            f"{', '.join(frame.columns) or 'none'}. Rename or add them: one row per fork."
        )
    if not len(frame):
        raise WorldforkError(f"`{name}` has a header and no rows. Expected one row per fork.")
    place = _Place(name, header)
    signals = [column for column in frame.columns if column.startswith(SIGNAL) and len(column) > len(SIGNAL)]
    columns = [_text(frame, column, place) for column in TEXT]
    columns.append(
        _text(frame, "arm", place)
        if "arm" in frame.columns
        else pl.Series("arm", [UNNAMED] * len(frame), pl.String)
    )
    columns += [_whole(frame, column, place) for column in (*WHOLE, *(["step"] * ("step" in frame.columns)))]
    columns += [_number(frame, column, place, required=True) for column in NUMBERS]
    optional = [*(["level"] * ("level" in frame.columns)), *signals]
    columns += [_number(frame, column, place, required=False) for column in optional]
    episodes = _episodes(frame, place)
    # Sorting an index along keeps the place of every row in the file, for messages and for the episodes.
    checked = pl.DataFrame([*columns, pl.Series("row", np.arange(len(frame)))]).sort(*ORDER)
    _refuse_duplicates(checked, place)
    arms: dict[str, dict[str, Forks]] = {}
    for part in checked.partition_by("arm", "task", maintain_order=True):
        arm, task = part["arm"][0], part["task"][0]
        rows = part["row"].to_numpy()
        forks = Forks(
            prefork=_prefork(part, signals, streams or {}),
            outcomes=Outcomes(
                r_hold=part["r_hold"].to_numpy(),
                r_update=part["r_update"].to_numpy(),
                **{column: values[rows] for column, values in episodes.items()},
            ),
            gradient_steps=(gradient_steps or {}).get(arm),
        )
        arms.setdefault(arm, {})[task] = forks
    known = {*REQUIRED, *EPISODES, *signals, "arm", "level", "step"}
    return Table(arms, tuple(column for column in frame.columns if column not in known))


def read_study(path: Path) -> Table:
    """The forks of a study folder, with the streams that preceded them.

    A branch with a return that is not finite has no mean: such forks can not be scored, and are listed instead.
    """
    study = Study(path)
    registration = study.registration
    frame = study_frame(study)
    streams: dict[tuple[str, str, CellKey], Stream] = {}
    for cell in registration_cells(registration):
        log = study.cell(cell.id).path / "stream.parquet"
        if log.exists():
            key = CellKey(str(cell.checkpoint), cell.direction, cell.stream_seed)
            streams[cell.arm, cell.task, key] = _stream(log)
    lost = frame.filter(pl.col("r_hold").is_null() | pl.col("r_update").is_null())
    table = assemble(
        frame.drop_nulls(["r_hold", "r_update"]),
        name=str(path),
        streams=streams,
        gradient_steps={arm.name: arm.mechanism.steps for arm in registration.arms},
    )
    unscored = tuple(
        f"{row['arm']}, {row['task']}, checkpoint {row['checkpoint']}, {row['direction']}, stream seed "
        f"{row['stream_seed']}, k = {row['k']}: an episode's return is not finite, so the fork has no dR"
        for row in lost.select(ORDER).iter_rows(named=True)
    )
    return dataclasses.replace(table, unscored=unscored)


def study_frame(study: Study) -> pl.DataFrame:
    """A study as a flat table: what `worldfork export` writes."""
    rows = [
        {
            **dataclasses.asdict(cell),
            "checkpoint": str(cell.checkpoint),
            **{name: getattr(row, name) for name in ("k", "step", "level", "r_update", "r_hold")},
            **{SIGNAL + name: value for name, value in row.signals.items()},
            **{name: list(getattr(row, name)) for name in EPISODES},
        }
        for cell in registration_cells(study.registration)
        for row in study.cell(cell.id).rows()
    ]
    if not rows:
        raise WorldforkError(f"`{study.path}` has no forks yet. Run the study first.")
    return pl.from_dicts(rows, infer_schema_length=None)


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write a flat table; the ending says how. A .csv has no place for lists: hold and update are left out."""
    match path.suffix.lower():
        case ".csv":
            frame.drop(EPISODES, strict=False).write_csv(path)
        case ".parquet":
            frame.write_parquet(path)
        case ".jsonl":
            frame.write_ndjson(path)
        case _:
            raise WorldforkError(f"A flat table ends in .csv, .parquet or .jsonl; got `{path.name}`.")


def _stream(log: Path) -> Stream:
    """A cell's step log; what an agent does not have (a KL, say) is missing at every step."""
    try:
        logged = pl.read_parquet(log)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise WorldforkError(
            f"`{log}` could not be read ({_first_line(error)}). Run `worldfork verify`."
        ) from error
    nothing = np.full(len(logged), np.nan)
    known = {
        name: logged[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        for name in ("error", "kl")
        if name in logged.columns
    }
    return Stream(error=known.get("error", nothing), kl=known.get("kl", nothing))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@dataclasses.dataclass(frozen=True)
class _Place:
    """How to say where in a file something is."""

    name: str
    header: bool  # line 1 is the header, so row 1 is line 2

    def row(self, index: int) -> str:
        return f"row {index + 1} (line {index + 2})" if self.header else f"row {index + 1}"

    def refuse(self, index: int, column: str, problem: str) -> WorldforkError:
        return WorldforkError(f"`{self.name}`, {self.row(index)}, column `{column}`: {problem}")


def _csv(path: Path) -> pl.DataFrame:
    with path.open(encoding="utf-8-sig", newline="") as file:
        names = file.readline().strip().split(",")
    if twice := sorted({column for column in names if names.count(column) > 1}):
        raise WorldforkError(f"`{path}` has the column {', '.join(twice)} twice. Keep one of each.")
    # Everything as text: what a number is, `_number` decides, and can say where it is not one.
    return pl.read_csv(path, infer_schema=False)


def _parquet(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path)


def _jsonl(path: Path) -> pl.DataFrame:
    columns: dict[str, list[Any]] = {}
    count = 0
    with path.open(encoding="utf-8") as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except json.JSONDecodeError as error:
                raise WorldforkError(f"`{path}`, line {line} is not JSON: {error.msg}.") from error
            if not isinstance(row, dict):
                raise WorldforkError(f"`{path}`, line {line}: expected an object with one fork, got {text[:40]!r}.")
            for column, value in row.items():
                known = columns.setdefault(column, [])
                known.extend([None] * (count - len(known)))
                known.append(value)
            count += 1
    series = []
    for column, values in columns.items():
        values.extend([None] * (count - len(values)))
        # Text for the same reason as in a .csv: a column that mixes types is then refused by its row.
        listed = column in EPISODES
        texts = values if listed else [None if value is None else str(value) for value in values]
        series.append(pl.Series(column, texts, dtype=pl.Object if listed else pl.String))
    return pl.DataFrame(series)


def _text(frame: pl.DataFrame, column: str, place: _Place) -> pl.Series:
    texts = frame[column].cast(pl.String).str.strip_chars()
    absent = texts.is_null() | (texts == "")
    if absent.any():
        raise place.refuse(int(absent.arg_true()[0]), column, "expected a name, got nothing. Fill it in.")
    return texts


def _number(frame: pl.DataFrame, column: str, place: _Place, *, required: bool) -> pl.Series:
    given = frame[column]
    if given.dtype == pl.String:
        texts = given.str.strip_chars()
        given = pl.select(pl.when(texts.str.to_lowercase().is_in(MISSING)).then(None).otherwise(texts)).to_series()
    elif not (given.dtype.is_numeric() or given.dtype == pl.Null):
        raise place.refuse(0, column, f"expected numbers, got a column of {given.dtype}.")
    numbers = given.cast(pl.Float64, strict=False)
    unread = given.is_not_null() & numbers.is_null()
    if unread.any():
        index = int(unread.arg_true()[0])
        raise place.refuse(index, column, f"expected a number, got {given[index]!r}. Correct or remove the row.")
    infinite = numbers.is_infinite().fill_null(False)
    if infinite.any():
        index = int(infinite.arg_true()[0])
        raise place.refuse(index, column, "expected a finite number, got an infinite one. Leave it out or cap it.")
    numbers = numbers.fill_nan(None)
    if required and numbers.null_count():
        index = int(numbers.is_null().arg_true()[0])
        raise place.refuse(index, column, "expected a number, got nothing. Every fork has both returns.")
    return numbers.fill_null(float("nan")).alias(column)


def _whole(frame: pl.DataFrame, column: str, place: _Place) -> pl.Series:
    numbers = _number(frame, column, place, required=True)
    wrong = (numbers != numbers.round()) | (numbers < 0) | (numbers > 2**53)
    if wrong.any():
        index = int(wrong.arg_true()[0])
        raise place.refuse(index, column, f"expected a whole number from 0, got {numbers[index]:g}.")
    return numbers.cast(pl.Int64)


def _episodes(frame: pl.DataFrame, place: _Place) -> dict[str, Float[np.ndarray, "forks episodes"]]:
    """The per-episode returns of both branches, padded with NaN to one width; nothing where either is absent."""
    if any(column not in frame.columns for column in EPISODES):
        return {}
    lists = {
        column: [_returns(value, index, column, place) for index, value in enumerate(frame[column])]
        for column in EPISODES
    }
    for index, (hold, update) in enumerate(zip(*lists.values(), strict=True)):
        if len(hold) != len(update):
            raise place.refuse(
                index,
                "update",
                f"{len(update)} returns against {len(hold)} in `hold`: episodes are paired one to one.",
            )
    width = max(len(values) for values in lists["hold"])
    if not width:
        return {}
    padded = {column: np.full((len(frame), width), np.nan) for column in EPISODES}
    for column, rows in lists.items():
        for index, values in enumerate(rows):
            padded[column][index, : len(values)] = values
    return padded


def _returns(value: Any, index: int, column: str, place: _Place) -> Sequence[float] | np.ndarray:
    if value is None:
        return ()
    if not isinstance(value, Iterable) or isinstance(value, str):
        raise place.refuse(index, column, f"expected a list of returns, got {value!r:.40}.")
    try:
        # None is a return that was not finite: it stays out of every variance.
        return np.array(list(value), dtype=np.float64)
    except (TypeError, ValueError):
        raise place.refuse(index, column, "expected a list of numbers; an entry is not one.") from None


def _refuse_duplicates(checked: pl.DataFrame, place: _Place) -> None:
    same = pl.DataFrame({column: checked[column] == checked[column].shift(1) for column in ORDER})
    repeated = same.select(pl.all_horizontal(ORDER)).to_series().fill_null(False)
    if repeated.any():
        second = int(repeated.arg_true()[0])
        rows = sorted(int(checked["row"][index]) for index in (second - 1, second))
        named = ", ".join(f"{column} {checked[column][second]}" for column in ORDER[1:])
        raise WorldforkError(
            f"`{place.name}`: {place.row(rows[0])} and {place.row(rows[1])} are the same fork ({named}). "
            "Keep one, or tell them apart by `arm` or `stream_seed`."
        )


def _prefork(part: pl.DataFrame, signals: list[str], streams: Mapping[tuple[str, str, CellKey], Stream]) -> Prefork:
    arm, task = part["arm"][0], part["task"][0]
    identity = part.select("checkpoint", "direction", "stream_seed")
    keys = tuple(CellKey(*row) for row in identity.unique(maintain_order=True).iter_rows())
    code = {key: index for index, key in enumerate(keys)}
    return Prefork(
        task=task,
        cells=keys,
        cell=np.array([code[CellKey(*row)] for row in identity.iter_rows()], dtype=np.int64),
        k=part["k"].to_numpy(),
        level=part["level"].to_numpy() if "level" in part.columns else np.full(len(part), np.nan),
        signals={column.removeprefix(SIGNAL): part[column].to_numpy() for column in signals},
        step=part["step"].to_numpy() if "step" in part.columns else np.zeros(len(part), np.int64),
        streams=tuple(streams.get((arm, task, key)) for key in keys) if streams else (),
    )
