"""The paper's figures: there, vector, the same twice, and safe whatever a table calls its tasks."""

import dataclasses
import re
from pathlib import Path

import ledgers
import numpy as np
import pytest
from matplotlib.figure import Figure

import worldfork as wf
from worldfork.analysis.present import figures
from worldfork.analysis.present.figures import write_figures
from worldfork.analysis.present.page import gather
from worldfork.errors import WorldforkError

FIGURES = ("figure1-ledger", "figure2-policies", "figure3-contraction")


def test_three_figures_per_arm_and_task_whatever_a_table_calls_them(tmp_path):
    """Names are neither paths nor mathematics, and every figure comes as vectors and as pixels."""
    tasks = ("../../outside", "$\\frac")
    material = gather(ledgers.flat(tmp_path / "t.parquet", tasks=tasks, k=3), permutations=50)
    written = write_figures(material.score, tmp_path / "new" / "inside")
    assert len(set(written)) == len(tasks) * len(FIGURES) * 2
    assert all(path.parent == tmp_path / "new" / "inside" for path in written)
    assert {name for path in written for name in FIGURES if path.name.startswith(name)} == set(FIGURES)
    for path in written:
        start = path.read_bytes()[:8]
        assert start.startswith(b"%PDF") if path.suffix == ".pdf" else start == b"\x89PNG\r\n\x1a\n"


def test_the_same_study_gives_the_same_figures(material, tmp_path):
    one = dataclasses.replace(material.score, arms=_first(material.score.arms))
    first, second = (write_figures(one, tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].name == "figure1-ledger-n-10-linear_quadratic.pdf"


def _first(arms):
    return dict(list(arms.items())[:1])


@pytest.mark.parametrize(
    "kind",
    [{"checkpoints": ("0",), "positive": False}, {"missing": 1.0, "k": 1}],
    ids=["one checkpoint, no positive fork", "no residual, one fork per cell"],
)
def test_awkward_ledgers_have_figures_too(tmp_path, kind):
    written = write_figures(gather(ledgers.flat(tmp_path / "t.parquet", **kind), permutations=50).score, tmp_path)
    assert len(written) == 6


def test_a_folder_that_can_not_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    material = gather(ledgers.flat(tmp_path / "t.parquet", k=2), permutations=50)
    with pytest.raises(WorldforkError, match="could not be written"):
        write_figures(material.score, tmp_path / "file" / "figures")


def test_the_diagram_says_what_the_study_says(material):
    one = material.score["n-200", "linear_quadratic"]
    words = "\n".join(text.get_text() for text in figures.ledger(material.score, arm="n-200").axes[0].texts)
    assert "200 gradient steps" in words
    assert "m = 4 episodes" in words
    assert "4 cells, K = 6 decision points, 50 control steps apart" in words
    update, hold = (float(mean) for mean in re.findall(r"mean (\S+) per episode", words))
    assert update - hold == pytest.approx(one.effect.all_attempted.mean, abs=0.011)


@pytest.mark.parametrize("name", ["effects", "policies", "contraction", "ledger", "arms"])
def test_a_figure_is_returned_and_touches_nothing(material, name, monkeypatch, tmp_path):
    """No pyplot, no backend switch, no file; and a notebook can show it."""
    monkeypatch.chdir(tmp_path)
    figure = getattr(figures, name)(material.score)
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_arm_or_task_is_answered_with_the_known_ones(material):
    with pytest.raises(WorldforkError, match="n-10, n-50, n-200"):
        figures.contraction(material.score, arm="n-400")
    with pytest.raises(WorldforkError, match="linear_quadratic"):
        figures.policies(material.score, task="walker")
    with pytest.raises(WorldforkError, match="residual"):
        figures.policies(material.score, trigger="ensemble")


def test_the_effects_figure_says_the_scores_own_means(material):
    (panel,) = figures.effects(material.score).axes
    labels = [label.get_text() for label in panel.get_yticklabels()]
    of_both = [label for label in labels if label.split()[1] == "all"]
    assert [label.split()[0] for label in of_both] == ["n-10", "n-50", "n-200"]
    for arm, scored in material.score.arms.items():
        mean = scored.tasks["linear_quadratic"].effect.all_attempted.mean
        (shown,) = [float(label.split()[2]) for label in of_both if label.split()[0] == arm]
        assert shown == pytest.approx(mean, abs=0.051)


def test_every_fork_of_every_arm_is_a_mark(material):
    axes = figures.arms(material.score).axes[0]
    score = material.score
    marks = [line for line in axes.lines if line.get_marker() in ("^", "v", "o")]
    forks = [score[arm, "linear_quadratic"].evidence.forks for arm in score.arms]
    assert sum(len(line.get_xdata()) for line in marks) == sum(map(len, forks))
    helped = [line for line in marks if line.get_marker() == "^"]
    assert sum(len(line.get_xdata()) for line in helped) == sum(int((one.delta > 0).sum()) for one in forks)
    assert [label.get_text().split()[0] for label in axes.get_yticklabels()] == list(score.arms)
    with pytest.raises(WorldforkError, match="no task `hopper`"):
        figures.arms(score, task="hopper")


def test_followed_policies_are_drawn_best_first_with_their_intervals_beside_what_the_ledger_says():
    score = wf.score(Path(__file__).parents[3] / "results" / "deployment-demo", permutations=20)
    (task,) = score.deployment
    policies = score.deployment[task].policies
    gains = {name: outcome.advantage for name, outcome in policies.items() if name != "never"}
    ranked = sorted(gains, key=lambda name: -gains[name].mean)
    axes = figures.followed(score).axes[0]
    labels = [label.get_text().split()[0] for label in axes.get_yticklabels()]
    assert [name for name in labels if name != "never"] == ranked
    drawn = {tuple(np.ravel(line.get_xdata())): line for line in axes.lines[1:]}
    for name in ranked:
        row = labels.index(name)
        for values in (gains[name].student_t, (gains[name].mean,), (policies[name].ledger_value,)):
            assert set(np.ravel(drawn[tuple(values)].get_ydata())) == {row}
    with pytest.raises(WorldforkError, match="no task with deployments `hopper`"):
        figures.followed(score, task="hopper")
    with pytest.raises(WorldforkError, match="has no deployments"):
        figures.followed(dataclasses.replace(score, deployment={}))
