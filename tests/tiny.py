"""The smallest studies that are studies: rows written by hand, configurations as the lab writes them."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.ledger import arrays
from worldfork.ledger.publish import publish
from worldfork.ledger.row import Counts, Digests, FitRecord, ForkRow, finite, mean
from worldfork.ledger.store import Study, StudyWriter, writing
from worldfork.ledger.verify import verify
from worldfork.registration import Cell, Registration, canonical, cells, digest, hold_owner, parse

AUTHORED = """
schema = "worldfork.registration/1"
name = "tiny"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0]
directions = ["away"]
[stream]
decision_points = 3
[evaluation]
episodes = 2
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 2.0
"""
TWO_ARMS = (
    AUTHORED
    + """
[[arms]]
name = "few"
[[arms]]
name = "many"
mechanism = { steps = 400 }
"""
)
CELL = "tiny-linear_quadratic-c0-away-s0"
STEPS, PERIOD = 50, 20_000  # of an episode, and of the drift from one end to the other
_step = np.arange(3 * STEPS)
STREAM = {
    "step": _step,
    "env_step": _step,
    "episode": _step // STEPS + 1,
    "level": _step / PERIOD,
    "rate": (_step + 1) / PERIOD - _step / PERIOD,
    "reward": np.zeros(3 * STEPS),
    "error": np.full(3 * STEPS, 0.3),
    "spread": np.full(3 * STEPS, np.nan),
}
MODULES = {"worldfork.made_up": "0" * 64}
RECORDING = {"observation": np.ones((4, 2)), "first": np.array([True, False, False, False])}


def fork(k: int, **changes: Any) -> ForkRow:
    hold, update = finite([1.0, 2.0]), finite([1.5, 2.25 + k])
    fields: dict[str, Any] = {
        "cell": CELL,
        "k": k,
        "step": STEPS * k,
        "env_step": STEPS * k,
        "level": STEPS * k / PERIOD,
        "rate": STEPS * k / PERIOD - (STEPS * k - 1) / PERIOD,
        "signals": {"residual": 0.3, "kl": None},
        "hold": hold,
        "update": update,
        "r_hold": mean(hold),
        "r_update": mean(update),
        "delta": (mean(update) or 0) - (mean(hold) or 0),
        "fit": FitRecord(
            loss_before=1.0, loss_after=0.5, grad_norm=0.1, param_shift=0.2, window=50 * k, non_finite=0
        ),
        "nonfinite_actions": Counts(hold=0, update=0),
        "nonfinite_returns": Counts(hold=0, update=0),
        "unstable_episodes": Counts(hold=0, update=0),
        "draws": Digests(hold="d", update="d"),
        "stream": arrays.content_digest(STREAM),
        "window": arrays.content_digest(RECORDING),
        "prev": "",
        "digest": "",
    }
    return ForkRow(**{**fields, **changes})


def configuration(registration: Registration, cell: Cell, **changes: Any) -> dict[str, Any]:
    """cell.json as the lab would write it."""
    arm, task, owner = registration.arm(cell.arm), registration.tasks[cell.task], hold_owner(registration)[cell]
    shared = owner.id if owner != cell else None
    return {
        "schema": "worldfork.cell/2",
        "cell": cell.id,
        "registration": registration.digest,
        "seed": registration.seed,
        "coordinates": {
            "arm": cell.arm,
            "task": cell.task,
            "checkpoint": cell.checkpoint,
            "direction": cell.direction,
            "stream_seed": cell.stream_seed,
            "update_seed": cell.update_seed,
        },
        "arm": arm.decisive(),
        "task": task.model_dump(mode="json"),
        "signals": list(registration.signals),
        "units": {"episode_steps": STEPS, "action_repeat": 1},
        "checkpoint": {"digest": f"c{cell.checkpoint}", "clean_return": 1.0},
        "shares": {"stream": shared, "hold": shared},
        "block": None,
        "precision": arm.precision or task.precision,
        "device": "cpu",
        "processor": None,
        "compiler_flags": [],
        "simulator": "none",
        "packages": {"numpy": "2"},
        "code": {},
        "source": digest(MODULES),
        **changes,
    }


def configurations(registration: Registration, **changes: Any) -> dict[str, dict[str, Any]]:
    return {cell.id: configuration(registration, cell, **changes) for cell in cells(registration)}


def write(
    folder: Path,
    *,
    rows: int = 3,
    authored: str = AUTHORED,
    amend: str | None = None,
    change: dict[int, dict[str, Any]] | None = None,
    of_cell: Callable[[Cell, int], dict[str, Any] | None] = lambda cell, k: {},
    **changes: Any,
) -> Study:
    """A study with so many rows in every cell, or the rest of one; `change` alters rows, `changes` the cells.

    `of_cell` alters row k of a cell; None ends it before.
    """
    registration = parse(authored)
    by_id = {cell.id: cell for cell in cells(registration)}
    with writing(folder, registration, authored=authored, amend=amend) as study:
        known, _ = study.begin(configurations(registration, **changes))
        keep_modules(study)
        for cell_id, there in known.items():
            cell = study.cell(cell_id)
            if not cell.has_stream():
                cell.write_stream(STREAM, RECORDING)
            missing = []
            for k in range(len(there) + 1, rows + 1):
                if (altered := of_cell(by_id[cell_id], k)) is None:
                    break
                missing.append(fork(k, **{"cell": cell_id, **altered, **(change or {}).get(k, {})}))
            cell.append(missing)
    return study


def keep_modules(study: StudyWriter) -> None:
    """Write the list of modules that every configuration here names."""
    study.keep(f"sources/{digest(MODULES)}.json", canonical(MODULES).encode())


def unpacked_copy(study: Study, folder: Path, **options: Any) -> Study:
    """A published copy, unpacked into `folder` as `tar -xf` unpacks it, so that a test can change it."""
    packed = folder.parent / f"{folder.name}-packed" / f"{folder.name}.tar.xz"
    publish(study, packed, **options)
    with tarfile.open(packed) as tar:
        tar.extractall(folder.parent, filter="data")
    return Study(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, links included, by its place."""
    files = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def findings(folder: Path) -> str:
    """What `verify` says, whether it lists problems or refuses the whole."""
    try:
        return "\n".join(verify(folder).problems)
    except WorldforkError as error:
        return str(error)


def rechain(study: Study, cell_id: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change cell.json and compute the whole chain anew: what the chain alone can not find."""
    folder = study.path / "cells" / cell_id
    stored = json.loads((folder / "cell.json").read_text())
    change(stored)
    (folder / "cell.json").write_text(canonical(stored) + "\n")
    forge(folder / "forks.jsonl", lambda fields: None)


def forge(lines: Path, change: Callable[[dict[str, Any]], object], *, configuration: str = "cell.json") -> None:
    """Change the fields of rows, which need not be what worldfork would write, and compute the whole chain anew."""
    last, written = digest(json.loads((lines.parent / configuration).read_text())), []
    for line in lines.read_text().splitlines():
        fields = json.loads(line)
        change(fields)
        fields |= {"prev": last}
        del fields["digest"]
        last = digest(fields)
        written.append(canonical({**fields, "digest": last}) + "\n")
    lines.write_text("".join(written))
