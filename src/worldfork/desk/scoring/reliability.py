"""How far to trust the intervals of a deployment, where their coverage was measured (benchmarks/deployment.py)."""

from typing import Final

__all__ = ["AS_FITTED", "COVERAGE", "FITTING_ANEW", "cautions"]

# Checkpoints -> the lowest and the highest share of repetitions in which a nominal 95% interval held the value that
# is known: over two drifts, all policies whose rule was there beforehand and both outcomes, with one stream per
# checkpoint, without repetitions in which a deployment diverged (docs/deployment.md has every line with its error).
COVERAGE: Final = {5: (0.84, 0.97), 10: (0.87, 0.96), 20: (0.91, 0.95), 40: (0.92, 0.96)}
# The same of thresholds that a repetition fitted on its own forks: their worth as fitted, and that of fitting anew.
AS_FITTED: Final = (0.86, 0.93)
FITTING_ANEW: Final = (0.59, 0.94)


def cautions(checkpoints: int, *, fitted_here: bool) -> tuple[str, ...]:
    """Sentences to print beside the intervals of a study of so many checkpoints."""
    said = []
    enough = max(COVERAGE)
    if checkpoints < enough:
        measured = max((count for count in COVERAGE if count <= checkpoints), default=min(COVERAGE))
        low, high = COVERAGE[measured]
        fewer = ", and there are fewer here" if checkpoints < measured else ""
        said.append(
            f"Intervals over fewer than {enough} checkpoints are too narrow where deployments are skewed: where "
            f"values are known (linear-quadratic, one stream each) a nominal 95% over {measured} checkpoints "
            f"covers {low:.0%} to {high:.0%}, depending on the drift and the policy{fewer}."
        )
    if fitted_here:
        said.append(
            "Fitted thresholds come from this study's own forks: their intervals are about these thresholds, not "
            f"about fitting anew. Where both are known, a nominal 95% covers {AS_FITTED[0]:.0%} to "
            f"{AS_FITTED[1]:.0%} of the one and {FITTING_ANEW[0]:.0%} to {FITTING_ANEW[1]:.0%} of the other."
        )
    return tuple(said)
