"""What parameters are worth in a world that stands still: the competence gate, the reported return, calibration."""

import numpy as np
from jaxtyping import Float64

from worldfork.lab.agents.base import Agent, Arrays
from worldfork.lab.environments.base import AfterEnd, Environment
from worldfork.lab.episodes import Draws, Record, roll_out
from worldfork.randomness import Event, Purpose

__all__ = ["standing_returns"]


def standing_returns(
    agent: Agent,
    environment: Environment,
    parameters: Arrays,
    *,
    checkpoints: list[str],
    episodes: int,
    occasion: str,
    level: float = 0.0,
    record: Record | None = None,
    after_end: AfterEnd = "reset",
) -> Float64[np.ndarray, "P E"]:
    """Returns of whole episodes at one drift level without noise.

    `occasion` (gate, report, ...) takes the place of a drift direction in the event: no two occasions share
    episodes, and none of them shares any with a stream or a fork.
    """
    # `Draws` puts each of its purposes in place of the one that is named here.
    events = [
        Event(purpose=Purpose.INITIAL_STATE, task=environment.name, checkpoint=name, direction=occasion)
        for name in checkpoints
    ]
    levels = np.full((len(checkpoints), environment.episode_steps), level)
    draws = Draws.of(events, np.arange(episodes))
    rolled = roll_out(
        agent, environment, parameters, draws, levels=levels, action_noise=0.0, record=record, after_end=after_end
    )
    return rolled.returns
