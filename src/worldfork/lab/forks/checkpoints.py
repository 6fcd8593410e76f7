"""The checkpoints of a study: where their files are, and copies of them beside the ledger."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from worldfork import registry
from worldfork.blobs import Blob, blob_of
from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import AgentPlugin
from worldfork.lab.forks.context import Context, TaskCheckpoint
from worldfork.ledger.pretraining import keep_record
from worldfork.ledger.store import Study, StudyWriter
from worldfork.registration import Cell, Registration, cells
from worldfork.registration.library import BUNDLED, recipe_of, registrations


def checkpoint_files(
    registration: Registration, *, root: Path, copies: Path, of: Collection[Cell] | None = None
) -> dict[TaskCheckpoint, tuple[Blob, ...]]:
    """Return the files of every checkpoint of these cells that has files: the study's copies where it has them,
    else the originals. None stands for all cells."""
    found = {}
    for task, index in sorted(
        {(cell.task, cell.checkpoint) for cell in (cells(registration) if of is None else of)}
    ):
        original = checkpoint_source(registration, task, index, root=root)
        if original is None:
            continue
        plugin = registry.load("agents", registration.tasks[task].agent, AgentPlugin)
        kept = tuple(copies / f"{task}-{index}{suffix}" for suffix in plugin.suffixes)
        paths = kept if all(path.exists() for path in kept) else tuple(map(original.with_suffix, plugin.suffixes))
        for path in paths:
            if not path.exists():
                raise _missing(path, registration.name, root=root)
        beside = (paths[0].with_suffix(suffix) for suffix in plugin.optional_suffixes)
        found[task, index] = tuple(map(blob_of, (*paths, *(path for path in beside if path.exists()))))
    return found


def _missing(path: Path, study: str, *, root: Path) -> WorldforkError:
    """Return an error that says what to do without this file; a study that comes with worldfork has a command for
    it."""
    anew = ""
    if study in registrations():
        recipe = recipe_of(study, path.parent.name)
        anew = f" `worldfork reproduce {study} -o FOLDER` trains all that it needs ({recipe}) and runs it."
    plain, folder = os.path.normpath(path), os.path.abspath(root)
    return WorldforkError(
        f"There is no checkpoint file `{plain}`: pretrain it, or correct its path, which starts at the "
        f"registration's folder `{folder}`.{anew}"
    )


def keep_checkpoints(study: StudyWriter, models: Mapping[TaskCheckpoint, tuple[Blob, ...]]) -> None:
    """Copy the models into the study, and the record of the seeds they were chosen from: a ledger needs them."""
    for (task, index), blobs in models.items():
        keep_record(study, blobs[0].path.parent)
        for blob in blobs:
            study.keep(f"checkpoints/{task}-{index}{blob.path.suffix}", blob.path)


def context_of(study: Study) -> Context:
    """Return what a finished study was computed with, built again here from its own files."""
    registration = study.registration
    of = cells(registration)
    if registration.stopping is not None:  # checkpoints beyond the stop were never needed
        of = tuple(cell for cell in of if (study.cell(cell.id).path / "cell.json").exists())
    files = checkpoint_files(registration, root=study.path, copies=study.path / "checkpoints", of=of)
    return Context(registration, files)


def checkpoint_source(registration: Registration, task: str, index: int, *, root: Path) -> Path | None:
    """Return the path of a checkpoint's first file; None where it is generated. Relative paths start at `root`."""
    registered = registration.tasks[task].checkpoints
    if registered == "generated":
        return None
    if registered == "bundled":
        return BUNDLED / f"{task}-{index}.safetensors"
    return root / registered.replace("{checkpoint}", str(index)).replace("{task}", task)
