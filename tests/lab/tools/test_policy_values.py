"""Policies whose value is known: what the instrument measures agrees with the closed form."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from worldfork.analysis.score.decisions import fit_threshold
from worldfork.analysis.score.intervals import student_t
from worldfork.lab.environments.closed_form import expected_return
from worldfork.lab.environments.linear_quadratic import Matrices

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from policy_values import expected_returns, follow


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
    """The benchmark's own code, at a size for every day: 15 checkpoints, three segments."""
    module = benchmark()
    world = module.Drift(points=3, scale=8.0, given=0.006, curve=(0.004, 0.008))
    registered = module.registration(0, 15, world, streams=1, block=15)
    thresholds = module.fitted(registered)
    values = follow(registered, thresholds=module.spelled_thresholds(thresholds, 0))
    assert values.policies == ("never", "always", "given", "own20", "own5", "periodic", "random", "running")
    np.testing.assert_array_equal(values.updates[0], 0.0)
    np.testing.assert_array_equal(values.updates[1], 3.0)
    for measured, known in (
        (values.returned, values.expected),
        (values.evaluated, values.expected_evaluated),
    ):
        off = measured - known
        errors = off.std(axis=1, ddof=1) / np.sqrt(off.shape[1])
        assert (np.abs(off.mean(axis=1)) < 4 * errors).all()
    # Updating pays in this world, and the closed form says so without a single episode.
    assert values.expected_evaluated[1].mean() > values.expected_evaluated[0].mean()
    followed = module.over_never(values, thresholds)
    np.testing.assert_allclose(
        followed.known[1, 0, :, 0], values.expected_evaluated[1] - values.expected_evaluated[0]
    )


def test_the_benchmark_fits_as_the_analysis_does() -> None:
    draws = np.random.default_rng(0)
    for _ in range(50):
        signal, delta = draws.normal(size=7), draws.normal(size=7)
        assert benchmark().best_threshold(signal, delta) == pytest.approx(fit_threshold(signal, delta))


def test_coverage_counts_what_intervals_hold() -> None:
    """Normal values are covered as promised; values that share a draw within a repetition are not."""
    module, draws = benchmark(), np.random.default_rng(1)
    independent = draws.normal(1.0, 1.0, (2000, 5))
    assert module.covered(independent, np.ones(2000)).share == pytest.approx(0.95, abs=0.015)
    assert module.correlation(independent) == pytest.approx(0.0, abs=0.03)
    for values in independent[:20]:
        low, high = student_t(values)
        for truth, held in ((low + 1e-6, 1.0), (high - 1e-6, 1.0), (low - 1e-6, 0.0), (high + 1e-6, 0.0)):
            assert module.covered(values[None], np.array([truth])).share == held
    shared = independent + draws.normal(0.0, 1.0, (2000, 1))
    assert module.covered(shared, np.ones(2000)).share < 0.8
    assert module.correlation(shared) == pytest.approx(0.5, abs=0.05)


def test_skewed_values_are_covered_as_their_skewness_says() -> None:
    module, draws = benchmark(), np.random.default_rng(3)
    skewed = draws.gamma(1.0, size=(20_000, 40))  # skewness 2, excess kurtosis 6
    expected = module.expected_coverage(skewed.reshape(-1), 40)
    assert expected == pytest.approx(0.95 - (0.25 * 4 - 0.016 * 6) / 40, abs=0.002)
    assert module.covered(skewed, np.ones(len(skewed))).share == pytest.approx(expected, abs=0.01)


def test_a_threshold_is_worth_what_was_followed_beside_it() -> None:
    module = benchmark()
    known = np.array([4.0, 3.0, 1.0]).reshape(1, 3, 1, 1) * np.ones((2, 1, 6, 2))
    curve = module.Followed(("always", "at-0.1", "at-0.2"), known, known, known[0], np.empty((0, 6)))
    worth = module.worth(np.array([-np.inf, 0.05, 0.1, 0.15, 0.3, np.inf]), curve, 0)
    np.testing.assert_allclose(worth, [4.0, 4.0, 3.0, 2.0, 1.0, 0.0])


def test_diverged_deployments_are_counted_and_their_repetitions_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One deployment of 1e50 in 240: the value of all attempted is one that no interval holds but its own."""
    module, draws = benchmark(), np.random.default_rng(4)
    known = np.ones((2, 2, 120, 2))
    measured = known + draws.normal(size=known.shape)
    measured[1, 0, 7, 1] = known[1, 0, 7, 1] = -1e50  # evaluated, always, second stream
    followed = module.Followed(("always", "given"), measured, known, known[0], np.empty((0, 120)))
    assert np.argwhere(followed.diverged).tolist() == [[0, 7, 1]]

    module.report(followed, None)
    text = capsys.readouterr().out
    counted = [line for line in text.splitlines() if line.startswith(("| always | 240", "| given | 240"))]
    assert counted[0].startswith("| always | 240 | 1 | 1 of 3 |")
    assert counted[0].endswith("| 1.0e+50 |")
    assert counted[1].startswith("| given | 240 | 0 | 0 of 3 |")
    one_stream, attempted, _ = text.partition("The same for every attempted deployment, 2 of the streams:")
    assert attempted
    assert "e+4" not in one_stream.split("Repetitions of their own")[1]  # the first stream has none
    assert text.count("The same for every attempted") == 1
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| always | 1.0 | evaluated")]
    without, every = lines[-3], lines[-2]
    assert without[3] == "1.000"
    assert float(without[6].split("%")[0]) > 80
    assert float(every[3]) == pytest.approx(-1e50 / 240, rel=0.1)
    assert float(every[6].split("%")[0]) < 10


def test_a_return_that_is_no_number_has_diverged() -> None:
    module = benchmark()
    columns = [np.zeros((2, 1, 3, 1)) for _ in range(2)]
    columns[0][0, 0, 1, 0], columns[1][1, 0, 2, 0] = np.nan, np.inf
    followed = module.Followed(("always",), *columns, columns[0][0], np.empty((0, 3)))
    assert followed.diverged[0, :, 0].tolist() == [False, True, True]


def test_parts_of_several_processes_are_joined(tmp_path: Path) -> None:
    module = benchmark()
    draws = np.random.default_rng(2)
    parts = []
    for seed in (1, 2):
        columns = (draws.normal(size=shape) for shape in ((2, 3, 4, 2), (2, 3, 4, 2), (3, 4, 2), (2, 4)))
        parts.append(module.Followed(("always", "own20", "own5"), *columns))
        parts[-1].write(tmp_path / f"{seed}.npz")
    joined = module.Followed.joined([module.Followed.read(tmp_path / f"{seed}.npz") for seed in (1, 2)])
    assert joined.policies == parts[0].policies
    np.testing.assert_array_equal(joined.measured, np.concatenate([part.measured for part in parts], axis=2))
    np.testing.assert_array_equal(joined.thresholds, np.concatenate([part.thresholds for part in parts], axis=1))


def test_following_needs_no_package_of_the_analysis() -> None:
    """So that many processes can follow on a machine without analysis."""
    code = "import sys; import deployment; assert not {'polars', 'jax', 'mujoco', 'rich'} & set(sys.modules)"
    benchmarks = Path(__file__).parents[3] / "benchmarks"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(benchmarks), *sys.path])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
