"""Every trigger that comes with worldfork keeps the contract, and each of its checks notices an offender."""

import random
from typing import ClassVar

import numpy as np
import pytest
import trigger_checks

from worldfork import registry
from worldfork.desk.triggers import Trigger

NAMES = list(registry.BUILT_IN["triggers"])


@pytest.mark.parametrize("check", trigger_checks.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_triggers_keep_the_contract(name, check):
    check(registry.build("triggers", name, Trigger))


class Forgetful(Trigger):
    """Without a memory."""

    def begin(self, cell, *, event):
        return None


class GlobalCoin(Forgetful):
    def decide(self, memory, segment):
        return memory, random.random()


class UnseededCoin(Forgetful):
    def decide(self, memory, segment):
        return memory, float(np.random.default_rng().random())


class Shared(Forgetful):
    """Counts segments in one place for all deployments."""

    seen: ClassVar[list[int]] = []

    def begin(self, cell, *, event):
        self.seen.clear()

    def decide(self, memory, segment):
        self.seen.append(segment.k)
        return memory, float(len(self.seen))


class Mixed(Forgetful):
    def decide(self, memory, segment):
        return memory, True if segment.k == 1 else 0.5


class Backward(Forgetful):
    """Alters what it gave before: an answer that is still a list when the next segment comes."""

    def begin(self, cell, *, event):
        return []

    def decide(self, memory, segment):
        memory.append(float(np.nanmean(segment.steps["error"])))
        later = np.ma.masked_invalid(memory)
        return memory, _Late(later, memory)


class _Late(float):
    """A number that looks at what came after it was given."""

    def __new__(cls, values, memory):
        made = super().__new__(cls, values.mean())
        made.memory = memory
        return made

    def __repr__(self):
        return repr(sum(self.memory))


@pytest.mark.parametrize(
    ("trigger", "check", "message"),
    [
        (GlobalCoin(), trigger_checks.check_same_digits_twice, "global generator"),
        (UnseededCoin(), trigger_checks.check_same_digits_twice, "asked again"),
        (Shared(), trigger_checks.check_interleaved, "one deployment say something about another"),
        (Backward(), trigger_checks.check_past_alone, "answers otherwise"),
        (Mixed(), trigger_checks.check_one_kind, "with numbers and with alarms"),
    ],
)
def test_a_check_notices_its_offender(trigger, check, message):
    with pytest.raises(AssertionError, match=message):
        check(trigger)
