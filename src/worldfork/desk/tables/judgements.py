"""Tables of what the figures can be held to: the grade of every mean, and what each trigger does not beat."""

from collections.abc import Mapping

from worldfork.desk.scoring.judgement import Gain
from worldfork.desk.scoring.records import TaskScore
from worldfork.desk.tables.text_table import TextTable
from worldfork.desk.wording import DASH, digits_for, known, number, rate, span, with_span

__all__ = ["grades", "usefulness"]

Tasks = Mapping[str, TaskScore]
BEATEN = {
    "random": "random",
    "random_shift": "shifted",
    "swapped": "swapped",
    "better_of_both": "never and always",
    "position_table": "position table",
}


def grades(tasks: Tasks) -> TextTable:
    """Every mean with its tests over few checkpoints."""
    rows = []
    for task, score in tasks.items():
        judged, digits = score.judgement, digits_for(score.effect.all_attempted)
        without, more = known(judged.leave_one_out), known(judged.more_checkpoints)
        rows.append(
            (
                task,
                known(score.verdict) or DASH,
                known(judged.grade) or DASH,
                rate(judged.p_student_t),
                rate(judged.p_sign_flip),
                rate(judged.least_p),
                f"{rate(judged.adjusted_student_t)} / {rate(judged.adjusted_sign_flip)}",
                f"{number(without.low, digits)} to {number(without.high, digits)}" if without else DASH,
                span(judged.anytime, digits),
                DASH if more is None else str(more),
            )
        )
    return TextTable(
        "grades",
        "What each mean dR over all attempted forks can be held to. A verdict is resolved where the Student-t "
        "interval excludes 0 and both p values stay below .05 after Holm's adjustment over the registered means; "
        "leaning where only the interval does. Leave one out: where the end of the interval nearer to 0 lies "
        "without one checkpoint.",
        (
            *("Task", "verdict", "grade", "p, Student-t", "p, sign flips", "least p", "adjusted, t / flips"),
            *("leave one out", "anytime 95%", "checkpoints to resolve"),
        ),
        tuple(rows),
    )


def usefulness(tasks: Tasks) -> TextTable:
    """Every trigger against what it has to beat."""
    rows = []
    for task, score in tasks.items():
        digits = digits_for(score.effect.all_attempted) - 1
        for name, trigger in score.triggers_all_attempted.items():
            useful, gains, earned = known(trigger.useful), known(trigger.gains), known(trigger.earned)
            if useful is None or gains is None or earned is None:
                continue
            rows.append(
                (
                    task,
                    name,
                    trigger.standing,
                    with_span(earned.mean, earned.student_t, digits),
                    _gain(gains["better_of_both"], digits),
                    _gain(gains["position_table"], digits),
                    rate(swapped.p if (swapped := known(trigger.swapped)) else None),
                    "yes" if useful.useful else ", ".join(BEATEN[missed] for missed in useful.does_not_beat),
                )
            )
    return TextTable(
        "useful",
        "Triggers on all attempted forks: the mean total of a checkpoint with its Student-t 95% interval, what it "
        "earns more than the better of never and always and than a table that knows only direction and k, and the "
        "p value of the fires of other checkpoints. A useful trigger beats these and both random controls, "
        "adjusted over candidates, tasks and arms; otherwise the last column says what it does not beat.",
        (
            *("Task", "Trigger", "standing", "total of a checkpoint", "over never and always"),
            *("over the position table", "p, swapped", "useful"),
        ),
        tuple(rows),
        keys=2,
    )


def _gain(gain: Gain, digits: int) -> str:
    return f"{with_span(gain.mean, gain.student_t, digits)}, p {rate(gain.p_sign_flip)}"
