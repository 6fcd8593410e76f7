"""Draws are functions of events: known answers, equality with JAX, independence of order, and no reuse."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from worldfork import randomness
from worldfork.errors import WorldforkError
from worldfork.randomness import Event, KeyReuseError, Purpose

COUNTER = st.integers(0, 2**32 - 1)


def test_threefry_known_answers():
    """The reference vectors of the Random123 distribution (kat_vectors, threefry2x32 with 20 rounds)."""
    cases = [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]
    for key, counter, expected in cases:
        arrays = [np.array([value], np.uint32) for value in (*key, *counter)]
        assert tuple(int(out[0]) for out in randomness._threefry(*arrays)) == expected


@given(COUNTER, COUNTER, COUNTER)
def test_fold_in_equals_jax(first, second, counter):
    key = np.array([first, second], np.uint32)
    theirs = jax.random.key_data(jax.random.fold_in(jax.random.wrap_key_data(key), np.uint32(counter)))
    np.testing.assert_array_equal(randomness.fold_in(key, counter), theirs)


@given(st.lists(COUNTER, min_size=1, max_size=9), st.randoms())
def test_a_key_does_not_depend_on_its_place_in_the_batch(counters, shuffler):
    key = randomness.words(Event(purpose=Purpose.PLANNING))
    order = list(range(len(counters)))
    shuffler.shuffle(order)
    batch = randomness.fold_in(key, np.array(counters))
    np.testing.assert_array_equal(batch[order], randomness.fold_in(key, np.array(counters)[order]))
    draws = randomness.normals(batch, 5, Purpose.PLANNING)
    for row, counter in zip(draws, counters, strict=True):
        alone = randomness.normals(randomness.fold_in(key, counter), 5, Purpose.PLANNING)
        np.testing.assert_array_equal(row, alone)


def test_every_field_of_an_event_matters():
    base = Event(purpose=Purpose.PLANNING)
    others = [
        dataclasses.replace(base, **{field.name: value})
        for field in dataclasses.fields(Event)
        for value in ([Purpose.ACTION_NOISE] if field.name == "purpose" else ["x"] if field.type is str else [1])
    ]
    keys = {tuple(randomness.words(event)) for event in [base, *others]}
    assert len(keys) == len(dataclasses.fields(Event)) + 1


def test_what_may_never_be_part_of_a_key():
    """protocol.md: arms that differ only in these share their draws."""
    never = {"branch", "mechanism", "dose", "window", "evaluation", "sigma_a", "schedule"}
    assert never.isdisjoint(field.name for field in dataclasses.fields(Event))
    with pytest.raises(TypeError):
        Event(purpose=Purpose.PLANNING, branch="update")


def test_text_fields_can_not_be_confused():
    one = Event(purpose=Purpose.PLANNING, task="a", checkpoint="b;4:x=y")
    two = Event(purpose=Purpose.PLANNING, task="a;12:checkpoint=b", checkpoint="")
    assert tuple(randomness.words(one)) != tuple(randomness.words(two))


def test_draws_do_not_depend_on_what_was_drawn_before():
    event = Event(purpose=Purpose.ACTION_NOISE, episode=3)
    first = randomness.generator(event).standard_normal((4, 2))
    randomness.generator(event.at(episode=4)).standard_normal(100)
    np.testing.assert_array_equal(first, randomness.generator(event).standard_normal((4, 2)))
    # A longer draw begins with the shorter one: step t of an episode is row t whatever the horizon.
    np.testing.assert_array_equal(first, randomness.generator(event).standard_normal((9, 2))[:4])


def test_normals_are_standard_normal():
    keys = randomness.fold_in(randomness.words(Event(purpose=Purpose.PROCESS_NOISE)), np.arange(20_000))
    draws = randomness.normals(keys, 3, Purpose.PROCESS_NOISE)
    assert np.isfinite(draws).all()
    assert stats.kstest(draws.ravel(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(draws.T) - np.eye(3)).max() < 0.03


def test_seed_is_an_unsigned_32_bit_integer():
    assert 0 <= randomness.seed(Event(purpose=Purpose.INITIAL_STATE)) < 2**32


def test_a_key_used_for_two_purposes_is_an_error():
    event = Event(purpose=Purpose.ACTION_NOISE)
    randomness.generator(event)
    randomness.generator(event)  # the other branch: same purpose, same draws
    with pytest.raises(KeyReuseError, match=r"action-noise.*planning"):
        randomness.consume(randomness.words(event), Purpose.PLANNING)


def test_a_counter_out_of_range_is_refused():
    with pytest.raises(WorldforkError, match=r"\[0, 2\*\*32\)"):
        randomness.words(Event(purpose=Purpose.PLANNING, step=-1))
