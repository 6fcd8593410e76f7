"""Every trigger by name, and how all of them are read."""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from worldfork.desk.reading.prefork import Prefork
from worldfork.desk.triggers.adwin import Adwin
from worldfork.desk.triggers.base import Reading, Signal, Trigger, Unavailable
from worldfork.desk.triggers.clock import Clock
from worldfork.desk.triggers.coin import Coin
from worldfork.desk.triggers.conformal import ConformalMartingale
from worldfork.desk.triggers.drift import DriftOracle
from worldfork.desk.triggers.kl import RawKL
from worldfork.desk.triggers.kswin import Kswin
from worldfork.desk.triggers.page_hinkley import PageHinkley
from worldfork.desk.triggers.percentile import Percentile
from worldfork.desk.triggers.periodic import Periodic
from worldfork.desk.triggers.residual import Residual
from worldfork.desk.triggers.return_deficit import ReturnDeficit
from worldfork.desk.triggers.running_variance import RunningVariance
from worldfork.desk.triggers.validation_loss import ValidationLoss
from worldfork.errors import WorldforkError

__all__ = ["CATALOGUE", "is_reference", "read_triggers"]

CATALOGUE: Final[dict[str, Trigger]] = {
    "residual": Residual(),
    "running_variance": RunningVariance(),
    "percentile": Percentile(),
    "kl": RawKL(),
    "validation_loss": ValidationLoss(),
    "return_deficit": ReturnDeficit(),
    "adwin": Adwin(),
    "page_hinkley": PageHinkley(),
    "kswin": Kswin(),
    "conformal": ConformalMartingale(),
    "drift": DriftOracle(),
    "periodic": Periodic(),
    "clock": Clock(),
    "random": Coin(),
}


def read_triggers(
    prefork: Prefork,
    *,
    names: Iterable[str] | None = None,
    seed: int = 0,
    watch: Callable[[str], None] = lambda name: None,
) -> dict[str, Reading]:
    """The reading of every trigger, or of those in `names`; `watch` hears each name as it begins.

    A recorded `signal_<name>` is the trigger of that name, also where a family here would compute it: the ledger's
    word stands. Any other recorded signal is a trigger of its own.
    """
    named = dict.fromkeys([*CATALOGUE, *prefork.signals])
    known = sorted(named, key=is_reference)  # candidates first, yardsticks last
    chosen = known if names is None else list(dict.fromkeys(names))
    for name in chosen:
        if name not in known:
            raise WorldforkError(f"No trigger is called `{name}`; known here: {', '.join(known)}.")
    readings: dict[str, Reading] = {}
    for name in chosen:
        watch(name)
        if name in prefork.signals:
            recorded = prefork.signals[name]
            empty = bool(np.isnan(recorded).all())
            readings[name] = Unavailable("every value of the signal is missing") if empty else Signal(recorded)
        else:
            readings[name] = CATALOGUE[name].read(prefork, seed=seed)
    return readings


def is_reference(name: str) -> bool:
    """Whether a trigger is a yardstick (schedule, clock, coin, oracle) rather than a candidate rule."""
    return name in CATALOGUE and CATALOGUE[name].reference
