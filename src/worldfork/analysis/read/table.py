"""Columns of a stranger's table: what is wrong is refused by row and column, what is absent stays absent."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from jaxtyping import Bool

from worldfork.analysis.read.files import read_frame, write_frame
from worldfork.analysis.read.outcomes import (
    EPISODES,
    SIGNAL,
    Draw,
    Forks,
    ForkTable,
    Frame,
    Outcomes,
    Returns,
    over_draws,
)
from worldfork.analysis.read.prefork import Prefork
from worldfork.errors import WorldforkError, nearest
from worldfork.triggers import CellKey

MISSING: Final = ("", "nan", "na", "null", "none")


@dataclasses.dataclass(frozen=True)
class TableAddress:
    """The name of a table and how its rows are counted, for messages about an entry."""

    name: str
    header: bool  # line 1 is the header, so row 1 is line 2

    def row(self, index: int) -> str:
        """Return the number of a row, as its author counts."""
        return f"row {index + 1} (line {index + 2})" if self.header else f"row {index + 1}"

    def refuse(self, index: int, column: str, *, problem: str) -> WorldforkError:
        """Return the error to raise for one entry."""
        return WorldforkError(f"`{self.name}`, {self.row(index)}, column `{column}`: {problem}")

    def refuse_any(self, wrong: pl.Series, column: str, *, problem: str, of: pl.Series | None = None) -> None:
        """Raise for the first entry that is wrong, if there is one; `{}` in the problem is what stands there."""
        if wrong.any():
            index = int(wrong.arg_true()[0])
            raise self.refuse(index, column, problem=problem.format("" if of is None else of[index]))


def names(frame: pl.DataFrame, column: str, *, address: TableAddress) -> pl.Series:
    """Return a column of texts, none of them empty."""
    dtype = frame[column].dtype
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        raise address.refuse(0, column, problem=f"expected names, got a column of {dtype}. Write it as text.")
    texts = frame[column].cast(pl.String).str.strip_chars()
    absent = texts.is_null() | (texts == "")
    address.refuse_any(absent, column, problem="expected a name, got nothing. Fill it in.")
    for text in texts.unique().sort():
        if not text.isprintable():  # a terminal would obey it instead of showing it
            index = int((texts == text).arg_true()[0])
            raise address.refuse(
                index, column, problem=f"{text!r} has characters that can not be shown. Rename it."
            )
    return texts


def numbers(frame: pl.DataFrame, column: str, *, address: TableAddress, required: bool) -> pl.Series:
    """Return a column of finite numbers; NaN where one is missing and may be."""
    values = _parsed(frame, column, address=address)
    infinite = values.is_infinite().fill_null(False)
    problem = "expected a finite number, got an infinite one. Leave it out or cap it."
    address.refuse_any(infinite, column, problem=problem)
    if required:
        address.refuse_any(values.is_null(), column, problem="expected a number, got nothing. Fill it in.")
    return values.fill_null(float("nan")).alias(column)


def return_column(frame: pl.DataFrame, column: str, *, address: TableAddress, may_fail: bool) -> pl.Series:
    """Return a column of returns; NaN where one is missing or infinite, which is refused unless branches
    `may_fail`."""
    values = _parsed(frame, column, address=address)
    missing, infinite = values.is_null(), values.is_infinite().fill_null(False)
    broken = missing | infinite
    if broken.any() and not may_fail:
        index = int(broken.arg_true()[0])
        problem = (
            f"expected a finite return, got {'nothing' if missing[index] else 'an infinite one'}. "
            "Every fork has both returns. Correct it; or, where runs crashed, say what a crashed one counts as: "
            "--failure-return NUMBER, in Python failure_return=NUMBER."
        )
        raise address.refuse(index, column, problem=problem)
    return values.set(broken, None).fill_null(float("nan")).alias(column)


def _parsed(frame: pl.DataFrame, column: str, *, address: TableAddress) -> pl.Series:
    """Return a column of numbers, null where one is missing."""
    given = frame[column]
    if given.dtype == pl.String:
        texts = given.str.strip_chars()
        given = pl.select(pl.when(texts.str.to_lowercase().is_in(MISSING)).then(None).otherwise(texts)).to_series()
    elif not (given.dtype.is_numeric() or given.dtype == pl.Null):
        raise address.refuse(0, column, problem=f"expected numbers, got a column of {given.dtype}.")
    values = given.cast(pl.Float64, strict=False)
    unread = given.is_not_null() & values.is_null()
    address.refuse_any(unread, column, problem="expected a number, got {!r}. Correct or remove the row.", of=given)
    return values.fill_nan(None)


def whole_numbers(frame: pl.DataFrame, column: str, *, address: TableAddress) -> pl.Series:
    """Return a column of whole numbers from 0."""
    values = numbers(frame, column, address=address, required=True)
    wrong = (values != values.round()) | (values < 0) | (values > 2**53)
    address.refuse_any(wrong, column, problem="expected a whole number from 0, got {:g}.", of=values)
    return values.cast(pl.Int64)


def decision_points(frame: pl.DataFrame, *, address: TableAddress) -> pl.Series:
    """Return the column `k`: whole numbers from 1."""
    values = whole_numbers(frame, "k", address=address)
    problem = "decision points are counted from 1, and this one is 0. Add 1 to every k."
    address.refuse_any(values == 0, "k", problem=problem)
    return values


def episodes(
    frame: pl.DataFrame, *, address: TableAddress, failed: Bool[np.ndarray, "rows"]
) -> dict[str, list[Returns]]:
    """Return the returns of every episode of both branches, row by row; nothing where either column is absent. A
    fork with a `failed` branch may have none of that branch."""
    if any(column not in frame.columns for column in EPISODES):
        return {}
    lists = {
        column: [_returns(value, index, column, address) for index, value in enumerate(frame[column])]
        for column in EPISODES
    }
    for index, (hold, update) in enumerate(zip(*lists.values(), strict=True)):
        if len(hold) != len(update) and not (failed[index] and 0 in (len(hold), len(update))):
            problem = f"{len(update)} returns against {len(hold)} in `hold`: episodes are paired one to one."
            raise address.refuse(index, "update", problem=problem)
    return lists


def _returns(value: object, index: int, column: str, address: TableAddress) -> Returns:
    if value is None:
        return ()
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise address.refuse(index, column, problem=f"expected a list of returns, got {value!r:.40}.")
    try:
        # None is a return that was not finite: it stays out of every variance.
        return np.array(list(value), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        problem = "expected a list of numbers; an entry is not one, or is too large."
        raise address.refuse(index, column, problem=problem) from None


REQUIRED: Final = ("checkpoint", "k", "r_update", "r_hold")
UNNAMED: Final = ""  # the arm of a table that names none
ONE_DIRECTION: Final = "all"
ORDER: Final = ("arm", "task", "checkpoint", "direction", "stream_seed", "k")
DRAW: Final = "update_seed"  # several draws of one fork's update are averaged
CLEAN: Final = "clean_return"  # of the checkpoint, in the clean world
READ: Final = (*dict.fromkeys((*ORDER, *REQUIRED, *EPISODES, "level", "step", CLEAN, DRAW)),)  # beside signals


@dataclasses.dataclass(frozen=True)
class _Returns:
    """The meaning of a table's returns: larger or smaller is better, and what a failure counts as."""

    higher_is_better: bool
    failure: float | None  # what a branch without a finite return counts as, in the table's own sign

    def gained(self, values: pl.Series) -> pl.Series:
        """Return the values where more is better: costs turned, and 0 as it is."""
        return values if self.higher_is_better else pl.Series(values.name, 0.0 - values.to_numpy())


def read_table(
    source: str | Path | Frame,
    *,
    higher_is_better: bool = True,
    failure_return: float | None = None,
    columns: Mapping[str, str] | None = None,
) -> ForkTable:
    """Return the flat table in a .csv, .parquet or .jsonl file, or in a data frame.

    Args:
        source: a path or a data frame.
        higher_is_better: False for costs, losses and latencies, whose signs are turned.
        failure_return: return that a branch without a finite one counts as, in the table's own sign; without it
            such a row is refused.
        columns: names in the table -> names that worldfork reads, such as {"seed": "checkpoint"}.

    >>> rows = {"checkpoint": [0, 0, 1], "k": [1, 2, 1], "r_update": [3.0, 1.0, 2.0], "r_hold": [2.0, 2.0, 2.0]}
    >>> table = read_table(pl.DataFrame(rows))
    >>> table.arms[""]["table"].delta
    array([ 1., -1.,  0.])
    """
    means = _Returns(bool(higher_is_better), _finite(failure_return))
    if isinstance(source, str | Path):
        path = Path(source)
        header = path.suffix.lower() == ".csv"
        address = TableAddress(str(path), header)
        return _assemble(_renamed(read_frame(path), columns, address), address=address, task=path.stem, means=means)
    address = TableAddress("table", header=False)
    try:
        frame = source if isinstance(source, pl.DataFrame) else pl.DataFrame(source)
        return _assemble(_renamed(frame, columns, address), address=address, task="table", means=means)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError) as error:
        raise WorldforkError(
            f"Expected the path of a flat table, or a data frame with one row per fork; got "
            f"{type(source).__name__} ({str(error).splitlines()[0]})."
        ) from error


def _renamed(frame: pl.DataFrame, columns: Mapping[str, str] | None, address: TableAddress) -> pl.DataFrame:
    """Return the table with its columns renamed; raise for a column that is not there or a name taken twice."""
    if not columns:
        return frame
    if unknown := [ours for ours in columns.values() if ours not in READ and not ours.startswith(SIGNAL)]:
        raise WorldforkError(
            f"No column `{unknown[0]}` is read: a flat table has {', '.join(READ)} and {SIGNAL}NAME."
            f"{nearest(unknown[0], READ)}"
        )
    if absent := [name for name in columns if name not in frame.columns]:
        raise WorldforkError(
            f"`{address.name}` has no column `{absent[0]}` to read as `{columns[absent[0]]}`; it has "
            f"{', '.join(frame.columns)}.{nearest(absent[0], frame.columns)}"
        )
    renamed = [columns.get(name, name) for name in frame.columns]
    if twice := sorted({name for name in renamed if renamed.count(name) > 1}):
        raise WorldforkError(
            f"`{address.name}`: two columns would be `{twice[0]}`. Rename or leave out one of them."
        )
    return frame.rename(dict(columns))


def _finite(failure: object) -> float | None:
    if failure is None:
        return None
    if isinstance(failure, bool) or not isinstance(failure, Real) or not math.isfinite(failure):
        raise WorldforkError(f"`failure_return` is a finite number or None; got {failure!r:.40}.")
    return float(failure)


def _assemble(frame: pl.DataFrame, *, address: TableAddress, task: str, means: _Returns) -> ForkTable:
    """Check a table and cut it into arms and tasks."""
    if absent := [column for column in REQUIRED if column not in frame.columns]:
        raise WorldforkError(
            f"`{address.name}` lacks the column{'s' * (len(absent) > 1)} {', '.join(absent)}; it has "
            f"{', '.join(frame.columns) or 'none'}. Rename or add them: one row per fork. A column under "
            f'another name is read with --columns NAME={absent[0]}, in Python columns={{"NAME": "{absent[0]}"}}.'
        )
    if hidden := [column for column in frame.columns if not column.isprintable()]:
        raise WorldforkError(
            f"`{address.name}` has a column called {hidden[0]!r}, with characters that can not be shown. Rename it."
        )
    if not len(frame):
        raise WorldforkError(f"`{address.name}` has a header and no rows. Expected one row per fork.")
    between = [name for name in frame["arm"].unique() if " - " in str(name)] if "arm" in frame.columns else []
    if between:
        raise WorldforkError(
            f"`{address.name}` has an arm called {between[0]!r}. ` - ` stands between the names of two arms that "
            "are compared: use another sign."
        )
    signals = [column for column in frame.columns if column.startswith(SIGNAL) and len(column) > len(SIGNAL)]
    checked = _checked(frame, signals, address=address, task=task, means=means)
    _refuse_duplicates(checked, address)
    in_file = checked.sort("row")
    failed = {branch: in_file[f"failed_{branch}"].to_numpy() for branch in EPISODES}
    returns = episodes(frame, address=address, failed=failed["hold"] | failed["update"])
    if not means.higher_is_better:
        returns = {
            column: [0.0 - np.asarray(values_of) for values_of in values] for column, values in returns.items()
        }
    arms: dict[str, dict[str, Forks]] = {}
    for part in checked.partition_by("arm", "task", maintain_order=True):
        first = part.unique(ORDER, keep="first", maintain_order=True)
        forks = Forks(
            prefork=_prefork(first, signals),
            outcomes=_outcomes(part, returns),
            clean=_clean_returns(first),
            failure_return=None if means.failure is None else float(means.gained(pl.Series([means.failure]))[0]),
        )
        arms.setdefault(part["arm"][0], {})[part["task"][0]] = forks
    columns = {*READ, *signals}
    return ForkTable(
        arms,
        tuple(column for column in frame.columns if column not in columns),
        failed=_failures(failed, address, means),
        higher_is_better=means.higher_is_better,
    )


def _failures(
    failed: Mapping[str, Bool[np.ndarray, "rows"]], address: TableAddress, means: _Returns
) -> tuple[str, ...]:
    """Return a sentence for each row with a branch that failed."""
    sentences = []
    for index in np.flatnonzero(failed["hold"] | failed["update"]).tolist():
        branches = " and ".join(branch.upper() for branch in EPISODES if failed[branch][index])
        sentences.append(
            f"{address.row(index)}: a return is missing or not finite, so {branches} counts as a failure with "
            f"{'return' if means.higher_is_better else 'cost'} {means.failure:g}"
        )
    return tuple(sentences)


def _clean_returns(forks: pl.DataFrame) -> dict[str, float]:
    """Return the clean return of each checkpoint, where a column says so: the mean of what it says."""
    means = forks.filter(pl.col(CLEAN).is_not_nan()).group_by("checkpoint").agg(pl.col(CLEAN).mean())
    return dict(means.select("checkpoint", CLEAN).iter_rows())


def _outcomes(part: pl.DataFrame, returns: Mapping[str, Sequence[Returns]]) -> Outcomes:
    """Return the returns of one arm and task; rows that differ in the draw of their update alone are one fork."""
    draws: dict[tuple[object, ...], list[Draw]] = {}
    branches = part.select("r_hold", "r_update", "failed_hold", "failed_update").iter_rows(named=True)
    for key, row, branch in zip(part.select(ORDER).iter_rows(), part["row"], branches, strict=True):
        episodes = {column: values[row] for column, values in returns.items()}
        draws.setdefault(key, []).append(Draw(**branch, **episodes))
    return over_draws(list(draws.values()))


def _checked(
    frame: pl.DataFrame, signals: list[str], *, address: TableAddress, task: str, means: _Returns
) -> pl.DataFrame:
    """Return the table with everything that may be left out filled in, in its canonical order."""
    count = len(frame)
    named = [
        names(frame, column, address=address)
        if column in frame.columns
        else pl.Series(column, [default] * count, pl.String)
        for column, default in (("task", task), ("checkpoint", ""), ("direction", ONE_DIRECTION), ("arm", UNNAMED))
    ]
    counted = [
        decision_points(frame, address=address),
        *(
            whole_numbers(frame, column, address=address)
            if column in frame.columns
            else pl.Series(column, [0] * count, pl.Int64)
            for column in ("stream_seed", "step", DRAW)
        ),
    ]
    may_fail = means.failure is not None
    returns = [return_column(frame, f"r_{branch}", address=address, may_fail=may_fail) for branch in EPISODES]
    failed = [column_of.is_nan().alias(column_of.name.replace("r_", "failed_")) for column_of in returns]
    returns = [means.gained(column_of.fill_nan(means.failure)) for column_of in returns]
    optional = [
        numbers(frame, column, address=address, required=False)
        if column in frame.columns
        else pl.Series(column, [float("nan")] * count, pl.Float64)
        for column in ("level", CLEAN, *signals)
    ]
    # An index along with the rows keeps the place of each in the file, for messages and for the episodes.
    index = pl.Series("row", np.arange(count))
    optional = [means.gained(column_of) if column_of.name == CLEAN else column_of for column_of in optional]
    return pl.DataFrame([*named, *counted, *returns, *failed, *optional, index]).sort(*ORDER, DRAW)


def _refuse_duplicates(checked: pl.DataFrame, address: TableAddress) -> None:
    identity = (*ORDER, DRAW)
    same = pl.DataFrame({column: checked[column] == checked[column].shift(1) for column in identity})
    repeated = same.select(pl.all_horizontal(identity)).to_series().fill_null(False)
    if repeated.any():
        second = int(repeated.arg_true()[0])
        rows = sorted(int(checked["row"][index]) for index in (second - 1, second))
        fork = ", ".join(f"{column} {checked[column][second]}" for column in ORDER[1:])
        raise WorldforkError(
            f"`{address.name}`: {address.row(rows[0])} and {address.row(rows[1])} are the same fork ({fork}). "
            "Keep one, or tell them apart by `arm`, `task`, `direction`, `stream_seed` or `update_seed`."
        )


def _prefork(part: pl.DataFrame, signals: list[str]) -> Prefork:
    identity = part.select("checkpoint", "direction", "stream_seed")
    keys = tuple(CellKey(*row) for row in identity.unique(maintain_order=True).iter_rows())
    code = {key: index for index, key in enumerate(keys)}
    return Prefork(
        task=part["task"][0],
        cells=keys,
        cell=np.array([code[CellKey(*row)] for row in identity.iter_rows()], dtype=np.int64),
        k=part["k"].to_numpy(),
        level=part["level"].to_numpy(),
        signals={column.removeprefix(SIGNAL): part[column].to_numpy() for column in signals},
        step=part["step"].to_numpy(),
    )


# Column -> what it holds. The first four are needed; the others can be left out.
COLUMNS: Final = {
    "checkpoint": "which trained model was deployed; forks of one model are not independent, models are",
    "k": "which decision point of its deployment, from 1 on",
    "r_update": "mean return per episode after the update",
    "r_hold": "mean return per episode without it, on the same episodes if you can",
    "task": "which world; leave it out if there is one",
    "direction": "which deployment of that model, such as the direction of the drift; leave it out if there is one",
    "signal_surprise": "anything known beforehand, larger for more reason to update; any number of signal_NAME",
}


def template_frame() -> pl.DataFrame:
    """Return made-up forks of four models, deployed twice each, at three decision points.

    >>> template_frame().shape
    (24, 7)
    """
    rows = [
        {
            "checkpoint": model,
            "k": k,
            "r_update": 100.0 - 4 * k + model + (3.0 * (k - 2) if direction == "away" else -1.5),
            "r_hold": 100.0 - 5 * k + 1.5 * model,
            "task": "example",
            "direction": direction,
            "signal_surprise": round(0.1 * k + 0.05 * model, 2),
        }
        for model in range(4)
        for direction in ("away", "toward")
        for k in (1, 2, 3)
    ]
    return pl.DataFrame(rows).select(list(COLUMNS))


def write_template(path: Path | str) -> Path:
    """Write the template; a file that is there already stays as it is."""
    target = Path(path)
    if target.exists():
        raise WorldforkError(f"`{target}` is there already. Choose another name: a template overwrites nothing.")
    write_frame(template_frame(), target)
    return target
