"""Feeding of triggers: one deployment or several, the draws of a trigger's own, and what its answers depend on."""

import contextlib
import dataclasses
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from worldfork import registry
from worldfork.built_in import BUILT_IN
from worldfork.errors import WorldforkError
from worldfork.randomness import Event, Purpose
from worldfork.registry import Located
from worldfork.triggers.base import Answer, CellKey, Segment, Trigger

# Where worldfork's own triggers draw, fixed when the first ledgers were scored: those that are not listed draw
# nothing. Any other trigger draws where its name says.
DRAWS: Final[Mapping[str, Mapping[str, int]]] = {
    "random": {"episode": 1},
    "kswin": {"episode": 2, "iteration": 1},
    "conformal": {"episode": 2, "iteration": 2},
}


def feed(trigger: Trigger, deployment: Iterable[Segment], *, cell: CellKey, event: Event) -> list[Answer]:
    """Return the answer of a trigger at every decision point of one deployment.

    Args:
        trigger: the trigger.
        deployment: its segments, in order.
        cell: the deployment's name.
        event: the address of the trigger's own draws.
    """
    memory = trigger.begin(cell, event=event)
    answers: list[Answer] = []
    for segment in deployment:
        memory, answer = trigger.decide(memory, segment)
        answers.append(answer)
    return answers


@contextlib.contextmanager
def naming(trigger: Trigger) -> Iterator[None]:
    """Turn whatever a trigger raises into an error that names the trigger."""
    try:
        yield
    except WorldforkError:
        raise
    except Exception as error:
        raise WorldforkError(
            f"The trigger {type(trigger).__name__} fails: {type(error).__name__}: {error}. "
            "worldfork.testing.check_trigger says more."
        ) from error


def draw_event(name: str, *, task: str, cell: CellKey, seed: int) -> Event:
    """Return the address of a trigger's own draws in one deployment: no two triggers share a key."""
    return Event(
        purpose=Purpose.RESAMPLING,
        seed=seed,
        task=task,
        checkpoint=cell.checkpoint,
        direction=cell.direction,
        stream_seed=cell.stream_seed,
    ).at(**DRAWS.get(name, {"episode": 3, "step": zlib.crc32(name.encode())}))


@dataclasses.dataclass(frozen=True)
class Asked:
    """A trigger as its answers depend on it: shown the same segments of one deployment, it answers the same."""

    trigger: str  # its name, which says where it draws
    settings: str  # every one of them, as JSON
    seed: int | None  # of its draws; None where it draws nothing

    @classmethod
    def of(cls, name: str, trigger: Trigger, *, seed: int) -> "Asked":
        """Return the key of a trigger under the name and the seed that `draw_event` is given."""
        draws = name in DRAWS or name not in BUILT_IN["triggers"]  # of others nobody knows whether they do
        return cls(name, json.dumps(trigger.model_dump(mode="json"), sort_keys=True), seed if draws else None)


def locate_candidates(candidates: Iterable[str], *, recorded: Collection[str]) -> list[Located]:
    """Locate the candidates that do not come with worldfork, without importing them.

    `recorded` are the study's signals, by the names they have in its rows. A name that nothing has is refused: it
    would never be scored.
    """
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
    """Import the candidates, as scoring them will: what can not be set up is refused here and not after the
    study."""
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
