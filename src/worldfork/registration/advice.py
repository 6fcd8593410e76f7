"""Settings of a registration that change nothing, and arms that are one arm twice."""

from collections.abc import Mapping

from worldfork.registration.canonical import canonical
from worldfork.registration.records import Arm, Mechanism, Registration

__all__ = ["idle_settings"]


def idle_settings(registration: Registration, episode_steps: Mapping[str, tuple[int, int]]) -> list[str]:
    """One sentence per finding. `episode_steps` gives (control, environment) steps per episode of each task."""
    found = [line for arm in registration.arms for line in _windows(arm, episode_steps)]
    found += [line for arm in registration.arms for line in _levels(arm, episode_steps)]
    return found + _twins(registration, episode_steps)


def _windows(arm: Arm, episode_steps: Mapping[str, tuple[int, int]]) -> list[str]:
    found = []
    for task in arm.tasks:
        length = arm.stream.decision_points * episode_steps[task][0]
        if arm.mechanism.window >= length and arm.mechanism.steps:
            found.append(
                f"{arm.name}, {task}: a window of {arm.mechanism.window:,} transitions is longer than the stream "
                f"({length:,}): UPDATE sees everything since deployment."
            )
    return found


def _levels(arm: Arm, episode_steps: Mapping[str, tuple[int, int]]) -> list[str]:
    found = []
    points = arm.stream.decision_points
    for task in arm.tasks:
        per_episode = episode_steps[task][1]
        if points * per_episode < arm.stream.drift_period:
            reached = points * per_episode / arm.stream.drift_period
            found.append(f"{arm.name}, {task}: the stream ends before the drift does, at {reached:.0%} of its way.")
        still = sum(1 for k in range(1, points + 1) if k * per_episode >= arm.stream.drift_period)
        if arm.evaluation.mode == "forward" and still:
            found.append(
                f"{arm.name}, {task}: at {still} of {points} decision points the drift has ended, and a forward "
                "evaluation is a pinned one."
            )
    return found


def _twins(registration: Registration, episode_steps: Mapping[str, tuple[int, int]]) -> list[str]:
    seen: dict[str, str] = {}
    found = []
    for arm in registration.arms:
        for task in arm.tasks:
            length = arm.stream.decision_points * episode_steps[task][0]
            for stream_seed in arm.stream_seeds:
                same = arm.model_dump(exclude={"name", "tasks", "stream_seeds", "mechanism"})
                key = canonical([task, stream_seed, same, _effective(arm.mechanism, length)])
                if (twin := seen.setdefault(key, arm.name)) != arm.name:
                    found.append(
                        f"{arm.name} and {twin} are the same mechanism on {task}, stream seed {stream_seed}."
                    )
    return found


def _effective(mechanism: Mechanism, length: int) -> dict[str, object]:
    """The mechanism as it acts in a stream of `length` transitions."""
    if mechanism.name == "none" or (mechanism.name == "finetune" and mechanism.steps == 0):
        return {"name": "none"}
    return {**mechanism.model_dump(), "window": min(mechanism.window, length)}
