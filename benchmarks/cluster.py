"""Machines that die under a study: the same bytes wherever it runs, and whoever is killed meanwhile.

    python benchmarks/cluster.py                      # every scene
    python benchmarks/cluster.py --only killed mixed  # some of them

Begins a Ray cluster of three nodes on this machine (a head without cores, three nodes with `--cores` each), runs
the linear-quadratic study on it in drivers of their own, and compares every chained byte with a study that one
local process made. Prints a line per scene; exits 1 at the first difference.

    workers    two local worker processes
    killed     three nodes; two nodes are killed and replaced, and the driver is killed and begun again
    together   two studies at once
    mixed      begun local, killed, finished on Ray; and the other way round
    followed   a study with policies that are followed all the way, every task of it computed by two workers
    bare       a driver that can import neither jax nor mujoco, and a study whose workers need both
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from kill_and_resume import DEPLOYMENT, REGISTRATION, chained

from worldfork.ledger.verify import verify

STUDY = """
schema = "worldfork.registration/1"
name = "cluster"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0, 1, 2]
directions = ["toward", "away"]
[stream]
decision_points = 8
drift_period = 200
[evaluation]
episodes = {episodes}
[mechanism]
steps = 20
window = 200
[[arms]]
name = "few"
[[arms]]
name = "many"
mechanism = {{steps = 40}}
[execution]
forks_per_block = 3
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 2.0
precision = "float64"
"""
MODEL = """
schema = "worldfork.registration/1"
name = "bare"
[grid]
tasks = ["cartpole-swingup"]
checkpoints = [0]
directions = ["toward"]
[stream]
decision_points = 2
drift_period = 2000
[evaluation]
episodes = 2
[mechanism]
steps = 2
window = 1000
[execution]
forks_per_block = 1
streams_per_batch = 1
[tasks.cartpole-swingup]
agent = "rssm_cem"
checkpoints = "bundled"
drift_scale = 1.5
precision = "float32"
settings = {size = "tiny", candidates = 16, horizon = 2, iterations = 1, elites = 4}
"""
# What a machine without the lab's libraries would say; and at the end that none of them was imported all the same.
WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib", "mujoco", "dm_control", "optax", "safetensors"):
            raise ModuleNotFoundError(f"No module named {name!r}: this driver has none", name=name)
sys.meta_path.insert(0, Blocked())
import worldfork as wf
wf.run(sys.argv[1], sys.argv[2], executor="ray", settings={"address": sys.argv[3]})
assert not {"jax", "mujoco"} & set(sys.modules)
"""


class Machines:
    """A Ray cluster of nodes that can be killed one by one."""

    def __init__(self, nodes: int, cores: int) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        from ray.cluster_utils import Cluster

        self.cores = cores
        self.cluster: Any = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        self.nodes = [self.cluster.add_node(num_cpus=cores) for _ in range(nodes)]

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def replace_one(self) -> None:
        """Kill the oldest node as a power cut would, and bring another up."""
        self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)
        self.nodes.append(self.cluster.add_node(num_cpus=self.cores))

    def end(self) -> None:
        self.cluster.shutdown()


class Theatre:
    """Where the scenes are played."""

    def __init__(self, root: Path, *, episodes: int, cores: int) -> None:
        self.root, self.cores = root, cores
        self.registration = root / "study.toml"
        self.registration.write_text(STUDY.format(episodes=episodes))
        self._machines: Machines | None = None
        began = time.perf_counter()
        self.finish(self.driver("local"))
        print(f"local: one process, {rows(root / 'local')} rows in {time.perf_counter() - began:.0f} s", flush=True)

    @property
    def machines(self) -> Machines:
        if self._machines is None:
            began = time.perf_counter()
            self._machines = Machines(3, self.cores)
            print(f"(three nodes in {time.perf_counter() - began:.0f} s)", flush=True)
        return self._machines

    def driver(self, name: str, *options: str, study: Path | None = None) -> "subprocess.Popen[bytes]":
        """A driver of its own that runs the study, or another, into a folder of that name."""
        command = [sys.executable, "-m", "worldfork.cli.main", "run", str(study or self.registration)]
        with (self.root / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "-o", str(self.root / name), "--quiet", *options], stdout=log, stderr=log
            )

    def on_ray(self, name: str, *options: str, study: Path | None = None) -> "subprocess.Popen[bytes]":
        where = ("--executor", "ray", "--address", self.machines.address)
        return self.driver(name, *where, *options, study=study)

    def finish(self, process: "subprocess.Popen[bytes]") -> None:
        if process.wait():
            logs = "\n".join(path.read_text(errors="replace")[-3000:] for path in self.root.glob("*.log"))
            sys.exit(f"a driver failed:\n{logs}")

    def kill_at(self, process: "subprocess.Popen[bytes]", name: str, count: int) -> None:
        """Kill a driver once it has written so many rows."""
        self.wait_for(process, name, count)
        process.kill()
        process.wait()

    def wait_for(self, process: "subprocess.Popen[bytes]", name: str, count: int) -> None:
        while rows(self.root / name) < count and process.poll() is None:
            time.sleep(0.02)
        if process.poll() is not None:
            self.finish(process)
            sys.exit(f"{name}: the driver ended before it had {count} rows: ask for more --episodes")

    def compare(self, scene: str, name: str, began: float, *, with_study: str = "local") -> None:
        reference, study = chained(self.root / with_study), chained(self.root / name)
        differing = sorted(path for path in {*reference, *study} if reference.get(path) != study.get(path))
        verdict = verify(self.root / name)
        if differing or verdict.problems or not verdict.complete:
            sys.exit(f"{scene}: {differing} differ; {verdict.problems}")
        took = time.perf_counter() - began
        print(f"{scene}: {len(study)} files, equal bytes, {self.lost(name)} workers lost, {took:.0f} s", flush=True)

    def lost(self, name: str) -> int:
        """Workers that the drivers of a study say they lost."""
        return (self.root / f"{name}.log").read_text(errors="replace").count(" is lost: ")


def workers(theatre: Theatre) -> None:
    began = time.perf_counter()
    theatre.finish(theatre.driver("two", "--workers", "2"))
    theatre.compare("workers: two local processes", "two", began)


def killed(theatre: Theatre) -> None:
    began = time.perf_counter()
    driver = theatre.on_ray("killed")
    for count in (9, 27):
        theatre.wait_for(driver, "killed", count)
        theatre.machines.replace_one()
    theatre.kill_at(driver, "killed", 45)
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
    theatre.kill_at(theatre.driver("local-ray"), "local-ray", 12)
    theatre.finish(theatre.on_ray("local-ray"))
    theatre.compare("mixed: begun local, finished on Ray", "local-ray", began)
    began = time.perf_counter()
    theatre.kill_at(theatre.on_ray("ray-local"), "ray-local", 12)
    theatre.finish(theatre.driver("ray-local"))
    theatre.compare("mixed: begun on Ray, finished local", "ray-local", began)


def followed(theatre: Theatre) -> None:
    began = time.perf_counter()
    path = theatre.root / "followed.toml"
    path.write_text(REGISTRATION + DEPLOYMENT)
    theatre.finish(theatre.driver("followed-local", study=path))
    theatre.finish(theatre.on_ray("followed", "--set", "twice=1", study=path))
    theatre.compare("followed: with policies, all of it twice", "followed", began, with_study="followed-local")


def bare(theatre: Theatre) -> None:
    began = time.perf_counter()
    path = theatre.root / "model.toml"
    path.write_text(MODEL)
    study = theatre.root / "bare"
    script = [sys.executable, "-c", WITHOUT, str(path), str(study), theatre.machines.address]
    with (theatre.root / "bare.log").open("ab") as log:
        theatre.finish(subprocess.Popen(script, stdout=log, stderr=log))
    verdict = verify(study)
    if verdict.problems or not verdict.complete:
        sys.exit(f"bare: {verdict.problems}")
    took = time.perf_counter() - began
    lost = theatre.lost("bare")
    print(f"bare: no jax in the driver, {verdict.rows} rows of rssm_cem, {lost} workers lost, {took:.0f} s")
    if lost:
        print((theatre.root / "bare.log").read_text(errors="replace"))


SCENES = {scene.__name__: scene for scene in (workers, killed, together, mixed, followed, bare)}


def rows(folder: Path) -> int:
    """Rows on disk."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("cells/*/forks.jsonl"))


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
