"""Update rules as a page or a screen shows them: in groups, and per deployment."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from worldfork.analysis.present.text.formatting import known, listed
from worldfork.analysis.present.text.terms import BEATEN
from worldfork.analysis.score.judgement import PredictionAnswer
from worldfork.analysis.score.records import ReferencePolicies, TaskScore, TriggerScore
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined
from worldfork.counting import plural


@dataclasses.dataclass(frozen=True)
class Rule:
    """One update rule. What it earns is per deployment, relative to never updating."""

    name: str
    term: str  # its definition among wording.TERMS, or nothing
    earned: Figure
    interval: Bounds | None  # over checkpoints
    fires: int | Undefined | None
    figures: TriggerScore | None = None
    chance: Figure | None = None
    chance_interval: Bounds | None = None

    @property
    def kind(self) -> str:
        """How its dot is drawn: untested, passes, or neither."""
        if self.figures is None or self.figures.standing == "reference":
            return "untested"
        return "passes" if self.figures.passes_control is True else ""

    @property
    def p(self) -> Figure | None:
        """The larger of the two corrected p values of its random controls; references have none."""
        if self.figures is None or self.figures.standing == "reference":
            return None
        return known(self.figures.control_p)

    @property
    def fails(self) -> list[str]:
        """What it should beat and does not."""
        useful = known(self.figures.useful) if self.figures else None
        return [BEATEN[name] for name in useful.does_not_beat] if useful else []


@dataclasses.dataclass(frozen=True)
class Group:
    """Rules that belong together, and what they are."""

    title: str
    term: str
    rules: Sequence[Rule]


def rule_groups(score: TaskScore, *, side: str) -> list[Group]:
    """Every rule: without a signal, registered candidates, others, and yardsticks apart from all of them."""
    fixed, triggers = score.policies[side], score.triggers[side]
    forks = score.forks.attempted if side == "all_attempted" else score.forks.retained
    by_standing: dict[str, list[Rule]] = {"candidate": [], "exploratory": [], "reference": []}
    for name, figures in triggers.items():
        by_standing[figures.standing].append(_trigger(name, figures))
    shown = [
        Group("Without a signal", "", [_fixed("always", "", fixed, forks)]),
        Group("Candidate triggers", "candidate", by_standing["candidate"]),
        Group("Not among candidates", "exploratory", by_standing["exploratory"]),
        Group(
            "References",
            "reference",
            [
                *by_standing["reference"],
                _fixed("position_table", "position table", fixed, None),
                _fixed("direction_clock", "direction clock", fixed, None),
                _fixed("oracle", "oracle", fixed, None),
            ],
        ),
    ]
    return [group for group in shown if group.rules]


def _fixed(name: str, term: str, fixed: ReferencePolicies, fires: int | None) -> Rule:
    of_deployment = fixed.per_deployment[name]
    return Rule(name.replace("_", " "), term, of_deployment.mean, of_deployment.student_t, fires)


def _trigger(name: str, figures: TriggerScore) -> Rule:
    of_deployment, random = figures.per_deployment, known(figures.random)
    return Rule(
        name,
        "",
        of_deployment.mean,
        None if isinstance(figures.earned, Undefined) else of_deployment.student_t,
        figures.fires,
        figures,
        None if random is None else of_deployment.random,
        None if random is None else of_deployment.random_interval,
    )


# What a prediction came to: of one, of several.
VERBS: Final = {
    "held": ("held", "held"),
    "falsified": ("was falsified", "were falsified"),
    "unresolved": ("is unresolved", "are unresolved"),
    "not tested": ("was not tested", "were not tested"),
}


def predictions_answered(answers: Sequence[PredictionAnswer]) -> str:
    """How many registered predictions held, and what became of the others; empty where there are none."""
    if not answers:
        return ""
    counts = {name: sum(one.answer == name for one in answers) for name in VERBS}
    came_to = [name for name, count in counts.items() if count]
    if len(came_to) == 1:
        (name,) = came_to
        all_of_them = {1: "The registered prediction", 2: "Both registered predictions"}
        who = all_of_them.get(len(answers), f"All {len(answers)} registered predictions")
        sentence = f"{who} {VERBS[name][len(answers) > 1]}"
    else:
        parts = [f"{counts[name]} {VERBS[name][counts[name] > 1]}" for name in came_to]
        sentence = f"Of {plural(len(answers), 'registered prediction')} {listed(parts)}"
    return f"{sentence}{_margins(answers) if came_to == ['held'] else ''}."


def predicted_digits(one: PredictionAnswer, digits: int) -> int:
    """Decimals of what was predicted: those of the task's returns, and two at least where all of it lies within 1,
    as correlations, slopes and shares do."""
    values = [known(one.value), *(known(one.interval) or ())]
    return max(digits, 2) if all(value is None or abs(value) <= 1 for value in values) else digits


def _margins(held: Sequence[PredictionAnswer]) -> str:
    """Where all that was predicted is that something makes no difference that would matter: how large one would."""
    margins = {one.equivalence.margin for one in held if one.equivalence is not None}
    if any(one.equivalence is None for one in held):
        return ""
    return f": equivalent within {f'±{margins.pop():g}' if len(margins) == 1 else 'their margins'}"
