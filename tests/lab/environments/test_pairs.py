"""Worlds of a pair of functions that save and restore a simulator."""

from typing import Any, ClassVar

import pytest
from falling import Ledge, LedgePlugin

from worldfork.errors import WorldforkError


class Bare(Ledge):
    action_space = None


class Spaceless(LedgePlugin):
    """A simulator that does not say which actions it takes, behind a plug-in that does not either."""

    simulator: ClassVar = "spaceless 1"

    def make(self) -> Any:
        return Bare(self.limit)


class Told(Spaceless):
    """The same with its actions told."""

    def actions(self, env: Any) -> tuple[int, float]:
        return 1, 2.0


def test_a_simulator_without_an_action_space_is_asked_for_its_actions_in_a_sentence() -> None:
    with pytest.raises(WorldforkError, match=r"`Spaceless` has no `action_space`.*`actions\(self, env\)`"):
        Spaceless().build(scale=1.0, threads=1)


def test_a_plug_in_may_say_how_many_actions_there_are_and_how_far_they_go() -> None:
    world = Told().build(scale=1.0, threads=1)
    assert (world.action_size, world.action_bound) == (1, 2.0)
