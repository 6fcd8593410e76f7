"""What a registration that says nothing means, where each setting's bounds are, and what can not be registered."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from worldfork.errors import WorldforkError
from worldfork.registration import Registration, parse, restore
from worldfork.registration.advice import idle_settings
from worldfork.registration.policies import RegisteredPolicy
from worldfork.registration.schema import canonical

LEAST = """
schema = "worldfork.registration/1"
name = "least"
[grid]
tasks = ["world"]
checkpoints = [0]
directions = ["away"]
[tasks.world]
agent = "linear_quadratic"
drift_scale = 2.0
"""


def refused(more: str, *, text: str = LEAST) -> str:
    with pytest.raises(WorldforkError, match="can not be registered") as refusal:
        parse(text + more)
    return str(refusal.value)


def at(registration: Registration, path: str) -> Any:
    value: Any = registration
    for part in path.split("."):
        value = (
            value[int(part)] if part.isdigit() else value[part] if isinstance(value, dict) else getattr(value, part)
        )
    return value


def test_what_is_not_said_is_what_the_protocol_says() -> None:
    registration = parse(LEAST)
    (arm,) = registration.arms
    assert arm.name == "least"
    assert (arm.tasks, arm.stream_seeds, arm.update_seeds) == (("world",), (0,), (0,))
    assert arm.stream.model_dump() == {"decision_points": 24, "drift_period": 20_000, "action_noise": 0.0}
    assert arm.evaluation.model_dump() == {"mode": "pinned", "episodes": 30}
    assert arm.mechanism.model_dump() == {
        "name": "finetune", "steps": 200, "window": 10_000, "scope": "model", "settings": {},
    }  # fmt: skip
    assert (arm.precision, arm.settings) == (None, {})
    assert registration.execution.model_dump() == {"forks_per_block": 20, "streams_per_batch": 10, "halves": 1}
    scoring = registration.scoring
    assert (scoring.divergence_fraction, scoring.running_quantile_rate) == (0.30, 0.3)
    assert (registration.seed, registration.about, registration.predictions) == (0, "", ())
    task = registration.tasks["world"]
    assert (task.drift, task.checkpoints, task.precision) == ("linear", "generated", "float32")
    assert (task.environment, task.competence_floor) == (None, None)


@pytest.mark.parametrize(
    ("table", "name", "smallest", "too_small", "too_large"),
    [
        ("stream", "decision_points", 1, 0, 100_001),
        ("stream", "drift_period", 1, 0, 10**9 + 1),
        ("stream", "action_noise", 0.0, -0.001, None),
        ("evaluation", "episodes", 1, 0, 100_001),
        ("mechanism", "steps", 0, -1, 10**9 + 1),
        ("mechanism", "steps", 0, -1, 2**70),
        ("mechanism", "window", 1, 0, 10**9 + 1),
        ("execution", "forks_per_block", 1, 0, 100_001),
        ("execution", "streams_per_batch", 1, 0, 100_001),
        ("execution", "halves", 1, 0, 3),
        ("scoring", "divergence_fraction", 0.001, 0.0, 1.0),
        ("scoring", "running_quantile_rate", 0.001, 0.0, 1.0),
        ("deployment", "episodes", 1, 0, 100_001),
        ("deployment", "cells_per_batch", 1, 0, 100_001),
    ],
)
def test_a_setting_has_bounds(
    table: str, name: str, smallest: float, too_small: float, too_large: float | None
) -> None:
    place = f"arms.0.{table}.{name}" if table in ("stream", "evaluation", "mechanism") else f"{table}.{name}"
    assert at(parse(f"{LEAST}[{table}]\n{name} = {smallest}\n"), place) == smallest
    for wrong in (too_small, too_large):
        if wrong is not None:
            assert f"{table}.{name}" in refused(f"[{table}]\n{name} = {wrong}\n")


def test_a_study_has_at_most_ten_million_forks() -> None:
    """Counted without spelling its cells out, which would take longer than anyone waits."""
    checkpoints = f"checkpoints = {list(range(100))}"
    most = LEAST.replace("checkpoints = [0]", checkpoints) + "[stream]\ndecision_points = 100_000\n"
    assert parse(most).arms[0].stream.decision_points == 100_000
    more = most.replace('["away"]', '["away", "toward"]')
    assert "20,000,000 forks are registered, arms together; a study has at most 10,000,000" in refused(
        "", text=more
    )
    seeds = f"{checkpoints}\nstream_seeds = {list(range(10_000))}\nupdate_seeds = {list(range(10_000))}"
    said = refused("", text=LEAST.replace("checkpoints = [0]", seeds))
    assert "240,000,000,000 forks are registered" in said


def test_seeds_and_checkpoints_are_indices() -> None:
    highest = 2**31 - 1
    text = LEAST.replace("checkpoints = [0]", f"checkpoints = [0, {highest}]\nstream_seeds = [{highest}]")
    assert parse(f"seed = {highest}\n" + text).seed == highest
    for wrong in (-1, highest + 1):
        assert "grid.checkpoints" in refused("", text=LEAST.replace("[0]", f"[{wrong}]"))
        assert "seed" in refused("", text=f"seed = {wrong}\n{LEAST}")


@pytest.mark.parametrize("empty", ["tasks", "checkpoints", "directions"])
def test_an_empty_grid_is_refused(empty: str) -> None:
    text = "\n".join(f"{empty} = []" if line.startswith(empty + " =") else line for line in LEAST.splitlines())
    assert f"grid.{empty}: expected at least 1" in refused("", text=text)


@pytest.mark.parametrize("empty", ["tasks", "stream_seeds", "update_seeds"])
def test_an_arm_without_cells_is_refused(empty: str) -> None:
    text = f'{LEAST}\n[[arms]]\nname = "none"\n{empty} = []\n'
    assert re.search(rf"arms\.\S*{empty}: expected at least 1", refused("", text=text))


@pytest.mark.parametrize("name", ["a", "a-b", "a_b.c", "0"])
def test_names_that_may_be(name: str) -> None:
    assert parse(LEAST.replace('"least"', f'"{name}"')).name == name


@pytest.mark.parametrize("text", ["\\u001b[2J", "\\u0007", "\\r", "\\u009b31m", "\\u202e", "\\u2066"])
@pytest.mark.parametrize("place", ['about = "{}"\n', '"{}" = 1\n'])
def test_no_text_has_what_a_terminal_obeys(place: str, text: str) -> None:
    said = refused("", text=place.format(text) + LEAST)
    assert "which a terminal would obey. Remove it." in said
    assert not any(character in said for character in "\x1b\x07\r\x9b\u202e\u2066")


def test_lines_and_every_script_are_no_such_text() -> None:
    about = "two\nlines\tand caf\u00e9, \u05e9\u05dc\u05d5\u05dd, \u00a0, \U0001f468\u200d\U0001f4bb"
    assert restore(parse(LEAST).model_copy(update={"about": about}).model_dump_json(by_alias=True)).about == about


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a--b", "a b", "é"])
def test_names_that_may_not_be(name: str) -> None:
    assert "name" in refused("", text=LEAST.replace('"least"', f'"{name}"'))


def test_two_arms_need_two_names_and_every_arm_its_tasks() -> None:
    assert "two arms have one name" in refused('[[arms]]\nname = "a"\n[[arms]]\nname = "a"\n')
    assert "add [tasks.moon]" in refused('[[arms]]\nname = "a"\ntasks = ["world", "moon"]\n')
    assert parse(LEAST + '[[arms]]\nname = "a"\n[[arms]]\nname = "b"\n').arm("b").name == "b"


@pytest.mark.parametrize(
    ("said", "about"),
    [
        ('task = "world"', None),
        ('task = "world"\narm = "least"', None),
        ('task = "moon"', "not registered"),
        ('task = "world"\narm = "other"', "not registered"),
        ('task = "moon"\narm = "least"', "not registered"),
    ],
)
def test_a_prediction_is_about_what_is_registered(said: str, about: str | None) -> None:
    text = f'[[predictions]]\nname = "p"\nfalsified_below = 0.0\n{said}\n'
    if about is None:
        assert len(parse(LEAST + text).predictions) == 1
    else:
        assert about in refused(text)


def test_what_decides_a_cells_rows_is_all_of_an_arm_but_its_place() -> None:
    (arm,) = parse(LEAST).arms
    assert set(arm.decisive()) == {"stream", "evaluation", "mechanism", "precision", "settings"}


def test_a_label_is_part_of_the_digest_and_of_no_row() -> None:
    plain = parse(f'{LEAST}[[arms]]\nname = "gentle"\n')
    labelled = parse(f'{LEAST}[[arms]]\nname = "gentle"\nlabel = "a tenth of the learning rate"\n')
    (arm,) = labelled.arms
    assert arm.label == "a tenth of the learning rate"
    assert arm.decisive() == plain.arms[0].decisive()
    assert labelled.digest != plain.digest
    assert plain.digest == parse(f'{LEAST}[[arms]]\nname = "gentle"\nlabel = ""\n').digest
    assert restore(canonical(labelled.model_dump(mode="json", by_alias=True))) == labelled
    assert "label" not in plain.model_dump(mode="json")["arms"][0]


def test_a_price_and_a_correction_are_spelled_where_they_are_registered() -> None:
    priced = parse(f'{LEAST}[scoring]\nupdate_cost = 12.5\ncorrection = "max_t"\n')
    assert (priced.scoring.update_cost, priced.scoring.correction) == (12.5, "max_t")
    assert restore(canonical(priced.model_dump(mode="json", by_alias=True))) == priced
    assert priced.digest != parse(LEAST).digest == parse(f"{LEAST}[scoring]\nupdate_cost = 0.0\n").digest
    assert {"update_cost", "correction"}.isdisjoint(parse(LEAST).model_dump(mode="json")["scoring"])


def test_a_price_is_not_negative_and_a_correction_is_a_known_one() -> None:
    assert "scoring.update_cost: expected 0.0 or more" in refused("[scoring]\nupdate_cost = -1.0\n")
    assert "scoring.correction: expected 'holm' or 'max_t'" in refused('[scoring]\ncorrection = "bonferroni"\n')


@pytest.mark.parametrize("label", ["x" * 61, " padded", "two\\nlines", "two  spaces"])
def test_a_label_is_one_short_line(label: str) -> None:
    assert "arms.0.label: expected at most 60 characters" in refused(f'[[arms]]\nname = "a"\nlabel = "{label}"\n')


def test_policies_of_arms_that_differ_in_label_and_mechanism_can_be_compared() -> None:
    arms = '[[arms]]\nname = "a"\n[[arms]]\nname = "b"\nlabel = "tenth"\nmechanism = {steps = 20}\n'
    policies = '[deployment.policies.late]\ntrigger = "kswin"\narm = "b"\n'
    assert parse(LEAST + arms + policies).arms[1].label == "tenth"


STEPS = {"world": (50, 200)}  # control and environment steps of an episode


def advice(more: str) -> list[str]:
    return idle_settings(parse(LEAST.replace("[tasks.world]", f"{more}\n[tasks.world]")), STEPS)


def test_a_window_as_long_as_the_stream_is_told_and_a_shorter_one_is_not() -> None:
    short = "[stream]\ndecision_points = 4\ndrift_period = 800\n[mechanism]\n"
    assert advice(f"{short}window = 199") == []
    (line,) = advice(f"{short}window = 200")
    assert "a window of 200 transitions holds the whole stream (200)" in line
    assert advice(f"{short}window = 200\nsteps = 0") == []  # an update of no steps has no use for a window


def test_what_is_true_of_several_arms_is_told_once_with_their_names() -> None:
    def arms(*names: str, others: str = "") -> list[str]:
        short = "[stream]\ndecision_points = 4\ndrift_period = 800\n[mechanism]\nwindow = 300\n"
        listed = [f'[[arms]]\nname = "{name}"\nmechanism = {{steps = {n}}}\n' for n, name in enumerate(names, 1)]
        return advice(short + "".join(listed) + others)

    sentence = "world: a window of 300 transitions holds the whole stream (200): UPDATE sees everything since"
    for names, told in (("a", "a"), ("abc", "a, b, c"), ("abcd", "all 4 arms")):
        (line,) = arms(*names)
        assert line.startswith(f"{told}, {sentence}")
    narrow = '[[arms]]\nname = "narrow"\nmechanism = {window = 10}\n'
    wide = '[[arms]]\nname = "wide"\nmechanism = {window = 400}\n'
    first, second = arms(*"abcd", others=narrow + wide)
    assert first.startswith(f"a, b, c, d, {sentence}")
    assert second.startswith("wide, world: a window of 400 transitions")


def test_a_drift_that_does_not_arrive_is_told_with_how_far_it_comes() -> None:
    stream = "[mechanism]\nwindow = 10\n[stream]\ndecision_points = 4\n"
    assert advice(f"{stream}drift_period = 800") == []  # it arrives with the last step
    (line,) = advice(f"{stream}drift_period = 1000")
    assert line == "least, world: the stream ends before the drift does, at 80% of its way."


@pytest.mark.parametrize(("period", "still"), [(800, 1), (600, 2), (599, 2), (601, 1), (200, 4)])
def test_forward_evaluations_after_the_drift_are_counted(period: int, still: int) -> None:
    stream = f"[stream]\ndecision_points = 4\ndrift_period = {period}\n[mechanism]\nwindow = 10\n"
    (line,) = advice(stream + '[evaluation]\nmode = "forward"')
    assert f"at {still} of 4 decision points the drift has ended" in line
    assert advice(stream) == []


def test_arms_that_do_the_same_are_told() -> None:
    base = "[stream]\ndecision_points = 4\ndrift_period = 800\n[mechanism]\nwindow = 10\n"

    def twins(one: str, other: str) -> list[str]:
        return advice(f'{base}[[arms]]\nname = "a"\n{one}\n[[arms]]\nname = "b"\n{other}\n')

    same = ["b and a are the same mechanism on world, stream seed 0."]
    assert twins("", "") == same
    assert twins('mechanism = {name = "none"}', "mechanism = {steps = 0}") == same
    assert twins('mechanism = {name = "none"}', 'mechanism = {name = "none", scope = "other"}') == same
    assert twins("mechanism = {steps = 0}", "mechanism = {steps = 0, window = 20}") == same
    assert twins("mechanism = {steps = 0}", "mechanism = {steps = 1}") == []
    within = twins("mechanism = {window = 200}", "mechanism = {window = 300}")  # of 200 control steps
    assert within[-1:] == same
    assert same[0] not in twins("mechanism = {window = 199}", "mechanism = {window = 300}")
    assert twins("", "mechanism = {window = 20}") == []
    assert twins("", "mechanism = {steps = 5}") == []
    assert twins("", "evaluation = {episodes = 5}") == []
    assert twins("stream_seeds = [0]", "stream_seeds = [1]") == []
    assert twins("stream_seeds = [0, 1]", "stream_seeds = [1]")[0].endswith("stream seed 1.")


DEPLOYMENT = """
[deployment.policies.careful]
trigger = "residual"
threshold = "fitted"
"""


def test_a_deployment_that_says_little_evaluates_six_episodes_and_has_never_and_always() -> None:
    deployment = parse(LEAST + DEPLOYMENT).deployment
    assert deployment is not None
    assert (deployment.arm, deployment.evaluate_at, deployment.episodes) == (None, (), 6)
    assert {"never", "always", "careful"} <= set(deployment.every())


def test_a_deployment_is_evaluated_at_decision_points_that_there_are() -> None:
    points = at(parse(LEAST), "arms.0.stream.decision_points")
    fits = parse(f"{LEAST}[deployment]\nevaluate_at = [{points}]\n").deployment
    assert fits is not None
    assert fits.evaluate_at == (points,)
    late = refused(f"[deployment]\nevaluate_at = [1, {points + 1}]\n")
    assert f"`deployment.evaluate_at` has {points + 1}, beyond the last decision point" in late
    assert "`evaluate_at` ascends; got [2, 1]" in refused("[deployment]\nevaluate_at = [2, 1]\n")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ('threshold = "fitted"\nrate = 0.5', '`rate` goes with threshold = "running"'),
        ("threshold = 0.5\nrate = 0.5", '`rate` goes with threshold = "running"'),
        ("rate = 0.5", '`rate` goes with threshold = "running"'),
        ('threshold = "fited"', "careful.threshold: expected 'fitted' or 'running', or a number; got 'fited'"),
    ],
)
def test_a_rate_is_for_a_running_threshold(settings: str, told: str) -> None:
    policy = '[deployment.policies.careful]\ntrigger = "residual"\n'
    assert told in refused(policy + settings)
    running = parse(f'{LEAST}{policy}threshold = "running"\nrate = 0.5\n').deployment
    assert running is not None
    assert running.policies["careful"].rate == 0.5


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("", 'a policy with trigger = "random" says `rate`, or `matches` another policy'),
        ('rate = 0.5\nmatches = "careful"', 'a policy with trigger = "random" says `rate`, or `matches` another'),
        ("rate = 0.5\nthreshold = 0.5", 'a policy with trigger = "random" says `rate`, or `matches` another'),
        ('matches = "coin"', "the policy `coin` matches `coin`, which is not a policy with its own rule"),
    ],
)
def test_a_random_policy_has_one_rate(settings: str, told: str) -> None:
    coin = '[deployment.policies.coin]\ntrigger = "random"\n'
    assert told in refused(DEPLOYMENT + coin + settings)
    for enough in ("rate = 0.5", 'matches = "careful"'):
        assert parse(LEAST + DEPLOYMENT + coin + enough).deployment is not None
    assert '`matches` is for policies with trigger = "random"' in refused(DEPLOYMENT + 'matches = "careful"')


def test_a_policy_is_not_called_as_a_folder_of_the_ledger_is() -> None:
    said = refused(DEPLOYMENT.replace("careful", "segments"))
    assert "a policy can not be called `segments`: the ledger has a folder of that name" in said


def test_a_deployment_is_of_an_arm_that_there_is() -> None:
    assert "`deployment.arm` is `other`; there are ['least']" in refused('[deployment]\narm = "other"\n')
    assert parse(LEAST + '[deployment]\narm = "least"\n').deployment is not None


def test_a_policy_is_about_an_arm_that_there_is() -> None:
    said = refused(DEPLOYMENT + 'arm = "other"\n')
    assert "policy `careful` is about arm `other`; there are ['least']" in said


@pytest.mark.parametrize(
    ("deployment", "policy", "expected"),
    [
        ("", "careful", "prediction `pays` is about a deployment, and none is registered"),
        (DEPLOYMENT, "careless", "prediction `pays` is about the policy `careless`; there are "),
    ],
)
def test_a_prediction_is_about_a_policy_that_there_will_be(deployment: str, policy: str, expected: str) -> None:
    figure = f"deployment.policies.{policy}.advantage.mean"
    said = f'[[predictions]]\nname = "pays"\ntask = "world"\nfigure = "{figure}"\nfalsified_below = 0.0\n'
    assert expected in refused(deployment + said)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trigger": "never", "trial": 1}, '`trial` is for policies that fire, and "never" does not'),
        ({"trigger": "always", "threshold": 0.5}, 'the policy "always" reads nothing'),
    ],
)
def test_what_a_fixed_policy_can_not_have_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        RegisteredPolicy(**settings)
