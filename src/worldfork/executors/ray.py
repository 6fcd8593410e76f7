"""Work on a Ray cluster: an actor on every accelerator or on some cores, and blobs through the object store.

The calling process is the driver of Ray and of worldfork. It alone writes the ledger, and needs no accelerator.
Actors end with it.
"""

import contextlib
import logging
import os
import platform
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final

from pydantic import Field, PrivateAttr

from worldfork.blobs import Blob, fetching
from worldfork.errors import WorldforkError, printable
from worldfork.executors.base import ExecutorPlugin
from worldfork.executors.local import share_memory
from worldfork.executors.pool import Event, Lost, Returned, Rules, spread

logger = logging.getLogger("worldfork.executors")
REASON: Final = 600  # characters of Ray's reason for the loss of a worker


class Ray(ExecutorPlugin):
    """Executor of a Ray cluster, or of this machine's cores and accelerators by way of Ray."""

    address: str | None = None  # of a cluster that is running; None: RAY_ADDRESS, or one for this run, here
    workers: Annotated[int, Field(ge=1)] | None = None  # at most so many; None: as many as there is room for
    cpus: Annotated[int, Field(ge=1)] = 1  # cores of each worker
    gpus: Annotated[float, Field(ge=0)] | None = None  # of each worker; None: one, where there are any
    attempts: Annotated[int, Field(ge=1)] = 3  # workers that one job may take with it
    deadline: Annotated[float, Field(gt=0)] | None = 3600.0  # seconds for one job
    twice: Annotated[int, Field(ge=0)] = 0  # of every so many jobs, one is computed by two workers and compared
    patience: Annotated[float, Field(gt=0)] = 600.0  # seconds to wait for a first worker, or for another one

    _cluster: "_RayCluster | None" = PrivateAttr(default=None)

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        if self._cluster is None:
            self._cluster = _RayCluster(self)
        rules = Rules(
            attempts=self.attempts, deadline=self.deadline, twice=self.twice, patience=self.patience, pause=1.0
        )
        return spread(self._cluster, function, jobs, rules=rules)

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


class _Worker:
    """Actor of Ray: a process that does one job at a time."""

    def __init__(self, cores: int, gpus: float) -> None:
        os.environ["WORLDFORK_THREADS"] = str(cores)
        if gpus:
            share_memory(gpus)

    def where(self) -> tuple[str, str]:
        """Return the machine's name, and Ray's of its node."""
        import ray

        return platform.node(), ray.get_runtime_context().get_node_id()

    def do(self, function: Callable[[Any], Any], job: Any, objects: dict[str, list[Any]]) -> Any:
        """Apply the function; a blob is fetched when it is first read."""
        import ray

        def fetch(name: str) -> bytes:
            try:
                return ray.get(objects[name][0], timeout=600)
            except ray.exceptions.RayError as error:
                raise WorldforkError(f"Ray's object store has lost a file of the driver ({error}).") from error

        with fetching(fetch):
            return function(job)


class _RayCluster:
    """Workers of one run, named by machine and number; by the number alone until Ray has placed them."""

    def __init__(self, settings: Ray) -> None:
        self.ray, self.connected_here = _connected(settings.address)
        self.settings = settings
        self.actors: dict[str, Any] = {}
        self.nodes: dict[str, str] = {}  # worker -> the node it is on, once that is known
        self.starting: dict[Any, str] = {}  # a reference that waits for the worker to be there
        self.idle: dict[str, None] = {}  # in the order in which they came to wait
        self.flying: dict[Any, str] = {}  # a reference to the result -> the worker
        self.shunned: set[str] = set()
        self.begun = 0
        self.objects: dict[str, Any] = {}  # name of a blob -> reference to it in the object store

    def ready(self) -> list[str]:
        return list(self.idle)

    def grow(self) -> bool:
        """Ask for as many workers as the nodes have room for. Ray places them, some of them later: others may use
        the cluster too."""
        nodes = [node for node in self.ray.nodes() if node["Alive"] and node["NodeID"] not in self.shunned]
        gpus = self.settings.gpus
        if gpus is None:
            gpus = 1.0 if any(node["Resources"].get("GPU", 0) for node in nodes) else 0.0
        room = sum(_room(node["Resources"], self.settings.cpus, gpus) for node in nodes)
        wanted = min(self.settings.workers or room, room)
        wanted += sum(node in self.shunned for node in self.nodes.values())  # they take no room of the others
        for worker in list(self.starting.values())[::-1][: max(len(self.actors) - wanted, 0)]:
            self.end(worker)  # the node that it was meant for has gone
        while len(self.actors) < wanted:
            self._begin(gpus)
        return bool(self.starting)

    def _begin(self, gpus: float) -> None:
        elsewhere = {"ray.io/node-id": f"!in({','.join(sorted(self.shunned))})"} if self.shunned else None
        kind = self.ray.remote(_Worker).options(
            num_cpus=self.settings.cpus,
            num_gpus=gpus,
            max_restarts=0,
            scheduling_strategy="SPREAD",
            label_selector=elsewhere,
        )
        actor = kind.remote(self.settings.cpus, gpus)
        self.actors[str(self.begun)] = actor
        self.starting[actor.where.remote()] = str(self.begun)
        self.begun += 1

    def submit(self, worker: str, function: Callable[[Any], Any], job: Any) -> None:
        del self.idle[worker]
        objects = self._put(getattr(job, "blobs", ()))
        self.flying[self.actors[worker].do.remote(function, job, objects)] = worker

    def _put(self, blobs: Iterable[Blob]) -> dict[str, list[Any]]:
        """Return references to these blobs, each in a list, where Ray does not fetch it unasked; put new ones."""
        wanted = {}
        for blob in blobs:
            if blob.name not in self.objects:
                self.objects[blob.name] = self.ray.put(blob.path.read_bytes())
            wanted[blob.name] = [self.objects[blob.name]]
        return wanted

    def events(self, seconds: float) -> list[Event]:
        pending = [*self.starting, *self.flying]
        done, _ = self.ray.wait(pending, num_returns=1, timeout=seconds) if pending else ([], [])
        if not pending:
            time.sleep(seconds)
        return [event for reference in done for event in self._event(reference)]

    def _event(self, reference: Any) -> list[Event]:
        try:
            result = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            worker = self.starting[reference] if reference in self.starting else self.flying[reference]
            self.end(worker)
            return [Lost(worker, printable(" ".join(str(error).split()))[:REASON])]
        if reference in self.starting:
            number = self.starting.pop(reference)
            machine, node = result
            worker = f"{machine}/{number}"
            self.actors[worker], self.nodes[worker] = self.actors.pop(number), node
            self.idle[worker] = None
            logger.info("worker %s is there", worker)
            return []
        worker = self.flying.pop(reference)
        self.idle[worker] = None
        return [Returned(worker, result)]

    def end(self, worker: str, *, shun: bool = False) -> None:
        if shun:
            self.shunned.add(self.nodes[worker])
        actor = self.actors.pop(worker, None)
        self.nodes.pop(worker, None)
        self.idle.pop(worker, None)
        self.starting = {reference: other for reference, other in self.starting.items() if other != worker}
        self.flying = {reference: other for reference, other in self.flying.items() if other != worker}
        if actor is not None:
            with contextlib.suppress(self.ray.exceptions.RayError):
                self.ray.kill(actor)

    def close(self) -> None:
        """End every worker; a cluster that was begun for this run ends too."""
        for worker in list(self.actors):
            self.end(worker)
        self.objects.clear()
        if self.connected_here:
            self.ray.shutdown()


def _room(resources: dict[str, float], cpus: int, gpus: float) -> int:
    """Return how many workers a node could hold if nobody else used it."""
    cores = int(resources.get("CPU", 0) // cpus)
    return min(cores, int(resources.get("GPU", 0) // gpus)) if gpus else cores


def _connected(address: str | None) -> tuple[Any, bool]:
    """Return Ray, connected to a cluster, and True if it was connected here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no statistics leave this machine
    running = address or os.environ.get("RAY_ADDRESS")
    try:
        with contextlib.nullcontext() if running else _loopback():
            import ray

            if ray.is_initialized():
                connected = ray.get_runtime_context().gcs_address
                if address and ":" in address and "://" not in address and address != connected:
                    raise WorldforkError(
                        f"This process is connected to the Ray cluster at `{connected}`, and `{address}` was asked "
                        "for: call ray.shutdown() first, or leave the address out."
                    )
                return ray, False
            quiet = {"logging_level": logging.WARNING, "log_to_driver": False}
            if running:
                _require_listener(running)
            with _keeping_the_handler():
                if running:
                    ray.init(address=running, **quiet)
                else:  # one of this run's own
                    ray.init(address="local", include_dashboard=False, **quiet)
    except ModuleNotFoundError as error:
        raise WorldforkError(
            "The executor `ray` needs Ray: pip install '.[cluster]' in a clone of worldfork."
        ) from error
    except (OSError, RuntimeError, ValueError) as error:
        where = f"at `{running}`" if running else "on this machine"
        raise WorldforkError(f"No Ray cluster could be reached or begun {where} ({error}).") from error
    if not running and not ray.util.get_node_ip_address().startswith("127."):
        logger.warning("Ray was imported before this run, and listens to the network: see docs/cluster.md")
    return ray, True


@contextlib.contextmanager
def _keeping_the_handler() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray would replace by a silent exit."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if callable(before) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Let Ray listen to this machine alone, as it does where it expects no cluster."""
    name = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # read when Ray is imported, and inherited by its processes
    before = os.environ.get(name)
    os.environ[name] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _require_listener(address: str | None) -> None:
    """Raise unless something listens at `host:port`: Ray would try for minutes, and then end the process."""
    host, colon, port = (address or "").rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=10).close()
