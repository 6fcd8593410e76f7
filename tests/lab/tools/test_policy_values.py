"""Policies whose value is known: what the instrument measures agrees with the closed form."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from worldfork.lab.environments.closed_form import expected_return, expected_returns
from worldfork.lab.environments.linear_quadratic import Matrices
from worldfork.lab.tools.policy_values import follow


def benchmark() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "deployment.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_deployments", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


def test_many_expected_returns_are_the_single_ones() -> None:
    draws = np.random.default_rng(0)
    matrices = Matrices.pendulum(4.0)
    gains = draws.normal(2.0, 1.0, (5, 2))
    gains[3] = np.nan
    levels = draws.uniform(0, 1, (5, 20))
    single = [
        expected_return(matrices, gain[None], levels=level, action_noise=0.3)
        for gain, level in zip(gains, levels, strict=True)
    ]
    assert expected_returns(matrices, gains, levels=levels, action_noise=0.3) == pytest.approx(single, rel=1e-12)


def test_followed_policies_return_what_is_expected_of_their_parameters() -> None:
    """The benchmark's own code, at a size for every day: 16 checkpoints, three segments."""
    module = benchmark()
    registered = module.registration(0, 16, points=3, block=16)
    values = follow(registered, thresholds=module.fitted(registered, 4))
    assert values.policies == ("never", "always", "periodic", "random", "residual", "running")
    np.testing.assert_array_equal(values.updates[0], 0.0)
    np.testing.assert_array_equal(values.updates[1], 3.0)
    for measured, known in (
        (values.returned, values.expected),
        (values.evaluated, values.expected_evaluated),
    ):
        off = measured - known
        errors = off.std(axis=1, ddof=1) / np.sqrt(off.shape[1])
        assert (np.abs(off.mean(axis=1)) < 4 * errors).all()
    summary = module.summary([values], 4)
    assert all(0 <= one["coverage"] <= 1 for outcomes in summary.values() for one in outcomes.values())
    # Updating pays in this world, and the closed form says so without a single episode.
    assert values.expected_evaluated[1].mean() > values.expected_evaluated[0].mean()
