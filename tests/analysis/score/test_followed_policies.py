"""Policies that were followed all the way: thresholds from other checkpoints, figures that follow from the rows."""

import dataclasses
import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from deployed import DEPLOYED
from scipy import stats

import worldfork as wf
from worldfork.analysis.present.page import gather, render
from worldfork.analysis.present.render import markdown, plain
from worldfork.analysis.present.strips import axis_of
from worldfork.analysis.present.summary import of_deployment
from worldfork.analysis.present.tables import all_tables
from worldfork.analysis.present.tables.deployments import ORDERS, deployments, forecasts
from worldfork.analysis.present.text.deployments import best_first, forecast_words, realised
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.read.ledger import open_ledger
from worldfork.analysis.read.outcomes import ForkTable
from worldfork.analysis.read.study import Deployed, read_deployments
from worldfork.analysis.read.triggers import read_triggers
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.decisions import decide
from worldfork.analysis.score.deployment_records import (
    AS_FITTED,
    COVERAGE,
    FITTING_ANEW,
    LedgerForecast,
    TaskDeployment,
    cautions,
)
from worldfork.analysis.score.deployments import score_deployments
from worldfork.analysis.score.forecasts import forecast
from worldfork.analysis.score.predictions import prediction_problems
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.thresholds import decisions_on, fit_thresholds
from worldfork.analysis.score.undefined import Undefined
from worldfork.errors import WorldforkError
from worldfork.ledger.closed_loop import Thresholds, policy_of
from worldfork.ledger.row import Rows
from worldfork.ledger.store import Study
from worldfork.ledger.verify import root
from worldfork.randomness import Event
from worldfork.registration import Registration, parse
from worldfork.testing import check_trigger
from worldfork.triggers import CellKey, Segment, Trigger
from worldfork.triggers.policy import Policy, normal_threshold

TASK = "linear_quadratic"
FITTED = (
    DEPLOYED.replace("checkpoints = [0, 1]", "checkpoints = [0, 1, 2]").replace(
        "threshold = 0.007", 'threshold = "fitted"'
    )
    + """
[deployment.policies.matched]
trigger = "random"
matches = "periodic"

[[predictions]]
name = "following-always-changes-less-than-a-million"
arm = "few"
task = "linear_quadratic"
figure = "deployment.policies.always.advantage.mean"
between = [-1e6, 1e6]
premise = { figure = "effect.all_attempted.mean", below = 1e6 }

[[predictions]]
name = "the-residual-gains-a-million"
arm = "many"
task = "linear_quadratic"
figure = "deployment.policies.residual.evaluation.mean"
falsified_below = 1e6

[[predictions]]
name = "the-ledger-orders-policies"
task = "linear_quadratic"
figure = "deployment.forecast.rank_correlation"
falsified_below = -1.5
"""
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("followed")
    (folder / "fitted.toml").write_text(FITTED)
    return wf.run(folder / "fitted.toml", folder / "study")


@pytest.fixture(scope="module")
def score(study: Study) -> wf.Score:
    return wf.score(study, permutations=50)


def thresholds(study: Study) -> Thresholds:
    return Thresholds.model_validate_json((study.path / "deployments" / "thresholds.json").read_text())


def test_thresholds_are_those_that_the_analysis_fits_on_other_checkpoints(study: Study) -> None:
    forks = open_ledger(study).table.arms["many"][TASK]
    everyone = np.ones(len(forks), bool)
    readings = read_triggers(forks.prefork, names=["residual"])
    fitted = decide(readings, forks, scored=everyone, rate=0.3)["residual"].threshold
    assert fitted is not None
    parts = partition(forks.prefork)
    known = thresholds(study)
    for code, name in enumerate(parts.checkpoints):
        assert known.of("residual", TASK, name) in (*set(fitted[parts.checkpoint == code].tolist()), "inf", "-inf")
        row = study.deployment("residual", f"many-{TASK}-c{name}-away-s0").rows()[0]
        assert row.threshold == known.of("residual", TASK, name)


def test_a_threshold_does_not_know_its_own_checkpoint(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    from worldfork.analysis.score import thresholds as fitting

    before = thresholds(study).policies["residual"][TASK]
    real = fitting.study_table

    def scrambled(source: Study, rows: Rows) -> ForkTable:
        """The same ledger, in which updating checkpoint 1 was worth the opposite, a thousandfold."""
        table = real(source, rows)
        forks = table.arms["many"][TASK]
        own = np.array([key.checkpoint == "1" for key in forks.prefork.cells])[forks.prefork.cell]
        turned = np.where(own, forks.outcomes.r_hold - 1000 * forks.delta, forks.outcomes.r_update)
        outcomes = dataclasses.replace(forks.outcomes, r_update=turned)
        arms = {**table.arms, "many": {TASK: dataclasses.replace(forks, outcomes=outcomes)}}
        return dataclasses.replace(table, arms=arms)

    monkeypatch.setattr(fitting, "study_table", scrambled)
    after = fit_thresholds(study, root=study.path).policies["residual"][TASK]
    assert after["1"] == before["1"]
    assert after != before


def test_predictions_about_policies_are_answered_by_what_following_came_to(score: wf.Score) -> None:
    followed = score.deployment[TASK]
    few, many = (score[arm, TASK].predictions for arm in ("few", "many"))
    assert [(one.name, one.answer) for one in (*few, *many)] == [
        ("following-always-changes-less-than-a-million", "held"),
        ("the-ledger-orders-policies", "held"),
        ("the-residual-gains-a-million", "falsified"),
    ]
    always, residual = followed.policies["always"].advantage, followed.policies["residual"].evaluation
    assert not isinstance(always, Undefined)
    assert not isinstance(residual, Undefined)
    assert (few[0].value, few[0].interval) == (always.mean, always.student_t)
    assert few[0].premise_value == score["few", TASK].effect.all_attempted.mean
    assert (few[1].value, few[1].interval) == (followed.forecast.rank_correlation, followed.forecast.bootstrap)
    assert (many[0].value, many[0].interval) == (residual.mean, residual.student_t)


def test_a_prediction_about_a_policy_that_is_not_there_is_refused_when_registered() -> None:
    registered = parse(FITTED)
    assert prediction_problems(Rules.registered(registered).predictions) == []
    with pytest.raises(WorldforkError, match="about the policy `sometimes`; there are never, always, coin"):
        parse(FITTED.replace("deployment.policies.always.", "deployment.policies.sometimes."))
    with pytest.raises(WorldforkError, match="about a deployment, and none is registered"):
        parse(FITTED[: FITTED.index("[deployment]")] + FITTED[FITTED.index("[[predictions]]") :])
    misspelled = parse(FITTED.replace("policies.always.advantage.mean", "policies.always.advantage.mena"))
    (problem,) = prediction_problems(Rules.registered(misspelled).predictions)
    assert "no `mena` among" in problem


def test_a_matched_policy_fires_as_often_as_its_match_does_elsewhere(study: Study) -> None:
    assert thresholds(study).of("matched", TASK, 0) == pytest.approx(normal_threshold(0.5))  # every second fork
    assert (normal_threshold(0.0), normal_threshold(1.0)) == (np.inf, -np.inf)


def test_another_study_gives_thresholds_only_under_its_root(study: Study) -> None:
    class Elsewhere(Study):
        ledger_root = root(study)

        @property
        def registration(self) -> Registration:
            registered = super().registration
            assert registered.deployment is not None
            there = {"ledger": str(study.path), "ledger_root": self.ledger_root}
            return registered.model_copy(update={"deployment": registered.deployment.model_copy(update=there)})

    fitted = fit_thresholds(Elsewhere(study.path), root=Path("/"))
    assert fitted.policies == thresholds(study).policies
    assert fitted.ledger is not None
    assert fitted.ledger.root == root(study)
    Elsewhere.ledger_root = "0" * 64
    with pytest.raises(WorldforkError, match="is registered"):
        fit_thresholds(Elsewhere(study.path), root=Path("/"))


def test_the_advantage_is_the_paired_difference_of_the_rows(study: Study, score: wf.Score) -> None:
    for name, outcome in score.deployment[TASK].policies.items():
        arm = "many" if name == "residual" else "few"
        by_checkpoint = []
        for checkpoint in range(3):
            own, never = (
                study.deployment(policy, f"{of}-{TASK}-c{checkpoint}-away-s0").rows()
                for policy, of in ((name, arm), ("never", "few"))
            )
            returns = [[row.episode_return for row in rows] for rows in (own, never)]
            by_checkpoint.append(np.mean(returns[0]) - np.mean(returns[1]))
        if name == "never":
            assert isinstance(outcome.advantage, Undefined)
            assert (outcome.updates, outcome.ledger_value) == (0.0, 0.0)
            continue
        assert not isinstance(outcome.advantage, Undefined)
        assert outcome.advantage.mean == pytest.approx(np.mean(by_checkpoint))
        assert list(outcome.advantage.by_checkpoint.values()) == pytest.approx(by_checkpoint)
        assert outcome.advantage.grade in ("resolved", "leaning", "unresolved")
        assert not isinstance(outcome.evaluation, Undefined)
        assert [point.k for point in outcome.evaluation_at] == [2, 4]
        assert outcome.by_episode[0] == 0.0  # before the first decision nothing differs


def test_in_one_direction_the_parts_are_the_whole(score: wf.Score) -> None:
    for name, outcome in score.deployment[TASK].policies.items():
        if name == "never":
            assert outcome.by_direction == {}
            continue
        (found,) = outcome.by_direction.values()
        assert (found.mean, found.student_t) == (outcome.advantage.mean, outcome.advantage.student_t)
        assert (found.parted, found.parted_student_t) == (outcome.parted.mean, outcome.parted.student_t)
        assert (found.updates, found.ledger_value) == (outcome.updates, outcome.ledger_value)
    assert score.deployment[TASK].directions == ("away",)


def test_always_has_the_ledgers_mean_and_regret_is_counted_from_the_best(score: wf.Score) -> None:
    followed = score.deployment[TASK]
    always = followed.policies["always"]
    assert always.ledger_value == pytest.approx(score["few", TASK].effect.all_attempted.mean)
    assert (always.updates, always.ledger_updates, always.gradient_steps) == (4.0, 4.0, 20.0)
    assert followed.policies[followed.best].regret == 0.0
    assert all(outcome.regret >= 0 for outcome in followed.policies.values())
    assert all(outcome.regret_by_checkpoint >= outcome.regret - 1e-12 for outcome in followed.policies.values())


def test_a_trigger_is_compared_with_always_firing_its_own_update(score: wf.Score) -> None:
    policies = score.deployment[TASK].policies
    for name, outcome in policies.items():
        if name in ("coin", "matched", "periodic"):
            over, own, always = outcome.over_always, outcome.advantage, policies["always"].advantage
            assert not any(isinstance(found, Undefined) for found in (over, own, always))
            differences = np.subtract(list(own.by_checkpoint.values()), list(always.by_checkpoint.values()))
            assert list(over.by_checkpoint.values()) == pytest.approx(differences)
            assert over.mean == pytest.approx(differences.mean())
            assert over.won == (differences > 0).sum()
            assert over.adjusted_student_t >= over.p_student_t
            assert over.grade in ("resolved", "leaning", "unresolved")
            assert outcome.always == "always"
    # `residual` fires the update of another arm, which no policy fires always.
    why = {name: policies[name].over_always for name in ("never", "always", "residual")}
    assert all(isinstance(found, Undefined) for found in why.values())
    assert [policies[name].always for name in why] == [None] * 3
    assert "no update" in why["never"].why
    assert "compared with" in why["always"].why
    assert "no policy fires the update of `many` always" in why["residual"].why


def test_a_policy_decides_on_the_ledger_as_it_did_until_its_first_update(study: Study) -> None:
    """The same code is fed the frozen stream in analysis and its own stream in the lab: equal until it fires."""
    registration, fitted = study.registration, thresholds(study)
    arms = open_ledger(study).table.arms
    for name in ("coin", "matched", "periodic", "residual"):
        arm = "many" if name == "residual" else "few"
        prefork = arms[arm][TASK].prefork
        _, fired = decisions_on(
            prefork,
            lambda checkpoint, name=name: policy_of(
                registration, name, threshold=fitted.of(name, TASK, checkpoint)
            ),
            seed=registration.seed,
        )
        for index, span in prefork.spans():
            rows = study.deployment(name, f"{arm}-{TASK}-c{prefork.cells[index].checkpoint}-away-s0").rows()
            for row, expected in zip(rows, fired[span], strict=True):
                assert row.fired == expected
                if row.fired:
                    break


def test_a_forecast_orders_policies() -> None:
    foreseen = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 1.0], [3.0, 3.0, 3.5], [4.0, 6.0, 4.0]])
    names = ["0", "1", "2"]

    def foretold(first: np.ndarray | None, second: np.ndarray) -> LedgerForecast:
        return forecast(first, second, names, updates={}, seed=0, task=TASK)

    straight, turned = foretold(foreseen, foreseen * 2), foretold(foreseen, -foreseen)
    assert straight.rank_correlation == pytest.approx(1.0)
    assert straight.bootstrap == pytest.approx((1.0, 1.0))
    assert (turned.rank_correlation, turned.ordered_alike) == (pytest.approx(-1.0), 0.0)
    assert isinstance(foretold(foreseen[:2], foreseen[:2]).rank_correlation, Undefined)
    unread = Undefined("its trigger can not be read")
    assert foretold(unread, foreseen).rank_correlation == unread


def test_updates_that_lie_far_apart_hide_how_their_policies_are_ordered() -> None:
    foreseen = np.array([[1.0] * 3, [2.0] * 3, [3.0] * 3, [101.0] * 3, [102.0] * 3, [103.0] * 3])
    realised = foreseen[[2, 1, 0, 5, 4, 3]]  # each update's policies the other way round
    apart = {"costly": [0, 1, 2], "gentle": [3, 4, 5]}
    found = forecast(foreseen, realised, ["0", "1", "2"], updates=apart, seed=0, task=TASK)
    assert found.rank_correlation > 0.5
    for within in found.within.values():
        assert (within.policies, within.rank_correlation) == (3, pytest.approx(-1.0))
        assert within.bootstrap == pytest.approx((-1.0, -1.0))
    assert forecast(foreseen, realised, ["0", "1", "2"], updates={"one": [0]}, seed=0, task=TASK).within == {}


def test_policies_that_never_fired_have_no_place_within_an_update(score: wf.Score) -> None:
    followed = score.deployment[TASK]
    within = followed.forecast.within
    fired = [name for name, one in followed.policies.items() if one.updates > 0 or (one.ledger_updates or 0) > 0]
    assert sum(found.policies for found in within.values()) == len(fired)
    assert "never" not in fired
    assert set(within) == {"few", "many"}


def test_the_interval_of_an_order_is_that_of_all_resamples_of_checkpoints() -> None:
    draws = np.random.default_rng(3)
    foreseen, realised = draws.normal(size=(4, 3)), draws.normal(size=(4, 3))
    every = [
        stats.spearmanr(foreseen[:, list(chosen)].mean(axis=1), realised[:, list(chosen)].mean(axis=1)).statistic
        for chosen in itertools.product(range(3), repeat=3)
    ]
    found = forecast(foreseen, realised, ["0", "1", "2"], updates={}, seed=0, task=TASK)
    assert found.bootstrap == pytest.approx(tuple(np.quantile(every, [0.025, 0.975])))
    few = forecast(foreseen[:, :2], realised[:, :2], ["0", "1"], updates={}, seed=0, task=TASK)
    assert isinstance(few.bootstrap, Undefined)
    three = forecast(foreseen[:3], realised[:3], ["0", "1", "2"], updates={}, seed=0, task=TASK)
    assert not isinstance(three.bootstrap, Undefined)
    two = forecast(foreseen[:2], realised[:2], ["0", "1", "2"], updates={}, seed=0, task=TASK)
    assert isinstance(two.bootstrap, Undefined)


def test_cautions_about_fitted_thresholds_say_what_was_measured() -> None:
    """The lowest and the highest share of the table in results/simulations.md."""
    page = (Path(__file__).parents[3] / "results" / "simulations.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (?:strong|mild) \|.*\| ([\d.]+)% ± [\d.]+% \| ([\d.]+)% ± [\d.]+% \|$", page, re.MULTILINE
    )
    assert len(rows) == 8
    for column, stated in enumerate((AS_FITTED, FITTING_ANEW)):
        shares = [float(row[column]) / 100 for row in rows]
        assert (round(min(shares), 2), round(max(shares), 2)) == stated


def test_cautions_about_few_checkpoints_say_what_was_measured() -> None:
    """With one stream, under both drifts, where nothing diverged: the second and the fourth table of coverage."""
    page = (Path(__file__).parents[3] / "results" / "simulations.md").read_text(encoding="utf-8")
    head = "| policy | updates | outcome | value | measured | skewness | 5 | 10 | 20 | 40 |\n"
    tables = [part.partition("\n\n")[0].splitlines()[1:] for part in page.split(head)[1:]]
    rows = [re.findall(r"([\d.]+)% ±", line) for line in (*tables[1], *tables[3])]
    assert len(rows) > 12
    for column, stated in enumerate(COVERAGE.values()):
        shares = [float(row[column]) / 100 for row in rows]
        assert (round(min(shares), 2), round(max(shares), 2)) == stated


def test_intervals_over_few_checkpoints_come_with_a_caution(score: wf.Score) -> None:
    few, own = score.deployment[TASK].cautions
    assert f"covers {COVERAGE[5][0]:.0%} to {COVERAGE[5][1]:.0%}" in few
    assert "over 5 checkpoints" in few
    assert few.endswith("and there are fewer here.")
    assert "not about fitting anew" in own
    assert f"covers {AS_FITTED[0]:.0%} to {AS_FITTED[1]:.0%} of the one" in own
    assert "over 10 checkpoints covers" in cautions(19, fitted_here=False)[0]
    assert cautions(max(COVERAGE), fitted_here=False) == ()


@pytest.mark.parametrize("width", [80, 140])
def test_what_the_ledger_says_of_a_policy_comes_with_what_it_leaves_open(score: wf.Score, width: int) -> None:
    """A count of fires stands beside the order that labels give; a table says what the ledger counts."""
    shown = " ".join(plain(of_deployment(TASK, score.deployment[TASK]), width=width).split())
    assert "foresee" not in shown
    assert forecast_words(score.deployment[TASK]) in shown
    assert ORDERS in shown
    assert "count of fires all" in shown
    assert TERMS["by the ledger"] in forecasts({TASK: score.deployment[TASK]}).caption


def test_the_caution_about_intervals_stands_where_the_policies_do(study: Study, score: wf.Score) -> None:
    """In the table of policies, and on the page above the first of them."""
    few = score.deployment[TASK].cautions[0]
    assert few in deployments({TASK: score.deployment[TASK]}).caption
    page = render(gather(study, permutations=50)).html
    assert 0 < page.index(few) < page.index('id="deployment')


def scored_with(study: Study, monkeypatch: pytest.MonkeyPatch, **columns: np.ndarray) -> TaskDeployment:
    """The score of the same deployments, some columns of which are others."""

    def altered(source: Study) -> dict[str, Deployed]:
        return {TASK: dataclasses.replace(read_deployments(source)[TASK], **columns)}

    monkeypatch.setattr("worldfork.analysis.score.deployments.read_deployments", altered)
    return score_deployments(study, open_ledger(study).table.arms)[TASK]


def test_a_diverged_deployment_is_named_and_the_others_stay_readable(
    study: Study, score: wf.Score, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed, before = read_deployments(study)[TASK], score.deployment[TASK]
    assert not any(outcome.diverged for outcome in before.policies.values())
    returns = deployed.returns.copy()
    returns[deployed.policies.index("always"), 1, 3] = -1e50
    scored = scored_with(study, monkeypatch, returns=returns)

    always, steady = scored.policies["always"], before.policies["always"]
    assert not isinstance(always.advantage, Undefined)
    assert not isinstance(steady.advantage, Undefined)
    assert not isinstance(always.retained, Undefined)
    assert always.diverged == ("checkpoint 1, away, stream 0",)
    assert always.advantage.mean == pytest.approx(-1e50 / 4 / 3)  # all that were attempted
    others = [steady.advantage.by_checkpoint[name] for name in ("0", "2")]
    assert (always.retained.cells, always.retained.mean) == (2, pytest.approx(np.mean(others)))
    assert scored.cautions[0].startswith(
        "always: 1 of 3 deployments diverged (checkpoint 1, away, stream 0). Its means and intervals are of all"
    )
    assert scored.cautions[1:] == before.cautions

    rows = [{row["Policy"]: row for row in deployments({TASK: one}).records()} for one in (before, scored)]
    assert "e+49" in rows[1]["always"]["over never"]
    for name in ("never", "coin", "matched", "periodic", "residual"):
        for head in ("updates", "over never", "return", "gradient steps"):
            assert rows[1][name][head] == rows[0][name][head]
    axis = axis_of(deployments({TASK: scored}).strips)
    assert max(abs(axis.low), abs(axis.high)) < 100


def test_a_deployment_without_a_finite_return_has_diverged(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    deployed = read_deployments(study)[TASK]
    assert not deployed.failed.any()
    real = Study.deployment

    def broken(source: Study, policy: str, cell: str) -> Any:
        rows = real(source, policy, cell).rows()
        if (policy, "-c2-" in cell) == ("coin", True):
            rows[1] = rows[1].model_copy(update={"evaluation": (None,) * 5})
        return SimpleNamespace(rows=lambda: rows)

    with monkeypatch.context() as patched:
        patched.setattr(Study, "deployment", broken)
        failed = read_deployments(study)[TASK].failed
    assert np.argwhere(failed).tolist() == [[deployed.policies.index("coin"), 2]]
    scored = scored_with(study, monkeypatch, failed=failed)
    assert scored.policies["coin"].diverged == ("checkpoint 2, away, stream 0",)


def test_where_every_deployment_diverged_nothing_is_left(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    deployed = read_deployments(study)[TASK]
    failed = np.zeros_like(deployed.failed)
    failed[deployed.policies.index("always")] = True
    scored = scored_with(study, monkeypatch, failed=failed)
    retained = scored.policies["always"].retained
    assert not isinstance(retained, Undefined)
    assert isinstance(retained.mean, Undefined)
    assert scored.cautions[0].endswith("None is left beside these.")


def test_the_score_is_written_as_json_and_as_tables(score: wf.Score) -> None:
    plain = json.loads(json.dumps(score.to_json(), allow_nan=False))
    assert set(plain["deployment"][TASK]["policies"]) == {
        "never",
        "always",
        "coin",
        "matched",
        "periodic",
        "residual",
    }
    text = "".join(markdown(table) for table in all_tables(score))
    assert "closed-loop deployment" in text
    assert "Does" not in text


def test_policies_are_listed_best_first_with_never_in_its_place(score: wf.Score) -> None:
    followed = score.deployment[TASK]
    names = best_first(followed)
    gains = [realised(followed.policies[name]) for name in names]
    assert sorted(names) == sorted(followed.policies)
    assert gains == sorted(gains, reverse=True)
    assert realised(followed.policies["never"]) == 0.0
    assert [row[1] for row in deployments({TASK: followed}).rows] == names


@pytest.mark.parametrize("width", [80, 140])
def test_no_line_of_the_screen_breaks_within_an_interval(score: wf.Score, width: int) -> None:
    lines = plain(of_deployment(TASK, score.deployment[TASK]), width=width).splitlines()
    rows = [line for line in lines if line.startswith("residual ")]
    assert all(line.count("[") == line.count("]") for line in rows)
    assert sum(line.count("[") for line in rows) >= 3


def test_the_ledgers_forecast_is_a_mark_on_the_line_of_its_policy(score: wf.Score) -> None:
    table = deployments({TASK: score.deployment[TASK]})
    for (_, name, *_), strip in zip(table.rows, table.strips, strict=True):
        if name != "never":
            assert strip.forecast == score.deployment[TASK].policies[name].ledger_value


@pytest.mark.parametrize("width", [80, 240])
def test_policies_with_long_names_are_told_apart_on_any_screen(score: wf.Score, width: int) -> None:
    followed = score.deployment[TASK]
    names = {name: f"finetune-{name}-validation-loss" for name in followed.policies} | {"never": "never"}
    longer = {names[name]: outcome for name, outcome in followed.policies.items()}
    renamed = dataclasses.replace(followed, policies=longer, best=names[followed.best])
    text = plain(of_deployment(TASK, renamed), width=width)
    assert "…" not in text
    assert all(name in text for name in followed.policies)
    assert ("gradient" in text) == (width > 100)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(trigger="never"),
        Policy(trigger="always"),
        Policy(trigger="periodic", settings={"period": 2}),
        Policy(trigger="residual", recorded=True, threshold=0.1),
        Policy(trigger="residual", recorded=True, rate=0.3),
        Policy(trigger="random", threshold="-inf"),
        Policy(trigger="conformal"),
    ],
)
def test_every_kind_of_policy_keeps_the_contract_of_triggers(policy: Policy) -> None:
    check_trigger(policy)


SEEN: dict[CellKey, list[float]] = {}


class Remembers(Trigger):
    """Keeps what it saw of a deployment somewhere else, and knows it all when it is asked again."""

    def begin(self, cell: CellKey, *, event: Event) -> Any:
        return SEEN.setdefault(cell, [])

    def decide(self, memory: Any, segment: Segment) -> tuple[Any, float]:
        memory.append(float(np.nanmean(segment.steps["error"])))
        return memory, max(memory)


class Tosses(Trigger):
    """Draws where nobody can draw again."""

    def begin(self, cell: CellKey, *, event: Event) -> Any:
        return None

    def decide(self, memory: Any, segment: Segment) -> tuple[Any, float]:
        return memory, float(np.random.random())  # noqa: NPY002


@pytest.mark.parametrize(("trigger", "threshold"), [(Remembers, 1.0), (Tosses, 0.5)])
def test_a_policy_that_cheats_is_found_by_the_same_kit(trigger: type[Trigger], threshold: float) -> None:
    with pytest.raises(WorldforkError):
        check_trigger(Policy(trigger=f"{__name__}:{trigger.__name__}", threshold=threshold))
