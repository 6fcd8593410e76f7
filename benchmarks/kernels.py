"""How many kernels a gradient step of pretraining is on an H200, counted without one: XLA compiles for a GPU that
is described to it.

    pip install "jax[cuda13]==0.10.2"                       # the compiler; no driver and no GPU are needed
    python benchmarks/kernels.py pretrain-cartpole --members 5
    python benchmarks/kernels.py pretrain-locomotion --members 10 --unroll 1

A small model's time goes into launching kernels, so their number is the first thing to know about a change. Loops
are counted as often as they turn; what is counted is what is launched: fusions, products, copies. How long each of
them takes it does not say, and another version of jax counts otherwise.
"""

import argparse
import collections
import dataclasses
import functools
import os
import re
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")  # it would ask the driver
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

import worldfork.lab  # noqa: F401  (pins the compiler before JAX starts)
from worldfork.lab.agents.pretraining import replay
from worldfork.lab.agents.rssm_cem.learner import Masks, initialise_learner
from worldfork.lab.agents.rssm_cem.pretraining import Collecting, learning_of, programs
from worldfork.lab.tools.pretraining import read_recipe
from worldfork.registration.library import find_recipe

H200 = """
gpu_device_info {
  cuda_compute_capability { major: 9 }
  threads_per_block_limit: 1024
  threads_per_warp: 32
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  l2_cache_size: 52428800
  memory_bandwidth: 4800000000000
  device_memory_size: 149000000000
  clock_rate_ghz: 1.98
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 7 }
runtime_version { major: 13 minor: 0 patch: 0 }
device_description_str: "NVIDIA H200"
"""
OBSERVED, ACTED = 24, 6  # numbers of the largest task; they change no count
# What is no kernel: names, and what loops are made of.
NOT_LAUNCHED = {"parameter", "get-tuple-element", "tuple", "bitcast", "constant", "after-all", "opt-barrier"}


def compiled(recipe_name: str, *, members: int, unroll: int | None) -> tuple[str, int]:
    """The scheduled program that learns at one control step, as text, and its number of gradient steps."""
    recipe = read_recipe(find_recipe(recipe_name))
    learning = learning_of(recipe)
    if unroll is not None:
        learning = dataclasses.replace(learning, unroll=unroll)
    model = recipe.plugin(recipe.collection).model(OBSERVED, ACTED)
    minibatch = {"sequences": recipe.sequences, "length": recipe.length}
    _, learn = programs(model, learning, Collecting.of(recipe), chunk=recipe.gradient_steps, **minibatch)
    (device,) = topologies.get_topology_desc(platform="cuda", target_config=H200, topology="1x1x1").devices
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), members))
    learners = jax.eval_shape(jax.vmap(functools.partial(initialise_learner, model)), keys)
    steps = recipe.episodes * 250
    seen = jax.eval_shape(lambda: replay.empty(members, recipe.environments, steps, OBSERVED, ACTED))
    masks = Masks(*(jax.ShapeDtypeStruct((members, size), jnp.float32) for size in (OBSERVED, ACTED)))
    filled, share = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((), jnp.float32)

    def there(shape: Any) -> Any:
        return jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=SingleDeviceSharding(device))

    arguments = jax.tree.map(there, (learners, seen, filled, keys, masks, share))
    return learn.lower(*arguments).compile().as_text(), recipe.gradient_steps


def computations(program: str) -> tuple[dict[str, list[str]], str]:
    """The instructions of every computation by its name, and the name of the one that is called."""
    found: dict[str, list[str]] = {}
    entry = name = ""
    for line in program.splitlines():
        if line.startswith("HloModule"):
            continue
        if begins := re.match(r"^(ENTRY )?%?([\w.\-]+) .*\{$", line):
            name = begins[2]
            found[name], entry = [], name if begins[1] else entry
        elif line.startswith("}"):
            name = ""
        elif name and " = " in line:
            found[name].append(re.sub(r"/\*.*?\*/", "", line.strip().removeprefix("ROOT ")))
    return found, entry


def counted(found: dict[str, list[str]], name: str, times: int, depth: int) -> Iterator[tuple[int, int, int, str]]:
    """(depth, how often it is run, kernels each time, the most frequent of them) of a computation and its loops."""
    kinds: collections.Counter[str] = collections.Counter()
    loops = []
    for line in found[name]:
        assigned, _, rest = line.partition(" = ")
        shaped = rf"{re.escape(') ')}([a-z][\w\-]*)\(" if rest.startswith("(") else r"^\S+ ([a-z][\w\-]*)\("
        operation = re.search(shaped, rest)
        if operation is None or operation[1] in NOT_LAUNCHED:
            continue
        if operation[1] == "while":
            turns = re.search(r'known_trip_count":\{"n":"(\d+)"', rest)
            body = re.search(r"body=%?([\w.\-]+)", rest)
            assert body is not None
            loops.append((body[1], int(turns[1]) if turns else 1))
        else:
            kinds[re.sub(r"[.\d]+$", "", assigned.lstrip("%"))] += 1
    most = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(4))
    yield depth, times, kinds.total(), most
    for body_name, turns_each in loops:
        yield from counted(found, body_name, times * turns_each, depth + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="pretrain-cartpole")
    parser.add_argument("--members", type=int, default=5, help="seeds that are trained in one program")
    parser.add_argument("--unroll", type=int, help="transitions that are compiled as one; else as the recipe says")
    given = parser.parse_args()
    program, steps = compiled(given.recipe, members=given.members, unroll=given.unroll)
    found, entry = computations(program)
    rows = list(counted(found, entry, 1, 0))
    total = sum(times * kernels for _, times, kernels, _ in rows)
    print(f"{given.recipe}, {given.members} members, jax {jax.__version__}: {total:,} kernels a control step,")
    print(f"{total / steps:,.0f} a gradient step, of which there are {steps}")
    for depth, times, kernels, most in rows:
        print(f"{'  ' * depth}{kernels:4d} kernels x {times:<3d} = {kernels * times:<6,d} {most}")


if __name__ == "__main__":
    main()
