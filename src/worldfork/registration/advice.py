"""Advice on a registration: settings without effect, and arms that are equal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from worldfork.registration.schema import Arm, Mechanism, Registration, canonical

FEW: Final = 3  # arms that are named even where a sentence is true of all


def idle_settings(registration: Registration, episode_steps: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return one sentence per finding, with the arms that it is true of.

    Args:
        registration: the registration to examine.
        episode_steps: control and environment steps per episode, by task.
    """
    findings: dict[tuple[str, str], list[str]] = {}  # task and sentence -> arms
    for look in (_windows, _levels):
        for arm in registration.arms:
            for task in arm.tasks:
                for sentence in look(arm, *episode_steps[task]):
                    findings.setdefault((task, sentence), []).append(arm.name)
    named = [
        f"{_named(arms, of=len(registration.arms))}, {task}: {sentence}"
        for (task, sentence), arms in findings.items()
    ]
    return named + _twins(registration, episode_steps)


def _named(arms: Sequence[str], *, of: int) -> str:
    """Return the names of the arms, or their number if they are all of many."""
    return f"all {of} arms" if len(arms) == of > FEW else ", ".join(arms)


def _windows(arm: Arm, control_steps: int, env_steps: int) -> Iterator[str]:
    length = arm.stream.decision_points * control_steps
    if arm.mechanism.window >= length and arm.mechanism.steps:
        yield (
            f"a window of {arm.mechanism.window:,} transitions holds the whole stream ({length:,}): UPDATE sees "
            "everything since deployment."
        )


def _levels(arm: Arm, control_steps: int, env_steps: int) -> Iterator[str]:
    points = arm.stream.decision_points
    if points * env_steps < arm.stream.drift_period:
        reached = points * env_steps / arm.stream.drift_period
        yield f"the stream ends before the drift does, at {reached:.0%} of its way."
    still = sum(1 for k in range(1, points + 1) if k * env_steps >= arm.stream.drift_period)
    if arm.evaluation.mode == "forward" and still:
        yield (
            f"at {still} of {points} decision points the drift has ended, and a forward evaluation is a pinned one."
        )


def _twins(registration: Registration, episode_steps: Mapping[str, tuple[int, int]]) -> list[str]:
    seen: dict[str, str] = {}
    found = []
    for arm in registration.arms:
        for task in arm.tasks:
            length = arm.stream.decision_points * episode_steps[task][0]
            for stream_seed in arm.stream_seeds:
                same = arm.model_dump(exclude={"name", "label", "tasks", "stream_seeds", "mechanism"})
                key = canonical([task, stream_seed, same, _effective(arm.mechanism, length)])
                if (twin := seen.setdefault(key, arm.name)) != arm.name:
                    found.append(
                        f"{arm.name} and {twin} are the same mechanism on {task}, stream seed {stream_seed}."
                    )
    return found


def _effective(mechanism: Mechanism, length: int) -> dict[str, object]:
    """Return the mechanism's settings as they act in a stream of `length` transitions."""
    if mechanism.name == "none" or (mechanism.name == "finetune" and mechanism.steps == 0):
        return {"name": "none"}
    return {**mechanism.model_dump(), "window": min(mechanism.window, length)}
