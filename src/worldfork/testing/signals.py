"""Contract of a signal: a number from the episode before the fork, and from nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from worldfork.lab.signals import Episode, Signal
from worldfork.testing.contract import (
    Report,
    demand,
    demand_pure,
    demand_unwritten,
    difference,
    examine,
    name_of,
    resolved,
    rule,
)

STEPS: Final = 50
ALWAYS: Final = ("error", "reward")  # logged whatever the agent is
DRAWS = "A signal is a function of the episode alone: what it needs to draw, the agent draws and logs."
COPY = "Copy before you write: the next signal reads the same arrays."
KEEP_NOTHING = "Blocks of forks are read in any order and process: keep nothing in the object or the module."


def check_signal(
    signal: str | type[Signal] | Signal,
    *,
    settings: Mapping[str, Any] | None = None,
    logged: Sequence[str] = (),
) -> Report:
    """Examine a signal.

    Args:
        signal: a name of the registry, a plug-in class, or a record.
        settings: settings of a name or class.
        logged: what your agent measures at a control step beside `error` and `kl`.

    Raises:
        ContractError: with everything that is wrong.

    Example:
        >>> check_signal("residual").kept[0]
        'A signal is a number'
    """
    record = resolved("signals", signal, Signal, settings)
    bench = _Bench(record, tuple(dict.fromkeys((*ALWAYS, "kl", *logged))))
    return examine(f"The signal `{name_of(signal)}`", bench)


class _Bench:
    """A signal, and episodes that log these columns."""

    def __init__(self, signal: Signal, columns: tuple[str, ...]) -> None:
        self.signal, self.columns = signal, columns

    @rule("A signal is a number", foundation=True)
    def is_a_number(self) -> None:
        try:
            value = self.signal.read(self.episode(3))
        except KeyError as error:
            remedy = f"Logged here: {', '.join(self.columns)}. What your agent logs besides is named by `logged=`."
            demand(False, f"it reads `{error.args[0]}`, which is not there.", remedy)
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        demand(number, f"`read` returned {value!r:.60}.", "It returns a float: NaN where there is nothing to say.")

    @rule("It reads what is there")
    def reads_what_is_there(self) -> None:
        """An agent that does not log a column is not an error."""
        for missing in (name for name in self.columns if name not in (*ALWAYS, *self.signal.needs)):
            try:
                self.signal.read(self.episode(3, without=missing))
            except Exception as error:
                remedy = 'Return NaN where a column is missing: `if "name" not in episode.steps`.'
                demand(False, f"without `{missing}` it raised {type(error).__name__}.", remedy)

    @rule("It draws no randomness of its own", foundation=True)
    def draws_nothing(self) -> None:
        demand_pure(lambda: self.read(self.episode(3)), "`read`", "one episode gave two values", DRAWS)

    @rule("Nothing is kept between episodes")
    def keeps_nothing(self) -> None:
        alone = {k: self.read(self.episode(k)) for k in (1, 2, 3)}
        again = {k: self.read(self.episode(k)) for k in (3, 7, 1, 2)}
        seen = f"in another order the same episodes gave {again}, not {alone}."
        demand(not difference(alone, {k: again[k] for k in alone}), seen, KEEP_NOTHING)

    @rule("It leaves the episode as it is")
    def leaves_the_episode(self) -> None:
        demand_unwritten(self.signal.read, self.episode(3), subject="`read`", thing="the episode", remedy=COPY)

    def read(self, episode: Episode) -> float:
        return float(self.signal.read(episode))

    def episode(self, k: int, *, without: str = "") -> Episode:
        random = np.random.default_rng(k)
        steps = {name: random.gamma(2.0, size=STEPS) for name in self.columns}
        steps.pop(without, None)
        return Episode(k=k, steps=steps, level=k / 10, clean_return=90.0, validation_loss=0.3 * k)
