"""What the page computes with: every fork, every digit that is summed, every reason; and what was executed."""

import json
import math

import ledgers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldfork.desk.page.material import gather
from worldfork.desk.page.payload import embed, payload
from worldfork.desk.page.record import record, varies
from worldfork.desk.page.streams import condense
from worldfork.errors import WorldforkError
from worldfork.ledger import arrays
from worldfork.registration import cells, parse


@given(st.recursive(st.text() | st.floats(allow_nan=False, allow_infinity=False), st.lists))
def test_embedded_json_reads_back_and_closes_no_element(value):
    text = embed(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_forks_keep_every_digit_and_their_order(material):
    found = payload(material)
    assert [part["arm"] for part in found["parts"]] == ["n-10", "n-50", "n-200"]  # as registered, not as sorted
    for part in found["parts"]:
        forks = material.score[part["arm"], part["task"]].evidence.forks
        assert sorted(fork["delta"] for fork in part["forks"]) == sorted(forks.delta.tolist())
        places = [(fork["cell"], fork["k"]) for fork in part["forks"]]
        assert places == sorted(places)
        for fork in part["forks"]:
            assert fork["delta"] == fork["r_update"] - fork["r_hold"]
            assert len(fork["hold"]) == len(fork["update"]) == 4
            assert fork["fit"]["window"] == min(200, 50 * fork["k"])


def test_arms_with_one_stream_share_it_on_the_page(material):
    found = payload(material)
    assert len(found["streams"]) == 4  # two checkpoints, two directions; three arms use each
    assert {cell["stream"] for part in found["parts"] for cell in part["cells"]} == set(found["streams"])


def test_thresholds_are_those_that_scoring_fitted(material):
    part = payload(material)["parts"][2]
    one = material.score["n-200", "linear_quadratic"]
    for name, trigger in part["triggers"].items():
        if "signal" not in trigger:
            continue
        by_checkpoint = {owner: float(value) for owner, value in trigger["thresholds"]["retained"].items()}
        fired = [
            fork["delta"]
            for fork, signal in zip(part["forks"], trigger["signal"], strict=True)
            if signal is not None and signal >= by_checkpoint[part["cells"][fork["cell"]]["checkpoint"]]
        ]
        assert math.fsum(fired) == pytest.approx(one.triggers[name].policy_total, abs=1e-12)


def test_streams_in_bins():
    steps = np.arange(480)
    log = {
        "step": steps,
        "episode": 1 + steps // 240,
        "error": np.where(steps % 2, 3.0, 1.0),
        "kl": np.full(480, np.nan),
        "level": steps / 480,
        "reward": np.ones(480),
    }
    log["error"][:2] = np.nan
    log["error"][2] = np.inf
    found = condense(log)
    assert found["width"] == 2
    assert (found["error"]["low"][0], found["error"]["mean"][0]) == (None, None)
    assert [found["error"][name][1] for name in ("low", "mean", "high")] == [3.0, 3.0, 3.0]
    assert [found["error"][name][2] for name in ("low", "mean", "high")] == [1.0, 2.0, 3.0]
    assert found["kl"] is None
    assert found["non_finite"] == {"error": 3, "kl": 480}
    assert found["episode_return"] == [240.0, 240.0]
    assert found["level"][1] == pytest.approx(2 / 480, rel=1e-4)


def test_a_fork_without_a_return_is_shown_and_not_scored(small, tmp_path):
    def lose(cell, rows):
        update = (None, *rows[2].update[1:])
        lost = {"update": update, "r_update": None, "delta": None}
        lost["nonfinite_returns"] = rows[2].nonfinite_returns.model_copy(update={"update": 1})
        first = cell.arm == "n-10" and cell.checkpoint == 0 and cell.direction == "away"
        return [*rows[:2], rows[2].model_copy(update=lost), *rows[3:]] if first else rows

    found = gather(ledgers.rewritten(small, tmp_path / "lost", lose).path, permutations=50)
    part = payload(found)["parts"][0]
    (fork,) = [one for one in part["forks"] if one["delta"] is None]
    assert (fork["k"], fork["r_update"], fork["update"][0]) == (3, None, None)
    assert len(part["forks"]) == 24
    assert part["figures"]["forks"]["attempted"] == 23
    index = part["forks"].index(fork)
    assert all("signal" not in one or one["signal"][index] is None for one in part["triggers"].values())
    said = record(found)
    assert len(said["unscored"]) == 1
    assert "1 non-finite returns in UPDATE" in [one["what"] for one in said["deviations"]]


def test_what_was_executed_as_registered_has_no_deviation(material):
    said = record(material)
    assert said["deviations"] == []
    assert said["forks"] == said["registered_forks"] == 72
    assert said["digest"] == material.study.registration.digest
    made = dict(said["made_with"])
    assert made["device"] == ["cpu"]
    assert any(package.startswith("numpy ") for package in made["packages"])
    assert len(said["checkpoints"]) == 2


def test_deviations_are_found_by_comparing(small, tmp_path):
    short = ledgers.rewritten(
        small, tmp_path / "short", lambda cell, rows: rows[: 6 if cell.direction == "away" else 4]
    )
    said = record(gather(short.path, permutations=50))
    (unfinished,) = said["deviations"]
    assert unfinished["what"] == "4 of 6 registered forks are in the ledger"
    assert len(unfinished["cells"]) == 6
    assert (said["forks"], said["registered_forks"]) == (60, 72)

    changed = parse(ledgers.REGISTRATION.replace("episodes = 4", "episodes = 5").replace("0.02", "0.03"))
    ledgers.amended(short, changed, reason="more episodes")
    said = record(gather(short.path, permutations=50))
    what = " | ".join(one["what"] for one in said["deviations"])
    assert "made under an earlier registration" in what
    assert "arm.evaluation.episodes: 5 -> 4" in what
    assert "task.settings.learning_rate: 0.03 -> 0.02" in what
    assert "6 forks have 4 episodes per branch; 5 are registered" in what
    (amendment,) = said["amendments"]
    assert amendment.reason == "more episodes"


def test_a_task_that_has_not_begun_is_no_obstacle(small, tmp_path):
    other = ledgers.REGISTRATION.replace('tasks = ["linear_quadratic"]', 'tasks = ["linear_quadratic", "other"]')
    other += ledgers.REGISTRATION[ledgers.REGISTRATION.index("[tasks.") :].replace(
        "tasks.linear_quadratic", "tasks.other"
    )
    begun = ledgers.rewritten(small, tmp_path / "begun", lambda cell, rows: rows, registration=parse(other))
    said = record(gather(begun.path, permutations=50))
    assert said["registered_forks"] == 144
    assert said["notes"] == []
    assert "0 of 6 registered forks are in the ledger" in [one["what"] for one in said["deviations"]]


def test_arms_say_what_they_vary(small):
    assert varies(small.registration) == {
        "n-10": [],
        "n-50": ["mechanism.steps: 10 -> 50"],
        "n-200": ["mechanism.steps: 10 -> 200"],
    }


def test_a_damaged_stream_is_one_clear_error(small, tmp_path):
    copy = ledgers.rewritten(small, tmp_path / "damaged", lambda cell, rows: rows)
    (copy.cell(cells(small.registration)[0].id).path / "stream.parquet").write_bytes(b"not parquet")
    with pytest.raises(WorldforkError, match="stream"):
        payload(gather(copy.path, permutations=50))


def test_a_flat_table_has_no_record_and_no_streams(tmp_path):
    found = gather(ledgers.flat(tmp_path / "t.parquet", missing=0.4), permutations=50)
    assert record(found) is None
    page = payload(found)
    assert page["streams"] == {}
    assert None in page["parts"][0]["triggers"]["residual"]["signal"]
    assert "adwin" in page["parts"][0]["unavailable"]


def test_streams_are_read_as_they_were_written(small, material):
    cell = next(cell for cell in cells(small.registration) if cell.arm == "n-10")
    log = arrays.read_parquet(small.cell(cell.id).path / "stream.parquet")
    shown = payload(material)["streams"][arrays.content_digest(log)]
    assert shown["steps"] == 300
    assert sum(shown["episode_return"]) == pytest.approx(float(log["reward"].sum()), rel=1e-4)
