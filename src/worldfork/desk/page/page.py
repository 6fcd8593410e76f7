"""The page: one HTML file that opens from disk, asks the network for nothing, and keeps every text a text.

The template (`files/page.html`) prints what is to be read; the scripts beside it draw what is to be handled, from
one JSON value (`payload`). Jinja escapes whatever comes from a registration or a table; marked safe are only the
package's own style and script, and JSON that `embed` has made harmless.
"""

import base64
import dataclasses
import functools
import hashlib
import html
import importlib.metadata
from pathlib import Path
from typing import Final

import jinja2

from worldfork.desk.page import filters, view
from worldfork.desk.page.material import Material, gather
from worldfork.desk.page.payload import embed, payload
from worldfork.desk.page.record import record, varies
from worldfork.desk.reading.files import encode
from worldfork.desk.reading.ledger import Source
from worldfork.desk.reading.study import flat_frame
from worldfork.desk.scoring.undefined import settle
from worldfork.errors import WorldforkError
from worldfork.ledger import files
from worldfork.ledger.store import Study
from worldfork.progress import Progress, silent

__all__ = ["Page", "default_place", "render", "write_page"]

FOLDER: Final = Path(__file__).parent / "files"
STYLES: Final = ("base.css", "charts.css", "layout.css")
SCRIPTS: Final = ("core.js", "chart.js", "evidence.js", "stream.js", "threshold.js", "contraction.js", "page.js")
VIDEO_BYTES: Final = 3_000_000
NOTEBOOK_HEIGHT: Final = 780


@dataclasses.dataclass(frozen=True)
class Page:
    """A page that was made; `path` says where it lies, if anywhere. A notebook shows it in place."""

    html: str = dataclasses.field(repr=False)
    path: Path | None = None

    def save(self, path: str | Path) -> "Page":
        """Put the page at `path`, whole or not at all; a link that lies there is replaced, not followed."""
        target = Path(path)
        if target.is_dir():
            raise WorldforkError(f"`{target}` is a folder: name a file, such as `{target / 'index.html'}`.")
        files.make_folders(target.parent)
        files.replace(target, self.html.encode())
        return dataclasses.replace(self, path=target)

    def _repr_html_(self) -> str:
        """The whole page inside a frame of its own: it neither reads the notebook nor asks the network."""
        return (
            f'<iframe srcdoc="{html.escape(self.html, quote=True)}" width="100%" height="{NOTEBOOK_HEIGHT}" '
            'style="border:0" sandbox="allow-scripts allow-downloads"></iframe>'
        )


def write_page(
    source: Source,
    folder: str | Path | None = None,
    *,
    seed: int = 0,
    permutations: int = 20_000,
    progress: Progress = silent,
) -> Page:
    """Read and score a ledger, and write its page: `folder`/index.html; by default STUDY/report/index.html, or
    TABLE.html beside a table. The page of a data frame is only returned, unless a folder is named."""
    place = default_place(source) if folder is None else Path(folder) / "index.html"
    page = render(gather(source, seed=seed, permutations=permutations, progress=progress))
    return page if place is None else page.save(place)


def default_place(source: Source) -> Path | None:
    """Where a ledger's page goes when nobody says otherwise; never through a link out of the study."""
    path = source.path if isinstance(source, Study) else Path(source) if isinstance(source, str | Path) else None
    if path is None:
        return None
    if not path.is_dir():
        return path.with_suffix(".html")
    return files.confined(path / "report" / "index.html", within=path)


def render(material: Material, *, version: str | None = None) -> Page:
    """The page. A live one carries the `version` it shows and asks its server whether there is another."""
    parts = view.parts(material)
    registration = material.study.registration if material.study else None
    data = payload(material)
    script = _script()
    text = (
        _environment()
        .get_template("page.html")
        .render(
            name=material.name,
            parts=parts,
            sides=view.SIDES,
            comparisons=view.comparisons(material, parts),
            compare_axis=functools.partial(view.compare_axis, parts),
            doses=view.doses(registration, parts),
            varies=varies(registration) if registration else {},
            several_arms=len(material.score.arms) > 1,
            fraction=material.rules.divergence,
            videos=_videos(material),
            record=record(material),
            ignored=material.table.ignored,
            undefined=_by_reason(material),
            permutations=material.rules.permutations,
            threshold_permutations=data["threshold_permutations"],
            made_by=f"worldfork {importlib.metadata.version('worldfork')}",
            style="\n".join((FOLDER / name).read_text(encoding="utf-8") for name in STYLES),
            script=script,
            policy=_policy(script, live=version is not None),
            ledger=embed({**data, "version": version}),
            tables=embed(_downloads(material)),
        )
    )
    return Page(text)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters.FILTERS
    environment.tests["figure"] = filters.is_figure
    return environment


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
    """The replays (`worldfork replay -o STUDY/report/NAME.gif`) that lie beside the page, while it stays small.

    Files alone: a link could lead to anything on this machine, and what it led to would be in the page.
    """
    if material.study is None:
        return []
    videos, room = [], VIDEO_BYTES
    for path in sorted((material.study.path / "report").glob("*.gif")):
        if path.is_symlink() or not path.is_file():
            continue
        room -= path.stat().st_size
        if room >= 0:
            data = base64.b64encode(path.read_bytes()).decode()
            videos.append({"name": path.stem.replace("-", " "), "address": f"data:image/gif;base64,{data}"})
    return videos


def _by_reason(material: Material) -> list[tuple[str, list[str]]]:
    """Undefined figures by their reason, the commonest first."""
    figures: dict[str, list[str]] = {}
    _, reasons = settle({"arms": material.score.arms, "contrasts": material.score.contrasts})
    for reason in reasons:
        figures.setdefault(reason["why"], []).append(reason["figure"])
    return sorted(figures.items(), key=lambda item: -len(item[1]))


def _downloads(material: Material) -> list[object]:
    """The flat table: a study's as `worldfork export` writes it, or the file that was given."""
    if material.study is None:
        return [] if material.file is None else [_download(material.file.name, material.file.read_bytes())]
    frame = flat_frame(material.rows)
    return [_download(f"{material.name}{suffix}", encode(frame, suffix)) for suffix in (".csv", ".parquet")]


def _download(name: str, data: bytes) -> dict[str, object]:
    return {"name": name, "base64": base64.b64encode(data).decode(), "bytes": len(data)}
