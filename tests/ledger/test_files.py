"""Files: on the disk before anything says so, whole or not at all, and never through a link."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worldfork.errors import WorldforkError
from worldfork.ledger import files


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every call that reaches the disk, with the file it was about."""
    recorded: list[tuple[str, str]] = []

    def watch(name: str, of: Callable[..., str]) -> None:
        real = getattr(os, name)

        def call(*arguments: Any, **named: Any) -> Any:
            recorded.append((name, of(*arguments)))
            return real(*arguments, **named)

        monkeypatch.setattr(files.os, name, call)

    def opened(descriptor: int, *_: Any) -> str:
        return Path(os.readlink(f"/proc/self/fd/{descriptor}")).name

    watch("write", opened)
    watch("fsync", opened)
    watch("replace", lambda source, target: Path(target).name)
    return recorded


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are named in /proc")


@needs_proc
def test_an_appended_line_is_on_the_disk_before_it_counts(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    files.append(tmp_path / "forks.jsonl", b"one\n")
    assert calls == [("write", "forks.jsonl"), ("fsync", "forks.jsonl"), ("fsync", tmp_path.name)]
    calls.clear()
    files.append(tmp_path / "forks.jsonl", b"two\n")
    assert calls == [("write", "forks.jsonl"), ("fsync", "forks.jsonl")]


@needs_proc
def test_a_replaced_file_is_on_the_disk_before_its_name_and_its_name_before_it_counts(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    files.replace(tmp_path / "cell.json", b"{}")
    assert calls == [
        ("write", ".cell.json.partial"),
        ("fsync", ".cell.json.partial"),
        ("replace", "cell.json"),
        ("fsync", tmp_path.name),
    ]


@needs_proc
def test_a_cut_is_on_the_disk_too(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    (tmp_path / "forks.jsonl").write_bytes(b"one\ntw")
    assert files.cut_torn_line(tmp_path / "forks.jsonl") == 2
    assert calls == [("fsync", "forks.jsonl")]
    assert (tmp_path / "forks.jsonl").read_bytes() == b"one\n"
    assert files.cut_torn_line(tmp_path / "forks.jsonl") == files.cut_torn_line(tmp_path / "none") == 0


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_an_append_that_fails_is_cut_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    path = tmp_path / "forks.jsonl"
    files.append(path, b"one\n")
    real = os.write

    def full(descriptor: int, *data: Any) -> int:
        if failing == "write":
            real(descriptor, bytes(data[0])[:2])  # a part reaches the disk
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, failing, full)
    with pytest.raises(WorldforkError, match="the disk is full"):
        files.append(path, b"two\n")
    monkeypatch.undo()
    assert path.read_bytes() == b"one\n"


def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.replace(tmp_path / "cell.json", b"old")

    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files.os, "fsync", broken)
    with pytest.raises(WorldforkError, match="Input/output error"):
        files.replace(tmp_path / "cell.json", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"cell.json": b"old"}


def test_nothing_is_changed_through_a_link(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.write_bytes(b"someone's\nthes")
    inside.symlink_to(outside)
    with pytest.raises(WorldforkError, match=r"`.*inside` is a link; worldfork changes plain files alone"):
        files.append(inside, b"more\n")
    with pytest.raises(WorldforkError, match="is a link"):
        files.cut_torn_line(inside)
    with pytest.raises(WorldforkError, match="is a link"), files.exclusive(inside):
        pass
    (tmp_path / "dangling").symlink_to(tmp_path / "made")
    with pytest.raises(WorldforkError, match="is a link"):
        files.append(tmp_path / "dangling", b"more\n")
    assert not (tmp_path / "made").exists()
    assert outside.read_bytes() == b"someone's\nthes"


def test_a_replaced_link_is_replaced_itself_and_so_is_one_in_the_way(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"someone's")
    for name in ("page.html", ".page.html.partial"):
        (tmp_path / name).symlink_to(outside)
    files.replace(tmp_path / "page.html", b"ours")
    assert outside.read_bytes() == b"someone's"
    assert (tmp_path / "page.html").read_bytes() == b"ours"
    assert not (tmp_path / "page.html").is_symlink()


def test_a_file_with_a_second_name_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"someone's\n")
    os.link(tmp_path / "outside", tmp_path / "inside")
    with pytest.raises(WorldforkError, match="has another name somewhere"):
        files.append(tmp_path / "inside", b"more\n")
    assert (tmp_path / "outside").read_bytes() == b"someone's\n"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WorldforkError, match="not a plain file"):
        files.append(tmp_path / "pipe", b"more\n")
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)


def test_a_folder_that_leads_elsewhere_is_named(tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (study / "cells").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorldforkError, match=r"cells` is a link that leads out of `.*study`, to `.*elsewhere"):
        files.refuse_what_is_not_plain(study)
    (study / "cells").unlink()
    (study / "inner").mkdir()
    (study / "alias").symlink_to(study / "inner")
    files.refuse_what_is_not_plain(study)
    (tmp_path / "link").symlink_to(study)  # the study itself may be reached by any way
    files.refuse_what_is_not_plain(tmp_path / "link")


def test_a_folder_whose_record_leads_nowhere_is_not_written_to(tmp_path: Path) -> None:
    """The link is no file yet, and would be one as soon as something is written through it."""
    study = tmp_path / "study"
    study.mkdir()
    (study / "registration.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(WorldforkError, match=r"registration\.json` is a link that leads out of"):
        files.refuse_other_folders(study, kind="study", record="registration.json", begun=set())


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("missing/x.csv", "There is no folder `.*missing` to write `x.csv` into: make it first"),
        (".", "is a folder: name a file in it"),
        ("file/x.csv", "There is no folder"),
    ],
)
def test_whether_a_file_can_be_put_there_is_asked_before_the_work(tmp_path: Path, place: str, message: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorldforkError, match=message):
        files.writable(tmp_path / place)
    assert files.writable(str(tmp_path / "x.csv")) == tmp_path / "x.csv"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_folder_that_can_not_be_written_to_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    with pytest.raises(WorldforkError, match="can not be written to: change its permissions"):
        files.writable(tmp_path / "x.csv")


def test_a_lock_that_was_removed_by_its_holder_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was refused removes its lock while another has opened, and not yet locked, the same file."""
    real = files._lock

    def late(descriptor: int, *, wait: bool) -> bool:
        (tmp_path / ".lock").unlink()
        return real(descriptor, wait=wait)

    monkeypatch.setattr(files, "_lock", late)
    with pytest.raises(WorldforkError, match="one writer at a time"), files.exclusive(tmp_path / ".lock"):
        pass


def refuse_locks(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_disk_without_locks_is_used_where_the_user_guarantees_one_run_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse_locks(monkeypatch, number)
    monkeypatch.delenv("WORLDFORK_NO_LOCK", raising=False)
    refused = r"can not lock files \(.*\).*on another disk.*set WORLDFORK_NO_LOCK=1 in the environment"
    with pytest.raises(WorldforkError, match=refused), files.exclusive(tmp_path / ".lock"):
        pass
    monkeypatch.setenv("WORLDFORK_NO_LOCK", "1")
    with files.exclusive(tmp_path / ".lock"):
        files.append(tmp_path / "forks.jsonl", b"one\n")
    assert (tmp_path / "forks.jsonl").read_bytes() == b"one\n"


def test_where_there_are_locks_the_guarantee_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLDFORK_NO_LOCK", "1")
    with (
        files.exclusive(tmp_path / ".lock"),
        pytest.raises(WorldforkError, match="one writer at a time"),
        files.exclusive(tmp_path / ".lock"),
    ):
        pass


def test_a_lock_that_fails_otherwise_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_locks(monkeypatch, errno.EIO)
    monkeypatch.setenv("WORLDFORK_NO_LOCK", "1")
    with pytest.raises(WorldforkError, match="Input/output error"), files.exclusive(tmp_path / ".lock"):
        pass


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS])
def test_a_disk_that_can_not_say_what_is_on_it_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A row counts once it is on the disk: where fsync does not work, none ever would."""

    def fsync(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(WorldforkError, match=rf"Could not write `.*forks.jsonl`: {os.strerror(number)}"):
        files.append(tmp_path / "forks.jsonl", b"one\n")


def test_everything_but_writing_works_where_there_is_no_fcntl() -> None:
    """As on Windows: only taking the lock needs it."""
    script = (
        "import sys; sys.modules['fcntl'] = None\n"
        "import worldfork.cli.main, worldfork.ledger.verify, worldfork.analysis.read.table\n"
        "import worldfork.analysis.score.scoring\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
