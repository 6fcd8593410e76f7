"""[stopping]: read strictly, refused with a reason, and absent where it is not used."""

import pytest

from worldfork.errors import WorldforkError
from worldfork.registration import Registration, canonical, parse, restore
from worldfork.registration.reading import authored, only_tasks

STUDY = """
schema = "worldfork.registration/1"
name = "stops"
[grid]
tasks = ["one", "two"]
checkpoints = [3, 1, 0, 2, 4, 5, 6, 7, 8, 9]
directions = ["away"]
[tasks.one]
agent = "linear_quadratic"
drift_scale = 2.0
[tasks.two]
agent = "linear_quadratic"
drift_scale = 2.0
[[arms]]
name = "few"
[[arms]]
name = "many"
mechanism = { steps = 400 }
[[arms]]
name = "of-two"
tasks = ["two"]
stream_seeds = [7]
"""
ONE = '{ task = "one", arm = "few" }'
TWO = '{ task = "two", arm = "many", against = "few" }'


def study(*questions: str, **settings: object) -> Registration:
    given = "".join(f"{name} = {value}\n" for name, value in settings.items())
    return parse(f"{STUDY}\n[stopping]\nquestions = [{', '.join(questions)}]\n{given}")


def test_a_study_without_it_has_the_digest_that_it_had() -> None:
    assert "stopping" not in parse(STUDY).model_dump(mode="json", by_alias=True)


def test_it_reads_back_from_toml_and_from_json() -> None:
    registration = study(ONE, TWO, first_look=9, step=2, error_rate=0.1, null='"symmetry"')
    assert registration.stopping is not None
    assert [str(question) for question in registration.stopping.questions] == ["few on one", "many - few on two"]
    assert restore(canonical(registration.model_dump(mode="json", by_alias=True))) == registration
    assert parse(authored(registration).text) == registration


@pytest.mark.parametrize(
    ("questions", "settings", "why"),
    [
        ((ONE,), {}, "no question is about the task `two`"),
        ((ONE, TWO, ONE), {}, "asked twice"),
        ((ONE, TWO), {"first_look": 7}, "expected 8 or more"),
        ((ONE, TWO), {"first_look": 11}, "`grid.checkpoints` has 10"),
        ((ONE, TWO), {"error_rate": 0.0}, "more than 0"),
        ((ONE, TWO), {"null": '"median"'}, "'mean' or 'symmetry'"),
        ((ONE, TWO), {"horizon": 9}, "horizon"),
        (('{ task = "one", arm = "of-two" }', TWO), {}, "no arm `of-two` that runs `one`"),
        ((ONE, '{ task = "two", arm = "few", against = "few" }'), {}, "with itself"),
        ((ONE, '{ task = "two", arm = "few", against = "of-two" }'), {}, "share no stream seed"),
    ],
)
def test_what_could_not_stop_is_refused(questions: tuple[str, ...], settings: dict[str, object], why: str) -> None:
    with pytest.raises(WorldforkError, match=why):
        study(*questions, **settings)


def test_it_does_not_go_with_deployments() -> None:
    with pytest.raises(WorldforkError, match="a study of their own"):
        parse(f"{STUDY}\n[deployment]\n[stopping]\nquestions = [{ONE}, {TWO}]")


def test_a_question_keeps_its_share_of_the_error_rate_in_a_restricted_study() -> None:
    restricted = only_tasks(study(ONE, TWO, error_rate=0.08), ["two"])
    assert restricted.stopping is not None
    assert ([str(question) for question in restricted.stopping.questions], restricted.stopping.error_rate) == (
        ["many - few on two"],
        0.04,
    )
