"""Definitions of the words that tables, screen and page use."""

from typing import Final

__all__ = ["BEATEN", "TERMS"]

TERMS: Final[dict[str, str]] = {
    "dR": "The return of the branch that updated less the return of the branch that held, per episode.",
    "fork": (
        "One decision point at which the deployment was continued twice: UPDATE trains the model, HOLD keeps it. "
        "Both are judged by their returns."
    ),
    "HOLD": "The branch that keeps the frozen model.",
    "UPDATE": "The branch that trains the model on what it has just seen.",
    "cell": "One deployment: a checkpoint, a direction of drift and a stream seed. It has several decision points.",
    "decision point": "A moment of a deployment at which the model could be updated; k counts them from 1.",
    "toward, away": (
        "The direction of drift: away from the world that the model was trained in, or from the other end back "
        "toward it."
    ),
    "arm": "One way to update and to judge it, registered with a name. Arms of a study meet the same streams.",
    "checkpoint": (
        "One pretrained model. Checkpoints are the independent units: every interval and test counts them, not "
        "forks."
    ),
    "all attempted": (
        "Every fork that was run, failures included. Every figure is about these unless it says otherwise."
    ),
    "retained": (
        "The forks left after those that diverged are taken out: r_update below a registered share of the mean "
        "r_hold of their cell."
    ),
    "diverged": "Its r_update fell below a registered share of the mean r_hold of the fork's cell.",
    "never": (
        "The policy that never updates: the frozen model, deployed to the end. Every other policy is compared with "
        "it, on the same episodes."
    ),
    "by the ledger": (
        "The mean over decision points of dR where the policy fires on the frozen stream, and 0 where it does not. "
        "The last decision counts, though no episode of the deployment follows it."
    ),
    "frozen return": "What the model returns when nothing updates it, on the same drifted world (HOLD).",
    "clean return": "What the checkpoint returned before the world drifted.",
    "Student-t 95%": ("The interval of the mean over checkpoints, by Student's t. Verdicts read this one."),
    "bootstrap 95%": (
        "The interval of the mean by resampling checkpoints. With five checkpoints it covers about 84%, so it is "
        "shown beside Student's t, and no verdict reads it."
    ),
    "resolved": (
        "The Student-t interval excludes 0, and both the Student-t and the exact sign-flip p stay below .05 after "
        "Holm's correction over all registered means."
    ),
    "leaning": (
        "The Student-t interval excludes 0, but a stricter test does not: the exact sign-flip test, or Holm's "
        "correction over the registered means."
    ),
    "unresolved": "The Student-t interval contains 0: the data speak for neither side.",
    "sign flips": (
        "An exact test: were updating worth nothing, each checkpoint's mean would be as likely below 0 as above. "
        "With n checkpoints its p can not fall below 2^(1 - n): .0625 with five. Beyond 16 checkpoints the "
        "patterns of signs are too many to list, and 100,000 of them are drawn."
    ),
    "Holm": (
        "Who tests often finds something by chance. Holm's correction multiplies the smallest p of a registered "
        "family by the number of its tests, the next by one less, and so on."
    ),
    "helped": (
        "The share of forks with dR above 0, averaged over cells and checkpoints: an estimate of P(update > hold) "
        "at a decision point. Measured dR is noisy, which pulls the share toward one half."
    ),
    "trigger": "A rule that reads a signal before the fork and says whether to update.",
    "candidate": "A trigger that the study registered to be tested; of a flat table, every signal that it has.",
    "reference": (
        "A yardstick, not a trigger for use: it reads what no deployment could (the true drift), or nothing at all "
        "(a clock, a coin)."
    ),
    "exploratory": "A trigger that was looked at besides the registered ones: nothing it does counts as a finding.",
    "oracle": "Updates exactly where dR is above 0. It knows the answers: a ceiling that no rule can reach.",
    "position table": (
        "Updates at the (direction, k) where the other checkpoints gained on average. It reads the schedule of the "
        "study, not the model: a signal worth having must beat it."
    ),
    "direction clock": (
        "Updates, in each direction, from some k on or up to some k, whichever suited the other checkpoints. Like "
        "the position table it reads the schedule, not the model."
    ),
    "fires": "How many forks a rule would have updated at.",
    "chance": "What rules earn that fire as often in every cell, but at random places.",
    "beats chance": (
        "Both p values, permuted and shifted in time, are below .05 after Holm's correction over candidates, tasks "
        "and arms."
    ),
    "useful": (
        "Beats chance, the fires of other checkpoints, the better of never and always, and the position table, "
        "which updates where the others gained at the same direction and k and knows nothing of the model."
    ),
    "AUC": (
        "How well a signal ranks forks that updating helped above the others: 1 is perfect, .5 is a coin. Averaged "
        "over the checkpoints that have both; in brackets how many these are, where not all are. Ranking well is "
        "not earning."
    ),
    "per deployment": "The total of a rule over all forks, divided by the number of deployments (cells).",
    "threshold": "A trigger fires where its signal reaches this value.",
    "leave one out": "Each checkpoint gets the threshold that suits the other checkpoints best.",
    "running quantile": "A threshold without labels: fires where the signal exceeds a quantile of its own past.",
    "contraction": (
        "How returns after the update depend on those without it. A slope below 1 pulls every return toward the "
        "crossing: updating then helps weak models and hurts strong ones."
    ),
    "severity": "The frozen return as a share of the checkpoint's clean return: how much the drift had cost.",
    "common random numbers": "Both branches of a fork met the same initial states and the same noise.",
    "detectable": "The effect that this study would find four times in five, with the spread that it has.",
    "undefined": "A figure that these data do not have; the reason stands beside it.",
}

# What a useful trigger has to beat, in words.
BEATEN: Final[dict[str, str]] = {
    "random": "chance",
    "random_shift": "chance shifted in time",
    "swapped": "the fires of other checkpoints",
    "better_of_both": "the better of never and always",
    "position_table": "the position table",
}
