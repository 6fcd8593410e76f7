"""Tables of policies by checkpoint, of what position alone would know, and of the primary endpoint."""

from collections.abc import Mapping

from worldfork.desk.scoring.judgement import Gain
from worldfork.desk.scoring.records import Endpoint, TaskScore, TriggerScore
from worldfork.desk.scoring.undefined import Undefined
from worldfork.desk.tables.text_table import TextTable
from worldfork.desk.wording import (
    AUC_RESTS_ON,
    DASH,
    auc_with_checkpoints,
    digits_for,
    known,
    number,
    rate,
    with_span,
)

__all__ = ["earnings", "endpoints", "position"]

Tasks = Mapping[str, TaskScore]


def earnings(tasks: Tasks) -> TextTable:
    """What each policy earns in a checkpoint, beside what costs nothing to know."""
    rows: list[tuple[str, ...]] = []
    for task, score in tasks.items():
        digits = digits_for(score.effect.all_attempted) - 1
        for name, trigger in score.triggers.items():
            earned, gains = known(trigger.earned), known(trigger.gains)
            if earned is not None and gains is not None:
                cells = [_gain(gains[than], digits) for than in ("never", "always", "position_table")]
                rows.append((task, name, with_span(earned.mean, earned.student_t, digits), *cells))
        for name, trigger in score.triggers.items():
            earned, gains = known(trigger.running_quantile.earned), known(trigger.running_quantile.gains)
            if earned is not None and gains is not None:
                cells = [_gain(gains[than], digits) for than in ("never", "always", "position_table")]
                rows.append((task, f"{name}, running", with_span(earned.mean, earned.student_t, digits), *cells))
        for name, earned in score.policies.earned.items():
            rows.append((task, name, with_span(earned.mean, earned.student_t, digits), DASH, DASH, DASH))
    return TextTable(
        "earnings",
        "Total dR of a checkpoint, mean and Student-t interval over checkpoints, retained forks; and how much more "
        "than never, always, and the position table, with the larger p of Student-t and sign flips. The position "
        "table and the clock of each direction read the schedule: yardsticks, not rules. Running: by the "
        "label-free running quantile.",
        ("Task", "Policy", "total of a checkpoint", "over never", "over always", "over the position table"),
        tuple(rows),
        keys=2,
    )


def position(tasks: Tasks) -> TextTable:
    """Whether a signal knows more than where in the stream it is."""
    rows = [
        (task, name, auc_with_checkpoints(trigger), *_at_one_place(trigger))
        for task, score in tasks.items()
        for name, trigger in score.triggers.items()
        if not isinstance(trigger.given_position, Undefined)
    ]
    return TextTable(
        "position",
        "What a signal knows beyond its place in the stream, retained forks: its AUC, and its AUC over pairs of "
        f"forks at one (direction, k), pooled, with the range when one checkpoint is left out. {AUC_RESTS_ON}",
        ("Task", "Trigger", "AUC", "AUC at one (direction, k)", "without one checkpoint", "pairs"),
        tuple(rows),
        keys=2,
    )


def endpoints(tasks: Tasks) -> TextTable:
    """The registered primary endpoint."""
    rows = [
        (
            task,
            name,
            _endpoint(trigger.endpoint.leave_one_checkpoint_out),
            _endpoint(trigger.endpoint.running_quantile),
        )
        for task, score in tasks.items()
        for name, trigger in score.triggers.items()
        if not isinstance(trigger.endpoint.leave_one_checkpoint_out, Undefined)
        or not isinstance(trigger.endpoint.running_quantile, Undefined)
    ]
    return TextTable(
        "endpoints",
        "The registered primary endpoint, (mean dR where fired - mean dR) / sigma_ep, with its Student-t interval "
        "over the checkpoints that have a fire (their number in brackets), retained forks.",
        ("Task", "Trigger", "threshold fitted", "running quantile"),
        tuple(rows),
        keys=2,
    )


def _gain(gain: Gain, digits: int) -> str:
    student, flips = known(gain.p_student_t), known(gain.p_sign_flip)
    p = None if student is None or flips is None else max(student, flips)
    return f"{number(gain.mean, digits)}, p {rate(p)}"


def _at_one_place(trigger: TriggerScore) -> tuple[str, str, str]:
    given = known(trigger.given_position)
    if given is None or isinstance(given.auc, Undefined):
        return DASH, DASH, "0"
    return rate(given.auc), f"{rate(given.without_one_low)} to {rate(given.without_one_high)}", str(given.pairs)


def _endpoint(endpoint: Endpoint | Undefined) -> str:
    if isinstance(endpoint, Undefined):
        return DASH
    return f"{with_span(endpoint.value, endpoint.student_t, 2)} ({endpoint.clusters})"
