"""Modules that determine a row: one's own by their source, installed ones by their version, wherever they lie."""

import subprocess
import sys
from pathlib import Path

import pytest

from worldfork.ledger.provenance import sources

SOURCES = "import sys; from worldfork.ledger.provenance import sources; print(*sources(sys.argv[1:]), sep='\\n')"
RECORD = (
    "library/__init__.py,,\nlibrary/inner.py,,\nlibrary-2.0.dist-info/METADATA,,\nlibrary-2.0.dist-info/RECORD,,\n"
)


def write(folder: Path, files: dict[str, str]) -> Path:
    """The folder, with these files in it."""
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


def library(folder: Path, *, record: str | None = RECORD) -> Path:
    """A distribution as pip leaves it in a folder; with `record` None, as Debian does."""
    files = {"library/__init__.py": "from library import inner", "library/inner.py": "import helper"}
    metadata = {"library-2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: library\nVersion: 2.0\n"}
    return write(folder, files | metadata | ({"library-2.0.dist-info/RECORD": record} if record else {}))


def digested(*folders: Path) -> set[str]:
    """What the study of a plug-in is computed with, in an interpreter that finds modules in these folders too.

    They are added as a `.pth` file adds them: behind what was there.
    """
    added = f"import sys; sys.path += {[str(folder) for folder in folders]!r}; "
    done = subprocess.run(
        [sys.executable, "-c", added + SOURCES, "plugin"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Code of one's own that lies on the path: a plug-in which uses a library and a loose module."""
    return write(tmp_path / "own", {"plugin.py": "import library, loose, numpy", "loose.py": "", "helper.py": ""})


def test_an_installed_library_stands_by_its_version_in_any_folder(own: Path, tmp_path: Path) -> None:
    assert digested(own, library(tmp_path / "target")) == {"plugin", "loose"}


@pytest.mark.parametrize("name", ["lib/python3/dist-packages", "other/lib/python3.12/site-packages"])
def test_a_folder_of_installed_packages_needs_no_list_of_files(own: Path, tmp_path: Path, name: str) -> None:
    assert digested(own, library(tmp_path / name, record=None)) == {"plugin", "loose"}


def test_a_library_that_is_linked_into_its_folder_is_installed(own: Path, tmp_path: Path) -> None:
    """Some installers keep one copy of the files and link to it."""
    kept = library(tmp_path / "cache")
    target = write(tmp_path / "target", {})
    target.mkdir()
    for entry in kept.iterdir():
        (target / entry.name).symlink_to(entry)
    assert digested(own, target) == {"plugin", "loose"}


def test_a_library_that_is_not_installed_is_digested(own: Path, tmp_path: Path) -> None:
    loose = write(tmp_path / "loose", {"library/__init__.py": "from library import inner", "library/inner.py": ""})
    assert digested(own, loose) == {"plugin", "loose", "library", "library.inner"}


def test_an_editable_installation_is_digested(own: Path, tmp_path: Path) -> None:
    """Its list of files has the link to the source alone; the folder of the source may hold other metadata."""
    source = library(tmp_path / "source", record="library.pth,,\nlibrary-2.0.dist-info/RECORD,,\n")
    write(
        source, {"library.egg-info/PKG-INFO": "Name: library\n", "library.egg-info/SOURCES.txt": "library/inner.py"}
    )
    assert digested(own, source) == {"plugin", "loose", "library", "library.inner", "helper"}


def test_a_file_beside_an_installed_library_that_nobody_listed_is_digested(own: Path, tmp_path: Path) -> None:
    target = library(tmp_path / "target")
    write(target, {"loose_too.py": "", "library/added.py": ""})
    write(own, {"plugin.py": "import library.added, loose_too"})
    assert digested(own, target) == {"plugin", "loose_too", "library.added"}


def test_the_table_of_names_is_in_no_digest_and_the_classes_are() -> None:
    modules = sources(["worldfork.lab.forks.jobs", "worldfork.lab.mechanisms.finetune"])
    assert "worldfork.built_in" not in modules
    assert {"worldfork.registry", "worldfork.lab.mechanisms.finetune"} <= modules.keys()
