"""A study with one of everything: nothing that is printed about it says "1 forks"."""

import html
import re

import pytest
from typer.testing import CliRunner

import worldfork
from worldfork.cli.main import app

ONE_OF_EVERYTHING = """
schema = "worldfork.registration/1"
name = "one"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0]
directions = ["away"]
[stream]
decision_points = 1
[evaluation]
episodes = 1
[mechanism]
steps = 1
window = 100
[[arms]]
name = "only"
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 0.5
precision = "float64"
"""

COUNTED = (
    "amendments|arms|candidates|cells|checkpoints|deviations|draws|episodes|figures|forks|problems|rows|updates"
)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What every verb prints about such a study, and what its page says."""
    folder = tmp_path_factory.mktemp("one")
    registration, study = folder / "one.toml", folder / "study"
    registration.write_text(ONE_OF_EVERYTHING)
    verbs = {
        "check": ["check", str(registration)],
        "run": ["run", str(registration), "-o", str(study), "--quiet"],
        "verify": ["verify", str(study)],
        "score": ["score", str(study), "--permutations", "50"],
        "report": ["report", str(study), "--permutations", "50"],
    }
    outputs = {verb: CliRunner().invoke(app, line, catch_exceptions=False).output for verb, line in verbs.items()}
    page = (study / "report" / "index.html").read_text()
    text = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    return {**outputs, "page": html.unescape(text)}


def test_one_is_not_many(printed: dict[str, str]) -> None:
    assert "1 fork in 1 cell. Next" in printed["run"]
    assert "1 fork in 1 cell, complete; 0 problems." in printed["verify"]
    assert "one: 1 cell, digest" in printed["check"]
    for text in printed.values():
        assert not re.findall(rf"(?<![\w.,])1 (?:\w+ )?(?:{COUNTED})\b", text)


def test_the_version_is_that_of_the_package() -> None:
    answered = CliRunner().invoke(app, ["--version"], catch_exceptions=False)
    assert (answered.exit_code, answered.output) == (0, f"worldfork {worldfork.__version__}\n")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", worldfork.__version__)
