"""What UPDATE's learning rate does at two forks of a study, by a few episodes of each: a look, not a result.

    python benchmarks/update_rate.py runs/scope walker-walk --episodes 4

The first fork of `away` (one episode of data, hardly any drift) and the last of `toward` (all of the stream, the
drift over), of the first arm's first checkpoint. The windows are the ledger's, minibatches and episodes are new
ones. Needs the study as it was run, with models and windows; ten minutes on two CPU cores for the paper's walker.
"""

import argparse
from pathlib import Path

from worldfork.lab.accelerator import pin_compiler

pin_compiler()

import numpy as np  # noqa: E402  (after the compiler is pinned)

from worldfork.lab.agents import arrays  # noqa: E402
from worldfork.lab.episodes import Draws, roll_out  # noqa: E402
from worldfork.lab.forks.bench import Bench  # noqa: E402
from worldfork.lab.stream import Recording  # noqa: E402
from worldfork.lab.stream.windows import window  # noqa: E402
from worldfork.ledger.store import Study  # noqa: E402
from worldfork.randomness import Event, Purpose, words  # noqa: E402
from worldfork.registration import Cell, cells  # noqa: E402


def look(study: Study, bench: Bench, cell: Cell, k: int, *, rates: list[float], episodes: int) -> str:
    """dR of one fork at each share of the registered rate, beside the ledger's."""
    arm, env = study.registration.arm(cell.arm), bench.environment(cell.task)
    agent, checkpoint = bench.agent(cell.task, arm), bench.checkpoint(cell.task, cell.checkpoint)
    folder = study.cell(cell.id)
    row, recording = folder.rows()[k - 1], Recording(**folder.read_stream()[1])
    keys = words(Event(purpose=Purpose.UPDATE_BATCH, fork=k))[None]
    fitted = [
        agent.fit(
            checkpoint.parameters,
            checkpoint.optimiser,
            window([recording], [k]),
            steps=arm.mechanism.steps,
            scope=arm.mechanism.scope,
            batch_keys=keys,
            rate=rate,
        )
        for rate in rates
    ]
    branches = arrays.concatenate([checkpoint.parameters, *(fit.parameters for fit in fitted)])
    event = Event(purpose=Purpose.CALIBRATION, task=cell.task, fork=k)
    rolled = roll_out(
        agent,
        env,
        branches,
        Draws.of([event] * (1 + len(rates)), np.arange(episodes)),
        levels=np.full((1 + len(rates), env.episode_steps), row.level),
        action_noise=arm.stream.action_noise,
    )
    hold, *updated = rolled.returns.mean(1)
    found = ", ".join(
        f"{value - hold:+.0f} at {rate:g} x the rate (loss {fit.loss_before[0]:.1f} -> {fit.loss_after[0]:.1f})"
        for rate, value, fit in zip(rates, updated, fitted, strict=True)
    )
    return f"{cell.id} k = {k}: dR {found}; HOLD {hold:.0f}. Ledger: {row.delta:+.0f}, HOLD {row.r_hold:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("task")
    parser.add_argument("--rates", type=float, nargs="+", default=[1.0, 0.25, 0.1], help="shares of the agent's")
    parser.add_argument("--episodes", type=int, default=4)
    given = parser.parse_args()
    study = Study(given.study)
    bench = Bench(study.registration, given.study / "checkpoints")
    arm = study.registration.arms[0]
    for direction, k in (("away", 1), ("toward", arm.stream.decision_points)):
        cell = next(
            one
            for one in cells(study.registration)
            if (one.arm, one.task, one.direction) == (arm.name, given.task, direction)
        )
        print(look(study, bench, cell, k, rates=given.rates, episodes=given.episodes), flush=True)


if __name__ == "__main__":
    main()
