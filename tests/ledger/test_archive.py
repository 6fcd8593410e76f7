"""A study in one file: the same study, read by every verb, and nothing that a stranger could put into one."""

import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kill_and_resume import REGISTRATION
from tiny import TWO_ARMS, contents, findings, unpacked_copy, write
from typer.testing import CliRunner

import worldfork as wf
from worldfork.analysis.present.page import default_place
from worldfork.analysis.read.frames import study_frame
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.run import run
from worldfork.ledger import archive
from worldfork.ledger.publish import publish
from worldfork.ledger.store import Study
from worldfork.ledger.verify import root, verify


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where archives are unpacked."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study as it was run: 2 arms and 12 cells."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "small.toml").write_text(REGISTRATION)
    run(folder / "small.toml", folder / "study")
    return folder / "study"


# --- the same study


def test_a_study_in_one_file_is_the_same_study_but_for_digests_that_follow(ran: Path, tmp_path: Path) -> None:
    written = publish(Study(ran), tmp_path / "small.tar.xz")
    assert written == (tmp_path / "small.tar.xz").stat().st_size
    copy, study = Study(tmp_path / "small.tar.xz"), Study(ran)
    packed, whole = contents(copy.path), contents(ran)
    changed = {name for name in packed if name in whole and packed[name] != whole[name]}
    assert changed == {name for name in packed if "forks" in name}
    assert [cell.rows() for cell in copy.cells()] == [cell.rows() for cell in study.cells()]
    assert verify(tmp_path / "small.tar.xz").problems == ()
    assert root(copy) == root(study)
    assert study_frame(copy).equals(study_frame(study))


def test_the_same_study_gives_the_same_bytes_wherever_it_is_copied_from(tmp_path: Path) -> None:
    study = write(tmp_path / "study", authored=TWO_ARMS)
    publish(study, tmp_path / "first" / "tiny.tar.xz")
    unpacked_copy(study, tmp_path / "tiny")
    sources = [tmp_path / "tiny", tmp_path / "first" / "tiny"]  # a copy that tar unpacked, and the file itself
    for number, source in enumerate(sources):
        publish(Study(source), tmp_path / str(number) / "tiny.tar.xz")
        again = (tmp_path / str(number) / "tiny.tar.xz").read_bytes()
        assert again == (tmp_path / "first" / "tiny.tar.xz").read_bytes()
    with tarfile.open(tmp_path / "first" / "tiny.tar.xz") as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    kinds = {(each.mtime, each.uid, each.gid, each.uname, each.gname, each.mode, each.type) for each in members}
    assert kinds == {(0, 0, 0, "", "", 0o644, tarfile.REGTYPE)}


NAMES = st.lists(st.text("abcé-_.0", min_size=1, max_size=9), min_size=1, max_size=4).map("/".join)


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(NAMES.filter(lambda name: not {"", ".", ".."} & set(name.split("/"))), st.binary()))
def test_whatever_is_packed_comes_back(stored: dict[str, bytes]) -> None:
    content = archive.pack(stored, name="x")
    assert archive._files(content, Path("x.tar.xz")) == stored
    assert archive.pack(dict(reversed(stored.items())), name="x") == content


def test_tar_makes_a_study_of_it(tmp_path: Path) -> None:
    study = write(tmp_path / "study")
    publish(study, tmp_path / "tiny.tar.xz")
    with tarfile.open(tmp_path / "tiny.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    assert contents(tmp_path / "tiny") == contents(Study(tmp_path / "tiny.tar.xz").path)
    assert root(Study(tmp_path / "tiny")) == root(study)
    assert not Study(tmp_path / "tiny").packed, "the folder comes first"


def test_what_tar_packs_is_read_too(tmp_path: Path) -> None:
    unpacked_copy(write(tmp_path / "study"), tmp_path / "tiny")
    with tarfile.open(tmp_path / "tiny.tar.xz", "w:xz", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(tmp_path / "tiny", "./tiny")  # folders, dates and owners included
    assert contents(Study(tmp_path / "tiny.tar.xz").path) == contents(tmp_path / "tiny")


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    study = write(tmp_path / "study")
    (tmp_path / "tiny.tar.xz").write_bytes(b"something else")
    with pytest.raises(WorldforkError, match="is there already"):
        publish(study, tmp_path / "tiny.tar.xz")
    assert (tmp_path / "tiny.tar.xz").read_bytes() == b"something else"


def test_what_would_be_refused_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert archive.pack({"zeros": bytes(archive.AT_LEAST - 10 * archive.BLOCK * 20)}, name="x")
    with pytest.raises(WorldforkError, match="beyond what a reader accepts"):
        archive.pack({"zeros": bytes(archive.AT_LEAST)}, name="x")
    with pytest.raises(WorldforkError, match="name is too long"):
        archive.pack({"x" * 300: b""}, name="x")
    monkeypatch.setattr(archive, "MEMBERS", 2)
    with pytest.raises(WorldforkError, match="3 files of"):
        archive.pack(dict.fromkeys("abc", b""), name="x")


# --- the verbs


@pytest.fixture(scope="module")
def published(ran: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    publish(Study(ran), folder / "small.tar.xz")
    return folder


def said(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


FEW = ("--permutations", "20")


@pytest.mark.parametrize("name", ["small", "small.tar.xz"])
def test_every_verb_that_reads_takes_the_name_or_the_file(
    published: Path, ran: Path, name: str, tmp_path: Path, temporary: Path
) -> None:
    study = published / name
    assert said("verify", study, "--root") == said("verify", ran, "--root")
    assert said("score", study, *FEW) == said("score", ran, *FEW)
    said("export", study, "-o", tmp_path / "one.csv")
    said("export", ran, "-o", tmp_path / "other.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "other.csv").read_bytes()
    said("report", study, "-o", tmp_path / "page.html", *FEW)
    said("report", study, ran, "-o", tmp_path / "pages" / "index.html", *FEW)
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {"index.html", "small.html", "study.html"}
    for page in (tmp_path / "page.html", tmp_path / "pages" / "index.html"):
        assert str(temporary) not in page.read_text()
    assert wf.score(study, permutations=20).to_json() == wf.score(ran, permutations=20).to_json()
    assert repr(wf.Study(study)) == repr(wf.Study(ran))
    assert [path.name for path in published.iterdir()] == ["small.tar.xz"]


@pytest.mark.parametrize("opened", [str, Path, Study])
def test_the_page_goes_beside_the_file(published: Path, opened: Callable[[Path], str | Path | Study]) -> None:
    assert default_place(opened(published / "small")) == published / "small.html"


@pytest.mark.parametrize("name", ["small", "small.tar.xz"])
def test_nothing_is_written_into_it(published: Path, ran: Path, name: str) -> None:
    before = contents(published)
    with pytest.raises(
        WorldforkError, match=r"small\.tar\.xz` is a study in one file, .* `tar -xf .*small\.tar\.xz`"
    ):
        run(ran / "registration.toml", published / name)
    with pytest.raises(WorldforkError, match=r"small\.tar\.xz` is a published copy, without the models"):
        said("replay", published / name)
    assert contents(published) == before


def test_errors_name_the_file_and_not_where_it_was_unpacked(published: Path, tmp_path: Path) -> None:
    study = Study(published / "small")
    damaged = contents(study.path)
    rows = next(place for place in damaged if place.endswith("forks.jsonl"))
    damaged[rows] = damaged[rows].replace(b'"delta":', b'"delta":1', 1)
    (tmp_path / "bad.tar.xz").write_bytes(archive.pack(damaged, name="bad"))
    output = CliRunner().invoke(app, ["verify", str(tmp_path / "bad")]).output
    assert f"NOT AS WRITTEN  {tmp_path / 'bad.tar.xz' / rows}: a row is not what was written" in output
    assert "worldfork-" not in output
    with pytest.raises(
        WorldforkError, match=r"There are no forks of a cell `x` in `.*published\d+/small\.tar\.xz`"
    ):
        wf.replay(study, "x", k=1)


def test_what_was_unpacked_is_removed_when_the_process_ends(published: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from worldfork.ledger.store import Study; first, second = map(Study, 2 * sys.argv[1:])"
        "; assert first.path == second.path; print(first.path, first.registration.name)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run(
        [sys.executable, "-c", script, str(published / "small")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(tmp_path / "temporary" / "worldfork-"))
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    publish(write(tmp_path / "one", rows=2), tmp_path / "tiny.tar.xz")
    assert verify(tmp_path / "tiny").rows == 2
    (tmp_path / "tiny.tar.xz").unlink()
    publish(write(tmp_path / "two", rows=3), tmp_path / "tiny.tar.xz")
    assert verify(tmp_path / "tiny").rows == 3


# --- what a stranger could put into one


def member(name: str, content: bytes = b"x", *, size: int | None = None, **fields: object) -> bytes:
    """One member of a tar, its header made as it is asked for."""
    info = tarfile.TarInfo(name)
    info.size = len(content) if size is None else size
    for key, value in fields.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % archive.BLOCK)


def extended(name: str) -> bytes:
    """A member whose name comes from a header before it, as in pax."""
    info = tarfile.TarInfo("study/harmless")
    info.pax_headers = {"path": name}
    return info.tobuf(tarfile.PAX_FORMAT)


GOOD = member("study/registration.json", b"{}")
END = bytes(2 * archive.BLOCK)
NOT_PLAIN = r"is neither a plain file nor a folder"
OUTSIDE = r"expected a place inside the study"
TARS = {
    "a link": (member("study/a", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"), NOT_PLAIN),
    "a folder that is a link": (
        member("study/cells", b"", type=tarfile.SYMTYPE, linkname="/tmp") + member("study/cells/x"),
        NOT_PLAIN,
    ),
    "a hard link": (member("study/a", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd"), NOT_PLAIN),
    "a pipe": (member("study/a", b"", type=tarfile.FIFOTYPE), NOT_PLAIN),
    "a device": (member("study/a", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=5), NOT_PLAIN),
    "a sparse file": (member("study/a", b"", type=tarfile.GNUTYPE_SPARSE), NOT_PLAIN),
    "a header that changes the next": (extended("/tmp/elsewhere"), NOT_PLAIN),
    "an absolute name": (member("/tmp/elsewhere"), OUTSIDE),
    "an absolute folder": (member("/tmp/elsewhere", b"", type=tarfile.DIRTYPE), OUTSIDE),
    "a way out": (member("study/../../elsewhere"), OUTSIDE),
    "a way out as a folder": (member("..", b"", type=tarfile.DIRTYPE), OUTSIDE),
    "a backslash": (member("study/..\\elsewhere"), OUTSIDE),
    "no name": (member("", type=tarfile.REGTYPE), OUTSIDE),
    "a name twice": (member("study/a") + member("study/a", b"y"), "holds `study/a` twice"),
    "a name in two spellings": (member("study/a") + member("study/./a", b"y"), "holds `study/./a` twice"),
    "two folders": (member("another/a"), "a study is one folder"),
    "a file beside the folder": (member("a"), "a study is one folder"),
    "a file for the folder": (member("study"), "a study is one folder"),
    "a file that is a folder": (member("study/a") + member("study/a/b"), "can not be unpacked"),
    "a name that is no text": (member("study/\udcff"), "is damaged: at byte 1,024 of its tar"),
    "a size below nothing": (member("study/a", b"", size=-1024), "`study/a` is longer than the archive"),
    "a size beyond the end": (member("study/a", size=10**9), "`study/a` is longer than the archive"),
    "a header that does not add up": (b"?" + member("study/a")[1:], "is damaged: at byte 1,024 of its tar"),
    "half a header": (member("study/a")[:100], "is damaged: at byte 1,024 of its tar"),
}


def refused(path: Path, content: bytes, *, because: str, temporary: Path) -> None:
    """The archive is refused in one sentence that names it, and nothing was written anywhere."""
    path.write_bytes(content)
    before = contents(path.parent)
    with pytest.raises(WorldforkError, match=because) as error:
        verify(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert contents(path.parent) == before
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("fault", TARS)
def test_what_is_not_a_plain_study_is_not_unpacked(tmp_path: Path, temporary: Path, fault: str) -> None:
    tar, because = TARS[fault]
    end = b"" if fault == "half a header" else END
    refused(tmp_path / "x.tar.xz", lzma.compress(GOOD + tar + end), because=because, temporary=temporary)


@pytest.mark.parametrize("end", [b"", bytes(100), END + b"hidden", END + member("study/b"), END + bytes(99) + b"?"])
def test_an_archive_ends_where_it_ends(tmp_path: Path, temporary: Path, end: bytes) -> None:
    because = "its tar was cut off, or something was added to it"
    refused(tmp_path / "x.tar.xz", lzma.compress(GOOD + end), because=because, temporary=temporary)


def test_too_many_files_are_not_unpacked(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MEMBERS", 4)
    many = b"".join(member(f"study/{number}", b"") for number in range(3))
    folders = b"".join(member(f"study/{number}", b"", type=tarfile.DIRTYPE) for number in range(3))
    (tmp_path / "y.tar.xz").write_bytes(lzma.compress(GOOD + many + END))
    assert len(contents(archive.unpack(tmp_path / "y.tar.xz"))) == 4
    shutil.rmtree(next(temporary.iterdir()))
    for more in (many + member("study/4"), folders + member("study/4")):
        content = lzma.compress(GOOD + more + END)
        refused(tmp_path / "x.tar.xz", content, because="holds more than 4 files", temporary=temporary)


def test_gigabytes_in_a_few_bytes_are_not_unpacked(tmp_path: Path, temporary: Path) -> None:
    bomb = lzma.LZMACompressor(preset=0)
    content = bomb.compress(member("study/zeros", b"", size=2**28)[: archive.BLOCK])
    content += b"".join(bomb.compress(bytes(2**20)) for _ in range(256)) + bomb.flush()
    tracemalloc.start()
    try:
        refused(tmp_path / "x.tar.xz", content, because="over 64 times its size", temporary=temporary)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 2**20, "a quarter of what it would be"


def with_dictionary(size: int) -> bytes:
    """Return a good archive whose header asks for a dictionary (the .xz file format, 3.1 and 5.3.1): 29 stands for
    96 MiB, 30 for 128 MiB, 40 for 4 GiB.
    """
    content = bytearray(lzma.compress(GOOD + END))
    header = 4 * (content[12] + 1)
    assert content[14:16] == b"\x21\x01", "the filter LZMA2 with one byte of settings"
    content[16] = size
    content[12 + header - 4 : 12 + header] = zlib.crc32(content[12 : 12 + header - 4]).to_bytes(4, "little")
    return bytes(content)


@pytest.mark.parametrize("size", [30, 40])
def test_a_dictionary_of_gigabytes_is_not_made(size: int, tmp_path: Path, temporary: Path) -> None:
    """128 MiB are too many: unpacking takes some more than the dictionary."""
    content = with_dictionary(size)
    refused(tmp_path / "x.tar.xz", content, because="Memory usage limit exceeded", temporary=temporary)


def test_a_dictionary_of_96_mebibytes_is_made(tmp_path: Path) -> None:
    content = with_dictionary(29)
    assert archive._files(content, tmp_path / "x.tar.xz") == archive._files(lzma.compress(GOOD + END), tmp_path)


def test_every_flipped_bit_and_every_cut_is_found(tmp_path: Path, temporary: Path) -> None:
    publish(write(tmp_path / "study"), tmp_path / "tiny.tar.xz")
    whole = (tmp_path / "tiny.tar.xz").read_bytes()
    shutil.rmtree(tmp_path / "study")
    again = r"x\.tar\.xz` is damaged.*Fetch it again\."
    places = {*range(30), *range(30, len(whole), 41), *range(len(whole) - 30, len(whole))}
    for place in sorted(places):
        flipped = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
        refused(tmp_path / "x.tar.xz", flipped, because=again, temporary=temporary)
    for changed in (
        b"",
        whole[:7],
        whole[:-1],
        whole[: len(whole) // 2],
        whole + b"?",
        whole + whole,
        whole + bytes(4),
    ):
        refused(tmp_path / "x.tar.xz", changed, because=again, temporary=temporary)
    refused(tmp_path / "x.tar.xz", b"PK\x03\x04" + whole, because="is damaged", temporary=temporary)


def test_a_tar_without_a_study_is_no_study(tmp_path: Path) -> None:
    for tar in (member("study/notes.txt"), member("study", b"", type=tarfile.DIRTYPE), b""):
        (tmp_path / "x.tar.xz").write_bytes(lzma.compress(tar + END))
        assert findings(tmp_path / "x.tar.xz").startswith(f"`{tmp_path / 'x.tar.xz'}` is not a study: ")
    with pytest.raises(WorldforkError, match=r"There is no file `.*nowhere\.tar\.xz`"):
        Study(tmp_path / "nowhere.tar.xz")


def test_a_misspelt_name_is_answered_with_the_nearest(published: Path) -> None:
    with pytest.raises(WorldforkError, match=r"There is no study `.*smal`\. Did you mean .*small\?"):
        Study(published / "smal").registered()
    with pytest.raises(WorldforkError, match=r"There is no `.*smal`\. Did you mean .*small\? Expected a study"):
        said("score", published / "smal")
    with pytest.raises(WorldforkError, match=r"There is no study `.*other`\.$"):
        Study(published / "other").registered()
