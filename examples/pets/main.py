"""Pretrain four ensembles in the clean world, fork them while it drifts, and say what updating was worth.

python main.py            # ten minutes on two cores
python main.py --tiny     # the same at a size that proves nothing
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from pets import PetsPlugin

import worldfork as wf
from worldfork.lab.agents.stateful import Transitions, save_checkpoint, seeded
from worldfork.lab.environments import load
from worldfork.registration import read

EPISODES = 10  # side by side


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    tiny = parser.parse_args().tiny
    began = time.perf_counter()
    study = read("tiny.toml" if tiny else "study.toml")
    task = study.tasks["reacher"]
    world = load(task.environment, scale=task.drift_scale, settings=task.environment_settings)
    for checkpoint in study.grid.checkpoints:
        path = Path(f"models/reacher-{checkpoint}.safetensors")
        if not path.exists():
            plugin = PetsPlugin(**task.settings)
            clean = pretrain(
                plugin, world, path, seed=checkpoint, rounds=2 if tiny else 6, steps=20 if tiny else 1500
            )
            print(f"{path}: {clean:.1f} in the clean world, after {time.perf_counter() - began:.0f} s", flush=True)
    ledger = wf.run(study, "runs/pets", workers=2, notify=print)
    score = wf.score(ledger)
    print(score["reacher"].verdict, score.effects().select("estimand", "mean", "student_t_low", "student_t_high"))
    print(score.triggers().select("trigger", "auc", "policy_total", "fires"))
    assert not wf.verify(ledger).problems
    print(wf.report(ledger).path, f"after {time.perf_counter() - began:.0f} s")


def pretrain(plugin, world, path, *, seed, rounds, steps):
    """Random episodes, then the agent's own: act, add, learn, again."""
    agent = plugin.build(world, precision="float32")
    with seeded(np.array([seed, 1], np.uint32)):
        pets = plugin.make(world)
        data = []
        for turn in range(rounds):
            data.append(play(pets, world, seeds=np.arange(EPISODES) + 1000 * seed + 100 * turn, random=turn == 0))
            window = Transitions(*(np.concatenate(parts) for parts in zip(*data, strict=True)))
            if turn == 0:
                pets.model.normalise(*pets.data(window))
            pets.learn(window, steps=steps, rate=1.0)
        return save_checkpoint(pets.get_state(), path, agent=agent, environment=world, episodes=10)


def play(pets, world, *, seeds, random):
    """Whole episodes side by side, as the fields of `Transitions`."""
    state = world.reset(seeds)
    pets.reset(state.observation)
    columns = []
    for step in range(world.episode_steps):
        if random:
            action = world.action_bound * (2 * torch.rand(len(seeds), world.action_size).numpy() - 1)
        else:
            action = pets.act(state.observation)
        before = state.observation
        state, after, reward = world.step(state, action.astype(np.float64))
        never = np.zeros(len(seeds), bool)  # an episode of a reacher has no end of its own
        columns.append((before, action, reward, after, np.full(len(seeds), step == 0), never))
    return [np.concatenate(values) for values in zip(*columns, strict=True)]


if __name__ == "__main__":
    main()
