"""[deployment]: policies that are followed all the way (paper, Discussion: the committing variant).

Where a policy fires, its update persists: the stream goes on with the updated model, its window and its optimiser.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from worldfork.records import Record

__all__ = ["REFERENCES", "Count", "Deployment", "Policy"]

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.]*(-[a-z0-9_.]+)*$")]
Named = Annotated[
    str, StringConstraints(pattern=r"^([a-z0-9][a-z0-9_.]*(-[a-z0-9_.]+)*|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*)$")
]
Count = Annotated[int, Field(ge=1, le=100_000)]  # of what is computed or kept together, episodes for one
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Policy(Record):
    """A trigger, the rule that makes decisions of its answers, and the mechanism that it fires."""

    trigger: Named  # a recorded signal, a trigger by name, "never" or "always"
    settings: dict[str, Any] = {}  # of the trigger
    # "fitted": on the one-step ledger of other checkpoints; "running": the quantile of its own earlier values; or a
    # number. None: the trigger raises alarms.
    threshold: Literal["fitted", "running"] | float | None = None
    rate: float | None = Field(default=None, gt=0, lt=1)  # of the running quantile, or of a random policy
    matches: Name | None = None  # a random policy fires at the rate at which this one does in the one-step ledger
    arm: Name | None = None  # whose mechanism; None: the deployment's

    @model_validator(mode="after")
    def _one_rule(self) -> "Policy":
        if self.trigger == "random":
            if self.threshold is not None or (self.rate is None) == (self.matches is None):
                raise ValueError('a policy with trigger = "random" says `rate`, or `matches` another policy')
        elif self.matches is not None:
            raise ValueError('`matches` is for policies with trigger = "random"')
        elif self.rate is not None and self.threshold != "running":
            raise ValueError('`rate` goes with threshold = "running"')
        if self.trigger in REFERENCES and (self.threshold is not None or self.settings):
            raise ValueError(f'the policy "{self.trigger}" reads nothing: it has neither threshold nor settings')
        return self

    @property
    def needs_ledger(self) -> bool:
        """Whether a threshold has to be taken from a one-step ledger."""
        return self.threshold == "fitted" or self.matches is not None


class Deployment(Record):
    """Policies side by side on common random numbers. `never` and `always` run in every deployment."""

    policies: dict[Name, Policy] = {}
    arm: Name | None = None  # whose stream, cells, precision and mechanism; None: the first
    evaluate_at: tuple[Count, ...] = ()  # decision points at which the model as it then is is evaluated, pinned
    episodes: Count = 6  # m of each evaluation
    ledger: str | None = None  # a finished study to take thresholds from; None: this study's own one-step rows
    ledger_root: Digest | None = None  # its root, as `worldfork verify --root` prints it
    cells_per_batch: Count | None = None  # that are run together with all their policies; None: all of a task

    @model_validator(mode="after")
    def _consistent(self) -> "Deployment":
        if taken := sorted(set(self.policies) & set(REFERENCES)):
            raise ValueError(f"the policy `{taken[0]}` is part of every deployment: name yours otherwise")
        if "segments" in self.policies:
            raise ValueError("a policy can not be called `segments`: the ledger has a folder of that name")
        if list(self.evaluate_at) != sorted(set(self.evaluate_at)):
            raise ValueError(f"`evaluate_at` ascends; got {list(self.evaluate_at)}")
        if (self.ledger is None) != (self.ledger_root is None):
            raise ValueError("`ledger` and `ledger_root` go together: thresholds come from a study that is known")
        for name, policy in self.policies.items():
            matched = policy.matches
            if matched is not None and (matched not in self.policies or self.policies[matched].matches):
                raise ValueError(
                    f"the policy `{name}` matches `{matched}`, which is not a policy with its own rule"
                )
        return self

    def every(self) -> dict[str, Policy]:
        """All policies in the order in which they are run: the references first, then by name, since a canonical
        file keeps no other order."""
        return {**{name: Policy(trigger=name) for name in REFERENCES}, **dict(sorted(self.policies.items()))}


REFERENCES: Final = ("never", "always")
