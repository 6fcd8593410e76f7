"""Fine-tuning, the paper's mechanism (paper, "Problem setting"), and what every mechanism that trains shares.

cut the window -> where training begins -> what is trained, on what, how -> train -> what came of it
"""

import dataclasses
import math
from typing import Annotated, Any, ClassVar

import numpy as np
from jaxtyping import UInt32
from pydantic import Field

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Agent, Arrays, Fit, Window
from worldfork.lab.agents.training import Descent, Trainable, TrainingPlan, black_box, takes_replay
from worldfork.lab.mechanisms.base import Mechanism, Origin, Update, last, unchanged, updated

BLACK_BOX = (
    "this agent trains itself: it offers `fit`, and no loss whose gradient a mechanism could use. Of the "
    "mechanisms that come with worldfork it can do `none`, `finetune` by its own optimiser, `accept-if-better`, "
    "`reset` to the checkpoint, and `shrink-and-perturb` toward it or toward zero"
)


@dataclasses.dataclass(frozen=True)
class InitialPoint:
    """Parameters and optimiser state from which training begins."""

    parameters: Arrays
    optimiser: Arrays


class Composed(Descent, Mechanism):
    """Gradient steps on the last `window` transitions. A subclass says what else belongs to its `plan`, or where
    its training `start`s; if it has a setting `groups`, these are groups of the agent's parameters.

    With `passes` the number of steps follows the window: as many as draw every transition of it so many times on
    average. What `steps` says is then of no account, except that 0 is still no update.
    """

    same_shape: ClassVar[bool] = True  # transitions are padded as the window is, whatever `window` says

    rate: Annotated[float, Field(gt=0)] = 1.0  # share of the learning rate
    passes: Annotated[float, Field(gt=0)] | None = None  # over the window, in place of a number of steps

    def plan(self, agent: Agent, *, origin: Origin, window: Window) -> TrainingPlan:
        """Return what is trained, on what, with what penalty and by what optimiser."""
        doses = [self.dose(agent, int(size)) for size in window.size]
        return TrainingPlan(
            steps=self.steps if self.passes is None else np.array(doses, np.int64),
            scope=self.scope,
            rate=self.rate,
            descent=self,
        )

    def start(
        self, agent: Agent, current: InitialPoint, *, origin: Origin, batch_keys: UInt32[np.ndarray, "P 2"]
    ) -> InitialPoint:
        """Return where training begins: at the current parameters, unless a subclass says otherwise."""
        return current

    def needs(self) -> list[str]:
        """List what of the training a black box can not do."""
        found = [f"the optimiser `{self.optimiser}`"] if self.optimiser != "own" else []
        found += ["a schedule of the learning rate"] if self.scheduled else []
        found += ["passes over the window"] if self.passes is not None else []
        return found + (["groups of parameters"] if getattr(self, "groups", ()) else [])

    def objection(self, agent: Agent, *, shortest: int, longest: int) -> str:
        """Refuse what a black box can not do, and groups of parameters that the agent does not train."""
        if refusal := super().objection(agent, shortest=shortest, longest=longest):
            return refusal
        if (parts := self.needs()) and black_box(agent):
            return f"{' and '.join(parts)} can not be had here: {BLACK_BOX}."
        for group in getattr(self, "groups", ()):
            assert isinstance(agent, Trainable)
            if group not in agent.groups:
                return f"there is no group of parameters {group!r} here; the agent has {', '.join(agent.groups)}."
            if not any(agent.trained(self.scope, prefix) for prefix in agent.groups[group]):
                return f"the group {group!r} has no part in the scope {self.scope!r}: it would stay as it is."
        return ""

    def update(
        self,
        agent: Agent,
        parameters: Arrays,
        *,
        optimiser: Arrays,
        origin: Origin,
        window: Window,
        batch_keys: UInt32[np.ndarray, "P 2"],
    ) -> Update:
        """Train. No steps is no update: the branches are then one computation."""
        if self.steps == 0 and self.rests_without_steps:
            return unchanged(agent, parameters, optimiser=optimiser, window=last(window, self.window))
        seen = last(window, self.window, same_shape=self.same_shape)
        current, trained_on = InitialPoint(parameters, optimiser), self.trained_on(seen)
        begun = self.start(agent, current, origin=origin, batch_keys=batch_keys)
        plan = self.plan(agent, origin=origin, window=trained_on)
        fit = carry_out(agent, begun, trained_on, plan=plan, batch_keys=batch_keys)
        return updated(parameters, self.accept(agent, current, fit, seen=seen), seen, steps=plan.steps)

    def trained_on(self, seen: Window) -> Window:
        """Return the transitions to train on: all that are seen, unless a subclass says otherwise."""
        return seen

    def accept(self, agent: Agent, current: InitialPoint, fit: Fit, *, seen: Window) -> Fit:
        """Return what is kept of a training: all of it, unless a subclass says otherwise."""
        return fit

    def dose(self, agent: Agent, transitions: int) -> int:
        if self.passes is None or self.steps == 0 or not isinstance(agent, Trainable):
            return self.steps
        sequences, length = agent.minibatch
        return max(1, math.ceil(self.passes * transitions / (sequences * length)))


def carry_out(
    agent: Agent, begun: InitialPoint, window: Window, *, plan: TrainingPlan, batch_keys: UInt32[np.ndarray, "P 2"]
) -> Fit:
    """Train: by the agent's own `fit` where that is all there is to it, else as composed."""
    handed: dict[str, Any] = {}
    if plan.rehearsal is not None and takes_replay(agent):
        handed, plan = {"rehearsal": plan.rehearsal}, dataclasses.replace(plan, rehearsal=None)
    if plan.plain:
        return agent.fit(
            begun.parameters,
            begun.optimiser,
            window,
            steps=int(plan.steps),
            scope=plan.scope,
            batch_keys=batch_keys,
            rate=plan.rate,
            **handed,
        )
    if not isinstance(agent, Trainable):
        raise WorldforkError(f"This plan can not be trained: {BLACK_BOX}.")
    return agent.train(begun.parameters, begun.optimiser, window, plan=plan, batch_keys=batch_keys)


class FineTune(Composed):
    """`steps` gradient steps on the last `window` transitions; `scope` says what is trained."""
