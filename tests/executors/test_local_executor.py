"""The local executor: a worker that dies is told, and none outlives its parent."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from waiting import PATIENCE, until

from worldfork.errors import WorldforkError
from worldfork.executors.gpus import CHOSEN_BY_THE_USER, share_memory, visible_gpus
from worldfork.executors.local import Local, _spawning


def end_the_worker(number: int) -> int:
    os._exit(3)


def test_a_worker_that_dies_is_told_clearly() -> None:
    with pytest.raises(WorldforkError, match="A worker process died"):
        list(Local(workers=2).map(end_the_worker, [1, 2]))


def the_process(number: int) -> int:
    return os.getpid()


def test_processes_wait_for_the_next_call() -> None:
    """A study has several stages: its workers import their libraries once, and know their programs."""
    executor = Local(workers=2)
    first = {process for _, process in executor.map(the_process, [0])}
    second = {process for _, process in executor.map(the_process, [0])}
    assert first == second
    executor.close()
    assert first.isdisjoint(process for _, process in executor.map(the_process, [0]))
    executor.close()


def test_processes_do_not_wait_where_the_rest_was_not_wanted() -> None:
    executor = Local(workers=2)
    answers = executor.map(the_process, range(9))
    _, abandoned = next(answers)
    answers.close()
    assert abandoned not in {process for _, process in executor.map(the_process, [0])}
    executor.close()


def the_gpu(number: int) -> str:
    return os.environ["CUDA_VISIBLE_DEVICES"]


def test_each_worker_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,7")
    assert {gpu for _, gpu in Local().map(the_gpu, range(40))} <= {"3", "7"}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3,7"


def the_gpu_and_its_share(number: int) -> tuple[str, str | None]:
    return os.environ["CUDA_VISIBLE_DEVICES"], os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION")


@pytest.mark.parametrize(
    ("gpus", "workers", "expected"),
    [
        ("3", 2, {("3", "0.450")}),
        ("3,7", 3, {("3", "0.450"), ("7", None)}),
        ("3,7", 2, {("3", None), ("7", None)}),
    ],
)
def test_workers_on_one_gpu_divide_its_memory(
    gpus: str, workers: int, expected: set[tuple[str, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    for name in CHOSEN_BY_THE_USER:
        monkeypatch.delenv(name, raising=False)
    executor = Local(workers=workers)
    assert {answer for _, answer in executor.map(the_gpu_and_its_share, range(40))} <= expected
    executor.close()
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in os.environ


@pytest.mark.parametrize("name", CHOSEN_BY_THE_USER)
def test_memory_that_the_user_divides_is_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", variables := {name: "0.2"})
    share_memory(0.5)
    assert variables == {name: "0.2"}


def test_gpus_are_counted_without_starting_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus(tmp_path / "none") == []
    for address in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / address).mkdir()
    assert visible_gpus(tmp_path) == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus(tmp_path) == []


def test_workers_die_with_their_parent() -> None:
    script = (
        "from worldfork.executors.local import Local; import test_local_executor as here;"
        "list(Local(workers=2).map(here.say_and_wait, [1, 2]))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # tests lie on it, and so do we
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    parent.wait()
    until(lambda: not any(map(_alive, workers)), lambda: f"that of {workers} none outlives its parent")


def say_and_wait(number: int) -> None:
    os.write(1, f"{os.getpid()}\n".encode())  # in one piece: several write at once
    if number:
        threading.Event().wait(2 * PATIENCE)  # for whoever ends this process


def _alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_a_script_without_a_guard_is_not_run_again_in_its_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import math\n"
        "from worldfork.executors.local import Local\n"
        "print('once')\n"
        "print(sorted(Local(workers=2).map(math.sqrt, [1, 4, 9])))\n"
        "print(__file__.endswith('script.py'))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["once", "[(0, 1.0), (1, 2.0), (2, 3.0)]", "True"], done.stderr


def test_an_interrupt_that_another_thread_hears_waits_until_a_process_is_whole() -> None:
    asked, done, begun = threading.Event(), threading.Event(), []

    def hear() -> None:
        asked.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        done.set()

    def begin() -> None:
        with _spawning([]):
            asked.set()
            done.wait()
            begun.append("the whole of it")

    threading.Thread(target=hear, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        begin()
    assert begun


# A worker that says that it is being started, and goes no further until its parent has gone.
LATE = """
import os, sys, time
if "--multiprocessing-fork" in sys.orig_argv:
    parent = os.getppid()
    os.write(1, f"{os.getpid()}\\n".encode())
    while os.getppid() == parent:
        time.sleep(0.02)
"""
# Threads take their time over letting go of a semaphore: whoever leaves meanwhile leaves half of it.
SLOW = """
import threading, time
from multiprocessing import resource_tracker, synchronize
def let_go(name):
    synchronize.sem_unlink(name)
    if threading.current_thread() is not threading.main_thread():
        time.sleep(0.5)
    resource_tracker.unregister(name, "semaphore")
synchronize.SemLock._cleanup = staticmethod(let_go)
"""
INTERRUPTED = """
import test_local_executor as here
from worldfork.cli.interrupts import interruptible
from worldfork.executors.local import Local
with interruptible('interrupted'):
    for _ in Local(workers=2).map(here.say_and_wait, TASKS):
        here.say_and_wait(1)
"""


@pytest.mark.parametrize(
    ("site", "tasks", "lines"),
    [
        pytest.param("", [1, 2], 2, id="while both compute"),
        pytest.param(LATE, [1, 2], 2, id="while both are being started"),
        pytest.param(LATE + SLOW, [1, 2], 2, id="while both are being started, and threads are slow"),
        pytest.param("", [0, 1], 3, id="while the driver writes and the other computes"),
    ],
)
def test_an_interrupt_of_all_processes_is_one_sentence(
    site: str, tasks: list[int], lines: int, tmp_path: Path
) -> None:
    """Ctrl-C reaches the workers too, as a terminal sends it. Nobody complains of it, nor of semaphores that were
    left behind, whatever the workers are doing at the time."""
    (tmp_path / "sitecustomize.py").write_text(site)
    script = INTERRUPTED.replace("TASKS", str(tasks))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        for _ in range(lines):
            parent.stdout.readline()
        os.killpg(parent.pid, signal.SIGINT)
        _, complaints = parent.communicate(timeout=PATIENCE)  # ends when the last process that holds stderr has
    assert (parent.returncode, complaints) == (130, "worldfork: interrupted\n")
