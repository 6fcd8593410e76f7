"""Effects, rankings, policies and their controls (paper, stage 3)."""

from worldfork.analysis.score.decisions import Decisions, fires, policy_total
from worldfork.analysis.score.pinning import pinning_table
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.result import ArmScore, Score
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.run import score, score_ledger
from worldfork.analysis.score.triggers import TriggerScore
from worldfork.analysis.score.undefined import Interval, Undefined
from worldfork.registration.schema import Prediction

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
