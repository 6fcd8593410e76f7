"""Whether this machine gives the same bytes twice: fresh processes, a killed run, HOLD against HOLD.

    python tests/exactness.py                       # the bundled tiny model
    python tests/exactness.py --checkpoint checkpoints/cartpole-swingup-0.safetensors --size compact

Runs a small cartpole study in two processes of their own, kills and resumes a third, and compares every chained
byte. The study's second arm does nothing, and takes HOLD from rows that were evaluated in other blocks at other
positions: each of its dR must be 0. Exits 1 if anything differs.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kill_and_resume import chained

from worldfork.ledger.store import Study

REGISTRATION = """
schema = "worldfork.registration/1"
name = "exactness"
[grid]
tasks = ["cartpole-swingup"]
checkpoints = [0]
directions = ["toward", "away"]
[stream]
decision_points = 3
drift_period = 3000
[evaluation]
episodes = 6
[mechanism]
name = "finetune"
steps = 20
window = 10000
[[arms]]
name = "update"
[[arms]]
name = "nothing"
mechanism = {{ name = "none", steps = 0 }}
[execution]
forks_per_block = 2
streams_per_batch = 2
halves = 2
[tasks.cartpole-swingup]
agent = "rssm_cem"
checkpoints = "{checkpoints}"
drift_scale = 1.5
precision = "{precision}"
settings = {{ size = "{size}", candidates = {candidates}, horizon = 5, iterations = 2, elites = 32 }}
"""


def begin(path: Path, folder: Path) -> "subprocess.Popen[bytes]":
    """A run in a process of its own, which compiles everything itself."""
    command = [sys.executable, "-m", "worldfork.cli.main", "run", str(path), "-o", str(folder), "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def finish(process: "subprocess.Popen[bytes]") -> None:
    if process.wait():
        sys.exit(f"`{' '.join(map(str, process.args))}` failed.")  # type: ignore[arg-type]


def rows(folder: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in folder.rglob("forks.jsonl"))


def compare(what: str, reference: Path, study: Path) -> None:
    first, second = chained(reference), chained(study)
    differing = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
    if differing:
        sys.exit(f"{what}: {len(differing)} of {len(first)} files differ, such as {differing[0]}.")
    print(f"{what}: {len(first)} files, every chained byte the same.")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--checkpoint", type=Path, help="Another cartpole checkpoint than the bundled one.")
    options.add_argument("--size", default="tiny", help="Its model's size.")
    options.add_argument("--precision", default="tf32")
    options.add_argument("--candidates", type=int, default=256)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "exactness.toml"
        reference, again, killed = (Path(root) / name for name in ("reference", "again", "killed"))
        source = "bundled" if given.checkpoint is None else str(given.checkpoint.resolve())
        settings = {"precision": given.precision, "size": given.size, "candidates": given.candidates}
        path.write_text(REGISTRATION.format(checkpoints=source, **settings))
        runs = [begin(path, folder) for folder in (reference, again, killed)]
        while rows(killed) < 2 and runs[2].poll() is None:
            time.sleep(0.02)
        runs[2].kill()
        runs[2].wait()
        kept = rows(killed)
        for process in (runs[0], runs[1], begin(path, killed)):
            finish(process)
        compare("Two fresh processes", reference, again)
        compare(f"Killed after {kept} rows and resumed", reference, killed)
        study = Study(reference)
        nothing = [cell for cell in study.cells() if cell.id.startswith("nothing")]
        deltas = [row.delta for cell in nothing for row in cell.rows()]
        print(f"HOLD against HOLD in another block: {len(deltas)} forks, dR {sorted(set(deltas))}.")
        sys.exit(0 if deltas and set(deltas) == {0.0} else 1)


if __name__ == "__main__":
    main()
