"""Variance components with draws of the update, and how to split a budget."""

import numpy as np
import polars as pl
import pytest

from worldfork.analysis.read.table import read_table
from worldfork.analysis.score import power, variance
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.power import Cost, planned_power, recommend
from worldfork.analysis.score.undefined import Undefined
from worldfork.analysis.score.variance import Components, Split, variances_of
from worldfork.analysis.score.verdicts import more_checkpoints
from worldfork.errors import WorldforkError
from worldfork.registration import parse

TRUTH = {
    "checkpoint": 900.0,
    "decision_point": 2500.0,
    "fork": 1600.0,
    "draw": 3600.0,
    "episode": 400.0,
    "rest": 225.0,
}


def study(checkpoints, points, draws, episodes, seed):
    """A study whose components are known: update, hold, checkpoint and decision point of each fork."""
    random = np.random.default_rng(seed)
    spread = {name: np.sqrt(value) for name, value in TRUTH.items()}
    checkpoint, point = (axis.ravel() for axis in np.indices((checkpoints, points)))
    forks = checkpoints * points
    mean = (
        random.normal(0, spread["checkpoint"], checkpoints)[checkpoint]
        + random.normal(0, spread["decision_point"], points)[point]
        + random.normal(0, spread["fork"], forks)
    )
    hold = random.normal(0, spread["episode"], (forks, episodes))
    update = (
        mean[:, None, None]
        + random.normal(0, spread["draw"], (forks, draws, 1))
        + random.normal(0, spread["rest"], (forks, draws, episodes))
    )
    return update, hold, checkpoint, point


def test_the_components_are_recovered():
    """Averaged over twenty studies; each estimate is unbiased."""
    found = [variance.components(*study(8, 10, 4, 5, seed)) for seed in range(20)]
    for name, truth in TRUTH.items():
        field = "draw_episode" if name == "rest" else name
        values = np.array([getattr(one, field) for one in found])
        assert abs(values.mean() - truth) < 4 * values.std(ddof=1) / np.sqrt(len(values)), name


def test_the_component_of_draws_has_an_interval_that_covers_it():
    """Over checkpoints: 95% of 200 studies, give or take four standard errors; skewed, so a little less."""
    inside = [
        low <= TRUTH["draw"] <= high
        for low, high in (variance.components(*study(5, 6, 3, 4, seed)).draw_interval for seed in range(200))
    ]
    assert 0.88 < np.mean(inside) <= 1.0


def test_draws_of_both_signs_are_counted():
    update = np.array([[[1.0, 1.0], [-2.0, 1.0]], [[1.0, 1.0], [2.0, 2.0]], [[0.0, 0.0], [-1.0, 0.0]]])
    counted = variance.components(update, np.zeros((3, 2)), np.arange(3), np.zeros(3, int))
    assert counted.draws_of_both_signs == pytest.approx(1 / 3)  # a draw worth nothing has no sign
    alone = variance.components(update[:, :1], np.zeros((3, 2)), np.arange(3), np.zeros(3, int))
    assert "one draw" in alone.draws_of_both_signs.why
    assert "one draw" in alone.draw_interval.why


def test_one_draw_is_confounded_with_its_fork():
    """What a second draw would have told apart is counted among the forks, and the record says so."""
    found = [variance.components(*study(8, 10, 1, 5, seed)) for seed in range(20)]
    assert all(isinstance(one.draw, Undefined) and "one draw" in one.draw.why for one in found)
    fork = np.array([one.fork for one in found])
    assert abs(fork.mean() - TRUTH["fork"] - TRUTH["draw"]) < 4 * fork.std(ddof=1) / np.sqrt(20)
    episode = np.array([one.episode for one in found])
    assert abs(episode.mean() - TRUTH["episode"] - TRUTH["rest"]) < 4 * episode.std(ddof=1) / np.sqrt(20)


def test_the_standard_error_is_that_of_the_mean():
    split = Split(checkpoints=6, forks=10, draws=3, episodes=4)
    truth = noise(
        checkpoint=900.0, decision_point=2500.0, fork=1600.0, draw=3600.0, episode=400.0, draw_episode=225.0
    )
    means = []
    for seed in range(300):
        update, hold, _, point = study(6, 10, 3, 4, seed)
        table = (update - hold[:, None]).mean(axis=(1, 2))
        # What decision points share is no noise: the next study forks at the same ones.
        shared = np.random.default_rng(seed)
        shared.normal(0, 1, 6)
        means.append((table - shared.normal(0, np.sqrt(TRUTH["decision_point"]), 10)[point]).mean())
    assert variance.standard_error(split, variances_of(truth)) == pytest.approx(np.std(means), rel=0.15)


REGISTERED = Split(checkpoints=20, forks=24, draws=2, episodes=4)


def noise(**changes):
    return Components(
        **{
            "checkpoint": 100.0,
            "decision_point": 0.0,
            "fork": 100.0,
            "draw": 0.0,
            "draw_interval": Undefined("not asked"),
            "draws_of_both_signs": Undefined("not asked"),
            "episode": 100.0,
            "draw_episode": 0.0,
            **changes,
        }
    )


def test_money_goes_where_the_noise_is():
    cost = Cost(checkpoint=100.0, draw=2.0, episode=1.0)

    def best(**changes):
        return recommend(REGISTERED, variances_of(noise(**changes)), cost).cheapest

    plain = best()
    assert best(checkpoint=0.0).checkpoints < plain.checkpoints
    assert best(draw=1e5).draws > plain.draws
    assert best(episode=1e5, checkpoint=0.0).episodes > plain.episodes


def test_draws_that_were_never_repeated_are_not_advised_on():
    unknown = variances_of(noise(draw=Undefined("one draw"), draw_episode=Undefined("one draw")))
    assert recommend(REGISTERED, unknown, Cost(checkpoint=100.0)).cheapest.draws == REGISTERED.draws


def test_what_is_missing_is_said():
    update, hold, checkpoint, point = study(3, 4, 2, 3, 0)
    uneven = variance.components(update[1:], hold[1:], checkpoint[1:], point[1:])
    assert isinstance(uneven.checkpoint, Undefined)
    assert not isinstance(uneven.draw, Undefined)
    assert isinstance(variances_of(uneven), Undefined)


GUESSED = """
schema = "worldfork.registration/1"
name = "planned"
[grid]
tasks = ["world"]
checkpoints = [0, 1, 2, 3, 4]
directions = ["toward", "away"]
update_seeds = [0, 1]
[stream]
decision_points = 6
[evaluation]
episodes = 4
[[arms]]
name = "gentle"
[[arms]]
name = "full"
[tasks.world]
agent = "linear_quadratic"
drift_scale = 2.0
[guess.world]
checkpoint = 30.0
fork = 20.0
episode = 50.0
"""


def test_a_guess_says_what_can_be_detected():
    """By hand: variance 900 + (400 + 2500 / 4) / 12 of a checkpoint's mean, five of them, t = 2.776, z = 0.842."""
    (gentle, full) = planned_power(parse(GUESSED))
    assert gentle.detectable == full.detectable == pytest.approx((2.7764 + 0.8416) * np.sqrt(985.417 / 5), rel=1e-4)
    assert set(gentle.at_double) == {"checkpoints", "forks", "episodes"}  # how draws differ was not guessed
    assert gentle.buys_most == "checkpoints"
    assert (gentle.resolves, gentle.recommended) == (None, None)


def test_an_earlier_ledger_says_more():
    """Its own arm decides where it has one, draws are an axis where it has several, and its mean says how many
    checkpoints would resolve it."""
    update, hold, checkpoint, point = study(6, 12, 3, 4, 0)
    rows = [
        {
            "arm": "gentle",
            "task": "world",
            "checkpoint": str(checkpoint[fork]),
            "update_seed": draw,
            "direction": "away",
            "k": int(point[fork]) + 1,
            "r_hold": 100.0 + hold[fork].mean(),
            "r_update": 160.0 + update[fork, draw].mean(),
            "hold": (100 + hold[fork]).tolist(),
            "update": (160 + update[fork, draw]).tolist(),
        }
        for fork in range(72)
        for draw in range(3)
    ]
    other = [{**row, "arm": "another", "r_update": row["r_update"] - 50} for row in rows]
    like = read_table(pl.DataFrame([*other, *rows])).arms
    cost = Cost.of({"checkpoint": 100.0, "draw": 1.0, "episode": 1.0})
    gentle, full = planned_power(parse(GUESSED), like=like, costs={("gentle", "world"): cost})
    assert set(gentle.at_double) == {"checkpoints", "forks", "episodes", "draws"}
    forks = like["gentle"]["world"]
    means = np.array([forks.delta[partition(forks.prefork).checkpoint == one].mean() for one in range(6)])
    assert gentle.resolves == 6 + more_checkpoints(means, family=2)
    assert gentle.resolves_anytime >= 8
    assert full.resolves != gentle.resolves
    assert gentle.recommended.price_cheapest <= gentle.recommended.price
    assert full.recommended.cost == cost, "an arm that was not there costs what the first one cost"
    with pytest.raises(WorldforkError, match="no cost of `fork`"):
        Cost.of({"fork": 1.0})
    with pytest.raises(WorldforkError, match="positive"):
        Cost.of({"episode": 0.0})


def test_two_checkpoints_that_are_alike_say_nothing_of_how_many_would_do():
    assert power._resolves_anytime(np.array([3.0, 3.0])) is None
    assert power._resolves_anytime(np.array([3.0])) is None
    assert power._resolves_anytime(np.array([3.0, 4.0])) is not None
