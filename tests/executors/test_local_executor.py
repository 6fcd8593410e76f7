"""The local executor: a worker that dies is told, and none outlives its parent."""

import contextlib
import functools
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE, until

from worldfork.errors import Failed, WorldforkError
from worldfork.executors import local
from worldfork.executors.local import CHOSEN_BY_THE_USER, Local, share_memory, visible_gpus


def die(how: str) -> None:
    """End this worker, as others end it or as its code does."""
    if how in ("SIGKILL", "SIGSEGV", "SIGTERM"):
        os.kill(os.getpid(), signal.Signals[how])
    elif how == "os._exit":
        os._exit(3)
    elif how == "sys.exit":  # no job's function lets it pass, and no worker is worse for one that does
        sys.exit(0)


DEATHS = {
    "SIGKILL": "was killed by SIGKILL (out of memory, perhaps: then fewer --workers help)",
    "SIGSEGV": "was killed by SIGSEGV",
    "SIGTERM": "was killed by SIGTERM",
    "os._exit": "ended by itself, with the exit code 3",
    "sys.exit": "ended by itself, with the exit code 0",
}


def die_the_first_time(job: tuple[str, str]) -> str:
    how, path = job
    with contextlib.suppress(FileExistsError):
        Path(path).touch(exist_ok=False)
        die(how)
    return how


def test_what_a_killed_worker_was_doing_is_given_to_another(tmp_path: Path) -> None:
    jobs = [(how, str(tmp_path / how)) for how in [*DEATHS, "not at all"]]
    executor = Local(workers=2)
    assert dict(executor.map(die_the_first_time, jobs)) == dict(enumerate([*DEATHS, "not at all"]))
    executor.close()


def die_always(how: str) -> str:
    die(how)
    return how


def test_a_task_that_kills_every_worker_fails_with_the_reason_and_the_others_are_done() -> None:
    executor = Local(workers=2, attempts=2)
    results = dict(executor.map(die_always, ["lives", *DEATHS, "lives too"]))
    executor.close()
    assert (results.pop(0), results.pop(6)) == ("lives", "lives too")
    for result, reason in zip((results[index] for index in sorted(results)), DEATHS.values(), strict=True):
        assert isinstance(result, Failed)
        assert "2 workers were lost over it" in result.reason
        assert result.reason.count(reason) == 2


def hang(path: str) -> str:
    """Hang the first time, and say when."""
    with contextlib.suppress(FileExistsError):
        Path(path).touch(exist_ok=False)
        threading.Event().wait(2 * PATIENCE)
    return "done"


def test_a_worker_that_hangs_is_ended_at_its_deadline_and_another_does_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = tmp_path / "hangs"

    def clock() -> float:
        return 300.0 if hangs.exists() else 0.0  # later than the deadline as soon as it hangs, and never again

    monkeypatch.setattr(local, "spread", functools.partial(local.spread, clock=clock))
    executor = Local(workers=1, deadline=200.0)
    assert list(executor.map(hang, [str(hangs)])) == [(0, "done")]
    executor.close()


def wait_for_ever(number: int) -> None:
    threading.Event().wait(2 * PATIENCE)


def test_a_task_that_always_hangs_fails_with_the_reason() -> None:
    executor = Local(workers=2, attempts=2, deadline=0.01)
    ((_, failed),) = executor.map(wait_for_ever, [0])
    executor.close()
    assert isinstance(failed, Failed)
    assert failed.reason.count("did not answer within 0.01 seconds and was ended") == 2


@pytest.mark.parametrize("setting", [{"deadline": 60.0}, {"attempts": 3}, {"twice": 1}])
def test_one_worker_is_a_process_of_its_own_where_it_may_be_lost(
    setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    executor = Local(**setting)
    assert not executor.here
    assert dict(executor.map(the_process, [0]))[0] != os.getpid()
    executor.close()
    for other in (Local(), Local(workers=1), Local(deadline=None)):
        assert other.here
        assert dict(other.map(the_process, [0]))[0] == os.getpid()


def interrupt(number: int) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_that_a_worker_raises_ends_the_call() -> None:
    with pytest.raises(KeyboardInterrupt):
        list(Local(workers=2).map(interrupt, [0]))


def test_what_a_function_raises_is_raised_here_with_its_place_there() -> None:
    with pytest.raises(ValueError, match="math domain error") as caught:
        list(Local(workers=2).map(math.sqrt, [-1]))
    assert "In a worker process" in caught.value.__notes__[0]


def test_where_no_process_can_begin_that_is_said_and_not_tried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stillborn = tmp_path / "python"
    stillborn.write_text("#!/bin/sh\nexit 9\n")
    stillborn.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stillborn))
    with pytest.raises(WorldforkError, match=r"in a row ended before they had begun.*with the exit code 9"):
        list(Local(workers=2).map(the_process, [0]))


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


# A worker that says that it is being started, and goes no further until its parent has gone.
LATE = """
import os, sys, time
if any("local import work" in word for word in sys.orig_argv):
    parent = os.getppid()
    os.write(1, f"{os.getpid()}\\n".encode())
    while os.getppid() == parent:
        time.sleep(0.02)
"""
INTERRUPTED = """
import test_local_executor as here
from worldfork.cli.interruptible import interruptible
from worldfork.executors.local import Local
with interruptible('go on') as check:
    for _ in Local(workers=2).map(here.say_and_wait, TASKS):
        here.say_and_wait(0)
        while True:  # Python may lose an interrupt: progress asks now and then, as verbs do
            check()
            here.threading.Event().wait(0.02)
"""


@pytest.mark.parametrize(
    ("number", "status", "sentence"),
    [
        (signal.SIGINT, 130, "worldfork: interrupted; go on\n"),
        (signal.SIGTERM, 143, "worldfork: ended by SIGTERM; go on\n"),
    ],
)
@pytest.mark.parametrize(
    ("site", "jobs", "lines"),
    [
        pytest.param("", [1, 2], 2, id="while both compute"),
        pytest.param(LATE, [1, 2], 2, id="while both are being started"),
        pytest.param("", [0, 1], 3, id="while the driver writes and the other computes"),
    ],
)
def test_an_interrupt_of_all_processes_is_one_sentence(
    site: str, jobs: list[int], lines: int, number: int, status: int, sentence: str, tmp_path: Path
) -> None:
    """Both reach the workers too, as a terminal sends Ctrl-C, and SLURM or `timeout` SIGTERM. Nobody complains of
    it, whatever the workers are doing at the time."""
    (tmp_path / "sitecustomize.py").write_text(site)
    script = INTERRUPTED.replace("TASKS", str(jobs))
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
        os.killpg(parent.pid, number)
        _, complaints = parent.communicate(timeout=PATIENCE)  # ends when the last process that holds stderr has
    assert (parent.returncode, complaints) == (status, sentence)
