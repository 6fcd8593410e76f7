"""Distribution of jobs to workers that may fail.

A worker does one job at a time. If it dies, or does not answer in time, another worker does the job. A doubtful
result, and one of every `twice` jobs, is computed by a second worker and accepted if both agree; a third worker
decides between two that differ. A `Cluster` begins and ends the workers.
"""

import collections
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol, runtime_checkable

from worldfork.errors import Failed, WorldforkError

LONGEST_PAUSE: Final = 60.0  # seconds before workers are begun again
EVENT_WAIT: Final = 1.0  # seconds to wait for an event

logger = logging.getLogger("worldfork.executors")


@dataclasses.dataclass(frozen=True)
class Returned:
    """Event: a worker finished its job."""

    worker: str
    result: Any


@dataclasses.dataclass(frozen=True)
class Lost:
    """Event: a worker is gone, and its job with it."""

    worker: str
    reason: str


Event = Returned | Lost


@runtime_checkable
class Cluster(Protocol):
    """Workers by name, wherever they are."""

    def ready(self) -> list[str]:
        """Return the workers that wait for a job."""
        ...

    def grow(self) -> bool:
        """Begin workers where there is room; return True if any are still starting."""
        ...

    def submit(self, worker: str, function: Callable[[Any], Any], job: Any) -> None:
        """Let a ready worker apply the function."""
        ...

    def events(self, seconds: float) -> list[Event]:
        """Return the new events; wait up to so many seconds for the first."""
        ...

    def end(self, worker: str, *, shun: bool = False) -> None:
        """End a worker; with `shun` no other is begun on its machine."""
        ...


@dataclasses.dataclass(frozen=True)
class Rules:
    """Settings of a pool."""

    attempts: int = 3  # workers that may be lost over one job before it fails
    deadline: float | None = None  # seconds for one job
    twice: int = 0  # of every so many jobs, one is computed by two workers; 0: only jobs with doubtful results
    patience: float = 600.0  # seconds without any worker before the run fails
    pause: float = 1.0  # seconds before workers are begun again after a loss; doubles with every loss
    shown_every: float = 30.0  # seconds between two log lines on what workers do


@dataclasses.dataclass(eq=False)
class _Pending:
    """A job until one result of it is accepted."""

    index: int
    job: Any
    wanted: int = 1  # results
    results: list[tuple[str, Any]] = dataclasses.field(default_factory=list)
    given_to: set[str] = dataclasses.field(default_factory=set)
    losses: list[str] = dataclasses.field(default_factory=list)
    settled: bool = False


def spread(
    cluster: Cluster,
    function: Callable[[Any], Any],
    jobs: Iterable[Any],
    *,
    rules: Rules,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[int, Any]]:
    """Apply `function` to every job on some worker, and yield (index, result) as results are accepted."""
    pool = _Pool(cluster, function, enumerate(jobs), rules=rules, clock=clock)
    try:
        while not pool.finished():
            pool.begin_workers()
            pool.hand_out()
            settled = [result for event in cluster.events(EVENT_WAIT) for result in pool.take(event)]
            settled += [*pool.take_overdue(), *pool.take_unanswerable()]
            pool.hand_out()  # workers compute while the caller writes
            yield from settled
            pool.show()
    finally:
        pool.abandon()


class _Pool:
    """The state of one call of `spread`."""

    def __init__(
        self,
        cluster: Cluster,
        function: Callable[[Any], Any],
        supply: Iterator[tuple[int, Any]],
        *,
        rules: Rules,
        clock: Callable[[], float],
    ) -> None:
        self.cluster, self.function, self.supply, self.rules, self.clock = cluster, function, supply, rules, clock
        self.waiting: collections.deque[_Pending] = collections.deque()
        self.busy: dict[str, tuple[_Pending, float]] = {}
        self.pause, self.resume_at = rules.pause, clock()
        self.seen_at = self.shown_at = clock()  # when a worker was last there, and when the last line was logged
        self.coming = False  # whether workers are starting
        self.refusal = ""  # reason of a worker that is not fit for this study

    def finished(self) -> bool:
        """Return True if no job is left."""
        if not self.waiting and not self.busy:
            self._draw()
        return not self.waiting and not self.busy

    def begin_workers(self) -> None:
        """Begin workers, unless one was lost just now; raise if there was none for too long."""
        now = self.clock()
        asked = now >= self.resume_at
        if asked:
            self.coming = self.cluster.grow()
        if self.busy or self.cluster.ready():
            self.seen_at = now
        elif self.refusal and asked and not self.coming:
            raise WorldforkError(self.refusal)
        elif now - self.seen_at > self.rules.patience:
            raise WorldforkError(
                f"There was no worker for {self.rules.patience:.0f} seconds. What is finished is kept: repair the "
                "cluster, then run the same command again."
            )

    def hand_out(self) -> None:
        """Give a job to every ready worker."""
        for worker in self.cluster.ready():
            pending = self._pending_for(worker)
            if pending is None:
                continue
            pending.given_to.add(worker)
            self.busy[worker] = pending, self.clock()
            self.cluster.submit(worker, self.function, pending.job)

    def take(self, event: Event) -> Iterator[tuple[int, Any]]:
        """Process an event; yield the results that are now accepted."""
        if isinstance(event, Lost):
            yield from self._take_loss(event.worker, event.reason)
        else:
            yield from self._take_result(event.worker, event.result)

    def take_overdue(self) -> Iterator[tuple[int, Any]]:
        """End the workers that are past their deadline."""
        deadline = self.rules.deadline
        for worker, (_, since) in list(self.busy.items()):
            if deadline is not None and self.clock() - since > deadline:
                self.cluster.end(worker)
                yield from self._take_loss(worker, f"did not answer within {deadline:g} seconds and was ended")

    def take_unanswerable(self) -> Iterator[tuple[int, Any]]:
        """Accept or fail jobs that wait for a further worker, if there is none and none is starting."""
        if self.coming:
            return
        workers = {*self.busy, *self.cluster.ready()}
        for pending in list(self.waiting):
            if pending.results and workers <= pending.given_to:
                self.waiting.remove(pending)
                yield from self._settle(pending, last_word=True)

    def show(self) -> None:
        """Log from time to time which worker does which job."""
        now = self.clock()
        if now - self.shown_at >= self.rules.shown_every:
            self.shown_at = now
            lines = [
                f"{worker}: {pending.job}, {now - since:.0f} s" for worker, (pending, since) in self.busy.items()
            ]
            logger.info("%s", "; ".join(lines) or "waiting for a worker")

    def abandon(self) -> None:
        """End the busy workers, whose results nobody wants any more."""
        for worker in self.busy:
            self.cluster.end(worker)

    def _draw(self) -> _Pending | None:
        """Return the next job of the supply, which may have grown after it had run out."""
        if (following := next(self.supply, None)) is None:
            return None
        index, job = following
        twice = self.rules.twice > 0 and index % self.rules.twice == 0
        pending = _Pending(index, job, wanted=2 if twice else 1)
        self.waiting.append(pending)
        return pending

    def _pending_for(self, worker: str) -> _Pending | None:
        pending = (
            next((pending for pending in self.waiting if worker not in pending.given_to), None) or self._draw()
        )
        if pending is None:
            return None
        under_way = sum(other is pending for other, _ in self.busy.values())
        if len(pending.results) + under_way + 1 >= pending.wanted:
            self.waiting.remove(pending)
        return pending

    def _take_result(self, worker: str, result: Any) -> Iterator[tuple[int, Any]]:
        if isinstance(result, Failed) and result.exhausted:  # what it holds goes with it
            self.cluster.end(worker)
            yield from self._take_loss(worker, f"ran out of memory ({result.reason})")
            return
        pending, _ = self.busy.pop(worker)
        self.pause = self.rules.pause
        if isinstance(result, Failed) and result.unfit:
            self.refusal = result.reason
            logger.warning("%s", result.reason)
            self.cluster.end(worker, shun=True)
            self._again(pending)
            return
        pending.results.append((worker, result))
        yield from self._settle(pending)

    def _take_loss(self, worker: str, reason: str) -> Iterator[tuple[int, Any]]:
        self.resume_at = self.clock() + self.pause
        self.pause = min(2 * self.pause, LONGEST_PAUSE)
        if worker not in self.busy:
            logger.warning("worker %s is lost: %s", worker, reason)
            return
        pending, _ = self.busy.pop(worker)
        pending.losses.append(f"{worker} {reason}")
        if len(pending.losses) < self.rules.attempts:
            logger.warning("worker %s is lost: %s; another does %s", worker, reason, pending.job)
            self._again(pending)
            return
        logger.warning("worker %s is lost: %s; %s is given up", worker, reason, pending.job)
        if pending in self.waiting:
            self.waiting.remove(pending)
        if not pending.settled:
            pending.settled = True
            lost = "; ".join(pending.losses)
            yield pending.index, Failed(f"{len(pending.losses)} workers were lost over it: {lost}", lost)

    def _again(self, pending: _Pending) -> None:
        """Put a job back at the front."""
        if pending not in self.waiting and not pending.settled:
            self.waiting.appendleft(pending)

    def _settle(self, pending: _Pending, *, last_word: bool = False) -> Iterator[tuple[int, Any]]:
        """Yield the accepted result, or put the job back for another worker."""
        if pending.settled:
            return
        if len(pending.results) == 1 and getattr(pending.results[0][1], "doubtful", False):
            pending.wanted = max(pending.wanted, 2)
        if len(pending.results) < pending.wanted and not last_word:
            if not any(other is pending for other, _ in self.busy.values()):
                self._again(pending)
            return
        agreeing = _largest_agreement(pending.results)
        if len(agreeing) > 1 or len(pending.results) == 1:
            for worker in {worker for worker, _ in pending.results} - {worker for worker, _ in agreeing}:
                logger.warning("worker %s came to another result for %s: it is ended", worker, pending.job)
                self.cluster.end(worker)
            pending.settled = True
            yield pending.index, agreeing[0][1]
        elif len(pending.results) < 3 and not last_word:
            pending.wanted = len(pending.results) + 1
            self._again(pending)
        else:
            pending.settled = True
            names = ", ".join(worker for worker, _ in pending.results)
            yield pending.index, Failed(f"the workers {names} came to different results, and none is believed", "")


def _largest_agreement(results: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the largest group of results that agree."""
    groups = [[other for other in results if _same(result, other[1])] for _, result in results]
    return max(groups, key=len)


def _same(result: Any, other: Any) -> bool:
    if type(result) is not type(other):
        return False
    compare = getattr(result, "same_as", None)
    return bool(result == other if compare is None else compare(other))
