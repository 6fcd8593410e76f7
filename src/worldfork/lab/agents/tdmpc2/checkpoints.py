"""Checkpoints from disk, in the files of the compact agent: safetensors, and a JSON manifest beside them.

The parameters are all of the networks', target Q functions included; the optimiser's state is the moments and
counts of both Adams.
"""

import dataclasses
from pathlib import Path
from typing import Any

from worldfork.lab.agents.base import Checkpoint
from worldfork.lab.agents.rssm_cem.checkpoints import read_arrays, remark_on, restored
from worldfork.lab.agents.tdmpc2.agent import TDMPC2
from worldfork.lab.agents.tdmpc2.model.networks import Networks
from worldfork.lab.environments.base import Environment

__all__ = ["describe", "load"]


def load(agent: TDMPC2, environment: Environment, path: Path) -> Checkpoint:
    """A checkpoint for this agent in this task; anything wrong with it is said in one sentence."""
    manifest, arrays = read_arrays(path, task=environment.name, model=describe(agent.networks))
    update = {name: getattr(agent, name) for name in ("sequences", "length", "rate")}
    remark = remark_on(path, manifest, planner=dataclasses.asdict(agent.planner), update=update)
    return restored(path, manifest, arrays, remark=remark)


def describe(networks: Networks) -> dict[str, Any]:
    """What of the networks' settings their parameters depend on; precision is a matter of who runs them."""
    described = {name: value for name, value in dataclasses.asdict(networks).items() if name != "precision"}
    return {"agent": "tdmpc2", **described}
