"""What the published studies took: forks and seconds of every arm, as their ledgers noted them.

    python benchmarks/costs.py                     # every study in results/ that an accelerator made
    python benchmarks/costs.py results/demo        # these

A stream is timed with its whole batch, a block with its update and its evaluation; compiling, and waiting for
another program on the same device, are in them. Starting, reading checkpoints and writing are not: a command takes
a little longer. Streams that arms share are counted where they were run. Policies that are followed all the way
have a line of their own: their episodes are streams, their updates and evaluations blocks.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from worldfork.ledger.archive import SUFFIX, name_of
from worldfork.ledger.store import Study

ROOT = Path(__file__).parents[1]
FOLLOWED = "policies that are followed"


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
            counted = f"{forks:,}" if forks else "–"
            print(f"| {name_of(study)} | {arm} | {device} | {counted} | {streams:,.0f} | {blocks:,.0f} |")
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
        for entry in _timings(cell.path):
            if entry["what"] == "streams":
                streams[arm].add(entry["seconds"])
            else:
                blocks[arm] += entry["seconds"]
    found = {arm: (forks[arm], sum(streams[arm]), blocks[arm]) for arm in forks}
    for deployed in Study(study).deployments():
        followed = FOLLOWED, json.loads((deployed.path / "cell.json").read_text(encoding="utf-8"))["device"]
        segments = list(_timings(deployed.path))  # noted once for all policies of a batch
        rolled = sum(entry["streams"] for entry in segments)
        rest = sum(entry["updates"] + entry["evaluations"] for entry in segments)
        _, before, others = found.get(followed, (0, 0.0, 0.0))
        found[followed] = 0, before + rolled, others + rest
    return found


def _timings(folder: Path) -> list[dict[str, Any]]:
    path = folder / "timings.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
