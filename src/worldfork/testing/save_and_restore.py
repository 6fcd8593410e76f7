"""Contract of a pair of functions that save and restore a simulator: what is put back is everything.

A simulator of Gymnasium's kind (`reset(seed=...)`, `step(action)`) is examined as it is, with no plug-in around it,
by `check_simulator`: with its own pair of methods, or else copied as a whole.
"""

import copy
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from worldfork.lab.agents.stateful import copied
from worldfork.lab.environments.restorable import PairedSimulation, RestorablePlugin
from worldfork.testing.contract import Report, demand, demand_same, difference, examine, name_of, rule

PAIR: Final = "What `save` returns, `restore` puts back"
PAIRS: Final = (("get_state", "set_state"), ("save_state", "restore_state"), ("save", "restore"))
STEPS: Final = 12
PLACES: Final = (0, 3, 9)  # steps after the beginning at which a world is saved
PUT_BACK: Final = "`restore` sets every number that `save` returns, and nothing else changes them."
DRAWN: Final = "It draws from its generator as it steps: keep that too (generator_numbers, restore_generator)."
LEFT_OUT: Final = (
    "`save` leaves out something that steps depend on: a generator, the solver's warm start, a count of steps, the "
    "last action, a task's target."
)


def check_simulator(make: Callable[[], Any]) -> Report:
    """Examine a simulator with Gymnasium's `reset(seed=...)` and `step(action)`: can it be restored exactly?

    Args:
        make: a class or function that makes a new one. It is saved and restored by `get_state` and `set_state`,
            `save_state` and `restore_state`, or `save` and `restore`, whichever it has; else by `copy.deepcopy`.

    Raises:
        ContractError: with what was lost, and what is often forgotten.

    Example:
        >>> print(check_simulator(lambda: gymnasium.make("CartPole-v1").unwrapped))  # doctest: +SKIP
    """
    name = getattr(make, "__name__", name_of(make))
    return examine(f"The simulator `{name}`", _Bench(make))


def examine_pair(plugin: RestorablePlugin) -> None:
    """Examine the pair of a plug-in: what `restore` puts back is everything, and drift is set and read."""
    _examine_restoring(lambda: _Paired(plugin))
    simulation = PairedSimulation(plugin)
    nominal = simulation.parameters()
    simulation.set_factor(0.5)
    drifted = simulation.parameters()
    simulation.set_factor(1.0)
    back = simulation.parameters()
    seen, remedy = f"with the factor 0.5 `read` still says {drifted}.", "`drift` sets it, and `read` reads it back."
    demand(drifted != nominal, seen, remedy)
    seen = f"with the factors 0.5 and then 1 `read` says {back}, not {nominal}."
    demand(back == nominal, seen, "`drift` multiplies the nominal value, not the present one.")


class _Plain:
    """Simulator of Gymnasium's kind, with a pair of methods of its own or none.

    `way` says in words how it is restored, `steps` what some steps from here on show and earn (an end of the
    episode ends them), and `generator` the state of its own generator, if it has Gymnasium's.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self.env = make()
        inner = getattr(self.env, "unwrapped", self.env)
        pairs = [(owner, *pair) for pair in PAIRS for owner in (self.env, inner) if _has(owner, pair)]
        self.owner: Any = pairs[0][0] if pairs else None  # the environment, or the one inside its wrappers
        self.saving, self.restoring = pairs[0][1:] if pairs else ("", "")
        self.way = f"by `{self.restoring}` " if pairs else "as a deep copy "

    def begin(self, seed: int) -> Any:
        return copied(self.env.reset(seed=seed))

    def steps(self, count: int, *, seed: int) -> list[Any]:
        space, shown = self.env.action_space, list[Any]()
        space.seed(seed)
        for _ in range(count):
            observation, reward, *ends = self.env.step(space.sample())
            shown += [copied(observation), np.array(reward)]
            if any(bool(ended) for ended in ends[:-1]):
                break
        return shown

    def save(self) -> Any:
        return copy.deepcopy(self.env) if self.owner is None else getattr(self.owner, self.saving)()

    def restore(self, saved: Any) -> None:
        if self.owner is None:
            self.env = saved
        else:
            getattr(self.owner, self.restoring)(saved)

    def generator(self) -> Any:
        return _generator(self.env)


class _Paired:
    """Simulator of a plug-in, which saves and restores it; its methods are those of `_Plain`."""

    way = ""

    def __init__(self, plugin: RestorablePlugin) -> None:
        self.plugin, self.simulation = plugin, PairedSimulation(plugin)

    def begin(self, seed: int) -> Any:
        return self.simulation.begin(seed)

    def steps(self, count: int, *, seed: int) -> list[Any]:
        simulation, shown = self.simulation, list[Any]()
        reach = min(1.0, simulation.action_bound)
        for action in np.random.default_rng(seed).uniform(-reach, reach, (count, simulation.action_size)):
            done = simulation.advance(action)
            shown += [done.observation, np.array(done.reward)]
            if done.terminated or done.truncated:
                break
        return shown

    def save(self) -> Any:
        self.simulation.save()  # refuses what is not numbers on one axis
        return self.plugin.save(self.simulation._env)  # the author's own array, and not a copy of it

    def restore(self, saved: Any) -> None:
        self.simulation.restore(np.array(saved, np.float64))

    def generator(self) -> Any:
        return _generator(self.simulation._env)


class _Bench:
    """Bench of a plain simulator."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    @rule("A simulator has `reset`, `step` and an action space", foundation=True)
    def has_what_is_asked(self) -> None:
        env = self.make()
        missing = ", ".join(name for name in ("reset", "step", "action_space") if not hasattr(env, name))
        remedy = "As in Gymnasium: `reset(seed=...)`, `step(action)`, and a space with `seed` and `sample`."
        demand(not missing, f"what was made, a {type(env).__name__}, has no `{missing}`.", remedy)

    @rule("The same seed begins the same episode", foundation=True)
    def begins_alike(self) -> None:
        first, second = _Plain(self.make), _Plain(self.make)
        before, after = ([simulator.begin(3), simulator.steps(STEPS, seed=5)] for simulator in (first, second))
        seen = "two new simulators were reset with one seed, took the same steps, and differ"
        demand_same(before, after, seen, "Draw from a generator of its own, which `reset(seed=...)` seeds.")

    @rule(PAIR, foundation=True)
    def restores(self) -> None:
        _examine_restoring(lambda: _Plain(self.make))

    @rule("Another simulator beside it changes nothing")
    def stands_alone(self) -> None:
        alone, beside, other = (_Plain(self.make) for _ in range(3))
        for simulator in (alone, beside):
            simulator.begin(3)
        expected = alone.steps(4, seed=1) + alone.steps(4, seed=2)
        came = beside.steps(4, seed=1)
        other.begin(9)
        other.steps(6, seed=8)
        came += beside.steps(4, seed=2)
        seen = "stepping another simulator in between changed what this one showed"
        demand_same(expected, came, seen, "Keep everything in the object: nothing in its class, module or server.")


def _examine_restoring(make: Callable[[], _Plain | _Paired]) -> None:
    """Save a simulator at several places, lead it elsewhere, restore it there and in a new one, and compare."""
    for place in PLACES:
        subject, stranger = make(), make()
        subject.begin(3)
        subject.steps(place, seed=place)
        saved = subject.save()
        kept = copy.deepcopy(saved)
        generator = subject.generator()
        went_on = subject.steps(STEPS, seed=7)
        drawn_from = generator if subject.generator() != generator else None
        if data := _is_data(saved):
            demand_same(kept, saved, "what `save` returned changed while the world went on", "Return a copy.")
        stranger.begin(11)
        stranger.steps(STEPS, seed=99)
        for other, where in ((subject, "in the same object"), (stranger, "in one that had been elsewhere")):
            other.restore(copy.deepcopy(kept))
            if data:
                demand_same(kept, other.save(), f"restored {where}, `save` returns something else", PUT_BACK)
            lost = drawn_from is not None and other.generator() != drawn_from
            text = difference(went_on, other.steps(STEPS, seed=7))
            seen = f"saved after {place} steps, restored {other.way}{where} and stepped again, it went elsewhere"
            demand(not text, f"{seen} ({text}).", DRAWN if lost else LEFT_OUT)


def _has(owner: Any, pair: tuple[str, str]) -> bool:
    return all(callable(getattr(owner, name, None)) for name in pair)


def _is_data(state: Any) -> bool:
    """Return True for what can be compared number by number."""
    if isinstance(state, dict):
        return all(map(_is_data, state.values()))
    if isinstance(state, list | tuple):
        return all(map(_is_data, state))
    return isinstance(state, np.ndarray | np.generic | bool | int | float | str | None)


def _generator(env: Any) -> Any:
    generator = getattr(getattr(env, "unwrapped", env), "np_random", None)
    return generator.bit_generator.state if isinstance(generator, np.random.Generator) else None
