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
    from worldfork.analysis.present import figures
    from worldfork.analysis.read.table import read_table as read_table
    from worldfork.analysis.score import Rules as Rules
    from worldfork.analysis.score import Score as Score
    from worldfork.api import Study as Study
    from worldfork.api import check as check
    from worldfork.api import power as power
    from worldfork.api import report as report
    from worldfork.api import run as run
    from worldfork.api import score as score
    from worldfork.lab.tools.film import replay as replay
    from worldfork.lab.tools.pretraining import pretrain as pretrain
    from worldfork.ledger.verify import verify as verify
    from worldfork.recorder import Recorder as Recorder
    from worldfork.registration import Registration as Registration

    plot = figures

# name -> its module, or the module that it is
_NAMES = {
    "Recorder": "worldfork.recorder",
    "Registration": "worldfork.registration",
    "Rules": "worldfork.analysis.score",
    "Score": "worldfork.analysis.score",
    "benchmark": "worldfork.benchmark",
    "plot": "worldfork.analysis.present.figures",
    "pretrain": "worldfork.lab.tools.pretraining",
    "read_table": "worldfork.analysis.read.table",
    "replay": "worldfork.lab.tools.film",
    "testing": "worldfork.testing",
    "verify": "worldfork.ledger.verify",
    **dict.fromkeys(("Study", "check", "power", "report", "run", "score"), "worldfork.api"),
}
__all__ = ["__version__", *_NAMES]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'worldfork' has no attribute {name!r}")
    found = importlib.import_module(_NAMES[name])
    value = found if name in ("benchmark", "plot", "testing") else getattr(found, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
