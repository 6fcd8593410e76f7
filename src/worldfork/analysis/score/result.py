"""A whole score: every task of every arm, how the arms compare, and why some figures are undefined."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

from worldfork.analysis.score.contrasts import Contrast
from worldfork.analysis.score.deployment_records import TaskDeployment
from worldfork.analysis.score.effects import Normalised
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.rules import Family, Rules
from worldfork.analysis.score.stopping import StoppingScore
from worldfork.analysis.score.sweeps import DoseSweep, NoiseSweep
from worldfork.analysis.score.undefined import Estimands, Named, Undefined, settle
from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.registration import Registration

if TYPE_CHECKING:
    import polars as pl


SCHEMA: Final = "worldfork.score/2"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArmScore:
    """Tasks of an arm, and dR as a share of the frozen return over all of them."""

    tasks: Mapping[str, TaskScore]
    normalised: Normalised | Undefined

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", Named(self.tasks, "task"))


@runtime_checkable
class Readable(Protocol):
    """A score written for people: prints as text, and shows itself in a notebook."""

    def _repr_html_(self) -> str: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score:
    """Every figure of a ledger; the keys are the same whatever the number of arms.

    `score["arm", "task"]` is the record of a task, and so is `score["task"]` where there is one arm; a score is
    iterated over these keys. A table that names no arm has one, called "". `print(score.summary())` prints what the
    command line does, and a notebook shows it.

    >>> import polars as pl, worldfork as wf
    >>> rows = [(c, k, 90.0, 80.0 + c) for c in range(3) for k in (1, 2)]
    >>> table = pl.DataFrame(rows, schema=["checkpoint", "k", "r_hold", "r_update"], orient="row")
    >>> score = wf.score(table, permutations=99)
    >>> list(score), len(score), score["table"].effect.all_attempted.mean
    (['table'], 1, -9.0)
    >>> print(str(score.summary()).splitlines()[3])
    Updating every time hurts (leaning): -9.0 [-11.5, -6.5] return per episode on this schedule, -10% of
    """

    name: str = ""  # of the study or the table
    arms: Mapping[str, ArmScore]
    contrasts: Mapping[str, Mapping[str, Estimands[Contrast | Undefined]]]  # "first - second", then the task
    rules: Rules
    family: Family  # what was registered to be tested together
    failed: tuple[str, ...] = ()  # one sentence for each fork with a branch whose return is not finite
    # Of a flat table: False where it has costs, whose signs were turned when it was read. None of a study.
    higher_is_better: bool | None = None
    missing: str = ""  # how many of the registered forks are not there, in a sentence
    # Closed-loop deployments by task; empty where none was registered.
    deployment: Mapping[str, TaskDeployment] = dataclasses.field(default_factory=dict)
    stopping: StoppingScore | None = None  # how a study ended that stops when its questions are answered
    # By task, then by what else sets arms apart ("all", "rate 0.1"): arms that differ in the dose of their update,
    # and in the noise of their stream; empty where none do.
    doses: Mapping[str, Mapping[str, DoseSweep]] = dataclasses.field(default_factory=dict)
    noises: Mapping[str, Mapping[str, NoiseSweep]] = dataclasses.field(default_factory=dict)
    registration: Registration | None = None  # of a study: what its arms are called and how they are set
    ignored: tuple[str, ...] = ()  # columns of a flat table that no figure reads
    # How a score is written for people, which this room does not know: `worldfork.score` gives it.
    writer: "Callable[[Score, bool], Readable] | None" = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", Named(self.arms, "arm"))
        object.__setattr__(self, "deployment", Named(self.deployment, "task with policies that were followed"))

    def __repr__(self) -> str:
        tasks = list(self._tasks().values())
        forks = sum(figures.forks.attempted for figures in tasks)
        verdicts = ["undecided" if isinstance(task.verdict, Undefined) else task.verdict for task in tasks]
        counted = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
        verdict = verdicts[0] if len(tasks) == 1 else counted
        return f"Score({self.name}: {plural(len(self.arms), 'arm')}, {plural(forks, 'fork')}; {verdict})"

    def __getitem__(self, key: str | tuple[str, str]) -> TaskScore:
        if isinstance(key, tuple):
            arm, task = key
        elif len(self.arms) == 1:
            arm, task = next(iter(self.arms)), key
        else:
            raise WorldforkError(f"This score has several arms: say score[ARM, {key!r}]. {self._keys()}")
        if arm not in self.arms or task not in self.arms[arm].tasks:
            raise WorldforkError(f"There is no score[{arm!r}, {task!r}]. {self._keys()}")
        return self.arms[arm].tasks[task]

    def __iter__(self) -> Iterator[str | tuple[str, str]]:
        """Return the keys of every record: its task, or (arm, task) where there are several arms."""
        return (task if len(self.arms) == 1 else (arm, task) for arm, task in self._tasks())

    def __len__(self) -> int:
        return len(self._tasks())

    def __contains__(self, key: object) -> bool:
        return key in list(self)

    def _repr_html_(self) -> str | None:
        return self.summary()._repr_html_() if self.writer else None

    def summary(self, *, verbose: bool = False) -> "Readable":
        """Return what `worldfork score` prints: text when printed, headings and tables in a notebook.

        `verbose` adds what no verdict reads: both estimands, fits, power, and why figures are undefined.
        """
        if self.writer is None:
            raise WorldforkError("A score that `worldfork.score` returns can be written; this one can not.")
        return self.writer(self, verbose)

    def label(self, arm: str) -> str:
        """Return what an arm is called: its registered label, or its name."""
        registered = self.registration.arms if self.registration else ()
        return next((entry.label for entry in registered if entry.name == arm and entry.label), arm)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about figures that can not show what they seem to show."""
        found = [self.missing] if self.missing else []
        best = [task for (_, task), figures in self._tasks().items() if figures.evidence.forks.failing_is_best]
        found += [
            f"A failed branch of {task} counts as better than every other return: give another failure_return, or "
            "say that lower is better where these are costs."
            for task in dict.fromkeys(best)
        ]
        needed, drawn = self.family.permutations_needed, self.rules.permutations
        if drawn < needed:
            found.append(
                f"{drawn:,} permutations can not bring a p below 5% after Holm's adjustment over "
                f"{len(self.family.triggers)} tests of candidates: no trigger can beat its control. "
                f"It takes {needed:,}: --permutations {needed}."
            )
        return tuple(found)

    def to_json(self) -> dict[str, object]:
        """Return what `worldfork score --json` prints: null where a figure is undefined, and why in `undefined`."""
        figures = {"family": self.family, "arms": self.arms, "contrasts": self.contrasts}
        of_some_studies = {
            "stopping": self.stopping,
            "deployment": self.deployment,
            "doses": self.doses,
            "noises": self.noises,
        }
        of_a_table = {} if self.higher_is_better is None else {"higher_is_better": self.higher_is_better}
        there = {name: value for name, value in of_some_studies.items() if value}
        plain, undefined = settle({**figures, **there})
        assert isinstance(plain, dict)
        return {
            "schema": SCHEMA,
            **of_a_table,
            **plain,
            "failed": list(self.failed),
            "warnings": list(self.warnings),
            "undefined": undefined,
        }

    def effects(self) -> "pl.DataFrame":
        """Return one row per arm, task and estimand: mean dR and its intervals."""
        from worldfork.analysis.score import frames

        return frames.effects(self._tasks())

    def estimands(self) -> "pl.DataFrame":
        """Return one row per arm and task: both estimands, the share that diverged, and robust figures."""
        from worldfork.analysis.score import frames

        return frames.estimands(self._tasks())

    def curves(self) -> "pl.DataFrame":
        """Return one row per place along drift and along severity: mean dR with a simultaneous band."""
        from worldfork.analysis.score import frames

        return frames.curves(self._tasks())

    def trials(self) -> "pl.DataFrame":
        """Return one row per rule that proposes updates and number of trial episodes: try, then keep."""
        from worldfork.analysis.score import frames

        return frames.trials(self._tasks())

    def prices(self) -> "pl.DataFrame":
        """Return one row per trigger: the prices of an update between which it is worth the most."""
        from worldfork.analysis.score import frames

        return frames.prices(self._tasks())

    def deployments(self) -> "pl.DataFrame":
        """Return one row per policy in closed-loop deployment: what it returned, and what was forecast."""
        from worldfork.analysis.score import frames

        return frames.deployments(self.deployment)

    def forecasts(self) -> "pl.DataFrame":
        """Return one row per forecast from one-step labels: how well it orders policies, and how far it is off."""
        from worldfork.analysis.score import frames

        return frames.forecasts(self.deployment)

    def triggers(self, estimand: Literal["retained", "all_attempted"] = "all_attempted") -> "pl.DataFrame":
        """Return one row per arm, task and trigger: ranking, total, and its random controls."""
        from worldfork.analysis.score import frames

        return frames.triggers(self._tasks(), estimand)

    def policies(self, estimand: Literal["retained", "all_attempted"] = "all_attempted") -> "pl.DataFrame":
        """Return one row per arm, task and policy: never, always, oracle, and each trigger by both thresholds."""
        from worldfork.analysis.score import frames

        return frames.policies(self._tasks(), estimand)

    def fires(self, estimand: Literal["retained", "all_attempted"] = "all_attempted") -> "pl.DataFrame":
        """Return a row per arm, task, fork and trigger: where it is, and did the trigger fire there.

        Thresholds are fitted leave-one-checkpoint-out on the forks of `estimand`. `fired` is null where they are
        undefined, and a missing signal never fires.
        """
        from worldfork.analysis.score import frames

        return frames.fires(self._tasks(), estimand)

    def _tasks(self) -> dict[tuple[str, str], TaskScore]:
        return {(arm, task): figures for arm, tasks in self.arms.items() for task, figures in tasks.tasks.items()}

    def _keys(self) -> str:
        return f"There are {', '.join(str(key) for key in self._tasks()) or 'none'}."
