"""On how many checkpoints an AUC rests, where that is not all of them."""

from collections.abc import Mapping
from typing import Final

from worldfork.desk.scoring.records import Ranking
from worldfork.desk.scoring.undefined import Undefined
from worldfork.desk.wording.numbers import listed, rate

__all__ = ["AUC_RESTS_ON", "auc_note", "auc_rests_on", "auc_with_checkpoints"]

AUC_RESTS_ON: Final = (
    "An AUC is the mean over the checkpoints that have forks both with dR > 0 and without; in brackets, how many "
    "checkpoints these are, where not all are."
)


def auc_with_checkpoints(ranking: Ranking) -> str:
    """An AUC with the checkpoints that it rests on, `.825 (2 of 5)`; a dash where it is undefined."""
    rests = auc_rests_on(ranking)
    return f"{rate(ranking.auc)} ({rests})" if rests else rate(ranking.auc)


def auc_rests_on(ranking: Ranking) -> str:
    """`2 of 5` where two of five checkpoints have an AUC; nothing where all or none have."""
    checkpoints = ranking.auc_by_checkpoint
    every = len(checkpoints) if isinstance(checkpoints, Mapping) else 0
    return f"{ranking.auc_clusters} of {every}" if 0 < ranking.auc_clusters < every else ""


def auc_note(rankings: Mapping[str, Ranking]) -> str:
    """The same for all signals of a table in one sentence, where a column has no room for it; or nothing."""
    ranked = {name: ranking for name, ranking in rankings.items() if not isinstance(ranking.auc, Undefined)}
    names: dict[str, list[str]] = {}
    for name, ranking in ranked.items():
        names.setdefault(auc_rests_on(ranking), []).append(name)
    parts = [
        f"{rests} checkpoints" + ("" if len(named) == len(ranked) else f" ({', '.join(named)})")
        for rests, named in names.items()
        if rests
    ]
    return f"AUC over {listed(parts)}: those with forks both with dR > 0 and without." if parts else ""
