"""A replay for checkpoints that keep none: what each of them does in the clean world, planned without noise.

It is not what the checkpoint was pretrained on, which is gone, and its manifest says so. Mechanisms that rehearse
read it all the same: it is the world as it was before any drift.
"""

import math

from worldfork.errors import WorldforkError
from worldfork.lab.agents.rssm_cem import checkpoints
from worldfork.lab.agents.rssm_cem.checkpoints import read_manifest
from worldfork.lab.agents.rssm_cem.evaluation import Deployed
from worldfork.lab.agents.rssm_cem.pretraining.harvest import rewrite
from worldfork.lab.environments.drift import Schedule
from worldfork.lab.stream import deploy, window
from worldfork.randomness import Event, Purpose
from worldfork.registration.library import BUNDLED

__all__ = ["collect_replay"]

SOURCE = "collected in the clean world by the finished checkpoint, planned without noise"


def collect_replay(deployed: Deployed, transitions: int) -> None:
    """Roll the checkpoints out in the clean world, and keep so many transitions beside each."""
    if any(path.parent == BUNDLED for path in deployed.paths):
        raise WorldforkError("Checkpoints that come with worldfork stay as they are: copy them first.")
    environment = deployed.environment
    if transitions < environment.episode_steps:
        raise WorldforkError(f"An episode is {environment.episode_steps} transitions: collect at least that many.")
    episodes = math.ceil(transitions / environment.episode_steps)
    events = [
        Event(purpose=Purpose.INITIAL_STATE, task=environment.name, checkpoint=name, direction="replay")
        for name in deployed.names
    ]
    streams = deploy(
        deployed.agent,
        environment,
        deployed.parameters,
        events=events,
        # The world is built without drift, so that the level means nothing.
        schedules=[Schedule("away", 1)] * len(events),
        decision_points=episodes,
        action_noise=0.0,
    )
    for path, stream in zip(deployed.paths, streams, strict=True):
        seen = window([stream.recording], [episodes])
        columns = {name: getattr(seen, name)[0, :transitions] for name in checkpoints.COLUMNS}
        entry = checkpoints.keep(path, columns, source=SOURCE)
        rewrite(path, {**read_manifest(path), "replay": entry})
