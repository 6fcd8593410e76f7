"""Tables of triggers: how they rank, what they earn, and what firing as often at random earns (paper, Table 3)."""

from collections.abc import Iterator, Mapping

from worldfork.desk.scoring.records import TaskScore, TriggerScore
from worldfork.desk.scoring.undefined import Undefined
from worldfork.desk.tables.text_table import TextTable
from worldfork.desk.triggers import is_reference
from worldfork.desk.wording import AUC_RESTS_ON, DASH, auc_rests_on, digits_for, known, number, rate, with_span

__all__ = ["controls", "proxies", "rivals"]

SHOWN = ("residual", "return_deficit", "kl", "drift")  # the paper's, where the ledger has them
Tasks = Mapping[str, TaskScore]


def rivals(tasks: Tasks) -> TextTable:
    """Table 3, for every trigger, with the two policies that need no trigger."""
    rows: list[tuple[str, ...]] = []
    for task, score in tasks.items():
        digits = _digits(score)
        for name, trigger in score.triggers.items():
            rows.append((task, name, *_rival(trigger, score.triggers_all_attempted[name], digits)))
        for name in ("always", "oracle"):
            cells = [DASH] * 12
            cells[1] = number(getattr(score.policies, name), digits)
            cells[10] = number(getattr(score.policies_all_attempted, name), digits)
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
        candidates = [name for name in score.triggers if not is_reference(name)]
        for name in [name for name in SHOWN if name in score.triggers] or candidates[:2]:
            yield task, score, name, score.triggers[name]


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
