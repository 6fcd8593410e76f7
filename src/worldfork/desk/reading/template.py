"""A flat table to fill in: what `worldfork score` and `report` take from any harness, with made-up rows."""

from pathlib import Path
from typing import Final

import polars as pl

from worldfork.desk.reading.files import write_frame
from worldfork.errors import WorldforkError

__all__ = ["COLUMNS", "template_frame", "write_template"]

# Column -> what it holds. The first four are needed; the others can be left out.
COLUMNS: Final = {
    "checkpoint": "which trained model was deployed; forks of one model are not independent, models are",
    "k": "which decision point of its deployment, from 1 on",
    "r_update": "mean return per episode after the update",
    "r_hold": "mean return per episode without it, on the same episodes if you can",
    "task": "which world; leave it out if there is one",
    "direction": "which deployment of that model, such as the direction of the drift; leave it out if there is one",
    "signal_surprise": "anything known beforehand, larger for more reason to update; any number of signal_NAME",
}


def template_frame() -> pl.DataFrame:
    """Made-up forks of four models, deployed twice each, at three decision points.

    >>> template_frame().shape
    (24, 7)
    """
    rows = [
        {
            "checkpoint": model,
            "k": k,
            "r_update": 100.0 - 4 * k + model + (3.0 * (k - 2) if direction == "away" else -1.5),
            "r_hold": 100.0 - 5 * k + 1.5 * model,
            "task": "example",
            "direction": direction,
            "signal_surprise": round(0.1 * k + 0.05 * model, 2),
        }
        for model in range(4)
        for direction in ("away", "toward")
        for k in (1, 2, 3)
    ]
    return pl.DataFrame(rows).select(list(COLUMNS))


def write_template(path: Path | str) -> Path:
    """Write the template; a file that is there already stays as it is."""
    target = Path(path)
    if target.exists():
        raise WorldforkError(f"`{target}` is there already. Choose another name: a template overwrites nothing.")
    write_frame(template_frame(), target)
    return target
