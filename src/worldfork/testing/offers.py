"""The contract of an agent that lets mechanisms compose its training: what it offers is what `fit` does."""

import dataclasses
from collections.abc import Callable
from typing import Final

from worldfork.lab.agents.base import Agent, Arrays, Fit, Window
from worldfork.lab.agents.training import Course, Trainable
from worldfork.randomness import Purpose
from worldfork.testing.deployments import SETS, fields, keys, kinds
from worldfork.testing.report import demand, difference, no_global_draws

__all__ = ["begins_afresh", "offers_training"]

STEPS: Final = 2
RATE: Final = 0.5
BATCH_KEYS = "Draw from the keys that it is given alone."


def offers_training(
    agent: Agent, parameters: Arrays, optimiser: Arrays, window: Window, *, plain_fit: Callable[[], Fit]
) -> None:
    """`plain_fit` calls `fit` on the same arguments with `STEPS` steps at `RATE`."""
    assert isinstance(agent, Trainable)
    names, scope = sorted(parameters), agent.scopes[0]

    def train(course: Course) -> Fit:
        batch_keys = keys(Purpose.UPDATE_BATCH, SETS)
        return agent.train(parameters, optimiser, window, course=course, batch_keys=batch_keys)

    for group, prefixes in agent.groups.items():
        held = any(name.startswith(prefixes) for name in names)
        demand(held, f"no parameter begins with {prefixes}, the group `{group}`.", f"There are {names[:9]}.")
    counted = all(isinstance(count, int) and count > 0 for count in agent.minibatch)
    remedy = "It is (sequences, transitions of a sequence), and `passes` are counted by it."
    demand(counted, f"`minibatch` is {agent.minibatch!r}.", remedy)
    plain = Course(STEPS, scope, RATE)
    text = difference(fields(plain_fit()), fields(train(plain)))
    remedy = "Let `fit` call `train` with `Course(steps, scope, rate)`."
    demand(not text, f"a course of nothing but steps trains otherwise than `fit` ({text}).", remedy)
    group = next(name for name, starts in agent.groups.items() if any(agent.trained(scope, s) for s in starts))
    for chosen in dict.fromkeys((group, *list(agent.groups)[-1:])):
        after = train(dataclasses.replace(plain, groups=(chosen,))).parameters
        others = [name for name in names if not name.startswith(agent.groups[chosen])]
        text = difference(*({name: arrays[name] for name in others} for arrays in (parameters, after)))
        remedy = "Train the parameters of `course.groups` alone."
        demand(not text, f"training the group `{chosen}` changed others ({text}).", remedy)


def begins_afresh(agent: Agent, parameters: Arrays, optimiser: Arrays) -> None:
    """What `fresh` gives is like what a checkpoint holds, and the same for the same keys."""
    assert isinstance(agent, Trainable)
    batch_keys = keys(Purpose.UPDATE_BATCH, SETS)
    with no_global_draws("`fresh`", BATCH_KEYS):
        before, after = (agent.fresh(parameters, batch_keys) for _ in range(2))
    held = {"parameters": parameters, "optimiser": optimiser}
    for (part, like), group, again in zip(held.items(), before, after, strict=True):
        expected, came = kinds(like), kinds(group)
        others = {name for name in {*expected, *came} if expected.get(name) != came.get(name)}
        shown = {name: came.get(name) for name in sorted(others)[:5]}
        wanted = {name: expected.get(name) for name in shown}
        demand(not others, f"`fresh` has other {part}: {shown}.", f"They are as a checkpoint's: {wanted}.")
        text = difference(group, again)
        demand(not text, f"the same keys gave other {part} ({text}).", BATCH_KEYS)
