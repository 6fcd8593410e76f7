"""What a trigger can be asked about a cell: by its stream, or by what a copy has instead (`ledger.answers`)."""

import dataclasses
from collections.abc import Sequence

from worldfork.desk.reading.prefork import Prefork
from worldfork.triggers import Answer, Asked, Trigger

__all__ = ["lacking", "stored_answers"]


def lacking(prefork: Prefork, cell: int, name: str, trigger: Trigger, *, seed: int) -> str | None:
    """What a trigger needs and a cell does not have: a column of its stream, or, where the stream is not here, what
    this trigger answered on it. None where it can be asked."""
    stream = prefork.stream(cell)
    if stream is not None:
        missing = [column for column in trigger.needs if column not in stream.columns]
        if not missing:
            return None
        return f"needs `{missing[0]}` at every step of the stream, which has {', '.join(stream.columns)}"
    if not trigger.needs or stored_answers(prefork, cell, name, trigger, seed=seed) is not None:
        return None
    if seeds := _other_seeds(prefork, cell, name, trigger, seed=seed):
        return (
            "draws random numbers: this copy was published without streams, and has what it answered under seed "
            f"{' and '.join(map(str, seeds))}, not under seed {seed}"
        )
    needed = " and the ".join(trigger.needs)
    return (
        f"needs the {needed} of every step of the stream, which a flat table has not, nor a copy that was "
        "published without streams"
    )


def stored_answers(
    prefork: Prefork, cell: int, name: str, trigger: Trigger, *, seed: int
) -> Sequence[Answer] | None:
    """What a trigger that reads a cell's stream answered on it at k = 1, 2, ..., where a copy has that instead of
    the stream. Where the stream is here, it is asked itself."""
    known = prefork.answered(cell)
    if prefork.stream(cell) is not None or not trigger.needs or not any(who.trigger == name for who in known):
        return None
    return known.get(Asked.of(name, trigger, seed=seed))


def _other_seeds(prefork: Prefork, cell: int, name: str, trigger: Trigger, *, seed: int) -> list[int]:
    """The seeds under which this trigger's answers are known, where they are not known under this one."""
    known = [who for who in prefork.answered(cell) if who.trigger == name]
    if not known:
        return []
    wanted = Asked.of(name, trigger, seed=seed)
    return sorted(
        who.seed for who in known if who.seed is not None and dataclasses.replace(who, seed=seed) == wanted
    )
