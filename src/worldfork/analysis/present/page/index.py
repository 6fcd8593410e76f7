"""One page over many studies: what is resolved, task by task on one axis; and a line for each study, with its
question, its answer, how sure that is, and a link."""

import dataclasses
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.page import FOLDER, STYLES, Page, environment
from worldfork.analysis.present.page.view import Axis, axis
from worldfork.analysis.present.text import (
    MANY,
    Answer,
    answer,
    contrast_headlines,
    digits_for,
    followed_answer,
    read_as,
    summarise_pairs,
)
from worldfork.analysis.score.records import Effect
from worldfork.analysis.score.undefined import Undefined
from worldfork.ledger.verify import root

__all__ = ["Comparison", "Line", "Verdict", "compared", "index_line", "render_index"]

SUREST = ("resolved", "leaning")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One task with one arm."""

    task: str
    arm: str
    name: str  # the task, with the arm where there are several
    said: Answer
    effect: Effect  # over all attempted forks

    @property
    def digits(self) -> int:
        return digits_for(self.effect)


@dataclasses.dataclass(frozen=True)
class Line:
    """What the index says about one ledger."""

    name: str
    registered: str  # the name of its registration, where that is another one
    question: str
    verdicts: Sequence[Verdict]
    contrasts: Sequence[str]  # one sentence for each pair of arms, and for each task whose policies were followed
    forks: int
    root: str  # of a study; a flat table has none
    address: str  # of its page, as the index links it

    @property
    def many(self) -> bool:
        """Whether verdicts are counted here, and listed where a reader asks."""
        return len(self.verdicts) > MANY

    @property
    def counted(self) -> str:
        """How many verdicts there are of each kind, the surest first."""
        kinds = Counter((one.said.graded, one.said.word.lower().removeprefix("updating ")) for one in self.verdicts)
        words = []
        for grade, word in sorted(
            kinds, key=lambda kind: SUREST.index(kind[0]) if kind[0] in SUREST else len(SUREST)
        ):
            count = kinds[grade, word]
            verb = word.removesuffix("s") if count > 1 and word in ("helps", "hurts") else word
            words.append(f"{count} {verb}{f' ({grade})' if grade else ''}")
        return ", ".join(words)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The means of one task that are resolved, whichever study they are from, the largest first."""

    task: str
    axis: Axis
    rows: Sequence[tuple[Line, Verdict]]
    leaning: int
    open: int  # neither resolved nor leaning


def index_line(material: Material, page: Path, *, index: Path, name: str = "") -> Line:
    """A ledger's line, for an index at `index` that links its page at `page`. `name` is what tells it from another
    ledger of the same registration."""
    score, study = material.score, material.study
    several = len(score.arms) > 1
    contrasts = contrast_headlines(summarise_pairs(score))
    following = [followed_answer(task, one) for task, one in score.deployment.items()]
    contrasts += [f"{one.task}: {one.sentence}" if len(following) > 1 else one.sentence for one in following]
    tasks = dict.fromkeys(task for scored in score.arms.values() for task in scored.tasks)
    verdicts = [  # the arms of a task below one another, as in the tables
        Verdict(
            task=task,
            arm=arm,
            name=f"{arm} · {task}" if several and arm else task,
            said=answer(scored.tasks[task]),
            effect=scored.tasks[task].effect.all_attempted,
        )
        for task in tasks
        for arm, scored in score.arms.items()
        if task in scored.tasks
    ]
    return Line(
        name=name or material.name,
        registered=material.name if name not in ("", material.name) else "",
        question=study.registration.about if study else " ".join(read_as(score)),
        verdicts=verdicts,
        contrasts=contrasts,
        forks=sum(figures.forks.attempted for scored in score.arms.values() for figures in scored.tasks.values()),
        root=root(study) if study else "",
        address=Path(os.path.relpath(page, index.parent)).as_posix(),
    )


def compared(lines: Sequence[Line]) -> list[Comparison]:
    """Every task that has a resolved mean in some study."""
    found = []
    for task in dict.fromkeys(one.task for line in lines for one in line.verdicts):
        every = [(line, one) for line in lines for one in line.verdicts if one.task == task]
        grades = Counter(one.said.grade for _, one in every)
        resolved = [(line, one) for line, one in every if one.said.grade == "resolved"]
        resolved.sort(key=lambda row: -_mean(row[1]))
        if resolved:
            found.append(
                Comparison(
                    task=task,
                    axis=axis([value for _, one in resolved for value in (one.effect.mean, one.effect.student_t)]),
                    rows=resolved,
                    leaning=grades["leaning"],
                    open=len(every) - len(resolved) - grades["leaning"],
                )
            )
    return found


def _mean(verdict: Verdict) -> float:
    mean = verdict.effect.mean
    return 0.0 if isinstance(mean, Undefined) else mean


def render_index(lines: Sequence[Line]) -> Page:
    """The index: no script, nothing from elsewhere."""
    style = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in STYLES)
    template = environment().get_template("index.html")
    return Page(template.render(lines=lines, comparisons=compared(lines), style=style))
