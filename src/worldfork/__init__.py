"""worldfork: was this model update worth it?

    import worldfork as wf

    study = wf.run("demo", "runs/demo")      # a registration in, a ledger out; the same call resumes
    score = wf.score(study)                  # as registered; or of any table: wf.score("forks.csv")
    score["cartpole-swingup"].effect.all_attempted.mean
    wf.plot.contraction(score)               # a matplotlib Figure
    wf.report(study)                         # the page; shows itself in a notebook

Nothing is imported before it is used: analysis (`score`, `report`, `verify`) works without jax and mujoco, which
only the lab (`run`, `check`, `pretrain`, `replay`) needs.
"""

import importlib
from typing import TYPE_CHECKING, Any

from worldfork.version import __version__ as __version__

if TYPE_CHECKING:
    from worldfork import benchmark as benchmark
    from worldfork import testing as testing
    from worldfork.analysis.present import figures as plot
    from worldfork.analysis.score import Rules as Rules
    from worldfork.analysis.score import Score as Score
    from worldfork.api import Study as Study
    from worldfork.api import check as check
    from worldfork.api import power as power
    from worldfork.api import pretrain as pretrain
    from worldfork.api import read_table as read_table
    from worldfork.api import replay as replay
    from worldfork.api import report as report
    from worldfork.api import run as run
    from worldfork.api import score as score
    from worldfork.api import verify as verify
    from worldfork.recorder import Recorder as Recorder
    from worldfork.registration import Registration as Registration

__all__ = [
    "Recorder",
    "Registration",
    "Rules",
    "Score",
    "Study",
    "__version__",
    "benchmark",
    "check",
    "plot",
    "power",
    "pretrain",
    "read_table",
    "replay",
    "report",
    "run",
    "score",
    "testing",
    "verify",
]

# name -> "module:attribute", or "module" where the name is a module
_NAMES = {
    "Recorder": "worldfork.recorder:Recorder",
    "Registration": "worldfork.registration:Registration",
    "Rules": "worldfork.analysis.score:Rules",
    "Score": "worldfork.analysis.score:Score",
    "Study": "worldfork.api:Study",
    "benchmark": "worldfork.benchmark",
    "check": "worldfork.api:check",
    "plot": "worldfork.analysis.present.figures",
    "power": "worldfork.api:power",
    "pretrain": "worldfork.api:pretrain",
    "read_table": "worldfork.api:read_table",
    "replay": "worldfork.api:replay",
    "report": "worldfork.api:report",
    "run": "worldfork.api:run",
    "score": "worldfork.api:score",
    "testing": "worldfork.testing",
    "verify": "worldfork.api:verify",
}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'worldfork' has no attribute {name!r}")
    module, _, attribute = _NAMES[name].partition(":")
    found = importlib.import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
