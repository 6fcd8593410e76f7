"""Where the scenes of `cluster.py` are played: nodes that can be killed, drivers of their own, bytes compared."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from kill_and_resume import chained

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

# A driver that stops itself as soon as so many rows are on disk, and goes on when it is let.
STOPPING = """
import json, os, signal, sys
import worldfork as wf
registration, folder, options = sys.argv[1:]
options = json.loads(options)
moments = options.pop("stops_at")

def stop(what, done, total):
    while what == "forks" and moments and done >= moments[0]:
        moments.pop(0)
        os.kill(os.getpid(), signal.SIGSTOP)

wf.run(registration, folder, progress=stop, **options)
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
        self.nodes: list[Any] = []
        for _ in range(nodes):
            self.add_one()

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add_one(self) -> None:
        self.nodes.append(self.cluster.add_node(num_cpus=self.cores))

    def kill_one(self) -> None:
        """Kill the oldest node as a power cut would."""
        self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)

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

    def driver(
        self, name: str, *options: str, study: Path | None = None, verb: str = "run"
    ) -> "subprocess.Popen[bytes]":
        """A driver of its own that runs the study, or another, into a folder of that name."""
        command = [sys.executable, "-m", "worldfork.cli.main", verb, str(study or self.registration)]
        return self._begun(name, [*command, "-o", str(self.root / name), "--quiet", *options])

    def stopping(self, name: str, *, at: Sequence[int], on_ray: bool) -> "subprocess.Popen[bytes]":
        """A driver that stops when it has written so many rows, so that what is done to it then does not depend on
        how fast anything is."""
        options: dict[str, Any] = {"stops_at": list(at)}
        if on_ray:
            options |= {"executor": "ray", "settings": {"address": self.machines.address}}
        command = [sys.executable, "-c", STOPPING, str(self.registration), str(self.root / name)]
        return self._begun(name, [*command, json.dumps(options)])

    def on_ray(
        self, name: str, *options: str, study: Path | None = None, verb: str = "run"
    ) -> "subprocess.Popen[bytes]":
        where = ("--executor", "ray", "--address", self.machines.address)
        return self.driver(name, *where, *options, study=study, verb=verb)

    def finish(self, process: "subprocess.Popen[bytes]") -> None:
        if process.wait():
            logs = "\n".join(path.read_text(errors="replace")[-3000:] for path in self.root.glob("*.log"))
            sys.exit(f"a driver failed:\n{logs}")

    def wait_for_stop(self, driver: "subprocess.Popen[bytes]") -> None:
        """Return once a driver of `stopping` has come to its next stop."""
        event = os.waitid(os.P_PID, driver.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if event is None or event.si_code != os.CLD_STOPPED:
            self.finish(driver)
            sys.exit("a driver ended before its last stop: it had fewer rows to write")

    def go_on(self, driver: "subprocess.Popen[bytes]") -> None:
        driver.send_signal(signal.SIGCONT)

    def kill_at_stop(self, driver: "subprocess.Popen[bytes]") -> None:
        """Kill a driver where it next stops."""
        self.wait_for_stop(driver)
        driver.kill()
        driver.wait()

    def _begun(self, name: str, command: list[str]) -> "subprocess.Popen[bytes]":
        with (self.root / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

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


def rows(folder: Path) -> int:
    """Rows on disk."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("cells/*/forks.jsonl"))


def metered(function: Callable[[Any], Any], task: Any) -> tuple[Any, float]:
    """A task's result and the CPU seconds that it took."""
    began = time.process_time()
    result = function(task)
    return result, time.process_time() - began
