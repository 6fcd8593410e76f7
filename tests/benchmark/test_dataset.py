"""The published data set: anything reads it, and its rows are those of the ledgers."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import worldfork as wf
from worldfork.benchmark.dataset import FOLDS, PUBLISHED
from worldfork.errors import WorldforkError
from worldfork.ledger.verify import root

RESULTS = Path(__file__).parents[2] / "results"


def test_rows_are_those_of_the_ledger() -> None:
    study = wf.Study(RESULTS / "judge-walker")
    forks, ours = study.forks(), wf.benchmark.load().forks.filter(study="judge-walker")
    key = ["arm", "task", "checkpoint", "direction", "stream_seed", "k"]
    both = ours.join(forks, on=key, suffix="_there")
    assert both.height == forks.height == ours.height == 960
    for name in ("r_hold", "r_update", "signal_kl", "signal_return_deficit", "level"):
        np.testing.assert_array_equal(both[name], both[f"{name}_there"].cast(pl.Float32))
    np.testing.assert_allclose(both["dR"], both["r_update_there"] - both["r_hold_there"], atol=1e-4)
    np.testing.assert_array_equal(
        both["update"].to_list(), both["update_there"].cast(pl.List(pl.Float32)).to_list()
    )


def test_digests_tie_rows_to_the_ledger() -> None:
    data, study = wf.benchmark.load(), wf.Study(RESULTS / "judge-walker")
    card = (PUBLISHED / "README.md").read_text()
    assert f"| `judge-walker` | `{study.registration_digest}` | `{root(study)}` |" in card
    last = {cell.rows()[-1].digest for cell in study.cells()}
    assert set(data.cells.filter(study="judge-walker")["last_row"]) == last
    for name in ("forks", "cells", "folds", "streams"):
        assert wf.benchmark.dataset.hashlib.sha256((PUBLISHED / f"{name}.parquet").read_bytes()).hexdigest() in card


def test_a_model_has_one_fold_in_all_studies() -> None:
    data = wf.benchmark.load()
    assert data.folds.group_by("task", "model").len()["len"].max() == 1
    assert set(data.folds["fold"]) == set(range(FOLDS))
    assert data.cells.join(data.folds, on=["task", "model"], how="anti").is_empty()


def test_streams_are_those_whose_digests_the_rows_have() -> None:
    data = wf.benchmark.load()
    joined = data.cells.filter(pl.col("stream").is_in(data.streams["stream"].unique().to_list()))
    assert {"corrected", "forward", "dose"} <= set(joined["study"])
    lengths = data.streams.group_by("stream").agg(pl.col("t").max(), pl.len())
    assert (lengths["t"] == lengths["len"]).all()
    segment = data.streams.filter(pl.col("stream") == joined["stream"][0], pl.col("t") <= 250)["error"].mean()
    cell = joined.row(0, named=True)
    fork = data.forks.filter(
        **{name: cell[name] for name in ("study", "arm", "task", "checkpoint", "direction")}, k=1
    )
    assert fork["signal_residual"].item() == pytest.approx(segment, rel=1e-5)


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in PUBLISHED.iterdir()) < 5e6


def test_pandas_reads_it() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert len(pandas.read_parquet(PUBLISHED / "forks.parquet")) == wf.benchmark.load().forks.height


@pytest.mark.skipif(not importlib.util.find_spec("datasets"), reason="datasets is not installed")
def test_datasets_reads_it_offline(tmp_path: Path) -> None:
    code = (
        "import datasets, sys\n"
        "for name in ('forks', 'cells', 'folds', 'streams'):\n"
        "    print(name, datasets.load_dataset(sys.argv[1], name)['train'].num_rows)\n"
    )
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", code, str(PUBLISHED)], env=offline, capture_output=True, text=True, check=True
    )
    data = wf.benchmark.load()
    rows = [f"{name} {getattr(data, name).height}" for name in ("forks", "cells", "folds", "streams")]
    assert ran.stdout.split("\n")[:4] == rows


def test_a_study_with_streams_of_its_own(tmp_path: Path) -> None:
    wf.benchmark.write([wf.Study(RESULTS / "demo")], tmp_path)
    data = wf.benchmark.load(tmp_path)
    assert data.forks.height == 36
    assert set(data.cells["stream"]) == set(data.streams["stream"])
    task = wf.benchmark.read_task(data, "demo/demo/cartpole-swingup")
    assert task.columns == ("reward", "error", "kl")
    for each in task.deployments:
        for segment in each.segments:
            assert segment.signals["residual"] == pytest.approx(segment.steps["error"].mean(), rel=1e-5)


def test_what_is_no_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorldforkError, match=r"has no forks\.parquet"):
        wf.benchmark.load(tmp_path)
    study = wf.Study(RESULTS / "demo")
    with pytest.raises(WorldforkError, match="Two studies are called `demo`"):
        wf.benchmark.write([study, study], tmp_path)
