"""Planning cost: decisions per second on this machine, and how it grows with each thing a planner is given.

    python benchmarks/planner.py                        # the tiny model at the demo's settings, and around them
    python benchmarks/planner.py --size compact --candidates 512 --horizon 3 --iterations 6 --episodes 2880

Untrained parameters: a decision costs the same whatever the model has learned. Physics is left out; see
benchmarks/physics.py. Every figure is the best of several rounds in one run.
"""

import argparse
import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from worldfork import randomness
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin
from worldfork.lab.environments import load
from worldfork.randomness import Event, Purpose

AROUND = {
    "candidates": (32, 64, 128, 256),
    "horizon": (1, 3, 5, 8),
    "iterations": (1, 2, 3, 6),
    "episodes": (1, 6, 24, 96),
    "sets": (1, 4, 12),
}


def rate(size: str, *, sets: int, episodes: int, rounds: int, precision: str, **search: int) -> float:
    """Decisions per second: one `act` and one `observe` for every episode of every parameter set."""
    settings = {**search, "elites": max(2, search["candidates"] // 8)}
    agent = RSSMCEMPlugin(size=size, **settings).build(load("cartpole-swingup"), precision=precision)
    fresh = [agent.model.initialise(jax.random.key(seed)) for seed in range(sets)]
    parameters = {name: jnp.stack([one[name] for one in fresh]) for name in fresh[0]}
    observation = np.zeros((sets, episodes, 5))
    root = randomness.words(Event(purpose=Purpose.PLANNING))
    belief = agent.begin(parameters, observation)
    best = 0.0
    for number in range(rounds + 1):  # the first compiles
        keys = randomness.fold_in(root, number, np.arange(sets * episodes)).reshape(sets, episodes, 2)
        start = time.perf_counter()
        decision = agent.act(parameters, belief, keys)
        belief = agent.observe(parameters, decision.belief, observation).belief
        jax.block_until_ready(belief)
        if number:
            best = max(best, sets * episodes / (time.perf_counter() - start))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="tiny", help="tiny or compact")
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--horizon", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=24)
    parser.add_argument("--sets", type=int, default=1, help="parameter sets; each plans for all the episodes")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--only", action="store_true", help="the setting itself and nothing around it")
    parser.add_argument("--json", action="store_true")
    given = vars(parser.parse_args())
    fixed = {name: given[name] for name in ("size", "rounds", "precision")}
    setting = {name: given[name] for name in AROUND}
    rows: list[dict[str, Any]] = []

    def measure(**change: int) -> float:
        found = rate(**fixed, **{**setting, **change})
        rows.append({**setting, **change, "decisions_per_second": found})
        return found

    here = measure()
    alone = measure(episodes=1)
    if not given["only"]:
        for name, values in AROUND.items():
            for value in values:
                measure(**{name: value})
    if given["json"]:
        print(json.dumps({"device": jax.devices()[0].device_kind, **fixed, "rows": rows}))
        return
    print(
        f"{given['size']} model on {jax.devices()[0].device_kind}, {given['precision']}, best of {given['rounds']}"
    )
    print(f"{here:10,.0f} decisions/s at {setting}")
    print(f"{alone:10,.0f} decisions/s one episode at a time: batching gives x{here / alone:.1f}")
    for row in rows[2:]:
        changed = ", ".join(f"{name} {row[name]}" for name in AROUND if row[name] != setting[name]) or "as above"
        print(f"{row['decisions_per_second']:10,.0f} decisions/s with {changed}")


if __name__ == "__main__":
    main()
