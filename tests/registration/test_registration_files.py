"""Files of registrations: found by name, one extending another, written and read back, and spelled in one way."""

import hashlib
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldfork.errors import WorldforkError
from worldfork.registration import authored, digest, open_authored, parse, read, read_authored
from worldfork.registration.library import BUNDLED, find, find_recipe, recipes, registrations
from worldfork.registration.reading import difference, dumps, loads
from worldfork.registration.schema import canonical

BASE = """
schema = "worldfork.registration/1"
name = "base"
[grid]
tasks = ["one", "two"]
checkpoints = [0]
directions = ["away"]
[mechanism]
steps = 5
window = 50
[tasks.one]
agent = "linear_quadratic"
drift_scale = 2.0
[tasks.two]
agent = "linear_quadratic"
drift_scale = 3.0
[scoring]
running_quantile_rate = 0.2
[scoring.contraction_edges]
one = [1.0, 2.0]
two = [3.0, 4.0]
"""


def test_the_canonical_spelling_is_the_documented_one() -> None:
    assert canonical({"é": 1, "b": [0.1, None, True], "a": {"y": "x", "x": 1e300}}) == (
        '{"a":{"x":1e+300,"y":"x"},"b":[0.1,null,true],"é":1}'
    )
    for not_a_number in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            canonical([not_a_number])
    assert digest({"é": 1}) == hashlib.sha256('{"é":1}'.encode()).hexdigest()


def test_what_comes_with_the_package_is_found_by_name() -> None:
    assert {"demo", "corrected", "linear-quadratic"} <= set(registrations())
    assert {"pretrain-demo", "pretrain-cartpole"} <= set(recipes())
    assert not set(registrations()) & set(recipes())
    assert find("demo").name == "demo.toml"
    assert find(find("demo")) == find("demo")
    assert find_recipe("pretrain-demo").name == "pretrain-demo.toml"
    assert find_recipe(find_recipe("pretrain-demo")) == find_recipe("pretrain-demo")
    assert (BUNDLED / "cartpole-swingup-0.safetensors").is_file()


@pytest.mark.parametrize(
    ("look_for", "name", "answer"),
    [
        (find, "nothing.toml", "no registration at `nothing.toml`"),
        (find, "nothing", "no registration `nothing`: neither a file, nor one"),
        (find, "dmeo", "comes with worldfork. Did you mean demo? `worldfork list registrations` names all "),
        (
            find_recipe,
            "pretrain-dem",
            "comes with worldfork. Did you mean pretrain-demo? `worldfork list recipes` names all ",
        ),
        (find, "pretrain-demo", "a recipe for pretraining, not a registration: worldfork pretrain pretrain-demo"),
        (find_recipe, "nothing.toml", "no recipe at `nothing.toml`"),
        (find_recipe, "nothing", "no recipe `nothing`: neither a file, nor one"),
        (find_recipe, "demo", "a registration, not a recipe for pretraining: worldfork run demo"),
    ],
)
def test_what_is_not_there_is_answered_with_what_to_do(look_for: Any, name: str, answer: str) -> None:
    with pytest.raises(WorldforkError) as refusal:
        look_for(name)
    assert answer in str(refusal.value)


def test_tables_are_merged_and_everything_else_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "middle.toml").write_text('extends = "base.toml"\nname = "middle"\n[mechanism]\nsteps = 6\n')
    (tmp_path / "top.toml").write_text(
        'extends = "middle.toml"\n[mechanism]\nwindow = 60\n[grid]\ncheckpoints = [7]\n'
    )
    found = read(tmp_path / "top.toml")
    assert found.name == "middle"
    assert (found.arms[0].mechanism.steps, found.arms[0].mechanism.window) == (6, 60)
    assert (found.grid.checkpoints, found.grid.tasks) == ((7,), ("one", "two"))
    assert found.scoring == parse(BASE).scoring


@pytest.mark.parametrize(
    ("table", "named", "other", "settings"),
    [
        ("tasks.one", "agent", "mine:Agent", "settings"),
        ("tasks.one", "environment", "mine:World", "environment_settings"),
        ("mechanism", "name", "mine:Blend", "settings"),
        ("stream", "schedule", "step", "schedule_settings"),
    ],
)
def test_settings_are_not_inherited_by_something_else(
    tmp_path: Path, table: str, named: str, other: str, settings: str
) -> None:
    (tmp_path / "base.toml").write_text(BASE)
    below = f'extends = "base.toml"\nname = "below"\n[{table}]\n{settings} = {{ a = 1, b = 2 }}\n'
    (tmp_path / "below.toml").write_text(below)

    def settings_above(line: str) -> Any:
        (tmp_path / "above.toml").write_text(f'extends = "below.toml"\nname = "above"\n[{table}]\n{line}\n')
        found = read(tmp_path / "above.toml")
        place = found.tasks["one"] if table == "tasks.one" else getattr(found.arms[0], table)
        return getattr(place, settings)

    assert settings_above(f"{settings} = {{ b = 3 }}") == {"a": 1, "b": 3}
    assert settings_above(f'{named} = "{other}"') == {}
    assert settings_above(f'{named} = "{other}"\n{settings} = {{ c = 4 }}') == {"c": 4}


def test_an_arm_with_another_mechanism_begins_without_the_shared_settings() -> None:
    arms = '[[arms]]\nname = "a"\n[[arms]]\nname = "b"\nmechanism = { name = "none" }\n'
    first, second = parse(f"{BASE}\n{arms}\n[mechanism.settings]\nrate = 0.1\n").arms
    assert (first.mechanism.settings, second.mechanism.settings) == ({"rate": 0.1}, {})


def test_the_tables_of_tasks_that_are_not_run_stay_behind(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "less.toml").write_text('extends = "base.toml"\nname = "less"\n[grid]\ntasks = ["two"]\n')
    less = read_authored(tmp_path / "less.toml")
    assert set(less.registration.tasks) == {"two"}
    assert less.registration.scoring.contraction_edges == {"two": (3.0, 4.0)}
    assert less.registration.scoring.running_quantile_rate == 0.2
    assert parse(less.text) == less.registration
    arms = '[[arms]]\nname = "a"\n[[arms]]\nname = "b"\ntasks = ["one"]\n'  # what any arm runs is kept
    (tmp_path / "arms.toml").write_text((tmp_path / "less.toml").read_text() + arms)
    assert set(read(tmp_path / "arms.toml").tasks) == {"one", "two"}


def test_a_file_may_extend_what_comes_with_the_package_and_nothing_else_by_name(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "linear-quadratic"\nname = "mine"\n')
    mine, theirs = read(tmp_path / "mine.toml"), read(find("linear-quadratic"))
    assert mine.arms[0].stream == theirs.arms[0].stream
    for wrong, answer in (("3", "`extends` is the path or the name of a registration; got 3"), ('"x"', "`x`")):
        (tmp_path / "mine.toml").write_text(f"extends = {wrong}\n")
        with pytest.raises(WorldforkError) as refusal:
            read(tmp_path / "mine.toml")
        assert answer in str(refusal.value)
    with pytest.raises(WorldforkError, match="read it from where it lies"):
        parse('extends = "demo"\n')


def test_a_registration_is_opened_from_a_record_a_file_or_a_name(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(BASE)
    for given_as, root in ((parse(BASE), Path.cwd()), (tmp_path / "base.toml", tmp_path)):
        text, found = open_authored(given_as)
        assert (text.registration, found) == (parse(BASE), root)
        assert parse(text.text) == parse(BASE)
    assert open_authored("demo")[1] == find("demo").parent


def test_a_rule_that_is_off_stays_off_in_the_text() -> None:
    registration = parse(BASE.replace("[scoring]", '[scoring]\ndivergence_fraction = "off"'))
    assert registration.scoring.divergence_fraction is None
    assert parse(authored(registration).text) == registration


@pytest.mark.parametrize("wrong", ["grid = 3", "arms = 3", "arms = [3]", "stream = 3", "mechanism = []"])
def test_what_is_no_table_is_told(wrong: str) -> None:
    with pytest.raises(WorldforkError, match=r"are tables and \[\[arms\]\] a list of them"):
        parse(f'schema = "worldfork.registration/1"\n{wrong}\n')


def test_what_is_wrong_with_a_file_that_extends_is_what_its_author_wrote(tmp_path: Path) -> None:
    """Where tables have not the shape of a registration, nothing is left behind, and nothing else is missed."""
    (tmp_path / "base.toml").write_text(BASE.split("[tasks")[0])
    (tmp_path / "less.toml").write_text('extends = "base.toml"\nname = "less"\n')
    with pytest.raises(WorldforkError) as refusal:
        read(tmp_path / "less.toml")
    assert str(refusal.value).splitlines()[1:] == ["  tasks: it is missing"]


@pytest.mark.parametrize("named", ["a" * 300, "a/" * 3000, "a" * 300 + ".toml"])
def test_a_name_that_no_file_can_have_is_told(tmp_path: Path, named: str) -> None:
    (tmp_path / "mine.toml").write_text(f'extends = "{named}"\n')
    for look in (lambda: read(tmp_path / "mine.toml"), lambda: find(named), lambda: find_recipe(named)):
        with pytest.raises(WorldforkError, match=r"\.\.\.` can not be looked for \(File name too long\)"):
            look()


PARTS = ["a", "'a'", "''", '"a.b"', "-_9"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("dot", [".", " .\t"])
@pytest.mark.parametrize("written", ["{} = 1", "[{}]", "[[{}]]", "x = {{{} = 1}}"])
def test_a_key_has_at_most_32_parts(part: str, dot: str, written: str) -> None:
    assert loads(written.format(dot.join([part] * 32)), name="x", kind="a registration")
    with pytest.raises(WorldforkError, match=r"x is not a registration: .* a key of more than 32 parts"):
        loads(written.format(dot.join([part] * 33)), name="x", kind="a registration")


def test_a_text_of_a_million_characters_is_not_parsed() -> None:
    fits = "#" * 2**20
    assert loads(fits, name="x", kind="a registration") == {}
    with pytest.raises(WorldforkError, match="it has 1,048,577 characters, at most 1,048,576 are read"):
        loads(fits + "#", name="x", kind="a registration")


@pytest.mark.parametrize("quotes", ['"', '"""'])
def test_a_text_of_escaped_quotes_alone_is_searched_once(quotes: str) -> None:
    """Were a key looked for at each of them, it would take the better part of an hour."""
    with pytest.raises(WorldforkError, match="x is not valid TOML: Unterminated string"):
        loads(f"a = {quotes}" + '\\"' * 500_000, name="x", kind="a registration")


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "-" + "9" * 5000])
def test_a_number_of_thousands_of_digits_is_told(number: str) -> None:
    with pytest.raises(
        WorldforkError, match="x is not a registration: it has a whole number of thousands of digits"
    ):
        parse(f"seed = {number}", name="x")


def test_a_file_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(WorldforkError, match="could not be read"):
        read(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({"a": [1, 2]}, {"a": [1, 3]}, ["a[1]: 2 -> 3"]),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, ["a: [1, 2] -> [1, 2, 3]"]),
        ({"a": [1]}, {"a": {"b": 1}}, ['a: [1] -> {"b": 1}']),
        ({"a": 1}, {"b": 1}, ["a: 1 -> null", "b: null -> 1"]),
        ({"a": {"b": {"c": 1}}, "d": 2}, {"a": {"b": {"c": 1}}, "d": 2}, []),
    ],
)
def test_differences_name_their_place(before: Any, after: Any, lines: list[str]) -> None:
    assert difference(before, after) == lines


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_whatever_is_written_is_read_back(tables: dict[str, Any]) -> None:
    assert tomllib.loads(dumps(tables)) == tables
