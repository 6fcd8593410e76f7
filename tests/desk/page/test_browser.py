"""The page in a real browser: what a person can do with it, and that it agrees with `worldfork score`."""

import json
import re
import threading

import ledgers
import numpy as np
import pytest

from worldfork.desk.page.live import Watched, server
from worldfork.desk.page.material import gather
from worldfork.desk.page.page import write
from worldfork.desk.scoring import fires, policy_total

PART = 2  # the arm n-200
READ = "JSON.parse(JSON.stringify(document.getElementById('readout').dataset))"


@pytest.fixture(scope="module")
def address(material, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    write(material, path)
    return path.as_uri()


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


def expected(one, name, threshold, side="retained"):
    """Total and fires, as scoring has them, for one threshold on one trigger."""
    kept = ~one.divergence.dropped if side == "retained" else np.ones(len(one.forks), bool)
    fired = fires(one.retained[name].signal, threshold)[kept]
    return policy_total(fired, one.forks.delta[kept]), int(fired.sum())


def test_a_dragged_threshold_earns_what_scoring_says(page, material):
    one = material.score["n-200", "linear_quadratic"].evidence
    choose(page, "Everything down to “Side by side” is about", PART)
    choose(page, "Trigger", "residual")
    page.settle()
    page.evaluate("document.querySelector('[data-handle]').scrollIntoView({block: 'center', behavior: 'instant'})")
    box = json.loads(
        page.evaluate("JSON.stringify(document.querySelector('[data-handle]').getBoundingClientRect())")
    )
    chart = json.loads(
        page.evaluate("JSON.stringify(document.querySelector('svg.draggable').getBoundingClientRect())")
    )
    y = box["y"] + box["height"] / 2
    page.mouse("mousePressed", box["x"] + box["width"] / 2, y, pressed=True)
    seen = set()
    for share in (0.2, 0.45, 0.7, 0.9):
        page.mouse("mouseMoved", chart["x"] + share * chart["width"], y, pressed=True)
        found = page.evaluate(READ)
        total, count = expected(one, "residual", float(found["threshold"]))
        assert float(found["total"]) == pytest.approx(total, abs=1e-9)
        assert int(found["fires"]) == count
        marked = page.evaluate("document.querySelectorAll('#threshold .mark.fired').length")
        assert marked == count
        seen.add(count)
    page.mouse("mouseReleased", chart["x"] + 0.9 * chart["width"], y)
    assert len(seen) > 2  # the drag went somewhere


def test_the_slider_walks_every_threshold_by_keyboard(page, material):
    one = material.score["n-10", "linear_quadratic"].evidence
    choose(page, "Trigger", "return_deficit")
    page.evaluate("document.getElementById('slider').focus()")
    before = int(page.evaluate(READ)["fires"])
    for _ in range(3):
        page.press("ArrowRight")
        found = page.evaluate(READ)
        total, count = expected(one, "return_deficit", float(found["threshold"]))
        assert (float(found["total"]), int(found["fires"])) == (pytest.approx(total, abs=1e-9), count)
    assert count == before - 3  # no two forks share a value: one step, one fork
    assert page.evaluate("document.activeElement.id") == "slider"


def test_a_typed_threshold_that_a_signal_equals_fires_there(page, material):
    one = material.score["n-10", "linear_quadratic"].evidence
    signal = np.sort(one.retained["drift"].signal).tolist()
    box = "document.getElementById('threshold-value')"
    choose(page, "Trigger", "drift")  # its levels are shared by many forks
    for threshold in (signal[0], signal[len(signal) // 2], signal[-1]):
        page.evaluate(f"{box}.value = '{threshold!r}'")
        page.evaluate(f"{box}.dispatchEvent(new Event('change'))")
        found = page.evaluate(READ)
        total, count = expected(one, "drift", threshold)
        assert (float(found["total"]), int(found["fires"])) == (pytest.approx(total, abs=1e-9), count)
        assert count >= 1


def test_fitted_thresholds_give_the_official_figures(page, material):
    for side, key in (("retained", "triggers"), ("all_attempted", "triggers_all_attempted")):
        choose(page, "Scored on", side)
        for name, figures in getattr(material.score["n-10", "linear_quadratic"], key).items():
            choose(page, "Trigger", name)
            page.evaluate("document.getElementById('fitted')?.click()")
            found = page.evaluate(READ)
            assert float(found["total"]) == pytest.approx(figures.policy_total, abs=1e-9)
            assert int(found["fires"]) == figures.fires
            # 10,000 draws here against 500 there: the same null, other draws.
            assert float(found["p"]) == pytest.approx(figures.random.p, abs=0.12)
            low, high = figures.random.interval
            assert float(found["mean"]) == pytest.approx(figures.random.mean, abs=0.1 * (high - low) + 1e-9)
            assert float(found["shifted"]) == pytest.approx(figures.random_shift.p, abs=0.12)


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
        "[...document.querySelectorAll('#compare-body table')].map(one => [...one.rows].map(row => row.innerText))"
    )
    (arms,) = [one for one in rows if "Spearman" in one[0]]
    contrast = material.score.contrasts["n-50 - n-10"]["linear_quadratic"].retained
    pearson = f"{contrast.paired.pearson:+.3f}".replace("-", "\N{MINUS SIGN}")
    assert pearson in arms[1]
    assert str(contrast.paired.forks) in arms[1].split()
    (spent,) = [one for one in rows if "error now" in one[0]]
    design = material.score["n-10", "linear_quadratic"].design
    assert f"{design.standard_error:.2f}" in spent[1] or f"{design.standard_error:.3f}" in spent[1]


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
    write(gather(ledgers.flat(tmp_path / "t.parquet", **AWKWARD[kind]), permutations=50), tmp_path / "t.html")
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
