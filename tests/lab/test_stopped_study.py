"""Studies that stop: where they should, to the same bytes after an interruption, and nothing beyond the stop."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kill_and_resume import chained

from worldfork.errors import WorldforkError
from worldfork.lab.forks.jobs import Describe
from worldfork.lab.forks.plan import fork_blocks, stream_batches
from worldfork.lab.run import run
from worldfork.ledger import looks, store
from worldfork.ledger.documents import as_file, seal
from worldfork.ledger.looks import Look, follow
from worldfork.ledger.publish import publish
from worldfork.ledger.store import Study
from worldfork.ledger.verify import identity, verify
from worldfork.registration import parse, read
from worldfork.registration.library import find

KNOWN = find("known-answer-stopping").read_text()
SMALL = (
    KNOWN.replace("8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]", "8, 9]")
    .replace("episodes = 10", "episodes = 2")
    .replace("steps = 200", "steps = 20")
)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped") / "study"
    run("known-answer-stopping", folder)
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    run(written(folder, SMALL), folder / "study")
    return folder


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "registration.toml"
    path.write_text(text)
    return path


def copied(study: Path, to: Path) -> Path:
    shutil.copytree(study, to / "copy")
    return to / "copy"


def rewritten(study: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Change the looks of a study, and chain them anew as a forger would."""
    path = study / "looks.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = change(lines)
    previous, chain = lines[0]["prev"], b""
    for line in lines:
        look = seal(Look.model_validate_json(json.dumps(line)), prev=previous)
        previous = look.digest
        chain += as_file(look.model_dump(mode="json", by_alias=True))
    path.write_bytes(chain)


def test_it_stops_at_the_look_that_answers_the_last_question(stopped: Path) -> None:
    found = Study(stopped).looks()
    answers = {
        (asked.arm, asked.against): (len(look.checkpoints), asked.answer)
        for look in found
        for asked in look.questions
        if asked.answer
    }
    assert answers == {("refit", None): (12, "above"), ("refit", "refit-less"): (19, "above")}
    assert [look.stop for look in found] == [None] * 11 + ["answered"]
    assert {folder.configuration["coordinates"]["checkpoint"] for folder in Study(stopped).cells()} == set(
        range(19)
    )
    verdict = verify(stopped)
    assert (verdict.rows, verdict.problems, verdict.notes, verdict.complete) == (152, (), (), True)
    assert verdict.stopping == "stopped after 19 of 24 checkpoints: answered"


def test_an_answered_question_is_not_asked_again(stopped: Path) -> None:
    assert [len(look.questions) for look in Study(stopped).looks()] == [2] * 5 + [1] * 7


def test_a_finished_study_is_left_as_it_is(stopped: Path) -> None:
    before = chained(stopped)
    run("known-answer-stopping", stopped)
    assert chained(stopped) == before


@pytest.mark.parametrize("moment", [1, 4, 5, 6, 7, 9, 10, 13])
def test_an_interrupted_study_resumes_to_the_same_bytes(small: Path, tmp_path: Path, moment: int) -> None:
    calls = 0

    def interrupt(what: str, done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == moment:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(small / "registration.toml", tmp_path / "study", progress=interrupt)
    assert not verify(tmp_path / "study").complete
    assert verify(tmp_path / "study").problems == ()
    run(small / "registration.toml", tmp_path / "study")
    assert chained(tmp_path / "study") == chained(small / "study")


def test_a_kill_between_the_rows_and_their_look_is_no_damage(stopped: Path, tmp_path: Path) -> None:
    study = copied(stopped, tmp_path)
    lines = (study / "looks.jsonl").read_bytes().splitlines(keepends=True)
    (study / "looks.jsonl").write_bytes(b"".join(lines[:-1]))
    verdict = verify(study)
    assert (verdict.problems, verdict.complete) == ((), False)
    assert "look 12 is not recorded yet" in verdict.notes[0]
    run("known-answer-stopping", study)
    assert chained(study) == chained(stopped)


def test_a_world_without_an_effect_runs_to_its_budget(tmp_path: Path) -> None:
    null = SMALL.replace("[[arms]]", "[mechanism.settings]\n\n[[arms]]", 1).replace(
        "[mechanism]\n", '[mechanism]\nname = "none"\n'
    )
    null = (
        null.replace("steps = 20\n", "steps = 0\n")
        .replace("steps = 50", "steps = 0")
        .replace("[mechanism.settings]\n", "")
    )
    run(written(tmp_path, null), tmp_path / "study")
    found = Study(tmp_path / "study").looks()
    assert [len(look.checkpoints) for look in found] == [8, 9, 10]
    assert {(asked.mean, asked.statistic, asked.answer) for look in found for asked in look.questions} == {
        (0.0, None, None)
    }
    verdict = verify(tmp_path / "study")
    assert verdict.complete
    assert verdict.stopping == "all 10 checkpoints, and not answered: the budget is spent"


def test_a_task_stops_without_the_others(tmp_path: Path) -> None:
    text = KNOWN.replace('["linear_quadratic"]', '["linear_quadratic", "still"]')
    text = text.replace("9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]", "9, 10, 11, 12, 13]")
    text = text.replace("    { task", '    { task = "still", arm = "refit" },\n    { task', 1)
    text = text.replace('    { task = "linear_quadratic", arm = "refit", against = "refit-less" },\n', "")
    text = text.replace("first_look = 8", "step = 3\nfirst_look = 8")
    settings = text.split("[tasks.linear_quadratic]")[1].replace(
        "[tasks.linear_quadratic.settings]", "[tasks.still.settings]"
    )
    text += '\n[tasks.still]\nenvironment = "linear_quadratic"' + settings.replace(
        "drift_scale = 4.0", "drift_scale = 1.0"
    )
    run(written(tmp_path, text), tmp_path / "study")
    study = Study(tmp_path / "study")
    reached = {"linear_quadratic": set(), "still": set()}  # type: dict[str, set[int]]
    for folder in study.cells():
        coordinates = folder.configuration["coordinates"]
        reached[coordinates["task"]].add(coordinates["checkpoint"])
    assert {task: len(of) for task, of in reached.items()} == {"linear_quadratic": 11, "still": 14}
    assert verify(tmp_path / "study").stopping == (
        "still: all 14 checkpoints, and not answered: the budget is spent; "
        "linear_quadratic: stopped after 11 of 14 checkpoints: answered"
    )


@pytest.mark.parametrize("line", [0, 4, 10])
def test_a_look_that_was_taken_out_is_missed(stopped: Path, tmp_path: Path, line: int) -> None:
    study = copied(stopped, tmp_path)
    rewritten(study, lambda lines: lines[:line] + lines[line + 1 :])
    assert f"look {line + 2}" in verify(study).problems[0]


def test_an_edited_look_is_named(stopped: Path, tmp_path: Path) -> None:
    study = copied(stopped, tmp_path)

    def earlier(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        lines[3]["questions"][0] |= {"answer": "above", "statistic": 9.0}
        return lines

    rewritten(study, earlier)
    assert verify(study).problems[0].startswith("looks.jsonl, look 4: `questions` is not what the rows")
    path = study / "looks.jsonl"
    path.write_text(path.read_text().replace('"statistic":9.0', '"statistic":8.0'))
    assert "its digest does not match" in verify(study).problems[0]


def test_a_look_of_another_registration_is_named(stopped: Path, tmp_path: Path) -> None:
    study = copied(stopped, tmp_path)
    rewritten(study, lambda lines: [lines[0] | {"prev": "0" * 64}, *lines[1:]])
    assert any("chained to another registration" in problem for problem in verify(study).problems)


def test_a_checkpoint_beyond_the_stop_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study that went on although its questions were answered: rows and looks agree with each other alone."""
    text = KNOWN.replace('    { task = "linear_quadratic", arm = "refit", against = "refit-less" },\n', "")
    text = text.replace("11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]", "11]")
    asked = looks._asked
    with monkeypatch.context() as going_on:
        going_on.setattr(looks, "_asked", lambda *given: asked(*given).model_copy(update={"answer": None}))
        run(written(tmp_path, text), tmp_path / "study")
    problems = verify(tmp_path / "study").problems
    assert problems[0].startswith("looks.jsonl, look 3: `questions`")
    assert "refit-less-linear_quadratic-c10-away-s0 (and 3 more): its task had stopped" in problems[1]
    with pytest.raises(WorldforkError, match="its task had stopped before"):
        run(tmp_path / "registration.toml", tmp_path / "study")


def test_a_published_copy_has_the_looks_and_the_root(stopped: Path, tmp_path: Path) -> None:
    publish(Study(stopped), tmp_path / "copy.tar.xz")
    verdict = verify(tmp_path / "copy.tar.xz")
    assert (verdict.problems, verdict.complete) == ((), True)
    assert Study(tmp_path / "copy.tar.xz").looks() == Study(stopped).looks()
    assert identity(tmp_path / "copy.tar.xz")[2] == identity(stopped)[2]
    without = copied(stopped, tmp_path)
    (without / "looks.jsonl").unlink()
    assert identity(without)[2] != identity(stopped)[2]


def test_what_looks_rest_on_can_not_be_amended(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small / "study", tmp_path / "study")
    for before, after, what in (
        ("error_rate = 0.05", "error_rate = 0.1", r"\[stopping\]"),
        ("checkpoints = [0, 1,", "checkpoints = [1, 0,", "grid of cells"),
        ("[[arms]]", "[scoring]\nupdate_cost = 1.0\n[[arms]]", "update_cost"),
    ):
        changed = written(tmp_path / "changed", SMALL.replace(before, after, 1))
        with pytest.raises(WorldforkError, match=what):
            run(changed, tmp_path / "study", amend="It would be convenient.")
    run(
        written(tmp_path / "changed", SMALL.replace("After how", "In fact, after how")),
        tmp_path / "study",
        amend="Words.",
    )
    assert verify(tmp_path / "study").problems == ()


def test_its_tasks_run_together(tmp_path: Path) -> None:
    two = KNOWN.replace('["linear_quadratic"]', '["linear_quadratic", "still"]')
    two = two.replace("    { task", '    { task = "still", arm = "refit" },\n    { task', 1)
    two += '[tasks.still]\nagent = "linear_quadratic"\nenvironment = "linear_quadratic"\ndrift_scale = 1.0\n'
    with pytest.raises(WorldforkError, match="run them together"):
        run(written(tmp_path, two), tmp_path / "study", tasks=["still"])


def test_checkpoints_after_a_look_are_computed_by_workers_of_the_same_kind(tmp_path: Path) -> None:
    described = 0

    class Changing:
        here = True

        def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
            nonlocal described
            for index, task in enumerate(tasks):
                result = function(task)
                if isinstance(task, Describe):
                    described += 1
                    for configuration in result.configurations if described > 1 else ():
                        configuration["device"] = "gpu"
                yield index, result

    registration = written(tmp_path, SMALL)
    with pytest.raises(WorldforkError, match=r"c8-away-s0 would be computed by a worker of another kind"):
        run(registration, tmp_path / "study", executor=Changing())
    run(registration, tmp_path / "study")
    assert verify(tmp_path / "study").complete


def test_no_batch_spans_checkpoints_that_a_look_separates() -> None:
    registration = read(find("known-answer-stopping"))
    together = parse(KNOWN.split("[stopping]")[0] + "[tasks" + KNOWN.split("[tasks", 1)[1])
    batches = stream_batches(registration)
    assert [len(batch) for batch in batches] == [8, *[1] * 16]
    assert [len(batch) for batch in stream_batches(together)] == [10, 10, 4]
    for shared in (False, True):
        blocks = fork_blocks(registration, shared=shared)
        groups = [{max(cell.checkpoint, 7) for cell, _ in block} for block in blocks]
        assert all(len(group) == 1 for group in groups)
        forks = {fork for block in blocks for fork in block}
        assert forks == {fork for block in fork_blocks(together, shared=shared) for fork in block}


def test_looks_follow_from_the_rows_alone(stopped: Path) -> None:
    study = Study(stopped)
    rows = {cell: study.cell(cell.id).rows() for cell in follow(study.registration, {}).due}
    course = follow(study.registration, rows)
    assert [look.payload().keys() for look in course.looks] == [study.looks()[0].payload().keys()]
    assert course.looks[0].questions == study.looks()[0].questions
    assert (len(course.due), course.ended) == (18, False)


def test_a_rule_that_is_added_or_taken_away_is_a_change_of_the_rule() -> None:
    stopping = read(find("known-answer-stopping"))
    without = stopping.model_copy(update={"stopping": None})
    assert store._settled(without, stopping) == store._settled(stopping, without) == "[stopping]"
    assert store._settled(without, without) is store._settled(stopping, stopping) is None
