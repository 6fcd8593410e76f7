"""End commands many times over and see that each exits with the code that it should.

    python benchmarks/attacks/exits.py --count 300

Each case in turn, in a process of its own: `run`, `verify`, `score`, `report` that succeed (0), a check that does
not pass (1), and input that is refused (2). A process that has done its work and then aborts shows here.
"""

import argparse
import collections
import shutil
import sys
import tempfile
from pathlib import Path

import studies


def cases(root: Path) -> list[tuple[int, list[str | Path]]]:
    """What is run, and the code it should exit with."""
    study, damaged, registration = root / "study", root / "damaged", root / "small.toml"
    registration.write_text(studies.REGISTRATION)
    (root / "other.toml").write_text('extends = "small.toml"\n[mechanism]\nsteps = 7\n')
    if studies.finish("run", registration, "-o", study, "--quiet").returncode:
        sys.exit("The study to begin with could not be run.")
    shutil.copytree(study, damaged)
    rows = next(damaged.glob("cells/*/forks.jsonl"))
    rows.write_bytes(rows.read_bytes().replace(b'"k":2', b'"k":3'))
    return [
        (0, ["run", registration, "-o", root / "new", "--quiet"]),
        (0, ["run", registration, "-o", study, "--quiet"]),
        (0, ["verify", study]),
        (0, ["score", study, "--permutations", "200"]),
        (0, ["report", study, "--permutations", "200"]),
        (0, ["run", registration, "-o", root / "workers", "--quiet", "--workers", "2"]),
        (1, ["verify", damaged]),
        (2, ["run", root / "other.toml", "-o", study, "--amend", "fewer", "--quiet"]),
        (2, ["verify", root]),
        (2, ["score", damaged, "--permutations", "200"]),
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=60)
    given = options.parse_args()
    seen: collections.Counter[str] = collections.Counter()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        known = cases(Path(folder))
        for number in range(given.count):
            expected, arguments = known[number % len(known)]
            done = studies.finish(*arguments)
            seen[f"{arguments[0]} -> {expected}"] += 1
            if done.returncode != expected:
                wrong.append(
                    f"{' '.join(map(str, arguments))} exited with {done.returncode}:\n{done.stderr[-2000:]}"
                )
            for name in ("new", "workers"):
                shutil.rmtree(Path(folder) / name, ignore_errors=True)
    for what, count in sorted(seen.items()):
        print(f"{what:20} {count}")
    print(f"{given.count} exits, {len(wrong)} with another code than they should.")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
