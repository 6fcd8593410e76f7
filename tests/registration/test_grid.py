"""Who shares what: a table of everything an arm can vary, and whether its stream and its HOLD are others then."""

import itertools

import pytest

from worldfork.randomness import Purpose
from worldfork.registration import Cell, cells, hold_owner, parse, stream_owner

BASE = """
schema = "worldfork.registration/1"
name = "shared"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0, 1]
directions = ["toward", "away"]
stream_seeds = [0, 3]
[stream]
decision_points = 4
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 2.0
precision = "float64"
settings = {batch = 8}
[[arms]]
name = "base"
"""


@pytest.mark.parametrize(
    ("varied", "own_stream", "own_hold"),
    [
        ("mechanism = {steps = 20}", False, False),
        ("mechanism = {window = 50}", False, False),
        ('mechanism = {scope = "model+value"}', False, False),
        ('mechanism = {name = "none"}', False, False),
        ("mechanism = {settings = {rate = 0.5}}", False, False),
        ('precision = "bf16"', False, True),  # streams are run as the task says, evaluations as the arm does
        ("settings = {batch = 4}", False, True),
        ('evaluation = {mode = "forward"}', False, True),
        ("evaluation = {episodes = 7}", False, True),
        ("stream = {action_noise = 0.5}", True, True),
        ("stream = {drift_period = 2000}", True, True),
        ("stream = {decision_points = 3}", True, True),
    ],
)
def test_what_an_arm_varies_decides_what_it_computes_itself(varied: str, own_stream: bool, own_hold: bool) -> None:
    registration = parse(f'{BASE}[[arms]]\nname = "other"\n{varied}\n')
    for owners, own in ((stream_owner(registration), own_stream), (hold_owner(registration), own_hold)):
        assert list(owners) == list(cells(registration))
        for cell, owner in owners.items():
            assert owner.arm == ("other" if own and cell.arm == "other" else "base")
            # Whatever is shared is shared between the same places.
            assert (owner.task, owner.checkpoint, owner.direction, owner.stream_seed) == (
                cell.task,
                cell.checkpoint,
                cell.direction,
                cell.stream_seed,
            )


def test_another_draw_of_the_updates_shares_stream_and_hold_with_the_first() -> None:
    registration = parse(BASE.replace("[stream]", "update_seeds = [2, 5]\n[stream]"))
    for owners in (stream_owner(registration), hold_owner(registration)):
        assert {(cell.update_seed, owner.update_seed) for cell, owner in owners.items()} == {(2, 2), (5, 2)}


def test_every_coordinate_but_the_arm_addresses_other_draws() -> None:
    cell = Cell("base", "walker", 1, "away", 3, 2)
    purpose = Purpose.INITIAL_STATE
    others = [
        Cell("base", "hopper", 1, "away", 3, 2),
        Cell("base", "walker", 0, "away", 3, 2),
        Cell("base", "walker", 1, "toward", 3, 2),
        Cell("base", "walker", 1, "away", 0, 2),
    ]
    events = [place.event(purpose, 7) for place in (cell, *others)] + [cell.event(purpose, 8)]
    for one, other in itertools.combinations(events, 2):
        assert one != other
    again = Cell("another", "walker", 1, "away", 3, 9)
    assert again.event(purpose, 7) == cell.event(purpose, 7)
    assert (
        again.update_event(7) != cell.update_event(7) == Cell("another", "walker", 1, "away", 3, 2).update_event(7)
    )
    assert cell.update_event(7).purpose is Purpose.UPDATE_BATCH


def test_names_of_cells_are_stable() -> None:
    assert Cell("base", "walker", 1, "away", 3).id == "base-walker-c1-away-s3"
    assert Cell("base", "walker", 1, "away", 3, 2).id == "base-walker-c1-away-s3-u2"


def test_cells_are_in_the_order_of_arms_tasks_draws_seeds_checkpoints_directions() -> None:
    text = (
        BASE.replace("[stream]", "update_seeds = [2, 5]\n[stream]") + '[[arms]]\nname = "a"\nstream_seeds = [9]\n'
    )
    found = [tuple(cell.coordinates.values()) for cell in cells(parse(text))]
    expected = [
        (arm, "linear_quadratic", checkpoint, direction, seed, draw)
        for arm, seeds in (("base", (0, 3)), ("a", (9,)))
        for draw in (2, 5)
        for seed in seeds
        for checkpoint in (0, 1)
        for direction in ("toward", "away")
    ]
    assert found == expected
