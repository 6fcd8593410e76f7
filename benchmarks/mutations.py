"""Do the tests notice a one-line mistake? Makes many, one at a time, and runs the tests of the neighbourhood.

    python benchmarks/mutations.py --sample 60                  # some of every room
    python benchmarks/mutations.py --room ledger --sample 30 --seed 1
    python benchmarks/mutations.py --list --room registration   # what could be tried, without trying it
    python benchmarks/mutations.py --survivors                  # those that the record says survived, once more

Mutants are made in a temporary copy of the tree, never in the checkout. Each is run against the tests of its room
and its module's own examples, and is killed when one fails; a run that takes far longer than usual is a kill too.
Results go to `--record` line by line: started again on the same tree, what is there is not done again. A sample is
drawn by the digest of each mutant, so that a change of the source changes little of it.

`mutations_equivalent.toml` lists the mutants that no test can notice, each with the reason. Exits 1 if any other
survives, or if the list names one that there is no more.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mutation_operators import Mutant, mutants
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
SOURCE = Path("src") / "worldfork"
EQUIVALENT = ROOT / "benchmarks" / "mutations_equivalent.toml"
# A room's folder below src/worldfork, and the tests beside it, cheap ones first: the first failure ends a mutant.
ROOMS = {
    "registration": ("tests/registration", "tests/ledger/test_store.py", "tests/lab/forks/test_label.py"),
    "lab/episodes.py": (
        "tests/lab/episodes",
        "tests/lab/test_ends.py",
        "tests/lab/forks/test_label.py",
        "tests/lab/stream",
    ),
    "analysis/score": ("tests/analysis/score",),
    "ledger": ("tests/ledger", "tests/lab/test_deployments.py"),
    "lab/forks": ("tests/lab/forks", "tests/lab/test_ends.py", "tests/lab/test_run.py"),
}
LEFT_BEHIND = {".git", ".venv", "runs", "carry", "checkpoints"}  # of what lies in the checkout's own folder
SLOW, LEAST = 5.0, 120.0  # times as long as without a mutation, and seconds, before a mutant counts as hung
CONSOLE = Console(width=160)


@dataclasses.dataclass(frozen=True)
class Equivalent:
    """A mutant that no test can notice, wherever in `within` it stands."""

    path: str
    within: str
    before: str
    after: str
    reason: str

    def is_about(self, mutant: Mutant) -> bool:
        return (self.path, self.within, self.before, self.after) == (
            mutant.path,
            mutant.within,
            _spaced(mutant.before),
            _spaced(mutant.after),
        )


class Copy:
    """A copy of the tree in a folder of its own, in which one file at a time is another."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        shutil.copytree(ROOT, self.root, ignore=_left_behind, symlinks=True)
        self._moment = 1_000_000_000
        shown = subprocess.run(
            [sys.executable, "-c", "import worldfork; print(worldfork.__file__)"],
            env=self._environment(), cwd=self.root, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        if not Path(shown.strip()).is_relative_to(self.root):
            sys.exit(f"Tests would run against {shown.strip()}, and not against the copy in {self.root}.")

    def survives(self, mutant: Mutant | None, tests: Sequence[str], *, limit: float | None) -> str:
        """`killed`, `timeout`, or `survived`: what became of a mutant; None is the tree as it is."""
        path = self.root / SOURCE / (mutant.path if mutant else "version.py")
        whole = path.read_bytes()
        try:
            if mutant:
                self._write(path, mutant.apply(whole))
            return self._run([str(path), *self._nearest_first(mutant, tests)] if mutant else tests, limit)
        finally:
            self._write(path, whole)

    def _nearest_first(self, mutant: Mutant, tests: Sequence[str]) -> list[str]:
        """The files of the tests, those that name the mutant's module before the others."""
        module = "worldfork." + mutant.path.removesuffix(".py").replace("/", ".")
        names = (module, "from {} import {}".format(*module.rsplit(".", 1)))
        files = [
            file
            for place in (self.root / test for test in tests)
            for file in (sorted(place.rglob("test_*.py")) if place.is_dir() else [place])
        ]
        texts = {file: file.read_text() for file in files}
        return [
            str(file) for file in sorted(texts, key=lambda file: not any(name in texts[file] for name in names))
        ]

    def _write(self, path: Path, content: bytes) -> None:
        """Python knows a compiled file by its source's time and size: no two of ours have the same time."""
        self._moment += 10
        path.write_bytes(content)
        os.utime(path, (self._moment, self._moment))

    def _run(self, tests: Sequence[str], limit: float | None) -> str:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--hypothesis-seed=0", "--no-header"]
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [*command, "-p", "no:cacheprovider", *tests],
                cwd=self.root,
                env=self._environment(),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # and whatever its tests started
                process.wait()
                return "timeout"
            if code in (0, 5):  # 5: nothing was collected
                return "survived"
            output.seek(0)
            self.output = output.read().decode(errors="replace")
            return "killed"

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.root / "src"), str(self.root / "tests")])
        return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def main() -> None:
    given = _options()
    rooms = given.room or list(ROOMS)
    listed = [Equivalent(**entry) for entry in tomllib.loads(EQUIVALENT.read_text())["equivalent"]]
    known = {room: list(_of_room(room)) for room in rooms}
    gone = [
        entry
        for entry in listed
        if (room := _room_of(entry.path)) in known and not any(entry.is_about(mutant) for mutant in known[room])
    ]
    for entry in gone:
        CONSOLE.print(
            f"No longer there: {entry.path}, {entry.within}: {entry.before} -> {entry.after}", markup=False
        )
    earlier = _read(given.record)
    if given.survivors:
        last = {line["id"]: line["outcome"] for line in earlier}
        chosen = {r: [m for m in every if last.get(m.id) == "survived"] for r, every in known.items()}
    else:
        chosen = {room: _sample(every, given.sample, rooms, given.seed) for room, every in known.items()}
    if given.list:
        for mutant in (mutant for some in chosen.values() for mutant in some):
            print(_told(mutant))
        print(f"{sum(map(len, chosen.values()))} of {sum(map(len, known.values()))} mutants.")
        return
    outcomes = _try(chosen, listed, earlier, record=given.record)
    _show(known, outcomes, listed)
    survivors = [mutant for mutant, outcome in outcomes.items() if outcome == "survived"]
    if survivors or gone:
        sys.exit(1)


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--room", action="append", choices=list(ROOMS), help="May be repeated. Default: all.")
    options.add_argument("--sample", type=int, help="So many in all, as many of each room. Default: every mutant.")
    options.add_argument("--seed", type=int, default=0, help="Of the sample.")
    options.add_argument("--list", action="store_true", help="Say what would be tried.")
    options.add_argument("--survivors", action="store_true", help="Those that survived when last tried.")
    options.add_argument("--record", type=Path, default=ROOT / "runs" / "mutations.jsonl")
    return options.parse_args()


def _try(
    chosen: dict[str, list[Mutant]], listed: Sequence[Equivalent], earlier: list[dict[str, Any]], *, record: Path
) -> dict[Mutant, str]:
    """What became of each, from the record or by trying."""
    tree = _digest()
    done = {line["id"]: line["outcome"] for line in earlier if line["tree"] == tree}
    outcomes: dict[Mutant, str] = {}
    record.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for room, some in chosen.items():
            limit = None
            for mutant in some:
                if any(entry.is_about(mutant) for entry in listed):
                    outcomes[mutant] = "equivalent"
                    continue
                if mutant.id not in done:
                    limit = limit or _limit(copy, room)
                    began = time.perf_counter()
                    done[mutant.id] = copy.survives(mutant, ROOMS[room], limit=limit)
                    seconds = round(time.perf_counter() - began, 1)
                    told = {"id": mutant.id, "tree": tree, "outcome": done[mutant.id], "seconds": seconds}
                    fields = {name: getattr(mutant, name) for name in ("path", "within", "line", "operator")}
                    changed = {"before": _spaced(mutant.before), "after": _spaced(mutant.after)}
                    with record.open("a") as file:
                        file.write(json.dumps({**told, "room": room, **fields, **changed}) + "\n")
                    print(f"{done[mutant.id]:9} {seconds:6.1f} s  {_told(mutant)}", flush=True)
                outcomes[mutant] = done[mutant.id]
    return outcomes


def _limit(copy: Copy, room: str) -> float:
    """Seconds after which a mutant of this room counts as hung; its tests must pass without one."""
    began = time.perf_counter()
    if copy.survives(None, ROOMS[room], limit=None) != "survived":
        sys.exit(f"The tests of {room} fail without any mutation:\n{copy.output[-3000:]}")
    return max(LEAST, SLOW * (time.perf_counter() - began))


def _show(known: dict[str, list[Mutant]], outcomes: dict[Mutant, str], listed: Sequence[Equivalent]) -> None:
    table = Table("room", "mutants", "tried", "killed", "timeout", "equivalent", "survived")
    total: Counter[str] = Counter()
    for room, every in known.items():
        count = Counter(outcomes[mutant] for mutant in every if mutant in outcomes)
        numbers = {"mutants": len(every), "tried": count.total(), **count}
        total.update(numbers)
        table.add_row(room, *(str(numbers.get(name, 0)) for name in COLUMNS))
    table.add_row("all", *(str(total[name]) for name in COLUMNS), style="bold")
    CONSOLE.print(table)
    for mutant, outcome in outcomes.items():
        if outcome == "survived":
            CONSOLE.print(f"survived: {_told(mutant)}", markup=False)
    for entry in listed:
        if any(entry.is_about(mutant) for mutant in outcomes):
            CONSOLE.print(f"equivalent: {entry.path}, {entry.within}: {entry.after}: {entry.reason}", markup=False)


COLUMNS = ("mutants", "tried", "killed", "timeout", "equivalent", "survived")


def _of_room(room: str) -> Iterator[Mutant]:
    place = ROOT / SOURCE / room
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        yield from mutants(path.read_bytes(), str(path.relative_to(ROOT / SOURCE)))


def _left_behind(folder: str, names: list[str]) -> set[str]:
    made = {name for name in names if name.endswith("_cache") or name in ("__pycache__", ".hypothesis")}
    return made | (LEFT_BEHIND & set(names) if Path(folder) == ROOT else set())


def _room_of(path: str) -> str | None:
    return next((room for room in ROOMS if path == room or path.startswith(f"{room}/")), None)


def _sample(every: list[Mutant], size: int | None, rooms: Sequence[str], seed: int) -> list[Mutant]:
    """As many of each room, by the digest of seed and mutant; in the order of the source."""
    if size is None:
        return every
    share = -(-size // len(rooms))
    drawn = sorted(every, key=lambda mutant: hashlib.sha256(f"{seed} {mutant.id}".encode()).digest())[:share]
    return [mutant for mutant in every if mutant in drawn]


def _read(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def _digest() -> str:
    """Of every file that decides what becomes of a mutant."""
    whole = hashlib.sha256()
    for path in sorted((*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"))):
        whole.update(str(path.relative_to(ROOT)).encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:12]


def _told(mutant: Mutant) -> str:
    where = f"{mutant.path}:{mutant.line} ({mutant.within})"
    return f"{mutant.id} {where} {mutant.operator}: {_spaced(mutant.before)} -> {_spaced(mutant.after)}"


def _spaced(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
