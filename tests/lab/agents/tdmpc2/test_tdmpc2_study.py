"""A small study with TD-MPC2: streams, forks of an update and of none, rows in a ledger that verifies."""

from untrained import SMALLEST, write_checkpoint

import worldfork as wf

STUDY = """
schema = "worldfork.registration/1"
name = "smallest"
[grid]
tasks = ["cartpole-swingup"]
checkpoints = [0]
directions = ["away"]
[stream]
decision_points = 1
drift_period = 1000
[evaluation]
episodes = 1
[mechanism]
name = "finetune"
steps = 2
scope = "model+value+policy"
[[arms]]
name = "update"
[[arms]]
name = "nothing"
mechanism = { name = "none", steps = 0 }
[tasks.cartpole-swingup]
agent = "tdmpc2"
checkpoints = "{task}-{checkpoint}.safetensors"
drift_scale = 1.5
precision = "float32"
[tasks.cartpole-swingup.settings]
"""


def test_a_study_forks_it_and_the_ledger_verifies(tmp_path):
    write_checkpoint(tmp_path / "cartpole-swingup-0.safetensors")
    lines = [f"{name} = {value!r}".replace("'", '"') for name, value in SMALLEST.items()]
    (tmp_path / "study.toml").write_text(STUDY + "\n".join(lines))
    study = wf.run(tmp_path / "study.toml", tmp_path / "study")
    rows = {cell.id.split("-")[0]: row for cell in study.cells() for row in cell.rows()}
    assert rows["nothing"].delta == 0.0
    assert rows["update"].r_hold == rows["nothing"].r_hold
    assert rows["update"].fit.param_shift > 0
    assert rows["update"].signals["residual"] > 0
    assert rows["update"].signals["kl"] is None  # it has none
    assert wf.verify(study.path).complete
