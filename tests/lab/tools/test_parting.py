"""Where ledger and deployment part: each way by itself, and nothing where nothing is switched on."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from policy_values import one_step_rows

CHECKPOINTS = 3


@pytest.fixture(scope="module")
def parting() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "parting.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_parting", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "switched_on"),
    [
        pytest.param("nothing", set(), marks=pytest.mark.nightly),
        ("forgetting", {"outlasting"}),
        pytest.param("compounding", {"compounding"}, marks=pytest.mark.nightly),
        ("contamination", {"contamination"}),
        pytest.param("all of them", {"outlasting", "compounding", "contamination"}, marks=pytest.mark.nightly),
    ],
)
def test_a_scenario_has_what_it_switches_on_and_nothing_else(
    parting: ModuleType, name: str, switched_on: set[str]
) -> None:
    """Zeros are exact, in closed form and as measured; and the terms add up to what following came to."""
    scenario = parting.SCENARIOS[name]
    for advantages in parting.part(scenario, checkpoints=CHECKPOINTS):
        terms = advantages.terms(scenario.fires)
        assert {term for term, values in terms.items() if values.any()} == {"ledger", "followed", *switched_on}
        added = sum(values for term, values in terms.items() if term != "followed")
        np.testing.assert_allclose(added, terms["followed"], rtol=1e-9)
        if name == "forgetting":
            assert terms["outlasting"].mean() < 0 < terms["ledger"].mean()


def test_where_it_fires_what_is_carried_is_the_ledgers_update(parting: ModuleType) -> None:
    scenario = parting.SCENARIOS["contamination"]
    _, measured = parting.part(scenario, checkpoints=CHECKPOINTS)
    registered = parting.registration(scenario, CHECKPOINTS, seed=1)
    rows = {cell.checkpoint: forks for cell, forks in one_step_rows(registered).items()}  # of `finetune`
    delta = np.array([[row.delta for row in rows[checkpoint]] for checkpoint in range(CHECKPOINTS)])
    np.testing.assert_allclose(measured.carried, delta.T, rtol=1e-12)
