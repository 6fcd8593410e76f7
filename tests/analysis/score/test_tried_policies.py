"""Policies that try their updates, in the score: trials are counted, and nothing else is computed otherwise."""

from pathlib import Path

import polars as pl
import pytest
from deployed import TRIED
from typer.testing import CliRunner

import worldfork as wf
from worldfork.analysis.present.render import plain
from worldfork.analysis.present.summary import of_deployment
from worldfork.analysis.present.tables.deployments import deployments
from worldfork.analysis.score import frames
from worldfork.cli.main import app
from worldfork.lab.run import run
from worldfork.ledger.closed_loop import DeploymentRow
from worldfork.ledger.store import Study

TASK = "linear_quadratic"


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("tried")
    (folder / "registration.toml").write_text(TRIED)
    return run(folder / "registration.toml", folder / "study")


def rows_of(study: Study, policy: str) -> list[DeploymentRow]:
    return [row for folder in study.deployments() if folder.policy == policy for row in folder.rows()]


def test_the_score_counts_trials_and_what_was_kept(tried: Study) -> None:
    score = wf.score(tried, permutations=50)
    deployed = score.deployment[TASK]
    for policy in ("try", "try-two"):
        ended = [row.trial.kept for row in rows_of(tried, policy) if row.trial]
        decided = [kept for kept in ended if kept is not None]
        trials = deployed.policies[policy].trials
        assert trials is not None
        assert (trials.decided, trials.kept) == (len(decided) / 2, sum(decided) / 2)
    assert {outcome.trials is None for name, outcome in deployed.policies.items() if "try" not in name} == {True}
    shown = {row["Policy"]: row["kept"] for row in deployments({TASK: deployed}).records()}
    assert (shown["try"], shown["try-two"], shown["always"]) == ("2.0 of 3.0", "1.0 of 1.0", "")
    assert "Kept: The updates of one deployment that stayed" in " ".join(
        plain(of_deployment(TASK, deployed), width=200).split()
    )
    frame = frames.deployments(score.deployment).select("policy", "trials", "trials_kept")
    assert frame.filter(pl.col("policy") == "try").row(0) == ("try", 3.0, 2.0)
    assert frame.filter(pl.col("policy") == "always").row(0) == ("always", None, None)


def test_a_policy_that_tries_its_updates_is_no_always_to_compare_with(tried: Study) -> None:
    policies = wf.score(tried, permutations=50).deployment[TASK].policies
    assert policies["try"].always == "always"
    assert policies["try-two"].always is None
    assert policies["residual"].always is None  # of the same arm


def test_episodes_are_exported_with_their_trials(tried: Study, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export", str(tried.path), "--deployments", "-o", str(tmp_path / "e.csv")])
    assert done.exit_code == 0, done.output
    frame = pl.read_csv(tmp_path / "e.csv", infer_schema_length=None).filter(pl.col("policy") == "try-two")
    rows = rows_of(tried, "try-two")
    assert frame["incumbent_return"].to_list() == [row.trial and row.trial.incumbent_return for row in rows]
    assert frame["kept"].to_list() == [row.trial and row.trial.kept for row in rows]
