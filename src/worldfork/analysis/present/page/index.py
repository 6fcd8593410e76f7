"""A page over many studies: a line for each, to find and to sort, and what is resolved, task by task."""

import dataclasses
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.page import Page, environment, page_name, policy, render, script, style
from worldfork.analysis.present.page.view import parts
from worldfork.analysis.present.strips import Strip
from worldfork.analysis.present.table import Cell, Cells, Row, Table
from worldfork.analysis.present.text.answers import MANY, VERBS, Answer, read_as
from worldfork.analysis.present.text.arms import contrast_headlines, summarise_pairs
from worldfork.analysis.present.text.deployments import followed_answer
from worldfork.analysis.present.text.formatting import defined, number, percent, span
from worldfork.analysis.present.text.stopping import GradedMean, graded_mean
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.undefined import Undefined
from worldfork.errors import WorldforkError
from worldfork.ledger.archive import is_archive, nearest_study
from worldfork.ledger.recorded import is_recorded
from worldfork.ledger.store import Study
from worldfork.ledger.verify import root
from worldfork.progress import Notify, ignore

SUREST: Final = {"resolved": 0, "leaning": 1}
EARLIER: Final = "-earlier"  # how the name of a study ends that was run again


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Verdict of one task in one arm, without the forks behind it: an index may be over many studies."""

    task: str
    arm: str  # as readers know it; empty where there is one
    name: str
    answer: Answer
    graded: GradedMean  # over all attempted forks
    checkpoints: int
    forks: str  # digest of what they are and what they returned: studies may share them


@dataclasses.dataclass(frozen=True)
class Line:
    """A study: its question, its verdicts, and where its page lies."""

    name: str
    registered: str  # the name of its registration, where that is another one
    question: str
    verdicts: Sequence[Verdict]  # every task of every arm; the arms of a task below one another
    answers: Sequence[str]  # a sentence for each task with deployments, and for each pair of arms
    forks: int
    root: str  # of a study; a flat table has none
    address: str  # of its page, as the index links it

    @property
    def many(self) -> bool:
        """True where verdicts are counted, and listed where a reader asks."""
        return len(self.verdicts) > MANY

    @property
    def tasks(self) -> list[str]:
        """Every task once."""
        return list(dict.fromkeys(verdict.task for verdict in self.verdicts))

    @property
    def kinds(self) -> set[str]:
        """Verdicts that a reader can filter by: "helpful", "harmful", "unresolved"; and "resolved"."""
        grades = {"resolved" for verdict in self.verdicts if verdict.answer.grade == "resolved"}
        return grades | {verdict.answer.verdict for verdict in self.verdicts}

    @property
    def largest(self) -> float:
        """The largest mean dR as a share of the frozen return, by which studies can be sorted."""
        shares = [verdict.answer.scale.of_frozen for verdict in self.verdicts]
        return max((share for share in shares if isinstance(share, float)), default=0.0)

    @property
    def counted(self) -> str:
        """Number of verdicts of each kind, the surest first."""
        kinds = Counter(
            (verdict.answer.graded, VERBS.get(verdict.answer.verdict, verdict.answer.word.lower()))
            for verdict in self.verdicts
        )
        words = []
        for (grade, word), count in sorted(kinds.items(), key=lambda kind: SUREST.get(kind[0][0], len(SUREST))):
            verb = word.removesuffix("s") if count > 1 and word in ("helps", "hurts") else word
            words.append(f"{count} {verb}{f' ({grade})' if grade else ''}")
        return ", ".join(words)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The means of one task, whichever study they are from."""

    task: str
    rows: Sequence[tuple[Line, Verdict]]  # that are resolved, the largest first
    others: Sequence[tuple[Line, Verdict]]  # leaning or not resolved

    @property
    def table(self) -> Table:
        """Those that are resolved, on one line; each leads to the page of its study."""
        by_rule = any(verdict.graded.by_rule for _, verdict in self.rows)
        rows: list[Row] = []
        first_of: dict[str, str] = {}
        for line, verdict in self.rows:
            graded, share = verdict.graded, verdict.answer.scale.of_frozen
            arm = verdict.arm if verdict.arm != line.name else ""
            # Studies may share forks: a row about those of an earlier one names its study.
            if (first := first_of.setdefault(verdict.forks, line.name)) != line.name:
                arm = f"{arm} (same forks as {first})".lstrip()
            cells: Cells = [
                ("mean dR", number(graded.mean, graded.digits)),
                ("95%", span(graded.interval, graded.digits)),
                ("of frozen", "" if isinstance(share, Undefined) else percent(share)),
                ("checkpoints", str(graded.checkpoints)),
            ]
            key = (Cell(line.name, link=quote(line.address)), arm)
            rows.append(Row(key, cells, Strip(mean=graded.mean, student_t=graded.interval)))
        return Table.of(
            self.task,
            f"{self.task}: {len(self.rows)} resolved. Dot and line: mean dR with the 95% interval over checkpoints "
            f"that resolved it: Student-t{', of a study that stops that of its rule' if by_rule else ''}.",
            ("study", "arm"),
            rows,
        )


def _digest(forks: Forks) -> str:
    """Return a digest of what both branches of every fork returned, with every digit, in whatever order."""
    pairs = zip(forks.outcomes.r_hold.tolist(), forks.outcomes.r_update.tolist(), strict=True)
    return hashlib.sha256(repr(sorted(pairs)).encode()).hexdigest()


def index_line(material: Material, page: Path, *, index: Path, name: str = "") -> Line:
    """Return a ledger's line, for an index at `index` that links its page at `page`. `name` is what tells it from
    another ledger of the same registration."""
    score, study = material.score, material.study
    followed = [followed_answer(task, deployed) for task, deployed in score.deployment.items()]
    shown = parts(material)
    order = list(dict.fromkeys(part.task for part in shown))
    return Line(
        name=name or material.name,
        registered=material.name if name not in ("", material.name) else "",
        question=study.registration.about if study else material.question or " ".join(read_as(score)),
        verdicts=[
            Verdict(
                task=part.task,
                arm=part.label if part.several else "",
                name=part.name,
                answer=part.answer,
                graded=graded_mean(part.score),
                checkpoints=part.score.effect.all_attempted.clusters,
                forks=_digest(part.score.evidence.forks),
            )
            for part in sorted(shown, key=lambda part: order.index(part.task))
        ],
        answers=[
            *(f"{answer.task}: {answer.sentence}" if len(followed) > 1 else answer.sentence for answer in followed),
            *contrast_headlines(summarise_pairs(score)),
        ],
        forks=sum(part.score.forks.attempted for part in shown),
        root=root(study) if study else "",
        address=Path(os.path.relpath(page, index.parent)).as_posix(),
    )


def write_index(
    ledgers: Sequence[Path], index: Path, read: Callable[[Path], Material], *, notify: Notify = ignore
) -> Page:
    """Write a page for each ledger, and beside them the index that links them.

    A ledger that can not be read is named in an error when the others are written.

    Args:
        ledgers: studies or flat tables; their names become those of the pages.
        index: where the index goes.
        read: reads and scores a ledger.
        notify: is told of each page that was written.
    """
    names = [page_name(ledger) for ledger in ledgers]
    if repeated := sorted({name for name in names if names.count(name) > 1 or name == index.stem}):
        raise WorldforkError(
            f"Pages beside one another need names of their own; these would collide: {', '.join(repeated)}."
        )
    # A ledger that is none is refused before the others are scored, which can take minutes.
    for ledger in ledgers:
        if is_recorded(ledger):
            continue
        if (ledger.is_file() and is_archive(ledger)) or (ledger / "registration.json").is_file():
            continue  # a study, whether or not it can be read
        if ledger.is_dir() or is_archive(ledger):
            Study(ledger).registered()
        elif not ledger.is_file():
            raise WorldforkError(f"There is no `{ledger}`: name studies, or flat tables.{nearest_study(ledger)}")
    lines, unread = [], []
    for count, (name, ledger) in enumerate(zip(names, ledgers, strict=True), start=1):
        place = index.parent / f"{name}.html"
        try:
            material = read(ledger)
        except WorldforkError as error:
            unread.append(f"`{ledger}` has no page: {error}")
            notify(f"{count} of {len(names)}: {unread[-1]}")
            continue
        render(material, index=index.name).save(place)
        lines.append(index_line(material, place, index=index, name=name))
        notify(f"{count} of {len(names)}: {place}")
    page = render_index(lines).save(index) if lines else None
    if page is None or unread:
        written = f" {index} has the other {len(lines)}." if lines else " Nothing was written."
        raise WorldforkError(" ".join(unread) + written)
    return page


def compared(lines: Sequence[Line]) -> list[Comparison]:
    """Return every task that has a resolved mean in some study."""
    found = []
    for task in dict.fromkeys(task for line in lines for task in line.tasks):
        every = [(line, verdict) for line in lines for verdict in line.verdicts if verdict.task == task]
        resolved = [(line, verdict) for line, verdict in every if verdict.answer.grade == "resolved"]
        if resolved:
            resolved.sort(key=lambda row: -(defined(row[1].graded.mean) or 0.0))
            found.append(Comparison(task, resolved, [row for row in every if row[1].answer.grade != "resolved"]))
    return found


def _place(line: Line) -> tuple[bool, int, str]:
    """Return the key that puts a study with many checkpoints first, and one that was run again last."""
    most = max((verdict.checkpoints for verdict in line.verdicts), default=0)
    return line.name.endswith(EARLIER), -most, line.name


def render_index(lines: Sequence[Line]) -> Page:
    """Return the index; studies with most checkpoints first."""
    program, lines = script("index.js"), sorted(lines, key=_place)
    template = environment().get_template("index.html")
    return Page(
        template.render(
            lines=lines,
            comparisons=compared(lines),
            tasks=list(dict.fromkeys(task for line in lines for task in line.tasks)),
            style=style(),
            script=program,
            policy=policy(program),
            terms=TERMS,
        )
    )
