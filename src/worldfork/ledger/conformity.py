"""Whether a cell was executed as it is registered."""

from collections.abc import Mapping
from typing import Any

from worldfork.errors import WorldforkError
from worldfork.registration import Cell, Registration, canonical, difference, restore

__all__ = ["departures"]


def departures(configuration: Mapping[str, Any], cell: Cell, registered: Mapping[str, Any]) -> list[str]:
    """Each setting of cell.json that is not the registered one, as `place: registered -> executed`.

    Both sides are read by this version, so that a setting which an older one did not have yet is at its default.
    """
    resolved = {
        **registered,
        "seed": configuration["seed"],
        "arms": [
            {**configuration["arm"], "name": cell.arm, "tasks": [cell.task], "stream_seeds": [cell.stream_seed]}
        ],
        "tasks": {cell.task: configuration["task"]},
        "predictions": [],
        "deployment": None,  # it names arms that are left out here
    }
    if "signals" in configuration:
        resolved["signals"] = configuration["signals"]
    if configuration["block"] is not None:  # of an agent whose digits depend on the shape of its batches
        resolved["execution"] = configuration["block"]
    try:
        wanted = _decisive(restore(canonical(dict(registered))), cell)
        executed = _decisive(restore(canonical(resolved)), cell)
    except WorldforkError as error:
        return [" ".join(str(error).split())]
    wanted |= {
        "coordinates": cell.coordinates,
        "precision": wanted["arm"]["precision"] or wanted["task"]["precision"],
        "after_end": wanted["task"].get("after_end", configuration.get("after_end") and "reset"),
    }
    executed |= {
        "coordinates": {"update_seed": 0, **configuration["coordinates"]},
        "precision": configuration["precision"],
        "after_end": configuration.get("after_end"),
    }
    return difference(wanted, executed)


def _decisive(registration: Registration, cell: Cell) -> dict[str, Any]:
    """What of a registration decides a cell's rows."""
    return {
        "seed": registration.seed,
        "arm": registration.arm(cell.arm).decisive(),
        "task": registration.tasks[cell.task].model_dump(mode="json"),
        "signals": list(registration.signals),
        "execution": registration.execution.model_dump(mode="json"),
    }
