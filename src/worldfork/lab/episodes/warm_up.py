"""One control step on zeros: compiles the programs of an episode before the first one."""

import numpy as np

from worldfork.lab.agents.base import Agent, Arrays
from worldfork.lab.ahead import blank
from worldfork.lab.environments.base import Environment
from worldfork.lab.episodes.rolling import ready


def rehearse_control_step(
    agent: Agent, environment: Environment, frozen: Arrays, *, sets: int, episodes: int
) -> None:
    """Begin, plan and observe for `sets` parameter sets like those in `frozen`; call it within `only_compiling`."""
    zeros = {name: blank((sets, *x.shape[1:]), x.dtype) for name, x in frozen.items()}
    parameters = ready(agent, zeros, (sets, episodes))
    observation = blank((sets, episodes, environment.observation_size), np.float64)
    belief = agent.begin(parameters, observation)
    decision = agent.act(parameters, belief, np.zeros((sets, episodes, 2), np.uint32))
    agent.observe(parameters, decision.belief, observation)
