"""The mechanisms there are. A mechanism is a file and one line here (docs/extending.md)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from worldfork.errors import WorldforkError
from worldfork.lab.mechanisms.base import Mechanism
from worldfork.lab.mechanisms.finetune import FineTune
from worldfork.lab.mechanisms.none import Nothing

__all__ = ["CATALOGUE", "build"]

# name -> (steps, window, scope, settings) -> Mechanism
CATALOGUE: Final[Mapping[str, Callable[..., Mechanism]]] = {
    "finetune": FineTune,
    "none": lambda steps, window, scope: Nothing(window=window),
}


def build(name: str, *, steps: int, window: int, scope: str, settings: Mapping[str, Any]) -> Mechanism:
    """The mechanism called `name`; `settings` are its own, beyond those that all have."""
    if name not in CATALOGUE:
        raise WorldforkError(f"There is no mechanism {name!r}. Known mechanisms: {', '.join(sorted(CATALOGUE))}.")
    if name == "finetune" and steps == 0:
        name, settings = "none", {}  # no steps is no update: the branches are then one computation
    try:
        return CATALOGUE[name](steps=steps, window=window, scope=scope, **settings)
    except TypeError as error:
        raise WorldforkError(
            f"The mechanism {name!r} does not take these settings: {dict(settings)} ({error})."
        ) from error
