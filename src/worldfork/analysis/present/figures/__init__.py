"""A score as matplotlib figures: each function returns one, and saves, shows or switches nothing.

    figure = effects(score)
    figure.savefig("effects.pdf")

Without `arm` the first arm is drawn; without `task` every task of it, one row of panels each.
"""

from worldfork.analysis.present.figures.diagram import ledger
from worldfork.analysis.present.figures.drawing import Drawing
from worldfork.analysis.present.figures.forks import arms, contraction, policies
from worldfork.analysis.present.figures.rows import curve, effects, followed, price
from worldfork.analysis.present.figures.saving import write_figures

__all__ = [
    "Drawing",
    "arms",
    "contraction",
    "curve",
    "effects",
    "followed",
    "ledger",
    "policies",
    "price",
    "write_figures",
]
