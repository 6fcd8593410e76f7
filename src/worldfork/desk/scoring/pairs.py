"""Which arms of a study are compared: those that were registered to be, else the arms of a sweep, else all with the
first (docs/report.md)."""

import dataclasses
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final, Literal

from worldfork.desk.scoring.alike import agreeing_but_for, arm_settings
from worldfork.desk.scoring.doses import VARIED as DOSE
from worldfork.desk.scoring.noises import VARIED as NOISE
from worldfork.registration import Registration

__all__ = ["ArmPair", "compared_pairs"]

# Numbers that a study sweeps, each with what is registered to go along with it: one setting, not two.
SWEPT: Final = (frozenset(DOSE), frozenset(NOISE), frozenset({"mechanism.window"}))
Reason = Literal["predicted", "as predicted", "sweep", "first"]


@dataclasses.dataclass(frozen=True)
class ArmPair:
    """The later of two arms, in the order registered, less the earlier; and why these two."""

    later: str
    earlier: str
    reason: Reason


@dataclasses.dataclass(frozen=True)
class _Arms:
    """Every setting of every arm, by its path."""

    settings: Mapping[str, Mapping[str, str]]

    def differing(self, one: str, other: str) -> frozenset[str]:
        """The paths at which two arms differ."""
        first, second = self.settings[one], self.settings[other]
        return frozenset(path for path in first.keys() | second.keys() if first.get(path) != second.get(path))

    def at(self, arm: str, paths: Collection[str]) -> Hashable:
        """What an arm sets there."""
        return frozenset((path, self.settings[arm].get(path)) for path in paths)

    def agreeing_but_for(self, paths: Collection[str]) -> list[list[str]]:
        """The arms in groups that agree everywhere else, in the order registered."""
        return agreeing_but_for(paths, self.settings)


def compared_pairs(registration: Registration, present: Collection[str]) -> list[ArmPair]:
    """The arms to compare, of those that are `present`.

    Where predictions compare two arms, these two, and any other two that differ in the same settings by the same
    values. Every arm that is neither in such a pair nor in the sweep over a number that it compares two values of:
    with the first of its own sweep, where one setting sorts all arms into sweeps, or else with the first arm.
    """
    arms = _Arms({arm.name: arm_settings(arm) for arm in registration.arms if arm.name in present})
    if len(arms.settings) < 2:
        return []
    order = list(arms.settings)
    otherwise = _in_sweeps(arms) or [ArmPair(arm, order[0], "first") for arm in order[1:]]
    predicted = _predicted(registration, order)
    counterparts = [pair for pair in _counterparts(arms, predicted) if pair not in predicted]
    pairs = [ArmPair(*pair, "predicted") for pair in predicted]
    pairs += [ArmPair(*pair, "as predicted") for pair in counterparts]
    placed = {arm for pair in pairs for arm in (pair.later, pair.earlier)} | _between(arms, pairs)
    return [*pairs, *(pair for pair in otherwise if pair.later not in placed)]


def _predicted(registration: Registration, order: Sequence[str]) -> list[tuple[str, str]]:
    """The arms that predictions compare, the later one first whichever way round it was said."""
    named = [
        (prediction.arm, prediction.against)
        for prediction in registration.predictions
        if prediction.arm in order and prediction.against in order
    ]
    pairs = [
        (one, other) if order.index(one) > order.index(other) else (other, one)
        for one, other in named
        if one is not None and other is not None and one != other
    ]
    return list(dict.fromkeys(pairs))


def _counterparts(arms: _Arms, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs that differ as a registered one does, and agree in all else with each other."""
    found = []
    for later, earlier in pairs:
        paths = arms.differing(later, earlier)
        for group in arms.agreeing_but_for(paths) if paths else ():
            ends = [
                next((arm for arm in group if arms.at(arm, paths) == arms.at(end, paths)), None)
                for end in (later, earlier)
            ]
            if ends[0] is not None and ends[1] is not None:
                found.append((ends[0], ends[1]))
    return list(dict.fromkeys(found))


def _between(arms: _Arms, pairs: Iterable[ArmPair]) -> set[str]:
    """Arms that stand in the sweep over a number whose two values a pair compares."""
    between: set[str] = set()
    for pair in pairs:
        number = _swept(arms.differing(pair.later, pair.earlier))
        for group in arms.agreeing_but_for(number) if number else ():
            between |= set(group) if pair.later in group else set()
    return between


def _in_sweeps(arms: _Arms) -> list[ArmPair]:
    """Every arm with the first of its sweep, over the setting that varies first as arms were registered; empty
    where no one setting has a place for all arms, as in a list of alternatives to the first."""
    first, *others = arms.settings
    for other in others:
        differing = arms.differing(other, first)
        setting = _swept(differing) or (differing if len(differing) == 1 else None)
        groups = arms.agreeing_but_for(setting) if setting else []
        if groups and all(len(group) > 1 for group in groups):
            return [ArmPair(later, group[0], "sweep") for group in groups for later in group[1:]]
    return []


def _swept(differing: frozenset[str]) -> frozenset[str] | None:
    """The swept number in which alone two arms differ."""
    return next((number for number in SWEPT if differing and differing <= number), None)
