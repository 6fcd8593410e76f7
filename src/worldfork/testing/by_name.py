"""Examination of whatever a name stands for: the kit is chosen by what is found there."""

import contextlib
import importlib.metadata
import inspect
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from worldfork import registry
from worldfork.built_in import Group
from worldfork.errors import WorldforkError
from worldfork.executors.base import ExecutorPlugin
from worldfork.lab.agents.base import AgentPlugin
from worldfork.lab.agents.stateful import StatefulPlugin
from worldfork.lab.environments.base import EnvironmentPlugin
from worldfork.lab.mechanisms.base import Mechanism
from worldfork.lab.signals import Signal
from worldfork.registry import Plugin
from worldfork.testing.agents import check_agent
from worldfork.testing.contract import Report
from worldfork.testing.environments import check_environment
from worldfork.testing.executors import check_executor
from worldfork.testing.mechanisms import check_mechanism
from worldfork.testing.save_and_restore import check_simulator
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
) -> Report:
    """Examine what a name stands for, whatever it is.

    Args:
        name: a name of the registry, or `module:attribute`: a plug-in class; a class or function without
            arguments that makes a simulator (`reset` and `step`); one that takes a world and makes an agent for it
            (`act`, `learn`, `get_state`, `set_state`).
        kind: the group of a name that stands for several things, such as `signals`.
        world: the world that an agent is examined in.
        settings: settings of a plug-in.
        checkpoints: files of an agent.
        precision: what an agent computes in; the first that it knows, unless it is given.

    Raises:
        ContractError: with everything that is wrong.

    Example:
        >>> check_by_name("page_hinkley").subject
        'The trigger `page_hinkley`'
    """
    group, thing = _found(name, kind)
    if group == "agents":
        plugged = isinstance(thing, type) and issubclass(thing, Plugin)
        precisions = getattr(thing, "precisions", ("float32",)) if plugged else ("the agent's own",)
        return check_agent(
            name if plugged else _plugin_around(thing),
            world,
            settings=settings,
            checkpoints=checkpoints,
            precision=precision or precisions[0],
        )
    if group is None:
        return check_simulator(thing)
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
    if groups or ":" not in name:
        group = groups[0] if groups else kind or "environments"
        return group, registry.load(group, name, KITS[group][0])
    thing = registry.find(registry.locate("environments", name))
    for group, (contract, _) in KITS.items():
        if isinstance(thing, type) and issubclass(thing, contract):
            return group, thing
    if hasattr(thing, "step") and _needs_a_world(thing):
        raise WorldforkError(f"`{name}` takes arguments: name a function that takes none and makes the simulator.")
    if callable(thing):  # a class or function: an agent is made for a world, a simulator from nothing
        return ("agents" if _needs_a_world(thing) else None), thing
    raise WorldforkError(
        f"`{name}` is a {type(thing).__name__}, and neither a plug-in of worldfork's nor a class or function that "
        "makes a simulator, or an agent for a world: see docs/restorable.md."
    )


def _needs_a_world(make: Any) -> bool:
    parameters = inspect.signature(make).parameters.values()
    return any(parameter.default is parameter.empty for parameter in parameters)


def _plugin_around(make_agent: Any) -> type[StatefulPlugin]:
    """Return the plug-in of an agent that is made by calling something with the world."""

    class Plain(StatefulPlugin):
        precisions = ("the agent's own",)

        def make(self, environment: Any) -> Any:
            return make_agent(environment)

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
