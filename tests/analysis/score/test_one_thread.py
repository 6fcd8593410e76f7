"""Figures that do not depend on how many cores a machine has: products are on one thread while it scores."""

import threadpoolctl
from worlds import study

from worldfork.analysis.read.table import read_table
from worldfork.analysis.score import Rules, score, score_ledger
from worldfork.analysis.score.scoring import on_one_thread


def threads():
    """How many threads each library of products would start."""
    return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]


def test_products_are_on_one_thread_inside_and_as_before_outside():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        with on_one_thread():
            inside = threads()
        assert set(inside) == {1}
        assert threads() == before


def test_all_of_scoring_is_on_one_thread():
    seen = []

    def look(*_):
        seen.append(set(threads()))

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        score(read_table(study()).arms, Rules(permutations=9), progress=look)
        score_ledger(study(), permutations=9, progress=look)
    assert {frozenset(each) for each in seen} == {frozenset({1})}
