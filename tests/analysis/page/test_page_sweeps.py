"""The page's charts of sweeps: arms that differ in one number alone, on one axis, and what they say first."""

import re

import pytest
from swept import GRID, arms, study

from worldfork.analysis.present import render as media
from worldfork.analysis.present.page import gather
from worldfork.analysis.present.page.page import render
from worldfork.analysis.present.page.view import parts
from worldfork.analysis.present.strips import Strip, axis_of
from worldfork.analysis.present.summary import sweeps
from worldfork.analysis.present.tables import scores_of
from worldfork.analysis.present.tables.design import arms as compared
from worldfork.analysis.present.tables.effects import means
from worldfork.analysis.present.text.arms import why_compared
from worldfork.analysis.score.undefined import Interval

RATES = {"": "", "gentle_": ", settings = { rate = 0.1 }"}


def test_a_dose_is_shown_with_its_ratio_and_the_total_of_always_updating(material):
    """Updates of 10, 50 and 200 steps every 50 control steps, six of them in a deployment."""
    page = render(material).html
    for steps, ratio in ((10, "0.20"), (50, "1.00"), (200, "4.00")):
        mean = material.score[f"n-{steps}", "linear_quadratic"].effect.all_attempted.mean
        in_table = re.search(rf">{steps}</th>(.*?)</tr>", page[page.index('<section id="tables"') :], re.DOTALL)
        assert in_table is not None
        assert f'<data value="{mean!r} ' in in_table[1]
        cells = cells_of(in_table[1])
        assert cells[1] == ratio
        assert float(cells[6].split()[0].replace(",", "")) == pytest.approx(6 * mean, abs=0.5)


def cells_of(row):
    """The text of a row's cells, with hyphens for minus signs."""
    cells = re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)
    texts = [re.sub(r"<.*?>", "", cell).replace("\N{NO-BREAK SPACE}", " ") for cell in cells]
    return [text.replace("\N{MINUS SIGN}", "-") for text in texts if text]


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
    ((heading, words, table),) = sweeps(material.score)
    assert [row[:3] for row in table.rows] == [
        ("cartpole-swingup", size, rate) for rate in ("rate 1", "rate 0.1") for size in ("100", "300", "2,000")
    ]
    assert len(table.strips) == 6
    assert (heading, words) == (
        "Window by window",
        "Mean dR rises from every window to the next on cartpole-swingup, rate 1 (+1.0 with 100, +30.0 with "
        "2,000); it does not only rise or only fall from one window to the next on cartpole-swingup, rate 0.1 "
        "(highest +0.51 with 100, lowest -3.99 with 300): described, not tested.",
    )
    assert [row[0] for row in compared(material.score, ("all_attempted",)).rows] == [
        f"{rate}window-{size} - {rate}window-300" for rate in ("", "gentle-") for size in (100, 2000)
    ]  # with the first of its sweep, as registered
    assert why_compared(material.score).startswith("Compared: each arm with the first of its sweep")
    assert [part.update for part in parts(material)][1] == "mechanism.window: 300 → 100"


def test_arms_that_differ_otherwise_have_no_chart(tmp_path):
    settings = {f"mode_{mode}": f'evaluation = {{ mode = "{mode}" }}' for mode in ("pinned", "forward")}
    made = study(tmp_path / "study", GRID + arms(**settings), lambda arm, checkpoint: 1.0)
    material = gather(made.path, permutations=20, triggers="residual")
    assert list(sweeps(material.score)) == []


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
    ((_, said, table),) = sweeps(material.score)
    assert said.startswith(
        "On cartpole-swingup, with sigma_a 1.5 instead of 0, these change: residual by +2.00 [+1.99, +2.01]"
    )
    assert "mean dR by -3.00 [-3.01, -2.99]" in said
    assert [row[1] for row in table.rows] == ["0", "1.5"]
    page = render(material).html
    (row,) = re.findall(r">1.5</th>(.*?)</tr>", page[page.index('<section id="tables"') :], re.DOTALL)
    cells = cells_of(row)
    assert cells[2:4] == ["7.50", "+2.00 [+1.99, +2.01]"]
    assert "-3.00 [-3.01, -2.99]" in cells


def test_what_lies_far_out_has_its_place_on_a_coarser_scale():
    near = [Strip(mean=8.0, student_t=Interval(0.6, 15.9)), Strip(mean=-23.0, student_t=Interval(-46.6, 0.4))]
    lost = [Strip(mean=mean, student_t=Interval(mean - 40, mean + 40), far=True) for mean in (-158.5, -490.5)]
    axis = axis_of([*near, *lost])
    assert (axis.most, len(axis.folds)) == (None, 1)  # nothing lies far out above 0
    assert all(0 < axis.at(value) < 100 for strip in (*near, *lost) for value in strip.values())
    places = [axis.at(strip.mean) for strip in (lost[1], lost[0], near[1], near[0])]
    assert places == sorted(set(places))
    assert min(axis.labelled) < axis.low
    drawn = media.strip(axis, lost[1])
    assert 'class="mean"' in drawn
    assert 'class="thin"' in drawn
    assert drawn.count('class="fold"') == 1
    assert axis_of(near).folds == []


def test_the_axis_of_all_parts_holds_every_direction(material):
    """A direction has half of the cells: its interval reaches further than that of both together."""
    shown = parts(material)
    axis = axis_of(means(scores_of(material.score), "all_attempted").strips)
    ends = [
        end
        for part in shown
        for intervals in part.score.effect.all_attempted.by_direction_intervals.values()
        for end in intervals.student_t
    ]
    assert len(ends) == 2 * 2 * len(shown)
    assert all(0 < axis.at(end) < 100 for end in ends)
