"""What the page computes with: every fork, every digit that is summed, every reason; and what was executed."""

import base64
import json
import math
import zlib

import ledgers
import numpy as np
import pytest

from worldfork.analysis.present.page import gather, view
from worldfork.analysis.present.page import payload as payload_module
from worldfork.analysis.present.page import record as record_module
from worldfork.analysis.present.page.payload import compressed, payload
from worldfork.analysis.present.page.record import record
from worldfork.analysis.present.page.streams import LEVELS, condense
from worldfork.analysis.present.text.arms import arm_words, changed, set_apart, update_words
from worldfork.analysis.score.decisions import fit_threshold, policy_total
from worldfork.analysis.score.threshold_curves import sweep
from worldfork.errors import WorldforkError
from worldfork.lab.run import run
from worldfork.ledger import arrays
from worldfork.registration import cells, parse


def test_compressed_json_reads_back_and_closes_no_element(material):
    value = {"cell": "</script><!-- \u2028", "data": payload(material)}
    text = compressed(value)
    assert json.loads(zlib.decompress(base64.b64decode(text))) == value
    assert "<" not in text


def test_forks_keep_every_digit_and_their_order(material):
    data = payload(material)
    for part, (arm, scored) in zip(data["parts"], material.score.arms.items(), strict=True):
        forks = scored.tasks["linear_quadratic"].evidence.forks
        shown = part["forks"]
        assert sorted(fork["r_update"] - fork["r_hold"] for fork in shown) == sorted(forks.delta.tolist()), arm
        assert all(fork["delta"] == fork["r_update"] - fork["r_hold"] for fork in shown)
        places = [(fork["cell"], fork["k"]) for fork in shown]
        assert places == sorted(places)
        assert all(len(fork["hold"]) == len(fork["update"]) == 4 for fork in shown)
        assert [fork["fit"][4] for fork in shown] == [min(200, 50 * fork["k"]) for fork in shown]


def test_arms_stand_in_the_order_they_were_registered_in(material):
    assert list(material.score.arms) == ["n-10", "n-50", "n-200"]  # as registered, not as sorted
    assert [part.arm for part in view.parts(material)] == ["n-10", "n-50", "n-200"]


def test_arms_with_one_stream_share_it_on_the_page(material):
    data = payload(material)
    assert len(data["streams"]) == 4  # two checkpoints, two directions; three arms use each
    assert {cell["stream"] for part in data["parts"] for cell in part["cells"]} == {0, 1, 2, 3}


def test_every_threshold_on_the_page_fires_on_the_forks_of_the_librarys(material):
    score = material.score["n-200", "linear_quadratic"]
    evidence = score.evidence
    part = payload(material)["parts"][2]
    swept = sweep(
        {name: one.signal for name, one in evidence.all_attempted.items() if one.signal is not None},
        evidence.forks,
        scored=np.ones(len(evidence.forks), bool),
        permutations=500,
        seed=0,
    )
    for name, library in swept.items():
        trigger = part["triggers"][name]
        rows, signal = trigger["rows"]["all_attempted"], np.array(trigger["signal"])
        assert rows["total"] == library.total.tolist()
        assert rows["fires"] == library.fires.tolist()
        assert rows["of"] == len(library.total)
        thresholds = [float(threshold) for threshold in rows["threshold"]]
        assert thresholds == library.threshold.tolist()
        assert [int((signal >= threshold).sum()) for threshold in thresholds] == library.fires.tolist()


def test_a_large_page_keeps_an_even_choice_of_thresholds_and_no_episodes(material, monkeypatch):
    monkeypatch.setattr(payload_module, "SMALL_PAGE", 10)
    monkeypatch.setattr(payload_module, "MOST_ROWS", 6)
    score = material.score["n-10", "linear_quadratic"]
    part = payload(material)["parts"][0]
    assert not any("hold" in fork or "fit" in fork for fork in part["forks"])
    signal = score.evidence.all_attempted["residual"].signal
    rows = part["triggers"]["residual"]["rows"]["all_attempted"]
    assert 6 <= len(rows["total"]) < rows["of"]
    assert (rows["fires"][0], rows["fires"][-1]) == (24, 0)
    best = fit_threshold(signal, score.evidence.forks.delta)
    assert rows["total"][rows["best"]] == policy_total(signal >= best, score.evidence.forks.delta)
    for threshold, total in zip(rows["threshold"], rows["total"], strict=True):
        assert total == policy_total(signal >= float(threshold), score.evidence.forks.delta)


def test_fired_flags_are_those_that_scoring_decided(material):
    score = material.score["n-50", "linear_quadratic"]
    part = payload(material)["parts"][1]
    forks = part["forks"]
    for side, triggers in (("retained", score.triggers.retained), ("all_attempted", score.triggers.all_attempted)):
        for name, figures in triggers.items():
            flags = part["triggers"][name]["fired"][side]
            fired = [
                fork["delta"]
                for fork, flag in zip(forks, flags, strict=True)
                if flag and not (fork["diverged"] and side == "retained")
            ]
            assert math.fsum(fired) == pytest.approx(figures.policy_total, abs=1e-12)


def test_streams_in_bins():
    steps = np.arange(480)
    log = {
        "step": steps,
        "episode": 1 + steps // 240,
        "error": np.where(steps % 2, 3.0, 1.0),
        "kl": np.full(480, np.nan),
        "disagreement": np.ones(480),
        "level": steps / 480,
        "reward": np.ones(480),
    }
    log["error"][:2] = np.nan
    log["error"][2] = np.inf
    found = condense(log)
    assert found["width"] == 2
    error, kl, disagreement = found["panels"]
    heights = {name: error[name] for name in ("low", "mean", "high")}
    assert (error["floor"], error["cap"]) == (0.0, 3.0)
    assert [heights[name][0] for name in heights] == [255, 255, 255]  # nothing was logged there
    assert [heights[name][1] for name in heights] == [LEVELS, LEVELS, LEVELS]  # 3, 3, 3
    assert [heights[name][2] for name in heights] == [round(LEVELS / 3), round(LEVELS * 2 / 3), LEVELS]  # 1, 2, 3
    assert error["non_finite"] == 3
    assert "mean" not in kl  # this agent logged none
    assert (disagreement["name"], disagreement["words"]) == ("disagreement", "disagreement")
    assert found["episode_return"] == [240.0, 240.0]
    assert (found["level"][0], found["level"][120]) == (0, LEVELS / 2)


def test_a_fork_without_a_return_is_shown_as_the_failure_it_counts_as(small, tmp_path):
    def lose(cell, rows):
        update = (None, *rows[2].update[1:])
        lost = {"update": update, "r_update": None, "delta": None}
        lost["nonfinite_returns"] = rows[2].nonfinite_returns.model_copy(update={"update": 1})
        first = cell.arm == "n-10" and cell.checkpoint == 0 and cell.direction == "away"
        return [*rows[:2], rows[2].model_copy(update=lost), *rows[3:]] if first else rows

    found = gather(ledgers.rewritten(small, tmp_path / "lost", lose).path, permutations=50)
    part = payload(found)["parts"][0]
    (lost,) = [fork for fork in part["forks"] if fork["broken"]]
    # Returns are costs here: a failure is the worst there is.
    min_return = found.ledger.table.arms["n-10"]["linear_quadratic"].failure_return
    assert (lost["k"], lost["r_update"], lost["update"][0]) == (3, min_return, None)
    assert lost["broken"] == "Counted: 1 non-finite return in UPDATE."
    assert len(part["forks"]) == 24
    assert part["policies"]["all_attempted"]["forks"] == 24  # a failure is attempted, and never retained
    assert part["policies"]["retained"]["forks"] < 24
    said = record(found)
    assert len(said.failed) == 1
    assert "1 non-finite return in UPDATE" in [one.what for one in said.deviations]


def test_what_was_executed_as_registered_has_no_deviation(material):
    said = record(material)
    assert said.deviations == []
    assert said.forks == said.registered_forks == 72
    assert said.digest == material.study.registration.digest
    made = dict(said.made_with)
    assert made["device"] == ["cpu"]
    assert any(package.startswith("numpy ") for package in made["packages"])
    assert len(said.checkpoints.rows) == 2


def test_deviations_are_found_by_comparing(small, tmp_path):
    short = ledgers.rewritten(
        small, tmp_path / "short", lambda cell, rows: rows[: 6 if cell.direction == "away" else 4]
    )
    said = record(gather(short.path, permutations=50))
    (unfinished,) = said.deviations
    assert unfinished.what == "4 of 6 registered forks are in the ledger"
    assert len(unfinished.cells) == 6
    assert (said.forks, said.registered_forks) == (60, 72)

    changed = parse(ledgers.REGISTRATION.replace("episodes = 4", "episodes = 5").replace("0.02", "0.03"))
    ledgers.amended(short, changed, reason="more episodes")
    said = record(gather(short.path, permutations=50))
    what = " | ".join(one.what for one in said.deviations)
    assert "made under an earlier registration" in what
    assert "arm.evaluation.episodes: 5 -> 4" in what
    assert "task.settings.learning_rate: 0.03 -> 0.02" in what
    assert "6 forks with 4 episodes per branch; 5 are registered" in what
    (amendment,) = said.amendments
    assert amendment.reason == "more episodes"


def test_a_task_that_has_not_begun_is_no_obstacle(small, tmp_path):
    other = ledgers.REGISTRATION.replace('tasks = ["linear_quadratic"]', 'tasks = ["linear_quadratic", "other"]')
    other += ledgers.REGISTRATION[ledgers.REGISTRATION.index("[tasks.") :].replace(
        "tasks.linear_quadratic", "tasks.other"
    )
    begun = ledgers.rewritten(small, tmp_path / "begun", lambda cell, rows: rows, registration=parse(other))
    said = record(gather(begun.path, permutations=50))
    assert said.registered_forks == 144
    assert said.notes == []
    assert "0 of 6 registered forks are in the ledger" in [one.what for one in said.deviations]


def test_arms_say_what_they_vary(small):
    first, *others = (arm.name for arm in small.registration.arms)
    assert {name: changed(small.registration, first, name) for name in others} == {
        "n-50": ["mechanism.steps: 10 → 50"],
        "n-200": ["mechanism.steps: 10 → 200"],
    }


def test_a_setting_that_another_mechanism_does_not_have_is_not_at_its_default():
    text = ledgers.REGISTRATION.replace(
        "{ steps = 50 }", '{ name = "rehearsal", settings = { rate = 0.1, share = 0.5 } }'
    )
    registration = parse(text.replace("{ steps = 200 }", "{ settings = { rate = 0.1 } }"))
    assert "mechanism.settings.share: not set → 0.5" in changed(registration, "n-10", "n-50")
    assert changed(registration, "n-10", "n-200") == ["learning rate, in units of the agent's own: 1 → 0.1"]
    assert set_apart(registration, "n-10", "n-50") == (
        "fine-tuning that rehearses pretraining's replay (share 0.5) instead of fine-tuning; "
        "a tenth of the learning rate"
    )
    assert set_apart(registration, "n-10", "n-200").startswith("a tenth of the learning rate")
    assert arm_words(registration, "n-10") == ""
    assert arm_words(registration, "n-50") == "rehearsal as the update and a tenth of the learning rate"
    assert arm_words(registration, "n-200") == "a tenth of the learning rate"
    assert update_words(registration) == "10 gradient steps of the model on at most the last 200 transitions"
    rate = parse(text.replace("steps = 10\n", "steps = 10\nsettings = { rate = 0.1 }\n"))
    assert update_words(rate).endswith("on at most the last 200 transitions, rate 0.1")


def test_a_module_in_two_versions_is_a_deviation(material, monkeypatch):
    begin = record_module._cell_record

    def changed(study, cell):
        found = begin(study, cell)
        return found.model_copy(update={"source": "f" * 64}) if cell.arm == "n-50" else found

    monkeypatch.setattr(record_module, "_cell_record", changed)
    (differ,) = record(material).deviations
    assert differ.what.startswith("cells differ in their source: ")
    assert "f" * 64 in differ.what
    kept = material.study.path / "sources"
    before = {path: path.read_bytes() for path in kept.glob("*.json")}
    modules = json.loads(next(iter(before.values())))
    try:
        # Another mechanism has modules of its own: no deviation. The same module in two versions is one, and named.
        (kept / f"{'f' * 64}.json").write_text(json.dumps({**modules, "theirs": "0" * 64}))
        assert not record(material).deviations
        name = next(iter(modules))
        (kept / f"{'f' * 64}.json").write_text(json.dumps({**modules, name: "0" * 64}))
        (differ,) = record(material).deviations
        assert differ.what == f"cells were computed with several versions of {name}"
    finally:
        (kept / f"{'f' * 64}.json").unlink()


def test_a_damaged_stream_is_one_clear_error(small, tmp_path):
    copy = ledgers.rewritten(small, tmp_path / "damaged", lambda cell, rows: rows)
    (copy.cell(cells(small.registration)[0].id).path / "stream.parquet").write_bytes(b"not parquet")
    with pytest.raises(WorldforkError, match="stream"):
        payload(gather(copy.path, permutations=50))


def test_a_flat_table_has_no_record_and_no_streams(tmp_path):
    found = gather(ledgers.flat(tmp_path / "t.parquet", missing=0.4), permutations=50)
    assert record(found) is None
    page = payload(found)
    assert page["streams"] == []
    assert {cell["stream"] for cell in page["parts"][0]["cells"]} == {None}
    assert None in page["parts"][0]["triggers"]["residual"]["signal"]
    assert not any("fit" in fork for fork in page["parts"][0]["forks"])


def test_streams_are_read_as_they_were_written(small, material):
    cell = next(cell for cell in cells(small.registration) if cell.arm == "n-10")
    log = arrays.read_parquet(small.cell(cell.id).path / "stream.parquet")
    shown = [one for one in payload(material)["streams"] if one == condense(log)]
    assert len(shown) == 1
    assert shown[0]["steps"] == 300
    assert sum(shown[0]["episode_return"]) == pytest.approx(float(log["reward"].sum()), rel=1e-4)


def test_several_draws_of_an_update_are_one_fork_that_names_them(tmp_path):
    """The label is their mean; the page shows each, and says where there is only one."""
    text = ledgers.REGISTRATION[: ledgers.REGISTRATION.index("[[arms]]")]
    text += ledgers.REGISTRATION[ledgers.REGISTRATION.index("[tasks.") :]
    text = text.replace("[grid]", "[grid]\nupdate_seeds = [0, 1, 2]").replace(
        "decision_points = 6", "decision_points = 2"
    )
    (tmp_path / "draws.toml").write_text(text)
    material = gather(run(tmp_path / "draws.toml", tmp_path / "study").path, permutations=20)
    (part,) = payload(material)["parts"]
    assert len(part["forks"]) == 8
    for fork in part["forks"]:
        assert len(fork["draws"]) == 3
        assert fork["r_update"] == pytest.approx(sum(fork["draws"]) / 3, rel=1e-4)
    assert record(material).draws == 3
    assert record(material).deviations == []
