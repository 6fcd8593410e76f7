"""Effects, rankings, policies and their controls (paper, stage 3)."""

from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.scoring import score, score_ledger

__all__ = ["Rules", "Score", "TaskScore", "score", "score_ledger"]
