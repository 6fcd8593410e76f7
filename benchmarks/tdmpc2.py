"""Speed of TD-MPC2's pretraining: updates and plans per second of several seeds in one program, by size.

    python benchmarks/tdmpc2.py                                    # 1M and 5M, ten seeds of cheetah
    python benchmarks/tdmpc2.py --learning bf16 --planning bf16    # with operands of 16 bits
    python benchmarks/tdmpc2.py --sizes 1M --profile               # and which kernels a GPU spends its time on
    python benchmarks/tdmpc2.py --sizes tiny --seeds 2 --environments 1 --batch 8 --candidates 32 --steps 2

The programs are those that `worldfork pretrain` runs, from untrained parameters and an empty replay: a step costs
the same whatever a model knows. A plan is one decision of one environment, an update one gradient step of one seed
on its minibatch. The last figures of a size are of a whole control step with its physics: one plan for each
environment of each seed, and as many updates of each seed as it has environments. From it follows how long a
training takes.
"""

import argparse
import collections
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from worldfork.lab.agents.pretraining import replay as replays
from worldfork.lab.agents.pretraining.loop import member_keys
from worldfork.lab.agents.pretraining.recipe import restore
from worldfork.lab.agents.pretraining.worlds import Worlds
from worldfork.lab.agents.tdmpc2.pretraining import Trainee
from worldfork.lab.agents.tdmpc2.recipe import Recipe

ENV_STEPS = 500_000  # of each seed: the training whose time is told
PROFILED = 3  # calls under the profiler
SHOWN = 25  # kernels


def recipe_of(given: argparse.Namespace, size: str) -> Recipe:
    search = {"candidates": given.candidates, "elites": min(64, given.candidates // 2)}
    if given.candidates <= 24:
        search["proposals"] = 1
    return restore(
        Recipe,
        {
            "schema": "worldfork.pretraining/1",
            "agent": "tdmpc2",
            "name": f"benchmark-{size}",
            "size": size,
            "sequences": given.batch,
            "episodes": 3,
            "environments": given.environments,
            "collection": search,
            "collection_precision": given.planning,
            "learning_precision": given.learning,
            "tasks": {given.task: {"seeds": list(range(given.seeds))}},
        },
        name="The benchmark",
    )


class Measured:
    """All seeds of a recipe, and what can be asked of them."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.worlds = recipe, Worlds(recipe)
        [environment] = self.worlds.environments.values()
        self.repeat = environment.action_repeat
        self.trainee = Trainee(recipe, self.worlds)
        self.keys = member_keys(self.worlds)
        self.learners = self.trainee.initialise(self.keys)
        members, sizes = len(self.worlds.members), (environment.observation_size, environment.action_size)
        self.replay = replays.empty(members, recipe.environments, 3 * self.worlds.episode_steps, *sizes)
        self.warm: Any = None
        self.observation = self.worlds.reset(0)
        self.action: Any = np.zeros((members, recipe.environments, environment.action_size), np.float32)

    def plan(self) -> None:
        first = self.warm is None
        chosen, self.warm = self.trainee.act(
            self.learners, self.warm, self.observation, self.keys, first=first, random=False
        )
        self.action = np.asarray(chosen)

    def learn(self) -> None:
        self.update()
        jax.block_until_ready(self.learners)

    def update(self) -> None:
        self.learners, _ = self.trainee.learn(self.learners, self.replay, 250, self.keys)

    def whole(self) -> None:
        """As training does it: physics steps while the device learns."""
        self.plan()
        self.update()
        reward, following = self.worlds.step(self.action)
        first = np.zeros(reward.shape, bool)
        rows = (self.observation, self.action, reward, following, first)
        self.replay = replays.add(self.replay, 250, *rows)
        self.observation = following


def seconds(part: Callable[[], None], steps: int) -> tuple[float, float]:
    """Of the first call, which compiles, and of each of the others on average."""
    began = time.perf_counter()
    part()
    first = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(steps):
        part()
    jax.effects_barrier()
    return first, (time.perf_counter() - began) / steps


def kernels(part: Callable[[], None]) -> list[str]:
    """Return the GPU's kernels of one call, those that take longest first: milliseconds, launches, name."""
    milliseconds: collections.Counter[str] = collections.Counter()
    launches: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(PROFILED):
                part()
            jax.effects_barrier()
        for file in Path(folder).rglob("*.trace.json.gz"):
            events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
            rows = {e["pid"] for e in events if e.get("name") == "process_name" and "GPU" in e["args"]["name"]}
            for event in events:
                if event.get("ph") == "X" and event["pid"] in rows:
                    milliseconds[event["name"]] += event["dur"] / 1e3 / PROFILED
                    launches[event["name"]] += 1
    total = f"{sum(milliseconds.values()):8.3f} ms in {sum(launches.values()) / PROFILED:.0f} kernels"
    longest = milliseconds.most_common(SHOWN)
    return [total, *(f"{taken:8.3f} ms {launches[name] / PROFILED:6.1f} x {name[:90]}" for name, taken in longest)]


def measure(given: argparse.Namespace, size: str) -> dict[str, Any]:
    measured = Measured(recipe_of(given, size))
    trained = [x.size for name, x in measured.learners.params.items() if not name.startswith(("target/", "scale/"))]
    each = given.seeds * given.environments  # plans, and updates, of a control step
    compiled_act, act = seconds(measured.plan, given.steps)
    compiled_learn, learn = seconds(measured.learn, given.steps)
    _, step = seconds(measured.whole, given.steps)
    control_steps = ENV_STEPS / measured.repeat / given.environments
    profiled = {"plan": kernels(measured.plan), "learn": kernels(measured.learn)} if given.profile else {}
    return {
        "size": size,
        "device": jax.devices()[0].device_kind,
        "parameters": sum(trained) // given.seeds,
        **{name: getattr(given, name) for name in ("task", "seeds", "environments", "batch", "candidates")},
        "learning": given.learning,
        "planning": given.planning,
        "seed_updates_per_second": each / learn,
        "plans_per_second": each / act,
        "milliseconds_of_a_control_step": 1e3 * step,
        "minutes_to_half_a_million_steps": control_steps * step / 60,
        "seconds_to_compile": {"plan": compiled_act, "learn": compiled_learn},
        "kernels": profiled,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["1M", "5M"])
    parser.add_argument("--task", default="cheetah-run")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--environments", type=int, default=5, help="of each seed")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--candidates", type=int, default=512)
    parser.add_argument("--learning", default="tf32", help="precision of the updates")
    parser.add_argument("--planning", default="tf32", help="precision of the plans")
    parser.add_argument("--steps", type=int, default=50, help="control steps to time")
    parser.add_argument("--profile", action="store_true", help="list the kernels of a GPU")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for size in given.sizes:
        row = measure(given, size)
        if given.json:
            print(json.dumps(row), flush=True)
            continue
        print(
            f"{size} ({row['parameters']:,} parameters) on {row['device']}: {given.seeds} seeds x "
            f"{given.environments} environments, updates {given.learning}, plans {given.planning}"
        )
        print(f"{row['seed_updates_per_second']:10,.0f} seed-updates/s, batches of {given.batch}")
        print(f"{row['plans_per_second']:10,.0f} plans/s of {given.candidates} x 3 x 6")
        print(
            f"{row['milliseconds_of_a_control_step']:10,.1f} ms a control step of all with its updates: "
            f"{row['minutes_to_half_a_million_steps']:,.1f} minutes to {ENV_STEPS:,} environment steps a seed"
        )
        print(
            "{plan:10.0f} s and {learn:.0f} s for the first plan and update".format(**row["seconds_to_compile"]),
            flush=True,
        )
        for part, lines in row["kernels"].items():
            print("\n".join([f"{part}:", *lines]), flush=True)


if __name__ == "__main__":
    main()
