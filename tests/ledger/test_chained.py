"""Rows without the digests that follow from them: nothing is lost, and nothing can be changed unseen."""

import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldfork.errors import WorldforkError
from worldfork.ledger.publish import publish
from worldfork.ledger.row import restore_digests, strip_digests
from worldfork.ledger.store import Study
from worldfork.ledger.verify import verify
from worldfork.registration.schema import canonical, digest

RESULTS = Path(__file__).parents[2] / "results"
GENESIS = digest({"a": "cell"})


def chain(payloads: list[dict]) -> bytes:
    """Rows as a ledger has them."""
    lines, previous = [], GENESIS
    for payload in payloads:
        chained = {**payload, "prev": previous}
        previous = digest(chained)
        lines.append(canonical({**chained, "digest": previous}) + "\n")
    return "".join(lines).encode()


names = st.text(max_size=4).filter(lambda name: name not in ("digest", "prev"))
values = st.one_of(st.text(max_size=8), st.floats(allow_nan=False, allow_infinity=False), st.none())
payloads = st.lists(st.dictionaries(names, values, max_size=4), max_size=6)


@given(payloads)
def test_what_is_left_out_is_given_back(rows):
    whole = chain(rows)
    short = strip_digests(whole, genesis=GENESIS)
    assert restore_digests(short, genesis=GENESIS, where="rows") == whole
    assert restore_digests(whole, genesis=GENESIS, where="rows") == whole


def test_only_the_last_digest_is_kept():
    short = strip_digests(chain([{"k": 1}, {"k": 2}, {"k": 3}]), genesis=GENESIS)
    rows = [json.loads(line) for line in short.splitlines()]
    assert [row["prev"] for row in rows] == [""] * 3
    assert [len(row["digest"]) for row in rows] == [0, 0, 64]


def test_a_chain_that_is_broken_stays_as_it_is():
    whole = chain([{"k": 1}, {"k": 2}, {"k": 3}])
    edited = whole.replace(b'"k":2', b'"k":5')
    assert strip_digests(edited, genesis=GENESIS) == edited
    assert strip_digests(whole, genesis=digest("another cell")) == whole


def test_rows_without_an_end_are_refused():
    short = strip_digests(chain([{"k": 1}, {"k": 2}]), genesis=GENESIS)
    cut = short.splitlines(keepends=True)[0]
    with pytest.raises(WorldforkError, match="the last row has no digest"):
        restore_digests(cut, genesis=GENESIS, where="rows")


@pytest.fixture
def copy(tmp_path):
    """A study in one file as `tar -xf` unpacks it, with deployments."""
    publish(Study(RESULTS / "deployment-demo"), tmp_path / "short.tar.xz")
    with tarfile.open(tmp_path / "short.tar.xz") as packed:
        packed.extractall(tmp_path / "by-tar", filter="data")
    return tmp_path / "by-tar" / "short"


@pytest.mark.parametrize("rows", ["cells/*/forks.jsonl", "deployments/*/*/episodes.jsonl"])
@pytest.mark.parametrize("line", [0, 2, -1])
def test_a_changed_row_is_found(copy, rows, line):
    path = next(copy.glob(rows))
    lines = path.read_text().splitlines(keepends=True)
    row = json.loads(lines[line])
    lines[line] = canonical({**row, "level": row["level"] + 1.0}) + "\n"
    path.write_text("".join(lines))
    assert any("is not what was written" in problem for problem in verify(copy).problems)
