"""Progress where nobody watches: a line a minute, and none for what is over before."""

from worldfork.progress import line_a_minute


def test_a_line_is_written_once_a_minute() -> None:
    now, lines = [0.0], list[str]()
    report = line_a_minute(lines.append, clock=lambda: now[0])
    for seconds, done in ((10.0, 1), (61.0, 2), (70.0, 3), (119.0, 4), (125.0, 1_005)):
        now[0] = seconds
        report("forks", done, 2_000)
    assert lines == ["forks 2/2,000", "forks 1,005/2,000"]


def test_what_has_nothing_to_do_says_nothing() -> None:
    now, lines = [0.0], list[str]()
    report = line_a_minute(lines.append, clock=lambda: now[0])
    now[0] = 100.0
    report("forks", 0, 0)
    assert lines == []
