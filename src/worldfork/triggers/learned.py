"""Triggers that learn from labelled forks: dR is regressed on what was recorded before the decision.

They see the recorded signals so far: each now, and its change since the last and since the first decision point.
Their answer is the dR that they expect, so a price can be set against it and no threshold is fitted.
"""

import abc
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
from jaxtyping import Float
from pydantic import Field

from worldfork.randomness import Event
from worldfork.triggers.base import Answer, CellKey, LabelledDeployment, Segment, Trigger

SIGNALS: Final = ("residual", "running_variance", "percentile", "kl", "validation_loss", "return_deficit")
SIGNED: Final = ("return_deficit",)  # may be negative: a difference of returns, in the same unit everywhere
FIRST: Final = 4  # decision points whose mean is a model's own baseline, in relative units
TINY: Final = 1e-12
Values = Float[np.ndarray, "points signals"]
History = Float[np.ndarray, "_ signals"]  # of a deployment so far
Features = Float[np.ndarray, "points features"]


class LearnedTrigger(Trigger):
    """A regression of dR on recorded signals, which fires where it expects more than an update costs.

    With `relative`, a signal is the logarithm of its ratio to the model's own first decision points, so that one
    fit can be used on another world; `return_deficit`, which may be negative, stays as it is.
    """

    predicts: ClassVar = True
    silent: ClassVar = "it has not been fitted, or its signals are not recorded"
    signals: tuple[str, ...] = SIGNALS
    relative: bool = False
    state: dict[str, list[float] | float] | None = None  # as fitted

    def begin(self, cell: CellKey, *, event: Event) -> History:
        """Return an empty history of signals."""
        return np.empty((0, len(self.signals)))

    def decide(self, memory: History, segment: Segment) -> tuple[History, Answer]:
        """Return the history with this segment's signals, and the expected dR; None before `fit`."""
        memory = np.vstack([memory, _signals(segment, self.signals)])
        if self.state is None:
            return memory, None
        return memory, float(
            self.predict(features(memory, logarithmic=_logarithmic(self.signals, self.relative))[-1:])[0]
        )

    def fit(self, deployments: Sequence[LabelledDeployment]) -> "LearnedTrigger":
        """Return the trigger fitted to the labelled decision points of these deployments."""
        tables = [history(each, self.signals, self.relative) for each in deployments]
        inputs = np.concatenate([np.empty((0, 3 * len(self.signals))), *tables])
        delta = np.concatenate([np.empty(0), *(each.delta for each in deployments)])
        labelled = np.isfinite(delta)
        if not labelled.any():
            return self.model_copy(update={"state": None})
        return self.model_copy(update={"state": self.learn(inputs[labelled], delta[labelled])})

    @abc.abstractmethod
    def learn(self, inputs: Features, delta: Float[np.ndarray, "points"]) -> dict[str, Any]:
        """Return what is learnt of features and labels, as lists and numbers."""

    @abc.abstractmethod
    def predict(self, inputs: Features) -> Float[np.ndarray, "points"]:
        """Return the expected dR at these features."""


class Ridge(LearnedTrigger):
    """A linear regression of dR on standardised features, weights shrunk by `penalty`."""

    penalty: float = Field(default=10.0, gt=0)

    def learn(self, inputs: Features, delta: Float[np.ndarray, "points"]) -> dict[str, Any]:
        there, filled = np.isfinite(inputs), _finite(inputs)
        count = np.maximum(there.sum(axis=0), 1)
        centre = filled.sum(axis=0) / count
        spread = np.sqrt((np.where(there, filled - centre, 0.0) ** 2).sum(axis=0) / count)
        scale = np.where(spread > TINY, spread, 1.0)
        design = np.where(there, (filled - centre) / scale, 0.0)
        level = float(delta.mean())
        moments = design.T @ design + self.penalty * np.eye(design.shape[1])
        weights = np.linalg.solve(moments, design.T @ (delta - level))
        return {"centre": centre.tolist(), "scale": scale.tolist(), "weights": weights.tolist(), "level": level}

    def predict(self, inputs: Features) -> Float[np.ndarray, "points"]:
        assert self.state is not None
        centre, scale, weights = (np.asarray(self.state[name]) for name in ("centre", "scale", "weights"))
        design = np.where(np.isfinite(inputs), (inputs - centre) / scale, 0.0)
        return design @ weights + float(np.asarray(self.state["level"]))


class BoostedStumps(LearnedTrigger):
    """Gradient boosting of one-split trees: each round cuts one feature once, and steps towards the means."""

    rounds: int = Field(default=100, ge=1)
    rate: float = Field(default=0.1, gt=0, le=1)
    cuts: int = Field(default=15, ge=1)  # quantiles of a feature at which it may be cut
    least: int = Field(default=30, ge=1)  # decision points on either side of a cut

    def learn(self, inputs: Features, delta: Float[np.ndarray, "points"]) -> dict[str, Any]:
        inputs = _finite(inputs)
        quantiles = np.quantile(inputs, np.linspace(0, 1, self.cuts + 2)[1:-1], axis=0)
        above = (inputs[:, :, None] >= quantiles.T).reshape(len(inputs), -1)
        size = above.sum(axis=0)
        usable = np.flatnonzero((size >= self.least) & (len(inputs) - size >= self.least))
        above, size = above[:, usable].astype(np.float64), size[usable]
        residual, level = delta - delta.mean(), float(delta.mean())
        chosen: list[tuple[float, float, float, float]] = []
        for _ in range(self.rounds if len(usable) else 0):
            total, upper = residual.sum(), residual @ above
            means = upper / size, (total - upper) / (len(inputs) - size)
            best = int(np.argmax(upper * means[0] + (total - upper) * means[1]))
            up, down = self.rate * means[0][best], self.rate * means[1][best]
            residual = residual - np.where(above[:, best] > 0, up, down)
            feature, cut = divmod(int(usable[best]), self.cuts)
            chosen.append((float(feature), float(quantiles[cut, feature]), float(up), float(down)))
        names = ("feature", "cut", "above", "below")
        return {"level": level, **{name: [each[place] for each in chosen] for place, name in enumerate(names)}}

    def predict(self, inputs: Features) -> Float[np.ndarray, "points"]:
        assert self.state is not None
        feature, cut, above, below = (np.asarray(self.state[name]) for name in ("feature", "cut", "above", "below"))
        if not len(feature):
            return np.full(len(inputs), float(np.asarray(self.state["level"])))
        over = _finite(inputs)[:, feature.astype(np.int64)] >= cut
        return np.where(over, above, below).sum(axis=1) + float(np.asarray(self.state["level"]))


def features(signals: Values, *, logarithmic: Sequence[bool] | None = None) -> Features:
    """Return, for every decision point, each signal, its last change and its change since the first.

    A row depends on the rows up to it alone. Of a `logarithmic` signal the logarithm is read, and its mean over the
    first decision points is taken from it.

    >>> features(np.array([[1.0], [3.0], [2.0]])).tolist()
    [[1.0, 0.0, 0.0], [3.0, 2.0, 2.0], [2.0, -1.0, 1.0]]
    """
    now = signals
    if logarithmic is not None:
        mask = np.asarray(logarithmic)
        signals = np.where(mask, np.log(np.maximum(np.where(mask, signals, 1.0), TINY)), signals)
        running = np.cumsum(signals, axis=0) / np.arange(1, len(signals) + 1)[:, None]
        first = running[np.minimum(np.arange(len(signals)), FIRST - 1)]
        now = np.where(mask, signals - first, signals)
    last = np.diff(signals, axis=0, prepend=signals[:1])
    return np.concatenate([now, last, signals - signals[:1]], axis=1)


@functools.lru_cache(maxsize=8192)
def history(deployment: LabelledDeployment, signals: tuple[str, ...], relative: bool) -> Features:
    """Return the features at every decision point of a deployment, remembered: many fits read the same one."""
    read = [_signals(segment, signals) for segment in deployment.segments]
    return features(np.array(read).reshape(len(read), len(signals)), logarithmic=_logarithmic(signals, relative))


def _signals(segment: Segment, names: Sequence[str]) -> Float[np.ndarray, "signals"]:
    return np.array([segment.signals.get(name, np.nan) for name in names], dtype=np.float64)


def _logarithmic(signals: Sequence[str], relative: bool) -> tuple[bool, ...] | None:
    return tuple(name not in SIGNED for name in signals) if relative else None


def _finite(inputs: Features) -> Features:
    """Return the features with 0 where one is missing."""
    return np.where(np.isfinite(inputs), inputs, 0.0)
