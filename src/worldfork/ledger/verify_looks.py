"""Verification of looks: they follow from the rows and the registration, and nothing was computed beyond them."""

import dataclasses

from worldfork.errors import WorldforkError
from worldfork.ledger.looks import LOOKS, Look, first_difference, follow, outcome
from worldfork.ledger.row import Rows
from worldfork.ledger.store import Study
from worldfork.registration import Cell, Registration


@dataclasses.dataclass(frozen=True)
class LookFindings:
    """Findings of `verify_looks`: damage, the cells that have to be there, and how the study ended."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    due: tuple[Cell, ...]
    outcome: str
    ended: bool


def verify_looks(
    study: Study, registration: Registration, rows: Rows, *, registrations: set[str], damaged: bool
) -> LookFindings:
    """Check looks.jsonl against the rows and the registration.

    Args:
        study: the study to check.
        registration: its registration, with [stopping].
        rows: of every registered cell.
        registrations: digests of the registrations that the first look may be chained to.
        damaged: rows are missing for a reason that is named already, so looks that rest on them are not missed.
    """
    course, problems = follow(registration, rows), []
    recorded: tuple[Look, ...] = ()
    try:
        recorded = study.looks()
    except WorldforkError as error:
        problems.append(str(error))
        damaged = True
    if recorded and recorded[0].prev not in registrations:
        problems.append(f"{LOOKS}, look 1: it is chained to another registration.")
    compared = recorded[: len(course.looks)] if damaged else recorded
    if problem := first_difference(compared, course.looks):
        problems.append(problem)
    due = {cell.id for cell in course.due}
    beyond = [] if damaged else [cell.id for cell in study.cells() if cell.id not in due]
    if beyond:
        more = f" (and {len(beyond) - 1} more)" if len(beyond) > 1 else ""
        problems.append(
            f"{beyond[0]}{more}: its task had stopped before this checkpoint, by the looks at the rows."
        )
    notes = []
    unrecorded = len(course.looks) - len(recorded)
    if unrecorded == 1 and not any(rows.get(cell) for cell in _after(course.due, course.looks)):
        notes.append(f"{LOOKS}: look {len(course.looks)} is not recorded yet; the same `worldfork run` adds it.")
    elif unrecorded > 0 and not damaged:
        problems.append(f"{LOOKS}: look {len(recorded) + 1} is missing.")
    return LookFindings(
        problems=tuple(problems),
        notes=tuple(notes),
        due=course.due,
        outcome=outcome(registration, recorded),
        ended=course.ended and unrecorded == 0,
    )


def _after(due: tuple[Cell, ...], looks: tuple[Look, ...]) -> list[Cell]:
    """Return the cells that are due after the last look."""
    seen = set(looks[-1].checkpoints) if looks else set()
    return [cell for cell in due if cell.checkpoint not in seen]
