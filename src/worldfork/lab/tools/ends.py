"""Early ends in a few episodes: the share of steps past them, or the attempts that an episode takes."""

from typing import Final

import numpy as np

from worldfork.lab.episodes import Draws, roll_out
from worldfork.lab.forks.context import Context
from worldfork.randomness import Event, Purpose

__all__ = ["count_ends"]

EPISODES: Final = 4  # that are rolled out


def count_ends(context: Context, task: str) -> str:
    """Return a sentence about a few episodes of the first checkpoint in the clean world; an empty text where
    episodes never end early."""
    if (after_end := context.after_end(task)) is None:
        return ""
    environment = context.environment(task)
    rolled = roll_out(
        context.agent(task),
        environment,
        context.checkpoint(task, context.registration.grid.checkpoints[0]).parameters,
        Draws.of([Event(purpose=Purpose.INITIAL_STATE, task=task, direction="check")], np.arange(EPISODES)),
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
    attempts = ends.first.sum() / EPISODES
    if attempts == 1:
        return f"{task}: none of {EPISODES} episodes in the clean world ended early."
    return (
        f"{task}: an episode of {environment.episode_steps} control steps took {attempts:.1f} "
        'attempts. With a reward for going on an end then costs next to nothing: after_end = "wait" makes it count.'
    )
