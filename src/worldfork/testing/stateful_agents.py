"""Contract of an agent that keeps its state inside: it gives all of it away, and is told by name what it forgot."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from worldfork.lab.agents.base import taken_by
from worldfork.lab.agents.stateful import (
    StatefulAgent,
    StatefulPlugin,
    Transitions,
    copied,
    reshaped,
    seeded,
    transitions_of,
)
from worldfork.lab.environments.base import Environment
from worldfork.testing.attributes import changed, contents, generators, listed
from worldfork.testing.contract import Unfit, demand, demand_same, difference
from worldfork.testing.samples import random_window, seeded_agent, sizes_of, teach

GIVES_ITSELF_AWAY: Final = "An agent that keeps its state inside gives all of it away"
NEEDED: Final = {
    "reset": "reset(observation)",
    "act": "act(observation)",
    "learn": "learn(window, *, steps, rate)",
    "get_state": "get_state()",
    "set_state": "set_state(state)",
}
ROWS: Final = 64
STEPS: Final = 4
REHEARSED: Final = 8  # steps, so that some of them draw from the replay
NO_KEY, LEARN_KEY, ACT_KEY = (np.array(words, np.uint32) for words in ((0, 0), (3, 5), (7, 11)))
OPTIMISERS: Final = 'An optimiser\'s moments and count have names there that begin with "optimiser.".'
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
    """An agent as its plug-in makes it, and the calls that it is tried with."""

    def __init__(self, plugin: StatefulPlugin, environment: Environment) -> None:
        self.plugin, self.world = plugin, environment
        self.together = self.seeds = False

    def offers_what_is_needed(self) -> None:
        agent = self.fresh()
        missing = ", ".join(name for name in NEEDED if not callable(getattr(agent, name, None)))
        needed = ", ".join(f"`{call}`" for call in NEEDED.values())
        demand(not missing, f"it has no `{missing}`.", f"An agent has {needed} (docs/stateful.md).")
        self.together, self.seeds = bool(getattr(agent, "together", False)), hasattr(agent, "seed")
        pair = [hasattr(agent, name) for name in ("get_belief", "set_belief")]
        demand(pair[0] == pair[1], "it has one of `get_belief` and `set_belief`.", "They come as a pair.")
        state = agent.get_state()
        arrays = isinstance(state, Mapping) and all(isinstance(array, np.ndarray) for array in state.values())
        kinds = {name: type(part).__name__ for name, part in state.items()} if isinstance(state, Mapping) else state
        demand(arrays and bool(state), f"`get_state` returned {kinds!r:.120}.", "It returns NumPy arrays by name.")
        before = copied(state)
        agent.set_state(copied(state))
        seen = "set to its own state, it has another"
        demand_same(before, copied(agent.get_state()), seen, "`set_state` sets every array.")
        with contextlib.suppress(Exception):
            agent.set_state({f"no such {name}": array for name, array in before.items()})
        seen = "set to names it does not know, it became something else"
        demand_same(before, copied(agent.get_state()), seen, "Refuse them.")

    def hands_out_copies(self) -> None:
        agent = self.fresh()
        state = agent.get_state()
        kept = copied(state)
        self.learn(agent)
        demand_same(kept, dict(state), "arrays of `get_state` changed while it learned", "Return copies.")

    def acts_from_its_state(self) -> None:
        """A second object, set to the same state, acts the same; acting leaves the state alone."""
        agent, twin = self.fresh(), self.fresh()
        self.learn(agent)
        state = copied(agent.get_state())
        twin.set_state(copied(state))
        inside = contents(agent)
        names = self.differing(inside, contents(twin))
        first, second = self.episode(agent), self.episode(twin)
        by_act, text = changed(inside, contents(agent)), difference(first, second)
        differ = listed(names) or "nothing that an attribute shows"
        seen = f"another object set to its state acts otherwise ({text}); they differ in {differ}."
        demand(not text, seen, _placed(names, by_act=by_act, drawn=generators(inside)))
        remedy = "Only `learn` changes the state: what `act` changes belongs to `get_belief`, or stands still."
        demand_same(state, copied(agent.get_state()), "`act` changed the state", remedy)

    def learns_from_its_state(self) -> None:
        """From one state with one key, learning ends in one state: nothing of an earlier time is left."""
        agent = self.fresh()
        start, inside = copied(agent.get_state()), contents(agent)
        self.learn(agent)
        first = copied(agent.get_state())
        new = ", ".join(sorted(first.keys() ^ start.keys()))
        seen = f"`learn` made names that `get_state` did not have: {new}."
        remedy = "Create what they stand for when the agent is made, so that every checkpoint has them."
        demand(not new, seen, remedy)
        seen, remedy = reshaped({name: array.shape for name, array in start.items()}, first)
        demand(not seen, f"{seen}.", remedy)
        agent.set_state(copied(start))
        names = self.differing(inside, contents(agent))
        self.learn(agent)
        text = difference(first, copied(agent.get_state()))
        came = f"set back and taught the same again, it came out otherwise ({text})"
        left_out = listed(names) or "something that no attribute shows"
        remedy = f"{_placed(names, by_act=(), drawn=generators(inside))} {OPTIMISERS}"
        demand(not text, f"{came}; `set_state` had not put back {left_out}.", remedy)
        changes = bool(difference(start, first))
        demand(changes, "`learn` changed nothing that `get_state` returns.", "The state is what learning changes.")

    def forgets_episodes(self) -> None:
        """After `reset` it does not matter what was played before."""
        agent, other = self.fresh(), self.fresh()
        fresh = self.episode(agent)
        self.episode(other, seed=9)
        inside = contents(agent)
        text = difference(fresh, self.episode(other))
        names = self.differing(inside, contents(other))
        differ = listed(names) or "nothing that an attribute shows"
        seen = f"after another episode and `reset` it acts otherwise ({text}); inside differ {differ}."
        remedy = "`reset` forgets the last episode, and generators of your own are seeded in `seed(number)`."
        demand(not text, seen, remedy)

    def remembers_in_its_belief(self) -> None:
        """Two episodes turn by turn, each with its own belief handed back, are the two episodes alone."""
        agent = self.fresh()
        alone = self.turn_by_turn(agent, (2,))
        self.begin(agent, 2)
        before = contents(agent)
        self.act(agent, self.observations(2)[0], 0)
        names = listed(self.differing(before, contents(agent))) or "nothing that an attribute shows"
        text = difference(alone, self.turn_by_turn(agent, (2, 5)))
        seen = f"another episode in between changed what it did ({text}); `act` changes {names}."
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
        seen = "`learn` changed the replay that it was handed"
        demand_same(before, vars(replays[0]), seen, "Copy before you write.")
        remedy = "Of each minibatch the share `share` comes from `replay`; without the two arguments take neither."
        demand(bool(difference(first, other)), "another replay made no difference to what it learned.", remedy)
        seen = "something of a replay was left for the next time"
        demand_same((first, plain), (again, taught()), seen, "Keep none of it inside.")

    def turn_by_turn(self, agent: Any, seeds: tuple[int, ...]) -> list[dict[str, np.ndarray]]:
        """Return what the first of these episodes shows where all act, and then all are asked for surprise."""
        remembers = hasattr(agent, "get_belief")
        beliefs: list[Any] = [None] * len(seeds)

        def keep(place: int) -> None:
            beliefs[place] = copied(agent.get_belief()) if remembers else None

        def recall(place: int) -> None:
            if remembers:
                agent.set_belief(copied(beliefs[place]))

        for place, seed in enumerate(seeds):
            self.begin(agent, seed)
            keep(place)
        shown = []
        for step in range(STEPS - 1):
            actions = []
            for place, seed in enumerate(seeds):
                recall(place)
                actions.append(self.act(agent, self.observations(seed)[step], step))
                keep(place)
            for place, seed in enumerate(seeds):
                recall(place)
                measured = self.surprise(agent, self.observations(seed)[step : step + 2], actions[place])
                keep(place)
                if place == 0:
                    shown.append({"action": actions[0], **measured})
        return shown

    def surprise(self, agent: Any, observations: np.ndarray, action: np.ndarray) -> dict[str, np.ndarray]:
        """Return what it measures of a transition, if anything."""
        if not hasattr(agent, "surprise"):
            return {}
        with seeded_agent(agent, NO_KEY):
            outcome = {"reward": self.given(np.float64(0.5)), "terminated": self.given(np.False_)}
            taken = {name: outcome[name] for name in taken_by(agent.surprise, *outcome)}
            measured = agent.surprise(self.given(observations[0]), action, self.given(observations[1]), **taken)
        named = measured if isinstance(measured, Mapping) else {"error": measured}
        return {name: np.asarray(values, np.float64) for name, values in named.items()}

    def fresh(self) -> Any:
        with seeded(NO_KEY):
            return self.plugin.make(self.world)

    def learn(self, agent: Any, *, steps: int = 2, **replayed: Any) -> None:
        teach(agent, self.window(), LEARN_KEY, steps=steps, **replayed)

    def episode(self, agent: Any, *, seed: int = 2) -> list[np.ndarray]:
        """Return the actions of a few steps; what is observed does not depend on them."""
        self.begin(agent, seed)
        return [self.act(agent, observation, step) for step, observation in enumerate(self.observations(seed))]

    def begin(self, agent: Any, seed: int) -> None:
        with seeded_agent(agent, NO_KEY):
            agent.reset(self.given(self.observations(seed)[0]))

    def act(self, agent: Any, observation: np.ndarray, step: int) -> np.ndarray:
        with seeded_agent(agent, ACT_KEY + np.uint32(step)):
            action = agent.act(self.given(observation))
        remedy = "An action is an array of numbers, or a number where there is one action."
        demand(action is not None, "`act` returned None.", remedy)
        chosen = np.zeros(0)
        try:
            chosen = np.array(action, np.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            demand(False, f"`act` returned a {type(action).__name__} ({error}).", remedy)
        count = chosen.size / (2 if self.together else 1)
        if count != self.world.action_size:
            raise Unfit(f"The agent's `act` returned {count:g} numbers: {sizes_of(self.world)}.")
        return chosen.reshape(2, -1) if self.together else chosen.reshape(-1)  # a lone number is an action too

    def differing(self, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
        """Return what differs inside, but for generators where `seed` seeds them before every call."""
        apart = generators(before) | generators(after) if self.seeds else set()
        return [name for name in changed(before, after) if name not in apart]

    def given(self, observation: Any) -> Any:
        return np.stack([observation] * 2) if self.together else observation.copy()

    def observations(self, seed: int) -> np.ndarray:
        """Return the observations of a short episode under random actions."""
        random = np.random.default_rng(seed)
        reach = min(1.0, self.world.action_bound)
        state, shown = self.world.reset(np.array([seed])), []
        for _ in range(STEPS):
            shown.append(state.observation[0])
            state, _, _ = self.world.step(state, random.uniform(-reach, reach, (1, self.world.action_size)))
        return np.array(shown)

    def window(self, stream: int = 0) -> Transitions:
        """Return what one of several streams showed."""
        return transitions_of(random_window(self.world, rows=ROWS, sizes=(ROWS,) * (stream + 1)), stream)


def _placed(names: Iterable[str], *, by_act: Iterable[str], drawn: Iterable[str]) -> str:
    """Return what to do with attributes that a state leaves out: each kind has a place of its own."""
    seeded_alone = set(names) & set(drawn)
    remembered = (set(names) & set(by_act)) - seeded_alone
    kept = listed(set(names) - seeded_alone - remembered)
    sentences = [f"Return {kept} in `get_state`."] if kept else []
    if remembered:
        sentences.append(f"`act` changes {listed(remembered)}: return it in `get_belief`.")
    if seeded_alone:
        sentences.append(f"{listed(seeded_alone)} is a generator: seed it in `seed(number)`.")
    return " ".join(sentences or ["Return everything that `learn` changes in `get_state`."])
