"""The paper's Figures 1 to 3 with a study's own numbers, as files: vector PDF and PNG."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from worldfork.analysis.present.figures.diagram import ledger
from worldfork.analysis.present.figures.drawing import Drawing
from worldfork.analysis.present.figures.forks import contraction, policies
from worldfork.analysis.score import Score
from worldfork.errors import WorldforkError
from worldfork.ledger import files

DPI: Final = 200


def write_figures(score: Score, folder: str | Path) -> list[Path]:
    """Write three figures per arm and task into a folder, each as .pdf and .png; return their paths."""
    folder = Path(folder)
    written: list[Path] = []
    taken: set[str] = set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorldforkError(f"The figures could not be written to `{folder}` ({error}).") from error
    for arm, scored in score.arms.items():
        for task in scored.tasks:
            base = _unique(f"{arm}-{task}" if arm else task, taken)
            for name, figure in _figures(score, arm, task):
                for kind in ("pdf", "png"):
                    path = folder / f"{name}-{base}.{kind}"
                    files.replace(path, _encoded(figure, kind))
                    written.append(path)
    return written


def _figures(score: Score, arm: str, task: str) -> Iterator[tuple[str, Drawing]]:
    yield "figure1-ledger", ledger(score, arm=arm, task=task)
    yield "figure2-policies", policies(score, arm=arm, task=task, estimand="retained")  # as in the paper
    yield "figure3-contraction", contraction(score, arm=arm, task=task)


def _encoded(figure: Drawing, kind: str) -> bytes:
    buffer = io.BytesIO()
    # No date inside: the same ledger gives the same file.
    metadata = {"CreationDate": None} if kind == "pdf" else None
    figure.savefig(buffer, format=kind, dpi=DPI, bbox_inches="tight", metadata=metadata)
    return buffer.getvalue()


def _unique(name: str, taken: set[str]) -> str:
    """Return a file name from any text: names in a table are not to be trusted as paths."""
    base = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.") or "forks"
    while base in taken:
        base += "-2"
    taken.add(base)
    return base
