"""The page's charts of sweeps: arms that differ in one number alone, on one axis, and what they say first."""

import re

import pytest
from swept import GRID, arms, study

from worldfork.analysis.present.page import gather
from worldfork.analysis.present.page.arms import question, sweep_answers, sweeps
from worldfork.analysis.present.page.page import render
from worldfork.analysis.present.page.view import compare_axis, parts

RATES = {"": "", "gentle_": ", settings = { rate = 0.1 }", "slow_": ", settings = { rate = 0.01 }"}
ARMS = {
    f"{rate}dose_{steps}": f"mechanism = {{ steps = {steps}{setting} }}"
    for rate, setting in RATES.items()
    for steps in ((400, 25, 100) if rate != "slow_" else (400, 25))
}


def test_rates_have_a_chart_each_and_two_doses_have_none(tmp_path):
    made = study(tmp_path / "study", GRID + arms(**ARMS), lambda arm, checkpoint: -10.0 - checkpoint)
    material = gather(made.path, permutations=20, triggers="residual")
    charts = sweeps(material, parts(material))
    assert {chart.name: [part.arm for part in chart.parts] for chart in charts} == {
        "cartpole-swingup, rate 1": ["dose-25", "dose-100", "dose-400"],
        "cartpole-swingup, rate 0.1": ["gentle-dose-25", "gentle-dose-100", "gentle-dose-400"],
    }


def test_a_dose_is_shown_with_its_ratio_and_the_total_of_always_updating(material):
    """Updates of 10, 50 and 200 steps every 50 control steps, six of them in a deployment."""
    page = render(material).html
    for steps, ratio in ((10, "0.20"), (50, "1.00"), (200, "4.00")):
        row = re.search(rf'<tr><th>{steps}</th>(.*?)<td class="spare">n-{steps}</td></tr>', page, re.DOTALL)
        assert row is not None
        mean = re.findall(r'<data value="(.*?)">', row[1])[0]
        assert float(mean) == material.score[f"n-{steps}", "linear_quadratic"].effect.all_attempted.mean
        in_table = re.search(rf">{steps}</th>(.*?)</tr>", page[page.index('<section id="tables"') :], re.DOTALL)
        assert in_table is not None
        cells = re.findall(r"<td.*?>(.*?)</td>", in_table[1])
        assert cells[1] == ratio
        always = float(cells[6].split()[0].replace("\N{MINUS SIGN}", "-").replace(",", ""))
        assert always == pytest.approx(6 * float(mean), abs=0.5)


WINDOWS = {
    f"{rate}window_{size}": f"mechanism = {{ window = {size}{RATES[rate]} }}"
    for rate in ("", "gentle_")
    for size in (300, 100, 2000)
}


def test_windows_have_a_chart_for_each_rate_and_a_sentence_on_the_first_screen(tmp_path):
    """At the full rate longer windows gain more; at a tenth the middle one does worst."""
    gains = {"window-100": 1.0, "window-300": 2.0, "window-2000": 30.0, "gentle-window-300": -4.0}
    authored = GRID + arms(**WINDOWS)
    made = study(tmp_path / "study", authored, lambda arm, checkpoint: gains.get(arm, 0.5) + checkpoint / 100)
    material = gather(made.path, permutations=20, triggers="residual")
    charts = sweeps(material, parts(material))
    assert {chart.name: [amount for amount, _ in chart.rows] for chart in charts} == {
        "cartpole-swingup, rate 1": ["100", "300", "2,000"],
        "cartpole-swingup, rate 0.1": ["100", "300", "2,000"],
    }
    assert sweep_answers(material, parts(material)) == [
        (
            "Does the window matter?",
            "Mean dR rises from every window to the next on cartpole-swingup, rate 1 (+1.0 with 100, +30.0 with "
            "2,000); it does not only rise or only fall from one window to the next on cartpole-swingup, rate 0.1 "
            "(highest +0.51 with 100, lowest -3.99 with 300): described, not tested.",
        )
    ]
    asked = question(material, parts(material))
    assert asked is not None
    assert [one.arms for one in asked.comparisons] == [  # with the first of its sweep, as registered
        f"{rate}window-{size} less {rate}window-300" for rate in ("", "gentle-") for size in (100, 2000)
    ]
    assert asked.why_these.startswith("Compared: each arm with the first of its sweep")
    assert [part.update for part in parts(material)][1] == "mechanism.window: 300 → 100"


def test_arms_that_differ_otherwise_have_no_chart(tmp_path):
    settings = {f"mode_{mode}": f'evaluation = {{ mode = "{mode}" }}' for mode in ("pinned", "forward")}
    made = study(tmp_path / "study", GRID + arms(**settings), lambda arm, checkpoint: 1.0)
    material = gather(made.path, permutations=20, triggers="residual")
    assert sweeps(material, parts(material)) == []
    assert sweep_answers(material, parts(material)) == []


SPREAD = {0: -0.001, 1: 0.001}  # checkpoints that all differ alike have no interval
NOISES = {f"noise_{sigma}": f"stream = {{ action_noise = {sigma} }}" for sigma in (0.0, 1.5)}


def test_noises_stand_on_the_page_with_all_that_their_table_has(tmp_path):
    """Surprise rises by 2 where actions are noisy, and updates are worth 3 less there."""

    def signals(arm, checkpoint):
        return {"residual": 5.0 + checkpoint + (2.0 + SPREAD[checkpoint]) * (arm == "noise-1.5")}

    def delta(arm, checkpoint):
        return 8.0 + checkpoint - (3.0 + SPREAD[checkpoint]) * (arm == "noise-1.5")

    made = study(tmp_path / "study", GRID + arms(**NOISES), delta, signals=signals)
    material = gather(made.path, permutations=20, triggers="residual")
    ((_, said),) = sweep_answers(material, parts(material))
    assert said.startswith(
        "On cartpole-swingup, with sigma_a 1.5 instead of 0, these change: residual by +2.00 [+1.99, +2.01]"
    )
    assert "mean dR by -3.00 [-3.01, -2.99]" in said
    (chart,) = sweeps(material, parts(material))
    assert [amount for amount, _ in chart.rows] == ["0", "1.5"]
    page = render(material).html
    (row,) = re.findall(r">1.5</th>(.*?)</tr>", page[page.index('<section id="tables"') :], re.DOTALL)
    cells = [minus_less(cell) for cell in re.findall(r"<td.*?>(.*?)</td>", row)]
    assert cells[2:4] == ["7.50", "+2.00 [+1.99, +2.01]"]
    assert "-3.00 [-3.01, -2.99]" in cells


def minus_less(text):
    """The text with hyphens for minus signs."""
    return text.replace("\N{MINUS SIGN}", "-")


def test_the_axis_of_all_parts_holds_every_direction(material):
    """A direction has half of the cells: its interval reaches further than that of both together."""
    shown = parts(material)
    axis = compare_axis(shown, "all_attempted")
    ends = [
        end
        for part in shown
        for intervals in part.score.effect.all_attempted.by_direction_intervals.values()
        for end in intervals.student_t
    ]
    assert len(ends) == 2 * 2 * len(shown)
    assert not any(axis.beyond(end) for end in ends)
