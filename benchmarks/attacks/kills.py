"""Kill runs at random moments, resume them, and compare every chained byte with an undisturbed run.

    python benchmarks/attacks/kills.py --count 1000 --mujoco 100

SIGKILL strikes one to three times in a study's life, at moments drawn uniformly over the time that a whole run
takes; a run that finished before its moment came is not counted. Linear-quadratic studies (four seeds, one arm or
two) run in forked processes and, one in ten, as commands with two workers; MuJoCo studies (cartpole) under a light
agent in forked processes and, one in ten, under the bundled world model as commands. Exits 1 at the first study
that does not resume, does not verify, or differs in a byte.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import studies

from worldfork.lab.run import run
from worldfork.ledger.verify import verify


class Attack:
    """One registration, its undisturbed study, and how long that takes."""

    def __init__(self, name: str, root: Path, text: str, *, mode: str) -> None:
        self.path, self.root, self.mode = root / f"{name}.toml", root / name, mode
        self.root.mkdir()
        self.path.write_text(text)
        self.cache = root / "compiled" if mode == "mujoco" else None
        for folder in ("warm", "reference"):
            began = time.perf_counter()
            self.resume(self.root / folder)
            self.seconds = time.perf_counter() - began
        self.expected = studies.chained(self.root / "reference")
        self.studies = 0

    def resume(self, folder: Path) -> None:
        """Run to the end; whatever goes wrong ends the attack."""
        if self.mode == "forked":
            status = studies.in_a_child(lambda: run(self.path, folder, probe=False))
            message = ""
        else:
            done = studies.finish(*self._arguments(folder), cache=self.cache)
            status, message = done.returncode, done.stderr
        if status:
            sys.exit(f"{folder.name} of {self.path.stem} did not resume (status {status}): {message}")

    def strike(self, folder: Path, moment: float) -> bool:
        """Run, and kill it after `moment` seconds; whether it was still running."""
        if self.mode == "forked":
            status = studies.in_a_child(lambda: run(self.path, folder, probe=False), kill_after=moment)
            return status == signal.SIGKILL
        process = subprocess.Popen(
            studies.command(*self._arguments(folder)),
            env=studies.environment(self.cache),
            cwd=studies.ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return True
        return False

    def one_study(self, chance: random.Random) -> int:
        """Kill a study's runs up to three times, resume it, and compare; how many kills struck."""
        self.studies += 1
        folder = self.root / f"study-{self.studies}"
        moments = [chance.uniform(0, self.seconds) for _ in range(chance.randint(1, 3))]
        struck = sum(self.strike(folder, moment) for moment in moments)
        self.resume(folder)
        found = studies.chained(folder)
        differing = sorted(name for name in {*found, *self.expected} if found.get(name) != self.expected.get(name))
        verdict = verify(folder)
        if differing or verdict.problems or not verdict.complete:
            sys.exit(f"{self.path.stem}, killed at {moments}: {differing} differ; {verdict.problems}")
        return struck

    def _arguments(self, folder: Path) -> list[str | Path]:
        return ["run", self.path, "-o", folder, "--quiet", *(["--workers", "2"] if self.mode == "workers" else [])]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=40, help="Kills that struck, in all.")
    options.add_argument("--mujoco", type=int, default=4, help="Of these, in studies of the simulator.")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        texts = studies.variants()[: max(1, given.count // 10)]
        small = [Attack(f"lq-{number}", root, text, mode="forked") for number, text in enumerate(texts)]
        workers = Attack("lq-workers", root, texts[0], mode="workers")
        kills = {"linear-quadratic": 0, "mujoco": 0}
        while kills["linear-quadratic"] < given.count - given.mujoco:
            attack = workers if chance.random() < 0.1 else chance.choice(small)
            kills["linear-quadratic"] += attack.one_study(chance)
            tell(kills)
        simulated = []
        if given.mujoco:
            light = Attack("light", root, studies.LIGHT_CARTPOLE, mode="forked")
            simulated = [light, Attack("mujoco", root, studies.CARTPOLE, mode="mujoco")]
        while kills["mujoco"] < given.mujoco:
            kills["mujoco"] += simulated[chance.random() < 0.1].one_study(chance)
            tell(kills)
        count = sum(attack.studies for attack in (*small, workers, *simulated))
        print(
            f"{kills['linear-quadratic']} kills of linear-quadratic and {kills['mujoco']} of MuJoCo runs in "
            f"{count} studies: every one resumed to the bytes of an undisturbed run."
        )


def tell(kills: dict[str, int]) -> None:
    """Say how far it is, for whoever waits."""
    print(", ".join(f"{count} {name}" for name, count in kills.items()), end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
