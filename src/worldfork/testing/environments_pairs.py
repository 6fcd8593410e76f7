"""The contract of a pair of functions that save and restore a simulator: what is put back is everything."""

from typing import Any, Final

import numpy as np

from worldfork.lab.environments.restorable import PairedSimulation, RestorablePlugin
from worldfork.testing.report import demand, difference

__all__ = ["PAIR", "examine_pair"]

PAIR: Final = "What `save` returns, `restore` puts back"
STEPS: Final = 12
PLACES: Final = (0, 3, 9)  # steps after the beginning at which a world is saved


def examine_pair(plugin: RestorablePlugin) -> None:
    """Save a simulator at several places, lead it elsewhere, restore it there and in a new one, and compare."""
    for place in PLACES:
        simulation = PairedSimulation(plugin)
        simulation.begin(3)
        for action in _actions(simulation, place, seed=place):
            simulation.advance(action)
        saved = _saved(plugin, simulation)
        kept = saved.copy()
        generator = _generator(simulation)
        went_on = _steps(simulation)
        drawn_from = generator if _generator(simulation) != generator else None
        text = difference(kept, saved)
        demand(
            not text, f"the array that `save` returned changed while the world went on ({text}).", "Return a copy."
        )
        _restore_and_compare(simulation, kept, went_on, drawn_from=drawn_from, where="in the same object")
        stranger = PairedSimulation(plugin)
        stranger.begin(11)
        for action in _actions(stranger, STEPS, seed=99):
            stranger.advance(action)
        _restore_and_compare(
            stranger, kept, went_on, drawn_from=drawn_from, where="in an object that had been elsewhere"
        )
    _examine_drift(plugin)


def _restore_and_compare(
    simulation: PairedSimulation, saved: np.ndarray, went_on: Any, *, drawn_from: Any, where: str
) -> None:
    simulation.restore(saved)
    again = np.array(simulation.save())
    remedy = "`restore` sets every number that `save` returns, and nothing else changes them."
    if again.shape != saved.shape:
        demand(False, f"`save` returned {len(saved)} numbers, and {len(again)} once restored {where}.", remedy)
    text = difference(saved, again)
    demand(not text, f"restored {where}, `save` returns something else ({text}).", remedy)
    lost = drawn_from is not None and _generator(simulation) != drawn_from
    text = difference(went_on, _steps(simulation))
    advice = (
        "The simulator draws from its generator as it steps: keep that too (generator_numbers, restore_generator)."
        if lost
        else "`save` leaves out something that steps depend on: a count, a warm start, the last action."
    )
    demand(not text, f"saved, stepped, restored {where} and stepped again, it went elsewhere ({text}).", advice)


def _examine_drift(plugin: RestorablePlugin) -> None:
    simulation = PairedSimulation(plugin)
    nominal = simulation.parameters()
    simulation.set_factor(0.5)
    drifted = simulation.parameters()
    simulation.set_factor(1.0)
    back = simulation.parameters()
    demand(
        drifted != nominal,
        f"with the factor 0.5 `read` still says {drifted}.",
        "`drift` sets the parameter, and `read` reads it from the simulator.",
    )
    demand(
        back == nominal,
        f"with the factors 0.5 and then 1 `read` says {back}, not {nominal}.",
        "`drift` multiplies the nominal value, not the present one.",
    )


def _saved(plugin: RestorablePlugin, simulation: PairedSimulation) -> np.ndarray:
    """What the author's `save` returned, itself and not a copy of it."""
    simulation.save()  # refuses what is not numbers on one axis
    saved = plugin.save(simulation._env)
    return saved if isinstance(saved, np.ndarray) and saved.dtype == np.float64 else np.array(saved, np.float64)


def _steps(simulation: PairedSimulation) -> list[np.ndarray]:
    """What some steps from here on show and earn; an end of the episode ends them."""
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
    """The state of the simulator's own generator, if it has Gymnasium's."""
    generator = getattr(getattr(simulation._env, "unwrapped", simulation._env), "np_random", None)
    return generator.bit_generator.state if isinstance(generator, np.random.Generator) else None
