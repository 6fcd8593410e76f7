"""Fine-tuning that keeps drawing on what the checkpoint was pretrained on.

Sources: experience replay against forgetting (Robins, "Catastrophic forgetting, rehearsal and pseudorehearsal",
1995; Rolnick et al., "Experience replay for continual learning", 2019, arXiv:1811.11682); short- and long-term
replay for a world model in "ARROW" (2026, arXiv:2603.11395).
"""

import dataclasses
from typing import Annotated, Final

from pydantic import Field

from worldfork.lab.agents.base import Agent, Window
from worldfork.lab.agents.training import Rehearsal, Trainable, TrainingPlan, black_box, rehearsed, takes_replay
from worldfork.lab.mechanisms.base import Origin, saying_ends
from worldfork.lab.mechanisms.finetune import BLACK_BOX, Composed

TAKES: Final = (
    "One that keeps its state inside can rehearse if its `learn` takes `replay` and `share` (docs/stateful.md)."
)


class Rehearse(Composed):
    """Of each minibatch the share `share` is drawn from the replay of pretraining, the rest from the window.

    With a share of 1 nothing is learnt from the window: such an arm asks what fitting costs that brings no news.

    A black box that takes the replay is handed it with the share, and draws for itself.
    """

    share: Annotated[float, Field(gt=0, le=1)] = 0.5

    @property
    def reads_replay(self) -> bool:
        return True

    def objection(self, agent: Agent, *, shortest: int, longest: int) -> str:
        if refusal := super().objection(agent, shortest=shortest, longest=longest):
            return refusal
        if black_box(agent):
            return (
                ""
                if takes_replay(agent)
                else f"minibatches mixed with replay can not be had here: {BLACK_BOX}. {TAKES}"
            )
        assert isinstance(agent, Trainable)
        sequences, _ = agent.minibatch
        if self.share < 1 and rehearsed(self.share, sequences) in (0, sequences):
            return (
                f"a share of {self.share:g} of a minibatch of {sequences} is {rehearsed(self.share, sequences)} of "
                "them when rounded: register a share that leaves some of both."
            )
        return ""

    def plan(self, agent: Agent, *, origin: Origin, window: Window) -> TrainingPlan:
        assert origin.replay is not None
        plain = super().plan(agent, origin=origin, window=window)
        # Minibatches mix rows of both: what the window says of ends, the replay says too.
        replay = origin.replay if window.terminated is None else saying_ends(origin.replay)
        return dataclasses.replace(plain, rehearsal=Rehearsal(replay, self.share))
