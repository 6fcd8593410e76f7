"""What the page on exact restoring prints is what its examples give, but for versions and digits."""

import re
from pathlib import Path

import pytest
from pages import FENCE, ROOT, write_modules
from typer.testing import CliRunner

from worldfork.cli.main import app

PAGE = ROOT / "docs" / "restorable.md"
REPORTS = re.compile(r"`worldfork test (\w+:\w+)`[^\n]*\n\n```text\n(.*?)```", re.DOTALL)


def told(text: str) -> list[str]:
    """Return the lines of a report without versions, and without the digits that were seen."""
    lines = [line for line in text.splitlines() if not line.startswith("versions: ")]
    return [re.sub(r"first \S+ and [^\s)]+", "first ... and ...", line) for line in lines]


@pytest.mark.parametrize(("name", "printed"), REPORTS.findall(PAGE.read_text(encoding="utf-8")))
def test_a_printed_report_is_what_the_example_gives(
    name: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("hopper"):
        pytest.importorskip("gymnasium", reason="Gymnasium comes with the extra `gymnasium`")
    write_modules(PAGE, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    done = CliRunner().invoke(app, ["test", name])
    assert told(done.output) == told(printed)
    assert done.exit_code == ("NOT exact" in printed)


def test_all_reports_of_the_page_are_compared() -> None:
    texts = [body for language, body in FENCE.findall(PAGE.read_text(encoding="utf-8")) if language == "text"]
    assert len(REPORTS.findall(PAGE.read_text(encoding="utf-8"))) == len(texts) == 3
