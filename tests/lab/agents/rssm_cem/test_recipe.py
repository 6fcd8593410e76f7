"""Recipes: strict, named, unchanged in their digests; what is wrong with one is said in a line."""

from pathlib import Path
from typing import get_args

import pytest

from worldfork.errors import WorldforkError
from worldfork.lab.agents.rssm_cem.plugin import SIZES
from worldfork.lab.agents.rssm_cem.recipe import Recipe
from worldfork.lab.agents.training import PRECISIONS
from worldfork.lab.tools import pretraining as any_recipe
from worldfork.lab.tools.pretraining import read_recipe
from worldfork.registration.library import find as find_registration
from worldfork.registration.library import recipes, registrations

DIGESTS = {  # of what is published; a new field must not change them unnoticed
    "pretrain-cartpole": "bb7b0a850bf369df041656859ee416a9ede6394796a4d5fa3cd234f41d078479",
    "pretrain-demo": "4ef494017170c2a27c2b086946613ccd5cdc9456932ec93d073ed9943985752a",
    "pretrain-hopper": "940d2c4aed97cc48dba24ba0a8af44df36d3668e183e1777b21453b1879320e3",
    "pretrain-locomotion": "3b5eda8953b51a6161c11c24216f88092ba7b3eefda9bf088d0828d87b031e73",
    "pretrain-cartpole-32": "db7ce5a80f41b38555b26368f9dfb500d1d1b8f0a6ccf4264859bfc36a9c7c04",
    "pretrain-locomotion-12": "099e2cb650cdc01f93d5649ac4f5792de6601baf4fa34b2d22bbfaaa7d5c3fc9",
    "pretrain-stop-cartpole": "8c85a6e3a84e1a1d55f286a83149a61a03afc7824ec1ab17c095df835b3c2365",
    "pretrain-stop-locomotion": "3964f4aabcaa8b17ed7ac21a5ec013f1e7d8091781a6f85a5d56a9f86c91b314",
    "pretrain-tdmpc2-cartpole": "139adf65d5c371bc499aaf1f03c232b20b206e00fab173481ee4eb343c7ce8d8",
    "pretrain-tdmpc2-cheetah": "df0636e465a0ed24802d09ccf434e7f6ad8e261d8d42f0de75e88557d3fea8a9",
    "pretrain-tdmpc2-demo": "e06b466b339c436cffeebb5cd7e04877076109e33158e500a1ec14fe2a003898",
    "pretrain-tdmpc2-hopper": "fa283e9feb540594d9ca3f0d62f7e7c9b333e8c252ce4fea190bd84bb00a7a03",
    "pretrain-tdmpc2-walker": "6e8e7268d941c2e1a56603684d76240a502d88d8574d979af5ae75e0468d0ba0",
}
SMALLEST = """
schema = "worldfork.pretraining/1"
name = "smallest"
size = "tiny"
bins = 9
episodes = 3
environments = 2
planned = 1
gradient_steps = 1
sequences = 2
length = 6
starts = 4
imagined = 3
gate_episodes = 1
report_episodes = 1
actor_gradient = "dynamics"
[collection]
candidates = 8
horizon = 2
iterations = 1
elites = 2
[tasks.cartpole-swingup]
seeds = [0, 1]
wanted = 1
planner = { candidates = 8, horizon = 2, iterations = 1, elites = 2 }
[tasks.cheetah-run]
seeds = [3]
wanted = 1
planner = { candidates = 8, horizon = 2, iterations = 1, elites = 2 }
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    path = tmp_path / "recipe.toml"
    path.write_text(SMALLEST)
    return read_recipe(path)


def test_a_recipe_may_name_every_precision_of_the_agent():
    assert get_args(Recipe.model_fields["precision"].annotation) == tuple(PRECISIONS)
    assert get_args(Recipe.model_fields["size"].annotation) == tuple(SIZES)


def test_learning_rates_hold_for_half_of_the_training_and_fall_to_their_share(recipe):
    falling = recipe.model_copy(update={"final_rate": 0.2})
    assert [falling.rate_share(done) for done in (0.0, 0.5, 0.75, 1.0)] == pytest.approx([1.0, 1.0, 0.6, 0.2])
    assert recipe.rate_share(1.0) == 1.0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("episodes = 'many'", "episodes: expected a whole number; got 'many'"),
        ("horizont = 3", "horizont: not a known setting; known here: .*imagined"),
        ("discount = 1.5", "discount: expected less than 1.*; got 1.5"),
        ("planned = 2", "`planned` leaves none of 2 `environments` to the actor"),
        ("random_episodes = 3", "`random_episodes` leaves none of 3 `episodes`"),
        ("starts = 13", "`sequences` x `length` = 12; got 13"),
        ("schema = 'worldfork.registration/1'", "is a registration, not a recipe for pretraining: worldfork run"),
        ("=", "not valid TOML"),
    ],
)
def test_a_bad_recipe_is_named_in_a_line(tmp_path, line, message):
    path = tmp_path / "bad.toml"
    lines = [kept for kept in SMALLEST.splitlines() if kept.split(" =")[0] != line.split(" =")[0]]
    path.write_text("\n".join([line, *lines]))
    with pytest.raises(WorldforkError, match=message) as refused:
        read_recipe(path)
    assert max(map(len, str(refused.value).splitlines())) < 700
    assert "pydantic" not in str(refused.value)


def test_recipes_have_names_and_a_file_of_the_other_kind_is_sent_to_its_verb(tmp_path):
    assert read_recipe("pretrain-demo") == read_recipe(recipes()["pretrain-demo"])
    with pytest.raises(WorldforkError, match=r"no recipe `pretrain-mine`.*worldfork list recipes"):
        read_recipe("pretrain-mine")
    with pytest.raises(WorldforkError, match=r"`demo` is a registration, not a recipe.*worldfork run demo"):
        read_recipe("demo")
    for name, path in registrations().items():
        with pytest.raises(WorldforkError, match=rf"{name}.toml is a registration, not a recipe"):
            read_recipe(path)
    with pytest.raises(WorldforkError, match="There is no recipe at"):
        read_recipe(tmp_path / "none.toml")
    with pytest.raises(WorldforkError, match=r"is a recipe for pretraining.*worldfork pretrain pretrain-demo"):
        find_registration("pretrain-demo")


def test_the_recipes_that_come_along_are_valid_and_what_they_were():
    assert {name: any_recipe.read_recipe(name).digest for name in recipes()} == DIGESTS
