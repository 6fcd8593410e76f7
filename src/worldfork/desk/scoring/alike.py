"""Arms that are alike but for one thing, such as the dose of an update or the noise of a stream."""

import collections
import dataclasses
import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Final

from worldfork.registration import Arm
from worldfork.registry import BUILT_IN

__all__ = ["ArmGroup", "alike_but_for", "arm_settings"]

RATE: Final = "mechanism.settings.rate"
MECHANISM: Final = "mechanism.name"
ALL: Final = "all"  # the label of a group that is the only one
PLAIN: Final = "no other setting"  # of a group that sets nothing of what the others set


@dataclasses.dataclass(frozen=True)
class ArmGroup:
    """Arms of which one setting varies, and what sets them apart from other such arms."""

    label: str
    arms: tuple[Arm, ...]


def alike_but_for(
    paths: Collection[str], arms: Iterable[Arm], *, value: Callable[[Arm], Hashable]
) -> list[ArmGroup]:
    """The arms that agree in every setting but those at `paths`, in the order registered; groups in which `value`
    is the same for all are left out, since nothing varies in them."""
    groups: dict[Hashable, list[Arm]] = {}
    shared: dict[Hashable, dict[str, str]] = {}
    for arm in arms:
        settings = {path: spelled for path, spelled in arm_settings(arm).items() if path not in paths}
        key = frozenset(settings.items())
        groups.setdefault(key, []).append(arm)
        shared[key] = settings
    varying = {key: inside for key, inside in groups.items() if len({value(arm) for arm in inside}) > 1}
    labels = _labels({key: shared[key] for key in varying})
    return [ArmGroup(labels[key], tuple(inside)) for key, inside in varying.items()]


def arm_settings(arm: Arm) -> dict[str, str]:
    """Every setting by its path. The rate of a mechanism that comes with worldfork is 1 where none is said."""
    settings = {path: _spelled(value) for path, value in _leaves(arm.decisive(), "")}
    if arm.mechanism.name in BUILT_IN["mechanisms"]:
        settings.setdefault(RATE, "1")
    return settings


def _leaves(tree: Mapping[str, object], where: str) -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        path = f"{where}.{name}" if where else name
        if isinstance(value, Mapping):
            yield from _leaves(value, path)
        else:
            yield path, value


def _spelled(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return value if isinstance(value, str) else json.dumps(value)


def _labels(groups: Mapping[Hashable, Mapping[str, str]]) -> dict[Hashable, str]:
    """What sets each group apart from the others: "rate 0.1"."""
    if len(groups) == 1:
        return dict.fromkeys(groups, ALL)
    every = dict.fromkeys(path for settings in groups.values() for path in settings)
    differing = [path for path in every if len({settings.get(path) for settings in groups.values()}) > 1]
    ends = collections.Counter(path.rpartition(".")[2] for path in differing)
    labels = {}
    for key, settings in groups.items():
        words = []
        for path in differing:
            end = path.rpartition(".")[2]
            if path in settings:
                name = "" if path == MECHANISM else end if ends[end] == 1 else path
                words.append(f"{name} {settings[path]}".strip())
        labels[key] = ", ".join(words) or PLAIN
    return labels
