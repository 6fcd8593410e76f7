"""The tables of docs/reproducing.md, printed by the commands that the page itself names.

    python benchmarks/reproducing.py           # rewrites the page
    python benchmarks/reproducing.py --check   # says whether it is up to date

A block begins with its command, `<!-- worldfork score results/scope --paper -->` or that of `costs.py` beside this
file, and ends with `<!-- end -->`. Where the study is not in results/, the paper's figures stand alone and ours are
"not run yet".
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from worldfork.analysis.present.tables import choose, markdown, planned_tables
from worldfork.analysis.score.sweeps import dose_groups
from worldfork.ledger.archive import locate
from worldfork.registration import read

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproducing.md"
BLOCK = re.compile(r"<!-- worldfork score (\S+)(.*?) -->\n.*?<!-- end -->", re.DOTALL)
COSTS = re.compile(r"<!-- python benchmarks/costs.py -->\n.*?<!-- end -->", re.DOTALL)


def written(page: str, root: Path = ROOT) -> str:
    """The page with every block as its command prints it now."""
    page = COSTS.sub(lambda found: _costs(root), page)
    return BLOCK.sub(lambda found: _block(found[1], found[2], root), page)


def _costs(root: Path) -> str:
    shown = _printed([sys.executable, "benchmarks/costs.py"], root)
    return f"<!-- python benchmarks/costs.py -->\n{shown.strip()}\n<!-- end -->"


def _block(study: str, options: str, root: Path) -> str:
    needed = [word for word in (study, *shlex.split(options)) if word.startswith("results/")]
    there = all(locate(root / word).exists() for word in needed)
    shown = _scored(study, options, root) if there else _planned(study, options, root)
    return f"<!-- worldfork score {study}{options} -->\n{shown.strip()}\n<!-- end -->"


def _scored(study: str, options: str, root: Path) -> str:
    return _printed([sys.executable, "-m", "worldfork.cli.main", "score", study, *shlex.split(options)], root)


def _printed(command: list[str], root: Path) -> str:
    return subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout


def _planned(study: str, options: str, root: Path) -> str:
    """What the paper says about the tasks of the registration of the same name."""
    given = shlex.split(options)
    if "--paper" not in given:
        return "Not run yet."
    only = given[given.index("--tables") + 1] if "--tables" in given else None
    path = root / "registrations" / f"{Path(study).name}.toml"
    registration = read(path)
    planned = planned_tables(registration.arms[0].tasks, dosed=bool(dose_groups(registration)))
    found = choose(planned, only)
    return "\n".join(markdown(one) for one in found if only or one.label != "seedrep")


def main() -> int:
    before = PAGE.read_text(encoding="utf-8")
    after = written(before)
    if "--check" in sys.argv:
        print("up to date" if before == after else "out of date: run `python benchmarks/reproducing.py`")
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
