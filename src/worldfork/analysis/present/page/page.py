"""The page: one HTML file that opens from disk, asks the network for nothing, and keeps every text a text.

The template (`files/page.html`) prints what is to be read; the scripts beside it draw what is to be handled, from
one JSON value (`payload`). Jinja escapes whatever comes from a registration or a table; marked safe are only the
package's own style and script, tables that `render.html` has escaped, and JSON that `embed` has made harmless.
"""

import base64
import dataclasses
import functools
import hashlib
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jinja2

from worldfork.analysis.present import render as media
from worldfork.analysis.present.page import arms, filters, sections, view
from worldfork.analysis.present.page.deployments import deployments
from worldfork.analysis.present.page.forks import SMALL_PAGE
from worldfork.analysis.present.page.material import Material, gather
from worldfork.analysis.present.page.packing import bundle
from worldfork.analysis.present.page.payload import embed, payload, size
from worldfork.analysis.present.page.record import record
from worldfork.analysis.present.page.thresholds import SIDES, threshold_permutations
from worldfork.analysis.present.page.videos import replay_command, videos
from worldfork.analysis.present.tables import all_tables
from worldfork.analysis.present.text.answers import corrected, predictions_answered, read_as
from worldfork.analysis.present.text.stopping import (
    GRADED_BY_RULE,
    outcome_words,
    question_answers,
    rule_words,
)
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.present.text.triggers import triggers_everywhere
from worldfork.analysis.present.text.value import CROSSING_CAVEAT, CURVE_CAVEAT
from worldfork.analysis.read.files import encode
from worldfork.analysis.read.frames import flat_frame
from worldfork.analysis.read.ledger import Source
from worldfork.analysis.score import Score
from worldfork.analysis.score.undefined import settle
from worldfork.errors import WorldforkError
from worldfork.ledger import files
from worldfork.ledger.archive import is_archive, locate, name_of
from worldfork.ledger.pretraining import Seed
from worldfork.ledger.store import Study
from worldfork.version import __version__

FOLDER: Final = Path(__file__).parent / "files"
STYLES: Final = ("base.css", "charts.css", "tables.css")
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
        """Return the page inside a frame of its own: it neither reads the notebook nor asks the network."""
        return (
            f'<iframe srcdoc="{html.escape(self.html, quote=True)}" width="100%" height="{NOTEBOOK_HEIGHT}" '
            'style="border:0" sandbox="allow-scripts allow-downloads"></iframe>'
        )


def write_page(source: Source, folder: str | Path | None = None, **options: Any) -> Page:
    """Read and score a ledger, and write its page.

    Args:
        source: a study, a flat table or a data frame.
        folder: where index.html goes; by default STUDY/report, or NAME.html beside a table or a study in one file.
            The page of a data frame is only returned, unless a folder is named.
        options: those of `gather`.
    """
    place = default_place(source) if folder is None else Path(folder) / "index.html"
    page = render(gather(source, **options))
    return page if place is None else page.save(place)


def default_place(source: Source) -> Path | None:
    """Return where a ledger's page goes when nobody says otherwise; never through a link out of the study."""
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


def page_name(ledger: Path) -> str:
    """Return what a page is called: as its study, or as its table."""
    return name_of(ledger) if ledger.is_dir() or is_archive(ledger) else ledger.stem


def render(material: Material, *, version: str | None = None, index: str = "") -> Page:
    """Return the page. `index` is the address of the index that links it, where there is one. A live page carries
    the `version` it shows and asks its server whether there is another."""
    parts = view.parts(material)
    films, downloads, replay = videos(material), _downloads(material), replay_command(material)
    facts = {"replay": replay, "study": material.study is not None, "version": version}
    bundled, columns = bundle(payload(material) | facts)
    program = script()
    most = max(len(part.score.evidence.forks) for part in parts)
    text = (
        environment()
        .get_template("page.html")
        .render(
            material=material,
            score=material.score,
            index=index,
            groups=sections.grouped(material),
            per_part=sections.PER_PART,
            parts=parts,
            sides=SIDES,
            deployments=deployments(material),
            stopping=_stopping(material.score),
            question=arms.question(material, parts),
            sweeps=arms.sweeps(material, parts),
            swept=arms.sweep_answers(material, parts),
            directions=_directions(parts),
            read_as=read_as(material.score),
            corrected=corrected(material.score),
            predicted=predictions_answered([answer for part in parts for answer in part.score.predictions]),
            triggers=triggers_everywhere({part.name: part.score for part in parts}),
            record=(provenance := record(material)),
            figures=_tables(material.score, provenance.seeds if provenance else ()),
            undefined=_by_reason(material),
            videos=films,
            watchable=bool(films) or replay is not None,
            terms=_terms(material),
            threshold_permutations=threshold_permutations(material.rules, most),
            made_by=f"worldfork {__version__}",
            style=style(),
            script=program,
            policy=policy(program, live=version is not None),
            ledger=embed(bundled),
            columns=columns,
            downloads=downloads,
            tables=embed(downloads),
        )
    )
    return Page(text)


@functools.cache
def environment() -> jinja2.Environment:
    """Return the templates, with the filters that spell numbers."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= filters.FILTERS
    templates.tests["figure"] = filters.is_figure
    templates.globals |= {
        "axis_of": view.axis,
        "compare_axis": view.compare_axis,
        "strip_of": view.effect_strip,
        "crossing_caveat": CROSSING_CAVEAT,
        "curve_caveat": CURVE_CAVEAT,
    }
    return templates


@functools.cache
def style() -> str:
    """Return the style of every page."""
    return "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in STYLES)


@functools.cache
def script(*names: str) -> str:
    """Return these scripts, by default those of the page, in one function: they leave no name behind, and it can
    wait until the columns are inflated."""
    every = names or (*TOOLS, *sections.scripts(), LAST)
    joined = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in every)
    return f'"use strict";\n(async () => {{\n{joined}\n}})();'


def policy(program: str, *, live: bool = False) -> str:
    """Return a policy by which only this very script may run, and only a live page may ask its own server."""
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    asks = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        f"media-src data:; connect-src {asks}; base-uri 'none'; form-action 'none'"
    )


def _stopping(score: Score) -> dict[str, object]:
    """Return the sentences about a study that stops; none about another."""
    if score.stopping is None:
        return {}
    return {
        "outcome": outcome_words(score.stopping),
        "answers": question_answers(score, score.stopping),
        "rule": rule_words(score.stopping),
    }


def _directions(parts: Sequence[view.Part]) -> set[str]:
    return {cell.direction for part in parts for cell in part.score.evidence.forks.prefork.cells}


def _terms(material: Material) -> dict[str, str]:
    """Return the words to explain: whether branches met the same draws, only a study says; never is a policy."""
    unused = {"common random numbers"} if material.study is None else set()
    if not material.score.deployment:
        unused |= {"never", "by the ledger"}
    graded = {} if material.score.stopping is None else GRADED_BY_RULE
    return {word: means for word, means in {**TERMS, **graded}.items() if word not in unused}


def _tables(score: Score, seeds: Sequence[Seed]) -> list[tuple[str, str]]:
    """Return every table of the score, with its caption beside it: captions are as long as paragraphs."""
    return [
        (table.caption, media.html(dataclasses.replace(table, caption="")))
        for table in all_tables(score, seeds=seeds)
    ]


def _by_reason(material: Material) -> list[tuple[str, list[str]]]:
    """Return undefined figures by their reason, the commonest first."""
    figures: dict[str, list[str]] = {}
    _, reasons = settle({"arms": material.score.arms, "contrasts": material.score.contrasts})
    for reason in reasons:
        figures.setdefault(reason["why"], []).append(reason["figure"])
    return sorted(figures.items(), key=lambda item: -len(item[1]))


def _downloads(material: Material) -> list[object]:
    """Return the flat table as `worldfork export` writes it, or the file that was given; a large page has none."""
    if size(material) > SMALL_PAGE:
        return []
    if material.study is None:
        return [] if material.file is None else [_download(material.file.name, material.file.read_bytes())]
    frame = flat_frame(material.rows)
    return [_download(f"{material.name}{suffix}", encode(frame, suffix)) for suffix in (".csv", ".parquet")]


def _download(name: str, data: bytes) -> dict[str, object]:
    return {"name": name, "base64": base64.b64encode(data).decode(), "bytes": len(data)}
