"""Contract of a pair of functions that save and restore a simulator: what is put back is everything.

A simulator of Gymnasium's kind (`reset(seed=...)`, `step(action)`) is examined as it is, with no plug-in around it,
by `check_simulator`: with its own pair of methods, or else copied as a whole.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import taken_by
from worldfork.lab.agents.stateful import copied
from worldfork.lab.environments.base import Environment
from worldfork.lab.environments.restorable import PairedSimulation, RestorablePlugin
from worldfork.testing.attributes import changed, contents, listed
from worldfork.testing.contract import Report, demand, demand_same, difference, examine, name_of, rule

PAIR: Final = "What `save` returns, `restore` puts back"
PAIRS: Final = (("get_state", "set_state"), ("save_state", "restore_state"), ("save", "restore"))
STEPS: Final = 12
LONG: Final = 1000  # steps that an episode is followed for, unless it ends before
PLACES: Final = (0, 3, 9)  # steps after the beginning at which a world is saved; and in the middle of an episode
PUT_BACK: Final = "`restore` sets every number that `save` returns, and nothing else changes them."
DRAWN: Final = "It draws from its generator as it steps: keep that too (generator_numbers, restore_generator)."
NAMED: Final = "Of these, put all that steps depend on into what `save` returns, and back in `restore`."
LEFT_OUT: Final = (
    "`save` leaves out something that steps depend on: a generator, the solver's warm start, a count of steps, the "
    "last action, a task's target."
)


def check_simulator(make: Callable[[], Any], *, steps: int = LONG) -> Report:
    """Examine a simulator with Gymnasium's `reset(seed=...)` and `step(action)`: can it be restored exactly?

    Args:
        make: a class or function that makes a new one. It is saved and restored by `get_state` and `set_state`,
            `save_state` and `restore_state`, or `save` and `restore`, whichever it has; else by `copy.deepcopy`.
        steps: how far an episode is followed that has not ended before. A time limit beyond it is not seen.

    Raises:
        ContractError: with what was lost, and what is often forgotten.

    Example:
        >>> print(check_simulator(lambda: gymnasium.make("CartPole-v1").unwrapped))  # doctest: +SKIP
    """
    name = getattr(make, "__name__", name_of(make))
    return examine(f"The simulator `{name}`", _Bench(make, steps))


def examine_pair(plugin: RestorablePlugin) -> str:
    """Examine the pair of a plug-in: what `restore` puts back is everything, and drift is set and read. Return how
    much was examined."""
    examined = _examine_restoring(lambda: _Paired(plugin), min(LONG, plugin.episode_steps * plugin.action_repeat))
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
    return examined


class Plain:
    """Simulator of Gymnasium's kind, with a pair of methods of its own or none.

    `way` says in words how it is restored.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self.env = make()
        inner = getattr(self.env, "unwrapped", self.env)
        pairs = [(owner, *pair) for pair in PAIRS for owner in (self.env, inner) if _has(owner, pair)]
        self.owner: Any = pairs[0][0] if pairs else None  # the environment, or the one inside its wrappers
        self.saving, self.restoring = pairs[0][1:] if pairs else ("", "")
        self.way = f"by `{self.restoring}` " if pairs else "as a deep copy "

    @property
    def action_space(self) -> Any:
        return self.env.action_space

    def reset(self, *, seed: int) -> Any:
        return self.env.reset(seed=seed)

    def step(self, action: Any) -> Any:
        return self.env.step(action)

    def begin(self, seed: int) -> Any:
        return copied(self.reset(seed=seed))

    def actions(self, count: int, *, seed: int) -> list[Any]:
        """Return random actions."""
        self.action_space.seed(seed)
        return [self.action_space.sample() for _ in range(count)]

    def steps(self, actions: Sequence[Any]) -> list[dict[str, Any]]:
        """Take steps and return what each shows and earns; an end of the episode ends them."""
        shown: list[dict[str, Any]] = []
        for action in actions:
            observation, reward, *ends = self.step(copy.deepcopy(action))
            over = [bool(ended) for ended in ends if not isinstance(ended, Mapping)]
            shown.append({"observation": copied(observation), "reward": np.array(reward), "over": over})
            if any(over):
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
        """Return the state of its own generator, if it has Gymnasium's."""
        generator = getattr(getattr(self.env, "unwrapped", self.env), "np_random", None)
        return generator.bit_generator.state if isinstance(generator, np.random.Generator) else None


class _Paired(Plain):
    """Simulator of a plug-in, which saves and restores it."""

    def __init__(self, plugin: RestorablePlugin) -> None:
        self.plugin, self.simulation = plugin, PairedSimulation(plugin)
        self.env, self.way = self.simulation._env, ""

    def actions(self, count: int, *, seed: int) -> list[Any]:
        reach = min(1.0, self.simulation.action_bound)
        return list(np.random.default_rng(seed).uniform(-reach, reach, (count, self.simulation.action_size)))

    def save(self) -> Any:
        self.simulation.save()  # refuses what is not numbers on one axis
        return self.plugin.save(self.env)  # the author's own array, and not a copy of it

    def restore(self, saved: Any) -> None:
        self.simulation.restore(np.array(saved, np.float64))


def world_around(make: Callable[[], Any]) -> Environment:
    """Return the world of a simulator that `check_simulator` takes. What it saves is kept here, whatever it is: a
    row of the world's state has the place of it."""
    states: list[Any] = []

    class PlainWorld(RestorablePlugin):
        simulator: ClassVar = "a plain simulator"
        parameter: ClassVar = "nothing"

        def make(self) -> Plain:
            return Plain(make)

        def save(self, env: Plain) -> Any:
            states.append(copy.deepcopy(env.save()))
            return [len(states) - 1]

        def restore(self, env: Plain, saved: np.ndarray) -> None:
            env.restore(copy.deepcopy(states[int(saved[0])]))

        def drift(self, env: Plain, factor: float) -> None:
            """Leave it as it is."""

        def read(self, env: Plain) -> dict[str, float]:
            return {}

        def actions(self, env: Plain) -> tuple[int, float]:
            if hasattr(env.action_space, "low"):
                return super().actions(env)
            drawn = np.asarray(env.actions(1, seed=0)[0])
            if drawn.ndim != 1 or drawn.dtype.kind != "f":
                raise WorldforkError(f"Its actions are {env.action_space}; an agent's are numbers on one axis.")
            return len(drawn), math.inf

    PlainWorld.__name__ = getattr(make, "__name__", name_of(make))
    return PlainWorld().build(scale=1.0, threads=1)


class _Bench:
    """Bench of a plain simulator."""

    def __init__(self, make: Callable[[], Any], steps: int) -> None:
        self.make, self.steps = make, steps
        self.examined = ""

    @rule("A simulator has `reset`, `step` and an action space", foundation=True)
    def has_what_is_asked(self) -> None:
        env = self.make()
        missing = ", ".join(name for name in ("reset", "step", "action_space") if not hasattr(env, name))
        remedy = "As in Gymnasium: `reset(seed=...)`, `step(action)`, and a space with `seed` and `sample`."
        demand(not missing, f"what was made, a {type(env).__name__}, has no `{missing}`.", remedy)
        missing = ", ".join(name for name in ("seed", "sample") if not hasattr(env.action_space, name))
        seen = f"its action space, a {type(env.action_space).__name__}, has no `{missing}`."
        demand(not missing, seen, "`seed(number)` seeds a space, and `sample()` draws an action from it.")
        remedy = "`reset(seed=...)` seeds whatever the simulator draws from. One that draws nothing may ignore it."
        demand("seed" in taken_by(env.reset, "seed"), "its `reset` takes no `seed`.", remedy)

    @rule("The same seed begins the same episode", foundation=True)
    def begins_alike(self) -> None:
        first, second = Plain(self.make), Plain(self.make)
        actions = first.actions(STEPS, seed=5)
        before, after = ([simulator.begin(3), simulator.steps(actions)] for simulator in (first, second))
        seen = "two new simulators were reset with one seed, took the same steps, and differ"
        demand_same(before, after, seen, "Draw from a generator of its own, which `reset(seed=...)` seeds.")

    @rule(PAIR, foundation=True)
    def restores(self) -> None:
        self.examined = _examine_restoring(lambda: Plain(self.make), self.steps)

    @rule("Another simulator beside it changes nothing")
    def stands_alone(self) -> None:
        alone, beside, other = (Plain(self.make) for _ in range(3))
        first, second, elsewhere = (other.actions(count, seed=count) for count in (4, 5, 6))
        for simulator in (alone, beside):
            simulator.begin(3)
        expected = alone.steps(first) + alone.steps(second)
        came = beside.steps(first)
        other.begin(9)
        other.steps(elsewhere)
        came += beside.steps(second)
        seen = "stepping another simulator in between changed what this one showed"
        demand_same(expected, came, seen, "Keep everything in the object: nothing in its class, module or server.")


def _examine_restoring(make: Callable[[], Plain], longest: int) -> str:
    """Save a simulator at several places of an episode, lead it elsewhere, restore it there and in a new one, and
    compare; from the last two places on to the episode's end. Return how much was examined."""
    scout = make()
    actions, elsewhere = scout.actions(longest, seed=7), scout.actions(STEPS, seed=99)
    scout.begin(3)
    episode = scout.steps(actions)
    ended = any(episode[-1]["over"])
    places = sorted(place for place in {*PLACES, len(episode) // 2} if place < len(episode))
    examined = 0
    for place in places:
        ahead = actions[place : None if place in places[-2:] else place + STEPS]
        subject, stranger = make(), make()
        subject.begin(3)
        subject.steps(actions[:place])
        saved = subject.save()
        kept = copy.deepcopy(saved)
        generator, inside = subject.generator(), contents(subject.env)
        went_on = subject.steps(ahead)
        examined += len(went_on)
        drawn_from = generator if subject.generator() != generator else None
        if data := _is_data(saved):
            demand_same(kept, saved, "what `save` returned changed while the world went on", "Return a copy.")
        stranger.begin(11)
        stranger.steps(elsewhere)
        for other, where in ((subject, "in the same object"), (stranger, "in one that had been elsewhere")):
            other.restore(copy.deepcopy(kept))
            if data:
                demand_same(kept, other.save(), f"restored {where}, `save` returns something else", PUT_BACK)
            lost = drawn_from is not None and other.generator() != drawn_from
            names = listed(changed(inside, contents(other.env)))
            text = _departure(went_on, other.steps(ahead))
            seen = f"saved after {place} steps, restored {other.way}{where} and stepped again, it went elsewhere"
            named = f"; not put back: {names}" if names else ""
            demand(not text, f"{seen} ({text}){named}.", DRAWN if lost else NAMED if names else LEFT_OUT)
    ends = "an episode ended" if ended else "no episode ended"
    return f"{plural(examined, 'step')} from {plural(len(places), 'place')}; {ends}"


def _departure(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> str:
    """Return the first step at which two episodes differ, and how; empty where they do not."""
    for step, (old, new) in enumerate(zip(before, after, strict=False), start=1):
        if old["over"] != new["over"]:
            came = "ended" if any(new["over"]) else "did not end"
            return f"at step {step} the episode {came}"
        if text := difference(old, new):
            return f"at step {step} {text}"
    return ""


def _has(owner: Any, pair: tuple[str, str]) -> bool:
    return all(callable(getattr(owner, name, None)) for name in pair)


def _is_data(state: Any) -> bool:
    """Return True for what can be compared number by number."""
    if isinstance(state, dict):
        return all(map(_is_data, state.values()))
    if isinstance(state, list | tuple):
        return all(map(_is_data, state))
    return isinstance(state, np.ndarray | np.generic | bool | int | float | str | None)
