"""The contract of an agent where episodes end early: attempts are begun, and read, each by itself."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from worldfork.lab.agents.base import Agent, Arrays, Window, taken_by
from worldfork.lab.agents.training import Trainable
from worldfork.lab.environments.base import Environment
from worldfork.randomness import fold_in
from worldfork.testing.deployments import SETS, Stage, random_window
from worldfork.testing.report import demand, difference

__all__ = ["BEGINS_ANEW", "begins_anew", "reads_attempts_apart"]

ROWS: Final = 96
BEGINS_ANEW: Final = "Where an episode begins anew a belief does, and nowhere else"


def reads_attempts_apart(
    agent: Agent, world: Environment, parameters: Arrays, *, fit: Callable[[Window], object]
) -> None:
    """Attempts of one row each, some of them falls: their order means nothing."""
    length = agent.minibatch[1] if isinstance(agent, Trainable) else 1
    rows = ROWS // length * length
    whole = random_window(world, rows=rows, sizes=(rows,) * SETS)
    alone = np.ones((SETS, rows), np.bool_)
    apart = dataclasses.replace(whole, first=alone, terminated=alone & (np.arange(rows) % 5 == 0))
    turned = Window(**{name: values[:, ::-1] for name, values in apart.columns.items()}, size=apart.size)
    before, after = (np.asarray(agent.loss(parameters, seen)) for seen in (apart, turned))
    demand(
        np.allclose(before, after, rtol=1e-3, atol=1e-6, equal_nan=True),
        f"`loss` depends on the order of attempts: {before}, and turned round {after}.",
        "Take what an action led to from `next_observation`, and carry nothing over where `first` is True: the "
        "next row may be another attempt.",
    )
    fit(apart)


def begins_anew(agent: Agent, world: Environment, stage: Stage) -> None:
    """Some episodes of a stage that has gone on for a while begin anew."""
    shape = stage.seeds.shape

    def start(seeds: np.ndarray) -> np.ndarray:
        return world.reset(seeds.reshape(-1)).observation.reshape(*shape, -1)

    belief: Any = agent.begin(stage.parameters, start(stage.seeds))
    for step in range(2):
        decision = agent.act(stage.parameters, belief, fold_in(stage.plan_keys, step))
        seen = start(stage.seeds + step + 1)
        told = {"reward": np.ones(shape), "terminated": np.zeros(shape, np.bool_)}
        named = {name: told[name] for name in taken_by(agent.observe, *told)}
        belief = agent.observe(stage.parameters, decision.belief, seen, **named).belief
    where = np.arange(shape[0] * shape[1]).reshape(shape) % 3 == 0
    observation = np.where(where[..., None], start(stage.seeds + 500), seen)
    begun = agent.begin_again(stage.parameters, belief, observation, where)  # type: ignore[attr-defined]
    whole = agent.begin(stage.parameters, observation)
    acted, going_on, anew = (
        np.array(agent.act(stage.parameters, held, fold_in(stage.plan_keys, 9)).action)
        for held in (begun, belief, whole)
    )
    remedy = "`begin_again` gives the episodes in `where` the belief that `begin` would, and leaves the others."
    text = difference(anew[where], acted[where])
    demand(not text, f"an episode that begins anew acts otherwise than one that begins ({text}).", remedy)
    text = difference(going_on[~where], acted[~where])
    demand(not text, f"an episode that goes on acts otherwise beside one that begins anew ({text}).", remedy)
