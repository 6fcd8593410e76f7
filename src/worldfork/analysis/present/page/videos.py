"""Replays that lie beside the page, embedded while the page stays small, else linked; and how to make others."""

import base64
import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.text.formatting import minus, number
from worldfork.registration import Cell

EMBEDDED: Final = 3_000_000  # bytes of videos that a page holds
KINDS: Final = {".gif": "image/gif", ".mp4": "video/mp4"}
NAMED: Final = re.compile(r"(?P<cell>.+)-k(?P<k>\d+)-e(?P<episode>\d+)")


@dataclasses.dataclass(frozen=True)
class Video:
    """A replay; `cell`, `k` and `episode` say which fork it shows, where its name does."""

    name: str
    kind: str
    address: str  # the data themselves, or the name of the file beside the page
    cell: str = ""
    k: int = 0
    episode: int = 0
    delta: float | None = None  # of its fork


def videos(material: Material) -> list[Video]:
    """Return every replay in STUDY/report, the least dR first. Files alone: a link could lead anywhere."""
    if material.study is None:
        return []
    shown, room = [], EMBEDDED
    worth = {(cell.id, row.k): (cell, row.delta) for cell, rows in material.rows.items() for row in rows}
    # A video shows an extreme more often than not, and should say so.
    peers: dict[tuple[str, str], list[float]] = {}
    for cell, delta in worth.values():
        if delta is not None:
            peers.setdefault((cell.arm, cell.task), []).append(delta)
    for path in sorted((material.study.path / "report").glob("*")):
        if path.suffix not in KINDS or path.is_symlink() or not path.is_file():
            continue
        room -= path.stat().st_size
        shown.append(_video(path, worth, peers, embed=room >= 0))
    return sorted(shown, key=lambda video: math.inf if video.delta is None else video.delta)


def replay_command(material: Material) -> str | None:
    """Return what to type to watch a fork, with CELL and K for a fork's own; None where no model is at hand, or no
    folder to put a video into."""
    study = material.study
    if study is None or study.packed or not any((study.path / "checkpoints").glob("*.safetensors")):
        return None
    folder = study.path if not study.path.is_absolute() else Path(study.path.name)
    return f"worldfork replay {folder} --cell CELL --k K -o {folder}/report/CELL-kK-e1.gif"


def _video(
    path: Path,
    worth: Mapping[tuple[str, int], tuple[Cell, float | None]],
    peers: Mapping[tuple[str, str], Sequence[float]],
    *,
    embed: bool,
) -> Video:
    address = path.name
    if embed:
        address = f"data:{KINDS[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
    named = NAMED.fullmatch(path.stem)
    if named is None:
        return Video(path.stem.replace("-", " "), KINDS[path.suffix], address)
    name, k, episode = named["cell"], int(named["k"]), int(named["episode"])
    cell, delta = worth.get((name, k), (None, None))
    where = name if cell is None else f"{cell.task}, checkpoint {cell.checkpoint}, {cell.direction}"
    words = f"{where}, k = {k}, episode {episode}"
    if delta is not None:
        effect = "helped" if delta > 0 else "hurt" if delta < 0 else "changed nothing"
        among = [] if cell is None else peers[cell.arm, cell.task]
        rank = _rank(delta, sorted(among)) if len(among) > 1 else ""
        words = f"Updating {effect}: dR of the fork {minus(number(delta))}{rank} ({words})"
    return Video(words, KINDS[path.suffix], address, name, k, episode, delta)


def _rank(delta: float, peers: Sequence[float]) -> str:
    """Return where a fork stands among all of its task and arm, where that is an end or the middle.

    >>> _rank(-3.0, [-3.0, 0.0, 5.0]), _rank(0.0, [-3.0, 0.0, 5.0]), _rank(1.0, [-3.0, 0.0, 1.0, 5.0])
    (', the least of 3', ', the middle one of 3', '')
    """
    places = {peers[(len(peers) - 1) // 2]: "middle one", peers[-1]: "largest", peers[0]: "least"}
    return f", the {places[delta]} of {len(peers):,}" if delta in places else ""
