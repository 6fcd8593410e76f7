"""The benchmark that fits thresholds and table anew in every resample, against the score and known answers."""

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from published import folder_of

import worldfork as wf

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from refitting import fitted, gained


def test_with_every_checkpoint_drawn_once_the_gain_is_that_of_the_score():
    study = wf.Study(folder_of("judge-walker"))
    task = wf.score(study, permutations=9)["gentle-ewc", "walker-walk"]
    forks = (
        study.forks().filter(pl.col("arm") == "gentle-ewc").sort(pl.col("checkpoint").cast(int), "direction", "k")
    )
    worth = (forks["r_update"] - forks["r_hold"]).to_numpy().reshape(10, -1)
    for name in ("kl", "percentile"):
        signal = forks[f"signal_{name}"].to_numpy().reshape(10, -1)
        scored = task.triggers.all_attempted[name].gains["position_table"].mean
        assert gained(worth, signal, np.arange(10)).mean() == pytest.approx(scored)


def test_copies_of_a_checkpoint_are_left_out_together():
    """Fitted on a copy of itself, the first would fire at its own gain of 10."""
    worth = np.array([[10.0, -10.0], [-30.0, -1.0]])
    signal = np.array([[2.0, 1.0], [1.0, 1.0]])
    assert gained(worth, signal, np.array([0, 0, 1])).tolist() == [0.0, 0.0, 30.0]


@pytest.mark.parametrize(
    ("signal", "worth", "threshold"),
    [
        ([1.0, 2.0, 3.0], [-5.0, 4.0, 3.0], 1.5),
        ([1.0, 2.0, 3.0], [5.0, 4.0, 3.0], -np.inf),
        ([1.0, 2.0, 3.0], [-5.0, -4.0, -3.0], np.inf),
        ([2.0, 2.0 * (1 + 1e-12), 3.0], [-5.0, 4.0, 3.0], 2.5),  # two that are one value fire together
    ],
)
def test_a_threshold_lies_between_values_that_differ(signal, worth, threshold):
    assert fitted(np.array(signal), np.array(worth)) == pytest.approx(threshold)
