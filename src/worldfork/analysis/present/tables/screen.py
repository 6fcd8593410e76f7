"""Sweeps on a screen: how mean dR goes with a dose, and what noise does to signals and to dR."""

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from worldfork.analysis.present.tables.deployments import show_deployments
from worldfork.analysis.present.text import (
    DASH,
    MANY,
    Rule,
    answer,
    auc_note,
    changed,
    contrast_answer,
    contrast_summary,
    corrected,
    digits_for,
    dose_means,
    known,
    noise_words,
    number,
    plural,
    predicted_digits,
    rate,
    read_as,
    rule_groups,
    signal_digits,
    span,
    sweep_name,
    sweep_words,
    useful_triggers,
    with_span,
)
from worldfork.analysis.score import Score
from worldfork.analysis.score.records import Contrast, Estimands, TaskScore
from worldfork.analysis.score.sweeps import Noise
from worldfork.analysis.score.undefined import Figure, Undefined, settle
from worldfork.ledger.pretraining import Seed
from worldfork.registration import Registration

SIGNALS = ("residual", "kl")
RISES = "Rise: less that of the least noise. Every figure: worldfork score STUDY --tables noises."


def show_sweeps(score: Score, console: Console) -> None:
    """What the arms say together that differ in one number; nothing where none do."""
    if words := sweep_words("number of gradient steps", dose_means(score.doses)):
        console.rule("[bold]dose by dose")
        console.print(f"{escape(words)} Every figure: worldfork score STUDY --tables doses.\n")
    if score.noises:
        console.rule("[bold]noise by noise")
        for task, groups in score.noises.items():
            for label, sweep in groups.items():
                console.print(f"[bold]{escape(sweep_name(task, label, groups))}[/]")
                console.print(_noises(sweep.noises))
        console.print(escape(noise_words(score.noises)))
        console.print(f"[dim]{RISES}[/]\n")


def _noises(noises: Mapping[str, Noise]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("sigma_a", *SIGNALS, "mean dR", "its rise", "helped", "AUC of residual"):
        table.add_column(head, justify="right", no_wrap=True)
    for noise in noises.values():
        rise, digits = known(noise.rise), digits_for(noise)
        table.add_row(
            f"{noise.action_noise:g}",
            *(_signal(noise, name) for name in SIGNALS),
            number(noise.mean, digits),
            "" if rise is None else escape(with_span(rise.mean, rise.student_t, digits)),
            rate(noise.helped),
            rate(noise.residual_auc),
        )
    return table


def _signal(noise: Noise, name: str) -> str:
    recorded = noise.signals.get(name)
    if recorded is None or isinstance(recorded.mean, Undefined):
        return DASH
    return f"{recorded.mean:.{signal_digits(recorded.mean)}f}"


COLOURS = {"harmful": "red", "helpful": "green", "unresolved": "yellow", "undecided": "yellow"}
WIDE = 105  # columns: narrower screens have no room for every interval
LARGER_P = "p, Holm: the larger of two, against random and against shifted fires, corrected."
CANDIDATES = "The candidates are those of the registration: [scoring] triggers."
EXEMPT = 3  # cells without a divergence rule that are listed


def show(
    score: Score, console: Console, *, verbose: bool = False, registration: Registration | None = None
) -> None:
    """Print how the arms compare, then every task of every arm; `verbose`, also what no verdict reads. Of more than
    a screenful of verdicts a line each is printed, unless `verbose`. `registration` says what sets arms apart."""
    _read_as(score, console)
    _contrasts(score, console, verbose=verbose, registration=registration)
    show_sweeps(score, console)
    brief = sum(len(scored.tasks) for scored in score.arms.values()) > MANY and not verbose
    if brief:
        _overview(score, console)
    else:
        for arm, scored in score.arms.items():
            for task, figures in scored.tasks.items():
                _task(f"{arm} · {task}" if arm else task, figures, console, verbose=verbose)
    if score.deployment:
        console.print("[dim]Forks price one update at a time; policies whose updates last are below.[/]")
    show_deployments(score.deployment, console)
    console.print(f"[dim]{escape(corrected(score))}{'' if brief else f' {LARGER_P}'}[/]")
    if score.family.registered:
        console.print(f"[dim]{escape(CANDIDATES)}[/]")
    for line in _left_out(score):
        console.print(escape(line))
    if verbose:
        _, reasons = settle({"arms": score.arms, "contrasts": score.contrasts})
        for why in dict.fromkeys(reason["why"] for reason in reasons):
            count = sum(reason["why"] == why for reason in reasons)
            console.print(f"[dim]{plural(count, 'undefined figure')}: {escape(why)}.[/]")


def _read_as(score: Score, console: Console) -> None:
    for sentence in read_as(score):
        console.print(f"[dim]{escape(sentence)}[/]")


def _left_out(score: Score) -> list[str]:
    """The triggers that were not scored, with the reason: those of one reason on one line."""
    every = [
        (f"{arm} · {task}" if arm else task, figures)
        for arm, scored in score.arms.items()
        for task, figures in scored.tasks.items()
    ]
    places: dict[tuple[str, str], list[str]] = {}
    for place, figures in every:
        for name, why in figures.triggers_unavailable.items():
            places.setdefault((name, why), []).append(place)
    together: dict[tuple[str, str], list[str]] = {}
    for (name, why), named in places.items():
        where = "" if len(named) == len(every) else f" of {', '.join(named)}"
        together.setdefault((where, why), []).append(name)
    return [f"Left out{where}: {', '.join(names)} ({why})." for (where, why), names in together.items()]


def show_gate(seeds: Iterable[Seed], console: Console) -> None:
    """The seeds that were trained and not forked: the gate selects on what dR is correlated with."""
    spare: dict[str, list[Seed]] = {}
    for seed in seeds:
        if seed.fate == "rejected":
            console.print(
                f"{seed.task}: the gate rejected seed {seed.seed}, {seed.gate:.1f} below {seed.floor:.1f}."
            )
        elif seed.fate == "spare":
            spare.setdefault(seed.task, []).append(seed)
        elif not seed.fate.startswith("checkpoint"):
            console.print(f"[dim]{seed.task}: seed {seed.seed} was {seed.fate}, gate return {seed.gate:.1f}.[/]")
    for task, unused in spare.items():
        gates = sorted(seed.gate for seed in unused)
        named = ", ".join(str(seed.seed) for seed in unused)
        returned = f"{gates[0]:.1f}" if len(unused) == 1 else f"{gates[0]:.1f} to {gates[-1]:.1f}"
        console.print(
            f"[dim]{task}: {plural(len(unused), 'seed')} passed the gate and {'is' if len(unused) == 1 else 'are'} "
            f"not in this study: {named} (gate return {returned}).[/]"
        )


def _overview(score: Score, console: Console) -> None:
    """A line for every arm, task by task."""
    for task in dict.fromkeys(task for scored in score.arms.values() for task in scored.tasks):
        arms = {arm: scored.tasks[task] for arm, scored in score.arms.items() if task in scored.tasks}
        useful = {arm: ", ".join(useful_triggers(figures)) for arm, figures in arms.items()}
        table = Table(box=None, pad_edge=False, header_style="dim")
        last = ["useful triggers"] if any(useful.values()) else []
        for head in ["arm", "mean dR", "Student-t 95%", "updating", *last]:
            numeric = head in ("mean dR", "Student-t 95%")
            table.add_column(head, justify="right" if numeric else "left", overflow="fold")
        for arm, figures in arms.items():
            said, attempted = answer(figures), figures.effect.all_attempted
            digits = digits_for(attempted)
            found = said.sentence.partition(":")[0].removeprefix("Updating ")
            cells = [
                escape(arm),
                number(attempted.mean, digits),
                escape(span(attempted.student_t, digits)),
                f"[{COLOURS[said.verdict]}]{found[0].lower()}{found[1:]}[/]",
            ]
            table.add_row(*cells, *([escape(useful[arm])] if last else []))
        console.rule(f"[bold]{escape(task)}")
        console.print(table)
        if not last:
            console.print("[dim]No trigger was found useful with any of these arms.[/]")
        for figures in arms.values():
            for line in _predictions(figures, digits_for(figures.effect.all_attempted)):
                console.print(line)
        console.print()
    console.print("Advice and triggers of one arm: worldfork score STUDY --arm ARM; of all: --verbose.")


def _task(name: str, score: TaskScore, console: Console, *, verbose: bool) -> None:
    said, digits, attempted = answer(score), digits_for(score.effect.all_attempted), score.effect.all_attempted
    console.rule(f"[bold]{escape(name)}")
    word, _, rest = said.sentence.partition(":")
    console.print(f"[bold {COLOURS[said.verdict]}]{word}[/]:{escape(rest)}")
    console.print(f"[bold]{said.advice.what}[/] {escape(said.advice.certainty)}")
    if said.triggers:
        console.print(escape(f"{said.triggers} {said.not_beaten}".rstrip()))
    console.print(
        f"[dim]Student-t 95% over {plural(attempted.clusters, 'checkpoint')}, {plural(attempted.cells, 'cell')}, "
        f"{plural(attempted.forks, 'fork')} attempted. {said.helped_words}.[/]"
    )
    points = int(score.evidence.forks.prefork.k.max())
    console.print(f"Return gained per deployment of {plural(points, 'episode')}, one after each decision point:")
    console.print(_rules(score, digits, wide=console.width >= WIDE))
    if note := auc_note(score.triggers.all_attempted):
        console.print(f"[dim]{escape(note)}[/]")
    if verbose:
        console.print(_effects(score, digits))
        for line in [*_lines(score, digits), *_exempt(score)]:
            console.print(line)
    elif score.predictions:
        for line in _predictions(score, digits):
            console.print(line)
    console.print()


def _rules(score: TaskScore, digits: int, *, wide: bool) -> Table:
    """What every rule earns per deployment, yardsticks apart; a narrow screen has no room for the intervals."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    heads = ["", "earns", *(["95%"] if wide else []), "fires", "chance", "p, Holm", "beats it", "useful", "AUC"]
    for head in heads:
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for group in rule_groups(score, side="all_attempted"):
        table.add_row(f"[dim]{escape(group.title)}[/]")
        for rule in group.rules:
            table.add_row(*_rule(rule, digits, wide=wide))
    return table


def _rule(rule: Rule, digits: int, *, wide: bool) -> list[str]:
    interval = [escape(span(rule.interval, digits))] if wide else []
    fires = DASH if rule.fires is None or isinstance(rule.fires, Undefined) else str(rule.fires)
    cells = [f"  {escape(rule.name)}", number(rule.earned, digits), *interval, fires]
    if rule.figures is None:
        return cells
    cells.append(number(rule.chance, digits))
    if rule.figures.standing == "reference":
        return [*cells, "", "", "", rate(rule.figures.auc)]
    passes, useful = known(rule.figures.passes_control), known(rule.figures.useful)
    return [
        *cells,
        rate(rule.p),
        DASH if passes is None else "[green]yes[/]" if passes else "no",
        DASH if useful is None else "[green]yes[/]" if useful.useful else "no",
        rate(rule.figures.auc),
    ]


def _effects(score: TaskScore, digits: int) -> Table:
    """Both estimands with both intervals."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    directions = sorted(score.effect.all_attempted.by_direction, reverse=True)
    for head in ["", "mean dR", "Student-t 95%", "bootstrap 95%", *directions, "forks"]:
        table.add_column(escape(head), justify="left" if not head else "right", no_wrap=True)
    for estimand, effect in score.effect.items():
        table.add_row(
            estimand.replace("_", " "),
            number(effect.mean, digits),
            escape(span(effect.student_t, digits)),
            escape(span(effect.bootstrap, digits)),
            *(number(effect.by_direction.get(direction), digits) for direction in directions),
            str(effect.forks),
        )
    return table


def _lines(score: TaskScore, digits: int) -> list[str]:
    """Everything else worth a line, as far as it is defined."""
    forks, fit = score.forks, score.contraction
    lines = [
        f"Of {forks.retained} retained forks {forks.helped} helped and {forks.hurt} hurt; {forks.diverged} "
        "diverged."
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
    return lines + _predictions(score, digits)


def _predictions(score: TaskScore, digits: int) -> list[str]:
    return [
        f"Prediction [bold]{escape(prediction.name)}[/]: {prediction.answer} "
        f"({number(prediction.value, predicted_digits(prediction, digits))})."
        for prediction in score.predictions
    ]


def _exempt(score: TaskScore) -> list[str]:
    """The first cells without a divergence rule, and how many more there are."""
    cells = score.divergence.off_in
    lines = [f"[dim]No divergence rule in {escape(reason)}.[/]" for reason in cells[:EXEMPT]]
    if len(cells) > EXEMPT:
        lines.append(f"[dim]... and in {plural(len(cells) - EXEMPT, 'more cell')}.[/]")
    return lines


def _contrasts(score: Score, console: Console, *, verbose: bool, registration: Registration | None) -> None:
    for pair, tasks in score.contrasts.items():
        console.rule(f"[bold]{escape(pair)}")
        if registration is not None:
            later, earlier = pair.split(" - ")
            if apart := "; ".join(changed(registration, earlier, later)):
                console.print(f"[dim]{escape(f'{later} instead of {earlier}: {apart}')}[/]")
        attempted = {task: sides.all_attempted for task, sides in tasks.items()}
        answers = [contrast_answer(pair, task, one) for task, one in attempted.items()]
        console.print(f"[bold]{escape(contrast_summary(pair, answers, attempted))}[/]")
        for said in answers:
            console.print(escape(said.sentence))
        if verbose:
            _contrast(tasks, console)
        console.print()


def _contrast(tasks: Mapping[str, Estimands[Contrast | Undefined]], console: Console) -> None:
    """Both estimands and both intervals, and how alike the arms are fork by fork."""
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
                f"bootstrap {escape(span(contrast.bootstrap, digits))}, {plural(contrast.cells, 'cell')}; over "
                f"{plural(forks.forks, 'fork')} Pearson {number(forks.pearson, 3)}, Spearman "
                f"{number(forks.spearman, 3)}, same sign {rate(forks.same_sign)}."
            )


def _plain(value: Figure, digits: int) -> str:
    return DASH if isinstance(value, Undefined) else f"{value:.{digits}f}"
