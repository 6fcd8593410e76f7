"""Every task of every arm as the templates print it: its sentences, its tables, and how its dR is distributed."""

import dataclasses
import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from jaxtyping import Float

from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.payload import SIDES, ordered_forks
from worldfork.analysis.present.strips import Axis, Strip, axis_of, round_up
from worldfork.analysis.present.summary import value_words
from worldfork.analysis.present.table import Paragraph, Table
from worldfork.analysis.present.tables import OF_TASKS
from worldfork.analysis.present.tables.effects import KEYS, mean_strip
from worldfork.analysis.present.tables.triggers import policies
from worldfork.analysis.present.tables.value import pays_at_a_price
from worldfork.analysis.present.text.answers import Answer, answer
from worldfork.analysis.present.text.arms import arm_words, set_apart, update_words
from worldfork.analysis.present.text.formatting import digits_for
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.undefined import Estimand
from worldfork.counting import plural

BARS: Final = 36  # about so many, whatever the range


@dataclasses.dataclass(frozen=True)
class Bar:
    """Forks with low <= dR < high, and their number as a share of the fullest bar's; exact zeros have their own."""

    low: float
    high: float
    forks: int
    share: float

    @property
    def side(self) -> str:
        """Side of zero that it lies on."""
        return "even" if self.low < 0 < self.high else "help" if self.low >= 0 else "hurt"


def bars(delta: Float[np.ndarray, "forks"]) -> list[Bar]:
    """Return the bars of a histogram that hold every fork; none straddles zero, and empty ones are left out."""
    reach = max(0.0, float(delta.max())) - min(0.0, float(delta.min()))
    # The smallest numbers there are have no thirty-sixth.
    width = round_up(max((reach or 1.0) / BARS, sys.float_info.min))
    place, counts = np.unique(np.floor(delta[delta != 0] / width).astype(np.int64), return_counts=True)
    zeros = int((delta == 0).sum())
    most = max(zeros, int(counts.max(initial=0)))
    shown = [
        Bar(index * width, (index + 1) * width, count, count / most)
        for index, count in zip(place.tolist(), counts.tolist(), strict=True)
    ]
    return [*shown, Bar(-width / 4, width / 4, zeros, zeros / most)] if zeros else shown


@dataclasses.dataclass(frozen=True)
class Part:
    """A task in one arm."""

    index: int
    arm: str
    task: str
    label: str  # the arm as readers know it
    differs: str  # what it has otherwise than the first arm, in a few words
    update: str  # what its arm does; empty where a registration does not say
    several: bool  # whether the study has other arms
    score: TaskScore
    extremes: Mapping[str, tuple[int, float]]  # the worst and the best fork: its place on the page, and its dR

    @property
    def name(self) -> str:
        """The task, behind the arm where there are several."""
        return f"{self.label} · {self.task}" if self.several and self.label else self.task

    @property
    def digits(self) -> int:
        """Decimals of an effect."""
        return digits_for(self.score.effect.all_attempted)

    @functools.cached_property
    def answer(self) -> Answer:
        """The verdict in words."""
        return answer(self.score)

    def value_words(self, *, in_card: bool = False) -> Sequence[Paragraph]:
        """Return where updates pay, what a trial is worth, and at which price which policy is best."""
        return list(value_words(self.score, in_card=in_card))

    @functools.cached_property
    def bars(self) -> list[Bar]:
        """Histogram of dR over all attempted forks."""
        return bars(self.score.evidence.forks.delta)

    @property
    def strip(self) -> Strip:
        """Mean over all attempted forks with the mean of every checkpoint."""
        return mean_strip(self.score)

    @functools.cached_property
    def axis(self) -> Axis:
        """A line for the histogram and the mean below it."""
        ends = tuple(end for bar in self.bars for end in (bar.low, bar.high))
        return axis_of([self.strip, Strip(mean=0.0, checkpoints=ends)], pad=0.02)

    def table(self, label: str) -> Table:
        """Return a table of this task and arm alone, without what a narrow screen leaves out."""
        return OF_TASKS[label]({("", ""): self.score}).without(*KEYS).brief()

    @property
    def pays_at_a_price(self) -> bool:
        """True where a table of prices has anything to say."""
        return pays_at_a_price(self.score)

    def rules(self, side: Estimand) -> Table:
        """Return what every rule gains, in groups."""
        table = policies({("", ""): self.score}, side).without(*KEYS)
        episodes = int(self.score.evidence.forks.prefork.k.max())
        count = self.score.effect[side].forks
        caption = (
            f"Return gained per deployment of {plural(episodes, 'episode')}, one after each decision point; "
            f"n = {count:,} {side.replace('_', ' ')} forks. Line: Student-t 95%; band: chance; beyond a "
            "double line the scale is coarser."
        )
        return dataclasses.replace(table, caption=caption, grouped=True)

    @property
    def sides(self) -> Sequence[Estimand]:
        """Sets of forks that differ: where nothing diverged, the retained are all that were attempted."""
        return SIDES if self.score.forks.diverged else SIDES[:1]

    @property
    def unreadable(self) -> Mapping[str, Sequence[str]]:
        """Triggers that are left out, by the reason."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.score.triggers_unavailable.items():
            reasons.setdefault(reason, []).append(name)
        return reasons


def parts(material: Material) -> list[Part]:
    """Return every task of every arm, in the order of the score."""
    score, registration = material.score, material.score.registration
    every = [(arm, task, figures) for arm, scored in score.arms.items() for task, figures in scored.tasks.items()]
    return [
        Part(
            index,
            arm,
            task,
            label=score.label(arm),
            differs=arm_words(registration, arm),
            update=(
                set_apart(registration, registration.arms[0].name, arm) or update_words(registration)
                if registration
                else ""
            ),
            several=len(score.arms) > 1,
            score=figures,
            extremes=_extremes(material, arm, task, figures),
        )
        for index, (arm, task, figures) in enumerate(every)
    ]


def _extremes(material: Material, arm: str, task: str, score: TaskScore) -> dict[str, tuple[int, float]]:
    """Return the worst and the best fork by their places in the page's order, which depends on the whole ledger."""
    forks = score.evidence.forks
    shown = ordered_forks(forks, material.rows, arm=arm, task=task)
    order = np.argsort(forks.delta, kind="stable")
    return {
        name: (shown.index.index(int(order[end])), float(forks.delta[order[end]]))
        for name, end in (("worst", 0), ("best", -1))
    }
