"""A score on one screen per task, the verdict first."""

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from worldfork.desk.scoring import Score
from worldfork.desk.scoring.records import Contrast, Estimands, TaskScore
from worldfork.desk.scoring.undefined import Figure, Undefined, settle
from worldfork.desk.wording import DASH, digits_for, known, number, rate, span
from worldfork.ledger.pretraining import Seed

__all__ = ["show", "show_gate"]

VERDICTS = {"harmful": "red", "helpful": "green", "unresolved": "yellow"}
WIDE = 105  # columns: narrower screens have no room for every interval
EXEMPT = 3  # cells without a divergence rule that are listed


def show(score: Score, console: Console) -> None:
    """Print every task of every arm."""
    for arm, scored in score.arms.items():
        for task, figures in scored.tasks.items():
            _task(f"{arm} · {task}" if arm else task, figures, console)
    for pair, tasks in score.contrasts.items():
        _contrast(pair, tasks, console)
    _, reasons = settle({"arms": score.arms, "contrasts": score.contrasts})
    if count := len(reasons):
        console.print(f"[dim]{count} figures are undefined; --json says which and why.[/]")


def show_gate(seeds: Iterable[Seed], console: Console) -> None:
    """The seeds that were trained and not forked: the gate selects on what dR is correlated with."""
    for seed in seeds:
        if seed.fate == "rejected":
            console.print(
                f"{seed.task}: the gate rejected seed {seed.seed}, {seed.gate:.1f} below {seed.floor:.1f}."
            )
        elif not seed.fate.startswith("checkpoint"):
            console.print(f"[dim]{seed.task}: seed {seed.seed} was {seed.fate}, gate return {seed.gate:.1f}.[/]")


def _task(name: str, score: TaskScore, console: Console) -> None:
    attempted = score.effect.all_attempted
    digits = digits_for(attempted)
    wide = console.width >= WIDE
    verdict = "[yellow]undecided[/]: one checkpoint has no interval"
    if not isinstance(score.verdict, Undefined):
        grade = known(score.judgement.grade)
        graded = f" ({grade})" if grade in ("leaning", "resolved") else ""
        verdict = f"[{VERDICTS[score.verdict]}]{score.verdict}[/]{graded}"
    console.rule(f"[bold]{escape(name)}")
    console.print(
        f"[bold]Updating is {verdict}[/]: mean dR {number(attempted.mean, digits)}, Student-t 95% "
        f"{escape(span(attempted.student_t, digits))} over {attempted.clusters} checkpoints, "
        f"{attempted.cells} cells, {attempted.forks} forks attempted."
    )
    triggers = score.triggers_all_attempted
    tested = {name: known(trigger.passes_control) for name, trigger in triggers.items()}
    passing = [name for name, passes in tested.items() if passes]
    listed = f": {escape(', '.join(passing))}" if passing else ""
    console.print(
        f"[bold]{len(passing)} of {sum(passes is not None for passes in tested.values())} triggers beat their own "
        f"rate-matched random control[/]{listed}."
    )
    useful = [name for name, trigger in triggers.items() if (judged := known(trigger.useful)) and judged.useful]
    if passing:
        rest = escape(", ".join(useful)) or "none"
        console.print(f"Useful, beyond never, always, the schedule and other checkpoints' fires: {rest}.")
    console.print(_effects(score, digits, wide=wide))
    if triggers:
        console.print(_triggers(score, digits - 1, wide=wide))
    for line in [*_lines(score, digits), *_exempt(score)]:
        console.print(line)
    console.print()


def _effects(score: TaskScore, digits: int, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    directions = sorted(score.effect.all_attempted.by_direction, reverse=True)
    more = ["bootstrap 95%", "detectable"] if wide else []
    for head in ["", "mean dR", "Student-t 95%", *more, *directions, "forks"]:
        table.add_column(escape(head), justify="left" if not head else "right", no_wrap=True)
    for estimand, effect in score.effect.items():
        shown = [escape(span(effect.bootstrap, digits)), number(effect.mde, digits).lstrip("+")] if wide else []
        table.add_row(
            estimand.replace("_", " "),
            number(effect.mean, digits),
            escape(span(effect.student_t, digits)),
            *shown,
            *(number(effect.by_direction.get(direction), digits) for direction in directions),
            str(effect.forks),
        )
    return table


def _triggers(score: TaskScore, digits: int, *, wide: bool) -> Table:
    """One line per trigger on all attempted forks; a narrow screen has no room for the control's interval and for
    the retained forks."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    heads = ["trigger", "AUC", "total", "fires", "random", "p", "p shift", "beats", "running"]
    for head in [*heads, "retained"] if wide else heads:
        table.add_column(head, justify="left" if head == "trigger" else "right", no_wrap=True)
    for name, trigger in score.triggers_all_attempted.items():
        random, shift, passes = known(trigger.random), known(trigger.random_shift), known(trigger.passes_control)
        chance = number(random.mean if random else None, digits)
        if wide:
            chance += " " + escape(span(random.interval if random else None, digits))
        cells = [
            escape(name),
            rate(trigger.auc),
            number(trigger.policy_total, digits),
            DASH if isinstance(trigger.fires, Undefined) else str(trigger.fires),
            chance,
            rate(random.p if random else None),
            rate(shift.p if shift else None),
            DASH if passes is None else "[green]yes[/]" if passes else "no",
            number(trigger.running_quantile.policy_total, digits),
        ]
        if wide:
            retained = score.triggers[name]
            differs = "" if known(retained.passes_control) == passes else " !"
            cells.append(number(retained.policy_total, digits) + differs)
        table.add_row(*cells)
    return table


def _lines(score: TaskScore, digits: int) -> list[str]:
    """Everything else worth a line, as far as it is defined."""
    forks, fit = score.forks, score.contraction
    fixed = score.policies_all_attempted
    lines = [
        f"Of {forks.retained} retained forks {forks.helped} helped and {forks.hurt} hurt; {forks.diverged} "
        f"diverged. Always updating {number(fixed.always, digits - 1)}, oracle {number(fixed.oracle, digits - 1)}."
    ]
    quartiles = {name: known(runs) for name, runs in score.drift_quartiles.items()}
    shown = [f"{name} {', '.join(number(run, digits) for run in runs)}" for name, runs in quartiles.items() if runs]
    if shown:
        lines.append(f"dR from least to most drift: {escape('; '.join(shown))}.")
    if not isinstance(fit.slope, Undefined):
        lines.append(
            f"r_update on r_hold: slope {fit.slope:.2f} {escape(span(fit.slope_interval, 2))}, crossing "
            f"{number(fit.crossing, digits).lstrip('+')}, variance ratio {_plain(fit.variance_ratio, 2)} "
            f"{escape(span(fit.variance_ratio_interval, 2))}."
        )
    if not isinstance(score.crn.gain, Undefined):
        lines.append(f"Pairing the episodes of both branches: factor {score.crn.gain:.2f} in episodes.")
    if not isinstance(score.design, Undefined):
        design = score.design
        doubled = ", ".join(f"{name} {_plain(effect, digits)}" for name, effect in design.mde_at_double.items())
        lines.append(
            f"Detectable now {_plain(design.mde, digits)}; with twice as many {doubled}: "
            f"{design.buys_most} buy most."
        )
        errors = design.standard_error_at["unlimited"]
        lines.append(
            f"Standard error {_plain(design.standard_error, digits)}; without limit to forks "
            f"{_plain(errors['forks'], digits)}, to episodes {_plain(errors['episodes'], digits)}."
        )
    return lines + [
        f"Prediction [bold]{escape(prediction.name)}[/]: {prediction.answer} ({number(prediction.value, digits)})."
        for prediction in score.predictions
    ]


def _exempt(score: TaskScore) -> list[str]:
    """The first cells without a divergence rule, and how many more there are."""
    cells = score.divergence.off_in
    lines = [f"[dim]No divergence rule in {escape(reason)}.[/]" for reason in cells[:EXEMPT]]
    if len(cells) > EXEMPT:
        lines.append(f"[dim]... and in {len(cells) - EXEMPT} more cells.[/]")
    return lines


def _contrast(pair: str, tasks: Mapping[str, Estimands[Contrast | Undefined]], console: Console) -> None:
    console.rule(f"[bold]{escape(pair)}")
    for task, sides in tasks.items():
        for estimand, contrast in sides.items():
            about = f"{escape(task)}, {estimand.replace('_', ' ')}"
            if isinstance(contrast, Undefined):
                console.print(f"{about}: no cell in common")
                continue
            digits, forks = digits_for(contrast), contrast.paired
            console.print(
                f"{about}: {number(contrast.mean, digits)}, Student-t 95% "
                f"{escape(span(contrast.student_t, digits))}, "
                f"bootstrap {escape(span(contrast.bootstrap, digits))}, {contrast.cells} cells"
            )
            console.print(
                f"  {number(contrast.first, digits)} against {number(contrast.second, digits)}; over {forks.forks} "
                f"forks Pearson {number(forks.pearson, 3)}, Spearman {number(forks.spearman, 3)}, same sign "
                f"{rate(forks.same_sign)}."
            )


def _plain(value: Figure, digits: int) -> str:
    return DASH if isinstance(value, Undefined) else f"{value:.{digits}f}"
