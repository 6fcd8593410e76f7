"""Workers that die, hang, disagree or are of another kind, on a cluster that is made up and has its own clock."""

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from worldfork.errors import Failed, WorldforkError
from worldfork.executors.pool import Event, Lost, Returned, Rules, spread
from worldfork.executors.ray import Ray


class Die(Exception):
    """What a worker does that is killed."""


class Hang(Exception):
    """What a worker does that never answers."""


@dataclasses.dataclass
class Rows:
    """A result as the lab's are: it can be compared, and it may be doubtful."""

    value: float
    doubtful: bool = False

    def same_as(self, other: "Rows") -> bool:
        return self.value == other.value


class MadeUp:
    """A cluster of machines whose workers act as they are told; a second passes whenever somebody listens."""

    def __init__(self, machines: int, act: Callable[[str, int], Any], *, more: int = 100) -> None:
        self.act, self.machines, self.more = act, machines, more
        self.time = 0.0
        self.workers: dict[str, int] = {}  # name -> machine
        self.waiting: list[str] = []
        self.shunned: set[int] = set()
        self.queue: collections.deque[Event] = collections.deque()
        self.given: list[tuple[str, int]] = []
        self.most = 0  # jobs that were under way at once
        self.begun_at: list[float] = []

    def clock(self) -> float:
        return self.time

    def ready(self) -> list[str]:
        return list(self.waiting)

    def grow(self) -> bool:
        for machine in set(range(self.machines)) - set(self.workers.values()) - self.shunned:
            if self.more > 0:
                self.more -= 1
                worker = f"m{machine}/{len(self.begun_at)}"
                self.begun_at.append(self.time)
                self.workers[worker] = machine
                self.waiting.append(worker)
        return False

    def submit(self, worker: str, function: Callable[[Any], Any], job: Any) -> None:
        self.waiting.remove(worker)
        self.given.append((worker, job))
        self.most = max(self.most, len(self.workers) - len(self.waiting))
        try:
            result = self.act(worker, job)
            self.queue.append(Returned(worker, function(job) if result is None else result))
        except Die:
            self.queue.append(Lost(worker, "was killed"))
        except Hang:
            pass

    def events(self, seconds: float) -> list[Event]:
        self.time += seconds
        if not self.queue:
            return []
        event = self.queue.popleft()
        if isinstance(event, Lost):
            self.end(event.worker)
        elif isinstance(event, Returned) and event.worker in self.workers:
            self.waiting.append(event.worker)
        return [event]

    def end(self, worker: str, *, shun: bool = False) -> None:
        if shun:
            self.shunned.add(self.workers[worker])
        self.workers.pop(worker, None)
        if worker in self.waiting:
            self.waiting.remove(worker)


def square(number: int) -> int:
    return number * number


SQUARES = {number: number * number for number in range(12)}


def outcome(cluster: MadeUp, jobs: int = 12, **rules: Any) -> dict[int, Any]:
    results = list(spread(cluster, square, range(jobs), rules=Rules(**rules), clock=cluster.clock))
    assert len(dict(results)) == len(results), "a job came back twice"
    return dict(results)


def test_every_task_is_done_once_and_no_worker_has_two() -> None:
    cluster = MadeUp(3, lambda worker, job: None)
    assert outcome(cluster) == SQUARES
    assert len(cluster.given) == 12
    assert cluster.most == 3


def test_what_dies_costs_time_only_and_workers_are_begun_again_ever_more_slowly() -> None:
    deaths = iter(range(4))

    def act(worker: str, job: int) -> None:
        if job == 5 and next(deaths) < 3:
            raise Die

    cluster = MadeUp(1, act)
    assert outcome(cluster, attempts=4) == SQUARES
    first, *again = cluster.begun_at
    waited = [later - earlier for earlier, later in zip(cluster.begun_at, again, strict=False)]
    assert len(again) == 3
    assert waited[2] - waited[1] >= 2
    assert first == 0


def test_a_task_that_takes_every_worker_with_it_is_given_up_and_the_others_are_done() -> None:
    def act(worker: str, job: int) -> None:
        if job == 5:
            raise Die

    results = outcome(MadeUp(2, act), attempts=3)
    failed = results.pop(5)
    assert isinstance(failed, Failed)
    assert "3 workers were lost over it" in failed.reason
    assert "was killed" in failed.reason
    assert results == {number: value for number, value in SQUARES.items() if number != 5}


def test_a_worker_that_runs_out_of_memory_is_lost_like_one_that_dies() -> None:
    full: list[str] = []

    def act(worker: str, job: int) -> Failed | None:
        if job == 5 and len(full) < 2:
            full.append(worker)
            return Failed("MemoryError: 9 GB", "", exhausted=True)
        return None

    cluster = MadeUp(1, act)
    assert outcome(cluster) == SQUARES
    assert len(set(full)) == 2
    assert not set(full) & set(cluster.workers)


def test_a_task_that_no_memory_is_enough_for_is_given_up() -> None:
    cluster = MadeUp(2, lambda worker, job: Failed("9 GB", "", exhausted=True) if job == 5 else None)
    failed = outcome(cluster, attempts=3)[5]
    assert isinstance(failed, Failed)
    assert "3 workers were lost over it" in failed.reason
    assert "ran out of memory (9 GB)" in failed.reason


def test_a_worker_that_hangs_is_ended_at_its_deadline() -> None:
    hung: list[str] = []

    def act(worker: str, job: int) -> None:
        if job == 3 and not hung:
            hung.append(worker)
            raise Hang

    cluster = MadeUp(2, act)
    assert outcome(cluster, deadline=20.0) == SQUARES
    assert hung[0] not in cluster.workers
    assert cluster.time > 20


def test_without_any_worker_it_gives_up() -> None:
    cluster = MadeUp(0, lambda worker, job: None)
    with pytest.raises(WorldforkError, match="no worker for 50 seconds"):
        outcome(cluster, patience=50.0)


def test_a_worker_of_another_kind_gets_no_more_work_and_its_machine_no_other_worker() -> None:
    def act(worker: str, job: int) -> Failed | None:
        return Failed("device: NVIDIA, here cpu", "", unfit=True) if worker.startswith("m1") else None

    cluster = MadeUp(3, act)
    assert outcome(cluster) == SQUARES
    assert cluster.shunned == {1}
    assert sum(worker.startswith("m1") for worker, _ in cluster.given) == 1


def test_where_every_worker_is_of_another_kind_the_reason_is_told() -> None:
    cluster = MadeUp(2, lambda worker, job: Failed("device: NVIDIA, here cpu", "", unfit=True))
    with pytest.raises(WorldforkError, match="NVIDIA, here cpu"):
        outcome(cluster)


def test_a_task_that_a_result_adds_is_done_though_there_was_none_left_before() -> None:
    """As the next segment of a deployment, while another worker has found nothing to do."""
    supply: collections.deque[int] = collections.deque([1])

    class Growing:
        def __iter__(self) -> "Growing":
            return self

        def __next__(self) -> int:
            if not supply:
                raise StopIteration
            return supply.popleft()

    cluster = MadeUp(2, lambda worker, job: None)
    came = []
    for _, result in spread(cluster, square, Growing(), rules=Rules(), clock=cluster.clock):
        came.append(result)
        if len(came) < 4:
            supply.append(len(came) + 1)
    assert came == [1, 4, 9, 16]


def test_who_is_free_works_while_a_result_is_written() -> None:
    cluster = MadeUp(1, lambda worker, job: None)
    results = spread(cluster, square, range(3), rules=Rules(), clock=cluster.clock)
    next(results)
    assert [job for _, job in cluster.given] == [0, 1]


def test_a_failure_of_the_task_itself_is_its_result() -> None:
    cluster = MadeUp(2, lambda worker, job: Failed("the solver gave up", "") if job == 4 else None)
    assert outcome(cluster)[4] == Failed("the solver gave up", "")
    assert len(cluster.given) == 12


def test_every_third_task_is_done_by_two_workers() -> None:
    cluster = MadeUp(2, lambda worker, job: Rows(job))
    results = outcome(cluster, twice=3)
    assert {index: rows.value for index, rows in results.items()} == {index: index for index in range(12)}
    counts = collections.Counter(job for _, job in cluster.given)
    assert [job for job in sorted(counts) if counts[job] == 2] == [0, 3, 6, 9]
    assert len(set(cluster.given)) == len(cluster.given), "nobody checks himself"


def test_a_third_worker_decides_and_the_one_that_is_wrong_is_ended() -> None:
    wrong: set[str] = set()

    def act(worker: str, job: int) -> Rows:
        if job == 6 and worker.startswith("m0"):
            wrong.add(worker)
            return Rows(-1.0)
        return Rows(job)

    cluster = MadeUp(3, act)
    results = outcome(cluster, twice=1)
    assert [results[index].value for index in range(12)] == list(range(12))
    assert wrong
    assert not wrong & set(cluster.workers)


def test_two_that_disagree_without_a_third_are_not_believed() -> None:
    cluster = MadeUp(2, lambda worker, job: Rows(float(worker[1])), more=2)
    results = outcome(cluster, jobs=1, twice=1)
    assert isinstance(results[0], Failed)
    assert "came to different results" in results[0].reason


def test_what_is_not_finite_is_computed_again_before_it_is_believed() -> None:
    cluster = MadeUp(3, lambda worker, job: Rows(job, doubtful=job == 7))
    assert outcome(cluster)[7].value == 7
    assert collections.Counter(job for _, job in cluster.given)[7] == 2


def test_where_nobody_can_check_a_doubtful_result_stands() -> None:
    cluster = MadeUp(1, lambda worker, job: Rows(job, doubtful=True))
    assert len(outcome(cluster)) == 12
    assert len(cluster.given) == 12


def test_where_there_is_no_cluster_that_is_said_at_once() -> None:
    pytest.importorskip("ray")
    with pytest.raises(WorldforkError, match=r"No Ray cluster could be reached or begun at `127\.0\.0\.1:1`"):
        Ray(address="127.0.0.1:1").map(square, [])


def test_what_is_under_way_ends_with_the_one_who_asked() -> None:
    cluster = MadeUp(3, lambda worker, job: None)
    results = spread(cluster, square, range(12), rules=Rules(), clock=cluster.clock)
    next(results)
    busy = set(cluster.workers) - set(cluster.waiting)
    results.close()  # type: ignore[attr-defined]
    assert not busy & set(cluster.workers)
