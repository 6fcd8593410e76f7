"""One small study, run once, and one browser."""

import headless
import ledgers
import pytest

from worldfork.desk.report.material import gather
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


@pytest.fixture(scope="session")
def browser():
    if headless.find() is None:
        pytest.skip(
            f"no browser: none of {', '.join(headless.NAMES)} is on PATH (Debian: apt-get install chromium)"
        )
    with headless.Browser() as running:
        yield running
