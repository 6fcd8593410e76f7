"""Digits that hold on every processor: the flags that the compiler is given, and that a ledger records them."""

import json
import shutil
from pathlib import Path

import pytest
from kill_and_resume import DEPLOYMENT, REGISTRATION, chained

from worldfork.errors import WorldforkError
from worldfork.lab import determinism
from worldfork.lab.forks import jobs
from worldfork.lab.run import run
from worldfork.ledger.store import Study


def pinned(monkeypatch: pytest.MonkeyPatch, given: str, *, started: bool = False) -> list[str]:
    """The flags after pinning, where these were given."""
    monkeypatch.setenv("XLA_FLAGS", given)
    monkeypatch.setattr(determinism, "_jax_has_started", lambda: started)
    determinism.pin_compiler()
    return determinism.flags()


def test_no_approximation_of_the_processors_own_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--xla_cpu_enable_platform_dependent_math=false" in determinism.PINNED
    assert pinned(monkeypatch, "") == sorted(determinism.PINNED)
    assert pinned(monkeypatch, "--xla_a=1") == sorted(["--xla_a=1", *determinism.PINNED])


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    other = "--xla_cpu_enable_platform_dependent_math=true"
    assert pinned(monkeypatch, other) == sorted([*determinism.PINNED[:2], other])


def test_a_compiler_that_can_be_pinned_no_more_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(RuntimeWarning, match="not pinned, and digits may not be reproducible"):
        assert pinned(monkeypatch, "", started=True) == []
    assert pinned(monkeypatch, " ".join(determinism.PINNED), started=True) == sorted(determinism.PINNED)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (
            "vendor_id\t: GenuineIntel\nmodel name\t: A Processor\n\nvendor_id\t: other\n",
            ("GenuineIntel", "A Processor"),
        ),
        ("CPU implementer\t: 0x41\n", ("0x41", None)),
        ("", (None, None)),
    ],
)
def test_the_maker_is_what_the_system_says(
    lines: str, found: tuple[str | None, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *arguments, **options: lines)
    maker, model = determinism.processor.__wrapped__()
    assert maker == found[0] or (found[0] is None and maker)
    assert model == found[1] or (found[1] is None and model)


def test_a_ledger_says_what_its_digits_may_depend_on_and_is_not_carried_on_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.toml").write_text(REGISTRATION)
    maker, model = determinism.processor()
    study = run(tmp_path / "small.toml", tmp_path / "study")
    for cell in study.cells():
        assert cell.configuration["processor"] == maker
        assert set(cell.configuration["compiler_flags"]) >= set(determinism.PINNED)
        execution = json.loads((cell.path / "execution.json").read_text())
        assert execution["processor"] == f"{maker} {model}".strip()
    for name, value, told in (
        ("processor", lambda: ("another", "one"), 'processor: ".*" -> "another"'),
        ("flags", lambda: ["--xla_b=1"], "compiler_flags: "),
    ):
        copy = tmp_path / name
        shutil.copytree(study.path, copy)
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(jobs, name, value)
            with pytest.raises(WorldforkError, match=told):
                run(tmp_path / "small.toml", copy)
        assert {cell.id: cell.last_digest() for cell in Study(copy).cells()} == {
            cell.id: cell.last_digest() for cell in study.cells()
        }


@pytest.mark.parametrize(
    ("jax", "makers", "agree"),
    [
        ("0.10.2", ("AuthenticAMD", "GenuineIntel"), True),
        ("0.10.2", ("AuthenticAMD", "0x41"), False),
        ("0.11.2", ("AuthenticAMD", "GenuineIntel"), False),
        (None, ("AuthenticAMD", "GenuineIntel"), False),
    ],
)
def test_a_study_goes_on_on_a_processor_that_is_known_to_give_its_digits(
    jax: str | None, makers: tuple[str, str], agree: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left to do: a row of one cell, and the last segment of one policy."""
    (tmp_path / "small.toml").write_text(REGISTRATION + DEPLOYMENT)
    monkeypatch.setattr(jobs, "versions", lambda packages: {"numpy": "1", **({"jax": jax} if jax else {})})
    monkeypatch.setattr(jobs, "processor", lambda: (makers[0], "begun here"))
    monkeypatch.setattr(jobs, "_context", jobs._context.__wrapped__)  # every job asks anew where it is done
    study = run(tmp_path / "small.toml", tmp_path / "study")
    whole, cell = chained(study.path), study.cells()[0].path
    assert {folder.configuration["processor"] for folder in study.deployments()} == {makers[0]}
    for path in (cell / "forks.jsonl", next(study.path.glob("deployments/*/*/*.jsonl"))):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    begun = chained(study.path)
    monkeypatch.setattr(jobs, "processor", lambda: (makers[1], "carried on here"))
    if agree:
        run(tmp_path / "small.toml", study.path)
        assert chained(study.path) == whole
        assert json.loads((cell / "execution.json").read_text())["processor"] == f"{makers[1]} carried on here"
    else:
        with pytest.raises(WorldforkError, match=f'processor: "{makers[0]}" -> "{makers[1]}"'):
            run(tmp_path / "small.toml", study.path)
        assert chained(study.path) == begun
