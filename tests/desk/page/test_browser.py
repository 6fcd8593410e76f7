"""The page in a real browser: what a person can do with it, and that it shows what the library computed."""

import json
import re
import threading

import ledgers
import numpy as np
import pytest

from worldfork.desk.page import Watched, gather, render, server
from worldfork.desk.scoring import fires, policy_total
from worldfork.desk.scoring.sweep import sweep

PART = 2  # the arm n-200
TASK = "linear_quadratic"
READ = "JSON.parse(JSON.stringify(document.getElementById('readout').dataset))"


@pytest.fixture(scope="module")
def address(material, tmp_path_factory):
    return render(material).save(tmp_path_factory.mktemp("page") / "index.html").path.as_uri()


@pytest.fixture
def page(browser, address):
    opened = browser.open(address)
    yield opened
    assert opened.complaints() == []
    assert [one for one in opened.requests() if not one.startswith(("file:", "data:"))] == []
    opened.close()


def choose(page, label, value):
    """Choose in the select box of that label, as a person would."""
    page.evaluate(
        f"(() => {{ const box = [...document.querySelectorAll('label.select')]"
        f".find(one => one.firstChild.textContent === {json.dumps(label)}).querySelector('select');"
        f"box.value = {json.dumps(str(value))}; box.dispatchEvent(new Event('change')); }})()"
    )


def expected(score, name, threshold, side="all_attempted"):
    """Total and fires, as scoring has them, for one threshold on one trigger."""
    evidence = score.evidence
    kept = ~evidence.divergence.dropped if side == "retained" else np.ones(len(evidence.forks), bool)
    fired = fires(evidence.all_attempted[name].signal, threshold)[kept]
    return policy_total(fired, evidence.forks.delta[kept]), int(fired.sum())


def test_a_dragged_threshold_earns_what_the_library_says_to_the_last_digit(page, material):
    score = material.score["n-200", TASK]
    signals = {"residual": score.evidence.all_attempted["residual"].signal}
    scored = np.ones(len(score.evidence.forks), bool)
    rows = sweep(signals, score.evidence.forks, scored=scored, permutations=500, seed=0)["residual"]
    choose(page, "About", PART)
    choose(page, "Trigger", "residual")
    page.settle()
    page.evaluate("document.querySelector('[data-handle]').scrollIntoView({block: 'center', behavior: 'instant'})")
    handle, chart = (
        json.loads(page.evaluate(f"JSON.stringify(document.querySelector('{one}').getBoundingClientRect())"))
        for one in ("[data-handle]", "svg.draggable")
    )
    y = handle["y"] + handle["height"] / 2
    page.mouse("mousePressed", handle["x"] + handle["width"] / 2, y, pressed=True)
    seen = set()
    for share in (0.2, 0.45, 0.7, 0.9):
        page.mouse("mouseMoved", chart["x"] + share * chart["width"], y, pressed=True)
        found = page.evaluate(READ)
        assert (float(found["total"]), int(found["fires"])) == expected(
            score, "residual", float(found["threshold"])
        )
        (row,) = np.flatnonzero(rows.fires == int(found["fires"]))
        assert float(found["total"]) == rows.total[row]
        for name in ("mean", "low", "high", "p", "p_shift"):
            assert np.float32(found[name]) == np.float32(getattr(rows, name)[row])
        assert page.evaluate("document.querySelectorAll('#threshold .mark.fired').length") == int(found["fires"])
        seen.add(found["fires"])
    page.mouse("mouseReleased", chart["x"] + 0.9 * chart["width"], y)
    assert len(seen) > 2  # the drag went somewhere


def test_the_slider_walks_every_threshold_by_keyboard(page, material):
    score = material.score["n-10", TASK]
    choose(page, "Trigger", "return_deficit")
    page.evaluate("document.getElementById('slider').focus()")
    before = int(page.evaluate(READ)["fires"])
    for _ in range(3):
        page.press("ArrowRight")
        found = page.evaluate(READ)
        total, count = expected(score, "return_deficit", float(found["threshold"]))
        assert (float(found["total"]), int(found["fires"])) == (total, count)
    assert count == before - 3  # no two forks share a value: one step, one fork
    assert page.evaluate("document.activeElement.id") == "slider"


def test_a_typed_threshold_that_a_signal_equals_fires_there(page, material):
    score = material.score["n-10", TASK]
    signal = np.sort(score.evidence.all_attempted["drift"].signal).tolist()
    box = "document.getElementById('threshold-value')"
    choose(page, "Trigger", "drift")  # its levels are shared by many forks
    for threshold in (signal[0], signal[len(signal) // 2], signal[-1]):
        page.evaluate(f"{box}.value = '{threshold!r}'")
        page.evaluate(f"{box}.dispatchEvent(new Event('change'))")
        found = page.evaluate(READ)
        total, count = expected(score, "drift", threshold)
        assert (float(found["total"]), int(found["fires"])) == (total, count)
        assert count >= 1


def test_fitted_thresholds_give_the_official_figures(page, material):
    score = material.score["n-10", TASK]
    for side, triggers in (("retained", score.triggers), ("all_attempted", score.triggers_all_attempted)):
        choose(page, "Forks", side)
        for name, figures in triggers.items():
            choose(page, "Trigger", name)
            page.evaluate("document.getElementById('fitted')?.click()")
            found = page.evaluate(READ)
            assert float(found["total"]) == figures.policy_total
            assert int(found["fires"]) == figures.fires
            assert float(found["p"]) == figures.random.p
            assert (float(found["mean"]), float(found["low"])) == (figures.random.mean, figures.random.interval.low)
            assert float(found["p_shift"]) == figures.random_shift.p


def test_the_best_threshold_in_hindsight_is_the_largest_total(page, material):
    choose(page, "Trigger", "residual")
    page.evaluate(
        "[...document.querySelectorAll('#threshold button')].find(b => b.textContent.startsWith('best')).click()"
    )
    score = material.score["n-10", TASK]
    signals = {"residual": score.evidence.all_attempted["residual"].signal}
    scored = np.ones(len(score.evidence.forks), bool)
    rows = sweep(signals, score.evidence.forks, scored=scored, permutations=2, seed=0)["residual"]
    assert float(page.evaluate(READ)["total"]) == rows.total.max()


def test_a_fork_shows_its_row(page, material):
    rows = next(rows for cell, rows in material.rows.items() if (cell.arm, cell.direction) == ("n-10", "away"))
    square = "document.querySelector('#evidence [data-fork=\"3\"]')"
    page.evaluate(f"{square}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = json.loads(page.evaluate(f"JSON.stringify({square}.getBoundingClientRect())"))
    for kind in ("mousePressed", "mouseReleased"):
        page.mouse(kind, box["x"] + 5, box["y"] + 5)
    shown = page.evaluate("document.getElementById('fork').dataset.delta")
    assert float(shown) == rows[3].delta
    cells = page.evaluate("[...document.querySelectorAll('#episodes tbody tr')].map(row => row.textContent)")
    assert len(cells) == 4
    panel = page.evaluate("document.getElementById('fork').textContent")
    assert "Fork 4" in panel
    assert rows[3].digest[:24] in panel
    assert "parameter shift" in panel
    page.evaluate("document.querySelector('#evidence svg').focus()")
    page.press("ArrowRight")
    assert float(page.evaluate("document.getElementById('fork').dataset.delta")) == rows[4].delta
    page.press("ArrowDown")
    assert page.evaluate("document.getElementById('fork').dataset.k") == "5"
    assert "checkpoint 1" in page.evaluate("document.getElementById('fork').textContent")


def test_arms_stand_beside_each_other_with_the_scores_own_figures(page, material):
    rows = page.evaluate(
        "[...document.querySelectorAll('#compare table')].filter(one => one.offsetParent)"
        ".map(one => [...one.rows].map(row => row.innerText))"
    )
    (arms,) = [one for one in rows if "Spearman" in one[0]]
    contrast = material.score.contrasts["n-50 - n-10"][TASK].all_attempted
    pearson = f"{contrast.paired.pearson:+.3f}".replace("-", "\N{MINUS SIGN}")
    assert pearson in arms[1]
    assert str(contrast.paired.forks) in arms[1].split()
    (spent,) = [one for one in rows if "error now" in one[0]]
    design = material.score["n-10", TASK].design
    assert f"{design.standard_error:.2f}" in spent[1] or f"{design.standard_error:.3f}" in spent[1]


def test_one_set_of_forks_is_shown_everywhere_at_first(page):
    """All attempted, in every section; choosing the retained in one place chooses them in all."""
    shown = (
        "[...document.querySelectorAll('[data-of-side]')].filter(one => !one.hidden).map(one => one.dataset.ofSide)"
    )
    assert set(page.evaluate(shown)) == {"all_attempted"}
    choose(page, "Forks compared", "retained")
    assert set(page.evaluate(shown)) == {"retained"}
    boxes = "[...document.querySelectorAll('select[data-choice=side]')].map(one => one.value)"
    assert page.evaluate(boxes) == ["retained", "retained"]


def test_the_page_works_inside_a_notebook(browser, material, tmp_path):
    """In a frame of its own: drawn, without a complaint, and a link inside it scrolls it."""
    (tmp_path / "notebook.html").write_text(
        "<!doctype html><title>notebook</title>" + render(material)._repr_html_(), encoding="utf-8"
    )
    opened = browser.open((tmp_path / "notebook.html").as_uri(), wait=False)
    (frame,) = opened.frames()
    frame.wait("document.querySelector('html[data-ready]') !== null")
    frame.evaluate("document.querySelector('a[href=\"#record\"]').click()")
    choose(frame, "Trigger", "drift")
    assert frame.evaluate("document.getElementById('readout').dataset.total") is not None
    assert opened.evaluate("location.hash") == ""
    assert opened.complaints() == []
    assert frame.complaints() == []
    opened.close()


def test_a_link_comes_back_to_the_same_place(browser, address):
    opened = browser.open(f"{address}#part=1&fork=7&trigger=drift&threshold=0.4&side=all_attempted")
    assert opened.evaluate(READ)["threshold"] == "0.4"
    assert opened.evaluate("document.getElementById('fork').dataset.k") == "2"
    opened.close()
    for nonsense in ("#part=99&fork=-3&trigger=%3Cb%3E&threshold=NaN", "#fork=x"):
        opened = browser.open(address + nonsense)
        assert opened.complaints() == []
        opened.close()


def test_narrow_wide_light_and_dark(browser, address):
    colours = set()
    for width in (390, 1280):
        for dark in (False, True):
            opened = browser.open(address, width=width, dark=dark)
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
            colours.add(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
            figures = opened.evaluate(
                "[...document.querySelectorAll('figure')].map(one => one.querySelector('figcaption').textContent)"
            )
            assert all(re.search(r"\b[nm] = \d", one) for one in figures), figures
            opened.close()
    assert len(colours) == 2
    opened = browser.open(address)
    before = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.evaluate("document.getElementById('theme').click()")
    assert {before, opened.evaluate("getComputedStyle(document.body).backgroundColor")} == colours
    opened.close()


AWKWARD = {
    "one checkpoint": {"checkpoints": ("0",)},
    "no positive fork": {"positive": False},
    "missing signals": {"missing": 0.5},
    "no signal at all": {"missing": 1.0},
    "one fork per cell": {"k": 1},
    "ninety cells": {"checkpoints": tuple("01234"), "tasks": ("a", "b", "c"), "seeds": (0, 1, 2), "k": 24},
    "markup for names": {"checkpoints": ("<script>window.hacked = 1</script>", "</script>", "x" * 80)},
}


@pytest.mark.parametrize("kind", AWKWARD)
def test_awkward_ledgers_break_nothing(browser, tmp_path, kind):
    render(gather(ledgers.flat(tmp_path / "t.parquet", **AWKWARD[kind]), permutations=50)).save(tmp_path / "t.html")
    opened = browser.open((tmp_path / "t.html").as_uri(), width=390)
    opened.settle()
    assert opened.complaints() == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.evaluate("window.hacked === undefined")
    text = opened.evaluate("document.querySelector('main').textContent")
    assert "NaN" not in text
    assert "Infinity" not in text
    assert "[object" not in text
    assert "undefined" in text
    names = opened.evaluate("JSON.parse(document.getElementById('ledger').textContent).parts[0].triggers")
    for name in names:
        choose(opened, "Trigger", name)
        opened.evaluate("document.querySelectorAll('#threshold button').forEach(one => one.click())")
    assert opened.complaints() == []
    opened.close()


def test_a_live_page_grows_with_its_study(browser, small, tmp_path):
    growing = ledgers.rewritten(small, tmp_path / "growing", lambda cell, rows: rows[:3])
    rest = {cell.id: cell.rows()[3:] for cell in small.cells()}
    with server(Watched(growing.path, lambda path: gather(path, permutations=50)), port=0) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        opened = browser.open(f"http://127.0.0.1:{serving.server_port}/#fork=2")
        assert "36 of 72 registered forks" in opened.evaluate("document.getElementById('status').textContent")
        for cell in growing.cells():
            cell.begin(cell.configuration)
            cell.append(rest[cell.id])
        opened.wait("(document.getElementById('status')?.textContent || '').includes('72 of 72')")
        assert opened.evaluate("location.hash").startswith("#fork=2")
        assert opened.complaints() == []
        opened.close()
        serving.shutdown()
        thread.join()
