"""What was registered to be tested together: the candidates, and the means, of every task and arm.

Holm's adjustment (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
Statistics 1979) runs over the registered family, not over what happens to be computed: scoring one arm, one task
or one trigger alone must not make a test easier to pass. Members that were not computed count as p = 1, which can
only raise the others. What is not in the family is exploratory: it is adjusted as one more member, and says so
wherever it is shown.
"""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from worldfork.desk.scoring.few_clusters import SIGNIFICANT
from worldfork.desk.scoring.undefined import Figure, Undefined
from worldfork.registration.records import CANDIDATES

__all__ = ["CANDIDATES", "Family", "adjust", "holm"]

Key = TypeVar("Key", bound=Hashable)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """The tests that were decided on beforehand."""

    candidates: tuple[str, ...]
    tasks_of_arms: tuple[tuple[str, str], ...]  # every (arm, task) of the study, scored or not
    registered: bool  # False: a flat table, whose family is whatever it has

    @property
    def means(self) -> frozenset[tuple[str, str]]:
        """The registered means, by arm and task."""
        return frozenset(self.tasks_of_arms)

    @property
    def triggers(self) -> frozenset[tuple[str, str, str]]:
        """The registered candidates, by arm, task and name."""
        return frozenset((arm, task, name) for arm, task in self.tasks_of_arms for name in self.candidates)

    @property
    def permutations_needed(self) -> int:
        """The fewest permutations with which the smallest p there is, 1 / (1 + permutations), can pass the
        strictest step of Holm's adjustment."""
        return len(self.triggers) * round(1 / SIGNIFICANT)

    def exploratory(self, name: str) -> bool:
        """Whether a trigger was not registered as a candidate."""
        return name not in self.candidates


def adjust(p_values: Mapping[Key, Figure], family: Iterable[Key]) -> dict[Key, Figure]:
    """Holm's adjustment of each p over the family, whether or not all of it was computed.

    A member of the family without a p value (undefined, or not computed) counts as p = 1. What is not a member is
    adjusted as one more, on its own, so that it makes no registered test stricter.
    """
    members = frozenset(family)
    known = {key: p for key, p in p_values.items() if not isinstance(p, Undefined)}
    inside = {key: p for key, p in known.items() if key in members}
    adjusted: dict[Key, Figure] = dict(holm(inside, size=len(members)))
    for key, p in known.items():
        if key not in members:
            adjusted[key] = holm({**inside, key: p}, size=len(members) + 1)[key]
    return {key: adjusted.get(key, p) for key, p in p_values.items()}


def holm(p_values: Mapping[Key, float], *, size: int | None = None) -> dict[Key, float]:
    """Holm's adjustment over all of them, among `size` tests of which the others have p = 1.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    >>> holm({"a": 0.01}, size=3)
    {'a': 0.03}
    """
    count = len(p_values) if size is None else size
    adjusted: dict[Key, float] = {}
    highest = 0.0
    for rank, (key, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (count - rank) * p))
        adjusted[key] = highest
    return adjusted
