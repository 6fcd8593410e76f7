"""Machines that die under a study: the same bytes wherever it runs, and whoever is killed meanwhile.

    python benchmarks/cluster.py                      # every scene
    python benchmarks/cluster.py --only killed mixed  # some of them

Begins a Ray cluster of three nodes on this machine (a head without cores, three nodes with `--cores` each), runs
the linear-quadratic study on it in drivers of their own, and compares every chained byte with a study that one
local process made. Prints a line per scene; exits 1 at the first difference.

    workers    two local worker processes
    killed     three nodes; two nodes are killed and replaced, and the driver is killed and begun again
    together   two studies at once, a worker each
    mixed      begun local, killed, finished on Ray; and the other way round
    followed   a study with policies that are followed all the way, every task of it computed by two workers
    trained    checkpoints of two groups of seeds: here, by two processes, and on Ray
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from cluster_stage import Theatre
from kill_and_resume import DEPLOYMENT, REGISTRATION

RECIPE = """
schema = "worldfork.pretraining/1"
name = "groups"
size = "tiny"
bins = 9
seeds_per_group = 1
episodes = 2
environments = 2
planned = 1
gradient_steps = 1
sequences = 2
length = 6
starts = 4
imagined = 3
gate_episodes = 1
report_episodes = 1
[collection]
candidates = 8
horizon = 2
iterations = 1
elites = 2
[tasks.cartpole-swingup]
seeds = [0, 1]
wanted = 2
planner = { candidates = 8, horizon = 2, iterations = 1, elites = 2 }
"""


def workers(theatre: Theatre) -> None:
    began = time.perf_counter()
    theatre.finish(theatre.driver("two", "--workers", "2"))
    theatre.compare("workers: two local processes", "two", began)


def killed(theatre: Theatre) -> None:
    began = time.perf_counter()
    driver = theatre.stopping("killed", at=(9, 27, 45), on_ray=True)
    for _ in range(2):
        theatre.wait_for_stop(driver)  # its workers are in the middle of the next blocks
        theatre.machines.kill_one()
        theatre.go_on(driver)
        theatre.machines.add_one()
    theatre.kill_at_stop(driver)
    theatre.finish(theatre.on_ray("killed"))
    theatre.compare("killed: two of three nodes and the driver", "killed", began)


def together(theatre: Theatre) -> None:
    began = time.perf_counter()
    drivers = [theatre.on_ray(name, "--workers", "1") for name in ("first", "second")]
    for driver in drivers:
        theatre.finish(driver)
    for name in ("first", "second"):
        theatre.compare(f"together: the {name} of two studies", name, began)


def mixed(theatre: Theatre) -> None:
    began = time.perf_counter()
    theatre.kill_at_stop(theatre.stopping("local-ray", at=(12,), on_ray=False))
    theatre.finish(theatre.on_ray("local-ray"))
    theatre.compare("mixed: begun local, finished on Ray", "local-ray", began)
    began = time.perf_counter()
    theatre.kill_at_stop(theatre.stopping("ray-local", at=(12,), on_ray=True))
    theatre.finish(theatre.driver("ray-local"))
    theatre.compare("mixed: begun on Ray, finished local", "ray-local", began)


def followed(theatre: Theatre) -> None:
    began = time.perf_counter()
    path = theatre.root / "followed.toml"
    path.write_text(REGISTRATION + DEPLOYMENT)
    theatre.finish(theatre.driver("followed-local", study=path))
    theatre.finish(theatre.on_ray("followed", "--set", "twice=1", study=path))
    theatre.compare("followed: with policies, all of it twice", "followed", began, with_study="followed-local")


def trained(theatre: Theatre) -> None:
    began = time.perf_counter()
    path = theatre.root / "recipe.toml"
    path.write_text(RECIPE)
    theatre.finish(theatre.driver("trained-here", verb="pretrain", study=path))
    theatre.finish(theatre.driver("trained-two", "--workers", "2", verb="pretrain", study=path))
    theatre.finish(theatre.on_ray("trained-ray", verb="pretrain", study=path))
    here, two, ray = (
        {file.name: file.read_bytes() for file in (theatre.root / f"trained-{name}").glob("cartpole-*")}
        for name in ("here", "two", "ray")
    )
    if not here == two == ray or len(here) != 6:
        sys.exit(f"trained: {sorted(here)}, {sorted(two)}, {sorted(ray)} differ")
    took = time.perf_counter() - began
    print(f"trained: {len(here)} files of 2 checkpoints, equal bytes in three ways, {took:.0f} s", flush=True)


SCENES = {scene.__name__: scene for scene in (workers, killed, together, mixed, followed, trained)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="+", choices=SCENES, default=list(SCENES), metavar="SCENE")
    options.add_argument(
        "--episodes", type=int, default=200, help="of an evaluation: more make a block take longer"
    )
    options.add_argument("--cores", type=int, default=1, help="of each node")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as root:
        theatre = Theatre(Path(root), episodes=given.episodes, cores=given.cores)
        try:
            for name in given.only:
                SCENES[name](theatre)
        finally:
            if theatre._machines is not None:
                theatre._machines.end()


if __name__ == "__main__":
    main()
