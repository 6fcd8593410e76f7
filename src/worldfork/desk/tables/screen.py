"""A score on one screen per task, the verdict first."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from worldfork.desk.scoring import Score
from worldfork.desk.wording import digits_for, number, rate, span
from worldfork.ledger.pretraining import Seed

__all__ = ["show", "show_gate"]

VERDICTS = {"harmful": "red", "helpful": "green", "unresolved": "yellow"}


def show(score: Score, console: Console) -> None:
    """Print every task of every arm."""
    plain: dict[str, Any] = score.to_json()
    for arm, tasks in plain["arms"].items():
        for task, figures in tasks["tasks"].items():
            _task(f"{arm} · {task}" if arm else task, figures, console)
    for name, tasks in plain["contrasts"].items():
        _contrast(name, tasks, console)
    if count := len(plain["undefined"]):
        console.print(f"[dim]{count} figures are undefined; --json says which and why.[/]")


def show_gate(seeds: Iterable[Seed], console: Console) -> None:
    """The seeds that were trained and not forked: the gate selects on what dR is correlated with."""
    for one in seeds:
        if one.fate == "rejected":
            console.print(f"{one.task}: the gate rejected seed {one.seed}, {one.gate:.1f} below {one.floor:.1f}.")
        elif not one.fate.startswith("checkpoint"):
            console.print(f"[dim]{one.task}: seed {one.seed} was {one.fate}, gate return {one.gate:.1f}.[/]")


def _task(name: str, figures: dict[str, Any], console: Console) -> None:
    attempted = figures["effect"]["all_attempted"]
    digits = digits_for(attempted)
    verdict = figures["verdict"]
    said = (
        f"[{VERDICTS[verdict]}]{verdict}[/]" if verdict else "[yellow]undecided[/]: one checkpoint has no interval"
    )
    console.rule(f"[bold]{escape(name)}")
    console.print(
        f"[bold]Updating is {said}[/]: mean dR {number(attempted['mean'], digits)}, Student-t 95% "
        f"{escape(span(attempted['student_t'], digits))} over {attempted['clusters']} checkpoints, "
        f"{attempted['cells']} cells, {attempted['forks']} forks attempted."
    )
    tested = {trigger: one["passes_control"] for trigger, one in figures["triggers"].items()}
    passing = [trigger for trigger, passes in tested.items() if passes]
    console.print(
        f"[bold]{len(passing)} of {sum(passes is not None for passes in tested.values())} triggers beat their own "
        f"rate-matched random control[/]{': ' * bool(passing)}{escape(', '.join(passing))}."
    )
    console.print(_effects(figures, digits, wide=console.width >= 105))
    if figures["triggers"]:
        console.print(_triggers(figures, digits - 1, wide=console.width >= 105))
    for line in _lines(figures, digits):
        console.print(line)
    console.print()


def _effects(figures: dict[str, Any], digits: int, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    directions = sorted(figures["effect"]["all_attempted"]["by_direction"], reverse=True)
    heads = ["", "mean dR", "Student-t 95%", *["bootstrap 95%", "detectable"] * wide, *directions, "forks"]
    for head in heads:
        table.add_column(escape(head), justify="left" if not head else "right", no_wrap=True)
    for estimand, one in figures["effect"].items():
        table.add_row(
            estimand.replace("_", " "),
            number(one["mean"], digits),
            escape(span(one["student_t"], digits)),
            *[escape(span(one["bootstrap"], digits)), number(one["mde"], digits).lstrip("+")] * wide,
            *(number(one["by_direction"].get(direction), digits) for direction in directions),
            str(one["forks"]),
        )
    return table


def _triggers(figures: dict[str, Any], digits: int, *, wide: bool) -> Table:
    """One line per trigger; a narrow screen has no room for the control's interval and for all attempted forks."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    heads = [
        "trigger",
        "AUC",
        "total",
        "fires",
        "random",
        "p",
        "p shift",
        "beats",
        "running",
        *["all forks"] * wide,
    ]
    for head in heads:
        table.add_column(head, justify="left" if head == "trigger" else "right", no_wrap=True)
    for name, one in figures["triggers"].items():
        random, shift = one["random"] or {}, one["random_shift"] or {}
        passes = one["passes_control"]
        attempted = figures["triggers_all_attempted"][name]
        table.add_row(
            escape(name),
            rate(one["auc"]),
            number(one["policy_total"], digits),
            "–" if one["fires"] is None else str(one["fires"]),
            number(random.get("mean"), digits) + (" " + escape(span(random.get("interval"), digits))) * wide,
            rate(random.get("p")),
            rate(shift.get("p")),
            "–" if passes is None else "[green]yes[/]" if passes else "no",
            number(one["running_quantile"]["policy_total"], digits),
            *[number(attempted["policy_total"], digits) + ("" if attempted["passes_control"] == passes else " !")]
            * wide,
        )
    return table


def _lines(figures: dict[str, Any], digits: int) -> list[str]:
    """Everything else worth a line, as far as it is defined."""
    forks, policies, fit = figures["forks"], figures["policies"], figures["contraction"]
    lines = [
        f"Of {forks['retained']} retained forks {forks['helped']} helped and {forks['hurt']} hurt; "
        f"{forks['diverged']} diverged. Always updating {number(policies['always'], digits - 1)}, oracle "
        f"{number(policies['oracle'], digits - 1)}."
    ]
    quartiles = {name: runs for name, runs in figures["drift_quartiles"].items() if runs}
    if quartiles:
        shown = "; ".join(
            f"{name} {', '.join(number(run, digits) for run in runs)}" for name, runs in quartiles.items()
        )
        lines.append(f"dR from least to most drift: {escape(shown)}.")
    if fit["slope"] is not None:
        lines.append(
            f"r_update on r_hold: slope {fit['slope']:.2f} {escape(span(fit['slope_interval'], 2))}, crossing "
            f"{number(fit['crossing'], digits).lstrip('+')}, variance ratio {fit['variance_ratio']:.2f} "
            f"{escape(span(fit['variance_ratio_interval'], 2))}."
        )
    gain, design = figures["crn"]["gain"], figures["design"]
    if gain is not None:
        lines.append(f"Common random numbers: factor {gain:.2f} in episodes.")
    if design:
        doubled = ", ".join(f"{name} {effect:.{digits}f}" for name, effect in design["mde_at_double"].items())
        lines.append(
            f"Detectable now {design['mde']:.{digits}f}; with twice as many {doubled}: "
            f"{design['buys_most']} buy most."
        )
        errors = design["standard_error_at"]["unlimited"]
        lines.append(
            f"Standard error {design['standard_error']:.{digits}f}; without limit to forks "
            f"{errors['forks']:.{digits}f}, to episodes {errors['episodes']:.{digits}f}."
        )
    predictions = [
        f"Prediction [bold]{escape(said['name'])}[/]: {said['answer']} ({number(said['value'], digits)})."
        for said in figures["predictions"]
    ]
    exempt = [f"[dim]No divergence rule in {escape(reason)}.[/]" for reason in figures["divergence"]["off_in"]]
    return [
        *lines,
        *predictions,
        *exempt[:3],
        *[f"[dim]... and in {len(exempt) - 3} more cells.[/]"] * (len(exempt) > 3),
    ]


def _contrast(name: str, tasks: dict[str, Any], console: Console) -> None:
    console.rule(f"[bold]{escape(name)}")
    for task, sides in tasks.items():
        for estimand, one in sides.items():
            if one is None:
                console.print(f"{escape(task)}, {estimand.replace('_', ' ')}: no cell in common")
                continue
            digits = digits_for(one)
            console.print(
                f"{escape(task)}, {estimand.replace('_', ' ')}: {number(one['mean'], digits)}, Student-t 95% "
                f"{escape(span(one['student_t'], digits))}, bootstrap {escape(span(one['bootstrap'], digits))}, "
                f"{one['cells']} cells"
            )
            forks = one["paired"]
            console.print(
                f"  {number(one['first'], digits)} against {number(one['second'], digits)}; over {forks['forks']} "
                f"forks Pearson {number(forks['pearson'], 3)}, Spearman {number(forks['spearman'], 3)}, same sign "
                f"{rate(forks['same_sign'])}."
            )
