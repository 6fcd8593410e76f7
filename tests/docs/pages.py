"""What the documentation asks its reader to type: commands of `worldfork`, and blocks of Python."""

import dataclasses
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from worldfork.cli.main import VERBS

__all__ = [
    "MARK",
    "PAGES",
    "ROOT",
    "Command",
    "commands",
    "examples_in_help",
    "printed_blocks",
    "python_blocks",
    "run_page",
    "write_modules",
]

ROOT = Path(__file__).parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "results/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
FILE = re.compile(r"# (\w+\.py)\n")  # how a block begins that is a file of the reader


@dataclasses.dataclass(frozen=True)
class Command:
    """One command of a page. `inline`: it stands in a sentence and may name no more than a verb and its options."""

    page: str
    text: str
    inline: bool

    @property
    def words(self) -> list[str]:
        """The verb and its arguments."""
        return shlex.split(self.text, comments=True)

    @property
    def mention(self) -> bool:
        """Whether it names a verb and perhaps options, and nothing that the verb would work on."""
        return self.inline and all(word.startswith("-") for word in self.words if word not in VERBS)

    def __str__(self) -> str:
        return f"{self.page}: worldfork {' '.join(self.words)}"


def commands(page: Path) -> list[Command]:
    """Every command of a page, each once: in code blocks, and in sentences."""
    name, text = str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")
    code, prose = _split(text)
    typed = [Command(name, line, inline=False) for line in _command_lines(code)]
    spans = (" ".join(span.split()) for span in SPAN.findall(prose))
    named = [Command(name, verb, inline=True) for span in spans if (verb := _verb_line(span))]
    return list(dict.fromkeys([*typed, *named]))


def examples_in_help() -> list[Command]:
    """The example that each verb's help shows."""
    return [
        Command(f"{name} --help", line, inline=False)
        for name, verb in VERBS.items()
        for line in re.findall(r"Example: worldfork (.+)", verb.__doc__ or "")
    ]


def python_blocks(page: Path) -> list[str]:
    """The blocks of Python that a page prints, in order."""
    return [body for language, body in FENCE.findall(page.read_text(encoding="utf-8")) if language == "python"]


MARK = "-- the next block --"  # printed between the blocks of a page


def printed_blocks(page: Path) -> dict[int, str]:
    """Blocks of text that follow a block of Python at once: what it prints, by its number among those that run."""
    text, printed, number = page.read_text(encoding="utf-8"), {}, -1
    blocks = list(FENCE.finditer(text))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] != "python" or FILE.match(block[2]):
            continue
        number += 1
        if following and following[1] == "text" and not text[block.end() : following.start()].strip():
            printed[number] = following[2]
    return printed


def run_page(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page's blocks one after the other in a fresh interpreter that stands in `folder`, as a reader would."""
    files = write_modules(page, folder)
    script = folder / f"{page.stem}_page.py"
    blocks = [f"{block}\nprint({MARK!r})" for block in python_blocks(page) if not FILE.match(block)]
    script.write_text("\n".join([*(f"import {file.stem}" for file in files), *blocks]), encoding="utf-8")
    return subprocess.run([sys.executable, str(script)], cwd=folder, capture_output=True, text=True, check=False)


def write_modules(page: Path, folder: Path) -> list[Path]:
    """Blocks that begin with `# some_file.py` are files of the reader: write them where a command finds them."""
    written = []
    for block in python_blocks(page):
        if named := FILE.match(block):
            path = folder / named[1]
            path.write_text(block, encoding="utf-8")
            written.append(path)
    return written


def _split(text: str) -> tuple[list[str], str]:
    """The lines of code blocks, fenced (not as Python) or indented, and the text without any block."""
    code = [line for language, body in FENCE.findall(text) if language != "python" for line in body.splitlines()]
    prose: list[str] = []
    for line in FENCE.sub("", text).splitlines():
        (code if line.startswith("    ") else prose).append(line)
    return code, "\n".join(prose)


def _command_lines(code: list[str]) -> Iterator[str]:
    joined = re.sub(r"\\\n\s*", "", "\n".join(code))
    for line in joined.splitlines():
        if typed := re.match(r"\s*(?:\$ )?worldfork (.+)", line):
            yield typed[1]


def _verb_line(span: str) -> str | None:
    """`worldfork score ...`, or `score ...` where it says more than the verb."""
    if span.startswith("worldfork "):
        return span.removeprefix("worldfork ")
    verb, _, rest = span.partition(" ")
    return span if verb in VERBS and rest else None
