"""The page as a file: nothing from elsewhere, nothing that runs but its own script, every text a text."""

import base64
import dataclasses
import hashlib
import html.parser
import io
import json
import re
import shutil
import zlib

import ledgers
import polars as pl
import pytest
from markupsafe import escape

from worldfork.analysis.present.page import gather, render, write_page
from worldfork.analysis.present.page.index import compared, index_line, render_index
from worldfork.analysis.present.page.videos import videos
from worldfork.analysis.present.text.formatting import minus
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.present.text.value import CROSSING_CAVEAT, skew_words
from worldfork.analysis.read.frames import study_frame
from worldfork.analysis.score.undefined import Interval
from worldfork.errors import WorldforkError
from worldfork.ledger.verify import root

HOSTILE = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>", '"&amp;', "$x$", "<!--")


class Elements(html.parser.HTMLParser):
    """Which elements a page has, and the text of its scripts."""

    def __init__(self, page):
        super().__init__()
        self.found, self.scripts, self._open = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self._open = tag == "script"
        if self._open:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._open = False

    def handle_data(self, data):
        if self._open:
            self.scripts[-1] += data


def data_in(elements):
    """The value that a page's script looks up."""
    return json.loads(zlib.decompress(base64.b64decode(elements.scripts[0])))


def test_the_page_asks_nothing_of_anyone(material):
    page = render(material).html
    elements = Elements(page)
    for tag, attributes in elements.found:
        for name in ("src", "href"):
            address = attributes.get(name) or "#"
            assert address.startswith(("#", "data:")), (tag, attributes)
    assert not re.search(r"@import|url\(", page)


def test_only_the_pages_own_script_may_run(material):
    elements = Elements(render(material).html)
    (policy,) = [a["content"] for t, a in elements.found if a.get("http-equiv") == "Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(elements.scripts[-1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "connect-src 'none'" in policy
    live = Elements(render(material, version="v1").html)
    assert any("connect-src 'self'" in (a.get("content") or "") for _, a in live.found)


def test_text_from_a_table_stays_text(tmp_path):
    path = ledgers.flat(tmp_path / "hostile.parquet", checkpoints=HOSTILE, tasks=("<b>task</b>",), arms=HOSTILE[:2])
    elements = Elements(render(gather(path, permutations=50)).html)
    kinds = [tag for tag, _ in elements.found]
    assert kinds.count("script") == 2
    assert "img" not in kinds
    assert not [attributes for _, attributes in elements.found if any(name.startswith("on") for name in attributes)]
    embedded = data_in(elements)
    assert {cell["checkpoint"] for cell in embedded["parts"][0]["cells"]} == set(HOSTILE)


def test_the_registration_is_printed_escaped(material):
    page = render(material).html
    assert "Does &lt;script&gt; stay text &amp; not run?" in page
    assert material.study.registration.digest in page


def test_the_verdict_comes_first_with_both_intervals_and_both_estimands(material):
    page = render(material).html
    answer = page.index('class="advice"')
    assert answer < page.index('id="evidence"')
    for words in ("all attempted", "retained", "Student-t 95%", "bootstrap 95%", "per episode"):
        assert words in page[: page.index('id="evidence"')]


def test_sentences_of_the_page_say_what_is_there(material):
    page = render(material).html
    assert "All <span" not in page  # "All all attempted forks"
    assert "this plot always shows these" in page
    assert "Settings that change nothing" not in page
    assert "Over all tasks" not in page[: page.index('id="tables"')]  # no task is pooled with another
    crossings = page.count("On average an update gains where") > 0
    assert (CROSSING_CAVEAT in page) == crossings


def test_undefined_is_undefined_with_its_reason(tmp_path):
    page = render(gather(ledgers.flat(tmp_path / "one.parquet", checkpoints=("0",)), permutations=50)).html
    verdicts = page[: page.index('id="evidence"')]
    assert "<b>Not decided</b>" in verdicts
    assert "an interval over checkpoints needs at least two of them" in verdicts
    assert "leave-one-checkpoint-out needs at least two checkpoints" in page


def test_the_flat_table_is_inside(material, tmp_path):
    tables = data_in(Elements(render(material).html))["downloads"]
    inside = {one["name"]: base64.b64decode(one["base64"]) for one in tables}
    exported = study_frame(material.study)
    assert pl.read_parquet(io.BytesIO(inside["small-dose.parquet"])).equals(exported)
    assert inside["small-dose.csv"].decode() == exported.drop("hold", "update").write_csv()
    path = ledgers.flat(tmp_path / "t.parquet")
    (given,) = data_in(Elements(render(gather(path, permutations=50)).html))["downloads"]
    assert base64.b64decode(given["base64"]) == path.read_bytes()


def test_a_paper_sized_study_is_small(tmp_path):
    """240 forks with 30 episodes each, six signals' worth of figures: far below 8 MB."""
    path = ledgers.flat(tmp_path / "paper.parquet", checkpoints=tuple("01234"), k=24, episodes=30)
    write_page(path, tmp_path / "out", permutations=50)
    assert (tmp_path / "out" / "index.html").stat().st_size < 1_000_000


def test_the_same_ledger_gives_the_same_page(small, material):
    assert render(gather(small.path, permutations=500)) == render(material)


def test_replays_beside_the_page_are_shown_in_it(small, material, tmp_path):
    """As data, so that the page stays one file; what would make it too large is left out."""
    copy = tmp_path / "study"
    shutil.copytree(small.path, copy)
    (copy / "report").mkdir(exist_ok=True)
    (copy / "report" / "fork<7>.gif").write_bytes(b"GIF89a tiny")
    (copy / "report" / "zz-large.gif").write_bytes(b"GIF89a" + bytes(3_000_000))
    page = render(gather(copy, permutations=10)).html
    addresses = [a["src"] for tag, a in Elements(page).found if tag == "img"]
    assert [base64.b64decode(address.split(",")[1]) for address in addresses] == [b"GIF89a tiny"]
    assert "fork&lt;7&gt;" in page
    assert "Watch both branches" not in render(material).html


def test_a_video_that_names_its_fork_says_what_that_was_worth(small, tmp_path):
    copy = tmp_path / "study"
    shutil.copytree(small.path, copy)
    (copy / "report").mkdir(exist_ok=True)
    cell = small.cells()[0]
    (copy / "report" / f"{cell.id}-k2-e1.gif").write_bytes(b"GIF89a tiny")
    found = gather(copy, permutations=10)
    (film,) = videos(found)
    assert (film.cell, film.k, film.episode) == (cell.id, 2, 1)
    assert f"{cell.rows()[1].delta:+.1f}".lstrip("+-") in film.name
    assert f'data-cell="{cell.id}" data-k="2"' in render(found).html


@pytest.mark.nightly
def test_rejected_seeds_are_on_the_page(small, tmp_path):
    study = ledgers.rewritten(small, tmp_path / "study", lambda cell, rows: rows)
    assert "Seeds that were trained" not in render(gather(study.path, permutations=20)).html, (
        "none was: they are generated"
    )
    for name in ("pretraining", "checkpoints"):
        (study.path / name).mkdir()
    (study.path / "checkpoints" / "linear_quadratic-0.json").write_text(json.dumps({"digest": "d"}))
    one = {"task": "linear_quadratic", "gate": 123.4, "returns": [120.0, 122.0]}
    seeds = [{**one, "seed": 6, "index": 0, "digest": "d"}, {**one, "seed": 7, "index": None, "digest": None}]
    (study.path / "pretraining" / "r.json").write_text(json.dumps({"recipe": "r", "seeds": seeds}))
    page = render(gather(study.path, permutations=20)).html
    text = re.sub(r"</?data[^>]*>|</?span[^>]*>", "", page)
    seeds_table = text.partition("Seeds that were trained")[2].partition("</table>")[0]
    (row,) = re.findall(r">7</th>(.*?)</tr>", seeds_table)
    assert re.findall(r">([^<]+)</td>", row) == ["123.4", "–", "121.0", "–", "not kept"]


def test_a_table_claims_nothing_about_its_random_numbers(tmp_path, material):
    table = render(gather(ledgers.flat(tmp_path / "t.parquet", episodes=4), permutations=50)).html
    text = table[: table.index('<section id="tables"')]  # the captions of tables define their columns
    assert "under common random numbers" not in text
    assert "common random numbers" not in text.lower()
    assert "a table does not say" in text
    assert "common random numbers" in render(material).html


@pytest.mark.nightly
def test_a_page_lies_where_it_was_put_and_says_so(small, tmp_path):
    copy = tmp_path / "study"
    shutil.copytree(small.path, copy)
    page = write_page(str(copy), permutations=10)
    assert page.path == copy / "report" / "index.html"
    assert page.path.read_text(encoding="utf-8") == page.html
    assert write_page(copy, tmp_path / "elsewhere", permutations=10).path == tmp_path / "elsewhere" / "index.html"


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(material):
    page = render(material)
    (frame,) = Elements(page._repr_html_()).found
    tag, attributes = frame
    assert tag == "iframe"
    assert attributes["srcdoc"] == page.html
    assert "allow-same-origin" not in attributes["sandbox"]


def test_nothing_is_written_through_a_link_out_of_the_study(small, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.html").write_text("precious")
    copy = tmp_path / "study"
    shutil.copytree(small.path, copy)
    (copy / "report").mkdir(exist_ok=True)
    (copy / "report" / "index.html").unlink(missing_ok=True)
    (copy / "report" / "index.html").symlink_to(outside / "precious.html")
    with pytest.raises(WorldforkError, match=r"index\.html"):
        write_page(copy, permutations=10)
    assert (outside / "precious.html").read_text() == "precious"
    shutil.rmtree(copy / "report")
    (copy / "report").symlink_to(outside)
    with pytest.raises(WorldforkError, match="report"):
        write_page(copy, permutations=10)
    assert sorted(path.name for path in outside.iterdir()) == ["precious.html"]


def test_a_replay_that_is_a_link_is_not_read(small, tmp_path):
    """What a link in a stranger's study leads to would be in the page that its reader sends on."""
    copy = tmp_path / "study"
    shutil.copytree(small.path, copy)
    (tmp_path / "secret").write_text("secret")
    (copy / "report").mkdir(exist_ok=True)
    (copy / "report" / "film.gif").symlink_to(tmp_path / "secret")
    with pytest.raises(WorldforkError, match=r"film\.gif"):
        gather(copy, permutations=10)


def test_a_malformed_amendment_is_one_clear_error(small, tmp_path):
    copy = tmp_path / "study"
    shutil.copytree(small.path, copy)
    (copy / "amendments.jsonl").write_text('{"reason":"because"}\n')
    with pytest.raises(WorldforkError, match="amendments"):
        render(gather(copy, permutations=10))


def test_an_index_says_what_every_ledger_answers_and_links_its_page(material, tmp_path):
    table = gather(ledgers.flat(tmp_path / "t.parquet"), permutations=20)
    index = tmp_path / "pages" / "index.html"
    lines = [
        index_line(one, tmp_path / "pages" / name / "index.html", index=index)
        for name, one in (("<study>", material), ("table", table))
    ]
    assert lines[0].forks == 72
    assert lines[0].root == root(material.study)
    assert [one.name for one in lines[0].verdicts] == [f"{arm} · linear_quadratic" for arm in material.score.arms]
    assert (lines[1].root, lines[1].answers) == ("", [])
    page = render_index(lines).html
    assert sorted(addresses(page)) == ["%3Cstudy%3E/index.html", "table/index.html"]
    assert "A study copies a deployed model" in page
    for sentence in (*lines[0].answers, "Does &lt;script&gt; stay text &amp; not run?"):
        assert minus(sentence) in page
    elements = Elements(page)
    (script,) = elements.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [a["content"] for _, a in elements.found if a.get("http-equiv") == "Content-Security-Policy"]
    assert f"script-src 'sha256-{digest}'" in policy


def test_an_index_begins_with_most_checkpoints_and_ends_with_what_was_run_again(material, tmp_path):
    index = tmp_path / "index.html"
    line = index_line(material, index, index=index)

    def of(name, checkpoints):
        verdicts = [dataclasses.replace(one, checkpoints=checkpoints) for one in line.verdicts]
        return dataclasses.replace(line, name=name, address=f"{name}.html", verdicts=verdicts)

    lines = [of("choose", 2), of("power-earlier", 32), of("b", 10), of("power", 32), of("a", 10)]
    assert addresses(render_index(lines).html) == [
        f"{name}.html" for name in ("power", "a", "b", "choose", "power-earlier")
    ]


def test_an_index_says_where_two_studies_have_the_same_forks(material, tmp_path):
    index = tmp_path / "index.html"
    line = index_line(material, index, index=index, name="one")
    first = with_grade(line, ("walker", 20.0, "resolved", "helpful"))
    again = dataclasses.replace(first, name="two")
    (one,) = first.verdicts
    other = dataclasses.replace(first, name="three", verdicts=[dataclasses.replace(one, forks="of others")])
    (walker,) = compared([first, again, other])
    arms = [row[1] for row in walker.table.rows]
    assert arms == ["n-10", "n-10 (same forks as one)", "n-10"]


def addresses(page):
    """Every address that an index links, in its order."""
    links = [attributes["href"] for tag, attributes in Elements(page).found if tag == "a"]
    return [link for link in links if not link.startswith("#")]


def test_a_page_leads_back_to_the_index_that_links_it(material):
    assert '<a href="all%20of%20them.html">' in render(material, index="all of them.html").html
    assert "all studies" not in render(material).html


def test_an_index_puts_the_arms_of_a_task_below_one_another_and_counts_many(material, tmp_path):
    index = tmp_path / "index.html"
    wide = ledgers.flat(tmp_path / "wide.parquet", tasks=("one", "two"), arms=("a", "b", "c", "d"))
    few, many = (index_line(one, index, index=index) for one in (material, gather(wide, permutations=10)))
    assert [one.name for one in many.verdicts] == [f"{arm} · {task}" for task in ("one", "two") for arm in "abcd"]
    assert (few.many, many.many) == (False, True)
    page = render_index([few, many]).html
    assert [tag for tag, _ in Elements(page).found].count("details") == 1
    assert f"Of 8 means: {many.counted}." in page


def with_grade(line, *graded):
    """The line with verdicts of these (task, mean, grade) instead of its own."""
    one = line.verdicts[0]
    return dataclasses.replace(
        line,
        verdicts=[
            dataclasses.replace(
                one,
                task=task,
                graded=dataclasses.replace(one.graded, mean=mean, interval=Interval(mean - 5.0, mean + 5.0)),
                answer=dataclasses.replace(
                    one.answer,
                    grade=grade,
                    verdict=verdict,
                    word="Not resolved" if verdict == "unresolved" else "Updating every time helps",
                ),
            )
            for task, mean, grade, verdict in graded
        ],
    )


def test_an_index_compares_what_is_resolved_in_different_studies_task_by_task(material, tmp_path):
    index = tmp_path / "index.html"
    line = index_line(material, tmp_path / "one.html", index=index, name="one")
    first = with_grade(
        line,
        ("walker", 20.0, "resolved", "helpful"),
        ("cheetah", 7.0, "leaning", "helpful"),
        ("hopper", 0.0, "unresolved", "unresolved"),
    )
    second = with_grade(
        dataclasses.replace(line, name="two", address="two.html"),
        ("walker", 30.0, "resolved", "helpful"),
        ("walker", 3.0, "leaning", "helpful"),
        ("walker", 0.0, "unresolved", "unresolved"),
        ("cheetah", 8.0, "resolved", "helpful"),
    )
    walker, cheetah = compared([first, second])
    assert [(line.name, one.graded.mean) for line, one in walker.rows] == [("two", 30.0), ("one", 20.0)]
    assert walker.task == "walker"
    assert [(line.name, one.answer.grade) for line, one in walker.others] == [
        ("two", "leaning"),
        ("two", "unresolved"),
    ]
    assert [(line.name, one.graded.mean) for line, one in cheetah.rows] == [("two", 8.0)]
    assert [(line.name, one.answer.grade) for line, one in cheetah.others] == [("one", "leaning")]
    assert second.counted == "2 help (resolved), 1 helps (leaning), 1 not resolved"
    page = render_index([first, second]).html
    assert addresses(page) == [
        *("one.html", "two.html"),  # the studies, as given
        *("two.html", "one.html", "two.html", "two.html"),  # walker: resolved, then the others
        *("two.html", "one.html"),  # cheetah
    ]
    assert f"registered as {material.name}" in page
    for grade in ("resolved", "leaning"):  # one definition, wherever a grade is explained
        assert str(escape(TERMS[grade])) in page
    nothing = render_index([with_grade(line, ("walker", 3.0, "leaning", "helpful"))]).html
    assert "What is resolved" not in nothing


def test_a_data_frame_has_a_page_that_lies_nowhere_until_it_is_saved(tmp_path):
    frame = pl.read_parquet(ledgers.flat(tmp_path / "t.parquet"))
    page = write_page(frame, permutations=20)
    assert page.path is None
    assert "Was updating worth it?" in page.html
    assert page.save(tmp_path / "frame.html").path.read_text(encoding="utf-8") == page.html
    with pytest.raises(WorldforkError, match="is a folder"):
        page.save(tmp_path)


def test_what_skewness_takes_from_an_interval_stands_in_its_card(tmp_path):
    """Seven checkpoints gain a little and one loses much: the Student-t interval covers less than it says."""
    rows = [
        {"checkpoint": c, "k": k, "r_hold": 100.0, "r_update": 101.0 + 0.1 * c - (60.0 if c == 7 else 0.0)}
        for c in range(8)
        for k in (1, 2)
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "skewed.parquet")
    material = gather(tmp_path / "skewed.parquet", permutations=20)
    effect = material.score["skewed"].effect.all_attempted
    assert minus(skew_words(effect.skew, 1)) in render(material).html
    assert "a nominal 95% interval covers less, about" in skew_words(effect.skew, 1)
