"""The paper's Figures 1 to 3 with a study's own numbers, as vector PDF and as PNG.

Colours are those of the page; a helpful fork is also a triangle that points up, a harmful one points down, so that
the figures can be printed in grey.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from worldfork.desk.report.figure_ledger import draw_ledger
from worldfork.desk.report.material import Material
from worldfork.desk.report.text import digits_for, number
from worldfork.desk.scoring.score import TaskScore
from worldfork.desk.scoring.undefined import settle
from worldfork.errors import WorldforkError

__all__ = ["write_figures"]

HELP: Final = "#0a67b0"
HURT: Final = "#c7500b"
SOFT: Final = "#8a8f98"
BAND: Final = "#5b3fa6"
DPI: Final = 200


def write_figures(material: Material, folder: Path) -> list[Path]:
    """Three figures per arm and task, each as .pdf and .png; returns where they are."""
    written: list[Path] = []
    taken: set[str] = set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for arm, tasks in material.score.tasks.items():
            for task, one in tasks.items():
                base = _unique(f"{arm}-{task}" if arm else task, taken)
                for name, figure in _figures(material, arm, one):
                    for kind in ("pdf", "png"):
                        path = folder / f"{name}-{base}.{kind}"
                        # No date inside: the same ledger gives the same file.
                        about = {"CreationDate": None} if kind == "pdf" else None
                        figure.savefig(path, dpi=DPI, bbox_inches="tight", metadata=about)
                        written.append(path)
    except OSError as error:
        raise WorldforkError(f"The figures could not be written to `{folder}` ({error}).") from error
    return written


def _figures(material: Material, arm: str, one: TaskScore) -> Iterator[tuple[str, Figure]]:
    yield "figure1-ledger", draw_ledger(material, arm, one)
    yield "figure2-policies", _policies(one)
    yield "figure3-contraction", _contraction(one)


def _unique(name: str, taken: set[str]) -> str:
    """A file name from any text: names in a table are not to be trusted as paths."""
    base = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.") or "forks"
    while base in taken:
        base += "-2"
    taken.add(base)
    return base


def _policies(one: TaskScore) -> Figure:
    """Figure 2: every rule's total beside its random control, and the forks against one signal."""
    plain, _ = settle(one.figures)
    figure = Figure(figsize=(9.2, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    rows: list[tuple[str, float | None, dict[str, Any] | None]] = [
        (name, plain["policies"][name], None) for name in ("never", "always", "oracle")
    ]
    rows += [(name, trigger["policy_total"], trigger["random"]) for name, trigger in plain["triggers"].items()]
    known = [abs(total) for _, total, _ in rows if total]
    bend = 10.0 ** (np.floor(np.log10(max(known))) - 1) if known else 1.0
    left.set_xscale("symlog", linthresh=bend)
    left.axvline(0, color=SOFT, lw=0.8)
    for place, (_, total, random) in enumerate(rows):
        if random:
            low, high = random["interval"]
            left.plot([low, high], [place, place], color=BAND, alpha=0.3, lw=7, solid_capstyle="butt")
        if total is None:
            left.text(0, place, " undefined", va="center", style="italic", color=SOFT, fontsize=8)
        else:
            left.plot([0, total], [place, place], color=SOFT, lw=0.8, alpha=0.6, zorder=1)
            left.plot(total, place, "o", color="black", ms=5)
    left.set_yticks(range(len(rows)), [_literal(name) for name, _, _ in rows], fontsize=8)
    left.invert_yaxis()
    left.set_xlabel(f"policy total (return; linear within ±{bend:g}); bars: random control, 95%", fontsize=8)
    left.set_title(
        f"(a) {len(one.forks) - int(one.divergence.dropped.sum())} retained forks", fontsize=9, loc="left"
    )
    _decades(left.xaxis, bend)
    _scatter(right, one)
    _tidy(left, right)
    return figure


def _decades(axis: Axis, bend: float) -> None:
    """Ticks of a symmetric logarithmic axis at its decades, or at 3 as well where they are few: matplotlib's own
    crowd around zero."""
    reach = max(abs(limit) for limit in axis.get_view_interval())
    sizes = [bend * 10.0**power for power in range(12) if bend * 10.0**power <= reach]
    if len(sizes) == 1 and 3 * bend <= reach:
        sizes.append(3 * bend)
    axis.set_ticks(ticks := [*(-size for size in reversed(sizes)), 0.0, *sizes], [f"{tick:,g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def _scatter(axes: Axes, one: TaskScore) -> None:
    """dR against the signal of the registered rival, with the median of its fitted thresholds."""
    signals = {name: decided for name, decided in one.retained.items() if decided.signal is not None}
    if not signals:
        axes.text(
            0.5, 0.5, "undefined: no signal in this ledger", ha="center", transform=axes.transAxes, color=SOFT
        )
        axes.set_title("(b)", fontsize=9, loc="left")
        return
    name = "residual" if "residual" in signals else next(iter(signals))
    decided = signals[name]
    assert decided.signal is not None
    kept = ~one.divergence.dropped & ~np.isnan(decided.signal)
    signal, delta = decided.signal[kept], one.forks.delta[kept]
    size = float(np.median(np.abs(delta))) if len(delta) else 1.0
    bend = 10.0 ** np.floor(np.log10(size)) if size > 0 else 1.0
    axes.set_yscale("symlog", linthresh=bend)
    axes.axhline(0, color=SOFT, lw=0.8)
    _forks(axes, signal, delta, delta)
    _decades(axes.yaxis, bend)
    said = "threshold undefined"
    if decided.threshold is not None:
        ordered = np.sort(decided.threshold)
        threshold = float(ordered[(len(ordered) - 1) // 2])  # an infinite one has no mean with its neighbour
        said = "median threshold fires always" if threshold < 0 else "median threshold never fires"
        if np.isfinite(threshold):
            said = "dashed: median threshold"
            axes.axvline(threshold, color="black", ls="--", lw=1)
    axes.set_xlabel(_literal(name), fontsize=8)
    axes.set_ylabel("dR (return per episode)", fontsize=8)
    axes.set_title(f"(b) n = {len(delta)} forks; {said}", fontsize=9, loc="left")


def _contraction(one: TaskScore) -> Figure:
    """Figure 3: UPDATE against HOLD with its fit and crossing, and mean dR in bins of HOLD."""
    fit = settle(one.figures["contraction"])[0]
    digits = digits_for(settle(one.figures["effect"]["all_attempted"])[0])
    kept = one.forks.take(~one.divergence.dropped)
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    hold, update = kept.outcomes.r_hold, kept.outcomes.r_update
    _forks(left, hold, update, kept.delta)
    if len(hold):
        ends = np.array([hold.min(), hold.max()])
        left.plot(ends, ends, color=SOFT, ls=":", lw=1.2, label="identity")
        if fit["slope"] is not None:
            left.plot(ends, update.mean() + fit["slope"] * (ends - hold.mean()), color="black", lw=1.5)
    said = "undefined" if fit["slope"] is None else f"{fit['slope']:.2f}"
    crossing = number(fit["crossing"], digits).lstrip("+") if fit["crossing"] is not None else "undefined"
    left.set_title(f"(a) n = {len(hold)}; slope {said}, crossing {crossing}", fontsize=9, loc="left")
    left.set_xlabel("HOLD (return per episode)", fontsize=8)
    left.set_ylabel("UPDATE (return per episode)", fontsize=8)
    right.axhline(0, color=SOFT, lw=0.8)
    bins = fit["bins"] or []
    for place, found in enumerate(bins):
        if found["mean"] is None:
            right.text(place, 0, "undefined", ha="center", va="bottom", fontsize=7, style="italic", color=SOFT)
            continue
        colour = HELP if found["mean"] > 0 else HURT
        right.bar(place, found["mean"], 0.66, yerr=found["standard_error"] or 0.0, color=colour, capsize=2)
    right.set_xticks(range(len(bins)), [_bin(found, digits) for found in bins], fontsize=7)
    right.set_xlabel("HOLD (return per episode)", fontsize=8)
    right.set_ylabel("mean dR (return per episode)", fontsize=8)
    right.set_title("(b) bars: standard errors", fontsize=9, loc="left")
    _tidy(left, right)
    return figure


def _bin(found: dict[str, Any], digits: int) -> str:
    low, high = (number(found[end], digits).removeprefix("+") for end in ("low", "high"))
    where = f"< {high}" if found["low"] is None else f"≥ {low}" if found["high"] is None else f"{low} to\n{high}"
    return f"{where}\nn={found['forks']}"


def _forks(axes: Axes, x: np.ndarray, y: np.ndarray, delta: np.ndarray) -> None:
    for chosen, marker, colour in ((delta > 0, "^", HELP), (delta < 0, "v", HURT), (delta == 0, "o", SOFT)):
        axes.plot(x[chosen], y[chosen], marker, color=colour, ms=4, alpha=0.6, mew=0)


def _literal(name: str) -> str:
    """A dollar sign in a name is a dollar sign, not mathematics."""
    return name.replace("$", r"\$")


def _tidy(*panels: Axes) -> None:
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
