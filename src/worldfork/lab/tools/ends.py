"""How much of a stream lies past an end, or how often its episodes begin anew, from a few that are rolled out."""

from typing import Final

import numpy as np

from worldfork.lab.episodes import Draws, roll_out
from worldfork.lab.forks.context import Context
from worldfork.randomness import Event, Purpose

__all__ = ["count_ends"]

SOME: Final = 4  # episodes that are looked at


def count_ends(context: Context, task: str) -> str:
    """What becomes of a few episodes of the first checkpoint in the clean world, in a sentence; nothing of a world
    whose episodes do not end early."""
    if (after_end := context.after_end(task)) is None:
        return ""
    environment = context.environment(task)
    rolled = roll_out(
        context.agent(task),
        environment,
        context.checkpoint(task, context.registration.grid.checkpoints[0]).parameters,
        Draws.of([Event(purpose=Purpose.INITIAL_STATE, task=task, direction="check")], np.arange(SOME)),
        levels=np.zeros((1, environment.episode_steps)),
        action_noise=0.0,
        trace=True,
        after_end=after_end,
    )
    assert rolled.trace is not None
    assert rolled.trace.ends is not None
    ends = rolled.trace.ends
    if after_end == "wait":
        return (
            f"{task}: of {ends.real.size} control steps {1 - ends.real.mean():.0%} lay past an end, where nothing "
            "is earned and nothing learned."
        )
    attempts = ends.first.sum() / SOME
    if attempts == 1:
        return f"{task}: none of {SOME} episodes in the clean world ended early."
    return (
        f"{task}: an episode of {environment.episode_steps} control steps took {attempts:.1f} "
        'attempts. With a reward for going on an end then costs next to nothing: after_end = "wait" makes it count.'
    )
