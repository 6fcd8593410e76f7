"""Scenes of `cluster.py` in which something is wrong with a machine: its memory, clock, object store or disk."""

import json
import os
import re
import resource
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from cluster_stage import Theatre, rows

# A clock that is wrong for everything in a process, Ray's own parts included.
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long shift(void) { const char *text = getenv("CLOCK_SHIFT"); return text ? atol(text) : 0; }
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, now);
    if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += shift();
    return status;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int status = real(now, zone);
    if (status == 0 && now) now->tv_sec += shift();
    return status;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"""
SHIFTS = (3 * 365 * 86400, -3 * 365 * 86400, -7200)  # seconds
# How wrong they are, in hours, on every node that has a core.
CLOCKS = """
import sys, time
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(address=sys.argv[-1], log_to_driver=False)
def alive():
    return [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
while len(nodes := alive()) > 3:  # those that were killed are thought to be alive for a while
    time.sleep(1)
there = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
clock = ray.remote(lambda: time.time())
clocks = ray.get([clock.options(scheduling_strategy=node).remote() for node in there])
print(*(round((clock - time.time()) / 3600) for clock in clocks))
"""
# A driver whose object store loses every second file: an object is lost with whoever put it.
FORGETFUL = """
import contextlib
import sys
import ray
import worldfork as wf
from worldfork.executors.ray import _Objects

class Owner:
    def put(self, content):
        return [ray.put(content)]

def named_and_lost(self, blobs):
    for blob in blobs:
        if blob.name not in seen:
            seen.append(blob.name)
            if len(seen) % 2:
                owner = ray.remote(Owner).options(num_cpus=0).remote()
                [reference] = ray.get(owner.put.remote(blob.path.read_bytes()))
                ray.kill(owner)
                with contextlib.suppress(ray.exceptions.RayActorError):
                    while True:  # until it is dead
                        ray.get(owner.put.remote(b""))
                self.kept[blob.name] = reference
    return named(self, blobs)

def forgotten(self, blobs):
    again.append(blobs)
    forget(self, blobs)

seen, named = [], _Objects.named
again, forget = [], _Objects.forget
_Objects.named, _Objects.forget = named_and_lost, forgotten
wf.run(sys.argv[1], sys.argv[2], executor="ray", settings={"address": sys.argv[3]})
assert again, "nobody missed anything"
print(f"{(len(seen) + 1) // 2} of {len(seen)} objects were lost, and missed {len(again)} times")
"""

# A driver whose disk is full once there are so many rows: half of a write finds room, and nothing after it.
FILLING = """
import errno, os, sys
import worldfork as wf
from worldfork.errors import WorldforkError

written, rows = os.write, 0

def write(descriptor, data):
    if rows < 18 or not os.readlink(f"/proc/self/fd/{descriptor}").startswith(sys.argv[2]):
        return written(descriptor, data)
    if not refused:
        refused.append(descriptor)
        return written(descriptor, bytes(data)[: len(data) // 2])
    raise OSError(errno.ENOSPC, "No space left on device")

def count(what, done, total):
    global rows
    rows = done if what == "forks" else rows

refused, os.write = [], write
try:
    wf.run(sys.argv[1], sys.argv[2], executor="ray", settings={"address": sys.argv[3]}, progress=count)
except WorldforkError as error:
    assert "the disk is full" in str(error), error
else:
    sys.exit("the disk was full, and nobody noticed")
"""
# Where packages are found, and null for those that are not.
LOOKED_FOR = """
import importlib.util, json, sys
found = {name: importlib.util.find_spec(name) for name in sys.argv[1:]}
print(json.dumps({name: spec and str(spec.origin) for name, spec in found.items()}))
"""


def starved(theatre: Theatre) -> None:
    """Before their first fork, workers are allowed no byte more than they have: what they ask for is refused."""
    began = time.perf_counter()
    driver = theatre.stopping("starved", at=(0,), on_ray=True)
    theatre.wait_for_stop(driver)
    for process in theatre.machines.workers(b"ray::_Worker")[:2]:  # a block that three are lost over has failed
        for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            resource.prlimit(process, limit, (1 << 20, resource.RLIM_INFINITY))
    theatre.go_on(driver)
    theatre.finish(driver)
    theatre.compare("starved: workers without memory", "starved", began)
    if not theatre.lost("starved"):
        sys.exit("starved: no worker ran out of memory")


def forgotten(theatre: Theatre) -> None:
    """Every second file that the driver puts into the object store is lost there at once."""
    began = time.perf_counter()
    theatre.scripted("forgotten", FORGETFUL, str(theatre.registration))
    log = (theatre.root / "forgotten.log").read_text().splitlines()
    theatre.compare(f"forgotten: {log[-1]}", "forgotten", began)


def full(theatre: Theatre) -> None:
    """The driver's disk is full in the middle of a row; later there is room again."""
    began = time.perf_counter()
    theatre.scripted("full", FILLING, str(theatre.registration))
    written = rows(theatre.root / "full")
    if not 18 <= written < rows(theatre.root / "local"):
        sys.exit(f"full: {written} rows were on the disk that was full after 18")
    theatre.finish(theatre.on_ray("full"))
    theatre.compare(f"full: a driver's disk that was full after {written} rows", "full", began)


def skewed(theatre: Theatre) -> None:
    """The clocks of all nodes are wrong, by years and by hours."""
    began = time.perf_counter()
    source, library = theatre.root / "clock.c", theatre.root / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    for shift in SHIFTS:
        theatre.machines.replace_one({"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(shift)})
    theatre.scripted("clocks", CLOCKS)
    said = (theatre.root / "clocks.log").read_text().splitlines()
    off = next((line for line in reversed(said) if re.fullmatch(r"[-\d ]+", line)), "")  # Ray may speak last
    if sorted(map(int, off.split())) != sorted(round(shift / 3600) for shift in SHIFTS):
        sys.exit(f"skewed: the clocks are off by {off} hours. They said:\n" + "\n".join(said[-20:]))
    theatre.finish(theatre.on_ray("skewed"))
    theatre.compare(f"skewed: clocks that are off by {off} hours", "skewed", began)
    for _ in SHIFTS:
        theatre.machines.replace_one()


def environment_without(packages: tuple[str, ...], root: Path) -> tuple[str, ...]:
    """A Python of its own that has what this one has, but for these packages: how to call it.

    Called like this it is deaf to PYTHONPATH, which may well name the folder of the packages that it must not have.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    [target] = root.glob("lib/python*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        name = entry.name.lower().partition("-")[0]  # of a package, or of what is written down about one
        if name not in packages and "worldfork" not in name:
            (target / entry.name).symlink_to(entry)
    source = Path(__file__).parents[1] / "src"
    (target / "source.pth").write_text(f"{source}\n")
    python = (os.fspath(root / "bin" / "python"), "-I")
    found = subprocess.run(
        [*python, "-c", LOOKED_FOR, "worldfork", *packages], capture_output=True, text=True, check=True
    )
    present = json.loads(found.stdout)
    if present.pop("worldfork") is None:
        sys.exit(f"the environment {root} was to have worldfork, of {source}, and has not")
    for package, where in present.items():
        if where is not None:
            sys.exit(f"the environment {root} was to be without {package}, and finds it at {where}")
    return python
