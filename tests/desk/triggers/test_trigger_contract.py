"""What every trigger in the catalogue must keep: it reads the past alone, and no outcome."""

import dataclasses
import inspect

import numpy as np
import pytest

from worldfork.desk.reading.prefork import CellKey, Prefork, Stream
from worldfork.desk.triggers import CATALOGUE, Alarms, Signal, Unavailable, read_triggers
from worldfork.errors import WorldforkError

SEGMENT, FORKS = 120, 6


def deployment(seed=0, *, jump=1.0) -> Prefork:
    """Three cells whose error jumps after the third segment; everything a trigger can ask for is there."""
    draws = np.random.default_rng(seed)
    cells = tuple(CellKey(str(index), direction, 0) for index in (0, 1) for direction in ("away", "toward"))[:3]
    steps = SEGMENT * FORKS
    streams = tuple(
        Stream(
            error=draws.gamma(4, 0.05, steps) + jump * (np.arange(steps) >= SEGMENT * 3),
            kl=draws.gamma(2, 1.0, steps),
        )
        for _ in cells
    )
    k = np.tile(np.arange(1, FORKS + 1), len(cells))
    return Prefork(
        task="t",
        cells=cells,
        cell=np.repeat(np.arange(len(cells)), FORKS),
        k=k,
        level=k / FORKS,
        signals={name: draws.normal(size=len(k)) for name in ("validation_loss", "return_deficit", "mine")},
        step=k * SEGMENT,
        streams=streams,
    )


def plain(reading):
    assert not isinstance(reading, Unavailable), reading
    return reading.values if isinstance(reading, Signal) else reading.fired


@pytest.fixture(scope="module")
def world():
    return deployment()


@pytest.fixture(scope="module")
def readings(world):
    return read_triggers(world)


@pytest.mark.parametrize("name", [*CATALOGUE, "mine"])
def test_truncating_the_future_changes_nothing(name, world, readings):
    for k in (1, 3, FORKS - 1):
        known = read_triggers(world.until(k), names=[name])[name]
        np.testing.assert_array_equal(plain(known), plain(readings[name])[world.k <= k])


@pytest.mark.parametrize("name", [*CATALOGUE, "mine"])
def test_another_future_changes_nothing(name, world, readings):
    """Not only shorter: the same past with quite another continuation."""
    k = 3
    other = deployment(seed=9, jump=-5.0)
    streams = tuple(
        Stream(
            *(
                np.r_[getattr(past, part)[: SEGMENT * k], getattr(new, part)[SEGMENT * k :]]
                for part in ("error", "kl")
            )
        )
        for past, new in zip(world.streams, other.streams, strict=True)
    )
    known = world.k <= k
    mixed = dataclasses.replace(
        world,
        streams=streams,
        level=np.where(known, world.level, other.level * 7),
        signals={name: np.where(known, values, -values) for name, values in world.signals.items()},
    )
    found = plain(read_triggers(mixed, names=[name])[name])
    np.testing.assert_array_equal(found[known], plain(readings[name])[known])


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_trigger_has_nowhere_to_read_an_outcome(name):
    """Scrambling outcomes can change no decision: `read` takes what preceded the forks and a seed, and the record
    of what preceded has no field for a return. (That outcomes change no decision of a whole score is tested there;
    that no import reaches them, by the import contract.)"""
    assert list(inspect.signature(CATALOGUE[name].read).parameters) == ["prefork", "seed"]
    fields = {field.name for field in dataclasses.fields(Prefork)} | {
        field.name for field in dataclasses.fields(Stream)
    }
    assert fields.isdisjoint({"r_hold", "r_update", "hold", "update", "delta", "outcomes", "reward"})


@pytest.mark.parametrize("name", CATALOGUE)
def test_readings_are_reproducible_and_one_per_fork(name, world, readings):
    again = read_triggers(world, names=[name])[name]
    np.testing.assert_array_equal(plain(again), plain(readings[name]))
    assert len(plain(again)) == len(world)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_cell_is_read_alone(name, world, readings):
    """What happens in one deployment says nothing about another."""
    mine = world.cell == 1
    alone = dataclasses.replace(
        world.take(mine), cells=world.cells[1:2], cell=np.zeros(FORKS, np.int64), streams=world.streams[1:2]
    )
    np.testing.assert_array_equal(plain(read_triggers(alone, names=[name])[name]), plain(readings[name])[mine])


def test_statistics_of_the_segment_by_hand(world, readings):
    segment = world.streams[1].error[SEGMENT * 2 : SEGMENT * 3]
    fork = FORKS + 2  # cell 1, k = 3
    assert readings["residual"].values[fork] == pytest.approx(segment.mean())
    assert readings["running_variance"].values[fork] == pytest.approx(segment.var(ddof=1))
    assert readings["percentile"].values[fork] == pytest.approx(np.percentile(segment, 95))
    assert readings["kl"].values[fork] == pytest.approx(world.streams[1].kl[SEGMENT * 2 : SEGMENT * 3].mean())


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
    fired = readings[name].fired.reshape(3, FORKS)
    assert fired[:, 3].all()


@pytest.mark.parametrize("name", ["adwin", "page_hinkley", "conformal"])
def test_detectors_are_quiet_without_one(name):
    fired = read_triggers(deployment(3, jump=0.0), names=[name])[name].fired
    assert fired.mean() < 0.1


@pytest.mark.parametrize("kind", ["still", "drifting", "tied"])
def test_kswin_alarms_where_rivers_does(kind):
    """It spares river the steps where its test can not reject, and none else."""
    from river import drift

    from worldfork.desk.triggers.kswin import Kswin
    from worldfork.randomness import Event, Purpose, seed

    event = Event(purpose=Purpose.RESAMPLING, seed=4)
    errors = np.random.default_rng(1).lognormal(0, 0.6, 900) * np.linspace(1, 1 if kind == "still" else 9, 900)
    errors = np.round(errors) if kind == "tied" else errors
    plain = drift.KSWIN(seed=seed(event.at(iteration=1)))
    expected = [bool(plain.update(error) or plain.drift_detected) for error in errors.tolist()]
    assert any(expected)
    assert Kswin().alarms(errors, segment=100, event=event).tolist() == expected


def test_the_conformal_martingale_keeps_its_guarantee():
    """Exchangeable errors: the capital ever reaches 100 in at most one stream in a hundred, whatever their law."""
    from worldfork.desk.triggers.conformal import ConformalMartingale
    from worldfork.randomness import Event, Purpose

    draws = np.random.default_rng(0)
    alarmed = [
        ConformalMartingale()
        .alarms(draws.pareto(1.5, 400), segment=100, event=Event(purpose=Purpose.RESAMPLING, seed=stream))
        .any()
        for stream in range(300)
    ]
    assert np.mean(alarmed) <= 0.02


def test_a_recorded_signal_is_the_trigger_of_its_name(world):
    recorded = np.arange(len(world), dtype=float)
    found = read_triggers(dataclasses.replace(world, signals={"residual": recorded, "adwin": -recorded}))
    np.testing.assert_array_equal(found["residual"].values, recorded)
    np.testing.assert_array_equal(found["adwin"].values, -recorded)


def test_without_a_stream_families_say_what_they_need(world):
    bare = dataclasses.replace(
        world, streams=(), signals={"empty": np.full(len(world), np.nan)}, level=np.full(len(world), np.nan)
    )
    found = read_triggers(bare)
    missing = {name: reading.why for name, reading in found.items() if isinstance(reading, Unavailable)}
    assert set(found) - set(missing) == {"periodic", "clock", "random"}
    assert "every value" in missing["empty"]
    assert "clean return" in missing["return_deficit"]


def test_errors_that_are_not_finite_are_no_alarm(world):
    streams = tuple(Stream(np.where(np.arange(len(s.error)) == 50, np.nan, s.error), s.kl) for s in world.streams)
    found = read_triggers(dataclasses.replace(world, streams=streams), names=["residual", "adwin", "conformal"])
    assert np.isnan(found["residual"].values[0])
    assert isinstance(found["adwin"], Alarms)
    assert not found["conformal"].fired[0]


def test_an_unknown_name_is_answered_with_the_known_ones(world):
    with pytest.raises(WorldforkError, match=r"`surprise`; known here: residual.*mine"):
        read_triggers(world, names=["surprise"])
