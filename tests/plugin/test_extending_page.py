"""docs/extending.md does what it says: its files are written where one works, and its blocks run in order."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_the_page_runs(tmp_path: Path) -> None:
    script = []
    for block in blocks():
        if named := re.match(r"# (\w+\.py)\n", block):
            (tmp_path / named[1]).write_text(block)
        else:
            script.append(block)
    (tmp_path / "page.py").write_text("\n".join(script))
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "The environment `tank:TankPlugin` keeps its contract" in done.stdout
    assert "probed: `none` gave dR = 0.0" in done.stdout
    assert "surge:Surge" in done.stdout
    assert (tmp_path / "jobs.log").read_text().count("Label") > 1
