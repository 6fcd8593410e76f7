"""The figures on a frame: pictures untouched, each branch in its colour, curves that grow with the returns."""

import numpy as np

from worldfork.video import FOOTER, HEADER, HOLD, UPDATE, Panel, apart, difference, frames

MOMENTS, HEIGHT, WIDTH = 5, 60, 200
PLATE = 27  # rows under a branch's name


def composed(update: np.ndarray, hold: np.ndarray) -> list[np.ndarray]:
    panels = [Panel("UPDATE", UPDATE, update), Panel("HOLD", HOLD, hold)]
    pictures = (
        [np.full((HEIGHT, WIDTH, 3), 40 * side + moment, np.uint8) for side in (1, 2)] for moment in range(MOMENTS)
    )
    captions = [f"level {moment}" for moment in range(MOMENTS)]
    return list(frames(panels, pictures, title="cell", captions=captions))


def coloured(area: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    return (area == np.array(colour, np.uint8)).all(axis=2)


def test_update_is_left_and_hold_right() -> None:
    made = composed(np.arange(5.0), np.arange(5.0) / 2)
    assert len(made) == MOMENTS
    for moment, frame in enumerate(made):
        assert frame.shape == (HEADER + HEIGHT + FOOTER, 2 * WIDTH, 3)
        shown = frame[HEADER + PLATE : HEADER + HEIGHT]
        assert (shown[:, : WIDTH - 2] == 40 + moment).all()
        assert (shown[:, WIDTH + 2 :] == 80 + moment).all()
        names = frame[HEADER : HEADER + PLATE]
        assert coloured(names[:, :WIDTH], UPDATE).any()
        assert not coloured(names[:, WIDTH:], UPDATE).any()
        assert coloured(names[:, WIDTH:], HOLD).any()


def test_the_better_branch_ends_higher_and_its_curve_grows() -> None:
    made = composed(np.arange(5.0), np.arange(5.0) / 2)
    last = made[-1][-FOOTER:]
    top = {name: np.argwhere(coloured(last, colour))[:, 0].min() for name, colour in (("u", UPDATE), ("h", HOLD))}
    assert top["u"] < top["h"]
    reach = [np.argwhere(coloured(frame[-FOOTER:], UPDATE))[:, 1].max() for frame in made[1:]]
    assert reach == sorted(set(reach))


def test_returns_and_captions_change_the_frame() -> None:
    one, other = composed(np.arange(5.0), np.zeros(5)), composed(np.arange(5.0) + 100, np.zeros(5))
    assert (one[2][HEADER : HEADER + PLATE] != other[2][HEADER : HEADER + PLATE]).any()
    assert (one[0][:HEADER] != one[1][:HEADER]).any()


def test_a_return_that_is_not_finite_is_drawn_all_the_same() -> None:
    broken = np.array([0.0, 1.0, np.nan, np.inf, -np.inf])
    assert len(composed(broken, np.full(5, np.nan))) == MOMENTS


def test_a_frame_says_what_the_update_is_worth_so_far_and_at_the_end() -> None:
    panels = [Panel("UPDATE", UPDATE, np.array([0.0, 3.0, 9.5])), Panel("HOLD", HOLD, np.array([0.0, 4.0, 2.0]))]
    assert difference(panels, 1) == "dR so far -1.0"
    assert difference(panels, 2) == "dR of this episode +7.5: updating helped"
    assert difference(panels[::-1], 2) == "dR of this episode -7.5: updating hurt"


def test_names_of_curves_that_end_together_stand_apart() -> None:
    assert apart([50.0, 50.0], 100) == [50.0, 64.0]
    assert apart([99.0, 98.0], 100) == [100.0, 86.0]
    assert apart([10.0, 90.0], 100) == [10.0, 90.0]
