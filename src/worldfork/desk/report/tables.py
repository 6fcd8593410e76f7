"""The paper's Tables 1 to 3 from a ledger: effects by task, stream-seed replication, trigger rivals."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from worldfork.desk.report.text import digits_for, number, rate, with_span
from worldfork.desk.scoring.effects import effect
from worldfork.desk.scoring.rules import Rules
from worldfork.desk.scoring.score import Score, TaskScore
from worldfork.desk.scoring.undefined import settle
from worldfork.desk.triggers import is_reference
from worldfork.ledger.outcomes import Forks, diverged, join

__all__ = ["PaperTable", "latex", "markdown", "paper_tables"]

RIVALS = ("residual", "return_deficit")  # the paper's two, where the ledger has them


@dataclasses.dataclass(frozen=True)
class PaperTable:
    """A table as text: caption, column heads, rows."""

    label: str
    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def paper_tables(score: Score, rules: Rules, *, replication: Mapping[str, Forks] | None = None) -> list[PaperTable]:
    """All three, for every arm. `replication` holds forks, by task, of the same cells on other stream seeds."""
    tables = []
    for arm, tasks in score.tasks.items():
        plain = {task: settle(one.figures)[0] for task, one in tasks.items()}
        among = f" Arm: {arm}." if arm else ""
        tables += [
            _multitask(plain, among),
            _seed_replication(tasks, replication or {}, among, rules),
            *_rivals(plain, among),
        ]
    return tables


def markdown(table: PaperTable) -> str:
    """The table for a README or an issue."""
    lines = [table.heads, ("---", *["---:"] * (len(table.heads) - 1)), *table.rows]
    return "\n".join([f"**{table.caption}**", "", *("| " + " | ".join(line) + " |" for line in lines), ""])


def latex(table: PaperTable) -> str:
    """The table for a paper; it needs booktabs."""
    body = [" & ".join(_math(cell) for cell in row) + r" \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\small",
            rf"\caption{{{_math(table.caption)}}}",
            rf"\label{{tab:{table.label}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.heads) - 1)}}}",
            r"\toprule",
            " & ".join(_math(head) for head in table.heads) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _multitask(plain: dict[str, Any], among: str) -> PaperTable:
    directions = list(
        dict.fromkeys(name for one in plain.values() for name in one["effect"]["retained"]["by_direction"])
    )
    directions.sort(reverse=True)  # toward before away, as in the paper
    rows = []
    for task, one in plain.items():
        retained, attempted = one["effect"]["retained"], one["effect"]["all_attempted"]
        digits = digits_for(attempted)
        rows.append(
            (
                task,
                str(attempted["cells"]),
                f"{one['forks']['retained']} of {one['forks']['attempted']}",
                with_span(retained["mean"], retained["bootstrap"], digits),
                with_span(attempted["mean"], attempted["student_t"], digits),
                *(number(retained["by_direction"].get(name), digits) for name in directions),
            )
        )
    return PaperTable(
        "multitask",
        "Effect by task. Retained forks with the checkpoint-cluster bootstrap, all attempted with Student-t; "
        f"95% intervals. Directions on retained forks.{among}",
        ("Task", "Cells", "Forks retained", "mean dR retained", "mean dR all attempted", *directions),
        tuple(rows),
    )


def _seed_replication(
    tasks: Mapping[str, TaskScore], replication: Mapping[str, Forks], among: str, rules: Rules
) -> PaperTable:
    rows = []
    for task, one in tasks.items():
        forks = join([one.forks, replication[task]] if task in replication else [one.forks])
        kept = forks.take(~diverged(forks, rules.divergence).dropped)
        seeds = np.array([cell.stream_seed for cell in kept.prefork.cells])
        first = kept.take(seeds[kept.prefork.cell] == seeds.min())
        figures = [settle(effect(part, seed=rules.seed))[0] for part in (first, kept)]
        shown = [
            f"{with_span(one['mean'], one['bootstrap'], digits_for(one))} ({one['cells']} cells)" for one in figures
        ]
        rows.append((task, shown[0], shown[1] if len(set(seeds.tolist())) > 1 else "one stream seed"))
    return PaperTable(
        "seedrep",
        "Stream-seed replication, retained forks. The first stream seed and all of them together; intervals are "
        f"checkpoint-clustered.{among}",
        ("Task", "first stream seed", "all stream seeds"),
        tuple(rows),
    )


def _rivals(plain: dict[str, Any], among: str) -> list[PaperTable]:
    known = list(dict.fromkeys(name for one in plain.values() for name in one["triggers"]))
    chosen = (
        [name for name in RIVALS if name in known]
        or [name for name in known if not is_reference(name)][:2]
        or known[:2]
    )
    if not chosen:
        return []
    rows = []
    for task, one in plain.items():
        found = [one["triggers"].get(name) for name in chosen]
        digits = digits_for(one["effect"]["all_attempted"]) - 1
        rows.append(
            (
                task,
                str(one["forks"]["retained"]),
                *(_auc(trigger) for trigger in found),
                " / ".join(number(trigger and trigger["policy_total"], digits) for trigger in found),
                number(one["policies"]["oracle"], digits),
                " / ".join(
                    number(trigger and trigger["random"] and trigger["random"]["mean"], digits) for trigger in found
                ),
            )
        )
    names = " / ".join(chosen)
    return [
        PaperTable(
            "trigger-rivals",
            "Triggers on retained forks, thresholds fitted leave-one-checkpoint-out; each random control fires as "
            "often as its own policy in every cell. An AUC interval marked * is the range over fewer than three "
            f"checkpoints.{among}",
            (
                "Task",
                "forks",
                *(f"{name} AUC" for name in chosen),
                f"policy total ({names})",
                "oracle",
                f"random control ({names})",
            ),
            tuple(rows),
        )
    ]


def _auc(trigger: dict[str, Any] | None) -> str:
    if trigger is None or trigger["auc"] is None:
        return rate(None)
    low, high = trigger["auc_interval"]
    return f"{rate(trigger['auc'])} [{rate(low)}, {rate(high)}]" + "*" * (trigger["auc_interval_kind"] == "min-max")


def _math(text: str) -> str:
    escaped = re.sub(r"([_%&#$])", r"\\\1", text).replace("–", "--").replace("dR", r"$\Delta R$")
    return re.sub(r"(?<![\w$\\-])(\[[^\]]*\]|[+-]?\.?\d[\d.,]*\d|[+-]?\.?\d)(?![\w$-])", r"$\1$", escaped)
