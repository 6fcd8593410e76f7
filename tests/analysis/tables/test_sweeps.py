"""The tables of doses and of noise, row by row, and the paper's figures beside them."""

import dataclasses

import pytest
from swept import GRID, arms, scored
from typer.testing import CliRunner

from worldfork.analysis.present import tables
from worldfork.analysis.present.render import plain
from worldfork.analysis.present.summary import summarise
from worldfork.analysis.present.tables.paper import stated
from worldfork.cli.main import app
from worldfork.registration import read
from worldfork.registration.library import find

DOSES = GRID + arms(
    dose_50="mechanism = { steps = 50 }",
    dose_400="mechanism = { steps = 400 }",
    gentle_50="mechanism = { steps = 50, settings = { rate = 0.1 } }",
    gentle_400="mechanism = { steps = 400, settings = { rate = 0.1 } }",
)
MEANS = {"dose-50": (-20.0, -40.0), "dose-400": (-80.0, -160.0), "gentle-50": (1.0, 2.0), "gentle-400": (3.0, 4.0)}
NOISES = GRID + arms(calm="", noisy="stream = { action_noise = 0.3 }\nevaluation = { episodes = 2 }")


@pytest.fixture(scope="module")
def dosed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweeps") / "study"
    return folder, scored(folder, DOSES, lambda arm, checkpoint: MEANS[arm][checkpoint], hold=500.0)


def on_screen(found):
    """What `worldfork score` prints without options."""
    return plain(summarise(found).blocks, width=80)


def shown(found, label, **more):
    (table,) = tables.choose(tables.all_tables(found, **more), label)
    return table


def test_a_row_per_rate_and_dose(dosed):
    table = shown(dosed[1], "doses")
    rows = [dict(zip(table.heads, row, strict=True)) for row in table.rows]
    assert [(row["N"], row["Arms"], row["rank"]) for row in rows] == [
        ("50", "rate 1", "1"),
        ("400", "rate 1", "2"),
        ("50", "rate 0.1", "2"),
        ("400", "rate 0.1", "1"),
    ]
    assert rows[0] == {
        "Task": "cartpole-swingup",
        "N": "50",
        "Arms": "rate 1",
        "replay ratio": "1.00",
        "diverged": "0 of 8",
        "per fork, Student-t": "-30.0 [-157.1, +97.1]",
        "retained, bootstrap": "-30.0 [-39.2, -20.8]",
        "per gradient step, Student-t": "-0.600 [-3.141, +1.941]",
        "always, per deployment, Student-t": "-60 [-314, +194]",
        "rank": "1",
        "largest less smallest, Student-t": "",
        "p, t and signs": "",
        "grade": "",
    }
    assert rows[1]["largest less smallest, Student-t"] == "-90.0 [-471.2, +291.2]"
    assert (rows[1]["p, t and signs"], rows[1]["grade"]) == (".205, .500", "unresolved")
    assert "not scored here" not in table.caption


def test_the_papers_figures_stand_beside_no_arm_that_is_not_set_as_its_own(dosed):
    _, found = dosed
    made = tables.all_tables(found, paper=True)
    assert {table.label for table in made if "by" in table.heads} == {"doses"}
    beside = tables.all_tables(dataclasses.replace(found, registration=None), paper=True)
    assert {"effects", "doses"} <= {table.label for table in beside if "by" in table.heads}


@pytest.mark.parametrize(
    ("registered", "arm"),
    [
        ("corrected", "corrected"),
        ("dose", "dose-200"),
        ("forward", "pinned"),
        ("scope", "model"),
        ("stochasticity", "noise-0.0"),
        ("hopper-control", "corrected"),
        ("legacy", None),
        ("demo", None),
    ],
)
def test_the_papers_arm_is_found_by_its_settings(registered, arm):
    registration = read(find(registered))
    names = [one.name for one in registration.arms]
    assert tables.papers_arm(registration, names) == arm
    assert tables.papers_arm(registration, [name for name in names if name != arm]) is None
    assert tables.papers_arm(None, ["second", "first"]) == "second"


def test_the_papers_doses_stand_once_above_the_first_rate(dosed):
    table = shown(dosed[1], "doses", paper=True)
    assert table.heads[:4] == ("Task", "N", "by", "Arms")
    assert [row[1:4] for row in table.rows] == [
        ("50", "paper", "–"),
        ("50", "worldfork", "rate 1"),
        ("400", "paper", "–"),
        ("400", "worldfork", "rate 1"),
        ("50", "worldfork", "rate 0.1"),
        ("400", "worldfork", "rate 0.1"),
    ]
    assert table.rows[2][7] == "-110.1 [-132.2, -86.6]"
    assert "does not state" in table.caption
    assert stated()["doses"].heads == shown(dosed[1], "doses").heads


def test_doses_in_passes_say_so(tmp_path):
    authored = GRID + arms(
        one="mechanism = { settings = { passes = 1 } }", more="mechanism = { settings = { passes = 2.5 } }"
    )
    table = shown(scored(tmp_path / "study", authored, lambda arm, checkpoint: 10.0 + checkpoint), "doses")
    assert [row[1:4] for row in table.rows] == [("1 pass", "all", "–"), ("2.5 passes", "all", "–")]
    assert [row[7] for row in table.rows] == ["–", "–"]


def test_a_dose_that_was_not_run_is_named(tmp_path):
    found = scored(
        tmp_path / "study", DOSES, lambda arm, checkpoint: None if arm == "dose-400" else MEANS[arm][checkpoint]
    )
    table = shown(found, "doses")
    assert [row[1:3] for row in table.rows] == [("50", "rate 1"), ("50", "rate 0.1"), ("400", "rate 0.1")]
    assert table.caption.endswith("Registered and not scored here: dose-400 on cartpole-swingup.")


def test_noise_has_a_table_of_what_it_raises(tmp_path):
    residual = {"calm": (0.011, 0.013), "noisy": (0.051, 0.055)}
    found = scored(
        tmp_path / "study",
        NOISES,
        lambda arm, checkpoint: (20.0 if arm == "noisy" else 10.0) + 2 * checkpoint,
        hold=lambda arm, checkpoint: 500.0 if arm == "calm" else 400.0,
        signals=lambda arm, checkpoint: {"residual": residual[arm][checkpoint]},
    )
    table = shown(found, "noises")
    assert [row[:9] for row in table.rows] == [
        ("cartpole-swingup", "0", "all", "1", "0 of 8", "0.0120", "–", "–", "–"),
        ("cartpole-swingup", "0.3", "all", "2", "0 of 8", "0.0530", "+0.0410 [+0.0283, +0.0537]", "–", "–"),
    ]
    assert [row[9:] for row in table.rows] == [
        ("500.0", "+11.0 [-1.7, +23.7]", "–", "–", "1", "–"),
        ("400.0", "+21.0 [+8.3, +33.7]", "+10.0", "–, .500", "1", "–"),
    ]
    assert "not fork by fork" in table.caption
    lines = str(summarise(found)).splitlines()
    (line,) = (line for line in lines if line.startswith("cartpole-swingup  0.3") and "0.0530" in line)
    assert "+21.0 [+8.3, +33.7]" in line
    assert "+10.0" in line
    assert "residual by +0.0410 [+0.0283, +0.0537] and mean dR by +10.0" in " ".join(" ".join(lines).split())


def test_the_screen_says_how_three_doses_go_and_nothing_of_noises_where_there_are_none(material, dosed):
    lines = on_screen(material.score)
    assert "Dose by dose" in lines
    assert "Mean dR " in lines.partition("Dose by dose")[2].partition("tested.")[0]
    assert "Noise by noise" not in lines
    assert "Dose by dose" not in on_screen(dosed[1])  # two doses are a pair


def test_the_command_prints_them(dosed):
    folder, _ = dosed
    for option, expected in (("--markdown", "| cartpole-swingup | 50 | rate 1 | 1.00 |"), ("--latex", "tab:doses")):
        printed = CliRunner().invoke(
            app, ["score", str(folder), "--permutations", "20", "--tables", "doses,noises", option]
        )
        assert printed.exit_code == 0, printed.output
        assert expected in printed.output
        assert "tab:noises" not in printed.output
