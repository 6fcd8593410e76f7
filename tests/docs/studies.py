"""Studies that documented commands can be tried on: the registered arms, at a size of no account."""

import shutil
from pathlib import Path

import polars as pl
from pages import PAGES, ROOT, write_modules

import worldfork as wf
from worldfork.registration import Registration, authored, read
from worldfork.registration.library import find

__all__ = ["RECORDED", "furnish", "stand_in", "stand_in_file"]

TASK = "linear_quadratic"
RECORDED = "runs/mine"  # a recorded ledger of the reader's own


def furnish(folder: Path, studies: dict[str, str]) -> None:
    """What a reader of the documentation has at hand: a clone, a table called forks.csv, the studies that the
    documented commands have run (`studies`: folder -> registration), and the files that pages print."""
    shutil.copytree(ROOT / "results", folder / "results")
    (folder / "registrations").symlink_to(ROOT / "registrations")
    (folder / "examples").symlink_to(ROOT / "examples")
    for study, registration in studies.items():
        wf.run(stand_in(registration), folder / study)
    forks = wf.Study(folder / "results/demo").forks().drop("hold", "update")
    forks.with_columns(pl.lit("cartpole").alias("task")).write_csv(folder / "forks.csv")
    settings = {"task": "churn model", "question": "Does weekly retraining pay?", "common_random_numbers": True}
    recorder = wf.Recorder(folder / RECORDED, **settings)  # as docs/recorder.md has it, which goes on with it
    for checkpoint in range(8):
        for week in (1, 2):
            recorder.fork(checkpoint=checkpoint, k=week, hold=0.9, update=0.9 + 0.01 * checkpoint)
    for page in PAGES:
        write_modules(page, folder)


def stand_in_file(name: str, folder: Path) -> Path:
    """The same as a file that a command can name."""
    path = folder / f"{name}.toml"
    path.write_text(authored(stand_in(name)).text, encoding="utf-8")
    return path


def stand_in(name: str) -> Registration:
    """The registration `name` in the linear-quadratic world: as many arms and directions, and little else."""
    registered, world = read(find(name)), read(find("linear-quadratic")).tasks[TASK]
    arms = [
        arm.model_copy(
            update={
                "tasks": (TASK,),
                "stream_seeds": arm.stream_seeds[:1],
                "stream": arm.stream.model_copy(update={"decision_points": 2, "drift_period": 100}),
                "evaluation": arm.evaluation.model_copy(update={"episodes": 2}),
                "mechanism": arm.mechanism.model_copy(
                    update={"steps": min(arm.mechanism.steps, 2), "window": 200, "scope": "model"}
                ),
                "precision": None,
                "settings": {},
            }
        )
        for arm in registered.arms
    ]
    return registered.model_copy(
        update={
            "grid": registered.grid.model_copy(update={"tasks": (TASK,), "checkpoints": (0, 1)}),
            "arms": tuple(arms),
            "tasks": {TASK: world},
            "scoring": registered.scoring.model_copy(update={"contraction_edges": {}}),
            "predictions": (),
            "guess": {},
            "deployment": registered.deployment
            and registered.deployment.model_copy(update={"evaluate_at": (2,), "episodes": 2}),
        }
    )
