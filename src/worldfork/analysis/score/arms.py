"""Arms that belong together: those that are alike but for one setting, and the pairs to compare."""

import collections
import dataclasses
import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from worldfork.analysis.read.outcomes import Arms
from worldfork.built_in import BUILT_IN
from worldfork.errors import WorldforkError
from worldfork.registration import Arm, Registration

RATE: Final = "mechanism.settings.rate"
MECHANISM: Final = "mechanism.name"
ALL: Final = "all"  # the label of a group that is the only one
PLAIN: Final = "no other setting"  # of a group that sets nothing of what the others set
Settings = Mapping[str, Mapping[str, str]]  # by arm, then by path


@dataclasses.dataclass(frozen=True)
class ArmGroup:
    """Arms of which one setting varies, and the settings that tell them from other such arms."""

    label: str
    arms: tuple[Arm, ...]


def alike_but_for(
    paths: Collection[str], arms: Iterable[Arm], *, value: Callable[[Arm], Hashable]
) -> list[ArmGroup]:
    """Return the arms that agree in every setting but those at `paths`, in the order registered. Groups in which
    `value` is the same for all are left out, since nothing varies in them."""
    by_name = {arm.name: arm for arm in arms}
    settings = {name: arm_settings(arm) for name, arm in by_name.items()}
    groups = [tuple(by_name[name] for name in names) for names in agreeing_but_for(paths, settings)]
    varying = [group for group in groups if len({value(arm) for arm in group}) > 1]
    shared = [
        {path: text for path, text in settings[group[0].name].items() if path not in paths} for group in varying
    ]
    return [ArmGroup(label, group) for label, group in zip(_labels(shared), varying, strict=True)]


def agreeing_but_for(paths: Collection[str], settings: Settings) -> list[list[str]]:
    """Return the arms in groups that agree everywhere but at `paths`, in the order given."""
    groups: dict[Hashable, list[str]] = {}
    for arm, of_arm in settings.items():
        groups.setdefault(frozenset(item for item in of_arm.items() if item[0] not in paths), []).append(arm)
    return list(groups.values())


def arm_settings(arm: Arm) -> dict[str, str]:
    """Return every setting by its path. The rate of a built-in mechanism is 1 where none is set."""
    settings = {path: _text(value) for path, value in _leaves(arm.decisive(), "")}
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


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return value if isinstance(value, str) else json.dumps(value)


def _labels(groups: Sequence[Mapping[str, str]]) -> list[str]:
    """Return what sets each group apart from the others: "rate 0.1"."""
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


class Setting(NamedTuple):
    """A number that a study may sweep: its paths, which change together as one setting, and its value in an arm."""

    paths: frozenset[str]
    value: Callable[[Arm], Any]


def passes_of(arm: Arm) -> float | None:
    """Return the passes over the window of an update whose dose is given so."""
    passes: Any = arm.mechanism.settings.get("passes")
    return float(passes) if passes is not None and arm.mechanism.steps else None


def dose_of(arm: Arm) -> tuple[bool, float]:
    """Return a dose that can be ordered: those in steps first, then those in passes."""
    passes = passes_of(arm)
    return (False, float(arm.mechanism.steps)) if passes is None else (True, passes)


DOSE: Final = Setting(frozenset({"mechanism.steps", "mechanism.settings.passes"}), dose_of)
NOISE: Final = Setting(  # m is registered to grow with the noise
    frozenset({"stream.action_noise", "evaluation.episodes"}), lambda arm: arm.stream.action_noise
)
WINDOW: Final = Setting(frozenset({"mechanism.window"}), lambda arm: arm.mechanism.window)


Reason = Literal["predicted", "as predicted", "sweep", "first"]


@dataclasses.dataclass(frozen=True)
class ArmPair:
    """The later of two arms, in the order registered, less the earlier; and why these two."""

    later: str
    earlier: str
    reason: Reason


def compared_pairs(registration: Registration, present: Collection[str]) -> list[ArmPair]:
    """Return the arms to compare, of those that are `present`.

    Where predictions compare two arms, these two, and any other two that differ in the same settings by the same
    values. Every arm that is neither in such a pair nor in the sweep over a number that it compares two values of:
    with the first of its own sweep, where one setting sorts all arms into sweeps, or else with the first arm.
    """
    settings = {arm.name: arm_settings(arm) for arm in registration.arms if arm.name in present}
    if len(settings) < 2:
        return []
    order = list(settings)
    named = [(prediction.arm or "", prediction.against or "") for prediction in registration.predictions]
    predicted = list(
        dict.fromkeys(
            (max(pair, key=order.index), min(pair, key=order.index))
            for pair in named
            if pair[0] != pair[1] and pair[0] in settings and pair[1] in settings
        )
    )
    counterparts = [pair for pair in _counterparts(settings, predicted) if pair not in predicted]
    pairs = [ArmPair(*pair, "predicted") for pair in predicted]
    pairs += [ArmPair(*pair, "as predicted") for pair in counterparts]
    placed = {arm for pair in pairs for arm in (pair.later, pair.earlier)}
    for pair in pairs:  # arms that stand in the sweep over a number whose two values a pair compares
        number = _swept(_differing(settings, pair.later, pair.earlier))
        for group in agreeing_but_for(number, settings) if number else ():
            placed |= set(group) if pair.later in group else set()
    otherwise = _in_sweeps(settings) or [ArmPair(arm, order[0], "first") for arm in order[1:]]
    return [*pairs, *(pair for pair in otherwise if pair.later not in placed)]


def _differing(settings: Settings, later: str, other: str) -> frozenset[str]:
    """Return the paths at which two arms differ."""
    first, second = settings[later], settings[other]
    return frozenset(path for path in first.keys() | second.keys() if first.get(path) != second.get(path))


def _counterparts(settings: Settings, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return pairs that differ as a registered one does, and agree in all else with each other."""
    found = []
    for later, earlier in pairs:
        paths = _differing(settings, later, earlier)
        for group in agreeing_but_for(paths, settings) if paths else ():
            ends = [
                next(
                    (arm for arm in group if all(settings[arm].get(p) == settings[end].get(p) for p in paths)), None
                )
                for end in (later, earlier)
            ]
            if ends[0] is not None and ends[1] is not None:
                found.append((ends[0], ends[1]))
    return list(dict.fromkeys(found))


def _in_sweeps(settings: Settings) -> list[ArmPair]:
    """Return every arm with the first of its sweep, over the setting that varies first as arms were registered.

    Empty where no one setting has a place for all arms, as in a list of alternatives to the first.
    """
    first, *others = settings
    for other in others:
        differing = _differing(settings, other, first)
        setting = _swept(differing) or (differing if len(differing) == 1 else None)
        groups = agreeing_but_for(setting, settings) if setting else []
        if groups and all(len(group) > 1 for group in groups):
            return [ArmPair(later, group[0], "sweep") for group in groups for later in group[1:]]
    return []


def _swept(differing: frozenset[str]) -> frozenset[str] | None:
    """Return the paths of the swept number in which alone two arms differ."""
    return next(
        (setting.paths for setting in (DOSE, NOISE, WINDOW) if differing and differing <= setting.paths), None
    )


def choose_arms(
    arms: Arms,
    *,
    arm: str | None = None,
    contrast: str | tuple[str, str] | None = None,
    registration: Registration | None = None,
) -> tuple[Arms, list[tuple[str, str]]]:
    """Return the arms to score, and the pairs to compare: those of `contrast`, of a study those that its
    registration asks for, else every later arm with the first."""
    names = ", ".join(name or "(unnamed)" for name in arms)
    pair = tuple(name.strip() for name in contrast.split(",")) if isinstance(contrast, str) else contrast or ()
    if contrast is not None and len(pair) != 2:
        raise WorldforkError(f"A contrast takes two arms, FIRST,SECOND; got `{contrast}`. The ledger has {names}.")
    for name in pair if arm is None else (arm, *pair):
        if name not in arms:
            raise WorldforkError(f"There is no arm `{name}`; the ledger has {names}.")
    if pair:
        chosen = arms if arm is None else {name: arms[name] for name in dict.fromkeys((arm, *pair))}
        return chosen, [(pair[0], pair[1])]
    if arm is not None:
        return {arm: arms[arm]}, []
    if registration is not None:
        return arms, [(pair.later, pair.earlier) for pair in compared_pairs(registration, arms)]
    first, *others = arms
    return arms, [(other, first) for other in others]
