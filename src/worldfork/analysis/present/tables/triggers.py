"""Tables of triggers: how they rank, what they earn, and what firing as often at random earns (paper, Table 3)."""

from collections.abc import Iterator, Mapping

from worldfork.analysis.present.tables.table import TextTable
from worldfork.analysis.present.text import (
    AUC_RESTS_ON,
    DASH,
    auc_rests_on,
    auc_with_checkpoints,
    digits_for,
    known,
    number,
    rate,
    span,
    with_span,
)
from worldfork.analysis.read.triggers import is_reference
from worldfork.analysis.score.judgement import Gain
from worldfork.analysis.score.records import Endpoint, TaskScore, TriggerScore
from worldfork.analysis.score.undefined import Undefined

SHOWN = ("residual", "return_deficit", "kl", "drift")  # the paper's, where the ledger has them
Tasks = Mapping[str, TaskScore]


def rivals(tasks: Tasks) -> TextTable:
    """Table 3, for every trigger, with the two policies that need no trigger."""
    rows: list[tuple[str, ...]] = []
    for task, score in tasks.items():
        digits = _digits(score)
        for name, trigger in score.triggers.retained.items():
            rows.append((task, name, *_rival(trigger, score.triggers.all_attempted[name], digits)))
        for name in ("always", "oracle"):
            cells = [DASH] * 12
            cells[1] = number(getattr(score.policies.retained, name), digits)
            cells[10] = number(getattr(score.policies.all_attempted, name), digits)
            rows.append((task, name, *cells))
    return TextTable(
        "triggers",
        "Triggers on retained forks, thresholds fitted leave-one-checkpoint-out: ranking, total dR, and a random "
        "rule that fires as often in every cell; beats it: p and shifted p below .05 after Holm's adjustment over "
        f"candidates x tasks x arms. {AUC_RESTS_ON} An interval with a star is the range over fewer than three. "
        "Running: the label-free running quantile, and how often it fires. The last two columns are on all "
        "attempted forks.",
        (
            *("Task", "Trigger", "AUC", "total", "toward", "away", "fires", "random control", "p", "p, shifted"),
            *("beats it", "running", "total, all forks", "p, all forks"),
        ),
        tuple(rows),
        keys=2,
    )


def controls(tasks: Tasks) -> TextTable:
    """The random control within ever shorter stretches of the stream."""
    rows = []
    for task, score, name, trigger in _chosen(tasks):
        random, blocks, shift = known(trigger.random), known(trigger.random_blocks), known(trigger.random_shift)
        if random is None or blocks is None or shift is None:
            continue
        nulls = [random, *blocks.values(), shift]
        cells = (f"{number(null.mean, _digits(score))}, p {rate(null.p)}" for null in nulls)
        rows.append((task, name, number(trigger.policy_total, _digits(score)), *cells))
    return TextTable(
        "controls",
        "Random controls: the mean total of firing as often anywhere in a cell, within blocks of it, or shifted.",
        ("Task", "Trigger", "total", "random", "2 blocks", "4 blocks", "6 blocks", "shifted"),
        tuple(rows),
        keys=2,
    )


def proxies(tasks: Tasks) -> TextTable:
    """Whether a ranking is a ranking of something else."""
    rows = [
        (
            task,
            name,
            number(trigger.correlation, 3),
            number(trigger.partial_correlation, 3),
            number(trigger.spearman_hold, 3),
            number(trigger.excluded_quantile, 2).lstrip("+"),
        )
        for task, _, name, trigger in _chosen(tasks)
    ]
    return TextTable(
        "proxies",
        "What a signal goes with on retained forks, and where in its distribution the excluded forks lie.",
        ("Task", "Trigger", "with dR", "given r_hold", "Spearman with r_hold", "quantile of excluded"),
        tuple(rows),
        keys=2,
    )


def _rival(trigger: TriggerScore, attempted: TriggerScore, digits: int) -> list[str]:
    random, shift = known(trigger.random), known(trigger.random_shift)
    on_all, by_direction = known(attempted.random), known(trigger.by_direction) or {}
    return [
        _auc(trigger),
        number(trigger.policy_total, digits),
        number(by_direction.get("toward"), digits),
        number(by_direction.get("away"), digits),
        DASH if isinstance(trigger.fires, Undefined) else str(trigger.fires),
        with_span(random.mean, random.interval, digits) if random else DASH,
        rate(random.p if random else None),
        rate(shift.p if shift else None),
        {True: "yes", False: "no", None: DASH}[known(trigger.passes_control)],
        _running(trigger, digits),
        number(attempted.policy_total, digits),
        rate(on_all.p if on_all else None),
    ]


def _chosen(tasks: Tasks) -> Iterator[tuple[str, TaskScore, str, TriggerScore]]:
    """The paper's triggers, or else the first two candidates there are."""
    for task, score in tasks.items():
        candidates = [name for name in score.triggers.retained if not is_reference(name)]
        for name in [name for name in SHOWN if name in score.triggers.retained] or candidates[:2]:
            yield task, score, name, score.triggers.retained[name]


def _running(trigger: TriggerScore, digits: int) -> str:
    running = trigger.running_quantile
    if isinstance(running.fires, Undefined):
        return DASH
    return f"{number(running.policy_total, digits)} ({running.fires})"


def _auc(trigger: TriggerScore) -> str:
    interval = known(trigger.auc_interval)
    if interval is None:
        return DASH
    star = "*" if trigger.auc_interval_kind == "min-max" else ""
    ends = f"[{rate(interval.low)}, {rate(interval.high)}]{star}"
    rests = auc_rests_on(trigger)
    return f"{rate(trigger.auc)} {ends}" + (f" ({rests})" if rests else "")


def _digits(score: TaskScore) -> int:
    return digits_for(score.effect.all_attempted) - 1


def earnings(tasks: Tasks) -> TextTable:
    """What each policy earns in a checkpoint, beside what costs nothing to know."""
    rows: list[tuple[str, ...]] = []
    for task, score in tasks.items():
        digits = digits_for(score.effect.all_attempted) - 1
        for name, trigger in score.triggers.retained.items():
            earned, gains = known(trigger.earned), known(trigger.gains)
            if earned is not None and gains is not None:
                cells = [_gain(gains[than], digits) for than in ("never", "always", "position_table")]
                rows.append((task, name, with_span(earned.mean, earned.student_t, digits), *cells))
        for name, trigger in score.triggers.retained.items():
            earned, gains = known(trigger.running_quantile.earned), known(trigger.running_quantile.gains)
            if earned is not None and gains is not None:
                cells = [_gain(gains[than], digits) for than in ("never", "always", "position_table")]
                rows.append((task, f"{name}, running", with_span(earned.mean, earned.student_t, digits), *cells))
        for name, earned in score.policies.retained.earned.items():
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
        for name, trigger in score.triggers.retained.items()
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
        for name, trigger in score.triggers.retained.items()
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
        for name, trigger in score.triggers.all_attempted.items():
            useful, gains, earned = known(trigger.useful), known(trigger.gains), known(trigger.earned)
            if useful is None or gains is None or earned is None:
                continue
            rows.append(
                (
                    task,
                    name,
                    trigger.standing,
                    with_span(earned.mean, earned.student_t, digits),
                    _gain_over(gains["better_of_both"], digits),
                    _gain_over(gains["position_table"], digits),
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


def _gain_over(gain: Gain, digits: int) -> str:
    return f"{with_span(gain.mean, gain.student_t, digits)}, p {rate(gain.p_sign_flip)}"
