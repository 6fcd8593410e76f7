"""How figures and verdicts are said: one place for the page, the screen, and the tables."""

from worldfork.counting import plural
from worldfork.desk.wording.advice import Advice, advise, triggers_everywhere, useful_triggers
from worldfork.desk.wording.answers import (
    MANY,
    Answer,
    ContrastAnswer,
    answer,
    contrast_answer,
    contrast_summary,
    corrected,
    read_as,
)
from worldfork.desk.wording.by_arm import worth_by_arm
from worldfork.desk.wording.compared import PairSummary, contrast_headlines, summarise_pairs
from worldfork.desk.wording.following import (
    AN_ORDER,
    FollowedAnswer,
    best_first,
    followed_answer,
    followed_digits,
    gains_over_never,
    realised,
)
from worldfork.desk.wording.numbers import (
    DASH,
    digits_for,
    known,
    listed,
    minus,
    number,
    percent,
    rate,
    span,
    with_span,
)
from worldfork.desk.wording.predicted import predicted_digits, predictions_answered
from worldfork.desk.wording.ranking import AUC_RESTS_ON, auc_note, auc_rests_on, auc_with_checkpoints
from worldfork.desk.wording.rules import Group, Rule, rule_groups
from worldfork.desk.wording.settings import changed, update_words, varies
from worldfork.desk.wording.sweeps import dose_means, noise_words, signal_digits, sweep_name, sweep_words
from worldfork.desk.wording.terms import BEATEN, TERMS

__all__ = [
    "AN_ORDER",
    "AUC_RESTS_ON",
    "BEATEN",
    "DASH",
    "MANY",
    "TERMS",
    "Advice",
    "Answer",
    "ContrastAnswer",
    "FollowedAnswer",
    "Group",
    "PairSummary",
    "Rule",
    "advise",
    "answer",
    "auc_note",
    "auc_rests_on",
    "auc_with_checkpoints",
    "best_first",
    "changed",
    "contrast_answer",
    "contrast_headlines",
    "contrast_summary",
    "corrected",
    "digits_for",
    "dose_means",
    "followed_answer",
    "followed_digits",
    "gains_over_never",
    "known",
    "listed",
    "minus",
    "noise_words",
    "number",
    "percent",
    "plural",
    "predicted_digits",
    "predictions_answered",
    "rate",
    "read_as",
    "realised",
    "rule_groups",
    "signal_digits",
    "span",
    "summarise_pairs",
    "sweep_name",
    "sweep_words",
    "triggers_everywhere",
    "update_words",
    "useful_triggers",
    "varies",
    "with_span",
    "worth_by_arm",
]
