"""Examination of whatever a name stands for: the kit is chosen by what is found there."""

import contextlib
import importlib.metadata
import inspect
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from worldfork import registry
from worldfork.built_in import Group
from worldfork.errors import WorldforkError
from worldfork.executors.base import ExecutorPlugin
from worldfork.lab.agents.base import AgentPlugin
from worldfork.lab.agents.stateful import StatefulPlugin
from worldfork.lab.environments.base import Environment, EnvironmentPlugin
from worldfork.lab.mechanisms.base import Mechanism
from worldfork.lab.signals import Signal
from worldfork.registry import Plugin
from worldfork.testing.agents import check_agent
from worldfork.testing.contract import Report, place
from worldfork.testing.environments import check_environment
from worldfork.testing.executors import check_executor
from worldfork.testing.mechanisms import check_mechanism
from worldfork.testing.save_and_restore import LONG, check_simulator, world_around
from worldfork.testing.signals import check_signal
from worldfork.testing.triggers import check_trigger
from worldfork.triggers import Trigger
from worldfork.version import __version__

KITS: Final[Mapping[Group, tuple[type[Plugin], Any]]] = {
    "environments": (EnvironmentPlugin, check_environment),
    "agents": (AgentPlugin, check_agent),
    "mechanisms": (Mechanism, check_mechanism),
    "signals": (Signal, check_signal),
    "triggers": (Trigger, check_trigger),
    "executors": (ExecutorPlugin, check_executor),
}
AGENTS: Final = ("act", "learn")  # methods that an agent is known by
SIMULATORS: Final = ("step", "action_space")
LIBRARIES: Final = (
    *("gymnasium", "mujoco", "dm_control", "pybullet", "sapien", "mani_skill", "brax", "ale_py", "pygame"),
    *("torch", "jax", "tensorflow", "stable_baselines3", "river", "scikit_learn"),
)


def check_by_name(
    name: str,
    *,
    kind: Group | None = None,
    world: str = "linear_quadratic",
    settings: Mapping[str, Any] | None = None,
    checkpoints: Sequence[str] = (),
    precision: str | None = None,
    steps: int = LONG,
) -> Report:
    """Examine what a name stands for, whatever it is.

    Args:
        name: a name of the registry, or `module:attribute`: a plug-in class; a class or function without
            arguments that makes a simulator (`reset` and `step`); one that takes a world and makes an agent for it
            (`reset`, `act`, `learn`, `get_state`, `set_state`).
        kind: the group of a name that stands for several things, such as `signals`.
        world: the world that an agent is examined in, by a name of the registry or as `name` names a simulator.
        settings: settings of a plug-in.
        checkpoints: files of an agent.
        precision: what an agent computes in; the first that it knows, unless it is given.
        steps: how far a simulator's episode is followed that has not ended before.

    Raises:
        ContractError: with everything that is wrong.
        WorldforkError: where nothing can be examined.

    Example:
        >>> check_by_name("page_hinkley").subject
        'The trigger `page_hinkley`'
    """
    group, thing = _found(name, kind)
    plugged = isinstance(thing, type) and issubclass(thing, Plugin)
    if settings and not plugged:
        raise WorldforkError(
            f"`{name}` is no plug-in and has no settings: name a function that sets {list(settings)}."
        )
    if group == "agents":
        precisions = getattr(thing, "precisions", ("float32",)) if plugged else ("the agent's own",)
        return check_agent(
            name if plugged else _plugin_around(thing),
            _world(world),
            settings=settings,
            checkpoints=checkpoints,
            precision=precision or precisions[0],
        )
    if group is None:
        return check_simulator(thing, steps=steps)
    report: Report = KITS[group][1](name, settings=settings)
    return report


def as_record(report: Report) -> dict[str, Any]:
    """Return a report with the versions and the kind of machine that it holds for, as JSON holds it.

    >>> as_record(Report("The world `w`", ("It is round",)))["verdict"]
    'kept'
    """
    return {
        "schema": "worldfork.test/1",
        "subject": report.subject,
        "verdict": "broken" if report.problems else "kept",
        "broken": [vars(problem) for problem in report.problems],
        "kept": list(report.kept),
        "not_examined": list(report.not_examined),
        "not_reached": list(report.not_reached),
        "examined": report.examined,
        "versions": _versions(),
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    }


def _found(name: str, kind: Group | None) -> tuple[Group | None, Any]:
    """Return the group of a name and what it stands for; None for a simulator with no plug-in around it."""
    groups = [group for group in KITS if kind in (None, group) and registry.is_known(group, name)]
    if len(groups) > 1:
        raise WorldforkError(f"`{name}` stands for several things: say --kind {' or --kind '.join(groups)}.")
    _refuse_a_file(name)
    if groups or ":" not in name:
        group = groups[0] if groups else kind or "environments"
        return group, registry.load(group, name, KITS[group][0])
    thing = registry.find(registry.locate("environments", name))
    for group, (contract, _) in KITS.items():
        if isinstance(thing, type) and issubclass(thing, contract):
            return group, thing
    if not callable(thing):
        raise WorldforkError(
            f"`{name}` is a {type(thing).__name__}, and neither a plug-in of worldfork's nor a class or function "
            "that makes a simulator, or an agent for a world: see docs/restorable.md."
        )
    needed = _needed(thing)
    if needed and (needed > 1 or hasattr(thing, "step")):
        raise WorldforkError(
            f"`{name}` takes arguments: name a function that takes none and makes the simulator, or one that takes "
            "a world and makes the agent."
        )
    return ("agents" if _makes_an_agent(name, thing) else None), thing


def _makes_an_agent(name: str, make: Any) -> bool:
    """Return True for a class or function that makes an agent, False for one that makes a simulator."""
    if _needed(make) or any(hasattr(make, method) for method in AGENTS):
        return True  # an agent is made for a world, a simulator from nothing
    try:
        instance = make()
    except Exception:  # for the report
        return False
    if any(hasattr(instance, member) for member in SIMULATORS):
        return False
    if any(hasattr(instance, method) for method in AGENTS):
        return True
    raise WorldforkError(
        f"`{name}` makes a {type(instance).__name__}, which is neither a simulator (it has no `step`) nor an agent "
        "(it has no `act` or `learn`): see docs/restorable.md."
    )


def _world(name: str) -> EnvironmentPlugin | Environment:
    """Return the world that an agent is tried in: a plug-in, or a plain simulator's."""
    _refuse_a_file(name)
    if ":" in name and not registry.is_known("environments", name):
        thing = registry.find(registry.locate("environments", name))
        if callable(thing) and not (isinstance(thing, type) and issubclass(thing, Plugin)):
            try:
                return world_around(thing)
            except Exception as error:
                raised = f"It raised {type(error).__name__}: {error}. {place(error)} See `worldfork test {name}`."
                seen = str(error) if isinstance(error, WorldforkError) else raised
                raise WorldforkError(f"No agent can be tried in `{name}`. {seen}") from error
    kind = registry.load("environments", name, EnvironmentPlugin)
    field = kind.model_fields.get("drift")
    still = {"drift": "opt.timestep"} if field is not None and field.is_required() else {}  # nothing drifts here
    return registry.build("environments", name, EnvironmentPlugin, settings=still)


def _refuse_a_file(name: str) -> None:
    """Refuse a file's name in place of a module's."""
    file, _, attribute = name.partition(":")
    if file.endswith(".py"):
        raise WorldforkError(
            f"`{name}` names a file: write {Path(file).stem}:{attribute or 'NAME'}, where it lies."
        )


def _needed(make: Any) -> int:
    """Return how many arguments must be given."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(make).parameters.values()
    return sum(given.default is given.empty and given.kind not in kinds for given in parameters)


def _plugin_around(make_agent: Any) -> type[StatefulPlugin]:
    """Return the plug-in of an agent that is made by calling something with the world."""

    class Plain(StatefulPlugin):
        precisions = ("the agent's own",)

        def make(self, environment: Any) -> Any:
            return make_agent(environment) if _needed(make_agent) else make_agent()

    Plain.__name__ = getattr(make_agent, "__name__", "agent")
    return Plain


def _versions() -> dict[str, str]:
    """Return versions of worldfork, and of what was imported of the libraries that decide digits."""
    versions = {"worldfork": __version__, "numpy": np.__version__}
    for module in LIBRARIES:
        if module in sys.modules:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                versions[module] = importlib.metadata.version(module)
    return versions
