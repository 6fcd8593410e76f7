"""Answers of detectors that read every step of a stream, for published copies without streams.

Asked are the ten usual candidates and the registered ones with their default settings, and the triggers of
registered policies with theirs, each under the seed that a score uses. A score of the copy then has the figures of
the study. Triggers that do not come with worldfork are left out, so that publishing imports nobody else's code.
"""

from collections.abc import Mapping
from typing import Any, Final

from worldfork import registry
from worldfork.analysis.read.study import read_rows, study_table
from worldfork.analysis.read.triggers import answers_by_cell, comes_with_worldfork
from worldfork.fixed_policies import FIXED_POLICIES
from worldfork.ledger.closed_loop import cell_key, recorded_signals
from worldfork.ledger.publish import AnsweredStream, Answers, AskedTrigger, as_letters, ran_by
from worldfork.ledger.row import Rows
from worldfork.ledger.store import Study
from worldfork.registration import Cell, Registration
from worldfork.registration.schema import CANDIDATES
from worldfork.triggers import Asked, Trigger

SEED_OF_SCORES: Final = 0  # unless somebody asks for another


def stream_answers(study: Study) -> Answers | None:
    """Return the answers on every stream of a study; None if no stream is here.

    A copy into which some streams were put back keeps the answers that it has on the others.
    """
    rows = read_rows(study)
    cells = _one_cell_of_each_stream(study, rows)
    ran = {(cell.arm, cell.task, cell_key(cell)): owner for owner, cell in cells.items()}
    arms = study_table(study, {cell: rows[cell] for cell in cells.values()}).arms
    tables = {(arm, task): forks.prefork for arm, tasks in arms.items() for task, forks in tasks.items()}
    if not any(any(prefork.streams) for prefork in tables.values()):
        return None
    owners = [
        ran[*place, prefork.cells[index]] for place, prefork in tables.items() for index, _ in prefork.spans()
    ]
    triggers = _step_readers(study.registration)
    by_trigger = [
        [
            answers
            for table in answers_by_cell(list(tables.values()), who.trigger, trigger, seed=seed)
            for answers in table
        ]
        for who, (trigger, seed) in triggers.items()
    ]
    return Answers(
        triggers=tuple(AskedTrigger.of(who) for who in triggers),
        streams={
            owner: AnsweredStream(stream=rows[cells[owner]][0].stream, answers=tuple(map(as_letters, answers)))
            for owner, answers in zip(owners, zip(*by_trigger, strict=True), strict=True)
            if any(alarms is not None for alarms in answers)
        },
    )


def _one_cell_of_each_stream(study: Study, rows: Rows) -> dict[str, Cell]:
    """Return, by the cell that ran a stream, the cell on that stream with the most rows."""
    furthest: dict[str, Cell] = {}
    for cell in sorted((cell for cell, of_cell in rows.items() if of_cell), key=lambda cell: -len(rows[cell])):
        furthest.setdefault(ran_by(study.cell(cell.id)), cell)
    return furthest


def _step_readers(registration: Registration) -> dict[Asked, tuple[Trigger, int]]:
    """Return the triggers of this study that read every step, each with the seed of its draws."""
    named: list[tuple[str, Mapping[str, Any], int]]
    candidates = dict.fromkeys((*CANDIDATES, *registration.scoring.triggers))
    named = [(name, {}, SEED_OF_SCORES) for name in candidates]
    policies = registration.deployment.policies.values() if registration.deployment is not None else ()
    named += [(policy.trigger, policy.settings, registration.seed) for policy in policies]
    recorded = (*FIXED_POLICIES, *recorded_signals(registration))
    readers: dict[Asked, tuple[Trigger, int]] = {}
    for name, settings, seed in named:
        if name in recorded or not comes_with_worldfork(name):
            continue
        if registry.load("triggers", name, Trigger).needs:
            trigger = registry.build("triggers", name, Trigger, settings=settings)
            readers.setdefault(Asked.of(name, trigger, seed=seed), (trigger, seed))
    return readers
