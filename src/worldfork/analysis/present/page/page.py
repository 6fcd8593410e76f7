"""The page: one HTML file that opens from disk, asks the network for nothing, and keeps every text a text.

The templates (`files/*.html`) say where the sentences and tables of `text` and `tables` stand; the scripts there
draw what is to be handled, from one JSON value (`payload`). Jinja escapes whatever comes from a registration or a
table; marked safe are only the package's own style and script, and tables that `render.html` has escaped.
"""

import base64
import dataclasses
import functools
import hashlib
import html
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from worldfork.analysis.present import render as media
from worldfork.analysis.present import tables
from worldfork.analysis.present.page import sections, view
from worldfork.analysis.present.page.deployments import panels
from worldfork.analysis.present.page.material import Material, gather
from worldfork.analysis.present.page.payload import (
    SIDES,
    SMALL_PAGE,
    compressed,
    payload,
    size,
    threshold_permutations,
)
from worldfork.analysis.present.page.record import record
from worldfork.analysis.present.page.videos import replay_command, videos
from worldfork.analysis.present.summary import sweeps
from worldfork.analysis.present.table import Block, Paragraph, Table
from worldfork.analysis.present.tables import design, effects
from worldfork.analysis.present.tables.deployments import ORDERS, orders
from worldfork.analysis.present.tables.deployments import deployments as followed_policies
from worldfork.analysis.present.text import value
from worldfork.analysis.present.text.answers import corrected, predictions_answered, read_as, undefined_figures
from worldfork.analysis.present.text.arms import contrast_headlines, summarise_pairs, why_compared
from worldfork.analysis.present.text.deployments import followed_answer, forecast_words
from worldfork.analysis.present.text.formatting import minus, number
from worldfork.analysis.present.text.stopping import GRADED_BY_RULE, outcome_words, question_answers, rule_words
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.present.text.triggers import triggers_everywhere
from worldfork.analysis.read.files import encode
from worldfork.analysis.read.frames import flat_frame
from worldfork.analysis.read.ledger import Source
from worldfork.analysis.score import Score
from worldfork.analysis.score.deployment_records import TaskDeployment
from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.ledger import files
from worldfork.ledger.archive import is_archive, locate, name_of
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
    """Return where a ledger's page goes when nobody says otherwise."""
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
    return path / "report" / "index.html"


def page_name(ledger: Path) -> str:
    """Return what a page is called: as its study, or as its table."""
    return name_of(ledger) if ledger.is_dir() or is_archive(ledger) else ledger.stem


def render(material: Material, *, version: str | None = None, index: str = "") -> Page:
    """Return the page. `index` is the address of the index that links it, where there is one. A live page carries
    the `version` it shows and asks its server whether there is another."""
    score, provenance = material.score, record(material)
    parts, films, replay = view.parts(material), videos(material), replay_command(material)
    seeds = provenance.seeds if provenance else ()
    downloads = _downloads(material)
    facts = {"replay": replay, "study": material.study is not None, "version": version, "downloads": downloads}
    program, scores = script(), tables.scores_of(score)
    template = environment().get_template("page.html")
    return Page(
        template.render(
            material=material,
            score=score,
            index=index,
            groups=sections.grouped(material),
            per_part=sections.PER_PART,
            parts=parts,
            followed=[_followed(task, deployed) for task, deployed in score.deployment.items()],
            sweeps=list(sweeps(score)),
            overview=effects.overview(scores),
            means={side: tables.without_lone_arm(effects.means(scores, side)) for side in SIDES},
            predictions=tables.without_lone_arm(effects.predictions(scores)),
            arms=_compared(score),
            headlines=contrast_headlines(summarise_pairs(score)),
            gate=design.gate(seeds),
            figures=tables.all_tables(score, seeds=seeds),
            read_as=read_as(score),
            corrected=corrected(score),
            predicted=predictions_answered(
                [answer for part in parts for answer in part.score.predictions], stopped=score.stopping is not None
            ),
            triggers=triggers_everywhere({part.name: part.score for part in parts}),
            record=provenance,
            undefined=sorted(undefined_figures(score).items(), key=lambda item: -len(item[1])),
            videos=films,
            watchable=bool(films) or replay is not None,
            terms=_terms(material),
            threshold_permutations=threshold_permutations(
                material.score.rules, max(len(part.score.evidence.forks) for part in parts)
            ),
            made_by=f"worldfork {__version__}",
            style=style(),
            script=program,
            policy=policy(program, live=version is not None),
            ledger=compressed(payload(material) | facts),
            downloads=downloads,
        )
    )


def _followed(task: str, deployed: TaskDeployment) -> Mapping[str, object]:
    """Return what is shown of a task's deployments: the answer, every policy, orders by forecasts, and charts."""
    alone = {task: deployed}
    caption = (
        "Each policy less never: the difference of the mean return of an episode, on the cells both have. Line: "
        "Student-t 95%; dots: checkpoints; diamond: what the one-step ledger says of it; beyond a double line the "
        "scale is coarser; updates: of one deployment. Grades are corrected over "
        f"{plural(deployed.family, 'comparison')} (Holm)."
    )
    if any(outcome.diverged for outcome in deployed.policies.values()):
        caption += " Where deployments diverged, the line is drawn for the others."
    return {
        "task": task,
        "deployed": deployed,
        "answer": followed_answer(task, deployed),
        "table": dataclasses.replace(followed_policies(alone).without("Task").brief(), caption=caption),
        "orders": dataclasses.replace(orders(alone).without("Task"), caption=ORDERS),
        "panels": panels(deployed),
    }


def _compared(score: Score) -> Table:
    table = design.arms(score, ("all_attempted",)).without("Forks").brief()
    return dataclasses.replace(table, caption=f"{why_compared(score)} {table.caption}".lstrip())


def shown(table: Table) -> Markup:
    """Return a table below its caption; it scrolls by itself where there is no room, and can be saved as CSV."""
    return Markup(
        '<div class="captioned"><p class="caption">{}</p></div>'
        '<div class="scroll" tabindex="0" role="region" aria-label="{}" data-export="{}">{}</div>'
    ).format(
        minus(table.caption),
        table.caption,
        table.label,
        html_of([dataclasses.replace(table, caption="")]),
    )


def html_of(blocks: Iterable[Block]) -> Markup:
    """Return blocks as they are shown in a page: the renderer escapes every text."""
    return Markup("\n".join(media.html(block, charts=True) for block in blocks))  # noqa: S704 - escaped cell by cell


def _ticked(text: str) -> Markup:
    """Return a sentence with what stands between backticks as code."""
    pieces = [
        Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece)
        for place, piece in enumerate(text.split("`"))
    ]
    return Markup("").join(pieces)


@functools.cache
def environment() -> jinja2.Environment:
    """Return the templates, with what they show sentences, tables and charts by."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "minus": minus,
        "number": number,
        "ticked": _ticked,
        "crossing_words": value.crossing_words,
        "curve_lead": value.curve_lead,
        "skew_words": value.skew_words,
        "forecast_words": forecast_words,
        "outcome_words": outcome_words,
        "question_answers": question_answers,
        "rule_words": rule_words,
    }
    templates.globals |= {
        "shown": shown,
        "html": html_of,
        "strip": lambda axis, drawn: Markup(media.strip(axis, drawn)),  # noqa: S704 - places and numbers alone
        "axis_line": lambda axis: Markup(media.axis_line(axis)),  # noqa: S704 - numbers alone
        "place": media.place,
        "crossing_caveat": value.CROSSING_CAVEAT,
        "curve_caveat": value.CURVE_CAVEAT,
        "nowhere": Paragraph("Nowhere along the drift is dR told from 0."),
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


def _terms(material: Material) -> dict[str, str]:
    """Return the words to explain: whether branches met the same draws, only a study says; never is a policy."""
    unused = {"common random numbers"} if material.study is None else set()
    if not material.score.deployment:
        unused |= {"never", "by the ledger"}
    if not any(deployed.has_trials for deployed in material.score.deployment.values()):
        unused |= {"kept"}
    graded = {} if material.score.stopping is None else GRADED_BY_RULE
    return {word: means for word, means in {**TERMS, **graded}.items() if word not in unused}


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
