"""A score as matplotlib figures: each function returns one, and saves, shows or switches nothing.

    figure = effects(score)
    figure.savefig("effects.pdf")

Without `arm` the first arm is drawn; without `task` every task of it, one row of panels each.
"""

from worldfork.desk.figures.arms import arms
from worldfork.desk.figures.diagram import ledger
from worldfork.desk.figures.drawing import Drawing
from worldfork.desk.figures.following import deployment, followed
from worldfork.desk.figures.forest import effects
from worldfork.desk.figures.returns import contraction
from worldfork.desk.figures.saving import write_figures
from worldfork.desk.figures.totals import policies

__all__ = [
    "Drawing",
    "arms",
    "contraction",
    "deployment",
    "effects",
    "followed",
    "ledger",
    "policies",
    "write_figures",
]
