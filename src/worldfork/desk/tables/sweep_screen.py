"""Sweeps on a screen: how mean dR goes with a dose, and what noise does to signals and to dR."""

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from worldfork.desk.scoring import Score
from worldfork.desk.scoring.noises import Noise
from worldfork.desk.scoring.undefined import Undefined
from worldfork.desk.wording import (
    DASH,
    digits_for,
    dose_means,
    known,
    noise_words,
    number,
    rate,
    signal_digits,
    sweep_name,
    sweep_words,
    with_span,
)

__all__ = ["show_sweeps"]

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
