"""[deployment]: policies of closed-loop deployments (paper, Discussion: the committing variant).

Where a policy fires, its update persists: the stream goes on with the updated model, its window and its optimiser.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from worldfork.fixed_policies import FIXED_POLICIES
from worldfork.validation import Record

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.]*(-[a-z0-9_.]+)*$")]
# A name of the registry: one that comes with worldfork or with a package, module:attribute, or family:whatever.
Named = Annotated[
    str, StringConstraints(pattern=r"^([a-z0-9][a-z0-9_.]*(-[a-z0-9_.]+)*|[A-Za-z_][\w.]*:[A-Za-z_][\w./-]*)$")
]
Count = Annotated[int, Field(ge=1, le=100_000)]  # of what is computed or kept together, episodes for one
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class RegisteredPolicy(Record):
    """A trigger, the rule that turns its answers into decisions, and the mechanism that it fires."""

    trigger: Named  # a recorded signal, a trigger by name, "never" or "always"
    settings: dict[str, Any] = {}  # settings of the trigger
    # "fitted": on the one-step ledger of other checkpoints; "running": the quantile of its own earlier values; or a
    # number. None: the trigger raises alarms.
    threshold: Literal["fitted", "running"] | float | None = None
    # Share of decisions at which a running quantile or a random policy fires.
    rate: float | None = Field(default=None, gt=0, lt=1)
    matches: Name | None = None  # a random policy fires as often as this one does on the ledger
    arm: Name | None = None  # the arm whose mechanism it fires; else the deployment's
    # Episodes for which an update is on trial: it is kept if it returns more in them than the model before
    # it, which plays them too. With 0 every update is kept.
    trial: Annotated[int, Field(ge=0, le=3)] = Field(default=0, exclude_if=lambda episodes: episodes == 0)

    @model_validator(mode="after")
    def _one_rule(self) -> "RegisteredPolicy":
        if self.trigger == "random":
            if self.threshold is not None or (self.rate is None) == (self.matches is None):
                raise ValueError('a policy with trigger = "random" says `rate`, or `matches` another policy')
        elif self.matches is not None:
            raise ValueError('`matches` is for policies with trigger = "random"')
        elif self.rate is not None and self.threshold != "running":
            raise ValueError('`rate` goes with threshold = "running"')
        if self.trigger in FIXED_POLICIES and (self.threshold is not None or self.settings):
            raise ValueError(f'the policy "{self.trigger}" reads nothing: it has neither threshold nor settings')
        if self.trial and self.trigger == "never":
            raise ValueError('`trial` is for policies that fire, and "never" does not')
        return self

    @property
    def needs_ledger(self) -> bool:
        """Return whether a threshold is fitted on a one-step ledger."""
        return self.threshold == "fitted" or self.matches is not None


class Deployment(Record):
    """Policies side by side on common random numbers. `never` and `always` run in every deployment."""

    policies: dict[Name, RegisteredPolicy] = {}  # by name, beside `never` and `always`
    arm: Name | None = None  # the arm whose stream, cells, precision and mechanism are used; else the first
    evaluate_at: tuple[Count, ...] = ()  # decision points after which the current model is evaluated, pinned
    episodes: Count = 6  # matched episodes of each evaluation
    ledger: str | None = None  # a finished study to take thresholds from; else this study's own forks
    ledger_root: Digest | None = None  # root of that study, as `worldfork verify --root` prints it
    cells_per_batch: Count | None = None  # deployments that are run together with all policies; else all of a task

    @model_validator(mode="after")
    def _consistent(self) -> "Deployment":
        if taken := sorted(set(self.policies) & set(FIXED_POLICIES)):
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

    def every(self) -> dict[str, RegisteredPolicy]:
        """Return all policies in the order in which they run.

        The fixed policies come first, then the others by name, since canonical JSON keeps no other order.
        """
        return {
            **{name: RegisteredPolicy(trigger=name) for name in FIXED_POLICIES},
            **dict(sorted(self.policies.items())),
        }
