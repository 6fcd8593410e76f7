"""How fast a study runs: decisions per second end to end, beside what planner, physics and matrix units do alone.

    python benchmarks/throughput.py                                     # the demo's size, on this CPU
    python benchmarks/throughput.py --size compact --candidates 512 --iterations 6 --forks 60 --episodes 30

One episode alone, one fork's pair, and a whole block of forks go through the code that a study goes through
(`roll_out`), for a few control steps each. Untrained parameters: a decision costs the same whatever a model knows.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from worldfork.lab.agents.base import Window
from worldfork.lab.agents.layers import HALVES
from worldfork.lab.agents.rssm_cem.agent import RSSMCEM
from worldfork.lab.agents.rssm_cem.optimiser import flatten, initialise
from worldfork.lab.agents.rssm_cem.planning import available
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin
from worldfork.lab.environments import load
from worldfork.lab.environments.base import Environment
from worldfork.lab.episodes import Draws, roll_out
from worldfork.lab.planner.cem import CEM
from worldfork.randomness import Event, Purpose, fold_in, words

UPDATE = 200  # gradient steps of the paper's mechanism


def best(call: Callable[[], Any], rounds: int = 3) -> float:
    """Seconds of the fastest of several calls, after one that compiles."""
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def matrix_ceiling(precision: str) -> float:
    """FLOP/s of one large matrix product in the planner's precision, in this very run."""
    size = 8192 if jax.default_backend() == "gpu" else 1024
    kind = HALVES.get(precision, jnp.float32)
    exactness = jax.lax.Precision.HIGHEST if precision == "float32" else jax.lax.Precision.DEFAULT
    a, b = (jax.random.normal(jax.random.key(seed), (size, size)).astype(kind) for seed in (0, 1))
    product = jax.jit(lambda a, b: jnp.matmul(a, b, precision=exactness))
    return 2.0 * size**3 / best(lambda: product(a, b).block_until_ready(), rounds=5)


def work_per_decision(search: CEM, parameters: dict[str, Any]) -> float:
    """Floating-point operations of the matrix products of one decision's search."""
    count = {name: x[0].size for name, x in parameters.items() if name.endswith("/weight")}
    total = lambda *parts: sum(n for name, n in count.items() if name.split("/")[1] in parts)  # noqa: E731
    per_step = total("input", "gru", "prior", "reward")
    return 2.0 * search.candidates * search.iterations * (search.horizon * per_step + total("head"))


def stacked(agent: RSSMCEM, sets: int) -> dict[str, Any]:
    """`sets` copies of fresh parameters."""
    one = agent.model.initialise(jax.random.key(0))
    return {name: jnp.broadcast_to(x, (sets, *x.shape)) + 0.0 for name, x in one.items()}


def measure(
    agent: RSSMCEM, env: Environment, *, sets: int, episodes: int, steps: int, halves: int
) -> dict[str, float]:
    """Decisions per second of a block of `sets` x `episodes`, and of its planner and its physics alone."""
    parameters = stacked(agent, sets)
    events = [Event(purpose=Purpose.INITIAL_STATE, task=env.name, fork=p) for p in range(sets)]
    draws = Draws.of(events, np.arange(episodes))
    levels = np.zeros((sets, steps))
    arguments = {"levels": levels, "action_noise": 0.0, "halves": min(halves, episodes)}
    count = sets * episodes
    whole = best(lambda: roll_out(agent, env, parameters, draws, **arguments), rounds=2) / steps

    state = env.reset(draws.seeds.reshape(-1))
    belief = agent.begin(parameters, state.observation.reshape(sets, episodes, -1))
    action = np.zeros((count, env.action_size))
    planner = best(lambda: np.asarray(agent.act(parameters, belief, draws.planning(0)).action))
    physics = best(lambda: env.step(state, action))
    return {
        "sets": sets,
        "episodes": episodes,
        "decisions_per_second": count / whole,
        "planner_alone": count / planner,
        "physics_alone": count / physics,
        "against_the_slower": whole / max(planner, physics),
        "matrix_flops": count * work_per_decision(agent.planner, parameters) / planner,
    }


def fork_steps(agent: RSSMCEM, forks: int, steps: int) -> float:
    """Fork-gradient-steps per second of UPDATE on full windows."""
    rows, random = 6000, np.random.default_rng(0)
    seen = random.normal(size=(forks, rows, agent.observation_size))
    window = Window(
        observation=seen,
        action=random.uniform(-1, 1, (forks, rows, agent.action_size)),
        reward=random.uniform(0, 4, (forks, rows)),
        next_observation=np.roll(seen, -1, axis=1),
        first=np.broadcast_to(np.arange(rows) % 250 == 0, (forks, rows)).copy(),
        size=np.full(forks, rows),
    )
    parameters = stacked(agent, forks)
    optimiser = flatten(jax.vmap(initialise)(parameters))
    keys = fold_in(words(Event(purpose=Purpose.UPDATE_BATCH)), np.arange(forks))
    fit = lambda: agent.fit(parameters, optimiser, window, steps=steps, scope="model", batch_keys=keys)  # noqa: E731
    return forks * steps / best(fit, rounds=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="cartpole-swingup")
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--horizon", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--precision", default="tf32", help="float32, tf32, fp16 or bf16")
    parser.add_argument("--forks", type=int, default=6, help="per block: a block has twice as many parameter sets")
    parser.add_argument("--episodes", type=int, default=4, help="m, per branch")
    parser.add_argument("--halves", type=int, default=2, help="1: planner and physics take turns; 2: they overlap")
    parser.add_argument("--steps", type=int, default=10, help="control steps that are timed")
    parser.add_argument("--gradient-steps", type=int, default=20, help="of UPDATE; 0 leaves it out")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    env = load(given.task)
    settings = {name: getattr(given, name) for name in ("size", "candidates", "horizon", "iterations")}
    agent = RSSMCEMPlugin(**{**settings, "elites": max(2, given.candidates // 8)}).build(
        env, precision=given.precision
    )
    ceiling = matrix_ceiling(given.precision)
    shapes = {"one episode": (1, 1), "one fork": (2, given.episodes), "a block": (2 * given.forks, given.episodes)}
    rows = {
        name: measure(agent, env, sets=sets, episodes=episodes, steps=given.steps, halves=given.halves)
        for name, (sets, episodes) in shapes.items()
    }
    trained = fork_steps(agent, given.forks, given.gradient_steps) if given.gradient_steps else None
    decisions = 2 * given.episodes * env.episode_steps
    seconds = {"evaluation": decisions / rows["a block"]["decisions_per_second"]}
    if trained is not None:
        seconds["update"] = UPDATE / trained
    # A CPU backend keeps no statistics of its own: there it is what the process took.
    process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    memory = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", process)
    found = {
        "device": jax.devices()[0].device_kind,
        "setting": vars(given),
        "fused": available(agent.imagined, agent.planner.candidates),
        "matrix_ceiling": ceiling,
        "rows": rows,
        "fork_gradient_steps_per_second": trained,
        "seconds_per_fork": seconds,
        "peak_memory_bytes": memory,
    }
    if given.json:
        print(json.dumps(found))
        return
    search = f"{given.candidates} x {given.horizon} x {given.iterations}"
    path = "the fused kernel" if found["fused"] else "XLA"
    print(f"{given.task}, {given.size} model, {search}, {given.precision} through {path}, on {found['device']}")
    print(f"matrix ceiling in this run: {ceiling / 1e12:.2f} TFLOP/s")
    columns = ("shape", "decisions/s", "planner", "physics", "x slower one", "of ceiling")
    print(f"{'':14}" + "".join(f"{column:>14}" for column in columns))
    for name, row in rows.items():
        speeds = "".join(f"{row[k]:14,.0f}" for k in ("decisions_per_second", "planner_alone", "physics_alone"))
        shares = f"{row['against_the_slower']:14.2f}{row['matrix_flops'] / ceiling:14.1%}"
        shape = f"{row['sets']} x {row['episodes']}"
        print(f"{name:14}{shape:>14}{speeds}{shares}")
    updating = "" if trained is None else f"UPDATE: {trained:,.0f} fork-gradient-steps/s; "
    print(f"{updating}peak memory {memory / 2**30:.2f} GiB")
    share = "" if trained is None else f"{UPDATE} gradient steps and "
    print(f"{60.0 / sum(seconds.values()):,.1f} forks a minute: {share}{given.episodes} paired episodes each")


if __name__ == "__main__":
    main()
