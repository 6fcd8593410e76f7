"""Everything of ours that has a name keeps the contract that we ask of others. (Worlds, mechanisms, triggers and
executors are asked in their own rooms.)"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from untrained import SMALLEST, write_checkpoint

from worldfork import registry
from worldfork.lab.agents.linear_quadratic import LinearQuadraticPlugin
from worldfork.lab.environments.base import State
from worldfork.lab.environments.linear_quadratic import World
from worldfork.randomness import Event, Purpose
from worldfork.registration.library import BUNDLED
from worldfork.testing import check_agent, check_environment, check_mechanism, check_signal

AGENTS: dict[str, dict[str, Any]] = {
    "linear_quadratic": {"environment": "linear_quadratic", "precision": "float64"},
    "rssm_cem": {
        "environment": "cartpole-swingup",
        "checkpoints": [BUNDLED / f"cartpole-swingup-{index}.safetensors" for index in range(3)],
        "settings": {
            "size": "tiny",
            "candidates": 16,
            "horizon": 2,
            "iterations": 2,
            "elites": 4,
            "sequences": 2,
            "length": 8,
        },
    },
    "tdmpc2": {"environment": "cartpole-swingup", "settings": SMALLEST},  # with files that the test writes
}


# Agents in JAX compile for a while; their own tests ask the same of them, piece by piece.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] * (name != "linear_quadratic"))
        for name in registry.names("agents")
        if name != "sb3"  # which lab/adapters/test_sb3.py asks with every algorithm
    ],
)
def test_agents(name: str, tmp_path: Path) -> None:
    given = dict(AGENTS[name])
    if name == "tdmpc2":
        paths = [tmp_path / f"cartpole-swingup-{seed}.safetensors" for seed in range(3)]
        given["checkpoints"] = [write_checkpoint(path, seed=seed) for seed, path in enumerate(paths)]
    assert not check_agent(name, **given).not_examined


def test_the_example_agent_in_its_other_way() -> None:
    check_agent(LinearQuadraticPlugin(method="least_squares"), World(scale=2.0), precision="float64")


@pytest.mark.parametrize("name", registry.names("signals"))
def test_signals(name: str) -> None:
    check_signal(name)


def test_an_object_that_is_already_built_is_examined_as_far_as_it_goes() -> None:
    report = check_environment(World(scale=0.5))
    left_out = [promise.partition(" (")[0] for promise in report.not_examined]
    assert left_out == ["Level 0 is the nominal world whatever the scale", "Threads change nothing"]
    assert "keeps its contract" in str(report)
    world, plugin = World(scale=0.5), LinearQuadraticPlugin()
    agent = plugin.build(world, precision="float64")
    checkpoint = plugin.generate(agent, world, Event(purpose=Purpose.PRETRAINING))
    assert check_agent(agent, world, checkpoints=[checkpoint]).not_examined
    check_mechanism("finetune", agent=agent, environment=world, checkpoint=checkpoint)


class Fading(World):
    """Only the reward drifts, as where an answer is right or wrong."""

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        after, observation, reward = super().step(state, action)
        return after, observation, reward * (1.0 + level)


def test_a_world_may_drift_in_its_reward_alone() -> None:
    assert "Physics moves with the level, and with nothing else" in check_environment(Fading(scale=2.0)).kept


def test_the_kits_need_neither_jax_nor_mujoco() -> None:
    script = "import sys, worldfork.testing; sys.exit(bool({'jax', 'mujoco', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
