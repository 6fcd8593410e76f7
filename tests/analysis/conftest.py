"""One small study, run and scored once for all rooms of the analysis."""

import ledgers
import pytest

from worldfork.analysis.present.page import gather
from worldfork.lab.run import run


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Three doses on two checkpoints of the linear-quadratic world: 72 forks."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "small.toml").write_text(ledgers.REGISTRATION)
    return run(folder / "small.toml", folder / "study")


@pytest.fixture(scope="session")
def material(small):
    return gather(small.path, permutations=500)
