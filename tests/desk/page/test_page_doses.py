"""The page's chart of doses: arms that differ in their dose alone, on one axis."""

import re

import pytest
from swept import GRID, arms, study

from worldfork.desk.page import gather
from worldfork.desk.page.page import render
from worldfork.desk.page.view import doses, parts

RATES = {"": "", "gentle_": ", settings = { rate = 0.1 }", "slow_": ", settings = { rate = 0.01 }"}
ARMS = {
    f"{rate}dose_{steps}": f"mechanism = {{ steps = {steps}{setting} }}"
    for rate, setting in RATES.items()
    for steps in ((400, 25, 100) if rate != "slow_" else (400, 25))
}


def test_rates_have_a_chart_each_and_two_doses_have_none(tmp_path):
    made = study(tmp_path / "study", GRID + arms(**ARMS), lambda arm, checkpoint: -10.0 - checkpoint)
    material = gather(made.path, permutations=20, triggers="residual")
    charts = doses(material.score, parts(material))
    assert {chart.name: [part.arm for _, part in chart.parts] for chart in charts} == {
        "cartpole-swingup, rate 1": ["dose-25", "dose-100", "dose-400"],
        "cartpole-swingup, rate 0.1": ["gentle-dose-25", "gentle-dose-100", "gentle-dose-400"],
    }


def test_a_dose_is_shown_with_its_ratio_and_the_total_of_always_updating(material):
    """Updates of 10, 50 and 200 steps every 50 control steps, six of them in a deployment."""
    page = render(material).html
    for steps, ratio in ((10, "0.2"), (50, "1.0"), (200, "4.0")):
        row = re.search(rf"<tr><th>{steps}</th>(.*?)<td>n-{steps}</td></tr>", page, re.DOTALL)
        assert row is not None
        mean, shown_ratio, always = re.findall(r'<data value="(.*?)">', row[1])
        assert shown_ratio == ratio
        assert float(always) == pytest.approx(6 * float(mean))


def test_arms_that_differ_otherwise_have_no_chart(tmp_path):
    settings = {f"window_{size}": f"mechanism = {{ window = {size} }}" for size in (100, 200, 300)}
    made = study(tmp_path / "study", GRID + arms(**settings), lambda arm, checkpoint: 1.0)
    material = gather(made.path, permutations=20, triggers="residual")
    assert doses(material.score, parts(material)) == []
