"""Effects, rankings, policies and their controls (paper, stage 3)."""

from worldfork.desk.scoring.decisions import Decisions
from worldfork.desk.scoring.pinning import pinning_table
from worldfork.desk.scoring.policies import fires, policy_total
from worldfork.desk.scoring.predictions import Prediction
from worldfork.desk.scoring.rules import Rules
from worldfork.desk.scoring.score import Score, TaskScore, score, score_task
from worldfork.desk.scoring.undefined import Undefined

__all__ = [
    "Decisions",
    "Prediction",
    "Rules",
    "Score",
    "TaskScore",
    "Undefined",
    "fires",
    "pinning_table",
    "policy_total",
    "score",
    "score_task",
]
