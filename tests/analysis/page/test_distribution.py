"""Bars of dR: every fork in one of them, none on both sides of zero, and exact zeros by themselves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from worldfork.analysis.present.page.view import bars


@given(st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=1, max_size=60))
def test_every_fork_is_in_a_bar_of_its_side(values):
    delta = np.array(values)
    shown = bars(delta)
    sides = {side: sum(bar.forks for bar in shown if bar.side == side) for side in ("help", "hurt", "even")}
    assert sides == {"help": (delta > 0).sum(), "hurt": (delta < 0).sum(), "even": (delta == 0).sum()}
    assert max(bar.share for bar in shown) == 1
