"""What became of what was said beforehand, in one sentence."""

from collections.abc import Sequence
from typing import Final

from worldfork.counting import plural
from worldfork.desk.scoring.records import PredictionAnswer
from worldfork.desk.wording.numbers import known, listed

__all__ = ["predicted_digits", "predictions_answered"]

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
