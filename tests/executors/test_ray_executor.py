"""Faults on a real cluster of several nodes, by night: a cluster takes half a minute to begin and a gigabyte.

What becomes of a job whose worker is lost, wrong or doubtful is shown in test_pool.py.
"""

import contextlib
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import PATIENCE, until

from worldfork.blobs import blob_of, read_blob
from worldfork.errors import Failed
from worldfork.executors.ray import Ray

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Three nodes with a core each, whose processes find these tests."""
    pytest.importorskip("ray")
    # For the nodes alone, which hand it on to their workers: tests that follow have processes of their own.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(3):
            cluster.add_node(num_cpus=1)
    yield cluster.address
    cluster.shutdown()


@pytest.fixture
def make(address: str) -> Iterator[Any]:
    """An executor on the cluster, with other settings; it is closed afterwards."""
    made: list[Ray] = []

    def build(**settings: Any) -> Ray:
        made.append(Ray(address=address, **settings))
        return made[-1]

    yield build
    for executor in made:
        executor.close()


def first_time(job: tuple[str, int]) -> bool:
    """Whether nobody did this job before: on one machine, a file can tell."""
    folder, number = job
    try:
        os.close(os.open(f"{folder}/{number}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def starves_once(job: tuple[str, int]) -> Any:
    from worldfork.lab.workers import attempted  # here: who does other jobs need not wait for jax

    if job[1] == 2 and first_time(job):
        room = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (room + (64 << 20), resource.RLIM_INFINITY))
    return attempted(lambda: len(np.zeros(256 << 20, np.uint8)) // (256 << 20) * job[1] ** 2)


def hangs_once(job: tuple[str, int]) -> int:
    if job[1] == 2 and first_time(job):
        threading.Event().wait(2 * PATIENCE)
    return job[1] ** 2


def refuses_on_one_node(job: tuple[str, int]) -> int | Failed:
    """The node that is asked first is of another kind."""
    import ray

    node, unfit = ray.get_runtime_context().get_node_id(), Path(job[0], "unfit")
    with contextlib.suppress(FileExistsError):
        unfit.symlink_to(node)
    if os.readlink(unfit) != node:
        return job[1] ** 2
    Path(job[0], f"refused by {os.getpid()}").touch()
    return Failed("device: NVIDIA, here cpu", "", unfit=True)


def refuses_or_dies_once(job: tuple[str, int]) -> int | Failed:
    result = refuses_on_one_node(job)
    if not isinstance(result, Failed) and first_time(job):
        os._exit(9)
    return result


def meets(job: tuple[str, str, str]) -> str:
    """Wait until the other one is there too."""
    folder, this, other = job
    Path(folder, this).touch()
    until(Path(folder, other).exists, lambda: f"that {other} computes while {this} does")
    return this


def jobs(folder: Path) -> list[tuple[str, int]]:
    return [(str(folder), number) for number in range(6)]


SQUARES = {number: number**2 for number in range(6)}


def test_a_worker_that_runs_out_of_memory_costs_time_only(make: Any, tmp_path: Path) -> None:
    assert dict(make().map(starves_once, jobs(tmp_path))) == SQUARES
    assert (tmp_path / "2").exists(), "nobody ran out of memory"


def test_a_worker_that_hangs_is_ended(make: Any, tmp_path: Path) -> None:
    patient = make(deadline=20.0, attempts=100)  # on a busy machine others may miss the deadline too
    assert dict(patient.map(hangs_once, jobs(tmp_path))) == SQUARES
    assert (tmp_path / "2").exists(), "nobody hung"


def test_a_machine_of_another_kind_is_asked_once(make: Any, tmp_path: Path) -> None:
    executor = make()
    assert dict(executor.map(refuses_on_one_node, jobs(tmp_path))) == SQUARES
    # Workers that follow on those that die are not begun there either.
    assert dict(executor.map(refuses_or_dies_once, jobs(tmp_path)[:3])) == {0: 0, 1: 1, 2: 4}
    assert len(list(tmp_path.glob("refused by *"))) == 1


MEETING = """
import sys
import test_ray_executor as tests
from worldfork.executors.ray import Ray
folder, address = sys.argv[1:]
assert list(Ray(address=address, workers=1).map(tests.meets, [(folder, "this", "other")])) == [(0, "this")]
"""


def test_two_drivers_compute_at_once(make: Any, address: str, tmp_path: Path) -> None:
    """A driver goes where there is room, and does not wait for a place that another's worker has."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    script = [sys.executable, "-c", MEETING, str(tmp_path), address]
    with subprocess.Popen(script, env={**os.environ, "PYTHONPATH": path}) as another:
        assert list(make(workers=1).map(meets, [(str(tmp_path), "other", "this")])) == [(0, "other")]
        assert another.wait(PATIENCE) == 0


def test_a_worker_fetches_the_files_that_its_task_names(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "blob.bin"
    path.write_bytes(b"x" * 1_000_000)
    assert dict(make(workers=1).map(length_of, [Reads(blob_of(path))])) == {0: 1_000_000}


class Reads:
    """A job that reads a blob."""

    def __init__(self, blob: Any) -> None:
        self.blobs = (blob,)


def length_of(job: Reads) -> int:
    return len(read_blob(job.blobs[0]))


LISTENING = """
import math, os
from pathlib import Path
from worldfork.executors.ray import Ray

executor = Ray(workers=1)
assert list(executor.map(math.sqrt, [4.0])) == [(0, 2.0)]
parents = {}
for stat in Path("/proc").glob("[0-9]*/stat"):
    try:
        parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended meanwhile
        pass
ours = {os.getpid()}
while more := {child for child, parent in parents.items() if parent in ours} - ours:
    ours |= more
sockets = set()
for process in ours:
    try:
        descriptors = os.listdir(f"/proc/{process}/fd")
    except OSError:
        continue
    for descriptor in descriptors:
        try:
            target = os.readlink(f"/proc/{process}/fd/{descriptor}")
            sockets.add(target.removeprefix("socket:[").removesuffix("]"))
        except OSError:
            pass
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in sockets:  # it listens
            print(words[1].partition(":")[0])
executor.close()
"""


def test_a_cluster_for_one_run_listens_to_this_machine_alone() -> None:
    pytest.importorskip("ray")
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", LISTENING],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        env=environment,
    )
    addresses = done.stdout.split()
    assert addresses
    assert all(address.endswith("0100007F") for address in addresses), addresses  # 127.0.0.1


SCENES = ["killed", "together", "mixed", "followed", "trained"]


@pytest.mark.parametrize("scene", SCENES)
def test_there_are_the_same_bytes_whatever_goes_wrong(scene: str) -> None:
    script = [sys.executable, str(ROOT / "benchmarks" / "cluster.py"), "--only", scene]
    done = subprocess.run(script, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{scene}: " in done.stdout
