"""Stage 2, paired labels (paper, "Paired labels"): UPDATE and HOLD on the same episodes, in blocks of one shape.

A block evaluates 2F parameter sets: UPDATE and HOLD of F forks, or, where the HOLD branch is already in the ledger
because another arm shares it, UPDATE of 2F forks. What is missing to a full block is padded with the last fork.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64

from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Agent, Arrays
from worldfork.lab.environments.base import Environment
from worldfork.lab.environments.drift import Schedule, evaluation_levels
from worldfork.lab.episodes import Draws, Record, Rolled, roll_out
from worldfork.lab.mechanisms.base import Mechanism, Update
from worldfork.lab.stream import Recording, segment, window
from worldfork.randomness import Event, Purpose, words

__all__ = ["Fork", "evaluate", "padded", "update", "validation_loss"]


@dataclasses.dataclass(frozen=True)
class Fork:
    """One decision point of one stream, with what both branches start from."""

    event: Event  # the cell's address, at fork k
    schedule: Schedule
    recording: Recording
    parameters: Arrays
    optimiser: Arrays

    @property
    def k(self) -> int:
        return self.event.fork


def padded(forks: Sequence[Fork], size: int) -> list[Fork]:
    """The forks, the last one repeated until there are `size`."""
    return [*forks, *[forks[-1]] * (size - len(forks))]


def update(agent: Agent, mechanism: Mechanism, forks: Sequence[Fork]) -> Update:
    """The mechanism on each fork's window; its minibatches are the one stream of draws that HOLD has no part in."""
    events = [dataclasses.replace(fork.event, purpose=Purpose.UPDATE_BATCH) for fork in forks]
    return mechanism.update(
        agent,
        arrays.concatenate([fork.parameters for fork in forks]),
        arrays.concatenate([fork.optimiser for fork in forks]),
        window([fork.recording for fork in forks], [fork.k for fork in forks]),
        np.stack([words(event) for event in events]),
    )


def validation_loss(agent: Agent, forks: Sequence[Fork]) -> Float64[np.ndarray, " F"]:
    """The frozen model's training loss on the episode before each fork: all of it is held out."""
    parameters = arrays.concatenate([fork.parameters for fork in forks])
    loss = agent.loss(parameters, segment([fork.recording for fork in forks], [fork.k for fork in forks]))
    return np.asarray(loss, np.float64)


def evaluate(
    agent: Agent,
    environment: Environment,
    parameters: Arrays,
    forks: Sequence[Fork],
    *,
    mode: str,
    episodes: Int64[np.ndarray, " E"],
    action_noise: float,
    halves: int = 1,
    record: Record | None = None,
) -> Rolled:
    """These matched episodes (from 0) of parameter set p at fork p. Which branch it is enters nowhere."""
    steps, repeat = environment.episode_steps, environment.action_repeat
    levels = [
        evaluation_levels(
            fork.schedule,
            fork.k * steps * repeat,
            control_steps=steps,
            action_repeat=repeat,
            mode=mode,  # type: ignore[arg-type]
        )
        for fork in forks
    ]
    return roll_out(
        agent,
        environment,
        parameters,
        Draws.of([fork.event for fork in forks], episodes),
        levels=np.stack(levels),
        action_noise=action_noise,
        halves=halves,
        record=record,
    )
