"""Charts of closed-loop deployments: what each policy returned more than never, episode by episode."""

from collections.abc import Mapping, Sequence
from typing import Final

from worldfork.analysis.present.text.deployments import best_first, gains_over_never, silent_policies
from worldfork.analysis.present.text.formatting import defined, minus, number
from worldfork.analysis.score.deployment_records import PolicyOutcome, TaskDeployment
from worldfork.analysis.score.undefined import Undefined

WIDTH: Final = 300
LEFT: Final = 46
BASE: Final = 104  # where the plot ends; updates are marked below, then the episodes are counted
TOP: Final = 10
Panel = Mapping[str, object]


def panels(deployed: TaskDeployment) -> Sequence[Panel]:
    """Return a chart for every policy that fired; those that fire the same update share a scale."""
    silent, gains = silent_policies(deployed), gains_over_never(deployed)
    by_update: dict[str, list[str]] = {}
    for name in best_first(deployed):
        if name in gains and name not in silent:
            by_update.setdefault(deployed.policies[name].always or name, []).append(name)
    charts = []
    for names in by_update.values():
        outcomes = {name: deployed.policies[name] for name in names}
        steady = [outcome for outcome in outcomes.values() if not outcome.diverged]
        values = [value for outcome in steady for value in outcome.by_episode if not isinstance(value, Undefined)]
        low, high = min([0.0, *values]), max([0.0, *values])
        charts += [_panel(name, outcome, low, high) for name, outcome in outcomes.items()]
    return charts


def _panel(name: str, outcome: PolicyOutcome, low: float, high: float) -> Panel:
    """Return a policy's line, and how many of its deployments updated after each episode."""

    def y(value: float) -> float:
        inside = min(max(value, low), high)
        return round(BASE - (BASE - TOP) * (inside - low) / ((high - low) or 1.0), 1)

    count = len(outcome.by_episode)
    places = [round(LEFT + (WIDTH - LEFT - 8) * (k + 0.5) / count, 1) for k in range(count)]
    lines = list(enumerate(zip(places, outcome.by_episode, outcome.fired_at, strict=True), start=1))
    advantage = defined(outcome.advantage)
    apart = advantage is not None and defined(advantage.grade) in ("resolved", "leaning")
    mean = defined(advantage.mean) if advantage is not None else None
    return {
        "name": name,
        "points": " ".join(f"{x},{y(gain)}" for _, (x, gain, _) in lines if not isinstance(gain, Undefined)),
        "marks": [
            {"x": x, "k": k, "share": round(share, 3)}
            for k, (x, _, share) in lines
            if not isinstance(share, Undefined) and share > 0
        ],
        "rows": [[k, defined(gain), defined(share)] for k, (_, gain, share) in lines],
        "ends": sorted({1: places[0], count: places[-1]}.items()) if count else [],
        "zero": y(0.0),
        "levels": [(y(value), minus(number(value, 0))) for value in (low, high) if abs(y(value) - y(0.0)) > 12],
        "kind": ("help" if (mean or 0.0) > 0 else "hurt") if apart else "",
        "updates": f"{outcome.updates:.1f}",
        "diverged": len(outcome.diverged),
    }
