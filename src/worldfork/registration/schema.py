"""Records of a registration, and the canonical JSON that every digest is taken of.

A field with `exclude_if` is absent from the canonical JSON at its default: it was added later, and registrations
that do not use it keep their digests. The comments beside fields are the reference that users read.
"""

import hashlib
import json
import math
import re
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from worldfork.counting import plural
from worldfork.registration.policies import Count, Deployment, Name, Named
from worldfork.registration.stopping import Stopping
from worldfork.validation import Record


def canonical(value: Any) -> str:
    """Return JSON with sorted keys, no spaces, UTF-8 and shortest floats; raise ValueError on non-finite numbers.

    >>> canonical({"b": 0.1, "a": [1, None]})
    '{"a":[1,null],"b":0.1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


# What can be scored as a trigger: a name of the registry, or a recorded signal by its label, as in `Disagreement`.
Candidate = Annotated[
    str, StringConstraints(pattern=r"^([A-Za-z0-9][\w.]*(-[\w.]+)*|[A-Za-z_][\w.]*:[A-Za-z_][\w./-]*)$")
]
Direction = Literal["toward", "away"]
Index = Annotated[int, Field(ge=0, lt=2**31)]
Steps = Annotated[int, Field(ge=1, le=10**9)]  # of a world, or of an optimiser
Amount = Annotated[float, Field(ge=0)]
Settings = dict[str, Any]  # a plug-in's own: its record checks them as soon as it is loaded
# The candidates of a study that names none, frozen: a family that is added to the catalogue later, or one more
# recorded signal, must change no verdict on an old ledger.
CANDIDATES: Final = (
    "residual",
    "running_variance",
    "percentile",
    "kl",
    "validation_loss",
    "return_deficit",
    "adwin",
    "page_hinkley",
    "kswin",
    "conformal",
)
FORKS: Final = 10_000_000  # of a whole registration; the largest published study has 3,072
PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}")  # in the path of checkpoints
GYMNASIUM_ID: Final = re.compile(r"[A-Z]\w*-v\d+")
LABEL: Final = 60  # characters of an arm's label, which heads columns of tables
SIGNALS: Final = (
    "residual",
    "kl",
    "running_variance",
    "percentile",
    "return_deficit",
    "validation_loss",
    "drift",
    "clock",
)


class Grid(Record):
    """Axes of the cells that every arm shares."""

    tasks: tuple[Name, ...] = Field(min_length=1)  # each has a table [tasks.TASK]
    checkpoints: tuple[Index, ...] = Field(min_length=1)  # trained models, by number: the unit of every interval
    directions: tuple[Direction, ...] = Field(min_length=1)  # of the drift: toward the clean world, or away from it
    stream_seeds: tuple[Index, ...] = (0,)  # each is another deployment of the same checkpoint
    update_seeds: tuple[Index, ...] = (0,)  # draws of each update's minibatches, which share everything else

    @model_validator(mode="after")
    def _distinct(self) -> "Grid":
        for name, values in self:
            if len(set(values)) < len(values):
                raise ValueError(f"`grid.{name}` names something twice: {list(values)}")
        return self


class Stream(Record):
    """The frozen deployment. Decision point k is at the end of episode k."""

    decision_points: Count = 24  # episodes of a deployment, with a fork at the end of each
    drift_period: Steps = 20_000  # environment steps from one end of the drift to the other
    action_noise: Amount = 0.0  # standard deviation of the noise that is added to each planned action
    # How the drift level moves: `worldfork list schedules`.
    schedule: Named = Field(default="ramp", exclude_if=lambda schedule: schedule == "ramp")
    schedule_settings: Settings = Field(default={}, exclude_if=lambda settings: not settings)  # of the schedule


class Evaluation(Record):
    """Evaluation of both branches."""

    # Pinned: the drift level stays as it was at the fork. Forward: it goes on along the schedule.
    mode: Literal["pinned", "forward"] = "pinned"
    episodes: Count = 30  # matched episodes of each branch (m)


class Mechanism(Record):
    """The update of the UPDATE branch."""

    name: Named = "finetune"  # `worldfork list mechanisms`, or module:attribute
    steps: Annotated[int, Field(ge=0, le=10**9)] = 200  # gradient steps of an update (N)
    window: Steps = 10_000  # the last control transitions that an update may see (W)
    scope: str = "model"  # parts of the agent that are trained, such as "model" or "model+value"
    settings: Settings = {}  # settings of the mechanism, such as rate = 0.1


class Arm(Record):
    """An experimental condition: every setting of the grid's cells, in full."""

    name: Name  # in cells, tables and predictions
    # Readable name for pages and screens, such as "a tenth of the learning rate".
    label: str = Field(default="", exclude_if=lambda label: not label)
    tasks: tuple[Name, ...] = Field(min_length=1)  # those of [grid] where the arm names none
    stream_seeds: tuple[Index, ...] = Field(min_length=1)  # those of [grid] where the arm names none
    update_seeds: tuple[Index, ...] = Field(default=(0,), min_length=1)  # those of [grid] where it names none
    stream: Stream  # [stream] with the arm's changes
    evaluation: Evaluation  # [evaluation] with the arm's changes
    mechanism: Mechanism  # [mechanism] with the arm's changes
    precision: str | None = None  # of evaluation and update; else the task's
    settings: Settings = {}  # changes to the task's agent settings, for evaluation and update
    # Forks that are computed together, where it is not the number in [execution].
    forks_per_block: Count | None = Field(default=None, exclude_if=lambda size: size is None)

    @field_validator("label")
    @classmethod
    def _fits_in_a_table(cls, label: str) -> str:
        if len(label) > LABEL or label != " ".join(label.split()):
            raise ValueError(f"expected at most {LABEL} characters on one line, single spaces between words")
        return label

    def decisive(self) -> dict[str, Any]:
        """Return the settings that determine a cell's rows: all but the arm's names and the axes of its cells."""
        return self.model_dump(mode="json", exclude={"name", "label", "tasks", "stream_seeds", "update_seeds"})


class Task(Record):
    """Agent, environment and drift of a task."""

    agent: Named  # `worldfork list agents`, or module:attribute
    environment: Named | None = None  # `worldfork list environments`, or module:attribute; else the task's name
    environment_settings: Settings = {}  # settings of the environment
    drift_scale: float = Field(gt=0)  # the drifting parameter at level 1, in units of its nominal value
    # The parameter at a level between 0 and 1: nominal * (1 + level * (scale - 1)), or nominal * scale**level.
    drift: Literal["linear", "log"] = "linear"
    checkpoints: str = "generated"  # a path with {task} and {checkpoint}, "bundled", or "generated" from the seed
    precision: str = "float32"  # of streams, updates and evaluations: float32, tf32, fp16, bf16 or float64
    competence_floor: float | None = None  # clean return below which a checkpoint is not forked
    # After an early end an episode begins anew within its control steps (reset, the default) or earns nothing more
    # (wait).
    after_end: Literal["reset", "wait"] | None = Field(default=None, exclude_if=lambda choice: choice is None)
    settings: Settings = {}  # settings of the agent

    @field_validator("environment", mode="before")
    @classmethod
    def _has_its_family(cls, environment: Any) -> Any:
        if isinstance(environment, str) and GYMNASIUM_ID.fullmatch(environment):
            raise ValueError(f"an environment of Gymnasium is written with its family, 'gymnasium:{environment}'")
        return environment

    @field_validator("checkpoints")
    @classmethod
    def _placeholders_are_known(cls, checkpoints: str) -> str:
        if unknown := sorted(set(PLACEHOLDER.findall(checkpoints)) - {"{task}", "{checkpoint}"}):
            raise ValueError(f"a path has the placeholders {{task}} and {{checkpoint}}; got {', '.join(unknown)}")
        return checkpoints

    def one_file_for_all(self) -> bool:
        """Return whether every checkpoint of the task would be read from the same path."""
        return self.checkpoints not in ("generated", "bundled") and "{checkpoint}" not in self.checkpoints


class Execution(Record):
    """Batch shapes. They enter the ledger for agents whose results depend on them."""

    forks_per_block: Count = 20  # forks that are computed together: twice as many parameter sets
    streams_per_batch: Count = 10  # deployments that are rolled together
    halves: Literal[1, 2] = 1  # 2: the agent plans for one half of the episodes while the other is simulated


class Premise(Record):
    """Condition on a measured figure, without which a prediction is not tested."""

    figure: str  # a path into the score's JSON, such as `clean_return.mean`
    task: Name | None = None  # else the prediction's
    below: float | None = None  # the figure must be below this
    above: float | None = None  # the figure must be above this

    @model_validator(mode="after")
    def _bounded(self) -> "Premise":
        if self.below is None and self.above is None:
            raise ValueError(f"the premise on `{self.figure}` says neither `below` nor `above`")
        return self


class Prediction(Record):
    """Prediction of a figure, which the score reports as held, falsified, unresolved or not tested."""

    name: Name  # in tables and on the page
    task: Name  # that the figure is of
    arm: Name | None = None  # that the figure is of; else each arm of the task
    against: Name | None = None  # another arm: the figure is then the mean of `arm` less that of `against`
    figure: str = "mean"  # a path into the score's JSON, or `mean`: the all-attempted mean dR
    between: tuple[float, float] | None = None  # it held if the figure lies here
    falsified_below: float | None = None  # falsified if the figure lies below this
    falsified_above: float | None = None  # falsified if the figure lies above this
    equivalent_within: float | None = Field(default=None, gt=0)  # two one-sided tests of a mean against this margin
    premise: Premise | None = None  # where it does not hold, nothing was tested

    @model_validator(mode="after")
    def _bounded(self) -> "Prediction":
        bounds = (self.between, self.falsified_below, self.falsified_above, self.equivalent_within)
        if all(bound is None for bound in bounds):
            raise ValueError(f"prediction `{self.name}` states no bound: nothing could falsify it")
        if self.between is not None and self.between[0] > self.between[1]:
            raise ValueError(f"prediction `{self.name}` lies between {list(self.between)}: nothing does")
        if self.equivalent_within is not None and any(bound is not None for bound in bounds[:3]):
            raise ValueError(
                f"prediction `{self.name}` states a margin of equivalence and other bounds: choose one"
            )
        if (self.against is not None or self.equivalent_within is not None) and self.figure != "mean":
            raise ValueError(f"prediction `{self.name}`: arms are compared, and margins tested, on the mean dR")
        if self.against is not None and self.arm is None:
            raise ValueError(f"prediction `{self.name}` compares with arm `{self.against}`: say which `arm`")
        return self


class Scoring(Record):
    """Rules of scoring, chosen before the ledger exists."""

    # A fork diverged where its updated return is below this share of its cell's mean HOLD return; "off": no rule.
    divergence_fraction: float | None = Field(default=0.30, gt=0, lt=1)
    # Share of decisions at which the rule without labels, a quantile of the signal's own past, fires.
    running_quantile_rate: float = Field(default=0.3, gt=0, lt=1)
    contraction_edges: dict[Name, tuple[float, ...]] = {}  # by task: edges of r_hold between bins of mean dR
    triggers: tuple[Candidate, ...] = CANDIDATES  # tests are adjusted over these x tasks x arms
    severity_edges: tuple[float, ...] = (0.5, 0.75, 0.95)  # of r_hold / clean return, between classes of severity
    # What a branch counts as whose return is not finite; else 0, or the lowest return where returns go below 0.
    failure_return: float | None = None
    # Price of an update in return units, taken off the value of every update.
    update_cost: Amount = Field(default=0.0, exclude_if=lambda cost: cost == 0)
    # Adjustment over a family of tests that share rows; else both are reported, and Holm's decides.
    correction: Literal["holm", "max_t"] | None = Field(default=None, exclude_if=lambda method: method is None)

    @model_validator(mode="after")
    def _ordered(self) -> "Scoring":
        if len(set(self.triggers)) < len(self.triggers):
            raise ValueError(f"`scoring.triggers` names something twice: {list(self.triggers)}")
        edges = {"severity_edges": self.severity_edges, **self.contraction_edges}
        for name, values in edges.items():
            if list(values) != sorted(set(values)):
                raise ValueError(f"edges ascend; those of `{name}` are {list(values)}")
        return self


class Guess(Record):
    """Standard deviations of dR that a power estimate may assume where no earlier ledger is at hand."""

    checkpoint: Amount  # between the means of checkpoints
    fork: Amount  # between forks of a checkpoint
    episode: Amount  # between paired episodes of a fork


class Registration(Record):
    """All settings of a study, decided before it runs."""

    schema_: Literal["worldfork.registration/1"] = Field(alias="schema")  # form of the file
    name: Name  # of the study, in small letters
    about: str = ""  # the question that the study asks, in one sentence
    seed: Index = 0  # that every draw of the study is made from
    grid: Grid
    arms: tuple[Arm, ...] = Field(min_length=1)
    tasks: dict[Name, Task]
    signals: tuple[Named, ...] = SIGNALS  # read before every fork and stored in its row: `worldfork list signals`
    execution: Execution = Execution()
    scoring: Scoring = Scoring()
    predictions: tuple[Prediction, ...] = ()
    guess: dict[Name, Guess] = {}
    # Policies whose updates persist.
    deployment: Deployment | None = Field(default=None, exclude_if=lambda registered: registered is None)
    # Questions that end the study once they are answered.
    stopping: Stopping | None = Field(default=None, exclude_if=lambda registered: registered is None)

    @property
    def digest(self) -> str:
        """Return the digest to which every cell of the ledger points."""
        return digest(self.model_dump(mode="json", by_alias=True))

    def arm(self, name: str) -> Arm:
        """Return the arm of that name."""
        return next(arm for arm in self.arms if arm.name == name)

    def forks_per_block(self, arm: str) -> int:
        """Return the number of forks of that arm that are computed together."""
        return self.arm(arm).forks_per_block or self.execution.forks_per_block

    @model_validator(mode="after")
    def _consistent(self) -> "Registration":
        for name, task in self.tasks.items():
            if len(self.grid.checkpoints) > 1 and task.one_file_for_all():
                raise ValueError(
                    f"`tasks.{name}.checkpoints` is {task.checkpoints!r}, one file for "
                    f"{len(self.grid.checkpoints)} checkpoints, which would count one model so many times: write "
                    "{checkpoint} where their files differ, as in 'models/sac-{checkpoint}.zip'"
                )
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError(f"two arms have one name: {names}")
        for arm in self.arms:
            if unknown := sorted(set(arm.tasks) - set(self.tasks)):
                raise ValueError(
                    f"arm `{arm.name}` runs {unknown}, which have no table: add [tasks.{unknown[0]}] "
                    f"(there are tables for {sorted(self.tasks)})"
                )
        forks = sum(map(self._forks_of, self.arms))
        if forks > FORKS:
            raise ValueError(f"{forks:,} forks are registered, arms together; a study has at most {FORKS:,}")
        for prediction in self.predictions:
            premised = prediction.premise.task if prediction.premise is not None else None
            tasks = {task for task in (prediction.task, premised) if task is not None}
            arms = {arm for arm in (prediction.arm, prediction.against) if arm is not None}
            if not tasks <= set(self.tasks) or not arms <= set(names):
                raise ValueError(f"prediction `{prediction.name}` is about a task or an arm that is not registered")
            self._require_policy(prediction)
        return self

    @model_validator(mode="after")
    def _stoppable(self) -> "Registration":
        if self.stopping is None:
            return self
        if self.deployment is not None:
            raise ValueError(
                "[stopping] and [deployment] do not go together: policies are compared on all checkpoints, so "
                "register them as a study of their own"
            )
        streams = {(arm.name, task): arm.stream_seeds for arm in self.arms for task in arm.tasks}
        if problem := self.stopping.problem(checkpoints=len(self.grid.checkpoints), streams=streams):
            raise ValueError(f"`stopping`: {problem}")
        return self

    def _forks_of(self, arm: Arm) -> int:
        """Return the number of an arm's forks from the lengths of its axes."""
        axes = (arm.tasks, arm.stream_seeds, arm.update_seeds, self.grid.checkpoints, self.grid.directions)
        return math.prod(map(len, axes)) * arm.stream.decision_points

    def _require_policy(self, prediction: Prediction) -> None:
        """Raise unless a prediction about `deployment.policies.NAME` names a registered policy."""
        first, *path = prediction.figure.split(".")
        if first != "deployment":
            return
        if self.deployment is None:
            raise ValueError(f"prediction `{prediction.name}` is about a deployment, and none is registered")
        if path[:1] == ["policies"] and path[1:2] and path[1] not in self.deployment.every():
            policies = ", ".join(self.deployment.every())
            raise ValueError(
                f"prediction `{prediction.name}` is about the policy `{path[1]}`; there are {policies}"
            )

    @model_validator(mode="after")
    def _deployable(self) -> "Registration":
        """Raise unless policies differ in trigger and mechanism alone, so that they can be compared."""
        if self.deployment is None:
            return self
        names = {arm.name: arm for arm in self.arms}
        base = names.get(self.deployment.arm or self.arms[0].name)
        if base is None:
            raise ValueError(f"`deployment.arm` is `{self.deployment.arm}`; there are {sorted(names)}")
        if late := [k for k in self.deployment.evaluate_at if k > base.stream.decision_points]:
            raise ValueError(
                f"`deployment.evaluate_at` has {late[0]}, beyond the last decision point of `{base.name}`"
            )
        for name, policy in self.deployment.policies.items():
            arm = names.get(policy.arm or base.name)
            if arm is None:
                raise ValueError(f"policy `{name}` is about arm `{policy.arm}`; there are {sorted(names)}")
            if policy.trigger in self.signals and policy.threshold is None:
                raise ValueError(
                    f"policy `{name}` reads the signal `{policy.trigger}`, a number: it needs a threshold"
                )
            if policy.trial and arm.mechanism.name == "none":
                raise ValueError(
                    f"policy `{name}` has a `trial`, and the mechanism of arm `{arm.name}` is `none`: there is no "
                    "update to try"
                )
            if policy.trial >= base.stream.decision_points:
                raise ValueError(
                    f"policy `{name}`: a trial of {plural(policy.trial, 'episode')} begins after the first one, "
                    f"and the deployment has {plural(base.stream.decision_points, 'episode')}: no trial would end"
                )
            may_differ = {"name", "label", "mechanism"}
            if arm.model_dump(exclude=may_differ) != base.model_dump(exclude=may_differ):
                raise ValueError(
                    f"policy `{name}`: arm `{arm.name}` differs from `{base.name}` in more than its mechanism, so "
                    "that their deployments could not be compared"
                )
        return self
