"""What the published studies took: forks and seconds of every arm, as their ledgers noted them.

    python benchmarks/costs.py                     # every study in results/ that an accelerator made
    python benchmarks/costs.py results/demo        # these

A stream is timed with its whole batch, a block with its update and its evaluation; compiling, and waiting for
another program on the same device, are in them. Starting, reading checkpoints and writing are not: a command takes
a little longer. Streams that arms share are counted where they were run.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

from worldfork.ledger.archive import SUFFIX, name_of
from worldfork.ledger.store import Study

ROOT = Path(__file__).parents[1]


def main() -> None:
    named = [Path(word) for word in sys.argv[1:]]
    folders = [path.parent for path in (ROOT / "results").glob("*/registration.json")]
    studies = named or sorted([*folders, *(ROOT / "results").glob(f"*{SUFFIX}")], key=name_of)
    print("| study | arm | device | forks | seconds of streams | seconds of blocks |")
    print("|---|---|---|---:|---:|---:|")
    totals = [0.0, 0.0, 0.0]
    for study in studies:
        for (arm, device), (forks, streams, blocks) in costs(study).items():
            if device == "cpu" and not sys.argv[1:]:
                continue
            totals = [a + b for a, b in zip(totals, (forks, streams, blocks), strict=True)]
            print(f"| {name_of(study)} | {arm} | {device} | {forks:,} | {streams:,.0f} | {blocks:,.0f} |")
    print(f"| **sum** | | | {totals[0]:,.0f} | {totals[1]:,.0f} | {totals[2]:,.0f} |")


def costs(study: Path) -> dict[tuple[str, str], tuple[int, float, float]]:
    """Forks, seconds of streams and seconds of blocks of every arm and device of a study."""
    forks: defaultdict[tuple[str, str], int] = defaultdict(int)
    blocks: defaultdict[tuple[str, str], float] = defaultdict(float)
    streams: defaultdict[tuple[str, str], set[float]] = defaultdict(set)  # noted once for every cell of a batch
    for cell in Study(study).cells():
        made = json.loads((cell.path / "cell.json").read_text(encoding="utf-8"))
        arm = made["coordinates"]["arm"], made["device"]
        forks[arm] += len(cell.rows())
        timings = cell.path / "timings.jsonl"
        for line in timings.read_text(encoding="utf-8").splitlines() if timings.exists() else ():
            entry = json.loads(line)
            if entry["what"] == "streams":
                streams[arm].add(entry["seconds"])
            else:
                blocks[arm] += entry["seconds"]
    return {arm: (forks[arm], sum(streams[arm]), blocks[arm]) for arm in forks}


if __name__ == "__main__":
    main()
