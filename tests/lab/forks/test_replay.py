"""Replays of a ledger's episodes in a quick world; cartpole is in test_replay_command."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from kill_and_resume import REGISTRATION

from worldfork.errors import WorldforkError
from worldfork.lab.forks.checkpoints import context_of
from worldfork.lab.forks.context import Context
from worldfork.lab.replay import find_pair, notable_pairs, replay_pair
from worldfork.lab.run import run
from worldfork.ledger import arrays
from worldfork.ledger.store import Study
from worldfork.registration import cells


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("replayed")
    (folder / "killed.toml").write_text(REGISTRATION.replace("episodes = 5", 'mode = "forward"\nepisodes = 5'))
    return run(folder / "killed.toml", folder / "study")


@pytest.fixture
def context(ledger: Study) -> Context:
    return context_of(ledger)


@pytest.mark.parametrize("whole_block", [None, True])
def test_episodes_come_out_again(ledger: Study, context: Context, whole_block: bool | None) -> None:
    for cell in cells(ledger.registration):  # two arms: the second shares its HOLD with the first
        for k, episode in ((1, 5), (4, 2)):
            pair = find_pair(ledger, cell.id, k=k, episode=episode)
            shown = replay_pair(ledger, context, pair, whole_block=whole_block)
            assert shown.exact
            assert shown.differences == ()
            assert shown.whole_block is bool(whole_block)  # this agent does not feel its batch's shape
            assert shown.update.returns[-1] == pair.row.update[episode - 1]
            assert shown.hold.returns[-1] == pair.row.hold[episode - 1]
            np.testing.assert_array_equal(shown.update.physics[0], shown.hold.physics[0])
            assert (shown.update.physics[-1] != shown.hold.physics[-1]).any()
            assert shown.levels[0] == pair.row.level
            assert len(shown.levels) == len(shown.update.returns) == 51


def test_a_shape_sensitive_agent_gets_its_block_back_unless_the_device_is_another(
    ledger: Study, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = find_pair(ledger, "few-linear_quadratic-c0-away-s0", k=1, episode=1)
    monkeypatch.setattr(type(context.agent("linear_quadratic")), "shape_sensitive", True)
    shown = replay_pair(ledger, context, pair)
    assert shown.whole_block
    assert shown.exact
    assert any(line.startswith("block") for line in shown.differences)  # cell.json holds no shape here
    monkeypatch.setattr(type(context.agent("linear_quadratic")), "device", "abacus")
    elsewhere = replay_pair(ledger, context, pair)
    assert not elsewhere.whole_block
    assert 'device: "cpu" -> "abacus"' in elsewhere.differences
    assert replay_pair(ledger, context, pair, whole_block=True).whole_block  # what is asked for is done


def test_one_bit_off_is_not_the_ledger(ledger: Study, context: Context) -> None:
    pair = find_pair(ledger, "few-linear_quadratic-c0-away-s0", k=2, episode=3)
    hold = list(pair.row.hold)
    hold[2] = math.nextafter(hold[2], 0.0)  # type: ignore[arg-type]
    nudged = type(pair)(pair.cell, pair.row.model_copy(update={"hold": tuple(hold)}), pair.episode)
    shown = replay_pair(ledger, context, nudged)
    assert not shown.exact
    assert (shown.update.exact, shown.hold.exact) == (True, False)


def test_a_return_that_was_not_finite_is_matched_by_one_that_is_not(ledger: Study, context: Context) -> None:
    pair = find_pair(ledger, "few-linear_quadratic-c0-away-s0", k=1, episode=1)
    row = pair.row.model_copy(update={"update": (None, *pair.row.update[1:])})
    assert not replay_pair(ledger, context, type(pair)(pair.cell, row, 1)).update.exact


def test_progress_counts_control_steps_of_all_that_runs(ledger: Study, context: Context) -> None:
    pair = find_pair(ledger, "many-linear_quadratic-c0-away-s0", k=1, episode=1)
    told: list[tuple[int, int]] = []
    replay_pair(
        ledger, context, pair, whole_block=True, progress=lambda what, done, total: told.append((done, total))
    )
    assert (told[0], told[-1]) == ((0, 100), (100, 100))  # its own block, and that of the arm whose HOLD it shares
    assert {total for _, total in told} == {100}
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_what_is_not_there_is_answered_with_what_is(ledger: Study, tmp_path: Path) -> None:
    name = "few-linear_quadratic-c0-away-s0"
    with pytest.raises(WorldforkError, match=r"few-linear_quadratic-c0-toward-s0\n  many-"):
        find_pair(ledger, "few", k=1, episode=1)
    for k in (0, 5):
        with pytest.raises(WorldforkError, match=f"decision points 1 to 4; k = {k}"):
            find_pair(ledger, name, k=k, episode=1)
    for episode in (0, 6):
        with pytest.raises(WorldforkError, match=f"episodes 1 to 5; {episode}"):
            find_pair(ledger, name, k=1, episode=episode)
    with pytest.raises(WorldforkError, match="not a study"):
        find_pair(Study(tmp_path), name, k=1, episode=1)


def test_the_forks_worth_watching_are_the_worst_a_median_and_the_best(ledger: Study, tmp_path: Path) -> None:
    deltas = sorted(row.delta for cell in ledger.cells() for row in cell.rows() if row.delta is not None)
    chosen = notable_pairs(ledger)
    assert [pair.row.delta for pair in chosen.values()] == [deltas[0], deltas[(len(deltas) - 1) // 2], deltas[-1]]
    assert list(chosen) == ["harmful", "median", "helpful"]
    for pair in chosen.values():
        gaps = [abs(u - h - (pair.row.delta or 0)) for h, u in zip(pair.row.hold, pair.row.update, strict=True)]  # type: ignore[operator]
        assert gaps[pair.episode - 1] == min(gaps)
        assert find_pair(ledger, pair.cell.id, k=pair.row.k, episode=pair.episode) == pair


def test_another_stream_than_the_rows_were_made_from_is_refused(
    ledger: Study, context: Context, tmp_path: Path
) -> None:
    copy = Study(shutil.copytree(ledger.path, tmp_path / "copy"))
    pair = find_pair(copy, "few-linear_quadratic-c0-away-s0", k=1, episode=1)
    recording = copy.cell(pair.cell.id).path / "window.npz"
    changed = arrays.read_npz(recording)
    changed["reward"][0] += 1.0  # type: ignore[operator]
    arrays.write_npz(recording, changed)
    with pytest.raises(WorldforkError, match="worldfork verify"):
        replay_pair(copy, context, pair)
