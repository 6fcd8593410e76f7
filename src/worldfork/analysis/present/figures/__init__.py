"""A score as matplotlib figures: each function returns one, and saves, shows or switches nothing.

    figure = effects(score)
    figure.savefig("effects.pdf")

Without `arm` the first arm is drawn; without `task` every task of it, one row of panels each.
"""

from worldfork.analysis.present.figures.diagram import ledger
from worldfork.analysis.present.figures.drawing import Drawing
from worldfork.analysis.present.figures.effects import arms, contraction, effects
from worldfork.analysis.present.figures.policies import deployment, followed, policies
from worldfork.analysis.present.figures.saving import write_figures
from worldfork.analysis.present.figures.value import curve, price

__all__ = [
    "Drawing",
    "arms",
    "contraction",
    "curve",
    "deployment",
    "effects",
    "followed",
    "ledger",
    "policies",
    "price",
    "write_figures",
]
