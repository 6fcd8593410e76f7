"""One browser."""

import headless
import pytest


@pytest.fixture(scope="session")
def browser():
    headless.need()
    with headless.Browser() as running:
        yield running
