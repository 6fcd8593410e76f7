"""A real episode that costs few plans: what an update is tried on and timed on before a study is run.

An agent may refuse observations that its world never shows (a label that is neither 0 nor 1, an angle beyond a
circle), so that nothing here is made up. The agent acts for a few control steps, as in its deployment; then its
actions are repeated in turn until the episode ends, since planning is what takes long.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from jaxtyping import Float, UInt32

from worldfork.lab.agents.base import Agent, Arrays, Belief, Decision, Surprise, taken_by
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.label import Fork
from worldfork.lab.mechanisms.base import Origin, Update
from worldfork.lab.stream import deploy, window
from worldfork.ledger.arrays import Columns
from worldfork.randomness import Event, Purpose, words
from worldfork.registration import Arm, cells

PLANNED: Final = 2  # control steps


def short_episode(context: Context, arm: Arm, task: str) -> Fork:
    """Return the fork after the first episode of a stream, in the first cell of this arm and task."""
    cell = next(cell for cell in cells(context.registration) if (cell.arm, cell.task) == (arm.name, task))
    (stream,) = deploy(
        _Repeating(context.agent(task, arm)),
        context.environment(task),
        context.checkpoint(task, cell.checkpoint).parameters,
        events=[Event(purpose=Purpose.INITIAL_STATE, task=task, direction="check")],
        schedules=[context.schedule(cell)],
        decision_points=1,
        action_noise=arm.stream.action_noise,
        after_end=context.after_end(task) or "reset",
    )
    return Fork(cell, 1, stream)


def prepared_update(
    context: Context,
    arm: Arm,
    task: str,
    recording: Columns,
    episodes: int,
    *,
    steps: int,
    sets: int = 1,
) -> Callable[[], Update]:
    """Return an update of so many sets, each the first checkpoint with this recording, ready to be computed."""
    mechanism = context.mechanism(arm)
    fixed = {"passes": None} if "passes" in type(mechanism).model_fields else {}
    mechanism = mechanism.model_copy(update={"steps": steps, **fixed})
    checkpoint = context.checkpoint(task, context.registration.grid.checkpoints[0])
    origin = Origin.of([checkpoint], replay=mechanism.reads_replay).take(np.zeros(sets, np.int64))
    return functools.partial(
        mechanism.update,
        context.agent(task, arm),
        origin.parameters,
        optimiser=origin.optimiser,
        origin=origin,
        window=window([recording] * sets, [episodes] * sets),
        batch_keys=np.stack([words(Event(purpose=Purpose.UPDATE_BATCH, fork=index)) for index in range(sets)]),
    )


class _Repeating:
    """An agent that plans `PLANNED` control steps of a roll-out and then repeats them; the rest is the agent's."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.acted = agent, 0
        self.wanted = taken_by(agent.observe, "reward", "terminated", "measure")
        self.decisions: list[Decision] = []
        self.measured: list[Surprise] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.agent, name)

    def act(self, parameters: Arrays, belief: Belief, plan_keys: UInt32[np.ndarray, "P E 2"]) -> Decision:
        self.acted += 1
        if self.acted > PLANNED:
            return dataclasses.replace(self.decisions[self.acted % PLANNED], belief=belief)
        self.decisions.append(self.agent.act(parameters, belief, plan_keys))
        return self.decisions[-1]

    def observe(
        self, parameters: Arrays, belief: Belief, observation: Float[np.ndarray, "P E O"], **outcomes: Any
    ) -> Surprise:
        if self.acted > PLANNED:
            return dataclasses.replace(self.measured[self.acted % PLANNED], belief=belief)
        wanted = {name: outcomes[name] for name in self.wanted}
        self.measured.append(self.agent.observe(parameters, belief, observation, **wanted))
        return self.measured[-1]
