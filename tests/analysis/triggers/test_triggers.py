"""Triggers on worlds with known answers, and how their answers become readings."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
from deployments import CELLS, FORKS, SEGMENT, deployment

from worldfork import registry
from worldfork.analysis.read.prefork import Prefork, StreamLog
from worldfork.analysis.read.triggers import (
    ENROLLED,
    Alarms,
    Signal,
    Unavailable,
    read_triggers,
    read_triggers_together,
    segments,
)
from worldfork.built_in import BUILT_IN
from worldfork.errors import WorldforkError
from worldfork.randomness import Event, Purpose, fold_in, generator, normals, seed, words
from worldfork.triggers import Asked, Segment, Trigger, draw_event, feed
from worldfork.triggers.adwin import Adwin
from worldfork.triggers.kswin import Kswin
from worldfork.triggers.page_hinkley import PageHinkley


def prefork_of(**changes) -> Prefork:
    """The deployments of the contract as forks, with a signal of someone's own."""
    fed = [deployment(cell, **changes) for cell in range(len(CELLS))]
    k = np.tile(np.arange(1, FORKS + 1), len(CELLS))
    return Prefork(
        task="t",
        cells=CELLS,
        cell=np.repeat(np.arange(len(CELLS)), FORKS),
        k=k,
        level=k / FORKS,
        signals={"mine": np.array([segment.signals["residual"] for cell in fed for segment in cell])},
        step=k * SEGMENT,
        streams=tuple(
            StreamLog({name: np.concatenate([s.steps[name] for s in cell]) for name in ("error", "kl", "reward")})
            for cell in fed
        ),
    )


@pytest.fixture(scope="module")
def world():
    return prefork_of()


@pytest.fixture(scope="module")
def readings(world):
    return read_triggers(world)


def with_errors(world, change):
    """The same world with other errors in every stream."""
    streams = tuple(
        StreamLog({**log.columns, "error": change(log.columns["error"].copy())}) for log in world.streams
    )
    return dataclasses.replace(world, streams=streams)


def test_segments_are_what_was_logged_since_the_last_decision_point(world):
    for index, span in world.spans():
        for segment, expected in zip(segments(world, index, span), deployment(index), strict=True):
            assert (segment.k, segment.level) == (expected.k, expected.level)
            for name in ("error", "kl", "reward"):
                np.testing.assert_array_equal(segment.steps[name], expected.steps[name])
                assert segment.steps[name].base is None, "a view would give the whole stream away"
                with pytest.raises(ValueError, match="read-only"):
                    segment.steps[name][0] = 0.0


def test_schedules_and_oracles_by_hand(world, readings):
    assert readings["periodic"].fired.tolist() == (world.k % 4 == 0).tolist()
    np.testing.assert_array_equal(readings["clock"].values, world.k)
    np.testing.assert_array_equal(readings["drift"].values, world.level)
    coin = readings["random"].values
    assert len(set(coin)) == len(coin)
    assert not np.array_equal(coin, read_triggers(world, names=["random"], seed=1)["random"].values)


@pytest.mark.parametrize("name", ["adwin", "page_hinkley", "kswin", "conformal"])
def test_detectors_find_the_jump(name, readings):
    """Ten standard deviations after the third segment: an alarm in the fourth, in every cell."""
    assert readings[name].fired.reshape(len(CELLS), FORKS)[:, 3].all()


@pytest.mark.parametrize("name", ["adwin", "page_hinkley", "conformal"])
def test_detectors_are_quiet_without_one(name):
    fired = read_triggers(prefork_of(seed=3, jump=0.0), names=[name])[name].fired
    assert fired.mean() < 0.1


@pytest.mark.parametrize("kind", ["still", "drifting", "tied"])
def test_kswin_alarms_where_rivers_does(kind):
    """It compares distances where river computes a p-value, and draws the samples that river draws."""
    from river import drift

    event = Event(purpose=Purpose.RESAMPLING, seed=4)
    errors = np.random.default_rng(1).lognormal(0, 0.6, 900) * np.linspace(1, 1 if kind == "still" else 9, 900)
    errors = np.round(errors) if kind == "tied" else errors
    river = drift.KSWIN(seed=seed(event))
    expected = [bool(river.update(error) or river.drift_detected) for error in errors.tolist()]
    steps = [Segment(k, 0.0, {"error": errors[k - 1 : k]}, {}) for k in range(1, len(errors) + 1)]
    assert any(expected)
    assert feed(Kswin(), steps, cell=CELLS[0], event=event) == expected


def test_the_coin_draws_from_the_cell_and_k_alone():
    """Whatever other deployments are fed beside one, wherever it begins and whichever forks it lost."""
    coin = registry.build("triggers", "random", Trigger)
    visited = [range(1, 70), range(30, 35), [2, 40, 41], []]
    deployments = [[Segment(k, 0.0, {}, {}) for k in ks] for ks in visited]
    events = [Event(purpose=Purpose.RESAMPLING, stream_seed=index) for index in range(len(visited))]
    expected = [
        [float(normals(fold_in(words(event), k), 1, Purpose.RESAMPLING)[0]) for k in ks]
        for event, ks in zip(events, visited, strict=True)
    ]
    alone = [feed(coin, fed, cell=CELLS[0], event=event) for fed, event in zip(deployments, events, strict=True)]
    assert alone == expected


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize(
    "settings", [{}, {"window": 40, "recent": 5, "alpha": 0.02}, {"window": 130, "recent": 40}]
)
def test_kswin_tests_many_windows_at_once_as_it_does_one_by_one(settings, pieces):
    """Also with samples that Python draws otherwise: few of many, and of a longer window."""
    from river import drift

    event = Event(purpose=Purpose.RESAMPLING, seed=11)
    errors = np.random.default_rng(2).lognormal(0, 0.6, 1400) * np.repeat([1, 3, 1, 5, 1, 2, 6], 200)
    names = {"window": "window_size", "recent": "stat_size", "alpha": "alpha"}
    river = drift.KSWIN(seed=seed(event), **{names[name]: value for name, value in settings.items()})
    alarms = [bool(river.update(error) or river.drift_detected) for error in errors.tolist()]
    parts = np.array_split(np.arange(len(errors)), pieces)
    steps = [Segment(k, 0.0, {"error": errors[part]}, {}) for k, part in enumerate(parts, start=1)]
    expected = [any(alarms[index] for index in part) for part in parts]
    assert any(expected)
    assert feed(Kswin(**settings), steps, cell=CELLS[0], event=event) == expected


@pytest.mark.parametrize("delta", [0.002, 0.3])
@pytest.mark.parametrize("pieces", [1, 7, 2400])
def test_adwin_alarms_where_rivers_does(delta, pieces):
    """Whatever the errors come in, with several alarms: a fresh window begins after each."""
    from river import drift

    draws = np.random.default_rng(6)
    steady, rising, tied = draws.gamma(4, 0.05, 800), np.linspace(0, 3, 800), np.round(draws.lognormal(size=800), 1)
    errors = np.r_[steady + np.repeat([0.0, 0.4, 0.1, 0.1], 200), rising + steady, tied]
    river = drift.ADWIN(delta=delta)
    alarms = [bool(river.update(error) or river.drift_detected) for error in errors.tolist()]
    assert sum(alarms) > 5
    parts = np.array_split(np.arange(len(errors)), pieces)
    steps = [Segment(k, 0.0, {"error": errors[part]}, {}) for k, part in enumerate(parts, start=1)]
    event = Event(purpose=Purpose.RESAMPLING, seed=4)
    expected = [any(alarms[index] for index in part) for part in parts]
    assert feed(Adwin(delta=delta), steps, cell=CELLS[0], event=event) == expected


@pytest.mark.parametrize("scale", [1.0, 0.2])
def test_page_hinkley_alarms_where_rivers_does(scale):
    """On errors that are measured already: the first segment has mean 0 and standard deviation 1."""
    from river import drift

    draws = np.random.default_rng(3)
    first = draws.normal(size=50)
    later = draws.normal(0, scale, 900) + np.repeat([0.0, 2.0, 0.0], 300)
    errors = np.r_[(first - first.mean()) / first.std(), later]
    river = drift.PageHinkley(mode="up")
    expected = [bool(river.update(error) or river.drift_detected) for error in errors.tolist()]
    steps = [Segment(1, 0.0, {"error": errors[:50]}, {})]
    steps += [Segment(k, 0.0, {"error": errors[k - 1 : k]}, {}) for k in range(51, len(errors) + 1)]
    event = Event(purpose=Purpose.RESAMPLING, seed=4)
    assert any(expected)
    assert feed(PageHinkley(), steps, cell=CELLS[0], event=event) == [any(expected[:50]), *expected[50:]]


def test_the_conformal_martingale_by_hand():
    """Ranks counted among all errors since the last alarm, capital moved as the Simple Jumper does."""
    event = Event(purpose=Purpose.RESAMPLING, seed=9)
    errors = np.round(np.random.default_rng(5).exponential(1.0, 300) + np.repeat([0.0, 4.0, 0.0], 100), 1)
    ties = generator(event).random(len(errors))
    seen, capital, expected = [], np.full(3, 1 / 3), []
    for error, tie in zip(errors, ties, strict=True):
        seen.append(error)
        larger, equal = sum(one > error for one in seen), sum(one == error for one in seen)
        p = (larger + tie * equal) / len(seen)
        capital = (0.99 * capital + 0.01 * capital.sum() / 3) * (1 + np.array([-1, 0, 1]) * (p - 0.5))
        expected.append(bool(capital.sum() >= 100))
        if expected[-1]:
            seen, capital = [], np.full(3, 1 / 3)
    assert any(expected)
    steps = [Segment(k, 0.0, {"error": part}, {}) for k, part in enumerate(np.split(errors, 6), start=1)]
    alarms = feed(registry.build("triggers", "conformal", Trigger), steps, cell=CELLS[0], event=event)
    assert alarms == [any(expected[start : start + 50]) for start in range(0, 300, 50)]


def test_the_conformal_martingale_keeps_its_guarantee():
    """Exchangeable errors: the capital ever reaches 100 in at most one stream in a hundred, whatever their law."""
    martingale = registry.build("triggers", "conformal", Trigger)
    draws = np.random.default_rng(0)
    alarmed = [
        any(
            feed(
                martingale,
                [Segment(1, 0.0, {"error": draws.pareto(1.5, 400)}, {})],
                cell=CELLS[0],
                event=Event(purpose=Purpose.RESAMPLING, seed=stream),
            )
        )
        for stream in range(300)
    ]
    assert np.mean(alarmed) <= 0.02


def test_missing_errors_do_not_let_a_later_segment_decide():
    """Most of the first segment's errors are missing, and the second segment is a hundred times as wide. By the
    first alone, its last errors are an alarm at k = 1; what comes afterwards has no say in that."""
    draws = np.random.default_rng(0)
    first = np.r_[np.full(150, np.nan), draws.normal(1.0, 0.01, 50), np.full(50, 3.0)]
    k = np.array([1, 2])
    whole = Prefork(
        task="t",
        cells=CELLS[:1],
        cell=np.zeros(2, np.int64),
        k=k,
        level=k / 2,
        signals={},
        step=250 * k,
        streams=(StreamLog({"error": np.r_[first, draws.normal(1.0, 100.0, 250)]}),),
    )
    first_alone = dataclasses.replace(whole.take(k == 1), streams=(StreamLog({"error": first}),))
    for name in ("adwin", "page_hinkley", "kswin", "conformal"):
        with_future, without = (read_triggers(one, names=[name])[name].fired for one in (whole, first_alone))
        assert with_future[0] == without[0], name
    assert read_triggers(whole, names=["page_hinkley"])["page_hinkley"].fired[0]


def test_errors_that_are_not_finite_are_not_shown(world):
    def all_missing_at_first(errors):
        errors[:SEGMENT] = np.inf
        return errors

    found = read_triggers(with_errors(world, all_missing_at_first))
    for name in ("adwin", "page_hinkley", "kswin", "conformal"):
        assert not found[name].fired[world.k == 1].any()
        assert found[name].fired[world.k == 4].all()


def test_a_recorded_signal_is_the_trigger_of_its_name(world):
    recorded = np.arange(len(world), dtype=float)
    found = read_triggers(dataclasses.replace(world, signals={"residual": recorded, "adwin": -recorded}))
    np.testing.assert_array_equal(found["residual"].values, recorded)
    np.testing.assert_array_equal(found["adwin"].values, -recorded)
    assert next(iter(found)) == "residual"
    assert list(found)[-4:] == ["drift", "periodic", "clock", "random"], "yardsticks come last"


def test_without_a_stream_triggers_say_what_they_need(world):
    bare = dataclasses.replace(
        world, streams=(), signals={"empty": np.full(len(world), np.nan)}, level=np.full(len(world), np.nan)
    )
    found = read_triggers(bare)
    missing = {name: reading.why for name, reading in found.items() if isinstance(reading, Unavailable)}
    assert set(found) - set(missing) == {"periodic", "clock", "random"}
    assert "every value" in missing["empty"]
    assert "which a flat table has not" in missing["adwin"]
    assert "`level`" in missing["drift"]


class Median(Trigger):
    """Median KL of the segment, times a setting."""

    needs: ClassVar = ("kl",)
    factor: float = 1.0

    def begin(self, cell, *, event):
        return None

    def decide(self, memory, segment):
        return memory, self.factor * float(np.median(segment.steps["kl"]))


class Says(Trigger):
    """Answers what it was told to."""

    answer: str = "None"

    def begin(self, cell, *, event):
        return None

    def decide(self, memory, segment):
        return memory, {"None": None, "inf": np.inf, "mixed": segment.k == 1 or 0.5}[self.answer]


def test_a_trigger_can_be_given_itself(world):
    found = read_triggers(world, names=["clock", Median(), Median(factor=-2.0)])
    assert list(found) == ["clock", "Median", "Median(factor=-2.0)"]
    expected = [np.median(segment.steps["kl"]) for cell in range(len(CELLS)) for segment in deployment(cell)]
    np.testing.assert_array_equal(found["Median"].values, expected)
    np.testing.assert_array_equal(found["Median(factor=-2.0)"].values, -2.0 * np.array(expected))


def test_a_column_that_was_not_logged_is_named(world):
    bare = dataclasses.replace(
        world, streams=tuple(StreamLog({"error": log.columns["error"]}) for log in world.streams)
    )
    assert read_triggers(bare, names=[Median()])["Median"].why == (
        "needs `kl` at every step of the stream, which has error"
    )


def test_answers_that_are_no_answers(world):
    assert "nothing to say" in read_triggers(world, names=[Says()])["Says"].why
    for answer in ("inf", "mixed"):
        with pytest.raises(WorldforkError, match="Expected finite numbers at every fork, or True and False"):
            read_triggers(world, names=[Says(answer=answer)])


class Absent(Trigger):
    """Reads what is not logged, and does not say so in `needs`."""

    def begin(self, cell, *, event):
        return None

    def decide(self, memory, segment):
        return memory, float(segment.steps["eror"].mean())


def test_a_trigger_that_fails_is_named(world):
    with pytest.raises(WorldforkError, match=r"The trigger Absent fails: KeyError: 'eror'\. .*check_trigger"):
        read_triggers(world, names=[Absent()])


def test_no_two_triggers_draw_from_one_key():
    names = ("random", "kswin", "conformal", "a", "b")
    assert len({draw_event(name, task="t", cell=CELLS[0], seed=0) for name in names}) == len(names)


@pytest.mark.parametrize("name", sorted(BUILT_IN["triggers"]))
def test_what_is_said_to_draw_nothing_answers_the_same_whatever_it_could_draw(name):
    trigger = registry.build("triggers", name, Trigger)
    assert (Asked.of(name, trigger, seed=7).seed == 7) == (name in ("random", "kswin", "conformal"))
    if Asked.of(name, trigger, seed=7).seed is None:
        events = [draw_event(name, task="t", cell=CELLS[0], seed=seed) for seed in range(20)]
        answers = [feed(trigger, deployment(0), cell=CELLS[0], event=event) for event in events]
        assert all(other == answers[0] for other in answers)


def test_a_stream_shared_by_arms_is_read_once(world, monkeypatch):
    asked = []
    monkeypatch.setattr(Median, "decide", lambda self, memory, segment: (memory, asked.append(segment.k) or 1.0))
    arms = read_triggers_together([world] * 3, names=[Median(factor=7.0)])
    assert all(isinstance(readings["Median(factor=7.0)"], Signal) for readings in arms)
    assert len(asked) == len(world)


def test_tables_read_together_are_read_as_each_alone(world):
    """One has other streams, one lacks a fork, one a column that detectors need, and one recorded a signal that is
    called as a detector is."""
    tables = [
        world,
        prefork_of(seed=4),
        world.take(world.k != 3),
        dataclasses.replace(world, streams=tuple(StreamLog({"kl": log.columns["kl"]}) for log in world.streams)),
        dataclasses.replace(world, signals={"adwin": world.level}),
    ]
    together = read_triggers_together(tables, seed=2)
    assert isinstance(together[3]["kswin"], Unavailable)
    for table, read in zip(tables, together, strict=True):
        alone = read_triggers(table, seed=2)
        assert list(read) == list(alone)
        for name, reading in alone.items():
            np.testing.assert_equal(dataclasses.asdict(read[name]), dataclasses.asdict(reading))


def test_an_unknown_name_is_answered_with_the_known_ones(world):
    with pytest.raises(WorldforkError, match=r"`surprise`; known here: adwin.*mine.*random.*`module:attribute`"):
        read_triggers(world, names=["surprise"])


def test_readings_agree_with_what_the_contract_feeds(world, readings):
    for name in ENROLLED:
        trigger = registry.build("triggers", name, Trigger)
        if trigger.predicts:
            assert name not in readings  # what learns is read where it is named
            continue
        reading = readings[name]
        values = reading.fired if isinstance(reading, Alarms) else reading.values
        for cell, key in enumerate(CELLS):
            event = draw_event(name, task="t", cell=key, seed=0)
            answers = feed(trigger, deployment(cell), cell=key, event=event)
            assert values[world.cell == cell].tolist() == answers


def test_a_trigger_that_the_registry_offers_is_read_where_a_registration_names_it(monkeypatch):
    """An offer alone enrols nothing: published scores do not change when worldfork gains a trigger."""
    monkeypatch.setitem(BUILT_IN["triggers"], "cusum", BUILT_IN["triggers"]["clock"])
    world = prefork_of()
    assert "cusum" not in read_triggers(world)
    assert isinstance(read_triggers(world, candidates=("cusum",))["cusum"], Signal)
