"""Arms that are alike but for one thing, such as the dose of an update or the noise of a stream."""

import collections
import dataclasses
import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from worldfork.registration import Arm
from worldfork.registry import BUILT_IN

__all__ = ["ArmGroup", "agreeing_but_for", "alike_but_for", "arm_settings"]

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
    by_name = {arm.name: arm for arm in arms}
    settings = {name: arm_settings(arm) for name, arm in by_name.items()}
    groups = [tuple(by_name[name] for name in names) for names in agreeing_but_for(paths, settings)]
    varying = [group for group in groups if len({value(arm) for arm in group}) > 1]
    shared = [
        {path: spelled for path, spelled in settings[group[0].name].items() if path not in paths}
        for group in varying
    ]
    return [ArmGroup(label, group) for label, group in zip(_labels(shared), varying, strict=True)]


def agreeing_but_for(paths: Collection[str], settings: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    """Arms, given by all their settings, in groups that agree everywhere but at `paths`, in the order given."""
    groups: dict[Hashable, list[str]] = {}
    for arm, spelled in settings.items():
        groups.setdefault(frozenset(item for item in spelled.items() if item[0] not in paths), []).append(arm)
    return list(groups.values())


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


def _labels(groups: Sequence[Mapping[str, str]]) -> list[str]:
    """What sets each group apart from the others: "rate 0.1"."""
    if len(groups) == 1:
        return [ALL]
    every = dict.fromkeys(path for settings in groups for path in settings)
    differing = [path for path in every if len({settings.get(path) for settings in groups}) > 1]
    ends = collections.Counter(path.rpartition(".")[2] for path in differing)
    labels = []
    for settings in groups:
        words = []
        for path in differing:
            end = path.rpartition(".")[2]
            if path in settings:
                name = "" if path == MECHANISM else end if ends[end] == 1 else path
                words.append(f"{name} {settings[path]}".strip())
        labels.append(", ".join(words) or PLAIN)
    return labels
