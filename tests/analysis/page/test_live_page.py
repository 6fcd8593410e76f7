"""The live server: this machine alone, two addresses, and a page that is made only when something changed."""

import http.client
import threading

import ledgers
import pytest
from waiting import PATIENCE

from worldfork.analysis.present.page import Watched, gather, server
from worldfork.errors import WorldforkError


@pytest.fixture
def served(small, tmp_path):
    study = ledgers.rewritten(small, tmp_path / "study", lambda cell, rows: rows[:2])
    made = []

    def counted(path):
        made.append(path)
        return gather(path, permutations=20)

    with server(Watched(study.path, counted), port=0) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield study, serving, made
        serving.shutdown()
        thread.join()


def ask(serving, path, *, host=None):
    connection = http.client.HTTPConnection("127.0.0.1", serving.server_port, timeout=PATIENCE)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_this_machine_alone(served):
    _, serving, _ = served
    assert serving.server_address[0] == "127.0.0.1"
    assert ask(serving, "/version", host=f"localhost:{serving.server_port}")[0] == 200
    assert ask(serving, "/version", host="elsewhere.example")[0] == 403


def test_two_addresses_and_no_files(served):
    _, serving, _ = served
    for path in ("/registration.toml", "/../registration.toml", "/cells/", "//etc/passwd"):
        assert ask(serving, path)[0] == 404


def test_a_page_is_made_when_rows_arrive_and_kept_otherwise(served, small):
    study, serving, made = served
    assert ask(serving, "/")[1] == ask(serving, "/")[1]
    assert len(made) == 1
    before = ask(serving, "/version")[1]
    cell = study.cells()[0]
    cell.open(cell.plan(cell.configuration))
    cell.append(small.cell(cell.id).rows()[2:3])
    assert ask(serving, "/version")[1] != before
    assert "25 of 72 registered forks" in ask(serving, "/")[1]
    assert len(made) == 2


def test_a_row_that_is_being_written_leaves_the_page_standing(served):
    study, serving, _ = served
    good = ask(serving, "/")[1]
    with (study.cells()[0].path / "forks.jsonl").open("a") as file:
        file.write('{"half a row')
    assert ask(serving, "/") == (200, good)


def test_before_the_first_fork_the_page_waits(small, tmp_path):
    empty = ledgers.rewritten(small, tmp_path / "empty", lambda cell, rows: [])
    page = Watched(empty.path, lambda path: gather(path)).page()
    assert "no forks yet" in page
    assert 'http-equiv="refresh"' in page


def test_a_taken_port_says_what_to_do(served):
    study, serving, _ = served
    with pytest.raises(WorldforkError, match="--port"):
        server(Watched(study.path, gather), port=serving.server_port)
