"""A whole study: null exactly zero, resumable, the same digits however it is run, and never lost."""

import dataclasses
import errno
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kill_and_resume import DEPLOYMENT, REGISTRATION, chained
from waiting import PATIENCE

from worldfork.errors import WorldforkError
from worldfork.lab.agents import linear_quadratic as lq
from worldfork.lab.agents.base import Decision, Fit
from worldfork.lab.forks.jobs import Describe, Labelled
from worldfork.lab.mechanisms.base import Update
from worldfork.lab.mechanisms.finetune import FineTune
from worldfork.lab.run import _tasks_in_turn, run
from worldfork.lab.signals import Episode, Signal
from worldfork.lab.tools.check import check
from worldfork.ledger.store import Study
from worldfork.ledger.verify import verify
from worldfork.registration import Cell


def write(folder: Path, text: str = REGISTRATION) -> Path:
    path = folder / "registration.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    run(write(folder), folder / "study")
    return folder / "study"


class Executor:
    """An executor from a function."""

    def __init__(self, mapping: Callable[..., Iterator[tuple[int, Any]]]) -> None:
        self.map = mapping


def rows_of(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in folder.glob("cells/*/forks.jsonl")}


def test_a_study_is_complete_and_verifies(reference: Path) -> None:
    verdict = verify(reference)
    assert (verdict.rows, verdict.cells, verdict.problems) == (16, 4, ())
    for cell in Study(reference).cells():
        for row in cell.rows():
            assert row.step == row.env_step == 50 * row.k
            assert len(row.hold) == len(row.update) == 5
            assert row.signals.keys() >= {"residual", "kl", "running_variance", "percentile", "return_deficit"}
            assert row.signals["kl"] is None
            assert row.signals["drift"] == row.level
            assert row.fit.window == min(100, 50 * row.k)


def test_every_block_says_where_its_time_went(reference: Path) -> None:
    lines = [json.loads(line) for path in reference.rglob("timings.jsonl") for line in path.open()]
    blocks = [line for line in lines if line["what"] == "block"]
    assert blocks
    for block in blocks:
        assert 0 < block["updates"] + block["evaluations"] <= block["seconds"]


def test_the_golden_ledger_comes_out_again(reference: Path) -> None:
    golden = json.loads(Path(__file__).parents[1].joinpath("golden").joinpath("linear_quadratic.json").read_text())
    for cell in Study(reference).cells():
        for row, known in zip(cell.rows(), golden[cell.id], strict=True):
            assert row.draws.hold == known["draws"]
            assert (row.r_hold, row.r_update) == pytest.approx((known["r_hold"], known["r_update"]), rel=1e-9)
            assert row.signals == {
                name: known["signals"][name] and pytest.approx(known["signals"][name], rel=1e-9)
                for name in row.signals
            }


def test_arms_that_differ_in_update_share_stream_hold_and_draws(reference: Path) -> None:
    ledger = Study(reference)
    for cell in ledger.cells():
        if not cell.id.startswith("many"):
            continue
        owner = ledger.cell(cell.id.replace("many", "few"))
        assert cell.configuration["shares"] == {"stream": owner.id, "hold": owner.id}
        for mine, theirs in zip(cell.rows(), owner.rows(), strict=True):
            assert (mine.hold, mine.signals, mine.stream) == (theirs.hold, theirs.signals, theirs.stream)
            assert mine.draws.update == theirs.draws.update
            assert mine.update != theirs.update


def test_without_an_update_every_difference_is_exactly_zero(tmp_path: Path) -> None:
    text = REGISTRATION.replace("steps = 5\n", "steps = 0\n").replace("{steps = 10}", '{name = "none"}')
    run(write(tmp_path, text), tmp_path / "study")
    rows = [row for cell in Study(tmp_path / "study").cells() for row in cell.rows()]
    assert len(rows) == 16
    for row in rows:
        assert row.delta == 0.0
        assert row.hold == row.update
        assert row.draws.hold == row.draws.update
        assert row.fit.param_shift == 0.0


def test_a_rerun_of_a_finished_study_computes_and_changes_nothing(reference: Path) -> None:
    def forbidden(function: Callable[[Any], Any], works: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        for index, work in enumerate(works):  # what determines the rows is asked for, nothing else
            assert isinstance(work, Describe)
            yield index, function(work)

    before = chained(reference)
    run(reference / "registration.toml", reference, executor=Executor(forbidden))
    assert chained(reference) == before


def test_order_of_execution_changes_no_digit(tmp_path: Path, reference: Path) -> None:
    def backwards(function: Callable[[Any], Any], works: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        return ((index, function(work)) for index, work in reversed(list(enumerate(works))))

    run(write(tmp_path), tmp_path / "study", executor=Executor(backwards))
    assert chained(tmp_path / "study") == {**chained(reference)}


Mapping = Callable[..., Iterator[tuple[int, Any]]]


def losing(function: Callable[[Any], Any], works: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    return ((index, function(work)) for index, work in enumerate(works) if index != 1)


def stopping(function: Callable[[Any], Any], works: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    yield 0, function(next(iter(works)))


def renumbering(function: Callable[[Any], Any], works: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    return ((index, function(work)) for index, work in enumerate(reversed(list(works))))


def unnumbered(function: Callable[[Any], Any], works: Iterable[Any]) -> Iterator[Any]:
    return map(function, works)


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        (losing, "from fork . on: the executor did not bring it back"),
        (stopping, "from fork . on: the executor did not bring it back"),
        (renumbering, "Executor answered .* with the rows of another block.*check_executor"),
        (unnumbered, "Executor yielded a Described.*check_executor"),
    ],
)
def test_an_executor_that_loses_or_mixes_up_tasks_is_not_believed(
    tmp_path: Path, reference: Path, mapping: Mapping, words: str
) -> None:
    path = write(tmp_path)
    with pytest.raises(WorldforkError, match=words):
        run(path, tmp_path / "study", executor=Executor(mapping))
    run(path, tmp_path / "study")
    assert chained(tmp_path / "study") == chained(reference)


@pytest.mark.parametrize(
    "execution", ["forks_per_block = 1", "forks_per_block = 7\nhalves = 2\nstreams_per_batch = 3"]
)
def test_block_size_and_overlap_change_no_digit_of_a_row(tmp_path: Path, reference: Path, execution: str) -> None:
    run(write(tmp_path, REGISTRATION.replace("forks_per_block = 3", execution)), tmp_path / "study")

    def payloads(folder: Path) -> dict[str, list[dict[str, object]]]:
        # The registration's digest differs, and with it every chain; nothing else may.
        return {cell.id: [{**row.payload(), "prev": ""} for row in cell.rows()] for cell in Study(folder).cells()}

    assert payloads(tmp_path / "study") == payloads(reference)


def test_the_number_of_workers_changes_no_byte(tmp_path: Path, reference: Path) -> None:
    run(write(tmp_path), tmp_path / "study", workers=2)
    assert chained(tmp_path / "study") == chained(reference)


def test_an_interrupted_run_resumes_to_the_same_bytes(tmp_path: Path, reference: Path) -> None:
    path = write(tmp_path)
    for pieces in (1, 2, 3):

        def interrupted(
            function: Callable[[Any], Any], works: Iterable[Any], pieces: int = pieces
        ) -> Iterator[tuple[int, Any]]:
            for index, work in enumerate(itertools.islice(works, pieces)):
                yield index, function(work)
                if isinstance(work, Describe):
                    return
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(path, tmp_path / "study", executor=Executor(interrupted))
    run(path, tmp_path / "study")
    assert chained(tmp_path / "study") == chained(reference)


TWO_TASKS = REGISTRATION.replace('tasks = ["linear_quadratic"]', 'tasks = ["first", "second"]').replace(
    "[tasks.linear_quadratic]\n", '[tasks.first]\nenvironment = "linear_quadratic"\n'
)
TWO_TASKS += TWO_TASKS[TWO_TASKS.index("[tasks.first]") :].replace("first", "second")


def test_tasks_can_be_run_one_after_the_other_into_the_same_study(tmp_path: Path) -> None:
    path = write(tmp_path, TWO_TASKS)
    run(path, tmp_path / "whole")
    run(path, tmp_path / "parts", tasks=["second"])
    begun = verify(tmp_path / "parts")
    assert (begun.rows, begun.expected, begun.problems) == (16, 32, ())
    assert {cell.name for cell in (tmp_path / "parts/cells").iterdir()} == {
        cell.name for cell in (tmp_path / "whole/cells").iterdir() if "second" in cell.name
    }
    run(path, tmp_path / "parts", tasks=["first"])
    assert verify(tmp_path / "parts").complete
    assert chained(tmp_path / "parts") == chained(tmp_path / "whole")


def test_a_run_of_some_tasks_needs_the_checkpoints_of_those_alone(tmp_path: Path) -> None:
    elsewhere = '[tasks.second]\ncheckpoints = "nowhere/{checkpoint}.safetensors"\n'
    path = write(tmp_path, TWO_TASKS.replace("[tasks.second]\n", elsewhere))
    with pytest.raises(WorldforkError, match="no checkpoint file"):
        run(path, tmp_path / "study")
    run(path, tmp_path / "study", tasks=["first"])
    assert verify(tmp_path / "study").rows == 16


@pytest.mark.parametrize(
    ("text", "tasks", "complaint"),
    [
        (TWO_TASKS, ["third"], "has no task 'third'; its tasks are first, second"),
        (TWO_TASKS + DEPLOYMENT, ["first"], "run all of its tasks together"),
    ],
)
def test_tasks_that_can_not_be_run_alone_are_refused(
    tmp_path: Path, text: str, tasks: list[str], complaint: str
) -> None:
    with pytest.raises(WorldforkError, match=complaint):
        run(write(tmp_path, text), tmp_path / "study", tasks=tasks)
    assert not (tmp_path / "study").exists()


def kills(injected: int, random: int) -> str:
    script = Path(__file__).parents[1] / "kill_and_resume.py"
    command = [sys.executable, str(script), "--injected", str(injected), "--random", str(random)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kills_lose_nothing_and_double_nothing() -> None:
    assert "3 injected and 1 random kills survived" in kills(3, 1)


@pytest.mark.nightly
def test_many_kills_lose_nothing_and_double_nothing() -> None:
    assert "60 injected and 20 random kills survived" in kills(60, 20)


@dataclasses.dataclass(frozen=True)
class Faulty(lq.LinearQuadratic):
    """The linear-quadratic agent with one fault."""

    fault: str = ""

    def act(self, parameters: Any, belief: Any, plan_keys: Any) -> Decision:
        decision = super().act(parameters, belief, plan_keys)
        if self.fault == "nan actions":
            return dataclasses.replace(decision, action=np.full_like(decision.action, np.nan))
        if self.fault == "own draws":
            plan_keys[0] += 1  # what a branch receives is changed on its way
        return decision

    def fit(self, parameters: Any, optimiser: Any, window: Any, **settings: Any) -> Fit:
        if self.fault == "raises" and (window.size == 150).any():
            raise FloatingPointError("the solver gave up")
        fit = super().fit(parameters, optimiser, window, **settings)
        if self.fault == "nan parameters":
            return dataclasses.replace(
                fit, parameters={k: np.full_like(v, np.nan) for k, v in fit.parameters.items()}
            )
        return fit


class FaultyPlugin(lq.LinearQuadraticPlugin):
    """It, as an agent from outside the package."""

    fault: str = ""

    def build(self, environment: Any, *, precision: str) -> Faulty:
        return Faulty(environment.matrices, **self.model_dump())


def run_faulty(folder: Path, fault: str, text: str = REGISTRATION) -> Study:
    text = text.replace('agent = "linear_quadratic"', f'agent = "{__name__}:FaultyPlugin"')
    # Without the trial of outside code, which has tests of its own: what is looked at is what a study makes of it.
    return run(write(folder, text + f'settings = {{fault = "{fault}"}}\n'), folder / "study", probe=False)


def test_an_update_that_diverges_is_an_outcome(tmp_path: Path) -> None:
    ledger = run_faulty(tmp_path, "nan parameters")
    assert verify(ledger.path).complete
    assert verify(ledger.path).problems == ()
    for row in (row for cell in ledger.cells() for row in cell.rows()):
        assert row.fit.non_finite == 6
        assert row.fit.param_shift is None
        assert row.nonfinite_actions.update == 5 * 50
        assert row.nonfinite_actions.hold == 0
        assert row.r_update is not None
        assert row.delta is not None


def test_an_agent_that_returns_nan_actions_is_counted_and_acts_with_zero(tmp_path: Path) -> None:
    ledger = run_faulty(tmp_path, "nan actions")
    for row in (row for cell in ledger.cells() for row in cell.rows()):
        assert row.nonfinite_actions.hold == row.nonfinite_actions.update == 5 * 50
        assert row.delta == 0.0  # both branches do nothing, in the same world


def test_a_block_that_raises_spares_the_rest_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = REGISTRATION.replace("window = 100", "window = 1000")
    with pytest.raises(WorldforkError, match=r"tasks failed[\s\S]*FloatingPointError: the solver gave up"):
        run_faulty(tmp_path, "raises", text)
    assert "in fit\n    raise FloatingPointError" in (tmp_path / "study" / "failures.log").read_text()
    verdict = verify(tmp_path / "study")
    assert verdict.problems == ()
    assert 0 < verdict.rows < verdict.expected
    monkeypatch.setattr(Faulty, "fit", lq.LinearQuadratic.fit)
    run_faulty(tmp_path, "raises", text)
    assert verify(tmp_path / "study").complete


class ReadsEverything(FineTune):
    """A mechanism that forgets to cut its window."""

    def update(self, agent: Any, parameters: Any, **given: Any) -> Update:
        whole = self.model_copy(update={"window": 10**9})
        return FineTune.update(whole, agent, parameters, **given)


def test_a_mechanism_that_looks_beyond_its_window_makes_no_rows(tmp_path: Path) -> None:
    named = f'window = 100\nname = "{__name__}:ReadsEverything"'
    text = REGISTRATION.replace('name = "finetune"\n', "").replace("window = 100", named)
    with pytest.raises(WorldforkError, match=r"ReadsEverything used \d+ transitions.*registered window is 100"):
        run(write(tmp_path, text), tmp_path / "study", probe=False)


class Misspelt(Signal):
    def read(self, episode: Episode) -> float:
        return float(np.mean(episode.steps["value_spred"]))


def test_a_signal_that_fails_is_named_before_anything_runs(tmp_path: Path) -> None:
    text = REGISTRATION.replace("[grid]", f'signals = ["residual", "{__name__}:Misspelt"]\n[grid]', 1)
    with pytest.raises(
        WorldforkError, match=r"signal `Misspelt` fails: KeyError 'value_spred'. Logged here: reward"
    ):
        check(write(tmp_path, text))


def test_branches_that_receive_different_draws_do_not_verify(tmp_path: Path) -> None:
    ledger = run_faulty(tmp_path, "own draws")
    assert "received different random draws" in verify(ledger.path).problems[0]


def test_a_machine_that_does_not_reproduce_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    run(path, tmp_path / "study")
    rows = tmp_path / "study" / "cells" / "few-linear_quadratic-c0-toward-s0" / "forks.jsonl"
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:2]))

    def elsewhere(function: Callable[[Any], Any], works: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        for index, work in enumerate(works):
            result = function(work)
            if not isinstance(result, Labelled):
                yield index, result
                continue
            first = result.rows[0].model_copy(update={"update": tuple(x + 1e-9 for x in result.rows[0].update)})
            yield index, dataclasses.replace(result, rows=[first, *result.rows[1:]])

    with pytest.raises(WorldforkError, match="came out differently"):
        run(path, tmp_path / "study", executor=Executor(elsewhere))
    run(path, tmp_path / "study")
    assert verify(tmp_path / "study").complete


def test_a_read_only_folder_is_told_clearly(tmp_path: Path) -> None:
    path = write(tmp_path)
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write anywhere")
    with pytest.raises(WorldforkError, match="can not be written"):
        run(path, folder / "study")


@pytest.mark.parametrize("moment", [5, 28])
def test_a_disk_that_fills_up_stops_a_run_and_the_same_call_carries_on(
    tmp_path: Path, reference: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    path, written, write_really = write(tmp_path), itertools.count(), os.write

    def fills_up(descriptor: int, data: Any) -> int:
        if next(written) >= moment:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_really(descriptor, data)

    monkeypatch.setattr(os, "write", fills_up)
    with pytest.raises(WorldforkError, match="the disk is full"):
        run(path, tmp_path / "study")
    monkeypatch.undo()
    run(path, tmp_path / "study")
    assert chained(tmp_path / "study") == chained(reference)


def test_other_draws_of_an_update_share_everything_but_its_minibatches(tmp_path: Path, reference: Path) -> None:
    text = REGISTRATION.replace("[grid]\n", "[grid]\nupdate_seeds = [0, 1, 2]\n")
    ledger = run(write(tmp_path, text), tmp_path / "study")
    assert verify(ledger.path).problems == ()
    assert verify(ledger.path).rows == 3 * 16
    first = ledger.cell("few-linear_quadratic-c0-away-s0")
    known = Study(reference).cell(first.id)
    for row, before in zip(first.rows(), known.rows(), strict=True):
        assert row.update == before.update  # the first draw is the one there always was
    for draw in (1, 2):
        other = ledger.cell(f"{first.id}-u{draw}")
        assert other.configuration["shares"] == {"stream": first.id, "hold": first.id}
        assert other.configuration["coordinates"]["update_seed"] == draw
        for row, before in zip(other.rows(), first.rows(), strict=True):
            assert (row.hold, row.draws, row.stream, row.signals) == (
                before.hold,
                before.draws,
                before.stream,
                before.signals,
            )
            assert row.update != before.update


def test_blocks_of_several_tasks_take_turns_and_each_tasks_stay_in_order() -> None:
    def block(task: str, k: int) -> tuple[tuple[Cell, int], ...]:
        return ((Cell("arm", task, 0, "away", 0), k),)

    blocks = [block("a", 1), block("a", 5), block("a", 9), block("b", 1), block("c", 1), block("c", 5)]
    turns = [(ordered[0][0].task, ordered[0][1]) for ordered in _tasks_in_turn(blocks)]
    assert turns == [("a", 1), ("b", 1), ("c", 1), ("a", 5), ("c", 5), ("a", 9)]
    assert _tasks_in_turn([]) == []


def test_a_study_that_comes_along_says_how_its_checkpoints_are_had(tmp_path: Path) -> None:
    trains = r"`worldfork reproduce power-cartpole -o FOLDER` trains all that it needs \(pretrain-cartpole-32\)"
    with pytest.raises(WorldforkError, match=trains) as refused:
        run("power-cartpole", tmp_path / "study")
    assert ".." not in str(refused.value)
    assert not (tmp_path / "study").exists()
