"""The page in a real browser: what a person can do with it, and that it shows what the library computed."""

import csv
import io
import itertools
import json
import re
import threading
from pathlib import Path

import ledgers
import numpy as np
import pytest

from worldfork.analysis.present.page import Watched, gather, index_line, render, render_index, server
from worldfork.analysis.present.text.answers import answer
from worldfork.analysis.present.text.deployments import followed_answer, gains_over_never, silent_policies
from worldfork.analysis.present.text.formatting import minus
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.score.decisions import fires, policy_total
from worldfork.analysis.score.threshold_curves import sweep
from worldfork.video import HOLD, UPDATE

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


def test_fitted_thresholds_give_the_official_figures(page, material):
    score = material.score["n-10", TASK]
    for side, triggers in (("retained", score.triggers.retained), ("all_attempted", score.triggers.all_attempted)):
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
    assert "Fork #3" in panel
    assert "k = 4" in panel
    assert rows[3].digest[:24] in panel
    assert "parameter shift" in panel
    page.evaluate("document.querySelector('#evidence svg').focus()")
    page.press("ArrowRight")
    assert float(page.evaluate("document.getElementById('fork').dataset.delta")) == rows[4].delta
    page.press("ArrowDown")
    assert page.evaluate("document.getElementById('fork').dataset.k") == "5"
    assert "checkpoint 1" in page.evaluate("document.getElementById('fork').textContent")


def test_a_fork_says_where_it_stands_among_all(page, material):
    delta = material.score["n-10", TASK].evidence.forks.delta
    standing = "document.querySelector('#fork .big small').textContent"
    for what, words in (("worst", "the worst of 24 forks"), ("best", "the best of 24 forks")):
        page.evaluate(
            f"[...document.querySelectorAll('.card .link')].find(one => /{what}/i.test(one.textContent)).click()"
        )
        page.settle()
        assert words in page.evaluate(standing)
    page.evaluate("document.querySelector('#forks-body tr[data-fork]:nth-child(4) a').click()")
    page.settle()
    assert "3 of 24 forks are worse" in page.evaluate(standing)
    assert len(set(delta)) == 24


def test_arms_stand_beside_each_other_with_the_scores_own_figures(page, material):
    rows = page.evaluate(
        "[...document.querySelectorAll('#tables table')]"
        ".map(one => [...one.rows].map(row => [...row.cells].map(cell => cell.textContent)))"
    )
    (arms,) = [one for one in rows if "Spearman" in one[0]]
    contrast = material.score.contrasts["n-50 - n-10"][TASK].all_attempted
    assert minus(f"{contrast.paired.pearson:+.3f}") in arms[1]
    assert str(contrast.paired.forks) in arms[1]
    (spent,) = [one for one in rows if "on checkpoints" in one[0]]
    now = material.score["n-10", TASK].design.standard_error
    assert {f"{now:.2f}", f"{now:.3f}"} & set(spent[1])


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
            opened.settle()
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
            colours.add(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
            figures = opened.evaluate(
                "[...document.querySelectorAll('figure')].map(one => one.querySelector('figcaption').textContent)"
            )
            assert all(re.search(r"\b[nm] = \d", one) for one in figures), figures
            ticks = opened.evaluate(
                "[...document.querySelectorAll('.axis.across')].map(one => one.querySelectorAll('text').length - 1)"
            )
            assert ticks
            assert min(ticks) >= 2  # a scale
            opened.close()
    assert len(colours) == 2
    opened = browser.open(address)
    before = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.evaluate("document.getElementById('theme').click()")
    assert {before, opened.evaluate("getComputedStyle(document.body).backgroundColor")} == colours
    opened.close()


CONTRAST = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const one of document.querySelectorAll("details")) one.open = true;
  document.querySelector("[data-means]").focus();
  // Paler by every opacity above it: ink over what is behind it.
  const faded = (node, ink, ground) => {
    let share = 1;
    for (let at = node; at; at = at.parentElement) share *= Number(getComputedStyle(at).opacity);
    return ink.slice(0, 3).map((value, place) => share * value + (1 - share) * ground[place]);
  };
  for (const node of document.querySelectorAll("main *, header *, #tooltip *")) {
    const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    if (!own || !node.getClientRects().length || node.closest(":disabled, [aria-hidden] .crowd")) continue;
    const style = getComputedStyle(node);
    const ground = behind(node);
    const ink = faded(node, parse(node instanceof SVGElement ? style.fill : style.color), ground);
    const [a, b] = [light(ink), light(ground)].sort((one, other) => other - one);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push([node.tagName, node.getAttribute("class"), node.textContent.slice(0, 30), ratio]);
  }
  return low;
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_every_word_stands_out_from_what_is_behind_it(browser, address, followed, dark):
    """At least 4.5 to 1, the floor for text of this size; what is folded away and what a tooltip says too."""
    for one in (address, followed[0]):
        opened = browser.open(one, dark=dark)
        assert opened.evaluate(CONTRAST) == []
        assert opened.evaluate("document.querySelectorAll('details:not([open])').length") == 0
        opened.close()


def test_everything_is_reached_and_done_by_keyboard_alone(page, material):
    """From the skip link on, Tab reaches every section's link; Enter chooses the worst fork and the theme."""
    delta = material.score["n-10", TASK].evidence.forks.delta
    where = (
        "(() => { const node = document.activeElement; return node.id || node.textContent.trim().slice(0, 40); })()"
    )
    seen = []
    while not seen or "Worst fork" not in seen[-1]:
        page.press("Tab")
        seen.append(page.evaluate(where))
        if seen[-1] == "theme":
            before = page.evaluate("getComputedStyle(document.body).backgroundColor")
            page.press("Enter")
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
        assert len(seen) < 60, seen
    assert seen[0] == "Skip to the answer"
    titles = page.evaluate("[...document.querySelectorAll('nav a')].map(one => one.textContent)")
    assert [name for name in seen if name in titles] == titles
    page.press("Enter")
    assert float(page.evaluate("document.getElementById('fork').dataset.delta")) == delta.min()
    unnamed = (
        "[...document.querySelectorAll('button, select, input, a[href], svg[tabindex], .scroll')].filter(one => "
        "!(one.getAttribute('aria-label') || one.textContent.trim() || one.closest('label')?.textContent.trim()))"
    )
    assert page.evaluate(f"{unnamed}.map(one => one.outerHTML.slice(0, 80))") == []


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The page of the published deployment study, and its score."""
    material = gather(Path(__file__).parents[3] / "results" / "deployment-demo", permutations=50)
    saved = render(material).save(tmp_path_factory.mktemp("followed") / "index.html")
    return saved.path.as_uri(), material.score.deployment


def test_a_deployment_study_says_first_whether_following_a_trigger_beats_never(browser, followed):
    """On a phone's first screen the sentence, below it every policy with the score's own digits, the best first."""
    address, tasks = followed
    ((task, scored),) = tasks.items()
    opened = browser.open(address, width=390, height=844)
    said = followed_answer(task, scored)
    first = "[...document.querySelectorAll('#answer .card .headline')]"
    (sentence, bottom), *others = opened.evaluate(
        f"{first}.map(one => [one.textContent, one.getBoundingClientRect().bottom])"
    )
    assert (sentence, others) == (minus(said.sentence), [])
    assert bottom < 844
    table = "document.querySelector('#answer > .scroll table')"
    rows = opened.evaluate(
        f"[...{table}.querySelectorAll('tbody tr')].filter(row => row.querySelector('.grade')).map(row => "
        "[row.cells[0].textContent, row.querySelector('[data-head=\"over never\"] data').value.split(' ')[0], "
        "row.querySelector('.grade').textContent])"
    )
    silent = silent_policies(scored)
    gains = {name: gained for name, gained in gains_over_never(scored).items() if name not in silent}
    assert {name: (float(mean), grade) for name, mean, grade in rows} == {
        name: (gained.mean, gained.grade) for name, gained in gains.items()
    }
    assert [name for name, *_ in rows] == sorted(gains, key=lambda name: -gains[name].mean)
    folded = opened.evaluate(f"{table}.textContent")
    assert all(name in folded for name in silent)
    cut = "[...document.querySelectorAll('#answer td')].filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert opened.evaluate(cut) == 0
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    lines = "[...document.querySelectorAll('#deployment .picture')].map(one => JSON.parse(one.dataset.rows))"
    names = "[...document.querySelectorAll('#deployment figcaption b')].map(one => one.textContent)"
    drawn = {
        name: [gain for _, gain, _ in rows]
        for name, rows in zip(opened.evaluate(names), opened.evaluate(lines), strict=True)
    }
    assert drawn == {name: list(scored.policies[name].by_episode) for name in gains}
    assert opened.complaints() == []
    opened.close()


def test_a_branch_has_its_videos_colours_beside_them_and_none_elsewhere(browser, small, tmp_path):
    """On the page two colours mean something: updating helped, or it hurt."""
    copy = ledgers.rewritten(small, tmp_path / "study", lambda cell, rows: rows)
    (copy.path / "report").mkdir()
    (copy.path / "report" / "film.gif").write_bytes(b"GIF89a tiny")
    saved = render(gather(copy.path, permutations=20)).save(tmp_path / "page.html")
    opened = browser.open(saved.path.as_uri(), dark=True)
    ink = opened.evaluate("getComputedStyle(document.body).color")
    for name, colour in (("update", UPDATE), ("hold", HOLD)):
        beside = opened.evaluate(f"getComputedStyle(document.querySelector('#watch .branch.{name}')).color")
        assert beside == f"rgb({', '.join(map(str, colour))})"
        assert opened.evaluate(f"getComputedStyle(document.querySelector('#stream .branch.{name}')).color") == ink
    opened.close()


def test_words_are_explained_by_keyboard(page):
    page.evaluate("[...document.querySelectorAll('#answer .term')].find(one => one.textContent === 'dR').focus()")
    assert not page.evaluate("document.getElementById('tooltip').hidden")
    assert page.evaluate("document.getElementById('tooltip').textContent") == TERMS["dR"]
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tooltip"
    page.press("Escape")
    assert page.evaluate("document.getElementById('tooltip').hidden")


def test_forks_are_listed_in_any_order_and_lead_to_themselves(page, material):
    delta = material.score["n-10", TASK].evidence.forks.delta
    first = "Number(document.querySelector('#forks tbody tr').dataset.fork)"
    chosen = "Number(document.getElementById('fork').dataset.delta)"
    assert page.evaluate("document.querySelector('#forks th[aria-sort=ascending]').textContent") == "dR ↑"
    page.evaluate("document.querySelector('#forks tbody a').click()")
    assert page.evaluate(chosen) == delta.min()
    page.evaluate("document.querySelector('[data-sort=delta]').click()")
    worst = page.evaluate(first)
    page.evaluate("document.querySelector('#forks tbody a').click()")
    assert page.evaluate(chosen) == delta.max()
    choose(page, "Show", "hurt")
    listed = page.evaluate("document.querySelector('#forks .pages').textContent")
    assert f"n = {int((delta < 0).sum())} forks" in listed
    kept = page.evaluate("location.hash")
    for word in ("sort=delta", "order=down", "show=hurt", f"fork={worst}", "at=stream"):
        assert word in kept


def test_a_link_reopens_the_page_as_it_was_left(browser, address):
    opened = browser.open(f"{address}#part=1&sort=k&order=down&show=helped&find=away&theme=dark&at=threshold")
    state = "[...document.querySelectorAll('#forks tbody tr')].map(one => one.textContent)"
    lines = opened.evaluate(state)
    assert lines
    assert all("away" in line for line in lines)
    assert opened.evaluate("document.documentElement.dataset.theme") == "dark"
    assert abs(opened.evaluate("document.getElementById('threshold').getBoundingClientRect().top")) < 200
    opened.close()


SAVED = "URL.createObjectURL = (blob) => { blob.text().then((text) => (window.saved = text)); return 'data:,'; }"


def save(page, where):
    page.evaluate(f"window.saved = null; {where}.click()")
    page.wait("window.saved !== null")
    return list(csv.reader(io.StringIO(page.evaluate("window.saved"))))


def test_every_chart_and_table_exports_the_data_it_shows(page, material):
    page.evaluate(SAVED)
    score = material.score["n-10", TASK]
    forks = save(page, "document.querySelector('#evidence-body .csv')")
    place = forks[0].index("dR")
    assert sorted(float(row[place]) for row in forks[1:]) == sorted(score.evidence.forks.delta.tolist())
    rows = save(page, "document.querySelector('#threshold-body .csv')")
    signals = {"residual": score.evidence.all_attempted["residual"].signal}
    scored = np.ones(len(score.evidence.forks), bool)
    swept = sweep(signals, score.evidence.forks, scored=scored, permutations=2, seed=0)["residual"]
    assert [float(row[1]) for row in rows[1:]] == swept.total.tolist()
    effects = save(page, "document.querySelector('#compare .captioned .csv')")
    assert float(effects[1][3]) == score.effect.all_attempted.mean
    bars = save(page, "document.querySelector('#answer .card .csv')")
    assert sum(int(row[2]) for row in bars[1:]) == len(score.evidence.forks)


def test_tables_fit_a_screen_of_1280(page):
    wide = (
        "[...document.querySelectorAll('section:not(#tables) .scroll')]"
        ".filter(n => n.offsetParent && n.scrollWidth > n.clientWidth + 1)"
    )
    assert page.evaluate(f"{wide}.map(n => n.getAttribute('aria-label'))") == []


def test_a_table_that_reaches_beyond_its_box_says_so(page):
    page.evaluate("document.querySelectorAll('#tables details').forEach(one => (one.open = true))")
    page.settle()
    boxes = page.evaluate(
        "[...document.querySelectorAll('#tables .scroll')]"
        ".map(n => [n.scrollWidth > n.clientWidth + 1, n.classList.contains('more')])"
    )
    assert {wide for wide, _ in boxes} == {True, False}
    assert all(wide == hinted for wide, hinted in boxes)


def test_arms_with_long_names_are_compared_within_a_screen_and_named_in_every_row_of_their_csv(browser, tmp_path):
    arms = tuple(f"gentle-window-{window}-and-rehearsal" for window in ("2000", "500", "all"))
    path = ledgers.flat(tmp_path / "t.parquet", tasks=("cartpole-swingup", "walker-walk"), arms=arms)
    opened = browser.open(render(gather(path, permutations=20)).save(tmp_path / "t.html").path.as_uri())
    table = "document.querySelector('#answer > [data-export=arms]')"
    assert opened.evaluate(f"{table}.scrollWidth <= {table}.clientWidth + 1")
    opened.evaluate(SAVED)
    rows = save(opened, f"{table}.previousElementSibling.querySelector('.csv')")
    assert [(row[0], row[1]) for row in rows[1:]] == [
        (f"{arm} - {arms[0]}", task) for arm in arms[1:] for task in ("cartpole-swingup", "walker-walk")
    ]
    assert {len(row) for row in rows} == {len(rows[0])}
    opened.close()


ALIGNED = """[...document.querySelectorAll("main table")].flatMap((table) => {
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  const full = [...(table.tBodies[0]?.rows ?? [])].find((row) => row.cells.length === heads.length);
  const side = (cell) => getComputedStyle(cell).textAlign.replace("start", "left");
  return heads
    .filter((head) => full && head.offsetParent && head.textContent.trim() && !head.classList.contains("wide"))
    .map((head) => [head, full.cells[head.cellIndex]])
    .filter(([head, cell]) => side(head) !== side(cell))
    .map(([head]) => [head.closest("section").id, head.textContent.trim()]);
})"""


def test_a_heading_stands_over_its_column(browser, address, followed, material, tmp_path):
    """On the same side as what it names, in every table, also in the index over several studies."""
    lines = [index_line(material, tmp_path / "page.html", index=tmp_path / "index.html")]
    index = render_index(lines).save(tmp_path / "index.html").path.as_uri()
    for one in (address, followed[0], index):
        opened = browser.open(one)
        assert opened.evaluate("document.querySelectorAll('main table').length") > 0
        assert opened.evaluate(ALIGNED) == []
        opened.close()


def test_the_index_shows_every_verdict_and_its_size_on_a_phone(browser, material, tmp_path):
    lines = [index_line(material, tmp_path / "page.html", index=tmp_path / "index.html")]
    index = render_index(lines).save(tmp_path / "index.html").path.as_uri()
    opened = browser.open(index, width=390)
    assert opened.evaluate(
        "[...document.querySelectorAll('.scroll')].every(one => one.scrollWidth <= one.clientWidth)"
    )
    shown = opened.evaluate("document.querySelector('#studies').innerText")
    for one in lines[0].verdicts:
        assert one.name in shown
        assert minus(one.answer.mean) in shown
    opened.close()


def test_studies_of_an_index_are_found_and_sorted(browser, material, tmp_path):
    index = tmp_path / "index.html"
    table = gather(ledgers.flat(tmp_path / "t.parquet", tasks=("walker",)), permutations=20)
    lines = [
        index_line(material, tmp_path / "zebra.html", index=index, name="zebra"),
        index_line(table, tmp_path / "ant.html", index=index, name="ant"),
    ]
    opened = browser.open(render_index(lines).save(index).path.as_uri())
    shown = (
        "[...document.querySelectorAll('.study')].filter(one => one.offsetParent)"
        ".map(one => one.querySelector('a').textContent)"
    )

    def ask(control, value):
        box = f"document.getElementById('{control}')"
        opened.evaluate(f"{box}.value = {json.dumps(value)}; {box}.dispatchEvent(new Event('input'))")
        return opened.evaluate(shown)

    most_first = [
        line.name for line in sorted(lines, key=lambda line: -max(one.checkpoints for one in line.verdicts))
    ]
    assert opened.evaluate(shown) == most_first
    assert ask("sort", "name") == ["ant", "zebra"]
    assert ask("sort", "forks") == [one.name for one in sorted(lines, key=lambda line: -line.forks)]
    assert ask("sort", "given") == most_first
    assert ask("task", "walker") == ["ant"]
    assert opened.evaluate("document.getElementById('count').textContent") == "1 of 2 studies"
    assert ask("task", "") == most_first
    assert ask("find", "stay text") == ["zebra"]
    assert ask("find", "") == most_first
    for kind in ("resolved", "helpful", "harmful", "unresolved"):
        fitting = {line.name for line in lines if kind in line.kinds}
        assert ask("verdict", kind) == [name for name in most_first if name in fitting]
    assert opened.complaints() == []
    opened.close()


def test_the_drift_of_each_direction_stands_above_its_forks(page, material):
    forks = material.score["n-10", TASK].evidence.forks
    shown = page.evaluate("[...document.querySelectorAll('#evidence rect.band title')].map(one => one.textContent)")
    levels = {}
    for cell, k, level in zip(forks.prefork.cell, forks.prefork.k, forks.prefork.level, strict=True):
        levels.setdefault((forks.prefork.cells[cell].direction, int(k)), set()).add(round(float(level), 3))
    assert {len(found) for found in levels.values()} == {1}  # checkpoints of a direction meet the same drift
    expected = [f"k = {k}: drift level {found.pop():.4g}" for (_, k), found in sorted(levels.items())]
    assert [re.sub(r"(\.\d{3})\d*", r"\1", one) for one in shown] == [
        re.sub(r"(\.\d{3})\d*", r"\1", one) for one in expected
    ]


def test_a_card_leads_to_how_far_its_own_model_had_fallen(browser, tmp_path):
    study = Path(__file__).parents[3] / "results" / "power-cartpole.tar.xz"
    saved = render(gather(study, permutations=10)).save(tmp_path / "page.html")
    opened = browser.open(saved.path.as_uri())
    opened.evaluate("document.querySelectorAll('#answer .card')[1].querySelector('a[href=\"#pays\"]').click()")
    opened.settle()
    assert "part=1" in opened.evaluate("location.hash")
    assert abs(opened.evaluate("document.getElementById('pays').getBoundingClientRect().top")) < 200
    shown = "[...document.querySelectorAll('#pays > div')].filter(one => !one.hidden)"
    (sentences,) = opened.evaluate(
        f"{shown}.map(one => [...one.querySelectorAll(':scope > p')].map(line => line.textContent))"
    )
    card = opened.evaluate("document.querySelectorAll('#answer .card')[1].textContent")
    assert len(sentences) == 2  # by ten permutations no trigger beats chance, and none is named by its price
    assert all(sentence in card for sentence in sentences)
    opened.close()


def test_the_head_names_four_groups_and_each_leads_to_its_sections(page):
    groups = page.evaluate("[...document.querySelectorAll('nav a')].map(one => one.textContent)")
    assert groups == ["Answer", "Evidence", "Triggers", "Record"]
    members = page.evaluate(
        "[...document.querySelectorAll('main section')].map(one => [one.dataset.group, one.id])"
    )
    assert [group for group, _ in itertools.groupby(members, key=lambda one: one[0])] == groups
    linked = page.evaluate("[...document.querySelectorAll('.group-head a')].map(one => one.hash.slice(1))")
    assert linked == [name for group, name in members if group != "Answer"]


def test_a_study_with_arms_says_first_whether_updating_is_worth_it_at_all(page, material):
    """A difference between arms does not: every arm's card has its verdict, its size and its advice in sight."""
    cards = page.evaluate(
        "[...document.querySelectorAll('#answer .card')].map(one => [one.querySelector('h3').textContent, "
        "one.querySelector('.word').textContent, one.querySelector('.size strong').textContent, "
        "one.querySelector('.advice').getBoundingClientRect().bottom])"
    )
    for (name, word, mean, bottom), (arm, scored) in zip(cards, material.score.arms.items(), strict=True):
        said = answer(scored.tasks[TASK])
        assert arm in name
        assert word == said.word
        assert mean == minus(said.mean)
        assert bottom < 800
    assert "Does a trigger know when?" in page.evaluate("document.querySelector('#answer').textContent")
    both = "['first', 'second'].flatMap(head => [...document.querySelectorAll(`#answer [data-head=${head}] data`)]"
    alone = page.evaluate(f"{both}.map(one => Number(one.value)))")
    contrasts = [tasks[TASK].all_attempted for tasks in material.score.contrasts.values()]
    assert alone == [one.first for one in contrasts] + [one.second for one in contrasts]


def test_predictions_read_as_sentences_and_fit_a_phone(browser, address):
    """A bound without a band is no enumeration; the answer is in sight without scrolling sideways."""
    opened = browser.open(address, width=390)
    table = "document.querySelector('#predictions .scroll')"
    assert opened.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")
    shown = opened.evaluate(f"[...{table}.querySelectorAll('[data-head=registered]')].map(one => one.innerText)")
    assert shown == ["registered mean: −1,000 to +1,000", "registered mean: not above 0"] or shown == [
        "mean: −1,000 to +1,000",
        "mean: not above 0",
    ]
    assert "clean_return.mean below 0" in opened.evaluate(f"{table}.innerText")
    opened.close()


def test_of_many_cells_the_extremes_are_walked_in_the_order_they_are_drawn(browser, tmp_path):
    path = ledgers.flat(tmp_path / "t.parquet", seeds=tuple(range(15)), k=2)  # 90 cells
    render(gather(path, permutations=20)).save(tmp_path / "t.html")
    opened = browser.open((tmp_path / "t.html").as_uri())
    names = opened.evaluate(
        "[...document.querySelectorAll('#evidence-body svg text title')].map(n => n.textContent)"
    )
    assert len(names) == 80
    directions = [name.split(" · ")[1] for name in names]
    assert len([one for one, other in itertools.pairwise(directions) if one != other]) == 1
    means = opened.evaluate(
        "[...document.querySelectorAll('#evidence-body svg text.figure')].map(n => n.textContent.replace('−', '-'))"
    )
    change = next(place for place, one in enumerate(directions) if one != directions[0])
    for half in (means[:change], means[change:]):
        assert list(map(float, half)) == sorted(map(float, half))
    rows = "[...document.querySelectorAll('#evidence-body rect.fork')]"
    first = f"{rows}.reduce((a, b) => (Number(b.getAttribute('y')) < Number(a.getAttribute('y')) ? b : a))"
    opened.evaluate(f"{first}.dispatchEvent(new MouseEvent('click', {{ bubbles: true }}))")
    reached = []
    for _ in range(3):
        reached.append(opened.evaluate("document.querySelector('#fork h3 small').textContent"))
        opened.evaluate("document.querySelector('#evidence svg').focus()")
        opened.press("ArrowDown")
    assert [one.rpartition(" · ")[0] for one in reached] == names[:3]
    opened.close()


def test_a_copy_without_streams_says_so_and_is_not_called_a_table(browser, small, tmp_path):
    copy = ledgers.rewritten(small, tmp_path / "copy", lambda cell, rows: rows)
    for stream in copy.path.glob("cells/*/stream.parquet"):
        stream.unlink()
    opened = browser.open(render(gather(copy.path, permutations=20)).save(tmp_path / "t.html").path.as_uri())
    assert "No stream: this copy of the study came without its streams." in opened.evaluate(
        "document.querySelector('#stream figcaption').textContent"
    )
    opened.close()


@pytest.mark.nightly
def test_thousands_of_forks_are_drawn_as_what_a_screen_can_show(browser, tmp_path):
    """Squares for points, an even choice of thresholds, the worst and the best cells; every fork in the list."""
    path = ledgers.flat(tmp_path / "t.parquet", checkpoints=tuple("01234"), seeds=tuple(range(22)), k=24)
    material = gather(path, permutations=20)
    render(material).save(tmp_path / "t.html")
    assert (tmp_path / "t.html").stat().st_size < 2_000_000  # 5,280 forks
    opened = browser.open((tmp_path / "t.html").as_uri())
    assert opened.complaints() == []
    assert opened.evaluate("document.querySelectorAll('*').length") < 12_000
    assert opened.evaluate("document.querySelectorAll('#threshold .crowd').length") > 100
    score = material.score["cartpole"]
    choose(opened, "Trigger", "noise")
    found = opened.evaluate(READ)
    assert (float(found["total"]), int(found["fires"])) == expected(score, "noise", float(found["threshold"]))
    assert "of n = 5,280 forks" in opened.evaluate("document.querySelector('#forks .pages').textContent")
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
    names = opened.evaluate("[...document.querySelectorAll('#threshold option')].map(one => one.value)")
    for name in names:
        choose(opened, "Trigger", name)
        opened.evaluate("document.querySelectorAll('#threshold button').forEach(one => one.click())")
    assert opened.complaints() == []
    opened.close()


@pytest.mark.nightly
def test_a_live_page_grows_with_its_study(browser, small, tmp_path):
    growing = ledgers.rewritten(small, tmp_path / "growing", lambda cell, rows: rows[:3])
    rest = {cell.id: cell.rows()[3:] for cell in small.cells()}
    with server(Watched(growing.path, lambda path: gather(path, permutations=50)), port=0) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        opened = browser.open(f"http://127.0.0.1:{serving.server_port}/#fork=2")
        assert "36 of 72 registered forks" in opened.evaluate("document.getElementById('status').textContent")
        for cell in growing.cells():
            cell.open(cell.plan(cell.configuration))
            cell.append(rest[cell.id])
        opened.wait("(document.getElementById('status')?.textContent || '').includes('72 of 72')")
        assert opened.evaluate("location.hash").startswith("#fork=2")
        assert opened.complaints() == []
        opened.close()
        serving.shutdown()
        thread.join()
