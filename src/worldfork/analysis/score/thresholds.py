"""The thresholds of policies in closed loop: fitted on the one-step ledger of other checkpoints.

A policy that fires on checkpoint c may use what updating was worth anywhere but there. So its threshold is the one
that suits all other checkpoints' forks best, by the same fit that scores triggers (policies.py); and a random
policy that matches another fires at the rate at which that one does on these forks.

It takes arrays and no data frame: a machine that runs a study fits its thresholds without polars.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.prefork import ForkFlags, ForkValues, Prefork
from worldfork.analysis.read.study import read_rows, study_table
from worldfork.analysis.read.triggers import lacking, segments, stored_answers
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.decisions import fit_threshold, tied
from worldfork.errors import WorldforkError
from worldfork.ledger.closed_loop import Origin, Thresholds, policy_of
from worldfork.ledger.store import Study
from worldfork.ledger.verify import root as root_of
from worldfork.registration import Registration, deployments
from worldfork.triggers import Answer, draw_event
from worldfork.triggers.policy import Policy, in_json, normal_threshold

Digests = Mapping[tuple[str, str], str]  # (task, checkpoint) -> digest of the model


class Unanswered(WorldforkError):
    """A policy whose trigger can not be asked on frozen streams; `why` says what it lacks."""

    def __init__(self, trigger: str, why: str) -> None:
        super().__init__(f"The trigger `{trigger}` {why}.")
        self.why = why


def threshold_fitter(root: Path) -> Callable[[Study], Thresholds]:
    """Return `fit_thresholds` for a registration whose relative paths start at `root`."""
    return lambda study: fit_thresholds(study, root=root)


def fit_thresholds(study: Study, *, root: Path) -> Thresholds:
    """Return the threshold of every policy that needs one, for every checkpoint, from the study's own one-step rows
    or from the finished study that is registered."""
    registration = study.registration
    registered = registration.deployment
    assert registered is not None
    source, origin = study, None
    if registered.ledger is not None:
        source = Study(root / registered.ledger)
        if (found := root_of(source)) != registered.ledger_root:
            raise WorldforkError(
                f"The ledger `{registered.ledger}` has the root {found}, and {registered.ledger_root} is "
                "registered: thresholds come from the ledger that was registered, or from none."
            )
        origin = Origin(name=source.registration.name, root=found)
    arms = study_table(source, read_rows(source)).arms
    ours, theirs = _checkpoints(study), _checkpoints(source)
    fitted: dict[str, dict[str, dict[str, float]]] = {}
    ordered = sorted(registered.policies, key=lambda name: registered.policies[name].matches is not None)
    for name in (name for name in ordered if registered.policies[name].needs_ledger):
        policy = registered.policies[name]
        for task in dict.fromkeys(cell.task for _, cell in deployments(registration)):
            arm = (registered.policies[policy.matches] if policy.matches else policy).arm
            forks = _forks(arms, arm or registered.arm or registration.arms[0].name, task, policy=name)
            for checkpoint in sorted(
                {cell.checkpoint for _, cell in deployments(registration) if cell.task == task}
            ):
                other = _others(forks, str(checkpoint), task, ours, theirs)
                if not other.any():
                    raise WorldforkError(
                        f"The policy `{name}` takes its threshold for checkpoint {checkpoint} of {task} from other "
                        "checkpoints, and the ledger has none. Register two at least, or another kind of threshold."
                    )
                value = _fit(registration, name, forks, other, fitted, place=(task, str(checkpoint)))
                fitted.setdefault(name, {}).setdefault(task, {})[str(checkpoint)] = value
    return Thresholds(
        ledger=origin,
        policies={
            name: {task: {key: in_json(value) for key, value in of.items()} for task, of in tasks.items()}
            for name, tasks in fitted.items()
        },
    )


def decisions_on(
    prefork: Prefork, policy_at: Callable[[str], Policy], *, seed: int
) -> tuple[ForkValues, ForkFlags]:
    """Return what a policy would have answered and decided at every fork of frozen deployments, fed as it is when
    deployed. `policy_at` gives the policy of a checkpoint. Where a copy has no stream, what its trigger answered on
    it is judged instead; where it has neither, the policy is `Unanswered`."""
    answers, fired = np.full(len(prefork), np.nan), np.zeros(len(prefork), bool)
    for index, span in prefork.spans():
        policy = policy_at(prefork.cells[index].checkpoint)
        for fork, answer, fires in _decided(prefork, index, span, policy, seed=seed):
            answers[fork], fired[fork] = np.nan if answer is None else float(answer), fires
    return answers, fired


def _decided(
    prefork: Prefork, index: int, span: slice, policy: Policy, *, seed: int
) -> Iterator[tuple[int, Answer, bool]]:
    """Yield the answer and the decision at every fork of one cell."""
    name, cell, stored = policy.trigger, prefork.cells[index], None
    if policy.inner is not None:
        if why := lacking(prefork, index, name, policy.inner, seed=seed):
            raise Unanswered(name, why)
        stored = stored_answers(prefork, index, name, policy.inner, seed=seed)
    if stored is not None:
        earlier: list[float] = []
        for place in range(span.start, span.stop):
            yield place, *policy.judge(earlier, stored[int(prefork.k[place]) - 1])
        return
    memory = policy.begin(cell, event=draw_event(name, task=prefork.task, cell=cell, seed=seed))
    for fork, segment in enumerate(segments(prefork, index, span), start=span.start):
        memory, answer, fires = policy.consider(memory, segment)
        yield fork, answer, fires


def _fit(
    registration: Registration,
    name: str,
    forks: Forks,
    other: ForkFlags,
    fitted: Mapping[str, Mapping[str, Mapping[str, float]]],
    *,
    place: tuple[str, str],
) -> float:
    assert registration.deployment is not None
    matched = registration.deployment.policies[name].matches
    # A ledger is registered by its root, which does not cover what a copy says was answered on its streams.
    prefork = dataclasses.replace(forks.prefork, answers=())
    if matched is None:
        asked = policy_of(registration, name, threshold="inf")
        answers, _ = decisions_on(prefork, lambda _: asked, seed=registration.seed)
        return fit_threshold(tied(answers)[other], forks.delta[other])
    task, checkpoint = place
    threshold = fitted.get(matched, {}).get(task, {}).get(checkpoint)
    policy = policy_of(registration, matched, threshold=None if threshold is None else in_json(threshold))
    _, fired = decisions_on(prefork, lambda _: policy, seed=registration.seed)
    return normal_threshold(float(fired[other].mean()))


def _forks(arms: Mapping[str, Mapping[str, Forks]], arm: str, task: str, *, policy: str) -> Forks:
    if arm not in arms or task not in arms[arm]:
        raise WorldforkError(
            f"The policy `{policy}` takes its threshold from arm `{arm}` on {task}, of which the ledger has no "
            f"forks; it has {', '.join(arms)}."
        )
    return arms[arm][task]


def _others(forks: Forks, checkpoint: str, task: str, ours: Digests, theirs: Digests) -> ForkFlags:
    """Return the forks of every model but this one."""
    parts = partition(forks.prefork)
    same = [theirs.get((task, name)) == ours.get((task, checkpoint)) for name in parts.checkpoints]
    return ~np.array(same)[parts.checkpoint]


def _checkpoints(study: Study) -> dict[tuple[str, str], str]:
    digests = {}
    for cell in study.cells():
        configuration = cell.configuration
        where = configuration["coordinates"]
        digests[str(where["task"]), str(where["checkpoint"])] = str(configuration["checkpoint"]["digest"])
    return digests
