"""Run the tests while the machine is busy with something else: none may depend on how long anything takes.

    python benchmarks/attacks/busy.py                         # the whole suite once, beside six busy processes
    python benchmarks/attacks/busy.py --times 3
    python benchmarks/attacks/busy.py --busy 12 -- tests/cli  # of those alone: whatever pytest takes

As `make unit` runs them, and as often as asked. Exits 1 if any test failed, after the last time. The busy processes
end with it, also when it is killed: each looks whether its parent is still there.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = ("-m", "pytest", "-n", "2", "--dist", "worksteal", "-q", "-p", "no:cacheprovider")
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(100_000))"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", type=int, default=1, help="How often the tests are run.")
    options.add_argument("--busy", type=int, default=6, help="Processes that do nothing but compute.")
    options.add_argument("tests", nargs="*", help="Which tests, after `--`. Default: the whole suite.")
    given = options.parse_args()
    failed = beside_others([sys.executable, *SUITE, *given.tests], times=given.times, busy=given.busy)
    print(f"{given.times} runs of the tests beside {given.busy} busy processes, {failed} with a failure.")
    sys.exit(1 if failed else 0)


def beside_others(command: Sequence[str], *, times: int, busy: int) -> int:
    """How many of so many runs of a command fail while so many processes compute."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    failed = 0
    with busy_processes(busy):
        for time_run in range(1, times + 1):
            began = time.perf_counter()
            code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
            failed += code != 0
            load = os.getloadavg()[0]
            print(
                f"run {time_run}: exit code {code}, {time.perf_counter() - began:.0f} s, load {load:.1f}",
                flush=True,
            )
    return failed


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Processes that compute until the block ends."""
    command = [sys.executable, "-c", BUSY, str(os.getpid())]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


if __name__ == "__main__":
    main()
