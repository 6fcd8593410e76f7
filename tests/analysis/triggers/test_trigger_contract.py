"""Every trigger that comes with worldfork keeps the contract that is asked of anybody's."""

import pytest

from worldfork import registry
from worldfork.testing import check_trigger


@pytest.mark.parametrize("name", registry.names("triggers"))
def test_triggers_keep_the_contract(name: str) -> None:
    check_trigger(name)
