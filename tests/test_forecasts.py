"""The benchmark that leaves the last decision out of the ledger's value, against the score and known answers."""

import sys
from pathlib import Path

import numpy as np
import pytest
from published import folder_of

import worldfork as wf
from worldfork.ledger.store import Study

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from forecasts import Compared, compared, correlations, grades

STUDY, TASK = "which-policy-cheetah", "cheetah-run"


def test_with_all_decisions_it_is_the_score_and_the_last_one_is_worth_its_forks():
    one = compared(Study(folder_of(STUDY)))[TASK]
    scored = wf.score(folder_of(STUDY), permutations=9).deployment[TASK]
    names = list(scored.policies)
    assert one.ledger.mean(axis=1) == pytest.approx([scored.policies[name].ledger_value for name in names])
    graded = ["unresolved" if name == "never" else scored.policies[name].parted.grade for name in names]
    assert grades(one.followed - one.ledger, TASK).tolist() == graded
    forks = wf.Study(folder_of(STUDY)).forks().filter(arm="finetune", k=24)
    always = (one.ledger - one.without_last)[names.index("always")]
    assert 24 * always.mean() == pytest.approx((forks["r_update"] - forks["r_hold"]).mean())
    assert not (one.ledger - one.without_last)[names.index("never")].any()


def test_a_count_orders_policies_whose_forks_are_worth_the_same():
    """Forks of one worth: then the ledger's value is the count. Where one policy picks better forks it is not."""
    fires = np.array([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0], [8.0, 8.0]])
    equal = Compared(
        names=("never", "seldom", "often", "always"),
        arms=np.array(["one"] * 4),
        followed=fires,
        ledger=fires * 10,
        without_last=fires * 10,
        fires=fires,
        update=np.full_like(fires, 10.0),
        silent=np.zeros(4, bool),
    )
    everything, checkpoints = np.ones(4, bool), np.arange(2)
    assert correlations(equal, everything, checkpoints) == pytest.approx([1.0, 1.0])
    picked = np.array([[0.0, 0.0], [90.0, 90.0], [40.0, 40.0], [80.0, 80.0]])
    chosen = Compared(**{**vars(equal), "followed": picked, "ledger": picked})
    assert correlations(chosen, everything, checkpoints) == pytest.approx([1.0, 0.4])
