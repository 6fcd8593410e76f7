"""Where pretraining's time goes: milliseconds of each part of a control step, and what the device does in them.

    python benchmarks/pretraining.py registrations/pretrain-cartpole.toml
    python benchmarks/pretraining.py registrations/pretrain-cartpole.toml --seeds 20 --steps 50

All members of the recipe act, learn and step their physics as in training, from untrained parameters: a step costs
the same whatever a model knows. On a GPU the kernels of a control step are counted, and the share of the time in
which one runs.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from worldfork.lab.agents.pretraining import replay
from worldfork.lab.agents.pretraining.loop import fold, member_keys
from worldfork.lab.agents.pretraining.worlds import Worlds
from worldfork.lab.agents.rssm_cem.pretraining import Trainee
from worldfork.lab.agents.rssm_cem.recipe import Recipe, Task
from worldfork.lab.tools.pretraining import read_recipe


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("recipe", type=Path)
    options.add_argument("--seeds", type=int, help="Of every task; default: the recipe's.")
    options.add_argument("--steps", type=int, default=30, help="Control steps to time.")
    given = options.parse_args()
    recipe = read_recipe(given.recipe)
    if given.seeds:
        tasks = {name: _with_seeds(task, given.seeds) for name, task in recipe.tasks.items()}
        recipe = recipe.model_copy(update={"tasks": tasks})
    step = ControlStep(recipe)
    members = len(step.worlds.members)
    print(
        f"{recipe.name}: {members} members, {recipe.gradient_steps} gradient steps, {jax.devices()[0].device_kind}"
    )
    for name, part in {"act": step.act, "learn": step.learn, "physics": step.physics, "all": step.whole}.items():
        began = time.perf_counter()
        part()
        first = time.perf_counter() - began
        print(f"{name:8} {1e3 * seconds(part, given.steps):7.2f} ms a control step; first call {first:5.1f} s")
    if jax.default_backend() == "gpu":
        print(device_activity(step.whole, given.steps))


class ControlStep:
    """One control step of all members, in its parts."""

    def __init__(self, recipe: Recipe) -> None:
        self.worlds = Worlds(recipe)
        self.trainee = Trainee(recipe, self.worlds)
        self.keys = member_keys(self.worlds)
        self.learners = self.trainee.initialise(self.keys)
        members, steps = len(self.worlds.members), recipe.episodes * self.worlds.episode_steps
        sizes = (self.worlds.observation_size, self.worlds.action_size)
        self.replay = replay.empty(members, recipe.environments, steps, *sizes)
        self.memory: Any = None
        self.observation = self.worlds.reset(0)
        self.action = np.zeros((members, recipe.environments, self.worlds.action_size), np.float32)

    def act(self) -> None:
        keys = fold(self.keys, 0)
        chosen, self.memory = self.trainee.act(
            self.learners, self.memory, self.observation, keys, first=False, random=False
        )
        self.action = np.asarray(chosen)

    def learn(self, *, wait: bool = True) -> None:
        self.learners, _ = self.trainee.learn(self.learners, self.replay, 500, fold(self.keys, 1))
        if wait:
            self.learners.spread.block_until_ready()

    def physics(self) -> None:
        reward, following = self.worlds.step(self.action)
        first = np.zeros(reward.shape, bool)
        rows = (self.observation, self.action, reward, following, first)
        self.replay = replay.add(self.replay, 500, *rows)
        self.observation = following

    def whole(self) -> None:
        """As training does it: physics steps while the device learns."""
        self.act()
        self.learn(wait=False)
        self.physics()


def seconds(part: Callable[[], None], rounds: int) -> float:
    part()
    began = time.perf_counter()
    for _ in range(rounds):
        part()
    jax.effects_barrier()
    return (time.perf_counter() - began) / rounds


def device_activity(part: Callable[[], None], rounds: int) -> str:
    """Kernels of a control step, by how often and how long, as the profiler saw them."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            began = time.perf_counter()
            for _ in range(rounds):
                part()
            wall = time.perf_counter() - began
        [path] = Path(folder).rglob("*.xplane.pb")
        planes = jax.profiler.ProfileData.from_file(str(path)).planes
        kernels: dict[str, list[float]] = {}
        for plane in planes:
            if "GPU" not in plane.name:
                continue
            for line in plane.lines:
                if "Stream" in line.name:
                    for event in line.events:
                        kernels.setdefault(event.name, []).append(event.duration_ns)
    count = sum(map(len, kernels.values()))
    busy = sum(map(sum, kernels.values())) / 1e9
    lines = [
        f"{count / rounds:.0f} kernels and copies a control step; one runs in {busy / wall:.0%} of the time "
        f"({1e3 * wall / rounds:.2f} ms a step under the profiler)"
    ]
    for name, times in sorted(kernels.items(), key=lambda item: -sum(item[1]))[:25]:
        share = f"{len(times) / rounds:6.0f} x {sum(times) / len(times) / 1e3:6.1f} us"
        lines.append(f"  {sum(times) / rounds / 1e6:6.2f} ms  {share}  {name[:90]}")
    return "\n".join(lines)


def _with_seeds(task: Task, count: int) -> Task:
    return task.model_copy(update={"seeds": tuple(range(count))})


if __name__ == "__main__":
    main()
