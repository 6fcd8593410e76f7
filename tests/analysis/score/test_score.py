"""The whole score: its schema, the properties that hold whatever the data, and tables that lack something."""

import dataclasses
import functools
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds import crossed, frame, study

from worldfork.analysis.read.table import read_table
from worldfork.analysis.score import Rules, score
from worldfork.analysis.score.scoring import score_ledger
from worldfork.analysis.score.undefined import Undefined
from worldfork.errors import WorldforkError
from worldfork.registration.schema import Prediction

LOST = 50 + 0.1 * pl.col("checkpoint").cast(pl.Float64)  # at every fork; no two checkpoints lose the same
QUICK = Rules(permutations=99, triggers=("residual", "noise", "drift"))
FEW = settings(max_examples=4, suppress_health_check=list(HealthCheck))


def scored(table, rules=QUICK, **more):
    return score(read_table(table).arms, rules, **more).to_json()


@functools.cache
def scored_as_it_is(**kind):
    """The score of a study that properties are held against: once for all their examples."""
    return scored(study(**kind))


def numbers(tree, path=""):
    """Every number of a score by its path."""
    if isinstance(tree, dict):
        return {k: v for key, value in tree.items() for k, v in numbers(value, f"{path}.{key}").items()}
    if isinstance(tree, list):
        return {k: v for i, value in enumerate(tree) for k, v in numbers(value, f"{path}.{i}").items()}
    return {path: tree} if isinstance(tree, int | float) and not isinstance(tree, bool) else {}


def test_schema():
    found = scored(study(episodes=4), Rules(permutations=50))
    json.dumps(found, allow_nan=False)
    assert found["schema"] == "worldfork.score/2"
    task = found["arms"][""]["tasks"]["world"]
    assert {"attempted", "retained", "diverged", "helped", "hurt"} <= set(task["forks"])
    for estimand in ("all_attempted", "retained"):
        assert set(task["effect"][estimand]) >= {
            *(
                "mean",
                "bootstrap",
                "student_t",
                "mde",
                "by_direction",
                "by_checkpoint",
                "clusters",
                "cells",
                "forks",
            )
        }
    assert task["verdict"] in ("harmful", "helpful", "unresolved")
    assert set(task["drift_quartiles"]) == {"away", "toward"}
    assert set(task["policies"]) == {
        *("never", "always", "oracle", "position_table", "direction_clock", "earned", "per_deployment"),
    }
    assert set(task["judgement"]) == {
        *("grade", "p_student_t", "p_sign_flip", "p_wild", "least_p", "family", "adjusted_student_t"),
        *("adjusted_sign_flip", "leave_one_out", "anytime", "more_checkpoints"),
    }
    assert set(task["triggers"]) == {"residual", "noise", "drift", "clock", "periodic", "random"}
    for side in ("triggers", "triggers_all_attempted"):
        for trigger in task[side].values():
            assert set(trigger) == {
                *("auc", "auc_interval", "auc_interval_kind", "auc_by_checkpoint", "policy_total", "fires"),
                *("auc_student_t", "auc_clusters"),
                *("by_direction", "running_quantile", "gradient_steps", "n_defined", "excluded_quantile"),
                *("passes_control", "random", "random_blocks", "random_shift", "endpoint", "correlation"),
                *("partial_correlation", "spearman_hold", "given_position", "earned", "gains", "swapped"),
                *("standing", "adjusted", "useful", "control_p", "per_deployment", "threshold"),
            }
            assert set(trigger["random"]) == {"mean", "interval", "p", "permutations"}
            assert set(trigger["random_blocks"]) == {"2", "4", "6"}
    assert set(task["contraction"]) == {
        *(
            "slope",
            "slope_interval",
            "intercept",
            "slope_bootstrap",
            "crossing",
            "crossing_interval",
            "crossing_bootstrap",
        ),
        *("variance_ratio", "variance_ratio_interval", "variance_ratio_bootstrap", "clusters", "within", "bins"),
        "split_half",
    }
    assert set(task["proxies"]) == {"delta_k_given_hold", "cells_with_both_signs"}
    assert set(task["variance_components"]) == {"checkpoint", "fork", "episode"}
    assert set(task["crn"]) == {"gain"}
    assert all(set(reason) == {"figure", "why"} and reason["why"] for reason in found["undefined"])


def test_records_are_keyed_in_the_same_way_whatever_the_number_of_arms():
    table = pl.concat([study(1).with_columns(arm=pl.lit(arm), task=pl.lit("x")) for arm in ("a", "b")])
    both = score(read_table(table).arms, QUICK, contrasts=[("b", "a")])
    alone = score(read_table(table.filter(pl.col("arm") == "a")).arms, QUICK)
    assert both["a", "x"].effect == alone["a", "x"].effect == alone["x"].effect
    noise = [one.arms["a"].tasks["x"].triggers.retained["noise"] for one in (both, alone)]
    assert noise[0].gains == noise[1].gains
    assert noise[0].adjusted["random"] >= noise[1].adjusted["random"]  # two arms are a larger family
    assert both.contrasts["b - a"]["x"].all_attempted.mean == pytest.approx(0.0)
    with pytest.raises(
        WorldforkError, match=r"several arms: say score\[ARM, 'x'\]. There are \('a', 'x'\), \('b', 'x'\)"
    ):
        both["x"]
    with pytest.raises(WorldforkError, match=r"no score\['a', 'y'\]. There are \('a', 'x'\)"):
        alone["y"]


def test_a_score_says_in_frames_what_it_says_in_records():
    table = pl.concat([study(1).with_columns(arm=pl.lit(arm)) for arm in ("a", "b")])
    found = score(read_table(table).arms, QUICK)
    effects, triggers, policies = found.effects(), found.triggers("retained"), found.policies()
    assert effects.select("arm", "task", "estimand").rows() == [
        (arm, "world", estimand) for arm in ("a", "b") for estimand in ("all_attempted", "retained")
    ]
    assert effects["mean"][2] == found["b", "world"].effect.all_attempted.mean
    assert effects["grade"].to_list() == [
        grade for arm in ("a", "b") for grade in (found[arm, "world"].judgement.grade, None)
    ]
    assert triggers.select("arm", "trigger").rows() == [
        (arm, name) for arm in ("a", "b") for name in QUICK.triggers
    ]
    row = triggers.row(by_predicate=(pl.col("arm") == "b") & (pl.col("trigger") == "noise"), named=True)
    noise = found["b", "world"].triggers.retained["noise"]
    assert (row["auc"], row["auc_low"], row["random_p"]) == (noise.auc, noise.auc_interval.low, noise.random.p)
    assert (row["standing"], row["useful"]) == (noise.standing, noise.useful.useful)
    assert row["per_deployment"] == noise.policy_total / found["b", "world"].effect.retained.cells
    assert row["does_not_beat"] == ", ".join(noise.useful.does_not_beat) != ""
    for test, p in noise.adjusted.items():
        assert row[f"adjusted_{test}_p"] == (None if isinstance(p, Undefined) else p)
    for yardstick in ("never", "always", "better_of_both", "position_table"):
        assert row[f"gain_over_{yardstick}"] == noise.gains[yardstick].mean
    always = policies.filter(pl.col("policy") == "always")
    assert always["total"].to_list() == [found[arm, "world"].policies.all_attempted.always for arm in ("a", "b")]
    assert len(policies) == 2 * (3 + 2 * len(QUICK.triggers))


def test_a_candidate_that_is_not_read_is_left_out_by_name_with_the_reason():
    registered = ("noise", "percentile", "residul", "spread:Narrow")
    found = score(read_table(study(1)).arms, Rules(permutations=30, candidates=registered))["world"]
    left_out = found.triggers_unavailable
    assert set(left_out) == {*registered[1:], "adwin", "page_hinkley", "kswin", "conformal"}
    assert left_out["percentile"] == "is registered as a candidate, and its values were not recorded"
    assert "nothing has this name" in left_out["residul"]
    assert left_out["spread:Narrow"].endswith("only where it is named: --triggers noise,spread:Narrow")
    assert found.to_json()["triggers_unavailable"] == left_out
    assert found.candidates == 4
    named = score(read_table(study(1)).arms, Rules(permutations=30, candidates=registered, triggers=("noise",)))
    assert named["world"].triggers_unavailable == {}, "whoever names some leaves the others out"


def test_frames_hold_a_null_where_a_figure_is_undefined_and_keep_their_types():
    whole, one = (score(read_table(study(checkpoints=n)).arms, QUICK) for n in (3, 1))
    assert one.triggers()["policy_total"].null_count() == len(QUICK.triggers)
    for name in ("effects", "triggers", "policies"):
        assert getattr(one, name)().schema == getattr(whole, name)().schema


def test_every_null_has_its_reason():
    found = scored(study(), Rules(permutations=20))
    reasons = {reason["figure"] for reason in found["undefined"]}

    def nulls(tree, path):
        if tree is None and not path.endswith((".low", ".high", ".below", "].arm")):  # an open end is no figure
            assert path in reasons, path
        if isinstance(tree, dict):
            for key, value in tree.items():
                nulls(value, f"{path}.{key}" if path else key)
        if isinstance(tree, list):
            for index, value in enumerate(tree):
                nulls(value, f"{path}[{index}]")

    nulls({"arms": found["arms"]}, "")


def test_a_trigger_that_sees_passes_and_noise_does_not():
    task = scored(study(noise=0.1), Rules(permutations=2_000))["arms"][""]["tasks"]["world"]
    for side in ("triggers", "triggers_all_attempted"):
        assert task[side]["residual"]["passes_control"] is True
        assert task[side]["drift"]["passes_control"] is True
        assert task[side]["noise"]["passes_control"] is False
        assert task[side]["random"]["passes_control"] is False
    assert task["triggers"]["residual"]["auc"] > 0.85
    assert 0 < task["triggers"]["residual"]["policy_total"] <= task["policies"]["oracle"]
    assert task["triggers"]["noise"]["auc"] == pytest.approx(0.5, abs=0.2)


@FEW
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(shuffler):
    table = study(episodes=3)
    order = list(range(len(table)))
    shuffler.shuffle(order)
    assert scored(table[order]) == scored_as_it_is(episodes=3)


@FEW
@given(st.integers(-500, 500))
def test_shifting_all_returns_changes_no_all_attempted_figure_of_dr(shift):
    table = study()
    moved = table.with_columns(pl.col("r_hold") + shift, pl.col("r_update") + shift)
    before, after = (numbers(one["arms"][""]["tasks"]["world"]) for one in (scored_as_it_is(), scored(moved)))
    watched = [
        path
        for path in before
        if path.startswith((".effect.all_attempted", ".triggers_all_attempted", ".variance", ".policies_all"))
        and "partial" not in path
        and "excluded" not in path
    ]
    assert len(watched) > 100
    assert {path: after.get(path) for path in watched} == pytest.approx({path: before[path] for path in watched})


@FEW
@given(st.floats(0.01, 100))
def test_scaling_returns_scales_what_has_their_unit(factor):
    table = study()
    grown = table.with_columns(pl.col("r_hold") * factor, pl.col("r_update") * factor)
    before, after = (numbers(one["arms"][""]["tasks"]["world"]) for one in (scored_as_it_is(), scored(grown)))
    units = ("mean", "bootstrap", "student_t", "mde", "by_direction", "by_checkpoint", "policies", "quartiles")
    pure = ("auc", ".p", "slope", "correlation", "spearman", "fires", "variance_ratio", "forks.")
    chances = [path for path in before if ".p_" in path or ".adjusted" in path]
    scaled = [path for path in before if path.startswith(".effect") and any(unit in path for unit in units)]
    scaled = [path for path in scaled if path not in chances] + [path for path in before if "policy_total" in path]
    kept = chances + [path for path in before if path.startswith(".triggers") and path.endswith(pure)]
    assert {path: after[path] for path in scaled} == pytest.approx({path: factor * before[path] for path in scaled})
    assert {path: after[path] for path in kept} == pytest.approx({path: before[path] for path in kept})


@FEW
@given(st.integers(-(2**20), 2**20))
def test_adding_a_constant_to_a_signal_changes_neither_ranking_nor_policy(constant):
    # multiples of 1/8: adding an integer is then exact, and no two values become one
    table = study().with_columns((pl.col("signal_residual") * 8).round() / 8)
    moved = table.with_columns(pl.col("signal_residual") + constant)
    before, after = (scored(one)["arms"][""]["tasks"]["world"]["triggers"]["residual"] for one in (table, moved))
    for figure in ("auc", "auc_interval", "policy_total", "fires", "running_quantile", "random", "random_shift"):
        assert before[figure] == after[figure]


@FEW
@given(st.integers(0, 2**31))
def test_scrambled_outcomes_change_no_label_free_decision(seed):
    table = study()
    draws = np.random.default_rng(seed)
    scrambled = table.with_columns(
        pl.Series("r_update", draws.normal(100, 50, len(table))),
        pl.Series("r_hold", draws.normal(100, 50, len(table))),
    )
    decided = [score(read_table(one).arms, QUICK)["world"].evidence.all_attempted for one in (table, scrambled)]
    for name in QUICK.triggers:
        np.testing.assert_array_equal(decided[0][name].running, decided[1][name].running)
        np.testing.assert_array_equal(decided[0][name].signal, decided[1][name].signal)


def test_the_seed_decides_the_draws_and_leaves_the_rest():
    one, same, other = (scored(study(), Rules(permutations=99, seed=seed)) for seed in (1, 1, 2))
    assert one == same
    triggers = [found["arms"][""]["tasks"]["world"]["triggers"]["residual"] for found in (one, other)]
    assert triggers[0]["random"]["mean"] != triggers[1]["random"]["mean"]
    assert triggers[0]["policy_total"] == triggers[1]["policy_total"]


def test_figures_do_not_depend_on_which_triggers_are_compared():
    table = read_table(study()).arms
    all_of_them = score(table, Rules(permutations=99))["world"].triggers.retained["residual"]
    alone = score(table, Rules(permutations=99, triggers=("residual",)))["world"].triggers.retained["residual"]
    family = ("adjusted", "passes_control", "useful")
    same = {field.name for field in dataclasses.fields(alone)} - set(family)
    assert all(getattr(alone, name) == getattr(all_of_them, name) for name in same)
    # The family stays what it is; whoever was not compared counts as having shown nothing.
    assert all(alone.adjusted[test] >= p for test, p in all_of_them.adjusted.items())


def test_scoring_one_trigger_alone_does_not_let_it_pass():
    """Among eleven signals .02 is no discovery, and it is none where `triggers` names that one alone."""
    table = study()
    noise = {f"signal_noise_{index}": np.random.default_rng(index).normal(size=len(table)) for index in range(9)}
    arms = read_table(table.with_columns(**{name: pl.Series(values) for name, values in noise.items()})).arms
    alone = score(arms, Rules(permutations=99, triggers=("noise_3",)))["world"].triggers.retained["noise_3"]
    assert alone.adjusted["random"] == pytest.approx(min(1.0, 11 * alone.random.p))
    assert alone.standing == "candidate"


def test_scoring_one_arm_of_a_flat_table_keeps_the_family_of_the_whole():
    table = pl.concat([study(1).with_columns(arm=pl.lit(arm)) for arm in ("a", "b")])
    both, alone = (score_ledger(table, arm=arm, permutations=99, triggers=("noise",)) for arm in (None, "a"))
    assert (both.family, both["a", "world"].judgement.family) == (alone.family, alone["world"].judgement.family)
    one, other = both["a", "world"].triggers.retained["noise"], alone["world"].triggers.retained["noise"]
    assert all(other.adjusted[test] >= p for test, p in one.adjusted.items())


def test_what_was_not_registered_is_exploratory():
    registered = Rules(permutations=99, candidates=("residual",), members=(("", "world"), ("", "elsewhere")))
    found = score(read_table(study()).arms, registered)
    assert found.family.registered
    triggers = found["world"].triggers.retained
    assert {name: one.standing for name, one in triggers.items()} == {
        "residual": "candidate",
        "noise": "exploratory",
        **dict.fromkeys(("drift", "clock", "periodic", "random"), "reference"),
    }
    # Two registered tests, the second of which was never run; what is exploratory is one more.
    assert triggers["residual"].adjusted["random"] == pytest.approx(min(1.0, 2 * triggers["residual"].random.p))
    assert triggers["noise"].adjusted["random"] >= triggers["noise"].random.p
    assert found["world"].judgement.family == 2


def test_a_cell_that_leaves_the_retained_mean_is_named():
    """Every fork of one cell diverges: its checkpoint is then its other cell alone, and the score says so."""
    gone = (pl.col("checkpoint") == "3") & (pl.col("direction") == "toward")
    table = study().with_columns(r_update=pl.when(gone).then(1.0).otherwise(pl.col("r_update")))
    task = score(read_table(table).arms, QUICK)["world"]
    assert task.effect.retained.left_out == ("3/toward/0",)
    assert task.effect.all_attempted.left_out == ()
    # The rule looks at the cell's mean; here it and the fork's own r_hold agree.
    assert task.forks.below_own_hold == task.forks.diverged == 12


def test_an_auc_says_on_how_many_checkpoints_it_rests():
    """Three of five checkpoints have both classes: .68 covers what is called 95% there."""
    few = pl.col("checkpoint").is_in(["0", "1"])
    table = study().with_columns(r_update=pl.when(few).then(pl.col("r_hold") - 1).otherwise(pl.col("r_update")))
    residual = score(read_table(table).arms, QUICK)["world"].triggers.retained["residual"]
    assert residual.auc_clusters == 3
    low, high = residual.auc_student_t
    assert low < residual.auc_interval.low < residual.auc_interval.high < high


def test_five_checkpoints_lean_and_do_not_resolve():
    """All five lose, far from 0: Student-t has no doubt, and the sign flips can not be sure of it."""
    table = study().with_columns(r_update=pl.col("r_hold") - LOST)
    task = score(read_table(table).arms, QUICK)["world"]
    assert (task.verdict, task.judgement.grade) == ("harmful", "leaning")
    assert (task.judgement.p_sign_flip, task.judgement.least_p) == (0.0625, 0.0625)
    assert task.judgement.more_checkpoints == 1
    six = score(read_table(study(checkpoints=6).with_columns(r_update=pl.col("r_hold") - LOST)).arms, QUICK)
    assert six["world"].judgement.grade == "resolved"


def test_a_grade_reads_the_whole_family():
    """Six checkpoints reach .03125 alone; among four registered means that is not enough."""
    table = study(checkpoints=6).with_columns(r_update=pl.col("r_hold") - LOST)
    arms = read_table(table).arms
    members = tuple(("", name) for name in ("world", "second", "third", "fourth"))
    task = score(arms, dataclasses.replace(QUICK, members=members))["world"]
    assert (task.judgement.grade, task.judgement.adjusted_sign_flip) == ("leaning", 0.125)
    assert task.judgement.more_checkpoints == 2  # eight: 4 x 2 of 256 patterns


def test_a_policy_has_an_interval_and_is_compared_with_what_costs_nothing():
    """The totals by checkpoint add up; the drift level, which both directions share, is a function of position."""
    task = score(read_table(study(checkpoints=6)).arms, QUICK)["world"]
    drift = task.triggers.retained["drift"]
    assert sum(drift.earned.by_checkpoint.values()) == pytest.approx(drift.policy_total)
    assert drift.gains["never"].mean == pytest.approx(drift.earned.mean)
    always = task.policies.retained.earned["always"].by_checkpoint
    expected = np.mean([drift.earned.by_checkpoint[name] - always[name] for name in always])
    assert drift.gains["always"].mean == pytest.approx(expected)
    assert drift.given_position.auc == 0.5
    assert drift.swapped.p == 1.0
    assert "swapped" in drift.useful.does_not_beat
    running = drift.running_quantile  # the label-free rule has the same yardsticks
    assert sum(running.earned.by_checkpoint.values()) == pytest.approx(running.policy_total)
    assert running.gains["never"].mean == pytest.approx(running.earned.mean)
    assert running.swapped.p == 1.0
    assert sum(task.policies.retained.earned["position_table"].by_checkpoint.values()) == pytest.approx(
        task.policies.retained.position_table
    )


def test_arms_and_tasks_are_kept_apart():
    table = pl.concat(
        [study(1).with_columns(arm=pl.lit(arm), task=pl.lit(task)) for arm in ("a", "b") for task in ("x", "y")]
    )
    found = scored(table, contrasts=[("a", "b")])
    assert set(found["arms"]) == {"a", "b"}
    assert set(found["arms"]["a"]["tasks"]) == {"x", "y"}
    assert found["contrasts"]["a - b"]["x"]["all_attempted"]["mean"] == pytest.approx(0.0)
    one = scored(table.filter(pl.col("arm") == "a"))
    assert set(one["arms"]["a"]["tasks"]) == {"x", "y"}


def test_retained_and_attempted_part_where_forks_diverge():
    table = study()
    collapsed = table.with_columns(
        pl.when(pl.col("k") == 3).then(1.0).otherwise(pl.col("r_update")).alias("r_update")
    )
    task = scored(collapsed)["arms"][""]["tasks"]["world"]
    assert (task["forks"]["attempted"], task["forks"]["diverged"]) == (120, 10)
    assert task["effect"]["all_attempted"]["mean"] < task["effect"]["retained"]["mean"]
    assert task["triggers"]["residual"]["excluded_quantile"] is not None
    off = scored(collapsed, Rules(permutations=9, divergence=None, triggers=("residual",)))["arms"][""]["tasks"][
        "world"
    ]
    assert off["forks"]["diverged"] == 0
    assert off["effect"]["retained"] == off["effect"]["all_attempted"]


def test_predictions_are_answered_for_their_task_and_arm():
    said = (
        Prediction(name="harm", task="world", between=(-1000.0, 0.0)),
        Prediction(name="elsewhere", task="other", between=(0.0, 1.0)),
    )
    found = scored(study(), Rules(permutations=9, predictions=said, triggers=("residual",)))
    assert [(one["name"], one["answer"]) for one in found["arms"][""]["tasks"]["world"]["predictions"]] == [
        ("harm", "held")
    ]


LACKING = {
    "one checkpoint": lambda: study(checkpoints=1),
    "one direction": lambda: study().filter(pl.col("direction") == "away"),
    "one fork": lambda: study()[:1],
    "one fork per cell": lambda: study().filter(pl.col("k") == 1),
    "all dR equal": lambda: frame(np.full(48, -5.0), signal_residual=np.arange(48.0), **crossed(2, k=12)),
    "all dR zero": lambda: frame(np.zeros(48), signal_residual=np.arange(48.0), **crossed(2, k=12)),
    "all signals equal": lambda: study().with_columns(signal_residual=pl.lit(1.0)),
    "signals missing here and there": lambda: study().with_columns(
        pl.when(pl.col("k") % 3 == 0).then(None).otherwise(pl.col("signal_residual")).alias("signal_residual")
    ),
    "a signal missing everywhere": lambda: study().with_columns(signal_residual=pl.lit(None)),
    "a signal in one checkpoint only": lambda: study().with_columns(
        pl.when(pl.col("checkpoint") == "0").then(pl.col("signal_residual")).alias("signal_residual")
    ),
    "no signals": lambda: study().drop("signal_residual", "signal_noise", "level"),
    "everything diverged": lambda: study().with_columns(r_update=pl.lit(0.0)),
    "all but one checkpoint diverged": lambda: study().with_columns(
        r_update=pl.when(pl.col("checkpoint") == "3").then(pl.col("r_update")).otherwise(0.0)
    ),
    "negative returns": lambda: study().with_columns(pl.col("r_hold") - 2000, pl.col("r_update") - 2000),
    "one episode": lambda: study(episodes=1),
    "huge returns": lambda: study().with_columns(pl.col("r_hold") * 1e200, pl.col("r_update") * 1e200),
}


@pytest.mark.parametrize("name", LACKING)
def test_what_can_not_be_said_is_null_with_a_reason(name):
    """Never a traceback (numpy's warnings are errors here), never a silent zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = scored(LACKING[name](), Rules(permutations=30))
    json.dumps(found, allow_nan=False)
    assert found["arms"][""]["tasks"]["world"]["forks"]["attempted"] > 0
    assert all(reason["why"] for reason in found["undefined"])


def test_some_of_those_reasons():
    one = scored(study(checkpoints=1), Rules(permutations=9))
    task = one["arms"][""]["tasks"]["world"]
    assert task["verdict"] is None
    assert task["triggers"]["residual"]["policy_total"] is None
    assert task["triggers"]["residual"]["running_quantile"]["policy_total"] is not None
    why = {reason["figure"]: reason["why"] for reason in one["undefined"]}
    assert "two checkpoints" in why["arms..tasks.world.triggers.residual.policy_total"]
    equal = scored(LACKING["all dR equal"](), Rules(permutations=9))["arms"][""]["tasks"]["world"]
    assert equal["effect"]["all_attempted"]["mean"] == pytest.approx(-5.0)
    assert (equal["effect"]["all_attempted"]["student_t"], equal["verdict"]) == (None, None)  # it has no spread
    assert equal["triggers"]["residual"]["auc"] is None
    assert equal["triggers"]["residual"]["correlation"] is None


ON_ONE_CHECKPOINT = (
    "one checkpoint",
    "a signal in one checkpoint only",
    "everything diverged",
    "all but one checkpoint diverged",
)


@pytest.mark.parametrize("name", ON_ONE_CHECKPOINT)
def test_a_threshold_that_has_no_other_checkpoint_to_come_from_is_no_policy(name):
    """It neither earns 0 nor beats anything: what it would do is not known."""
    residual = scored(LACKING[name](), Rules(permutations=9))["arms"][""]["tasks"]["world"]["triggers"]["residual"]
    fitted = ("policy_total", "fires", "by_direction", "earned", "gains", "random", "random_shift", "swapped")
    assert {figure: residual[figure] for figure in (*fitted, "passes_control", "useful")} == dict.fromkeys(
        (*fitted, "passes_control", "useful")
    )
    assert set(residual["adjusted"].values()) == {None}
    assert residual["running_quantile"]["policy_total"] is not None  # which needs no other


def test_a_yardstick_that_is_undefined_earns_nothing_that_could_be_compared():
    """All but one checkpoint diverged: on the forks that are retained the position table has nothing to read."""
    task = scored(LACKING["all but one checkpoint diverged"](), Rules(permutations=9))["arms"][""]["tasks"]["world"]
    policies, gains = task["policies"], task["triggers"]["residual"]["running_quantile"]["gains"]
    for name in ("position_table", "direction_clock"):
        assert policies[name] is None
        assert policies["earned"][name] == {"mean": None, "student_t": None, "by_checkpoint": {"3": None}}
        assert gains[name] == dict.fromkeys(gains[name]) | {"checkpoints": 0, "won": 0}
    assert policies["earned"]["always"]["by_checkpoint"] == {"3": pytest.approx(policies["always"])}
    assert gains["always"]["checkpoints"] == 1
    assert task["policies_all_attempted"]["position_table"] is not None
    assert task["triggers_all_attempted"]["residual"]["useful"] is not None


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"rate": 1.5}, "between 0 and 1"),
        ({"divergence": -0.1}, "between 0 and 1"),
        ({"permutations": 0}, "whole number from 1"),
    ],
)
def test_rules_that_make_no_sense(rules, message):
    with pytest.raises(WorldforkError, match=message):
        Rules(**rules)


def test_an_unknown_trigger_is_answered_with_the_known_ones():
    with pytest.raises(WorldforkError, match=r"`surprise`; known here: residual.*noise"):
        scored(study(), Rules(permutations=9, triggers=("surprise",)))


@pytest.mark.nightly
def test_a_million_rows():
    seeds = tuple(range(4167))
    grid = crossed(5, seeds=seeds, k=24)
    draws = np.random.default_rng(0)
    table = frame(
        draws.normal(-5, 50, len(grid["k"])), hold=600.0, signal_residual=draws.normal(size=len(grid["k"])), **grid
    )
    found = scored(table, Rules(permutations=100, triggers=("residual",)))
    assert found["arms"][""]["tasks"]["world"]["forks"]["attempted"] == 1_000_080
