"""Stage 2b of a study: closed-loop deployments of its policies, segment after segment, into the ledger.

Only the calling process writes: a segment's arrays first, then its rows. A run that was killed in between computes
the segment again, and what is there already must come out again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from worldfork.errors import WorldforkError
from worldfork.lab.closed_loop.batches import Batch, History, deployment_batches, read_history, read_thresholds
from worldfork.lab.closed_loop.jobs import Advance, Ended
from worldfork.lab.closed_loop.state import State
from worldfork.lab.determinism import require_again
from worldfork.lab.forks.jobs import Identity, Setting
from worldfork.ledger.closed_loop import THRESHOLDS, Part, Thresholds, write_segment
from worldfork.ledger.store import Deployed, Study, StudyWriter
from worldfork.progress import Progress
from worldfork.registration import Registration, canonical

# Given a study whose one-step rows are there: the thresholds of its policies, each fitted on other checkpoints.
FitThresholds = Callable[[Study], Thresholds]
Map = Callable[[Iterable[Advance]], Iterator[tuple[int, Ended]]]


def run_deployments(
    study: StudyWriter,
    registration: Registration,
    *,
    setting: Setting,
    identities: Mapping[Deployed, Identity],
    fit: FitThresholds | None,
    map_jobs: Map,
    progress: Progress,
) -> None:
    """Run every segment that is missing, batch beside batch. `identities` is what workers must be, for each policy
    and cell."""
    thresholds = _thresholds(study, registration, fit)
    batches = deployment_batches(registration)
    points = registration.arm(batches[0].cells[0][0].arm).stream.decision_points
    total = points * sum(len(batch.sets) for batch in batches)

    def report() -> None:
        progress("episodes", sum(map(len, study.deployed_rows.values())), total)

    report()
    waiting: deque[Advance] = deque()

    def taken() -> Iterator[Advance]:
        while waiting:
            yield waiting.popleft()

    def job(batch: Batch, *, state: State | None = None, history: History | None = None) -> Advance:
        policy, cell = batch.sets[0]
        needed = setting.only([cell for _, cell in batch.sets])
        return Advance(needed, batch, thresholds, identities[policy, cell.id], state=state, history=history)

    for batch in batches:
        done = min(len(study.deployed_rows[policy, cell.id]) for policy, cell in batch.sets)
        if done < points:
            history = read_history(study.path, batch, study.deployed_rows, done=done) if done else None
            waiting.append(job(batch, history=history))
    while waiting:
        # An executor that stops asking once the jobs run out is asked again: a segment's end makes the next job.
        for _, ended in map_jobs(taken()):
            _write(study, ended)
            report()
            policy, cell = ended.batch.sets[0]
            took = {"what": "segment", "seconds": ended.seconds, **ended.advanced.seconds, "worker": ended.worker}
            study.deployment(policy, cell.id).note("timings.jsonl", took)
            if ended.advanced.state.k < points:
                waiting.append(job(ended.batch, state=ended.advanced.state))


def _thresholds(study: StudyWriter, registration: Registration, fit: FitThresholds | None) -> Thresholds:
    """Return those that the study has, or those that are fitted now, and kept: resuming reads them back."""
    assert registration.deployment is not None
    if not any(policy.needs_ledger for policy in registration.deployment.policies.values()):
        return Thresholds()
    path = study.path / THRESHOLDS
    if not path.exists():
        if fit is None:
            raise WorldforkError(
                "This registration's policies have thresholds that are fitted on a one-step ledger: run it with "
                "worldfork.run or `worldfork run`, where the analysis fits them."
            )
        fitted = fit(study).model_dump(mode="json", by_alias=True)
        study.keep(THRESHOLDS, (canonical(fitted) + "\n").encode())
    study.keep(THRESHOLDS, path)
    return read_thresholds(study)


def _write(study: StudyWriter, ended: Ended) -> None:
    """The segment's arrays first, then its rows, one deployment after the other."""
    rows = ended.advanced.rows
    k = rows[0].k
    named = [(policy, cell.id) for policy, cell in ended.batch.sets]
    for place, row in zip(named, rows, strict=True):
        for written in study.deployed_rows[place][k - 1 : k]:
            require_again(f"{place[1]}, policy `{place[0]}`, episode {k}", written, row)
    episodes = list(zip(named, ended.advanced.episodes, strict=True))
    logs = [Part(*place, stream.log) for place, stream in episodes]
    recordings = [Part(*place, stream.recording) for place, stream in episodes]
    write_segment(study.path, ended.batch.name, k, logs, recordings)
    for place, row in zip(named, rows, strict=True):
        if k > len(study.deployed_rows[place]):
            study.deployed_rows[place] += study.deployment(*place).append([row])
