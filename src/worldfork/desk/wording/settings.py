"""What UPDATE does and what sets arms apart, as registered, in words."""

from typing import Final

from worldfork.counting import plural
from worldfork.registration import Registration, difference
from worldfork.registry import BUILT_IN

__all__ = ["changed", "update_words", "varies"]

RATE: Final = "mechanism.settings.rate"


def varies(registration: Registration) -> dict[str, list[str]]:
    """What every later arm changes with respect to the first; an arm that changes nothing is not named."""
    first, *others = (arm.name for arm in registration.arms)
    changes = {name: changed(registration, first, name) for name in others}
    return {name: lines for name, lines in changes.items() if lines}


def changed(registration: Registration, earlier: str, later: str) -> list[str]:
    """What one arm has otherwise than another, a line each."""
    arms = [registration.arm(name) for name in (earlier, later)]
    before, after = (arm.model_dump(mode="json", exclude={"name"}) for arm in arms)
    mechanism, other = (arm.mechanism.name for arm in arms)
    # Another mechanism has other settings: what it does not have is not at its default.
    absent = "its default" if mechanism == other else "not set"
    factor = mechanism in BUILT_IN["mechanisms"]
    return [_readable(line, absent=absent, factor=factor) for line in difference(before, after)]


def update_words(registration: Registration) -> str:
    """What UPDATE does, as far as all arms do the same; empty where they share nothing."""
    mechanisms = [arm.mechanism for arm in registration.arms]
    first = mechanisms[0]
    shared = {
        name
        for name in type(first).model_fields
        if all(getattr(one, name) == getattr(first, name) for one in mechanisms)
    }
    training = {
        "steps": plural(first.steps, "gradient step"),
        "scope": f"of the {first.scope.replace('+', ' and the ')}",
        "window": f"on at most the last {plural(first.window, 'transition')}",
    }
    settings = [
        f"{name} {value}"
        for name, value in first.settings.items()
        if all(name in one.settings and one.settings[name] == value for one in mechanisms)
    ]
    if "settings" in shared and not settings:
        settings = ["its other settings at their defaults"]
    words = [
        first.name if "name" in shared else "",
        " ".join(text for name, text in training.items() if name in shared),
        ", ".join(settings),
    ]
    return ", ".join(text for text in words if text)


def _readable(change: str, *, absent: str, factor: bool = False) -> str:
    """A change of a setting as people read it; `absent` is what a missing one is called. `factor` says that a rate
    is one, as in all mechanisms that come with worldfork.

    >>> _readable('mechanism.settings.keep: null -> 0.1', absent="its default")
    'mechanism.settings.keep: its default → 0.1'
    >>> _readable('mechanism.settings.rate: null -> 0.1', absent="its default", factor=True)
    "learning rate, in units of the agent's own: 1 → 0.1"
    """
    where, _, values = change.partition(": ")
    before, _, after = values.partition(" -> ")
    if factor and where == RATE and absent == "its default":
        where, absent = "learning rate, in units of the agent's own", "1"
    return f"{where}: {' → '.join(absent if value == 'null' else value for value in (before, after))}"
