"""Segments of deployments as data: what an executor hands to a worker, and what comes back.

Segments follow one another, so a job carries the state to go on from, or, where a run was interrupted, the rows
and streams that it is made of. Batches are independent of one another. Arrays that leave the process become
NumPy's, which a driver without an accelerator and its libraries can pass on.
"""

import dataclasses
import time

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.fixed_policies import FIXED_POLICIES
from worldfork.lab.closed_loop.batches import Batch, History, deployment_batches
from worldfork.lab.closed_loop.segment import Advanced, advance
from worldfork.lab.closed_loop.state import State, begin, rebuild, shape_of
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.jobs import (
    Described,
    Identity,
    Job,
    configuration,
    module_sources,
    require_identity,
)
from worldfork.lab.workers import worker_name
from worldfork.ledger.closed_loop import Thresholds, recorded_signals
from worldfork.registration import Cell, deployments, digest
from worldfork.triggers import Trigger


@dataclasses.dataclass(frozen=True)
class Ended:
    """A segment of a batch that was run: rows and what happened in it, in the order of the batch's sets."""

    batch: Batch
    advanced: Advanced
    seconds: float = dataclasses.field(compare=False)
    worker: str = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class DescribeDeployments(Job):
    """Describe what will determine the rows of every policy on every cell."""

    def __str__(self) -> str:
        return "the deployments' set-up"

    def perform(self, context: Context) -> Described:
        return describe_deployments(context)


@dataclasses.dataclass(frozen=True)
class Advance(Job):
    """Run the next segment of a batch from a state, from its history, or, with neither, its first."""

    batch: Batch
    thresholds: Thresholds
    identity: Identity
    state: State | None = None
    history: History | None = None

    def __str__(self) -> str:
        return f"the deployments of {self.batch.name} and its batch"

    def perform(self, context: Context) -> Ended:
        began = time.perf_counter()
        policy, cell = self.batch.sets[0]
        require_identity(self.identity, context, cell, _modules(context, policy, cell))
        shape = shape_of(context, self.batch, self.thresholds)
        if self.state is not None:
            state = self.state
        elif self.history is not None:
            state = rebuild(shape, self.history.streams, self.history.rows)
        else:
            state = begin(shape)
        done = advance(shape, state)
        return Ended(self.batch, done, time.perf_counter() - began, worker_name())


def describe_deployments(context: Context) -> Described:
    """Describe what determines the rows of each policy on each cell here, as resolved."""
    registration = context.registration
    registered = registration.deployment
    assert registered is not None
    sizes = {batch.task: batch.size for batch in deployment_batches(registration)}
    configurations: list[dict[str, object]] = []
    files: dict[str, dict[str, str]] = {}
    for name, cell in deployments(registration):
        _require_columns(context, name, cell)
        modules = _modules(context, name, cell)
        files.setdefault(source := digest(modules), modules)
        resolved = configuration(context, cell)
        if resolved["block"] is not None:
            policies = registered.every()
            tried = [tried for tried, policy in policies.items() if policy.trial]  # incumbents play at their number
            resolved["block"] |= {"cells_per_batch": sizes[cell.task], "policies": list(policies)}
            resolved["block"] |= {"tried": tried} if tried else {}
        resolved |= {
            "schema": "worldfork.deployed/1",
            "policy": {"name": name, **registered.every()[name].model_dump(mode="json")},
            "deployment": registered.model_dump(mode="json", include={"evaluate_at", "episodes"}),
            "source": source,
        }
        configurations.append(resolved)
    return Described(configurations, [], files, {})


def _require_columns(context: Context, name: str, cell: Cell) -> None:
    """Refuse a policy that reads the one-step error of an agent that has none: it would never fire."""
    registration = context.registration
    assert registration.deployment is not None
    trigger = registration.deployment.every()[name].trigger
    if getattr(context.agent(cell.task), "predicts", True) or trigger in FIXED_POLICIES:
        return
    read = context.signals[trigger] if trigger in context.signals else registry.load("triggers", trigger, Trigger)
    if "error" in read.needs:
        raise WorldforkError(
            f"[deployment.policies.{name}]: `{trigger}` reads the one-step `error`, and the agent of {cell.task} "
            "makes no one-step predictions (`predicts = False`): follow a trigger that reads something else."
        )


def _modules(context: Context, policy: str, cell: Cell) -> dict[str, str]:
    registration = context.registration
    assert registration.deployment is not None
    trigger = registration.deployment.every()[policy].trigger
    named = [located.module for located in context.code(cell).values()]
    if trigger not in FIXED_POLICIES and trigger not in recorded_signals(registration):
        named.append(registry.locate("triggers", trigger).module)
    return module_sources(("worldfork.lab.closed_loop.jobs", *named))
