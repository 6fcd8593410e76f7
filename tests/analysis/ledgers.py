"""Ledgers to report on: a small real study, the same with rows changed, and flat tables of every awkward kind."""

import hashlib
import shutil

import numpy as np
import polars as pl

from worldfork.ledger.store import Study, writing
from worldfork.registration import authored, canonical, cells, digest

REGISTRATION = """
schema = "worldfork.registration/1"
name = "small-dose"
about = "Does <script> stay text & not run?"

[grid]
tasks = ["linear_quadratic"]
checkpoints = [0, 1]
directions = ["toward", "away"]

[stream]
decision_points = 6
drift_period = 250

[evaluation]
episodes = 4

[mechanism]
window = 200
steps = 10

[[arms]]
name = "n-10"

[[arms]]
name = "n-50"
mechanism = { steps = 50 }

[[arms]]
name = "n-200"
mechanism = { steps = 200 }

[[predictions]]
name = "little-is-lost"
arm = "n-10"
task = "linear_quadratic"
between = [-1000.0, 1000.0]

[[predictions]]
name = "updates-of-ten-steps-gain-nothing-at-all-on-either-of-these-two-checkpoints"
arm = "n-10"
task = "linear_quadratic"
falsified_above = 0.0
premise = { figure = "clean_return.mean", below = 0.0 }

[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 4.0
precision = "float64"

[tasks.linear_quadratic.settings]
learning_rate = 0.02
batch = 16
"""


def rewritten(study: Study, folder, change, *, registration=None):
    """The study again in `folder`, every cell's rows passed through `change(cell, rows)` and chained anew."""
    said = (study.path / "registration.toml").read_text() if registration is None else authored(registration).text
    with writing(folder, registration or study.registration, authored=said) as copy:
        copy.begin({})
        for cell in cells(study.registration):
            source, target = study.cell(cell.id), copy.cell(cell.id)
            target.open(target.plan({**source.configuration, "registration": copy.registration_digest}))
            for name in ("stream.parquet", "window.npz", "execution.json"):
                shutil.copy(source.path / name, target.path / name)
            target.append(change(cell, source.rows()))
    return copy


def amended(study: Study, registration, *, reason):
    """Give the study another registration without asking its cells: by hand, as no run would."""
    before = study.registration_digest
    spelled = registration.model_dump(mode="json", by_alias=True)
    entry = {"reason": reason, "before": before, "after": digest(spelled), "changes": ["by hand"]}
    (study.path / "amendments.jsonl").write_text(canonical({**entry, "digest": digest(entry)}) + "\n")
    stored = {"digest": digest(spelled), "registration": spelled}
    (study.path / "registration.json").write_text(canonical(stored) + "\n")
    text = authored(registration).text
    (study.path / "registration.toml").write_text(text)
    kept = {**study.kept().files, "registration.toml": hashlib.sha256(text.encode()).hexdigest()}
    (study.path / "kept.json").write_text(canonical({"digest": digest(kept), "files": kept}) + "\n")


def flat(path, *, checkpoints=("0", "1", "2"), tasks=("cartpole",), arms=(None,), seeds=(0,), k=8, seed=0, **kind):
    """A flat table; `kind` may set positive=False, missing=share of residuals, episodes=m."""
    draws = np.random.default_rng(seed)
    rows = [
        _row(draws, arm, task, checkpoint, direction, stream_seed, step, k, **kind)
        for arm in arms
        for task in tasks
        for checkpoint in checkpoints
        for direction in ("toward", "away")
        for stream_seed in seeds
        for step in range(1, k + 1)
    ]
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    return path


def _row(draws, arm, task, checkpoint, direction, stream_seed, step, k, *, positive=True, missing=0.0, episodes=0):
    level = step / k if direction == "away" else 1 - step / k
    hold = 600 - 300 * level + draws.normal(0, 20)
    delta = 260 * level - 150 + draws.normal(0, 50)
    row = {
        "task": task,
        "checkpoint": checkpoint,
        "direction": direction,
        "stream_seed": stream_seed,
        "k": step,
        "level": level,
        "r_hold": hold,
        "r_update": hold + (delta if positive else -abs(delta) - 1),
        "clean_return": 640.0,
        "signal_residual": None if draws.random() < missing else level + draws.normal(0, 0.3),
        "signal_noise": draws.normal(),
    }
    if episodes:
        row["hold"] = (hold + draws.normal(0, 30, episodes)).tolist()
        row["update"] = (row["r_update"] + draws.normal(0, 30, episodes)).tolist()
    return row if arm is None else {**row, "arm": arm}
