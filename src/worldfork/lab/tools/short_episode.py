"""A real episode that costs few plans: what an update is tried on and timed on before a study is run.

An agent may refuse observations that its world never shows (a label that is neither 0 nor 1, an angle beyond a
circle), so that nothing here is made up. The agent acts for a few control steps, as in its deployment; then its
actions are repeated in turn until the episode ends, since planning is what takes long.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float, UInt32

from worldfork.lab.agents.base import Agent, Arrays, Decision, Surprise, taken_by
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.label import Fork
from worldfork.lab.stream import deploy
from worldfork.randomness import Event, Purpose
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


@dataclasses.dataclass(frozen=True)
class _Belief:
    """The agent's own belief after `step` control steps, and what it did and measured in those that it planned."""

    inner: Any
    step: int = 0
    done: tuple[Decision, ...] = ()
    measured: tuple[Surprise, ...] = ()


class _Repeating:
    """An agent that plans `PLANNED` control steps and then repeats them; everything else is the agent's."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.told = taken_by(agent.observe, "reward", "terminated")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.agent, name)

    def begin(self, parameters: Arrays, observation: Float[np.ndarray, "P E O"]) -> _Belief:
        return _Belief(self.agent.begin(parameters, observation))

    @property
    def begin_again(self) -> Callable[..., _Belief] | None:
        """The agent's own way to begin anew in a world whose episodes end early, where it has one."""
        inner = getattr(self.agent, "begin_again", None)
        if inner is None:
            return None

        def begun(
            parameters: Arrays,
            belief: _Belief,
            observation: Float[np.ndarray, "P E O"],
            where: Bool[np.ndarray, "P E"],
        ) -> _Belief:
            return dataclasses.replace(belief, inner=inner(parameters, belief.inner, observation, where))

        return begun

    def act(self, parameters: Arrays, belief: _Belief, plan_keys: UInt32[np.ndarray, "P E 2"]) -> Decision:
        if belief.step >= PLANNED:
            return dataclasses.replace(belief.done[belief.step % PLANNED], belief=belief)
        decision = self.agent.act(parameters, belief.inner, plan_keys)
        acted = dataclasses.replace(belief, inner=decision.belief, done=(*belief.done, decision))
        return dataclasses.replace(decision, belief=acted)

    def observe(
        self, parameters: Arrays, belief: _Belief, observation: Float[np.ndarray, "P E O"], **outcomes: Any
    ) -> Surprise:
        later = dataclasses.replace(belief, step=belief.step + 1)
        if belief.step >= PLANNED:
            return dataclasses.replace(belief.measured[belief.step % PLANNED], belief=later)
        surprise = self.agent.observe(
            parameters, belief.inner, observation, **{name: outcomes[name] for name in self.told}
        )
        seen = dataclasses.replace(later, inner=surprise.belief, measured=(*belief.measured, surprise))
        return dataclasses.replace(surprise, belief=seen)
