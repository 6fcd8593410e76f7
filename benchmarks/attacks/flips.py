"""Flip single bits of every file of a study, one at a time, and see whether `verify` names each.

    python benchmarks/attacks/flips.py --count 10000
    python benchmarks/attacks/flips.py --count 1000 --study runs/demo

A file is drawn first and a bit of it then, so that small files are hit as often as large ones. What `verify` does
not name must be in a file that is listed below with the reason, or leave every value of a stream as it was: Parquet
and zip have bytes of their own (who wrote the file, when) that carry none. Exits 1 at any other flip, and at any
traceback.
"""

import argparse
import collections
import random
import shutil
import sys
import tempfile
from pathlib import Path

import studies

from worldfork.errors import WorldforkError
from worldfork.lab.run import run
from worldfork.ledger import arrays
from worldfork.ledger.verify import verify

NOT_COVERED = {
    "execution.json": "says where and when rows were made, and determines none",
    "timings.jsonl": "says how long rows took, and determines none",
    "failures.log": "tracebacks, for whoever wrote the code that failed",
    "report/*": "made from the ledger, and made anew by `worldfork report`",
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--study", type=Path, help="A finished study; it is copied. Default: a small one, amended."
    )
    given = options.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "study"
        if given.study:
            shutil.copytree(given.study, folder)
        else:
            make(Path(root), folder)
        if verify(folder).problems:
            sys.exit(f"{given.study} does not verify to begin with.")
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
        named: collections.Counter[str] = collections.Counter()
        passed: collections.Counter[str] = collections.Counter()
        for _ in range(given.count):
            path = chance.choice(files)
            kind = path.name if "cells" in path.parts else str(path.relative_to(folder))
            bit = chance.randrange(8 * path.stat().st_size)
            if flip(folder, path, bit):
                named[kind] += 1
            else:
                passed[kind] += 1
        for kind in sorted({*named, *passed}):
            print(f"{kind:60} {named[kind]:6} named {passed[kind]:6} not")
    print(f"{given.count} flips: {named.total()} named, {passed.total()} in what is not covered, and listed above.")


def make(root: Path, folder: Path) -> None:
    """A linear-quadratic study of two arms that was amended once."""
    (root / "small.toml").write_text(studies.REGISTRATION)
    (root / "amended.toml").write_text(f'extends = "small.toml"\nabout = "in other words"\n# {"comment " * 20}\n')
    run(root / "small.toml", folder)
    run(root / "amended.toml", folder, amend="said better")
    (folder / "report").mkdir()
    (folder / "report" / "index.html").write_text("<!doctype html>")


def flip(folder: Path, path: Path, bit: int) -> bool:
    """Flip one bit and put it back; whether `verify` named it. A flip that it should have named ends the attack."""
    whole = path.read_bytes()
    values = read(path)
    damaged = bytearray(whole)
    damaged[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(damaged))
    try:
        try:
            if verify(folder).problems:
                return True
        except WorldforkError:
            return True
        listed = any(path.relative_to(folder).match(pattern) for pattern in NOT_COVERED)
        if not listed and (values is None or read(path) != values):
            sys.exit(f"{path.relative_to(folder)}, bit {bit} was flipped, and `verify` named nothing.")
        return False
    finally:
        path.write_bytes(whole)


def read(path: Path) -> str | None:
    """The digest of what a stream's file says; None for other files, of which every byte counts."""
    if path.name == "stream.parquet":
        return arrays.content_digest(arrays.read_parquet(path))
    if path.name == "window.npz":
        return arrays.content_digest(arrays.read_npz(path))
    return None


if __name__ == "__main__":
    main()
