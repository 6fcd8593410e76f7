"""The page: one HTML file that opens from disk, asks the network for nothing, and keeps every text a text.

The template (`files/page.html`) prints what is to be read; the scripts beside it draw what is to be handled,
from one JSON value (`payload`). Jinja escapes whatever comes from a registration or a table; marked safe are only
the package's own style and script, and JSON that `embed` has made harmless.
"""

import base64
import functools
import hashlib
import importlib.metadata
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from worldfork.desk import wording
from worldfork.desk.page.material import Material
from worldfork.desk.page.payload import embed, payload
from worldfork.desk.page.record import record
from worldfork.desk.reading.files import encode
from worldfork.desk.reading.study import flat_frame
from worldfork.desk.scoring.records import TaskScore
from worldfork.desk.scoring.undefined import Undefined
from worldfork.ledger import files

__all__ = ["render", "write"]

FOLDER: Final = Path(__file__).parent / "files"
STYLES: Final = ("base.css", "charts.css", "layout.css")
VIDEO_BYTES: Final = 3_000_000
SCRIPTS: Final = (
    "core.js",
    "chart.js",
    "evidence.js",
    "stream.js",
    "fork.js",
    "control.js",
    "threshold.js",
    "signal.js",
    "readout.js",
    "compare.js",
    "spending.js",
    "policies.js",
    "contraction.js",
    "page.js",
)


def write(material: Material, path: Path) -> None:
    """Write the page to `path`; readers see the old one or the new one."""
    if material.study is not None and path.is_relative_to(material.study.path):
        files.confined(path, within=material.study.path)  # the study may come from a stranger
    files.make_folders(path.parent)
    files.replace(path, render(material).encode())


def render(material: Material, *, version: str | None = None) -> str:
    """The page as text. A live page carries the `version` it shows and asks its server whether there is another."""
    parts = [
        {"arm": arm, "task": task, "figures": one, "digits": _digits(one)}
        for arm, scored in material.score.arms.items()
        for task, one in scored.tasks.items()
    ]
    reasons: Any = material.score.to_json()["undefined"]
    script = _script()
    page: str = (
        _environment()
        .get_template("page.html")
        .render(
            name=material.name,
            parts=parts,
            videos=_videos(material),
            record=record(material),
            ignored=material.table.ignored,
            undefined=_by_reason(reasons),
            several_arms=len(material.score.arms) > 1,
            permutations=material.rules.permutations,
            made_by=f"worldfork {importlib.metadata.version('worldfork')}",
            style="\n".join((FOLDER / name).read_text(encoding="utf-8") for name in STYLES),
            script=script,
            policy=_policy(script, live=version is not None),
            ledger=embed({**payload(material), "version": version}),
            tables=embed(_downloads(material)),
        )
    )
    return page


def _digits(one: TaskScore) -> int:
    plain: dict[str, Any] = one.to_json()
    return wording.digits_for(plain["effect"]["all_attempted"])


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "unsigned": _unsigned, "span": _span, "is_undefined": _is_undefined}
    return environment


def _number(value: Any, digits: int = 1) -> str:
    """A signed number, or a word that says why there is none."""
    return _why(value) if isinstance(value, Undefined) else _minus(wording.number(value, digits))


def _unsigned(value: Any, digits: int = 1) -> str:
    return _number(value, digits).removeprefix("+")


def _span(value: Any, digits: int = 1) -> str:
    return _why(value) if isinstance(value, Undefined) else _minus(wording.span(value, digits))


def _is_undefined(value: Any) -> bool:
    return isinstance(value, Undefined)


def _why(value: Undefined) -> str:
    return Markup('<span class="undefined" tabindex="0" title="{}">undefined</span>').format(value.why)


def _minus(spelled: str) -> str:
    return spelled.replace("-", "\N{MINUS SIGN}")


@functools.cache
def _script() -> str:
    """The scripts in one function, so that they leave no name behind."""
    joined = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{joined}\n}})();'


def _policy(script: str, *, live: bool) -> str:
    """Only this very script may run, and only a live page may ask its own server anything."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    asks = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        f"connect-src {asks}; base-uri 'none'; form-action 'none'"
    )


def _videos(material: Material) -> list[dict[str, str]]:
    """The replays (`worldfork replay -o STUDY/report/NAME.gif`) that lie beside the page, while it stays small."""
    if material.study is None:
        return []
    found, room = [], VIDEO_BYTES
    for path in sorted((material.study.path / "report").glob("*.gif")):
        room -= path.stat().st_size
        if room >= 0:
            data = base64.b64encode(path.read_bytes()).decode()
            found.append({"name": path.stem, "address": f"data:image/gif;base64,{data}"})
    return found


def _by_reason(undefined: list[dict[str, str]]) -> list[tuple[str, list[str]]]:
    """Undefined figures by their reason, the commonest first."""
    found: dict[str, list[str]] = {}
    for one in undefined:
        found.setdefault(one["why"], []).append(one["figure"])
    return sorted(found.items(), key=lambda item: -len(item[1]))


def _downloads(material: Material) -> list[dict[str, str]]:
    """The flat table: a study's as `worldfork export` writes it, or the file that was given."""
    if material.study is None:
        return [_download(material.path.name, material.path.read_bytes())]
    frame = flat_frame(material.rows)
    return [_download(f"{material.name}{suffix}", encode(frame, suffix)) for suffix in (".csv", ".parquet")]


def _download(name: str, data: bytes) -> dict[str, str]:
    return {"name": name, "base64": base64.b64encode(data).decode(), "bytes": str(len(data))}
