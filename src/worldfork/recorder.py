"""Recording of forks from a loop of your own: a training script, a robot lab, an agent sandbox."""

import contextlib
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from pydantic import ValidationError

from worldfork.errors import WorldforkError
from worldfork.ledger import files
from worldfork.ledger.documents import as_file, seal
from worldfork.ledger.recorded import (
    ROWS,
    SETTINGS,
    Guarantees,
    Identity,
    RecordedLedger,
    RecordedRow,
    RecorderSettings,
    is_recorded,
)
from worldfork.ledger.row import Number, finite, gain, mean
from worldfork.progress import Notify, log
from worldfork.registration import difference
from worldfork.validation import explain

if TYPE_CHECKING:
    import polars as pl


Whole = SupportsIndex | float  # a whole number of any library, also as a data frame writes it
Name = str | Whole
LOCK = ".lock"
POLICIES = ("never", "always", "oracle")  # rows of every table of triggers
BEGUN = {LOCK, f".{SETTINGS}.partial"}  # files that a kill may leave before recorder.json


class Recorder:
    """A ledger that your own loop writes, one fork at a time.

    Every row is chained to the row before and flushed to the disk before `fork` returns. A line that a kill tore is
    cut off by the next recorder on the folder. Several processes may record into one folder.

    Args:
        folder: where the ledger is kept; made if there is none, carried on with if there is one.
        task: name of the task, such as "churn model".
        question: the question in one sentence, which the page shows.
        common_random_numbers: whether both branches of a fork meet the same random numbers.
        exact_restore: whether both branches begin in exactly the same state.
        higher_is_better: False where returns are costs, losses or latencies.
        failure_return: return that a failed branch counts as, in the sign of your returns.
        update_cost: price of an update in the unit of your returns, taken off every update's value by `score`.
        notify: called with a sentence when a torn line is cut off.

    >>> import tempfile, worldfork as wf
    >>> folder = tempfile.mkdtemp() + "/mine"
    >>> recorder = wf.Recorder(folder, task="churn", question="Does weekly retraining pay?")
    >>> recorder.fork(checkpoint="model-a", k=1, hold=[0.5, 0.75], update=[0.75, 1.0], signals={"error": 0.2})
    0.25
    >>> recorder.has(checkpoint="model-a", k=1), len(recorder), wf.verify(folder).problems
    (True, 1, ())
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        task: str,
        question: str = "",
        common_random_numbers: bool | None = None,
        exact_restore: bool | None = None,
        higher_is_better: bool = True,
        failure_return: float | None = None,
        update_cost: float = 0.0,
        notify: Notify = log,
    ) -> None:
        self.path = Path(folder)
        self._notify = notify
        self._settings = _checked(
            RecorderSettings,
            task=task,
            question=question,
            guarantees=_checked(
                Guarantees, common_random_numbers=common_random_numbers, exact_restore=exact_restore
            ),
            higher_is_better=higher_is_better,
            failure_return=None if failure_return is None else _float(failure_return, "failure_return"),
            update_cost=_float(update_cost, "update_cost"),
        )
        self._known: set[Identity] = set()
        self._last = self._settings.digest
        self._size = 0  # bytes of the file of rows that `_known` and `_last` are of
        if is_recorded(self.path):
            RecordedLedger(self.path)  # raises where recorder.json was lost or damaged
        files.refuse_other_folders(self.path, kind="recorded ledger", record=SETTINGS, begun=BEGUN)
        files.make_folders(self.path)
        with files.exclusive(self.path / LOCK, wait=True):
            self._settle()
            if not (self.path / ROWS).exists():  # from now on a folder without it has lost it
                files.append(self.path / ROWS, b"")
            self._catch_up()

    def fork(
        self,
        *,
        checkpoint: Name,
        k: Whole,
        hold: Any,
        update: Any,
        signals: Mapping[str, Any] | None = None,
        direction: str = "",
        level: Any = None,
        arm: str = "",
        stream_seed: Whole = 0,
        update_seed: Whole = 0,
        clean_return: Any = None,
    ) -> Number:
        """Record one fork; return dR, the mean of `update` less that of `hold`, or None if a return is not finite.

        Args:
            checkpoint: the deployed model, a text or a whole number. Models are independent of one another, forks
                of one model are not.
            k: the decision point of its deployment, from 1.
            hold: return without the update, or a list with the return of every episode; NaN where it failed.
            update: return with the update, of the same episodes.
            signals: numbers known before the decision by their names, larger for more reason to update.
            direction: the deployment, where a model has several.
            level: how far the world has drifted.
            arm: the way of updating, where several are compared.
            stream_seed: another deployment of the same model and direction.
            update_seed: another draw of the same update.
            clean_return: return of the model in the world that it was trained for.
        """
        returns = {"hold": _returns(hold, "hold"), "update": _returns(update, "update")}
        if len(returns["hold"]) != len(returns["update"]):
            raise WorldforkError(
                f"`hold` has {len(returns['hold'])} returns and `update` {len(returns['update'])}: episodes are "
                "paired. Give the mean of each where yours are not."
            )
        r_hold, r_update = mean(returns["hold"]), mean(returns["update"])
        row = _checked(
            RecordedRow,
            **_identity(checkpoint, k, direction, arm, stream_seed, update_seed),
            **returns,
            level=_number(level, "level"),
            clean_return=_number(clean_return, "clean_return"),
            signals=_signals({} if signals is None else signals),
            r_hold=r_hold,
            r_update=r_update,
            delta=gain(r_hold, r_update),
            prev="",
            digest="",
        )
        with files.exclusive(self.path / LOCK, wait=True):
            self._catch_up()
            if row.identity in self._known:
                raise WorldforkError(
                    f"Fork {row.k} of {row.place} is in `{self.path}` already, and a fork is recorded once. Ask "
                    "`has` before you compute it, and give each of several processes checkpoints of its own; or "
                    "tell the two apart by direction, stream_seed, update_seed or arm."
                )
            sealed = seal(row, prev=self._last)
            line = as_file(sealed.model_dump(mode="json", by_alias=True))
            files.append(self.path / ROWS, line)
            self._known.add(sealed.identity)
            self._last, self._size = sealed.digest, self._size + len(line)
        return sealed.delta

    def has(
        self,
        *,
        checkpoint: Name,
        k: Whole,
        direction: str = "",
        arm: str = "",
        stream_seed: Whole = 0,
        update_seed: Whole = 0,
    ) -> bool:
        """Return whether the fork is recorded, so that a loop which is run again can skip it."""
        wanted = _identity(checkpoint, k, direction, arm, stream_seed, update_seed)
        with files.exclusive(self.path / LOCK, wait=True):
            self._catch_up()
        order = ("arm", "checkpoint", "direction", "stream_seed", "update_seed", "k")
        return tuple(wanted[name] for name in order) in self._known

    def forks(self) -> "pl.DataFrame":
        """Return the forks as a flat table, one row each, in the columns that `wf.score` reads.

        Recorded costs are returns there, with their sign turned.
        """
        from worldfork.analysis.read.frames import recorded_frame

        return recorded_frame(RecordedLedger(self.path))

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"Recorder({str(self.path)!r}: {len(self)} forks of {self._settings.task})"

    def _settle(self) -> None:
        """Write recorder.json, or raise if there is another."""
        wanted = self._settings.model_dump(mode="json", by_alias=True)
        if not (self.path / SETTINGS).exists():
            files.replace(self.path / SETTINGS, as_file(wanted))
            return
        stored = RecordedLedger(self.path).settings.model_dump(mode="json", by_alias=True)
        if changes := difference(stored, wanted):
            listed = "\n  ".join(changes)
            raise WorldforkError(
                f"`{self.path}` was recorded otherwise:\n  {listed}\nRecord into a new folder, or as before."
            )

    def _catch_up(self) -> None:
        """Read the rows that another process added, and cut off a line that a kill tore. Needs the lock."""
        path = self.path / ROWS
        if (path.stat().st_size if path.exists() else 0) == self._size:
            return
        rows, torn = RecordedLedger(self.path).read()
        if torn:
            files.cut_torn_line(path)
            self._notify(f"{path}: cut off a torn line of {torn} bytes after {len(rows)} forks.")
        self._known = {row.identity for row in rows}
        self._last = rows[-1].digest if rows else self._settings.digest
        self._size = path.stat().st_size


def _identity(
    checkpoint: Name,
    k: Whole,
    direction: str,
    arm: str,
    stream_seed: Whole,
    update_seed: Whole,
) -> dict[str, Any]:
    numbers = {"k": k, "stream_seed": stream_seed, "update_seed": update_seed}
    whole = {name: _whole(value, f"`{name}` is a whole number") for name, value in numbers.items()}
    if not isinstance(checkpoint, str):
        checkpoint = str(_whole(checkpoint, "`checkpoint` is a text or a whole number"))
    return {"checkpoint": str(checkpoint), "direction": direction, "arm": arm, **whole}


def _whole(given: Any, expected: str) -> int:
    """Return a whole number of any library as an integer: 3.0, which a data frame makes of 3, is 3."""
    if not isinstance(given, str | bool | np.bool_):
        with contextlib.suppress(TypeError):
            return operator.index(given)
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            if (number := float(given)).is_integer():
                return int(number)
    raise WorldforkError(f"{expected}; got {given!r:.60}.")


def _returns(given: Any, name: str) -> tuple[Number, ...]:
    """Return a number, or a list of them, as a tuple with None in place of those that are not finite."""
    expected = f"`{name}` is a return, or a list of one per episode"
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, RuntimeError):  # the last of a tensor with gradient, or on a GPU
        array = np.asarray(None)
    if array.dtype.kind not in "iuf":
        raise WorldforkError(
            f"{expected}; got {given!r:.60}. Give numbers (of a tensor `.detach().cpu()`), and float('nan') for a "
            "branch that failed."
        )
    values = np.atleast_1d(array.astype(np.float64))
    if values.ndim != 1 or not len(values):
        raise WorldforkError(f"{expected}; got an array {values.shape}.")
    return finite(values)


def _signals(given: Any) -> dict[str, Number]:
    """Return signals as numbers by their names; raise for a name that figures beside them have."""
    if not isinstance(given, Mapping):
        raise WorldforkError(f'`signals` are numbers by their names, such as {{"error": 0.2}}; got {given!r:.60}.')
    if taken := [name for name in given if name in POLICIES]:
        raise WorldforkError(
            f"A signal can not be called `{taken[0]}`: score has a policy of that name. Rename the signal."
        )
    return {name: _number(value, f"signals.{name}") for name, value in given.items()}


def _number(given: Any, name: str) -> Number:
    """Return a number as a float; None for none, and for one that is not finite."""
    return None if given is None else finite([_float(given, name)])[0]


def _float(given: Any, name: str) -> float:
    """Return a number of any library as a float."""
    if not isinstance(given, str):
        with contextlib.suppress(
            TypeError, ValueError, OverflowError, RuntimeError
        ):  # the last of a tensor of many
            return float(given)
    raise WorldforkError(f"`{name}` is a number or None; got {given!r:.60}.")


def _checked(model: Any, **fields: Any) -> Any:
    """Return a record of these fields; raise with every mistake."""
    try:
        return model(**fields)
    except ValidationError as error:
        raise WorldforkError("It can not be recorded:\n  " + "\n  ".join(explain(error, model))) from error
