"""Holm over what was registered, whatever happens to be computed."""

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldfork.analysis.read.triggers import is_reference
from worldfork.analysis.score import score_ledger
from worldfork.analysis.score.rules import Family
from worldfork.analysis.score.undefined import Undefined
from worldfork.analysis.score.verdicts import adjust, holm
from worldfork.built_in import BUILT_IN
from worldfork.registration.schema import CANDIDATES

P = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1), min_size=1)


@given(P)
def test_holm_is_the_closed_test_of_bonferroni(values):
    """A hypothesis is rejected at level a exactly where every set of hypotheses that contains it is, by the
    smallest p of the set times its size: the adjusted p is the largest of these."""
    found = holm(values)
    for name in values:
        others = [key for key in values if key != name]
        sets = itertools.chain.from_iterable(
            itertools.combinations(others, size) for size in range(len(others) + 1)
        )
        worst = max(min((len(some) + 1) * min(values[key] for key in (name, *some)), 1.0) for some in sets)
        assert found[name] == pytest.approx(worst)


def test_holm_by_hand():
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.5})
    assert adjusted == pytest.approx({"a": 0.04, "b": 0.09, "c": 0.09, "d": 0.5})
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


@given(P, st.data())
def test_computing_less_never_makes_a_test_easier(values, data):
    some = data.draw(st.sets(st.sampled_from(sorted(values)), min_size=1))
    whole = adjust(values, values)
    part = adjust({name: values[name] for name in some}, values)
    assert all(part[name] >= whole[name] - 1e-12 for name in some)


@given(P, st.floats(0, 1))
def test_what_is_exploratory_changes_no_registered_test(values, p):
    with_it = adjust({**values, "later": p}, values)
    assert {name: with_it[name] for name in values} == adjust(values, values)
    assert with_it["later"] >= p


def test_an_undefined_member_counts_and_stays_undefined():
    why = Undefined("it never fires")
    found = adjust({"a": 0.02, "b": why}, ("a", "b", "c"))
    assert found == {"a": pytest.approx(0.06), "b": why}


@pytest.mark.parametrize("candidates", [1, 3, 10])
def test_permutations_needed_are_the_fewest_that_can_pass(candidates):
    """The smallest p of all, among p values of 1, at the strictest step."""
    names = tuple(map(str, range(candidates)))
    family = Family(candidates=names, tasks_of_arms=(("", "a"), ("", "b")), registered=True)
    needed = family.permutations_needed
    assert adjust({("", "a", "0"): 1 / (1 + needed)}, family.triggers)["", "a", "0"] < 0.05
    assert adjust({("", "a", "0"): 1 / needed}, family.triggers)["", "a", "0"] >= 0.05 - 1e-12


def test_too_few_permutations_are_warned_of():
    """Four candidates on one task: 80 permutations can pass, 79 can not, and the score says so."""
    table = pl.DataFrame(
        {
            "checkpoint": np.repeat([0, 1, 2], 6),
            "k": np.tile(np.arange(1, 7), 3),
            "r_hold": 100.0,
            "r_update": 100.0 + np.arange(18.0),
            **{f"signal_{name}": np.arange(18.0) for name in "abcd"},
        }
    )
    enough, few = (score_ledger(table, permutations=count) for count in (80, 79))
    assert len(enough.family.triggers) == 4
    assert enough.warnings == ()
    assert "It takes 80" in few.warnings[0]
    assert few.to_json()["warnings"] == list(few.warnings)


def test_the_family_is_candidates_by_tasks_by_arms():
    pairs = (("gentle", "walker"), ("gentle", "cheetah"), ("full", "walker"))
    family = Family(candidates=("residual", "kl"), tasks_of_arms=pairs, registered=True)
    assert len(family.triggers) == 6
    assert ("full", "cheetah", "kl") not in family.triggers
    assert family.means == set(pairs)
    assert family.standing("running_variance") == "exploratory"
    assert family.standing("kl") == "candidate"


def test_scoring_one_trigger_alone_does_not_change_its_answer():
    """Cheetah at the gentle rate: .0145 fails among ten candidates and three tasks, and must fail alone."""
    family = Family(candidates=CANDIDATES, tasks_of_arms=(("gentle", "cheetah"),), registered=True)
    member = ("gentle", "cheetah", "running_variance")
    assert adjust({member: 0.0145}, family.triggers)[member] == pytest.approx(0.145)


def test_the_default_candidates_are_the_catalogues_of_the_day_they_were_frozen():
    known = [*BUILT_IN["triggers"], *BUILT_IN["signals"]]
    assert set(CANDIDATES) <= {name for name in known if not is_reference(name)}
