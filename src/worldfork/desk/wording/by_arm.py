"""Is updating worth it at all, with each arm by itself? A difference between arms does not say."""

from collections.abc import Mapping, Sequence
from typing import Final

from worldfork.desk.wording.answers import Answer
from worldfork.desk.wording.numbers import listed

__all__ = ["worth_by_arm"]

MOST_NAMED: Final = 4  # arms of which the same is said, by their names
VERBS: Final = {"harmful": "hurts", "helpful": "helps"}


def worth_by_arm(answers: Mapping[str, Mapping[str, Answer]]) -> str:
    """What updating comes to with each arm (answers by arm, then task); arms that say the same stand together.

    On one task an arm that helps or hurts has its mean beside its name; of several, the cards have them.
    """
    arms: dict[str, list[str]] = {}
    for arm, by_task in answers.items():
        arms.setdefault(_outcome(by_task), []).append(f"{arm}{_size(by_task)}")
    if len(arms) == 1 and len(answers) > MOST_NAMED and not any(map(_size, answers.values())):
        return f"With each of the {len(answers)} arms {next(iter(arms))}."
    return " ".join(
        f"With {'arm' if len(names) == 1 else 'arms'} {listed(names)} {outcome}." for outcome, names in arms.items()
    )


def _size(by_task: Mapping[str, Answer]) -> str:
    if len(by_task) != 1:
        return ""
    (one,) = by_task.values()
    return f" ({one.mean.partition(' ')[0]})" if one.verdict in VERBS else ""


def _outcome(by_task: Mapping[str, Answer]) -> str:
    """One arm: on which tasks updating hurts, helps, or neither can be said."""
    parts = []
    for verdict, verb in VERBS.items():
        tasks = {task: one for task, one in by_task.items() if one.verdict == verdict}
        graded = [f"{task} ({one.graded})" for task, one in tasks.items()]
        if len(by_task) == 1:
            parts += [f"it {verb} ({one.graded})" for one in tasks.values()]
        elif graded:
            parts.append(f"it {verb} on {listed(graded)}")
    others: dict[str, list[str]] = {}
    for task, one in by_task.items():
        if one.verdict not in VERBS:
            others.setdefault(one.word, []).append(task)
    return "; ".join([*parts, *(_neither(word, tasks, by_task) for word, tasks in others.items())])


def _neither(word: str, tasks: Sequence[str], by_task: Mapping[str, Answer]) -> str:
    everywhere = len(tasks) == len(by_task)
    if word == "No difference":
        return "it makes no difference" if everywhere else f"it makes no difference on {listed(tasks)}"
    said = word[0].lower() + word[1:]
    if everywhere:
        return f"it is {said}{' on any task' if len(tasks) > 1 else ''}"
    return f"{listed(tasks)} {'is' if len(tasks) == 1 else 'are'} {said}"
