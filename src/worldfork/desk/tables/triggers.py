"""Tables of triggers: how they rank, what they earn, and what firing as often at random earns (paper, Table 3)."""

from collections.abc import Iterator, Mapping
from typing import Any

from worldfork.desk.tables.text_table import TextTable
from worldfork.desk.triggers import is_reference
from worldfork.desk.wording import DASH, digits_for, number, rate, with_span

__all__ = ["controls", "proxies", "rivals"]

SHOWN = ("residual", "return_deficit", "kl", "drift")  # the paper's, where the ledger has them
Plain = Mapping[str, dict[str, Any]]


def rivals(plain: Plain) -> TextTable:
    """Table 3, for every trigger, with the two policies that need no trigger."""
    rows: list[tuple[str, ...]] = []
    for task, one in plain.items():
        digits = _digits(one)
        for name, trigger in one["triggers"].items():
            random, everything = trigger["random"] or {}, one["triggers_all_attempted"][name]
            earned = trigger["by_direction"] or {}
            rows.append(
                (
                    task,
                    name,
                    _auc(trigger),
                    number(trigger["policy_total"], digits),
                    number(earned.get("toward"), digits),
                    number(earned.get("away"), digits),
                    DASH if trigger["fires"] is None else str(trigger["fires"]),
                    with_span(random.get("mean"), random.get("interval"), digits),
                    rate(random.get("p")),
                    rate((trigger["random_shift"] or {}).get("p")),
                    {True: "yes", False: "no", None: DASH}[trigger["passes_control"]],
                    number(trigger["running_quantile"]["policy_total"], digits),
                    number(everything["policy_total"], digits),
                    rate((everything["random"] or {}).get("p")),
                )
            )
        for name in ("always", "oracle"):
            total, everything = one["policies"][name], one["policies_all_attempted"][name]
            told = [DASH] * 12
            told[1], told[10] = number(total, digits), number(everything, digits)
            rows.append((task, name, *told))
    return TextTable(
        "triggers",
        "Triggers on retained forks, thresholds fitted leave-one-checkpoint-out: ranking, total dR, and a random "
        "rule that fires as often in every cell. An AUC interval with a star is the range over fewer than three "
        "checkpoints. Running: the label-free running quantile. The last two columns are on all attempted forks.",
        (
            *("Task", "Trigger", "AUC", "total", "toward", "away", "fires", "random control", "p", "p, shifted"),
            *("beats it", "running", "total, all forks", "p, all forks"),
        ),
        tuple(rows),
        keys=2,
    )


def controls(plain: Plain) -> TextTable:
    """The random control within ever shorter stretches of the stream."""
    rows = []
    for task, one, name, trigger in _chosen(plain):
        if trigger["random"] is None:
            continue
        nulls = [trigger["random"], *trigger["random_blocks"].values(), trigger["random_shift"]]
        told = (f"{number(null['mean'], _digits(one))}, p {rate(null['p'])}" for null in nulls)
        rows.append((task, name, number(trigger["policy_total"], _digits(one)), *told))
    return TextTable(
        "controls",
        "Random controls: the mean total of firing as often anywhere in a cell, within blocks of it, or shifted.",
        ("Task", "Trigger", "total", "random", "2 blocks", "4 blocks", "6 blocks", "shifted"),
        tuple(rows),
        keys=2,
    )


def proxies(plain: Plain) -> TextTable:
    """Whether a ranking is a ranking of something else."""
    rows = [
        (
            task,
            name,
            *(number(trigger[figure], 3) for figure in ("correlation", "partial_correlation", "spearman_hold")),
            number(trigger["excluded_quantile"], 2).lstrip("+"),
        )
        for task, one, name, trigger in _chosen(plain)
    ]
    return TextTable(
        "proxies",
        "What a signal goes with on retained forks, and where in its distribution the excluded forks lie.",
        ("Task", "Trigger", "with dR", "given r_hold", "Spearman with r_hold", "quantile of excluded"),
        tuple(rows),
        keys=2,
    )


def _chosen(plain: Plain) -> Iterator[tuple[str, dict[str, Any], str, dict[str, Any]]]:
    """The paper's triggers, or else the first two candidates there are."""
    for task, one in plain.items():
        known = list(one["triggers"])
        names = [name for name in SHOWN if name in known] or [name for name in known if not is_reference(name)][:2]
        for name in names:
            yield task, one, name, one["triggers"][name]


def _auc(trigger: dict[str, Any]) -> str:
    if trigger["auc"] is None:
        return DASH
    low, high = trigger["auc_interval"]
    return f"{rate(trigger['auc'])} [{rate(low)}, {rate(high)}]" + "*" * (trigger["auc_interval_kind"] == "min-max")


def _digits(one: dict[str, Any]) -> int:
    return digits_for(one["effect"]["all_attempted"]) - 1
