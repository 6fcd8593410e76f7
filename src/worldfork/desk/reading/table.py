"""Anyone's flat table: one row per fork, from any harness, cut into arms and tasks.

Rows are put in a canonical order, so that their order in the file changes no figure. A fork needs `checkpoint`,
`k`, `r_update` and `r_hold`. What may be left out: `task` (all rows are one task, named after the file),
`direction` (all rows have one, called "all"), `stream_seed` (0), `arm`, `level`, `step`, `clean_return` (of the
checkpoint, in the clean world), the signals `signal_NAME`, the lists `hold` and `update` with the return of every
episode, and `update_seed`: rows that differ in it alone are draws of one fork's update, and are averaged.

Costs have their signs turned here, once: from here on more is better. A branch without a finite return is refused,
or else, as in a study, counts as the return of a failure and is never retained.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from jaxtyping import Bool

from worldfork.desk.reading import columns
from worldfork.desk.reading.base import EPISODES, SIGNAL, Frame, Table
from worldfork.desk.reading.columns import Place
from worldfork.desk.reading.files import read_frame
from worldfork.desk.reading.outcomes import Draw, Forks, Outcomes, Returns, over_draws, pad
from worldfork.desk.reading.prefork import CellKey, Prefork
from worldfork.errors import WorldforkError

__all__ = ["read_table"]

REQUIRED: Final = ("checkpoint", "k", "r_update", "r_hold")
UNNAMED: Final = ""  # the arm of a table that names none
ONE_DIRECTION: Final = "all"
ORDER: Final = ("arm", "task", "checkpoint", "direction", "stream_seed", "k")
DRAW: Final = "update_seed"  # several draws of one fork's update are averaged
CLEAN: Final = "clean_return"  # of the checkpoint, in the clean world


@dataclasses.dataclass(frozen=True)
class _Returns:
    """How a table's returns are meant."""

    higher_is_better: bool
    failure: float | None  # what a branch without a finite return counts as, in the table's own sign

    def gained(self, values: pl.Series) -> pl.Series:
        """The same where more is better: costs turned, and 0 as it is."""
        return values if self.higher_is_better else pl.Series(values.name, 0.0 - values.to_numpy())


def read_table(
    source: str | Path | Frame, *, higher_is_better: bool = True, failure_return: float | None = None
) -> Table:
    """The flat table in a .csv, .parquet or .jsonl file, or in a data frame.

    `higher_is_better=False` is said of costs, losses, latencies: their signs are turned. `failure_return` is what a
    branch without a finite return counts as, in the table's own sign; without it such a row is refused.

    >>> rows = {"checkpoint": [0, 0, 1], "k": [1, 2, 1], "r_update": [3.0, 1.0, 2.0], "r_hold": [2.0, 2.0, 2.0]}
    >>> table = read_table(pl.DataFrame(rows))
    >>> table.arms[""]["table"].delta
    array([ 1., -1.,  0.])
    """
    means = _Returns(bool(higher_is_better), _finite(failure_return))
    if isinstance(source, str | Path):
        path = Path(source)
        header = path.suffix.lower() == ".csv"
        return _assemble(read_frame(path), place=Place(str(path), header), task=path.stem, means=means)
    try:
        frame = source if isinstance(source, pl.DataFrame) else pl.DataFrame(source)
        return _assemble(frame, place=Place("table", header=False), task="table", means=means)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError) as error:
        raise WorldforkError(
            f"Expected the path of a flat table, or a data frame with one row per fork; got "
            f"{type(source).__name__} ({str(error).splitlines()[0]})."
        ) from error


def _finite(failure: object) -> float | None:
    if failure is None:
        return None
    if isinstance(failure, bool) or not isinstance(failure, Real) or not math.isfinite(failure):
        raise WorldforkError(f"`failure_return` is a finite number or None; got {failure!r:.40}.")
    return float(failure)


def _assemble(frame: pl.DataFrame, *, place: Place, task: str, means: _Returns) -> Table:
    """Check a table and cut it into arms and tasks."""
    if absent := [column for column in REQUIRED if column not in frame.columns]:
        raise WorldforkError(
            f"`{place.name}` lacks the column{'s' * (len(absent) > 1)} {', '.join(absent)}; it has "
            f"{', '.join(frame.columns) or 'none'}. Rename or add them: one row per fork."
        )
    if hidden := [column for column in frame.columns if not column.isprintable()]:
        raise WorldforkError(
            f"`{place.name}` has a column called {hidden[0]!r}, with characters that can not be shown. Rename it."
        )
    if not len(frame):
        raise WorldforkError(f"`{place.name}` has a header and no rows. Expected one row per fork.")
    signals = [column for column in frame.columns if column.startswith(SIGNAL) and len(column) > len(SIGNAL)]
    checked = _checked(frame, signals, place=place, task=task, means=means)
    _refuse_duplicates(checked, place)
    in_file = checked.sort("row")
    failed = {branch: in_file[f"failed_{branch}"].to_numpy() for branch in EPISODES}
    returns = columns.episodes(frame, place=place, failed=failed["hold"] | failed["update"])
    if not means.higher_is_better:
        returns = {column: [0.0 - np.asarray(one) for one in values] for column, values in returns.items()}
    arms: dict[str, dict[str, Forks]] = {}
    for part in checked.partition_by("arm", "task", maintain_order=True):
        first = part.unique(ORDER, keep="first", maintain_order=True)
        forks = Forks(
            prefork=_prefork(first, signals),
            outcomes=_outcomes(part, returns, forks=len(first)),
            clean=_clean_returns(first),
            failure_return=None if means.failure is None else float(means.gained(pl.Series([means.failure]))[0]),
        )
        arms.setdefault(part["arm"][0], {})[part["task"][0]] = forks
    known = {*ORDER, *REQUIRED, *EPISODES, *signals, "level", "step", CLEAN, DRAW}
    return Table(
        arms,
        tuple(column for column in frame.columns if column not in known),
        failed=_failures(failed, place, means),
        higher_is_better=means.higher_is_better,
    )


def _failures(failed: Mapping[str, Bool[np.ndarray, "rows"]], place: Place, means: _Returns) -> tuple[str, ...]:
    """A sentence for each row with a branch that failed."""
    said = []
    for index in np.flatnonzero(failed["hold"] | failed["update"]).tolist():
        branches = " and ".join(branch.upper() for branch in EPISODES if failed[branch][index])
        said.append(
            f"{place.row(index)}: a return is missing or not finite, so {branches} counts as a failure with "
            f"{'return' if means.higher_is_better else 'cost'} {means.failure:g}"
        )
    return tuple(said)


def _clean_returns(forks: pl.DataFrame) -> dict[str, float]:
    """What each checkpoint returns in the clean world, where a column says so: the mean of what it says."""
    known = forks.filter(pl.col(CLEAN).is_not_nan()).group_by("checkpoint").agg(pl.col(CLEAN).mean())
    return dict(known.select("checkpoint", CLEAN).iter_rows())


def _outcomes(part: pl.DataFrame, returns: Mapping[str, Sequence[Returns]], *, forks: int) -> Outcomes:
    """The returns of one arm and task; rows that differ in the draw of their update alone are one fork."""
    rows = part["row"].to_list()
    if forks == len(part):
        return Outcomes(
            r_hold=part["r_hold"].to_numpy(),
            r_update=part["r_update"].to_numpy(),
            failed_hold=part["failed_hold"].to_numpy(),
            failed_update=part["failed_update"].to_numpy(),
            **{column: pad([values[row] for row in rows]) for column, values in returns.items()},
        )
    draws: dict[tuple[object, ...], list[Draw]] = {}
    branches = part.select("r_hold", "r_update", "failed_hold", "failed_update").iter_rows(named=True)
    for key, row, branch in zip(part.select(ORDER).iter_rows(), rows, branches, strict=True):
        episodes = {column: values[row] for column, values in returns.items()}
        draws.setdefault(key, []).append(Draw(**branch, **episodes))
    return over_draws(list(draws.values()))


def _checked(frame: pl.DataFrame, signals: list[str], *, place: Place, task: str, means: _Returns) -> pl.DataFrame:
    """The table with everything that may be left out filled in, in its canonical order."""
    count = len(frame)
    named = [
        columns.names(frame, column, place=place)
        if column in frame.columns
        else pl.Series(column, [default] * count, pl.String)
        for column, default in (("task", task), ("checkpoint", ""), ("direction", ONE_DIRECTION), ("arm", UNNAMED))
    ]
    counted = [
        columns.decision_points(frame, place=place),
        *(
            columns.whole_numbers(frame, column, place=place)
            if column in frame.columns
            else pl.Series(column, [0] * count, pl.Int64)
            for column in ("stream_seed", "step", DRAW)
        ),
    ]
    may_fail = means.failure is not None
    returns = [columns.returns(frame, f"r_{branch}", place=place, may_fail=may_fail) for branch in EPISODES]
    failed = [one.is_nan().alias(one.name.replace("r_", "failed_")) for one in returns]
    returns = [means.gained(one.fill_nan(means.failure)) for one in returns]
    optional = [
        columns.numbers(frame, column, place=place, required=False)
        if column in frame.columns
        else pl.Series(column, [float("nan")] * count, pl.Float64)
        for column in ("level", CLEAN, *signals)
    ]
    # An index along with the rows keeps the place of each in the file, for messages and for the episodes.
    index = pl.Series("row", np.arange(count))
    optional = [means.gained(one) if one.name == CLEAN else one for one in optional]
    return pl.DataFrame([*named, *counted, *returns, *failed, *optional, index]).sort(*ORDER, DRAW)


def _refuse_duplicates(checked: pl.DataFrame, place: Place) -> None:
    identity = (*ORDER, DRAW)
    same = pl.DataFrame({column: checked[column] == checked[column].shift(1) for column in identity})
    repeated = same.select(pl.all_horizontal(identity)).to_series().fill_null(False)
    if repeated.any():
        second = int(repeated.arg_true()[0])
        rows = sorted(int(checked["row"][index]) for index in (second - 1, second))
        fork = ", ".join(f"{column} {checked[column][second]}" for column in ORDER[1:])
        raise WorldforkError(
            f"`{place.name}`: {place.row(rows[0])} and {place.row(rows[1])} are the same fork ({fork}). "
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
