"""The answer to "was updating worth it?", in sentences: of one task, of two arms, and of what was corrected."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from worldfork.counting import plural
from worldfork.desk.scoring.judgement import Grade
from worldfork.desk.scoring.records import Contrast, TaskScore
from worldfork.desk.scoring.result import Score
from worldfork.desk.scoring.summary import ContrastGrade, Helped, Scale, helped, scale
from worldfork.desk.scoring.undefined import Undefined
from worldfork.desk.wording.advice import Advice, advise, not_beaten, trigger_words
from worldfork.desk.wording.numbers import digits_for, known, listed, number, percent, with_span

__all__ = [
    "UNIT",
    "Answer",
    "ContrastAnswer",
    "answer",
    "contrast_answer",
    "contrast_summary",
    "corrected",
    "read_as",
]

UNIT: Final = " return per episode"
WORDS: Final = {"harmful": "Updating hurts", "helpful": "Updating helps", "unresolved": "Not resolved"}


MANY: Final = 6  # verdicts of one study, beyond which screen and index say each in a line, or count them


@dataclasses.dataclass(frozen=True)
class Answer:
    """One task in one arm: what it says in a word, in a sentence, and what to do."""

    word: str
    verdict: str  # harmful, helpful, unresolved, undecided
    grade: Grade | None
    mean: str  # with its interval
    scale: Scale
    of: str  # in per cent of the frozen and of the clean return; empty where neither is positive
    helped: Helped
    diverged: str  # how many forks did, as the end of a sentence; empty where none did
    advice: Advice
    triggers: str  # whether any candidate knew when to update
    not_beaten: str  # which trigger comes nearest to being useful; empty where one is

    @property
    def graded(self) -> str:
        """The grade where it adds anything: a mean that is unresolved says so already."""
        return self.grade or "no interval" if self.verdict != "unresolved" else ""

    @property
    def helped_words(self) -> str:
        """How often updating helped, and how many updates diverged: the mean beside it has these in it."""
        share, low, high = (
            percent(part, signed=False) for part in (self.helped.share, self.helped.low, self.helped.high)
        )
        spread = "" if low == high else f" ({low} to {high} by checkpoint)"
        return f"Updating helped at {share} of the decision points{spread}{self.diverged}"

    @property
    def sentence(self) -> str:
        """The verdict, its grade, its size."""
        graded = f" ({self.graded})" if self.graded else ""
        of = f", {self.of}" if self.of else ""
        return f"{self.word}{graded}: {self.mean} return per episode{of}."


@dataclasses.dataclass(frozen=True)
class ContrastAnswer:
    """Two arms on one task."""

    first: str
    second: str
    task: str
    grade: Grade | None
    difference: str  # with its interval
    sentence: str


def answer(score: TaskScore) -> Answer:
    """What one task says, on all attempted forks."""
    effect, shown, forks = score.effect.all_attempted, scale(score), score.forks
    verdict = known(score.verdict) or "undecided"
    return Answer(
        word=WORDS.get(verdict, "Not decided") if score.evidence.forks.delta.any() else "No difference",
        verdict=verdict,
        grade=known(score.judgement.grade),
        mean=with_span(effect.mean, effect.student_t, digits_for(effect)),
        scale=shown,
        of=_of(shown),
        helped=helped(score),
        diverged=f"; {forks.diverged} of {plural(forks.attempted, 'fork')} diverged" if forks.diverged else "",
        advice=advise(score),
        triggers=trigger_words(score),
        not_beaten=not_beaten(score),
    )


def contrast_answer(
    pair: str, task: str, contrast: Contrast | Undefined, grade: ContrastGrade | None
) -> ContrastAnswer:
    """One arm less another, in a sentence."""
    first, _, second = pair.partition(" - ")
    if isinstance(contrast, Undefined) or grade is None:
        why = contrast.why if isinstance(contrast, Undefined) else "undefined"
        return ContrastAnswer(first, second, task, None, "undefined", f"{task}: {why}.")
    digits = digits_for(contrast)
    graded = None if isinstance(grade.grade, Undefined) else grade.grade
    difference = with_span(contrast.mean, contrast.student_t, digits)
    mean = known(contrast.mean)
    if graded in ("resolved", "leaning") and mean is not None:
        comparison = f"{'better' if mean > 0 else 'worse'} ({graded})"
    else:
        comparison = "not resolved"
    return ContrastAnswer(
        first,
        second,
        task,
        graded,
        difference,
        f"{task}: {first} less {second} is {difference}, {comparison}; "
        f"updating is worth {number(contrast.first, digits)} with the one and "
        f"{number(contrast.second, digits)} with the other.",
    )


def contrast_summary(
    pair: str,
    answers: Sequence[ContrastAnswer],
    contrasts: Mapping[str, Contrast | Undefined],
    *,
    sized: bool = False,
) -> str:
    """All tasks of two arms in one sentence: which speak for which arm, and how surely. Where even the better one
    loses, updates cost less with it: "worth more" would read as if it paid.

    `sized` adds the difference where there is one task; those of several stand in a table.
    """
    first, _, second = pair.partition(" - ")
    differing: dict[str, list[str]] = {}
    neither: list[str] = []
    for one in answers:
        contrast = contrasts[one.task]
        mean = None if isinstance(contrast, Undefined) else known(contrast.mean)
        if mean is None or isinstance(contrast, Undefined) or one.grade not in ("resolved", "leaning"):
            neither.append(one.task)
            continue
        both = [known(contrast.first), known(contrast.second)]
        lose = all(value is not None and value < 0 for value in both)
        verb = ("cost less" if mean > 0 else "cost more") if lose else f"are worth {'more' if mean > 0 else 'less'}"
        differing.setdefault(verb, []).append(f"{one.task} ({one.grade})")
    parts = [
        f"updates {verb} with {first} than with {second} on {listed(tasks)}" for verb, tasks in differing.items()
    ]
    if neither:
        between = "" if parts else f" between {first} and {second}"
        parts.append(f"no difference{between} can be told on {listed(neither)}")
    text = "; ".join(parts)
    if sized and text and len(answers) == 1 and answers[0].difference != "undefined":
        text += f": {answers[0].difference}{UNIT}"
    return f"{text[0].upper()}{text[1:]}." if text else f"{first} and {second} have no task in common."


def corrected(score: Score) -> str:
    """What was corrected for how many tests."""
    means, candidates = len(score.family.means), len(score.family.candidates)
    where = "registered" if score.family.registered else "in the table"
    parts = []
    if means > 1:
        parts.append(f"Verdicts are corrected (Holm) over the {plural(means, 'mean')} {where}")
    if candidates:
        over = f" \N{MULTIPLICATION SIGN} {plural(means, 'mean')} = {candidates * means} tests" if means > 1 else ""
        subject = "triggers" if parts else "Triggers are corrected (Holm)"
        parts.append(f"{subject} over {plural(candidates, 'candidate')}{over}")
    if not parts:
        return "One mean, no candidate trigger: nothing to correct for."
    return f"{', '.join(parts)}. References are not tested."


def read_as(score: Score) -> list[str]:
    """How a flat table was read: which of two returns is the better one, and what failed; nothing of a study."""
    if score.higher_is_better is None:
        return []
    words = [
        "Larger is better: dR is r_update less r_hold."
        if score.higher_is_better
        else "Smaller is better: a return is a cost with its sign turned, so dR is r_hold less r_update."
    ]
    if score.failed:
        (failure,) = {
            one.evidence.forks.failure_return for arm in score.arms.values() for one in arm.tasks.values()
        }
        cost = failure if score.higher_is_better or failure is None else 0.0 - failure
        words.append(
            f"{plural(len(score.failed), 'row')} with a return that is missing or not finite: such a branch counts "
            f"as {cost:g} among all attempted forks, and its fork is not retained."
        )
    return words


def _of(shown: Scale) -> str:
    shares = []
    if not isinstance(shown.of_frozen, Undefined):
        frozen = f"{shown.frozen:,.{_digits(shown.frozen)}f}"
        shares.append(f"{percent(shown.of_frozen)} of the {frozen} that the frozen model returned")
    if not isinstance(shown.of_clean, Undefined) and not isinstance(shown.clean, Undefined):
        clean = f"{shown.clean:,.{_digits(shown.clean)}f}"
        shares.append(f"{percent(shown.of_clean)} of its {clean} in the clean world")
    return ", ".join(shares)


def _digits(value: float) -> int:
    return 0 if value >= 100 else 1 if value >= 10 else 2
