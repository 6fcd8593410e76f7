"""The candidates that a study registers, held against what there is before anything runs."""

from collections.abc import Collection, Iterable

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.registry import Located
from worldfork.triggers.base import Trigger

__all__ = ["build_candidates", "locate_candidates"]


def locate_candidates(candidates: Iterable[str], *, recorded: Collection[str]) -> list[Located]:
    """Where the candidates are that do not come with worldfork, without importing them; `recorded` are the study's
    signals, by the names they have in its rows. A name that nothing has is refused: it would never be scored."""
    outside = []
    for name in candidates:
        if name in recorded:
            continue
        if name not in registry.names("triggers") and ":" not in name:
            raise WorldforkError(_unknown(name, recorded))
        located = registry.locate("triggers", name)
        if not located.ours:
            outside.append(located)
    return outside


def build_candidates(located: Iterable[Located]) -> None:
    """Import them, as scoring them will: what can not be set up is refused here and not after the study."""
    for candidate in located:
        registry.build("triggers", candidate.name, Trigger, where="[scoring] triggers")


def _unknown(name: str, recorded: Collection[str]) -> str:
    if name in registry.names("signals"):
        return (
            f"[scoring] triggers: the signal `{name}` is not recorded. Add it to `signals`, which lists "
            f"{', '.join(recorded)}, or take it out of the candidates."
        )
    return (
        f"[scoring] triggers: no trigger is called `{name}`. Known here: {', '.join(recorded)} (recorded signals); "
        f"{', '.join(registry.names('triggers'))}. One of your own is named as `module:attribute`."
    )
