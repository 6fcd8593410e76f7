"""Whole ledgers scored: which arms, which pairs, whose rules, and triggers that are given as objects."""

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from worlds import study

from worldfork.analysis.read.ledger import open_ledger
from worldfork.analysis.score import Rules, score_ledger
from worldfork.analysis.score.arms import choose_arms
from worldfork.analysis.score.rules import rules_of
from worldfork.analysis.score.scoring import only_arm
from worldfork.errors import WorldforkError
from worldfork.triggers import Trigger

QUICK = {"permutations": 30, "triggers": ("residual",)}


def arms(*names):
    return pl.concat([study(index, k=4).with_columns(arm=pl.lit(name)) for index, name in enumerate(names)])


def test_every_later_arm_is_compared_with_the_first():
    score = score_ledger(arms("a", "b", "c"), **QUICK)
    assert list(score.arms) == ["a", "b", "c"]
    assert list(score.contrasts) == ["b - a", "c - a"]
    assert score.rules == Rules(**QUICK)


def test_arms_and_pairs_are_chosen_by_name():
    table = open_ledger(arms("a", "b", "c"))
    assert list(score_ledger(table, arm="b", **QUICK).arms) == ["b"]
    chosen, pairs = choose_arms(table.table.arms, arm="c", contrast="b, a")
    assert (list(chosen), pairs) == (["c", "b", "a"], [("b", "a")])
    assert choose_arms(table.table.arms, contrast=("c", "b"))[1] == [("c", "b")]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"arm": "z"}, "no arm `z`; the ledger has a, b"),
        ({"contrast": "a"}, "two arms, FIRST,SECOND; got `a`"),
        ({"contrast": ("a", "z")}, "no arm `z`"),
        ({"rates": 0.3}, "no rule `rates`; there are divergence, rate"),
        ({"rate": 3.0}, "between 0 and 1"),
        ({"triggers": [Trigger]}, r"the class Trigger itself: give an instance, Trigger\(\), or its name"),
        ({"triggers": Trigger}, "the class Trigger itself"),
        ({"triggers": 3}, "names, or objects that derive from Trigger; got 3"),
        ({"triggers": ("residual", 3)}, "names, or objects that derive from Trigger; one is 3"),
    ],
)
def test_a_choice_that_can_not_be_made(choice, message):
    with pytest.raises(WorldforkError, match=message):
        score_ledger(arms("a", "b"), **choice)


def test_a_text_holds_one_trigger_or_several():
    ledger = open_ledger(arms("a"))
    assert rules_of(ledger, triggers="residual").triggers == ("residual",)
    assert rules_of(ledger, triggers="residual, noise").triggers == ("residual", "noise")
    assert rules_of(ledger, triggers=None).triggers is None


def test_a_score_shows_itself_in_one_line():
    score = score_ledger(arms("a", "b"), **QUICK)
    verdicts = [score[arm, "world"].verdict for arm in ("a", "b")]
    counted = (
        f"2 {verdicts[0]}" if verdicts[0] == verdicts[1] else ", ".join(f"1 {verdict}" for verdict in verdicts)
    )
    forks = sum(score[arm, "world"].forks.attempted for arm in ("a", "b"))
    assert repr(score) == f"Score(table: 2 arms, {forks} forks; {counted})"
    assert repr(score_ledger(arms("a"), **QUICK)) == f"Score(table: 1 arm, {forks // 2} forks; {verdicts[0]})"


def test_a_replication_has_one_arm():
    assert list(only_arm(arms("a"))) == ["world"]
    with pytest.raises(WorldforkError, match="A replication has one arm; `table` has a, b"):
        only_arm(arms("a", "b"))


def test_a_flat_table_has_the_papers_rules():
    assert rules_of(open_ledger(arms("a"))) == Rules()


def test_progress_counts_forks_up_to_all_of_them():
    told = []
    score_ledger(arms("a", "b"), progress=lambda *step: told.append(step), **QUICK)
    assert told[0] == ("scoring", 0, 80)
    assert told[-1] == ("scoring", 80, 80)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


class Late(Trigger):
    """The decision point, from one on."""

    first: int = 3

    def begin(self, cell, *, event):
        return None

    def decide(self, memory, segment):
        return memory, segment.k >= self.first


def test_a_trigger_given_as_an_object_is_scored_under_its_own_name():
    score = score_ledger(arms("a"), permutations=30, triggers=("residual", Late(first=2)))
    trigger = score["world"].triggers.all_attempted["Late(first=2)"]
    forks = score["world"].evidence.forks
    assert trigger.fires == int((forks.prefork.k >= 2).sum())
    assert trigger.policy_total == pytest.approx(float(np.sum(forks.delta[forks.prefork.k >= 2])))


POLICIES = ("never", "always", "periodic", "residual")


def test_names_that_a_score_does_not_have_are_answered_with_those_that_it_has():
    scored = score_ledger(Path(__file__).parents[3] / "results" / "deployment-demo", permutations=20)
    with pytest.raises(WorldforkError, match=f"There is no policy 'alway'. There are {', '.join(POLICIES)}."):
        scored.deployment["cartpole-swingup"].policies["alway"]
    with pytest.raises(WorldforkError, match=r"There is no task .* 'walker'. There are cartpole-swingup."):
        scored.deployment["walker"]
    with pytest.raises(WorldforkError, match=r"There is no arm 'gentle'\. There are deployment-demo\."):
        scored.arms["gentle"]
    assert scored.deployment.get("walker") is None
    assert set(dataclasses.asdict(scored.deployment["cartpole-swingup"])["policies"]) == {*POLICIES}
    assert "walker" not in scored.arms["deployment-demo"].tasks
