"""A ledger's tables, the paper's Tables 1 to 3 among them, as Markdown or LaTeX."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from worldfork.desk.report import design_tables, effect_tables, trigger_tables
from worldfork.desk.report.paper import beside_paper, not_run_yet
from worldfork.desk.report.paper_table import PaperTable
from worldfork.desk.scoring.rules import Rules
from worldfork.desk.scoring.score import Score
from worldfork.desk.scoring.undefined import settle
from worldfork.errors import WorldforkError
from worldfork.ledger.outcomes import Forks
from worldfork.ledger.seeds import Seed

__all__ = ["choose", "latex", "markdown", "paper_tables", "planned_tables"]

LABELS: Final = (
    *("gate", "effects", "directions", "quartiles", "seedrep", "triggers", "controls", "proxies", "contraction"),
    *("predictions", "variance", "budget", "arms"),
)

BRIEF: Final = ("effects", "triggers")  # what a later arm has beside the primary one


def paper_tables(
    score: Score,
    rules: Rules,
    *,
    replication: Mapping[str, Forks] | None = None,
    seeds: Iterable[Seed] = (),
    paper: bool = False,
) -> list[PaperTable]:
    """All tables of every arm, then the comparison of arms.

    `replication` holds forks, by task, of the same cells on other stream seeds. With `paper` its figures stand
    beside those of the first arm, the primary one, and later arms have their effects and triggers alone.
    """
    tables = [design_tables.gate(seeds)]
    for number, (arm, tasks) in enumerate(score.tasks.items()):
        plain = {task: settle(one.figures)[0] for task, one in tasks.items()}
        made = _primary(plain, effect_tables.seed_replication(tasks, replication or {}, rules))
        if paper:
            made = (
                [beside_paper(one) for one in made] if number == 0 else [one for one in made if one.label in BRIEF]
            )
        tables += [dataclasses.replace(one, caption=one.caption + (f" Arm: {arm}." if arm else "")) for one in made]
    tables.append(design_tables.arms(score.plain.get("contrasts", {})))
    return [one for one in tables if one.rows]


def planned_tables(tasks: Collection[str]) -> list[PaperTable]:
    """What the paper states about these tasks, with our place left free: a study that has not been run."""
    found = [not_run_yet(one, tasks) for one in _primary({}, effect_tables.seed_replication({}, {}, Rules()))]
    return [one for one in found if one.rows]


def choose(tables: Iterable[PaperTable], labels: str | None) -> list[PaperTable]:
    """Those with these labels, separated by commas; all of them where none is named."""
    wanted = [label.strip() for label in labels.split(",")] if labels else LABELS
    if unknown := [label for label in wanted if label not in LABELS]:
        raise WorldforkError(f"There is no table `{unknown[0]}`; there are {', '.join(LABELS)}.")
    return [one for one in tables if one.label in wanted]


def _primary(plain: effect_tables.Plain, replicated: PaperTable) -> list[PaperTable]:
    """The tables of one arm."""
    return [
        effect_tables.effects(plain),
        effect_tables.directions(plain),
        effect_tables.quartiles(plain),
        replicated,
        trigger_tables.rivals(plain),
        trigger_tables.controls(plain),
        trigger_tables.proxies(plain),
        effect_tables.contraction(plain),
        effect_tables.predictions(plain),
        design_tables.variance(plain),
        design_tables.budget(plain),
    ]


def markdown(table: PaperTable) -> str:
    """The table for a README or an issue."""
    ruler = ("---" if index < table.keys else "---:" for index in range(len(table.heads)))
    lines = [table.heads, tuple(ruler), *table.rows]
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
            rf"\begin{{tabular}}{{{'l' * table.keys}{'r' * (len(table.heads) - table.keys)}}}",
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


def _math(text: str) -> str:
    escaped = re.sub(r"([_%&#$])", r"\\\1", text).replace("–", "--").replace("dR", r"$\Delta R$")
    return re.sub(r"(?<![\w$\\-])(\[[^\]]*\]|[+-]?\.?\d[\d.,]*\d|[+-]?\.?\d)(?![\w$-])", r"$\1$", escaped)
