"""The contract of a signal: a number from the episode before the fork, and from nothing else."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from worldfork import registry
from worldfork.lab.signals import Episode, Signal
from worldfork.testing.report import Report, Rule, demand, examine, no_global_draws

__all__ = ["check_signal"]

STEPS: Final = 50
ALWAYS: Final = ("error", "reward")  # logged whatever the agent is
DRAWS = "A signal is a function of the episode alone: what it needs to draw, the agent draws and logs."


def check_signal(
    signal: str | type[Signal] | Signal,
    *,
    settings: Mapping[str, Any] | None = None,
    logged: Sequence[str] = (),
) -> Report:
    """Examine a signal: a name of the registry, a plug-in class, or a record.

    `logged` names what your agent measures at a control step beside `error` and `kl`. Raises `ContractError`.
    """
    if isinstance(signal, str):
        record = registry.build("signals", signal, Signal, settings=settings)
    elif isinstance(signal, type):
        record = signal.model_validate(dict(settings or {}))
    else:
        record = signal
    bench = _Bench(record, tuple(dict.fromkeys((*ALWAYS, "kl", *logged))))
    rules = [
        Rule("A signal is a number", bench.is_a_number, foundation=True),
        Rule("It reads what is there", bench.reads_what_is_there),
        Rule("It draws no randomness of its own", bench.draws_nothing, foundation=True),
        Rule("Nothing is kept between episodes", bench.keeps_nothing),
        Rule("It leaves the episode as it is", bench.leaves_the_episode),
    ]
    return examine(f"The signal `{signal if isinstance(signal, str) else type(record).__name__}`", rules)


class _Bench:
    """A signal, and episodes that log these columns."""

    def __init__(self, signal: Signal, columns: tuple[str, ...]) -> None:
        self.signal, self.columns = signal, columns

    def is_a_number(self) -> None:
        try:
            value = self.signal.read(self.episode(3))
        except KeyError as error:
            remedy = f"Logged here: {', '.join(self.columns)}. What your agent logs besides is named by `logged=`."
            demand(False, f"it reads `{error.args[0]}`, which is not there.", remedy)
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        demand(number, f"`read` returned {value!r:.60}.", "It returns a float: NaN where there is nothing to say.")

    def reads_what_is_there(self) -> None:
        """An agent that does not log a column is not an error."""
        for missing in (name for name in self.columns if name not in (*ALWAYS, *self.signal.needs)):
            try:
                self.signal.read(self.episode(3, without=missing))
            except Exception as error:
                remedy = 'Return NaN where a column is missing: `if "name" not in episode.steps`.'
                demand(False, f"without `{missing}` it raised {type(error).__name__}.", remedy)

    def draws_nothing(self) -> None:
        with no_global_draws("`read`", DRAWS):
            first, second = (self.read(self.episode(3)) for _ in range(2))
        demand(_same(first, second), f"one episode gave {first}, then {second}.", DRAWS)

    def keeps_nothing(self) -> None:
        alone = [self.read(self.episode(k)) for k in (1, 2, 3)]
        again = {k: self.read(self.episode(k)) for k in (3, 7, 1, 2)}
        kept = all(_same(value, again[k]) for k, value in zip((1, 2, 3), alone, strict=True))
        remedy = (
            "Blocks of forks are read in any order and in any process: keep nothing in the object or the module."
        )
        demand(kept, f"in another order the same episodes gave {again}, not {alone}.", remedy)

    def leaves_the_episode(self) -> None:
        episode = self.episode(3)
        before = {name: values.copy() for name, values in episode.steps.items()}
        for values in episode.steps.values():
            values.flags.writeable = False
        remedy = "Copy before you write: the next signal reads the same arrays."
        try:
            self.signal.read(episode)
        except ValueError as error:
            demand("read-only" not in str(error), "`read` writes into the episode.", remedy)
            raise
        demand(episode.steps.keys() == before.keys(), "`read` added to the episode or took from it.", remedy)

    def read(self, episode: Episode) -> float:
        return float(self.signal.read(episode))

    def episode(self, k: int, *, without: str = "") -> Episode:
        random = np.random.default_rng(k)
        steps = {name: random.gamma(2.0, size=STEPS) for name in self.columns}
        steps.pop(without, None)
        return Episode(k=k, steps=steps, level=k / 10, clean_return=90.0, validation_loss=0.3 * k)


def _same(before: float, after: float) -> bool:
    return before == after or (math.isnan(before) and math.isnan(after))
