"""What a registration could detect, before anything has been run: from an earlier ledger, or from a guess."""

import dataclasses
from collections.abc import Mapping

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring.power import Design, design_components, minimum_detectable_effect
from worldfork.desk.scoring.undefined import Undefined
from worldfork.registration import Registration

__all__ = ["Power", "planned_power"]


@dataclasses.dataclass(frozen=True)
class Power:
    """The effect that one arm would find on one task with 80% power at 95% confidence."""

    arm: str
    task: str
    detectable: float
    at_double: dict[str, float]  # with twice the checkpoints, forks or episodes

    @property
    def buys_most(self) -> str:
        """Where doubling helps most."""
        return min(self.at_double, key=lambda axis: self.at_double[axis])


def planned_power(
    registration: Registration, *, like: Mapping[str, Mapping[str, Forks]] | None = None
) -> list[Power]:
    """The power of every arm and task whose variances are known: from the forks of an earlier study (arm -> task ->
    forks), else from the registration's [guess.TASK]."""
    variances = _variances(registration, like or {})
    checkpoints = len(registration.grid.checkpoints)
    planned = []
    for arm in registration.arms:
        for task in (task for task in arm.tasks if task in variances and checkpoints > 1):
            streams = len(registration.grid.directions) * len(arm.stream_seeds)
            forks, episodes = float(streams * arm.stream.decision_points), float(arm.evaluation.episodes)
            design = Design(checkpoints, forks, episodes)
            doubled = {
                axis: minimum_detectable_effect(design.times(2.0, axis), **variances[task])
                for axis in ("checkpoints", "forks", "episodes")
            }
            detectable = minimum_detectable_effect(design, **variances[task])
            planned.append(Power(arm.name, task, detectable, doubled))
    return planned


def _variances(registration: Registration, like: Mapping[str, Mapping[str, Forks]]) -> dict[str, dict[str, float]]:
    known = {
        task: {name: value**2 for name, value in guess.model_dump().items()}
        for task, guess in registration.guess.items()
    }
    for tasks in reversed(list(like.values())):  # of several arms the first one decides
        for task, forks in tasks.items():
            traded = design_components(forks).traded()
            if not isinstance(traded, Undefined):
                known[task] = traded
    return known
