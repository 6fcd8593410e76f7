"""Effects, rankings, policies and their controls (paper, stage 3)."""

from worldfork.desk.scoring.decisions import Decisions
from worldfork.desk.scoring.ledgers import score_ledger
from worldfork.desk.scoring.pinning import pinning_table
from worldfork.desk.scoring.policies import fires, policy_total
from worldfork.desk.scoring.predictions import Prediction
from worldfork.desk.scoring.records import TaskScore, TriggerScore
from worldfork.desk.scoring.result import ArmScore, Score
from worldfork.desk.scoring.rules import Rules
from worldfork.desk.scoring.score import score
from worldfork.desk.scoring.undefined import Interval, Undefined

__all__ = [
    "ArmScore",
    "Decisions",
    "Interval",
    "Prediction",
    "Rules",
    "Score",
    "TaskScore",
    "TriggerScore",
    "Undefined",
    "fires",
    "pinning_table",
    "policy_total",
    "score",
    "score_ledger",
]
