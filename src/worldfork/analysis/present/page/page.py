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
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import jinja2

from worldfork.analysis.present.page import arms, deployments, filters, sections, view
from worldfork.analysis.present.page.forks import SMALL_PAGE
from worldfork.analysis.present.page.material import Material, gather
from worldfork.analysis.present.page.packing import bundle
from worldfork.analysis.present.page.payload import embed, payload, size
from worldfork.analysis.present.page.record import record
from worldfork.analysis.present.page.thresholds import SIDES, threshold_permutations
from worldfork.analysis.present.page.videos import replay_command, videos
from worldfork.analysis.present.text import TERMS, corrected, predictions_answered, read_as, update_words, varies
from worldfork.analysis.read.files import encode
from worldfork.analysis.read.frames import flat_frame
from worldfork.analysis.read.ledger import Source
from worldfork.analysis.score.undefined import settle
from worldfork.errors import WorldforkError
from worldfork.ledger import files
from worldfork.ledger.archive import is_archive, locate, name_of
from worldfork.ledger.store import Study
from worldfork.progress import Progress, silent
from worldfork.triggers import CellKey, Trigger
from worldfork.version import __version__

__all__ = ["Page", "default_place", "render", "write_page"]

FOLDER: Final = Path(__file__).parent / "files"
STYLES: Final = ("base.css", "charts.css", "layout.css", "tables.css")
TOOLS: Final = ("core.js", "address.js", "chart.js", "export.js")  # what the sections' scripts use
LAST: Final = "page.js"  # puts them all on the page
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
    triggers: Sequence[str | Trigger] | str | None = None,
    higher_is_better: bool = True,
    failure_return: float | None = None,
    progress: Progress = silent,
) -> Page:
    """Read and score a ledger, and write its page: `folder`/index.html; by default STUDY/report/index.html, or
    NAME.html beside a table or a study in one file. The page of a data frame is only returned, unless a folder is
    named. `higher_is_better` and `failure_return` say how a flat table is read."""
    place = default_place(source) if folder is None else Path(folder) / "index.html"
    material = gather(
        source,
        seed=seed,
        permutations=permutations,
        triggers=triggers,
        higher_is_better=higher_is_better,
        failure_return=failure_return,
        progress=progress,
    )
    page = render(material)
    return page if place is None else page.save(place)


def default_place(source: Source) -> Path | None:
    """Where a ledger's page goes when nobody says otherwise; never through a link out of the study."""
    if isinstance(source, Study):
        path = source.origin
    elif isinstance(source, str | Path):
        path = locate(Path(source))
    else:
        return None
    if is_archive(path):
        return path.with_name(f"{name_of(path)}.html")
    if not path.is_dir():
        return path.with_suffix(".html")
    return files.confined(path / "report" / "index.html", within=path)


def render(material: Material, *, version: str | None = None) -> Page:
    """The page. A live one carries the `version` it shows and asks its server whether there is another."""
    parts = view.parts(material)
    registration = material.study.registration if material.study else None
    changes = varies(registration) if registration else {}
    shown = sections.shown(material)
    section_data = {one.name: one.data(material) for one in shown if one.data is not None}
    films, downloads = videos(material), _downloads(material)
    data = payload(material) | {
        "sections": {one.name: section_data[one.name] for one in shown if one.script and one.data is not None},
        "replay": (replay := replay_command(material)),
        "study": material.study is not None,
        "version": version,
    }
    bundled, columns = bundle(data)
    script = _script(tuple(f"{one.name}.js" for one in shown if one.script))
    text = (
        environment()
        .get_template("page.html")
        .render(
            name=material.name,
            sections=shown,
            section_data=section_data,
            parts=parts,
            sides=SIDES,
            following=deployments.following(material),
            read_as=read_as(material.score),
            costs=material.score.higher_is_better is False,
            question=arms.question(material, parts),
            predicted=predictions_answered([one for part in parts for one in part.score.predictions]),
            aggregates=arms.aggregates(material),
            compare_axis=functools.partial(view.compare_axis, parts),
            sweeps=arms.sweeps(material, parts),
            swept=arms.sweep_answers(material, parts),
            varies=changes,
            update=update_words(registration) if registration else "",
            several_arms=len(material.score.arms) > 1,
            several_directions=len({cell.direction for cell in _cells(material)}) > 1,
            corrected=corrected(material.score),
            fraction=material.rules.divergence,
            videos=films,
            watchable=bool(films) or replay is not None,
            record=record(material),
            ignored=material.table.ignored,
            tables_inside=bool(downloads) or (material.file is None and material.study is None),
            undefined=_by_reason(material),
            permutations=material.rules.permutations,
            threshold_permutations=threshold_permutations(
                material.rules, max(len(part.score.evidence.forks) for part in parts)
            ),
            terms=_terms(material),
            made_by=f"worldfork {__version__}",
            style="\n".join((FOLDER / name).read_text(encoding="utf-8") for name in STYLES),
            script=script,
            policy=_policy(script, live=version is not None),
            ledger=embed(bundled),
            columns=columns,
            tables=embed(downloads),
        )
    )
    return Page(text)


@functools.cache
def environment() -> jinja2.Environment:
    """Where the templates are, and how they spell numbers."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= filters.FILTERS
    templates.tests["figure"] = filters.is_figure
    return templates


@functools.cache
def _script(of_sections: tuple[str, ...]) -> str:
    """The scripts in one function, so that they leave no name behind; it waits until the columns are inflated."""
    joined = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in (*TOOLS, *of_sections, LAST))
    return f'"use strict";\n(async () => {{\n{joined}\n}})();'


def _policy(script: str, *, live: bool) -> str:
    """Only this very script may run, and only a live page may ask its own server anything."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    asks = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        f"media-src data:; connect-src {asks}; base-uri 'none'; form-action 'none'"
    )


def _terms(material: Material) -> dict[str, str]:
    """The words to explain: whether branches met the same draws, only a study says; never is a policy of some."""
    unused = {"common random numbers"} if material.study is None else set()
    if not material.score.deployment:
        unused |= {"never", "by the ledger"}
    return {word: means for word, means in TERMS.items() if word not in unused}


def _cells(material: Material) -> list[CellKey]:
    return [
        cell
        for arm in material.score.arms.values()
        for score in arm.tasks.values()
        for cell in score.evidence.forks.prefork.cells
    ]


def _by_reason(material: Material) -> list[tuple[str, list[str]]]:
    """Undefined figures by their reason, the commonest first."""
    figures: dict[str, list[str]] = {}
    _, reasons = settle({"arms": material.score.arms, "contrasts": material.score.contrasts})
    for reason in reasons:
        figures.setdefault(reason["why"], []).append(reason["figure"])
    return sorted(figures.items(), key=lambda item: -len(item[1]))


def _downloads(material: Material) -> list[object]:
    """The flat table: as `worldfork export` writes it, or the file that was given; a large page has none."""
    if size(material) > SMALL_PAGE:
        return []
    if material.study is None:
        return [] if material.file is None else [_download(material.file.name, material.file.read_bytes())]
    frame = flat_frame(material.rows)
    return [_download(f"{material.name}{suffix}", encode(frame, suffix)) for suffix in (".csv", ".parquet")]


def _download(name: str, data: bytes) -> dict[str, object]:
    return {"name": name, "base64": base64.b64encode(data).decode(), "bytes": len(data)}
