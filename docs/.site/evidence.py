"""For the site alone: a page with every table of each published study, in the folder evidence/.

It takes minutes, so it is done where EVIDENCE is set, as `make docs` does. Each page is what its command prints.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from properdocs.structure.files import File

RESULTS = Path(__file__).parents[2] / "results"


def studies() -> list[str]:
    """Return the names of the published studies."""
    files = {path.name.removesuffix(".tar.xz") for path in RESULTS.glob("*.tar.xz")}
    return sorted(files | {path.parent.name for path in RESULTS.glob("*/published.json")})


def page(study: str, *options: str) -> str:
    """Return a study's tables, with the paper's figures beside those of the paper's own arm."""
    command = ["score", f"results/{study}", "--markdown", "--paper", *options]
    done = subprocess.run(  # noqa: S603 - this interpreter, our own verb
        [sys.executable, "-m", "worldfork.cli.main", *command],
        cwd=RESULTS.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return f"# {study}\n\n`worldfork {' '.join(command)}` prints this page.\n\n{done.stdout}"


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the pages; the builder calls this with all files of the site."""
    if os.environ.get("EVIDENCE"):
        listed = "\n".join(f"- [{study}]({study}.md)" for study in studies())
        files.append(
            File.generated(config, "evidence/index.md", content=f"# Every study, all tables\n\n{listed}\n")
        )
        for study in studies():
            files.append(File.generated(config, f"evidence/{study}.md", content=page(study)))
    return files
