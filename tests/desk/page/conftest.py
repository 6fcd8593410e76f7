"""One browser."""

import headless
import pytest


@pytest.fixture(scope="session")
def browser():
    if headless.find() is None:
        pytest.skip(
            f"no browser: none of {', '.join(headless.NAMES)} is on PATH (Debian: apt-get install chromium)"
        )
    with headless.Browser() as running:
        yield running
