"""What results/which-update.md says of results/mechanisms-demo, against its rows and the demo's."""

import collections
import re
import statistics
from pathlib import Path

from published import folder_of, rows_of

ROOT = Path(__file__).parents[1]


def rows(study: str) -> dict[str, list[dict]]:
    """By arm."""
    found = collections.defaultdict(list)
    for cell in sorted((folder_of(study) / "cells").iterdir()):
        for row in rows_of(cell):
            found[row["cell"].split("-cartpole")[0]].append(row)
    return found


def test_the_arm_that_is_the_demos_mechanism_has_the_demos_rows() -> None:
    def place(row: dict) -> tuple[str, int]:
        return row["cell"].split("-cartpole")[1], row["k"]

    demo = {place(row): row for row in rows("demo")["demo"]}
    ours = rows("mechanisms-demo")
    assert len(ours["finetune"]) == 24
    for row in ours["finetune"]:
        for column in ("hold", "update", "fit", "signals", "draws", "stream"):
            assert row[column] == demo[place(row)][column]
    assert all(row["hold"] == row["update"] for row in ours["none"])


def test_the_table_is_that_of_the_ledger() -> None:
    text = (ROOT / "results" / "which-update.md").read_text()
    ours = rows("mechanisms-demo")
    table = dict(
        re.findall(r"^\| `([\w-]+)` \| `[^|]*\| (.*) \|$", text.split("## The same forks")[1], re.MULTILINE)
    )
    assert set(table) == set(ours)
    for arm, forks in ours.items():
        deltas = [row["delta"] for row in forks]
        ups, downs = sum(delta > 0 for delta in deltas), sum(delta < 0 for delta in deltas)
        mean, median, counts, _, shift = table[arm].split(" | ")
        assert float(mean) == round(statistics.fmean(deltas), 1)
        assert float(median) == round(statistics.median(deltas), 1)
        assert counts == f"{ups} / {downs} / {len(deltas) - ups - downs}"
        assert float(shift) == round(statistics.fmean(row["fit"]["param_shift"] for row in forks), 3)
