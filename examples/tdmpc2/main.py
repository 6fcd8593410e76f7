"""Pretrain three TD-MPC2 models of stable-worldmodel in the clean world, fork them while it drifts, and score.

python main.py            # pretraining, which takes most of the time, is skipped for models that are there
"""

import time
from pathlib import Path

import numpy as np
from agent import TDMPC2Plugin

import worldfork as wf
from worldfork.lab.agents.stateful import Transitions, save_checkpoint, seeded
from worldfork.lab.environments import load
from worldfork.registration import read

EPISODES, ROUNDS, STEPS = 10, 5, 250


def main():
    began = time.perf_counter()
    study = read("study.toml")
    for checkpoint in study.grid.checkpoints:
        pretrain(study.tasks["reacher"], checkpoint)
    ledger = wf.run(study, "runs/tdmpc2", workers=2, notify=print)
    score = wf.score(ledger)
    print(score["reacher"].verdict, score.effects().select("estimand", "mean", "student_t_low", "student_t_high"))
    print(score.triggers().select("trigger", "auc", "policy_total", "fires"))
    assert not wf.verify(ledger).problems
    print(wf.report(ledger).path, f"after {time.perf_counter() - began:.0f} s")


def pretrain(task, checkpoint):
    """Random episodes, then the agent's own: act, add, learn, again."""
    path = Path(f"models/reacher-{checkpoint}.safetensors")
    if path.exists():
        return
    world = load(task.environment, scale=task.drift_scale, settings=task.environment_settings)
    plugin = TDMPC2Plugin(**task.settings)
    shim = plugin.build(world, precision="float32")
    with seeded(np.array([checkpoint, 2], np.uint32)) as number:
        agent, data = plugin.make(world), []
        agent.seed(number)
        for turn in range(ROUNDS):
            data.append(
                play(agent, world, seeds=np.arange(EPISODES) + 1000 * checkpoint + 100 * turn, noise=turn == 0)
            )
            window = Transitions(*(np.concatenate(parts) for parts in zip(*data, strict=True)))
            agent.learn(window, steps=STEPS, rate=1.0)
        clean = save_checkpoint(agent.get_state(), path, agent=shim, environment=world, episodes=10)
    print(f"{path}: {clean:.1f} in the clean world", flush=True)


def play(agent, world, *, seeds, noise):
    """Whole episodes, end to end, as the fields of `Transitions`."""
    state = world.reset(seeds)
    agent.reset(state.observation)
    columns = []
    for step in range(world.episode_steps):
        action = agent.act(state.observation).astype(np.float64)
        spread = 1.0 if noise else 0.2  # exploration
        drawn = np.random.normal(size=action.shape)  # noqa: NPY002 (seeded around all of pretraining)
        action = np.clip(action + spread * drawn, -world.action_bound, world.action_bound)
        before = state.observation
        state, after, reward = world.step(state, action)
        never = np.zeros(len(seeds), bool)  # an episode of a reacher has no end of its own
        columns.append((before, action, reward, after, np.full(len(seeds), step == 0), never))
    stacked = [np.stack(values, axis=1) for values in zip(*columns, strict=True)]
    return [values.reshape(-1, *values.shape[2:]) for values in stacked]


if __name__ == "__main__":
    main()
