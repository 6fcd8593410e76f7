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

__all__ = ["PAIR", "check_simulator", "examine_pair"]

PAIR: Final = "What `save` returns, `restore` puts back"
PAIRS: Final = (("get_state", "set_state"), ("save_state", "restore_state"), ("save", "restore"))
STEPS: Final = 12
PLACES: Final = (0, 3, 9)  # steps after the beginning at which a world is saved
PUT_BACK: Final = "`restore` sets every number that `save` returns, and nothing else changes them."


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


class _Simulator:
    """A simulator, and the ways to save it and lead it somewhere."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.env = make()
        inner = getattr(self.env, "unwrapped", self.env)
        pairs = [(owner, *pair) for pair in PAIRS for owner in (self.env, inner) if _has(owner, pair)]
        self.owner: Any = pairs[0][0] if pairs else None  # the environment, or the one inside its wrappers
        self.saving, self.restoring = pairs[0][1:] if pairs else ("", "")

    def begin(self, seed: int) -> None:
        self.start = self.env.reset(seed=seed)
        if hasattr(self.env, "action_space"):
            self.env.action_space.seed(seed)

    def save(self) -> Any:
        return copy.deepcopy(self.env) if self.owner is None else getattr(self.owner, self.saving)()

    def restore(self, saved: Any) -> None:
        if self.owner is None:
            self.env = copy.deepcopy(saved)
        else:
            getattr(self.owner, self.restoring)(copy.deepcopy(saved))

    def steps(self, count: int, *, seed: int) -> list[Any]:
        """Return what some steps from here on show and earn; an end of the episode ends them."""
        space, shown = self.env.action_space, list[Any]()
        space.seed(seed)
        for _ in range(count):
            observation, reward, *ends = self.env.step(space.sample())
            shown += [copied(observation), np.array(reward)]
            if any(bool(ended) for ended in ends[:-1]):
                break
        return shown


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
        shown = []
        for _ in range(2):
            simulator = _Simulator(self.make)
            simulator.begin(3)
            shown.append([copied(simulator.start), simulator.steps(STEPS, seed=5)])
        seen = "two new simulators were reset with one seed, took the same steps, and differ"
        demand_same(shown[0], shown[1], seen, "Draw from a generator of its own, which `reset(seed=...)` seeds.")

    @rule(PAIR, foundation=True)
    def restores(self) -> None:
        for place in PLACES:
            simulator, stranger = _Simulator(self.make), _Simulator(self.make)
            simulator.begin(3)
            simulator.steps(place, seed=place)
            saved = simulator.save()
            kept = copy.deepcopy(saved)
            went_on = simulator.steps(STEPS, seed=7)
            data = simulator.owner is not None and _is_data(saved)
            if data:
                demand_same(kept, saved, "what `save` returned changed while the world went on", "Return a copy.")
            stranger.begin(11)
            stranger.steps(STEPS, seed=99)
            for other, where in ((simulator, "in the same object"), (stranger, "in one that had been elsewhere")):
                other.restore(kept)
                if data:
                    seen = f"restored {where}, `{other.saving}` returns something else"
                    demand_same(kept, other.save(), seen, PUT_BACK)
                way = f"by `{other.restoring}`" if other.owner is not None else "as a deep copy"
                demand_same(
                    went_on,
                    other.steps(STEPS, seed=7),
                    f"saved after {place} steps, restored {way} {where} and stepped again, it went elsewhere",
                    "Something that steps depend on is left out: a generator, the solver's warm start, a count of "
                    "steps, the last action, a task's target.",
                )

    @rule("Another simulator beside it changes nothing")
    def stands_alone(self) -> None:
        alone, beside, other = (_Simulator(self.make) for _ in range(3))
        for simulator in (alone, beside):
            simulator.begin(3)
        expected = alone.steps(4, seed=1) + alone.steps(4, seed=2)
        came = beside.steps(4, seed=1)
        other.begin(9)
        other.steps(6, seed=8)
        came += beside.steps(4, seed=2)
        seen = "stepping another simulator in between changed what this one showed"
        demand_same(expected, came, seen, "Keep everything in the object: nothing in its class, module or server.")


def _has(owner: Any, pair: tuple[str, str]) -> bool:
    return all(callable(getattr(owner, name, None)) for name in pair)


def _is_data(state: Any) -> bool:
    """Return True for what can be compared number by number."""
    if isinstance(state, dict):
        return all(map(_is_data, state.values()))
    if isinstance(state, list | tuple):
        return all(map(_is_data, state))
    return isinstance(state, np.ndarray | np.generic | bool | int | float | str | None)


def examine_pair(plugin: RestorablePlugin) -> None:
    """Save a simulator at several places, lead it elsewhere, restore it there and in a new one, and compare."""
    for place in PLACES:
        simulation = PairedSimulation(plugin)
        simulation.begin(3)
        for action in _actions(simulation, place, seed=place):
            simulation.advance(action)
        simulation.save()  # refuses what is not numbers on one axis
        saved = plugin.save(simulation._env)  # the author's array, and not a copy of it
        saved = (
            saved if isinstance(saved, np.ndarray) and saved.dtype == np.float64 else np.array(saved, np.float64)
        )
        kept = saved.copy()
        generator = _generator(simulation)
        went_on = _steps(simulation)
        drawn_from = generator if _generator(simulation) != generator else None
        seen = "the array that `save` returned changed while the world went on"
        demand_same(kept, saved, seen, "Return a copy.")
        stranger = PairedSimulation(plugin)
        stranger.begin(11)
        for action in _actions(stranger, STEPS, seed=99):
            stranger.advance(action)
        for other, where in (
            (simulation, "in the same object"),
            (stranger, "in an object that had been elsewhere"),
        ):
            _restore_and_compare(other, kept, went_on, drawn_from=drawn_from, where=where)
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


def _restore_and_compare(
    simulation: PairedSimulation, saved: np.ndarray, went_on: Any, *, drawn_from: Any, where: str
) -> None:
    simulation.restore(saved)
    again = np.array(simulation.save())
    count = f"`save` returned {len(saved)} numbers, and {len(again)} once restored {where}."
    demand(again.shape == saved.shape, count, PUT_BACK)
    demand_same(saved, again, f"restored {where}, `save` returns something else", PUT_BACK)
    lost = drawn_from is not None and _generator(simulation) != drawn_from
    text = difference(went_on, _steps(simulation))
    advice = (
        "The simulator draws from its generator as it steps: keep that too (generator_numbers, restore_generator)."
        if lost
        else "`save` leaves out something that steps depend on: a count, a warm start, the last action."
    )
    demand(not text, f"saved, stepped, restored {where} and stepped again, it went elsewhere ({text}).", advice)


def _steps(simulation: PairedSimulation) -> list[np.ndarray]:
    """Return what some steps from here on show and earn; an end of the episode ends them."""
    shown: list[np.ndarray] = []
    for action in _actions(simulation, STEPS, seed=7):
        done = simulation.advance(action)
        shown += [done.observation, np.array(done.reward)]
        if done.terminated or done.truncated:
            break
    return shown


def _actions(simulation: PairedSimulation, count: int, *, seed: int) -> np.ndarray:
    reach = min(1.0, simulation.action_bound)
    return np.random.default_rng(seed).uniform(-reach, reach, (count, simulation.action_size))


def _generator(simulation: PairedSimulation) -> Any:
    """Return the state of the simulator's own generator, if it has Gymnasium's."""
    generator = getattr(getattr(simulation._env, "unwrapped", simulation._env), "np_random", None)
    return generator.bit_generator.state if isinstance(generator, np.random.Generator) else None
