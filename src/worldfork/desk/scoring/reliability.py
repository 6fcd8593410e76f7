"""How far to trust the intervals of a deployment, where their coverage was measured (benchmarks/deployment.py)."""

from typing import Final

__all__ = ["COVERAGE", "cautions"]

# Checkpoints -> the lowest and the highest share of repetitions in which a nominal 95% interval held the value that
# is known: over all policies whose rule was there beforehand and both outcomes, with one stream per checkpoint.
COVERAGE: Final = {5: (0.85, 0.92), 10: (0.87, 0.93), 20: (0.89, 0.95), 40: (0.92, 0.95)}


def cautions(checkpoints: int, *, fitted_here: bool) -> tuple[str, ...]:
    """Sentences to print beside the intervals of a study of so many checkpoints."""
    said = []
    enough = max(COVERAGE)
    if checkpoints < enough:
        measured = max((count for count in COVERAGE if count <= checkpoints), default=min(COVERAGE))
        low, high = COVERAGE[measured]
        fewer = ", and there are fewer here" if checkpoints < measured else ""
        said.append(
            f"Intervals over fewer than {enough} checkpoints are too narrow: where values are known "
            "(linear-quadratic world, one stream each), "
            f"a nominal 95% over {measured} checkpoints covers {low:.0%} to {high:.0%}{fewer}."
        )
    if fitted_here:
        said.append(
            "Fitted thresholds come from this study's own forks: their intervals are about these thresholds, not "
            "about fitting anew."
        )
    return tuple(said)
