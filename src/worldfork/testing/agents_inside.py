"""What an object keeps inside, by name: how the kits tell an author which attribute it is that they forgot."""

import hashlib
import random
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from worldfork.lab.agents.base import taken_by
from worldfork.lab.agents.stateful import StatefulAgent, StatefulPlugin, Transitions, copied, seeded, transitions_of
from worldfork.lab.environments.base import Environment
from worldfork.testing.deployments import random_window
from worldfork.testing.report import demand, difference

DEPTH: Final = 5  # attributes of attributes, and so on
NAMED: Final = 4  # at most, in one message


def contents(thing: Any) -> dict[str, str]:
    """Every number, array, tensor, generator and container inside an object, by its dotted name.

    >>> class Planner:
    ...     def __init__(self):
    ...         self.mean, self.steps = np.zeros(2), 3
    >>> sorted(contents(Planner()))
    ['mean', 'steps']
    """
    found: dict[str, str] = {}
    _collect(thing, "", found, set(), DEPTH)
    return found


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The names of what is not the same, for a message; empty where everything is."""
    names = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    # What is named by an attribute says more than what is named by a number inside it.
    short = list(dict.fromkeys(name.split("[")[0] for name in names))
    text = ", ".join(f"`{name}`" for name in short[:NAMED])
    return text + (f" and {len(short) - NAMED} more" if len(short) > NAMED else "")


def _collect(thing: Any, name: str, found: dict[str, str], seen: set[int], depth: int) -> None:
    if id(thing) in seen or depth < 0:
        return
    text = _leaf(thing)
    if text is not None:
        found[name] = text
        return
    seen.add(id(thing))
    for part, value in _parts(thing):
        _collect(
            value,
            part if not name else f"{name}{part}" if part[0] == "[" else f"{name}.{part}",
            found,
            seen,
            depth - 1,
        )


def _leaf(thing: Any) -> str | None:
    """What a value is, in a text that changes when it does; None for what has parts."""
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | np.generic):
        return repr(thing)
    if isinstance(thing, Mapping | list | tuple | set | frozenset | deque):
        return None
    if isinstance(thing, np.ndarray):
        return _digest(thing)
    if isinstance(thing, np.random.Generator):
        return repr(thing.bit_generator.state)
    if isinstance(thing, np.random.RandomState | random.Random):
        state = thing.get_state() if isinstance(thing, np.random.RandomState) else thing.getstate()
        return _digest(np.frombuffer(repr(state).encode(), np.uint8))
    if hasattr(thing, "detach") and hasattr(thing, "cpu"):  # a tensor
        return _digest(np.asarray(thing.detach().cpu()))
    if type(thing).__name__ == "Generator" and hasattr(thing, "get_state"):  # PyTorch's
        return _digest(np.asarray(thing.get_state()))
    if hasattr(thing, "__array__"):
        return _digest(np.asarray(thing))
    return None


def _parts(thing: Any) -> list[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        return [(f"[{key!r}]", value) for key, value in thing.items()]
    if isinstance(thing, list | tuple | set | frozenset | deque):
        return [(f"[{place}]", value) for place, value in enumerate(thing)]
    if isinstance(thing, type) or callable(getattr(thing, "__func__", None)):
        return []
    parts: list[tuple[str, Any]] = []
    if callable(getattr(thing, "state_dict", None)):  # a module or an optimiser of PyTorch's
        parts = [(str(key), value) for key, value in dict(thing.state_dict()).items()]
    own = vars(thing) if hasattr(thing, "__dict__") else {}
    known = (
        {"_parameters", "_buffers", "_modules", "training", "param_groups", "state", "defaults"} if parts else set()
    )
    return parts + [(key, value) for key, value in own.items() if key not in known and not callable(value)]


def _digest(array: np.ndarray) -> str:
    content = np.ascontiguousarray(array)
    return f"{content.dtype}{content.shape}{hashlib.sha256(content.tobytes()).hexdigest()}"


GIVES_ITSELF_AWAY: Final = "An agent that keeps its state inside gives all of it away"
NEEDED: Final = ("reset", "act", "learn", "get_state", "set_state")
ROWS: Final = 64
STEPS: Final = 4
REHEARSED: Final = 8  # steps, so that some of them draw from the replay
LEARN_KEY, ACT_KEY = np.array([3, 5], np.uint32), np.array([7, 11], np.uint32)
IN_BELIEF = (
    "Return it in `get_belief` and put it back in `set_belief`: every episode gets its own memory handed back."
)


def examine_stateful(plugin: StatefulPlugin, environment: Environment) -> None:
    """Ask the agent itself, before the shim around it is examined."""
    bench = _Bench(plugin, environment)
    bench.offers_what_is_needed()
    bench.hands_out_copies()
    bench.acts_from_its_state()
    bench.learns_from_its_state()
    bench.forgets_episodes()
    bench.remembers_in_its_belief()
    if StatefulAgent(bench.fresh(), environment).rehearses:
        bench.rehearses_what_it_is_handed()


class _Bench:
    def __init__(self, plugin: StatefulPlugin, environment: Environment) -> None:
        self.plugin, self.world = plugin, environment
        self.together = False

    def offers_what_is_needed(self) -> None:
        agent = self.fresh()
        missing = [name for name in NEEDED if not callable(getattr(agent, name, None))]
        demand(not missing, f"it has no `{', '.join(missing)}`.", f"The shim calls {', '.join(NEEDED)}.")
        self.together = bool(getattr(agent, "together", False))
        pair = [hasattr(agent, name) for name in ("get_belief", "set_belief")]
        demand(pair[0] == pair[1], "it has one of `get_belief` and `set_belief`.", "They come as a pair.")
        state = agent.get_state()
        arrays = isinstance(state, Mapping) and all(isinstance(array, np.ndarray) for array in state.values())
        kinds = (
            {name: type(array).__name__ for name, array in state.items()} if isinstance(state, Mapping) else state
        )
        demand(arrays and bool(state), f"`get_state` returned {kinds!r:.120}.", "It returns NumPy arrays by name.")
        agent.set_state(copied(state))
        text = difference(copied(state), copied(agent.get_state()))
        demand(not text, f"set to its own state, it has another ({text}).", "`set_state` sets every array.")
        try:
            agent.set_state({f"no such {name}": array for name, array in state.items()})
        except Exception:
            return
        text = difference(copied(state), copied(agent.get_state()))
        demand(not text, f"set to names it does not know, it became something else ({text}).", "Refuse them.")

    def hands_out_copies(self) -> None:
        agent = self.fresh()
        state = agent.get_state()
        kept = copied(state)
        self.learn(agent)
        text = difference(kept, dict(state))
        demand(not text, f"arrays of `get_state` changed while it learned ({text}).", "Return copies.")

    def acts_from_its_state(self) -> None:
        """A second object, set to the same state, acts the same; acting leaves the state alone."""
        agent, twin = self.fresh(), self.fresh()
        self.learn(agent)
        state = copied(agent.get_state())
        twin.set_state(copied(state))
        first, second = self.episode(agent), self.episode(twin)
        names = changed(contents(agent), contents(twin))
        text = difference(first, second)
        demand(
            not text,
            f"another object set to its state acts otherwise ({text}); they differ in {names or 'nothing'}.",
            "Put everything that `act` reads and `learn` changes into `get_state`.",
        )
        text = difference(state, copied(agent.get_state()))
        remedy = "Only `learn` changes the state: what `act` changes belongs to `get_belief`, or stands still."
        demand(not text, f"`act` changed the state ({text}).", remedy)

    def learns_from_its_state(self) -> None:
        """From one state with one key, learning ends in one state: nothing of an earlier time is left."""
        agent = self.fresh()
        start, inside = copied(agent.get_state()), contents(agent)
        self.learn(agent)
        first = copied(agent.get_state())
        demand(
            first.keys() == start.keys(),
            f"`learn` made names that `get_state` did not have: {', '.join(sorted(first.keys() ^ start.keys()))}.",
            "Create what they stand for when the agent is made, so that every checkpoint has them.",
        )
        agent.set_state(copied(start))
        names = changed(inside, contents(agent))
        self.learn(agent)
        text = difference(first, copied(agent.get_state()))
        demand(
            not text,
            f"set back to where it began and taught the same again, it came out otherwise ({text}); `set_state` "
            f"had not put back {names or 'something that no attribute shows'}.",
            'Put it into `get_state`: an optimiser\'s moments and count under names that begin with "optimiser.".',
        )
        text = difference(start, first)
        demand(
            bool(text), "`learn` changed nothing that `get_state` returns.", "The state is what learning changes."
        )

    def forgets_episodes(self) -> None:
        """After `reset` it does not matter what was played before."""
        agent, other = self.fresh(), self.fresh()
        fresh = self.episode(agent)
        self.episode(other, seed=9)
        inside = contents(agent)
        again = self.episode(other)
        names = changed(inside, contents(other))
        text = difference(fresh, again)
        demand(
            not text,
            f"after another episode and `reset` it acts otherwise ({text}); inside differ {names or 'nothing'}.",
            "`reset` forgets the last episode, and generators of your own are seeded in `seed(number)`.",
        )

    def remembers_in_its_belief(self) -> None:
        """Two episodes turn by turn, each with its own belief handed back, are the two episodes alone."""
        agent = self.fresh()
        alone = self.turn_by_turn(agent, (2,))
        self.begin(agent, 2)
        before = contents(agent)
        self.act(agent, self.observations(2)[0], 0)
        names = changed(before, contents(agent))
        text = difference(alone, self.turn_by_turn(agent, (2, 5)))
        seen = f"another episode in between changed what it did ({text}); `act` changes {names or 'nothing seen'}."
        demand(not text, seen, IN_BELIEF)

    def rehearses_what_it_is_handed(self) -> None:
        """Learning reads the replay that it is handed, leaves it as it is, and keeps nothing of it."""
        agent = self.fresh()
        start = copied(agent.get_state())

        def taught(**replayed: Any) -> dict[str, np.ndarray]:
            agent.set_state(copied(start))
            self.learn(agent, steps=REHEARSED, **replayed)
            return copied(agent.get_state())

        plain, replays = taught(), [self.window(stream) for stream in (1, 2)]
        before = copied(vars(replays[0]))
        first, other, again = (taught(replay=replay, share=0.9) for replay in (*replays, replays[0]))
        text = difference(before, vars(replays[0]))
        demand(not text, f"`learn` changed the replay that it was handed ({text}).", "Copy before you write.")
        remedy = "Of each minibatch the share `share` comes from `replay`; without the two arguments take neither."
        demand(bool(difference(first, other)), "another replay made no difference to what it learned.", remedy)
        text = difference(first, again) or difference(plain, taught())
        demand(not text, f"something of a replay was left for the next time ({text}).", "Keep none of it inside.")

    def turn_by_turn(self, agent: Any, seeds: tuple[int, ...]) -> list[dict[str, np.ndarray]]:
        """What the first of these episodes shows where all of them act, and then all are asked for surprise."""
        remembers = hasattr(agent, "get_belief")
        beliefs: list[Any] = [None] * len(seeds)

        def kept(place: int) -> None:
            beliefs[place] = copied(agent.get_belief()) if remembers else None

        def recall(place: int) -> None:
            if remembers:
                agent.set_belief(copied(beliefs[place]))

        for place, seed in enumerate(seeds):
            self.begin(agent, seed)
            kept(place)
        shown = []
        for step in range(STEPS - 1):
            actions = []
            for place, seed in enumerate(seeds):
                recall(place)
                actions.append(self.act(agent, self.observations(seed)[step], step))
                kept(place)
            for place, seed in enumerate(seeds):
                recall(place)
                measured = self.surprise(agent, self.observations(seed)[step : step + 2], actions[place])
                kept(place)
                if place == 0:
                    shown.append({"action": actions[0], **measured})
        return shown

    def surprise(self, agent: Any, observations: np.ndarray, action: np.ndarray) -> dict[str, np.ndarray]:
        """What it makes of a transition, where it says anything."""
        if not hasattr(agent, "surprise"):
            return {}
        with seeded(np.zeros(2, np.uint32)) as number:
            if hasattr(agent, "seed"):
                agent.seed(number)
            told = {"reward": self.given(np.float64(0.5)), "terminated": self.given(np.False_)}
            said = {name: told[name] for name in taken_by(agent.surprise, *told)}
            measured = agent.surprise(self.given(observations[0]), action, self.given(observations[1]), **said)
        named = measured if isinstance(measured, Mapping) else {"error": measured}
        return {name: np.asarray(values, np.float64) for name, values in named.items()}

    def fresh(self) -> Any:
        with seeded(np.zeros(2, np.uint32)):
            return self.plugin.make(self.world)

    def learn(self, agent: Any, *, steps: int = 2, **replayed: Any) -> None:
        scope = {"scope": agent.scopes[0]} if hasattr(agent, "scopes") else {}
        with seeded(LEARN_KEY) as number:
            if hasattr(agent, "seed"):
                agent.seed(number)
            agent.learn(self.window(), steps=steps, rate=1.0, **scope, **replayed)

    def episode(self, agent: Any, *, seed: int = 2) -> list[np.ndarray]:
        """Actions of a few steps; what is observed does not depend on them."""
        self.begin(agent, seed)
        return [self.act(agent, observation, step) for step, observation in enumerate(self.observations(seed))]

    def begin(self, agent: Any, seed: int) -> None:
        with seeded(np.zeros(2, np.uint32)) as number:
            if hasattr(agent, "seed"):
                agent.seed(number)
            agent.reset(self.given(self.observations(seed)[0]))

    def act(self, agent: Any, observation: np.ndarray, step: int) -> np.ndarray:
        with seeded(ACT_KEY + np.uint32(step)) as number:
            if hasattr(agent, "seed"):
                agent.seed(number)
            chosen = np.array(agent.act(self.given(observation)), np.float64)
        return chosen.reshape(2, -1) if self.together else chosen.reshape(-1)  # a lone number is an action too

    def given(self, observation: Any) -> Any:
        return np.stack([observation] * 2) if self.together else observation.copy()

    def observations(self, seed: int) -> np.ndarray:
        """Observations of a short episode under random actions."""
        random = np.random.default_rng(seed)
        reach = min(1.0, self.world.action_bound)
        state, shown = self.world.reset(np.array([seed])), []
        for _ in range(STEPS):
            shown.append(state.observation[0])
            state, _, _ = self.world.step(state, random.uniform(-reach, reach, (1, self.world.action_size)))
        return np.array(shown)

    def window(self, stream: int = 0) -> Transitions:
        """What one of several streams showed."""
        return transitions_of(random_window(self.world, rows=ROWS, sizes=(ROWS,) * (stream + 1)), stream)
