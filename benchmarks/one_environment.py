"""Decisions per second of one environment, by how its agent acts, and whether all ways give the same bits.

    python benchmarks/one_environment.py                            # TD-MPC2's planner setting: 512 x 3 x 6
    python benchmarks/one_environment.py --size tiny --candidates 64 --iterations 2 --steps 10

`general` is what every batch can do: filter and plan are two programs, and parameters are prepared at every control
step. `frozen` is what one environment does on a GPU with the kernel: parameters prepared once, one program between
observation and action, its search in a loop or with its iterations written out. With --more-shapes batches of four
are compared too; outside of here they act the general way.
"""

import argparse
import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import worldfork.lab  # noqa: F401  (pins the compiler before JAX starts)
from worldfork.lab.agents.rssm_cem import RSSMCEMPlugin, responding
from worldfork.lab.agents.rssm_cem.agent import RSSMCEM
from worldfork.lab.agents.rssm_cem.kernel import available
from worldfork.lab.environments import load
from worldfork.lab.environments.base import Environment
from worldfork.lab.episodes import Draws, Rolled, roll_out
from worldfork.lab.episodes.rolling import ready
from worldfork.lab.planner import cem
from worldfork.randomness import Event, Purpose

GENERAL, USED = "general, loop", "frozen, written out (used)"
VARIANTS: dict[str, dict[str, bool]] = {
    GENERAL: {"frozen": False, "unrolled": False},
    "frozen, loop": {"frozen": True, "unrolled": False},
    USED: {"frozen": True, "unrolled": True},
}


@contextlib.contextmanager
def acting(*, frozen: bool, unrolled: bool) -> Iterator[None]:
    """Within this context agents act in this way; programs are compiled anew."""
    kept = RSSMCEM.frozen, cem.plan

    def as_they_are(self: RSSMCEM, parameters: Any, *, sets: int, episodes: int) -> Any:
        return parameters

    def forced(self: RSSMCEM, parameters: Any, *, sets: int, episodes: int) -> Any:
        kernel = self.fused and available(self.imagined, self.planner.candidates)
        return responding.freeze(parameters, self.imagined, kernel=kernel)

    def plan(*arguments: Any, **settings: Any) -> cem.Plan:
        return kept[1](*arguments, **{**settings, "unrolled": unrolled})

    jax.clear_caches()
    RSSMCEM.frozen = forced if frozen else as_they_are  # type: ignore[method-assign]
    cem.plan = plan
    try:
        yield
    finally:
        RSSMCEM.frozen, cem.plan = kept  # type: ignore[method-assign]


def parameters_of(agent: RSSMCEM, sets: int) -> dict[str, Any]:
    """Fresh parameters with noise on all of them, so that candidates differ in what they are worth."""
    random = np.random.default_rng(0)
    fresh = agent.model.initialise(jax.random.key(0))
    noisy = {name: np.asarray(x) + 0.1 * random.normal(size=(sets, *x.shape)) for name, x in fresh.items()}
    return {name: jax.device_put(x.astype(np.float32)) for name, x in noisy.items()}


def best(call: Callable[[], Any], rounds: int) -> float:
    """Seconds of the fastest of several calls."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def rolled(
    agent: RSSMCEM, env: Environment, parameters: dict[str, Any], *, episodes: int, steps: int, trace: bool
) -> Rolled:
    """Some control steps of `episodes` episodes of each parameter set."""
    sets = len(next(iter(parameters.values())))
    events = [Event(purpose=Purpose.INITIAL_STATE, task=env.name, fork=p) for p in range(sets)]
    draws = Draws.of(events, np.arange(episodes))
    return roll_out(
        agent, env, parameters, draws, levels=np.zeros((sets, steps)), action_noise=0.0, halves=1, trace=trace
    )


def numbers(outcome: Rolled) -> dict[str, np.ndarray]:
    """What must not depend on how an agent acts."""
    assert outcome.trace is not None
    trace = outcome.trace
    kept = {"returns": outcome.returns, "actions": trace.action, "observations": trace.observation}
    return {**kept, "replaced": outcome.replaced, **trace.signals}


def verdict(here: dict[str, np.ndarray], first: dict[str, np.ndarray]) -> str:
    """Which numbers differ, and from which control step on actions do, by how much there."""
    other = [name for name, values in here.items() if not np.array_equal(values, first[name])]
    if not other:
        return "same bits"
    apart = np.abs(here["actions"] - first["actions"]).max(axis=(0, 1, 3))
    where = (
        f", actions from step {np.argmax(apart > 0)} on by {apart[np.argmax(apart > 0)]:.1e}" if apart.any() else ""
    )
    return "OTHER " + ", ".join(other) + where


def timed(
    agent: RSSMCEM, env: Environment, parameters: dict[str, Any], steps: int, rounds: int
) -> dict[str, float]:
    """Milliseconds of a control step, and of its parts: until the plan is queued, and until the action is here."""
    roll = functools.partial(rolled, agent, env, parameters, episodes=1, steps=steps, trace=False)
    roll()
    whole = best(roll, rounds) / steps
    held = ready(agent, parameters, (1, 1))
    state = env.reset(np.zeros(1, np.int64))
    observation = state.observation.reshape(1, 1, -1)
    keys = np.arange(2, dtype=np.uint32).reshape(1, 1, 2)
    belief = agent.observe(held, agent.act(held, agent.begin(held, observation), keys).belief, observation).belief
    queued, answered = [], []
    for _ in range(20 * rounds):
        start = time.perf_counter()
        decision = agent.act(held, belief, keys)
        queued.append(time.perf_counter() - start)
        np.asarray(decision.action)
        answered.append(time.perf_counter() - start)
        jax.block_until_ready(decision.belief)
    filtered = best(
        lambda: jax.block_until_ready(list(agent.observe(held, decision.belief, observation).belief)), 50
    )
    action = np.zeros((1, env.action_size))
    physics = best(lambda: env.step(state, action), 50)
    parts = {"step": whole, "planner": min(answered), "queued": min(queued), "filter": filtered, "physics": physics}
    return {name: 1e3 * seconds for name, seconds in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="cheetah-run")
    parser.add_argument("--size", default="compact")
    parser.add_argument("--candidates", type=int, default=512)
    parser.add_argument("--horizon", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--steps", type=int, default=100, help="control steps that are timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--more-shapes", action="store_true", help="compare batches of 1 x 4 and 2 x 2 as well")
    given = parser.parse_args()
    env = load(given.task)
    settings = {name: getattr(given, name) for name in ("size", "candidates", "horizon", "iterations")}
    elites = max(2, given.candidates // 8)
    agent = RSSMCEMPlugin(**settings, elites=elites).build(env, precision=given.precision)
    kernel = "the kernel" if available(agent.imagined, given.candidates) else "XLA"
    search = f"{given.candidates} x {given.horizon} x {given.iterations}"
    print(f"{given.task}, {given.size}, {search}, {given.precision} through {kernel}, {agent.device}", flush=True)
    columns = ("decisions/s", "planner/s", "step", "planner", "queued", "filter", "physics")
    print(f"{'':30}" + "".join(f"{column:>12}" for column in columns) + "   compared with the first")
    compared = ((1, 1), (1, 4), (2, 2)) if given.more_shapes else ((1, 1),)
    shapes = {(sets, episodes): parameters_of(agent, sets) for sets, episodes in compared}
    known: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    for name, variant in VARIANTS.items():
        begun = time.perf_counter()
        with acting(**variant):
            row = timed(agent, env, shapes[1, 1], given.steps, given.rounds)
            verdicts = []
            for shape, parameters in shapes.items():
                if shape != (1, 1) and name not in (GENERAL, USED):
                    continue
                outcome = rolled(agent, env, parameters, episodes=shape[1], steps=given.steps, trace=True)
                here = numbers(outcome)
                verdicts.append(verdict(here, known.setdefault(shape, here)))
        speeds = f"{1e3 / row['step']:12,.0f}{1e3 / row['planner']:12,.0f}"
        parts = "".join(f"{row[part]:12.3f}" for part in columns[2:])
        print(f"{name:30}{speeds}{parts}   {'; '.join(verdicts)} [{time.perf_counter() - begun:.0f} s]", flush=True)


if __name__ == "__main__":
    main()
