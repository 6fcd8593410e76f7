"""What a package index and an installer are told."""

import tomllib

from pages import ROOT

IMPORTED_BY_OTHERS = {"imageio"}  # Gymnasium's worlds of MuJoCo begin with it, and do not ask for it themselves
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_it_says_for_whom_it_is() -> None:
    assert any(line.startswith("Programming Language :: Python") for line in PROJECT["project"]["classifiers"])
    assert (ROOT / "src/worldfork/py.typed").is_file()


def test_published_ledgers_are_not_in_the_source_distribution() -> None:
    assert "/results" in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["exclude"]


def test_no_extra_installs_what_no_code_imports() -> None:
    """An extra for a cluster once installed a library that the source did not know."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for extra, wanted in PROJECT["project"]["optional-dependencies"].items():
        for requirement in wanted if extra not in ("dev", "docs") else []:
            name = requirement.split("[")[0].split(">")[0].split("=")[0].split(";")[0].strip()
            if name not in {"worldfork", *IMPORTED_BY_OTHERS}:
                assert name.replace("-", "_") in sources, f"{extra}: {name}"
