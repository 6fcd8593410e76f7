"""Names that come with worldfork, and the classes that they stand for.

Digests of the source that makes rows leave this table out: the class that a name stands for is in them, and a study
can be carried on after another name was added.
"""

from collections.abc import Mapping
from typing import Final, Literal

Group = Literal["agents", "environments", "mechanisms", "triggers", "signals", "schedules", "executors"]

BUILT_IN: Final[Mapping[Group, Mapping[str, str]]] = {
    "agents": {
        "linear_quadratic": "worldfork.lab.agents.linear_quadratic:LinearQuadraticPlugin",
        "rssm_cem": "worldfork.lab.agents.rssm_cem.plugin:RSSMCEMPlugin",
        "tdmpc2": "worldfork.lab.agents.tdmpc2.plugin:TDMPC2Plugin",
        "sb3": "worldfork.lab.adapters.sb3:SB3Plugin",
    },
    "environments": {
        "cartpole-swingup": "worldfork.lab.environments.suite_tasks:CartpolePlugin",
        "walker-walk": "worldfork.lab.environments.suite_tasks:WalkerPlugin",
        "cheetah-run": "worldfork.lab.environments.suite_tasks:CheetahPlugin",
        "hopper-hop": "worldfork.lab.environments.suite_tasks:HopperPlugin",
        "linear_quadratic": "worldfork.lab.environments.linear_quadratic:LinearQuadraticPlugin",
    },
    "mechanisms": {
        "finetune": "worldfork.lab.mechanisms.finetune:FineTune",
        "none": "worldfork.lab.mechanisms.none:Nothing",
        "rehearsal": "worldfork.lab.mechanisms.rehearsal:Rehearse",
        "anchor": "worldfork.lab.mechanisms.anchor:Anchor",
        "partial": "worldfork.lab.mechanisms.partial:Partial",
        "interpolate": "worldfork.lab.mechanisms.partial:Interpolate",
        "adapter": "worldfork.lab.mechanisms.adapter:LowRank",
        "shrink-and-perturb": "worldfork.lab.mechanisms.restarts:ShrinkAndPerturb",
        "reset": "worldfork.lab.mechanisms.restarts:Reset",
        "accept-if-better": "worldfork.lab.mechanisms.accept_if_better:AcceptIfBetter",
    },
    "triggers": {
        "adwin": "worldfork.triggers.adwin:Adwin",
        "page_hinkley": "worldfork.triggers.page_hinkley:PageHinkley",
        "kswin": "worldfork.triggers.kswin:Kswin",
        "conformal": "worldfork.triggers.conformal:ConformalMartingale",
        "drift": "worldfork.triggers.references:DriftOracle",
        "periodic": "worldfork.triggers.references:Periodic",
        "clock": "worldfork.triggers.references:Clock",
        "random": "worldfork.triggers.references:Coin",
        "ridge": "worldfork.triggers.learned:Ridge",
        "stumps": "worldfork.triggers.learned:BoostedStumps",
    },
    "signals": {
        "residual": "worldfork.lab.signals:Residual",
        "kl": "worldfork.lab.signals:RawKL",
        "running_variance": "worldfork.lab.signals:RunningVariance",
        "percentile": "worldfork.lab.signals:Percentile",
        "return_deficit": "worldfork.lab.signals:ReturnDeficit",
        "validation_loss": "worldfork.lab.signals:ValidationLoss",
        "drift": "worldfork.lab.signals:Drift",
        "clock": "worldfork.lab.signals:Clock",
    },
    "schedules": {
        "ramp": "worldfork.lab.environments.drift:Ramp",
        "constant": "worldfork.lab.environments.drift:Constant",
        "step": "worldfork.lab.environments.drift:Step",
        "cyclic": "worldfork.lab.environments.drift:Cyclic",
        "saw_wave": "worldfork.lab.environments.drift:SawWave",
        "random_walk": "worldfork.lab.environments.drift:RandomWalk",
        "uniform": "worldfork.lab.environments.drift:Uniform",
        "table": "worldfork.lab.environments.drift:Table",
    },
    "executors": {
        "local": "worldfork.executors.local:Local",
        "ray": "worldfork.executors.ray:Ray",
        "slurm": "worldfork.executors.slurm:Slurm",
    },
}

# Family -> what it stands for, and the setting that the rest of the name is; it goes before a module so called.
FAMILIES: Final[Mapping[Group, Mapping[str, tuple[str, str]]]] = {
    "environments": {
        "dm_control": ("worldfork.lab.adapters.control_suite:ControlSuitePlugin", "task"),
        "gymnasium": ("worldfork.lab.adapters.gymnasium_worlds:GymnasiumPlugin", "id"),
    },
}
