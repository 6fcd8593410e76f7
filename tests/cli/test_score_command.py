"""`worldfork score` as a person uses it: a table from another harness, wrong flags, broken files."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from worldfork.analysis.present.tables import effects
from worldfork.cli.main import app, main
from worldfork.errors import WorldforkError

RUNNER = CliRunner()


def table(tmp_path, *, seeds=(0,), arms=("",), name="forks.csv"):
    draws = np.random.default_rng(0)
    rows = [
        {
            "task": "cartpole",
            "checkpoint": checkpoint,
            "direction": direction,
            "stream_seed": seed,
            "k": k,
            "r_hold": 600 - 25 * k,
            "r_update": 400 + 100 * (arm == "b") + draws.normal(0, 20),
            "signal_residual": k + draws.normal(0, 2),
            "signal_return_deficit": k + draws.normal(0, 4),
            **({"arm": arm} if arm else {}),
        }
        for arm in arms
        for checkpoint in range(5)
        for direction in ("toward", "away")
        for seed in seeds
        for k in range(1, 13)
    ]
    path = tmp_path / name
    pl.DataFrame(rows).write_csv(path)
    return path


def run(*arguments):
    return RUNNER.invoke(app, ["score", *map(str, arguments), "--permutations", "200"])


def test_the_screen_says_the_verdict_first(tmp_path):
    found = run(table(tmp_path))
    assert found.exit_code == 0, found.output
    words = " ".join(found.output.split())
    assert words.index("Updating every time hurts") < words.index("Candidate triggers") < words.index("References")
    for part in ("leave the model frozen", "residual", "return_deficit", "periodic", "oracle", "Holm"):
        assert part in words
    assert "undefined" not in words
    more = " ".join(run(table(tmp_path), "--verbose").output.split())
    for part in ("all attempted", "retained", "slope", "undefined figure"):
        assert part in more


def test_what_is_left_out_is_said_once_with_the_reason(tmp_path):
    words = " ".join(run(table(tmp_path)).output.split())
    assert words.count("adwin") == 1
    assert "Left out: adwin, page_hinkley, kswin, conformal (needs the error of every step of the stream" in words
    assert "p, Holm: each trigger is compared with as many fires at random" in words
    found = run(table(tmp_path), "--triggers", "residual")
    assert "Left out" not in found.output


def test_a_pipeline_can_fail_on_a_verdict(tmp_path):
    path = table(tmp_path)
    assert run(path, "--fail-on", "helpful,unresolved").exit_code == 0
    found = run(path, "--fail-on", "harmful", "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["schema"] == "worldfork.score/2"
    assert "--fail-on harmful: cartpole." in found.stderr
    with pytest.raises(WorldforkError, match="takes harmful, helpful, unresolved; got harmfull"):
        RUNNER.invoke(app, ["score", str(path), "--fail-on", "harmfull"], catch_exceptions=False)


def test_names_from_a_table_are_no_markup(tmp_path):
    frame = pl.read_csv(table(tmp_path))
    named = frame.with_columns(task=pl.lit("[/red]"), arm=pl.lit("[link=x]")).with_columns(pl.lit(1).alias("[/]"))
    named.write_csv(tmp_path / "named.csv")
    found = run(tmp_path / "named.csv")
    assert found.exit_code == 0, found.exception
    words = " ".join(found.output.split())
    assert "[/red]" in words
    assert "Columns that no figure reads: [/]." in words


def test_json_is_the_schema_and_nothing_else(tmp_path):
    found = run(table(tmp_path), "--json")
    score = json.loads(found.stdout)
    assert score["schema"] == "worldfork.score/2"
    assert score["arms"][""]["tasks"]["cartpole"]["triggers"]["residual"]["random"]["permutations"] == 200


def test_flags_reach_the_figures(tmp_path):
    path = table(tmp_path)
    base, seeded, off, rate = (
        json.loads(run(path, "--json", *more).stdout)["arms"][""]["tasks"]["cartpole"]
        for more in ((), ("--seed", 3), ("--no-divergence",), ("--rate", "0.6"))
    )
    assert base["triggers"]["residual"]["random"] != seeded["triggers"]["residual"]["random"]
    assert off["divergence"]["fraction"] is None
    assert (
        rate["triggers"]["residual"]["running_quantile"]["fires"]
        > base["triggers"]["residual"]["running_quantile"]["fires"]
    )
    strict = json.loads(run(path, "--json", "--divergence", "0.95").stdout)["arms"][""]["tasks"]["cartpole"]
    assert strict["forks"]["diverged"] > base["forks"]["diverged"]
    only = json.loads(run(path, "--json", "--triggers", "residual,clock").stdout)["arms"][""]["tasks"]["cartpole"]
    assert set(only["triggers"]) == {"residual", "clock"}


def test_the_papers_tables(tmp_path):
    page = run(table(tmp_path), "--markdown").output
    assert "| Task | Cells | Forks retained | all attempted, bootstrap | Student-t | retained, bootstrap |" in page
    assert "| cartpole | toward - away" not in page, "the table has no drift levels"
    assert "| cartpole | residual | " in page
    assert "| cartpole | oracle | " in page
    assert "first stream seed" not in page, "there is one stream seed, so nothing was replicated"
    paper = run(table(tmp_path), "--latex").output
    assert paper.count(r"\begin{tabular}") == paper.count(r"\bottomrule") == page.count("| --- |")
    assert r"return\_deficit" in paper
    assert r"$\Delta R$" in paper


def test_the_paper_stands_beside_the_first_arm_and_arms_beside_each_other(tmp_path):
    path = table(tmp_path, arms=("a", "b"))
    path.write_text(path.read_text().replace("cartpole", "cartpole-swingup"))
    page = run(path, "--paper").output
    assert "| cartpole-swingup | a | paper | 10 | 228 of 240 | -144.0 [-185.4, -116.1] |" in page
    assert "| cartpole-swingup | a | residual | paper | .919 [.869, .966] | +2,198 |" in page
    of_second = [line for line in page.splitlines() if line.startswith("| cartpole-swingup | b |")]
    assert of_second
    assert not any("paper" in line for line in of_second)
    assert "| b - a | cartpole-swingup | all attempted |" in page
    assert page.count("| worldfork |") > page.count("| paper |") > 3
    assert run(path, "--tables", "arms").output.strip().startswith("**Arms compared")


def test_a_table_for_a_spreadsheet_has_heads_and_rows_alone(tmp_path):
    lines = run(table(tmp_path), "--tables", "grades", "--csv").stdout.splitlines()
    assert lines[0].startswith("Task,verdict,grade,")
    assert lines[1].startswith("cartpole,harmful,")


def test_many_verdicts_have_a_line_each_unless_more_is_asked_for(tmp_path):
    arms = ("a", "b", "c", "d", "e", "f", "g")
    many = table(tmp_path, arms=arms)
    found = run(many)
    assert found.exit_code == 0, found.output
    lines = [line.split() for line in found.output.splitlines() if line.split()[:1] and line.split()[0] in arms]
    assert [line[0] for line in lines] == list(arms)
    assert all(("helps" if line[0] == "b" else "hurts") in line for line in lines)
    assert all(line[1].startswith("+" if line[0] == "b" else "-") for line in lines)
    assert "No trigger was found useful" in found.output
    words = " ".join(found.output.split())
    assert "Candidate triggers" not in words
    assert "p, Holm" not in words
    assert "worldfork score STUDY --arm ARM" in words
    for more in (run(many, "--arm", "g"), run(many, "--verbose"), run(table(tmp_path, arms=arms[:6]))):
        assert "Candidate triggers" in more.output
        assert "STUDY --arm ARM" not in more.output


def test_useful_triggers_stand_beside_the_verdicts_where_there_are_any(tmp_path, monkeypatch):
    monkeypatch.setattr(effects, "candidates", lambda figures: SimpleNamespace(useful=["residual", "kl"]))
    shown = run(table(tmp_path, arms=("a", "b", "c", "d", "e", "f", "g"))).output
    assert shown.count("residual, kl") == 7
    assert "No trigger was found useful" not in shown


def test_replication_from_the_same_table_and_from_another(tmp_path):
    both = run(table(tmp_path, seeds=(0, 1, 2)), "--markdown").output
    assert "(10 cells)" in both
    assert "(30 cells)" in both
    other = table(tmp_path, seeds=(1, 2), name="other.csv")
    joined = run(table(tmp_path), "--markdown", "--replication", other).output
    assert "(30 cells)" in joined


def test_arms(tmp_path):
    path = table(tmp_path, arms=("a", "b"))
    assert set(json.loads(run(path, "--json").stdout)["arms"]) == {"a", "b"}
    assert set(json.loads(run(path, "--json", "--arm", "b").stdout)["arms"]) == {"b"}
    contrast = json.loads(run(path, "--json", "--contrast", "b,a").stdout)["contrasts"]["b - a"]
    assert contrast["cartpole"]["all_attempted"]["mean"] == pytest.approx(100, abs=10)
    assert "b - a" in run(path, "--contrast", "b,a").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--json", "--latex"), "Choose one"),
        (("--json", "--paper"), "go with the last three"),
        (("--tables", "effects,surprise"), "no table `surprise`; there are gate, effects"),
        (("--divergence", "0.2", "--no-divergence"), "choose one"),
        (("--divergence", "7"), "between 0 and 1"),
        (("--rate", "0"), "between 0 and 1"),
        (("--arm", "z"), "no arm `z`"),
        (("--contrast", "a"), "FIRST,SECOND"),
        (("--triggers", "surprise"), "known here: residual"),
    ],
)
def test_wrong_use_is_one_clear_sentence(tmp_path, arguments, message):
    found = run(table(tmp_path), *arguments)
    assert isinstance(found.exception, WorldforkError)
    assert message in str(found.exception)


def test_wrong_options_are_answered_by_the_command_line(tmp_path):
    for arguments in (("--permutations", "-1"), ("--surprise",), ("--seed", "x")):
        found = RUNNER.invoke(app, ["score", str(table(tmp_path)), *arguments])
        assert found.exit_code == 2


def test_a_broken_file_is_one_line_without_a_traceback(tmp_path, monkeypatch, capsys):
    path = tmp_path / "broken.csv"
    path.write_text("task,checkpoint,direction,stream_seed,k,r_update,r_hold\nt,0,away,0,1,oops,2\n")
    monkeypatch.setattr(sys, "argv", ["worldfork", "score", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("worldfork: `")
    assert "row 1 (line 2), column `r_update`" in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_the_desk_needs_neither_jax_nor_mujoco(tmp_path):
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['jax', 'mujoco', 'dm_control', 'optax']));"
        "from worldfork.cli.main import app; app(standalone_mode=False)"
    )
    command = [sys.executable, "-c", code, "score", str(table(tmp_path)), "--json", "--permutations", "9"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert json.loads(found.stdout)["arms"][""]["tasks"]["cartpole"]["verdict"] == "harmful", found.stderr


def test_the_screen_says_what_sets_arms_apart_and_which_candidates_were_not_asked_for():
    study = Path(__file__).parents[2] / "results" / "judge-walker"
    shown = " ".join(run(study, "--triggers", "kl,adwin").output.split())
    assert 'gentle instead of gentle-ewc: mechanism.name: "anchor" → "finetune"' in shown
    assert "10 candidate triggers (8 of them were not asked for and still count in the correction)" in shown
