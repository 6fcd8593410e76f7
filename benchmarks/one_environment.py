"""Decisions per second of one environment, by how its agent acts, and whether all ways give the same bits.

    python benchmarks/one_environment.py                            # TD-MPC2's planner setting: 512 x 3 x 6
    python benchmarks/one_environment.py --size tiny --candidates 64 --iterations 2 --steps 10

`general` is what every batch can do: filter and plan are two programs, and parameters are prepared at every control
step. `frozen` is what one environment does on a GPU with the kernel: parameters prepared once, one program between
observation and action that writes the action where the host reads it, its search in a loop or with its
iterations written out. `copied` leaves the action in the device's memory, and copies it once it is done. `awake`
asks the device again and again whether it is done, where otherwise the thread sleeps: a thread that has slept finds
its caches cold. `nothing computed` has programs of the same arguments whose answers are zeros: what is left is the
host's own time. With --more-shapes batches of four are compared too; outside of here they act the general way.

`planner` is one plan alone, the fastest of many: from the call of the agent until its action is here. The line
that begins with `step` is of a whole roll-out and adds up to its control step, in means over its steps:

    queued     the agent is called, and returns: the device has been told all that it has to do
    arriving   until the action is here: the device computes, and Python does what the step before left to do
    deciding   from there until the simulator is called
    physics    the simulator
    observing  from there until the agent is called again
    a start    what a roll-out takes beside its steps, divided by their number

`host` is the processor time of the thread that does all of this. `same` is `queued` when plan follows upon plan and
every call passes the same arrays; `fetch` is the way of an action from a device that is done to here. The last line
says how long the call of each compiled program takes to return. The device has nothing to do until the first does.
"""

import argparse
import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

import worldfork.lab  # noqa: F401  (pins the compiler before JAX starts)
from worldfork.lab.agents.base import Decision
from worldfork.lab.agents.rssm_cem import RSSMCEMPlugin, small_batch
from worldfork.lab.agents.rssm_cem.agent import RSSMCEM
from worldfork.lab.agents.rssm_cem.model.rssm import Latent
from worldfork.lab.agents.rssm_cem.planning import available
from worldfork.lab.agents.rssm_cem.small_batch import Settings
from worldfork.lab.environments import load
from worldfork.lab.environments.base import Environment
from worldfork.lab.episodes import Draws, Rolled, roll_out
from worldfork.lab.episodes.rolling import ready
from worldfork.lab.planner import cem
from worldfork.lab.programs import Program
from worldfork.randomness import Event, Purpose

PARTS = ("queued", "arriving", "deciding", "physics", "observing")
GENERAL, USED, NOTHING = "general, loop", "frozen, written out (used)", "used, nothing computed"
VARIANTS: dict[str, dict[str, bool]] = {
    GENERAL: {"frozen": False, "unrolled": False},
    "frozen, loop": {"frozen": True, "unrolled": False},
    USED: {"frozen": True, "unrolled": True},
    "the same, copied": {"frozen": True, "unrolled": True, "copied": True},
    "used, waiting awake": {"frozen": True, "unrolled": True, "awake": True},
    NOTHING: {"frozen": True, "unrolled": False, "empty": True},
}


@contextlib.contextmanager
def acting(
    *, frozen: bool, unrolled: bool, awake: bool = False, empty: bool = False, copied: bool = False
) -> Iterator[None]:
    """Within this context agents act in this way; programs are compiled anew."""
    kept = RSSMCEM.frozen, cem.plan, small_batch._Columns.__array__
    programs = small_batch._planning_on, small_batch._respond, small_batch._advance

    def as_they_are(self: RSSMCEM, parameters: Any, *, sets: int, episodes: int) -> Any:
        return parameters

    def forced(self: RSSMCEM, parameters: Any, *, sets: int, episodes: int) -> Any:
        kernel = self.fused and available(self.imagined, self.planner.candidates)
        return small_batch.freeze(parameters, self.compiled_for, kernel=kernel)

    def plan(*arguments: Any, **settings: Any) -> cem.Plan:
        return kept[1](*arguments, **{**settings, "unrolled": unrolled})

    def awaited(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        while not self.whole.is_ready():
            pass
        return kept[2](self, dtype, copy)

    jax.clear_caches()
    RSSMCEM.frozen = forced if frozen else as_they_are  # type: ignore[method-assign]
    cem.plan = plan
    if awake:
        small_batch._Columns.__array__ = awaited  # type: ignore[method-assign]
    if empty:
        small_batch._respond = no_plan
        small_batch._advance = Program(no_advance, static_argnums=0, keep_unused=True)
    small_batch._planning_on = functools.cache(functools.partial(planning_on, copied=copied, keep_unused=empty))
    try:
        yield
    finally:
        small_batch._planning_on, small_batch._respond, small_batch._advance = programs
        RSSMCEM.frozen, cem.plan, small_batch._Columns.__array__ = kept  # type: ignore[method-assign]


def no_plan(settings: Settings, correcting: Any, planning: Any, deter: Any, warm: Any, given: Any) -> Any:
    """Zeros where `responding._respond` has a plan."""
    model = settings.model
    answer = 0.0 * jnp.abs(warm[:, :, 0, :1]) * jnp.ones(model.action_size + 1)
    return answer, answer, jnp.zeros((*given.shape[:2], model.groups * model.classes)), 0.0 * warm


def no_advance(settings: Settings, params: Any, latent: Latent, answer: Any) -> Any:
    """Zeros where `responding._advance` says where an action leads."""
    return 0.0 * latent.deter


def planning_on(device: jax.Device, *, copied: bool, keep_unused: bool) -> Callable[..., Any]:
    """`responding._planning_on`; `copied` starts to copy the action once it is computed."""
    host = None if copied else SingleDeviceSharding(device, memory_kind="pinned_host")
    places = (host, None, None, None)
    planned = Program(small_batch._respond, static_argnums=0, out_shardings=places, keep_unused=keep_unused)

    def fetched(*arguments: Any) -> Any:
        answers = planned(*arguments)
        answers[0].copy_to_host_async()
        return answers

    return fetched if copied else planned


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


class Watched:
    """An agent or an environment whose calls leave the moments at which they began and ended."""

    def __init__(self, watched: Any, moments: list[float]) -> None:
        self._watched, self._moments = watched, moments

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watched, name)

    def act(self, *arguments: Any) -> Decision:
        self._moments.append(time.perf_counter())
        decision = self._watched.act(*arguments)
        self._moments.append(time.perf_counter())
        return dataclasses.replace(decision, action=Arrival(decision.action, self._moments))

    def step(self, *arguments: Any) -> Any:
        self._moments.append(time.perf_counter())
        answer = self._watched.step(*arguments)
        self._moments.append(time.perf_counter())
        return answer


@dataclasses.dataclass(frozen=True)
class Arrival:
    """An action that leaves the moment at which it is here."""

    action: Any
    moments: list[float]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = np.asarray(self.action, dtype)
        self.moments.append(time.perf_counter())
        return values


@contextlib.contextmanager
def calls_timed(programs: dict[str, float]) -> Iterator[None]:
    """Within this context calls of compiled programs add the seconds until they return, by the program's name."""
    kept = Program.__call__

    def timed(self: Program[Any], *arguments: Any, **named: Any) -> Any:
        start = time.perf_counter()
        answer = kept(self, *arguments, **named)
        name = self.__wrapped__.__name__  # type: ignore[attr-defined]
        programs[name] = programs.get(name, 0.0) + time.perf_counter() - start
        return answer

    Program.__call__ = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        Program.__call__ = kept  # type: ignore[method-assign]


def along(
    agent: RSSMCEM, env: Environment, parameters: dict[str, Any], steps: int, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of a control step of the fastest of several roll-outs, of its parts, and of its programs' calls."""
    fastest: dict[str, float] = {}
    called: dict[str, float] = {}
    for _ in range(rounds + 1):  # the first one compiles
        moments: list[float] = []
        watched: tuple[Any, Any] = (Watched(agent, moments), Watched(env, moments))
        begun, worked = time.perf_counter(), time.thread_time()
        programs: dict[str, float] = {}
        with calls_timed(programs):
            rolled(*watched, parameters, episodes=1, steps=steps, trace=False)
        whole, worked = time.perf_counter() - begun, time.thread_time() - worked
        each = np.array(moments).reshape(steps, len(PARTS))  # the first moment of each part
        apart = np.diff(np.append(each.ravel(), np.nan)).reshape(each.shape)
        parts = dict(zip(PARTS, np.nanmean(apart, axis=0).tolist(), strict=True))
        start = whole / steps - sum(parts.values())
        if not fastest or whole / steps < fastest["step"]:
            fastest = {"step": whole / steps, **parts, "a start": start, "host": worked / steps}
            called = {name: seconds / steps for name, seconds in programs.items()}
    return fastest, called


def alone(agent: RSSMCEM, env: Environment, parameters: dict[str, Any], count: int) -> dict[str, float]:
    """Seconds of the agent's calls one by one, and of one step of physics: the fastest of `count`."""
    held = ready(agent, parameters, (1, 1))
    state = env.reset(np.zeros(1, np.int64))
    observation = state.observation.reshape(1, 1, -1)
    keys = np.arange(2, dtype=np.uint32).reshape(1, 1, 2)
    belief = agent.observe(held, agent.act(held, agent.begin(held, observation), keys).belief, observation).belief
    times: dict[str, list[float]] = {"planner": [], "same": [], "fetch": []}
    for _ in range(count):
        start = time.perf_counter()
        decision = agent.act(held, belief, keys)
        times["same"].append(time.perf_counter() - start)
        np.asarray(decision.action)
        times["planner"].append(time.perf_counter() - start)
        jax.block_until_ready(decision.belief)
        decision = agent.act(held, belief, keys)
        computed = getattr(decision.action, "whole", decision.action)  # the array on the device
        while not computed.is_ready():
            pass
        start = time.perf_counter()
        np.asarray(decision.action)
        times["fetch"].append(time.perf_counter() - start)
        jax.block_until_ready(decision.belief)
    filtering = lambda: jax.block_until_ready(list(agent.observe(held, decision.belief, observation).belief))  # noqa: E731
    action = np.zeros((1, env.action_size))
    once = {"filter": best(filtering, count), "physics alone": best(lambda: env.step(state, action), count)}
    return {**{name: min(values) for name, values in times.items()}, **once}


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
    parser.add_argument("--only", action="append", choices=VARIANTS, help="this way alone; may be repeated")
    given = parser.parse_args()
    env = load(given.task)
    settings = {name: getattr(given, name) for name in ("size", "candidates", "horizon", "iterations")}
    elites = max(2, given.candidates // 8)
    agent = RSSMCEMPlugin(**settings, elites=elites).build(env, precision=given.precision)
    kernel = "the kernel" if available(agent.imagined, given.candidates) else "XLA"
    search = f"{given.candidates} x {given.horizon} x {given.iterations}"
    print(f"{given.task}, {given.size}, {search}, {given.precision} through {kernel}, {agent.device}", flush=True)
    print(f"{'':30}{'decisions/s':>12}{'planner/s':>12}   milliseconds, and bits compared with the first")
    compared = ((1, 1), (1, 4), (2, 2)) if given.more_shapes else ((1, 1),)
    shapes = {(sets, episodes): parameters_of(agent, sets) for sets, episodes in compared}
    known: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    for name in given.only or VARIANTS:
        variant, begun = VARIANTS[name], time.perf_counter()
        with acting(**variant):
            row, programs = along(agent, env, shapes[1, 1], given.steps, given.rounds)
            row |= alone(agent, env, shapes[1, 1], 20 * given.rounds)
            verdicts = []
            for shape, parameters in () if name == NOTHING else shapes.items():
                if shape != (1, 1) and name not in (GENERAL, USED):
                    continue
                outcome = rolled(agent, env, parameters, episodes=shape[1], steps=given.steps, trace=True)
                here = numbers(outcome)
                verdicts.append(verdict(here, known.setdefault(shape, here)))
        speeds = f"{1 / row['step']:12,.0f}{1 / row['planner']:12,.0f}"
        print(f"{name:30}{speeds}   {'; '.join(verdicts)} [{time.perf_counter() - begun:.0f} s]")
        for columns in (
            ("step", *PARTS, "a start"),
            ("planner", "same", "fetch", "filter", "physics alone", "host"),
        ):
            print(" " * 10 + "  ".join(f"{column} {1e3 * row[column]:.3f}" for column in columns))
        print(" " * 10 + "  ".join(f"{name} {1e3 * each:.3f}" for name, each in programs.items()), flush=True)


if __name__ == "__main__":
    main()
