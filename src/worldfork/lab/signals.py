"""Signals: what a trigger may read at a fork, from the stream before it alone (paper, "Scoring"; docs/protocol.md).

A signal is a number per decision point, computed while the study runs and stored in the row; larger means more
reason to update. Its name is found by `worldfork.registry`, so that a signal from inside your own model is a class
of yours: log what it needs in `Surprise.signals`, read it here, and name it in the registration's `signals`.
"""

import abc
import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from worldfork.errors import WorldforkError
from worldfork.registry import Plugin


@dataclasses.dataclass(frozen=True)
class Episode:
    """The episode that ends at a decision point, and what is known by then. Nothing after the fork is here.

    A trigger is fed the same stretch of a deployment as a `worldfork.triggers.Segment`, with the signals in it.
    """

    k: int
    steps: Mapping[str, Float64[np.ndarray, " T"]]  # what was logged at each control step: error, kl, reward, ...
    level: float  # of the drift, at the fork
    clean_return: float  # of the checkpoint, in the clean world
    validation_loss: float  # the frozen model's training loss on this episode


class Signal(Plugin):
    """A signal by name; its fields are its settings.

    >>> class Worst(Signal):
    ...     needs: ClassVar = ("error",)
    ...
    ...     def read(self, episode):
    ...         return float(episode.steps["error"].max())
    """

    needs: ClassVar[tuple[str, ...]] = ()  # columns without which it has nothing to say

    @abc.abstractmethod
    def read(self, episode: Episode) -> float:
        """Return the signal at the decision point; NaN where there is nothing to say."""


def read_signal(name: str, signal: Signal, episode: Episode) -> float:
    """Return the signal at the decision point, or one clear error about the class that stands for it."""
    if any(column not in episode.steps for column in signal.needs):
        return float("nan")
    try:
        return signal.read(episode)
    except Exception as error:
        logged = ", ".join(episode.steps)
        raise WorldforkError(
            f"The signal `{name}` fails: {type(error).__name__} {error}. Logged here: {logged}; return NaN where a "
            "column is missing. worldfork.testing.check_signal says more."
        ) from error


class Residual(Signal):
    """Mean one-step prediction error."""

    needs = ("error",)

    def read(self, episode: Episode) -> float:
        return float(np.mean(episode.steps["error"]))


class RawKL(Signal):
    """Mean KL of posterior from prior, without free bits; missing where an agent has none."""

    def read(self, episode: Episode) -> float:
        return float(np.mean(episode.steps["kl"])) if "kl" in episode.steps else float("nan")


class RunningVariance(Signal):
    """Variance of the one-step error."""

    needs = ("error",)

    def read(self, episode: Episode) -> float:
        error = episode.steps["error"]
        return float(np.var(error, ddof=1)) if len(error) > 1 else float("nan")


class Percentile(Signal):
    """95th percentile of the one-step error."""

    needs = ("error",)

    def read(self, episode: Episode) -> float:
        return float(np.percentile(episode.steps["error"], 95))


class ReturnDeficit(Signal):
    """The amount by which the episode's return is below the checkpoint's clean return."""

    def read(self, episode: Episode) -> float:
        return episode.clean_return - float(np.sum(episode.steps["reward"]))


class ValidationLoss(Signal):
    """The frozen model's training loss on the episode, all of which is held out."""

    def read(self, episode: Episode) -> float:
        return episode.validation_loss


class Drift(Signal):
    """The drift level itself: a baseline that no deployed rule could read."""

    def read(self, episode: Episode) -> float:
        return episode.level


class Clock(Signal):
    """The decision point's number: a baseline that reads nothing."""

    def read(self, episode: Episode) -> float:
        return float(episode.k)
