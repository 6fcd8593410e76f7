"""Studies written by hand whose arms vary one setting: two checkpoints, two directions, two decision points."""

import tiny

from worldfork.analysis.score import score_ledger

GRID = """
schema = "worldfork.registration/1"
name = "swept"
[grid]
tasks = ["cartpole-swingup"]
checkpoints = [0, 1]
directions = ["toward", "away"]
[stream]
decision_points = 2
[evaluation]
episodes = 1
[tasks.cartpole-swingup]
agent = "linear_quadratic"
drift_scale = 2.0
"""
HALF_WIDTH = 12.706204736174698  # of Student-t's interval over two checkpoints that lie 1 from their mean


def arms(**settings):
    """Arms by name, with underscores for hyphens, each with what it sets."""
    return "".join(f'[[arms]]\nname = "{name.replace("_", "-")}"\n{given}\n' for name, given in settings.items())


def study(folder, authored, delta, *, hold=100.0, signals=None, **more):
    """A study in which `delta(arm, checkpoint)` is the mean dR of a checkpoint, or None where there is no row yet.

    Decision points differ by 2 and directions by 4 about it, so that means take their detour. `hold` and `signals`
    are the same at every fork, or functions of (arm, checkpoint).
    """

    def at(value, cell):
        return value(cell.arm, cell.checkpoint) if callable(value) else value

    def row(cell, k):
        mean = delta(cell.arm, cell.checkpoint)
        if mean is None:
            return None
        frozen = at(hold, cell)
        updated = frozen + mean + (1 if k == 1 else -1) + (2 if cell.direction == "away" else -2)
        return {
            "hold": (frozen,),
            "update": (updated,),
            "r_hold": frozen,
            "r_update": updated,
            "delta": updated - frozen,
            **({} if signals is None else {"signals": at(signals, cell)}),
        }

    return tiny.write(folder, rows=2, authored=authored, of_cell=row, **more)


def scored(*args, **more):
    """Such a study, scored."""
    return score_ledger(study(*args, **more).path, permutations=20, triggers="residual")
