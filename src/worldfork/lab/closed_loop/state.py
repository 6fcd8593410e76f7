"""The state that a deployment carries from one decision to the next, and how a decision changes it.

State is data: parameters, optimiser, everything that was seen, and what the triggers remember. It is a function of
the rows and streams that are in the ledger, so that a run which was interrupted makes it again (`rebuild`): the
policies are fed what they were fed, and the updates that fired are trained again, in the same blocks. What a trial
came to is in the rows, so that no episode is played again.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Arrays, needs_full_blocks
from worldfork.lab.closed_loop.batches import Batch, segment_of, whole
from worldfork.lab.environments import Environment
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.label import Fork, fit_record, update_forks
from worldfork.lab.mechanisms.base import Update
from worldfork.lab.stream import Stream
from worldfork.ledger.arrays import content_digest
from worldfork.ledger.closed_loop import DeploymentRow, Thresholds, TrialRecord, cell_key, is_kept, policy_of
from worldfork.ledger.row import FitRecord, Number
from worldfork.registration import Arm, Cell
from worldfork.triggers import Answer, Segment, draw_event
from worldfork.triggers.policy import Policy


@dataclasses.dataclass(frozen=True)
class Shape:
    """A batch as it is executed, with the policy of every parameter set; `real` are those that are recorded."""

    context: Context
    batch: Batch
    real: tuple[int, ...]
    policies: tuple[Policy, ...]
    trials: tuple[int, ...]  # episodes for which each set's policy tries an update

    @property
    def arm(self) -> Arm:
        """The arm of the batch's first set, whose stream and evaluations all of them share."""
        return self.context.registration.arm(self.batch.sets[0][1].arm)

    @property
    def environment(self) -> Environment:
        return self.context.environment(self.batch.task)

    @property
    def tried(self) -> tuple[int, ...]:
        """The sets that may have an incumbent: those whose policy tries its updates."""
        return tuple(index for index, episodes in enumerate(self.trials) if episodes)


@dataclasses.dataclass(frozen=True)
class Models:
    """Parameter sets with their optimisers."""

    parameters: Arrays
    optimiser: Arrays
    digests: tuple[str, ...]  # of parameters and optimiser, set by set

    @classmethod
    def of(cls, parameters: Arrays, optimiser: Arrays, *, count: int) -> "Models":
        """Return models with the digests of the first `count`, for which all arrays come to the host once."""
        named = {f"parameters/{name}": array for name, array in parameters.items()}
        held = _on_host({**named, **{f"optimiser/{name}": array for name, array in optimiser.items()}})
        one_by_one = ({name: array[p : p + 1] for name, array in held.items()} for p in range(count))
        return cls(parameters, optimiser, tuple(map(arrays.digest, one_by_one)))

    def __getstate__(self) -> dict[str, Any]:
        """Sent to another process, arrays are NumPy's; here they stay on the device they are on."""
        return {**vars(self), "parameters": _on_host(self.parameters), "optimiser": _on_host(self.optimiser)}

    def take(self, index: Sequence[int]) -> "Models":
        """Return those at `index`."""
        parameters, optimiser = (arrays.take(group, np.array(index)) for group in (self.parameters, self.optimiser))
        return Models(parameters, optimiser, tuple(self.digests[place] for place in index))

    def replaced(self, others: "Models", places: Mapping[int, int]) -> "Models":
        """Return these, but for some from among others, by their places there."""
        if not places:
            return self
        digests = (others.digests[places[i]] if i in places else digest for i, digest in enumerate(self.digests))
        return Models(
            _put(self.parameters, others.parameters, places, what="parameters"),
            _put(self.optimiser, others.optimiser, places, what="optimiser state"),
            tuple(digests),
        )


@dataclasses.dataclass(frozen=True)
class State:
    """P parameter sets after decision `k`.

    While an update is on trial, every set of `Shape.tried` has an incumbent, the model that the update may still
    give way to, so that the shape is always the same; those of sets without a trial under way mean nothing.
    """

    k: int
    models: Models
    streams: tuple[Stream, ...]  # everything since deployment began; none before the first episode
    memories: tuple[Any, ...]  # of each policy's trigger
    incumbents: Models | None = None  # None while no trial is under way
    # By set: the returns of the update and of its incumbent so far.
    under_trial: Mapping[int, tuple[tuple[Number, Number], ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Decision:
    """A policy's answer to a segment, and its decision."""

    answer: Answer
    fired: bool


def shape_of(context: Context, batch: Batch, thresholds: Thresholds) -> Shape:
    """Return the batch, padded where the agent needs full blocks, and each set's policy."""
    filled, real = batch, tuple(range(len(batch.sets)))
    if needs_full_blocks(context.agent(batch.task)):
        filled, real = batch.padded()
    policies = tuple(
        policy_of(context.registration, name, threshold=thresholds.of(name, cell.task, cell.checkpoint))
        for name, cell in filled.sets
    )
    registered = context.registration.deployment
    assert registered is not None
    every = registered.every()
    return Shape(context, filled, real, policies, trials=tuple(every[name].trial for name, _ in filled.sets))


def begin(shape: Shape) -> State:
    """Return every policy at its checkpoint, before the first episode."""
    context = shape.context
    checkpoints = [context.checkpoint(cell.task, cell.checkpoint) for _, cell in shape.batch.sets]
    memories = []
    for (_, cell), policy in zip(shape.batch.sets, shape.policies, strict=True):
        key = cell_key(cell)
        event = draw_event(policy.trigger, task=cell.task, cell=key, seed=context.registration.seed)
        memories.append(policy.begin(key, event=event))
    return State(
        k=0,
        models=Models.of(
            arrays.concatenate([checkpoint.parameters for checkpoint in checkpoints]),
            arrays.concatenate([checkpoint.optimiser for checkpoint in checkpoints]),
            count=len(checkpoints),
        ),
        streams=(),
        memories=tuple(memories),
    )


def decide(shape: Shape, state: State, segments: Mapping[int, Segment]) -> tuple[State, dict[int, Decision]]:
    """Ask every policy about the segment that has just ended; it was shown the ones before, and no other.

    While an update is on trial its policy is asked all the same, and does not update.
    """
    memories, decisions = list(state.memories), {}
    for index, segment in segments.items():
        memories[index], answer, fired = shape.policies[index].consider(memories[index], segment)
        decisions[index] = Decision(answer, fired and index not in state.under_trial)
    return dataclasses.replace(state, memories=tuple(memories)), decisions


def settle(
    shape: Shape, state: State, returns: Mapping[int, tuple[Number, Number]]
) -> tuple[State, dict[int, TrialRecord]]:
    """Take an episode's returns into the trials under way, and decide those that it ends: an update that did not
    return more than its incumbent gives way to it.

    Args:
        shape: the batch.
        state: the state that the episode was played with.
        returns: what the update and its incumbent returned, by set.
    """
    if state.incumbents is None:
        return state, {}
    records, going, lost = {}, {}, {}
    for index, before in state.under_trial.items():
        so_far, kept = (*before, returns[index]), None
        if len(so_far) < shape.trials[index]:
            going[index] = so_far
        elif not (kept := is_kept(*zip(*so_far, strict=True))):
            lost[index] = shape.tried.index(index)
        records[index] = TrialRecord(incumbent_return=returns[index][1], kept=kept)
    models = state.models.replaced(state.incumbents, lost)
    incumbents = state.incumbents if going else None
    return dataclasses.replace(state, models=models, incumbents=incumbents, under_trial=going), records


def update(shape: Shape, state: State, fired: Sequence[int]) -> tuple[State, dict[int, tuple[FitRecord, int]]]:
    """Train the sets that fired at decision `state.k`, in blocks; they go on with what came out. Return the record
    of each update too, and the gradient steps that it took.

    Minibatches are keyed by the cell and the decision point, never by the policy: two policies that have done the
    same so far are updated alike, so that one training serves both.
    """
    spent: dict[int, tuple[FitRecord, int]] = {}
    state = _begin_trials(shape, state, fired)
    by_arm: dict[str, list[int]] = {}
    for index in fired:
        by_arm.setdefault(shape.batch.sets[index][1].arm, []).append(index)
    blocks: list[list[list[int]]] = []
    for arm, of_arm in by_arm.items():
        alike, size = _alike(shape, state, of_arm), shape.context.registration.forks_per_block(arm)
        blocks += [alike[start : start + size] for start in range(0, len(alike), size)]
    for groups in blocks:  # no set is in two of them
        trained = _train_block(shape, state, [group[0] for group in groups])
        places = {index: place for place, group in enumerate(groups) for index in group}
        spent |= {index: (fit_record(trained, place), int(trained.steps[place])) for index, place in places.items()}
        models = Models.of(trained.parameters, trained.optimiser, count=len(groups))
        state = dataclasses.replace(state, models=state.models.replaced(models, places))
    return state, spent


def _begin_trials(shape: Shape, state: State, fired: Sequence[int]) -> State:
    """Keep the models that these sets are about to leave, where their policy tries its updates."""
    begun = [index for index in fired if shape.trials[index]]
    if not begun:
        return state
    incumbents = state.incumbents or state.models.take(shape.tried)
    incumbents = incumbents.replaced(state.models, {shape.tried.index(index): index for index in begun})
    under_trial = {**state.under_trial, **dict.fromkeys(begun, ())}
    return dataclasses.replace(state, incumbents=incumbents, under_trial=under_trial)


def _alike(shape: Shape, state: State, fired: Sequence[int]) -> list[list[int]]:
    """Return the sets that fired, those together whose updates come out the same: they are of one cell, with the
    same parameters and optimiser, and have seen the same transitions."""
    groups: dict[tuple[Cell, str, str], list[int]] = {}
    for index in fired:
        seen = content_digest(state.streams[index].recording)
        key = shape.batch.sets[index][1], state.models.digests[index], seen
        groups.setdefault(key, []).append(index)
    return list(groups.values())


def _train_block(shape: Shape, state: State, chosen: Sequence[int]) -> Update:
    """Return the update of these sets. The last one fills the block where the agent needs full ones."""
    context, cells = shape.context, [cell for _, cell in shape.batch.sets]
    arm = context.registration.arm(cells[chosen[0]].arm)
    full = needs_full_blocks(context.agent(shape.batch.task, arm))
    size = context.registration.forks_per_block(arm.name) if full else len(chosen)
    block = [*chosen, *[chosen[-1]] * (size - len(chosen))]
    streams = [whole(state.streams[index], arm.stream.decision_points) for index in block]
    forks = [Fork(cells[index], state.k, stream) for index, stream in zip(block, streams, strict=True)]
    models = state.models.take(block)
    return update_forks(context, forks, parameters=models.parameters, optimiser=models.optimiser)


def rebuild(shape: Shape, streams: Sequence[Stream], rows: Sequence[Sequence[DeploymentRow]]) -> State:
    """Return the state after the last of these rows, of which all sets have as many, from the ledger alone."""
    history = dict(zip(shape.real, streams, strict=True))
    for index in range(len(shape.batch.sets)):  # a padded set is the last cell of its policy over again
        history.setdefault(index, history.get(index - 1, streams[0]))
    state = dataclasses.replace(begin(shape), streams=tuple(history[index] for index in sorted(history)))
    for k in range(1, len(rows[0]) + 1):
        recorded = {index: of[k - 1] for index, of in zip(shape.real, rows, strict=True)}
        segments = {
            index: segment_of(history[index], k, level=row.level, signals=row.signals)
            for index, row in recorded.items()
        }
        returns = {
            index: (row.episode_return, row.trial.incumbent_return if row.trial else None)
            for index, row in recorded.items()
        }
        state, trials = settle(shape, dataclasses.replace(state, k=k), returns)
        state, decisions = decide(shape, state, segments)
        state, _ = update(shape, state, [index for index in recorded if decisions[index].fired])
        for index, row in recorded.items():
            again = trials.get(index), decisions[index].fired, state.models.digests[index]
            if again != (row.trial, row.fired, row.state):
                raise WorldforkError(
                    f"{row.cell}, policy `{row.policy}`: decision {k} does not come out again as its row says. "
                    "This machine or its libraries do not reproduce what the study began with: go on where it "
                    "began, or use a new folder."
                )
    return state


def _put(group: Arrays, trained: Arrays, places: Mapping[int, int], *, what: str) -> Arrays:
    """Return `group` with entries of `trained`, by their `places` there: a gather of one shape."""
    before, after = ({name: np.shape(array)[1:] for name, array in part.items()} for part in (group, trained))
    if before != after:
        raise WorldforkError(
            f"The mechanism gives back another {what} than it was given (other names or shapes), so that a "
            "deployment can not go on with it. Use a mechanism that keeps them."
        )
    if not group:  # an agent may well have no optimiser state
        return group
    index = np.arange(arrays.size(group))
    index[list(places)] = len(index) + np.array(list(places.values()))
    return arrays.take(arrays.concatenate([group, trained]), index)


def _on_host(group: Arrays) -> Arrays:
    return {name: np.asarray(array) for name, array in group.items()}
