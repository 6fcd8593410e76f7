"""One page over many studies: a line each, with its question, its answer, how sure that is, and a link."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from worldfork.desk.page.material import Material
from worldfork.desk.page.page import FOLDER, STYLES, Page, environment
from worldfork.desk.wording import Answer, answer, contrast_headlines, followed_answer, summarise_pairs
from worldfork.ledger.verify import root

__all__ = ["Line", "index_line", "render_index"]


@dataclasses.dataclass(frozen=True)
class Line:
    """What the index says about one ledger."""

    name: str
    question: str
    answers: Sequence[tuple[str, Answer]]  # by task, with the arm where there are several
    contrasts: Sequence[str]  # one sentence for each pair of arms, and for each task whose policies were followed
    forks: int
    root: str  # of a study; a flat table has none
    address: str  # of its page, as the index links it


def index_line(material: Material, page: Path, *, index: Path) -> Line:
    """A ledger's line, for an index at `index` that links its page at `page`."""
    score, study = material.score, material.study
    several = len(score.arms) > 1
    contrasts = contrast_headlines(summarise_pairs(score))
    following = [followed_answer(task, one) for task, one in score.deployment.items()]
    contrasts += [f"{one.task}: {one.sentence}" if len(following) > 1 else one.sentence for one in following]
    tasks = dict.fromkeys(task for scored in score.arms.values() for task in scored.tasks)
    named = [  # the arms of a task below one another, as in the tables
        (f"{arm} · {task}" if several and arm else task, scored.tasks[task])
        for task in tasks
        for arm, scored in score.arms.items()
        if task in scored.tasks
    ]
    return Line(
        name=material.name,
        question=study.registration.about if study else "",
        answers=[(name, answer(figures)) for name, figures in named],
        contrasts=contrasts,
        forks=sum(figures.forks.attempted for _, figures in named),
        root=root(study) if study else "",
        address=Path(os.path.relpath(page, index.parent)).as_posix(),
    )


def render_index(lines: Sequence[Line]) -> Page:
    """The index: no script, nothing from elsewhere."""
    style = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in STYLES)
    return Page(environment().get_template("index.html").render(lines=lines, style=style))
