"""Arrays on disk: the same columns back, no pickle, and no thread that could outlive the interpreter."""

import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from worldfork.errors import WorldforkError
from worldfork.ledger import arrays

COLUMNS = {
    "step": np.arange(5000),
    "error": np.linspace(0.0, 1.0, 5000).astype(np.float32),
    "level": np.where(np.arange(5000) % 7 == 0, np.nan, 0.1),
    "first": np.arange(5000) % 250 == 0,
}


def test_columns_come_back_as_they_were(tmp_path: Path) -> None:
    for write, read in ((arrays.write_parquet, arrays.read_parquet), (arrays.write_npz, arrays.read_npz)):
        assert write(tmp_path / "file", COLUMNS) == arrays.content_digest(COLUMNS)
        assert arrays.content_digest(read(tmp_path / "file")) == arrays.content_digest(COLUMNS)


def test_streams_are_stored_without_pickle(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pickle"):
        arrays.write_npz(tmp_path / "x.npz", {"object": np.array([{}])})
    with pytest.raises(ValueError, match="pickle"):
        arrays.npz_bytes({"mixed": np.zeros(1, dtype=[("number", "f4"), ("object", "O")])})
    np.savez(tmp_path / "y.npz", object=np.array([{}]))
    with pytest.raises(WorldforkError, match="damaged"):
        arrays.read_npz(tmp_path / "y.npz")


@pytest.mark.parametrize("compress", [False, True])
def test_a_file_holds_the_arrays_given_and_nothing_else(compress: bool) -> None:
    """numpy before 2.2 stores an option that it does not know as one more array."""
    content = arrays.npz_bytes(COLUMNS, compress=compress)
    assert zipfile.ZipFile(io.BytesIO(content)).namelist() == [f"{name}.npy" for name in COLUMNS]
    assert arrays.content_digest(arrays.npz_arrays(content, Path("x.npz"))) == arrays.content_digest(COLUMNS)


def test_the_bytes_of_a_file_belong_to_no_version_of_numpy() -> None:
    written = hashlib.sha256(arrays.npz_bytes(COLUMNS)).hexdigest()
    assert written == "6d895c2fd2efa68feb85591660b938b66e2ea520ae52e68ae9247c8f957ee631"


COUNT_THREADS = """
import os, sys
from pathlib import Path
import numpy as np, pyarrow.parquet
from worldfork.ledger import arrays

def threads():
    return len(os.listdir("/proc/self/task"))

before = threads()
path = Path(sys.argv[1])
arrays.write_parquet(path, {"error": np.arange(100_000.0), "step": np.arange(100_000)})
arrays.read_parquet(path)
print(threads() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_reading_and_writing_parquet_starts_no_thread(tmp_path: Path) -> None:
    """A thread of Arrow's that holds a Python buffer at exit aborts a process that has succeeded, now and then; one
    that was never started can not."""
    command = [sys.executable, "-c", COUNT_THREADS, str(tmp_path / "stream.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
