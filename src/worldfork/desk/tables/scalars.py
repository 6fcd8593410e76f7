"""Every defined figure of a score as a name and a number: what W&B, TensorBoard, MLflow or a spreadsheet reads."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from worldfork.desk.scoring import Score

__all__ = ["scalars"]


def scalars(score: Score) -> pl.DataFrame:
    """One row per figure, `name` and `value`; names are paths into the score's JSON. Undefined ones are missing."""
    plain = {name: value for name, value in score.to_json().items() if name not in ("schema", "undefined")}
    rows = [{"name": name, "value": value} for name, value in _numbers(plain, "")]
    return pl.DataFrame(rows, schema={"name": pl.String, "value": pl.Float64})


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, int | float):
        yield path, float(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(inner, f"{path}/{name}" if path else str(name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _numbers(inner, f"{path}/{_label(inner, place)}")


def _label(item: Any, place: int) -> str:
    """An item of a list by its name, where it has one."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else str(place)
