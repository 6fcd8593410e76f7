"""Tables of triggers: how they rank, what they earn, and what firing as often at random earns (paper, Table 3)."""

from collections.abc import Iterator

from worldfork.analysis.present.strips import Strip
from worldfork.analysis.present.table import Cell, Cells, Column, Row, Table
from worldfork.analysis.present.tables.effects import KEYS, Scores
from worldfork.analysis.present.text.formatting import (
    AUC_RESTS_ON,
    DASH,
    auc_with_checkpoints,
    defined,
    digits_for,
    estimate,
    listed,
    number,
    rate,
    span,
    text_of,
    unsigned,
    with_span,
    word,
)
from worldfork.analysis.present.text.terms import BEATEN as WORDS
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.read.triggers import is_reference
from worldfork.analysis.score.intervals import MeanOf
from worldfork.analysis.score.permutation_nulls import RandomControl
from worldfork.analysis.score.policies import Gain
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.triggers import Endpoint, TriggerScore
from worldfork.analysis.score.undefined import Estimand, Undefined

KEYS_OF_TRIGGER = (*KEYS, "Trigger")
SHOWN = ("residual", "return_deficit", "kl", "drift")  # the paper's, where the ledger has them
BEATEN = {
    "random": "random",
    "random_shift": "shifted",
    "swapped": "swapped",
    "better_of_both": "never and always",
    "position_table": "position table",
}


def rivals(scores: Scores) -> Table:
    """Return Table 3, for every trigger, with the two policies that need no trigger."""
    rows = []
    for key, score in scores.items():
        digits, on_all = _digits(score), score.triggers.all_attempted
        lines = {name: _rival(trigger, on_all[name], digits) for name, trigger in score.triggers.retained.items()}
        for name in ("always", "oracle"):
            lines[name] = [DASH] * 12
            lines[name][1] = number(getattr(score.policies.retained, name), digits)
            lines[name][10] = number(getattr(score.policies.all_attempted, name), digits)
        rows += [(*key, name, *cells) for name, cells in lines.items()]
    return Table(
        "triggers",
        "Triggers on retained forks, thresholds fitted leave-one-checkpoint-out: ranking, total dR, and a random "
        "rule that fires as often in every cell; beats it: p and shifted p below .05 after Holm's adjustment over "
        f"candidates x tasks x arms. {AUC_RESTS_ON} An interval with a star is the range over fewer than three. "
        "Running: the label-free running quantile, and how often it fires. The last two columns are on all "
        "attempted forks.",
        (
            *(*KEYS, "Trigger", "AUC", "total", "toward", "away", "fires", "random control", "p", "p, shifted"),
            *("beats it", "running", "total, all forks", "p, all forks"),
        ),
        rows,
        keys=3,
    )


def _rival(trigger: TriggerScore, attempted: TriggerScore, digits: int) -> list[str]:
    by_direction = defined(trigger.by_direction) or {}
    running = trigger.running_quantile
    return [
        _auc(trigger),
        number(trigger.policy_total, digits),
        number(by_direction.get("toward"), digits),
        number(by_direction.get("away"), digits),
        word(trigger.fires),
        text_of(trigger.random, lambda random: with_span(random.mean, random.interval, digits)),
        text_of(trigger.random, lambda random: rate(random.p)),
        text_of(trigger.random_shift, lambda shift: rate(shift.p)),
        _yes(defined(trigger.passes_control)),
        DASH
        if isinstance(running.fires, Undefined)
        else f"{number(running.policy_total, digits)} ({running.fires})",
        number(attempted.policy_total, digits),
        text_of(attempted.random, lambda on_all: rate(on_all.p)),
    ]


def _auc(trigger: TriggerScore) -> str:
    interval = defined(trigger.auc_interval)
    if interval is None:
        return DASH
    star = "*" if trigger.auc_interval_kind == "min-max" else ""
    return auc_with_checkpoints(trigger, f"[{rate(interval.low)}, {rate(interval.high)}]{star}")


GROUPS = {
    "fixed": ("Without a signal", ""),
    "candidate": ("Candidate triggers", "candidate"),
    "exploratory": ("Not among candidates", "exploratory"),
    "reference": ("References", "reference"),
}
KNOWING = ("position table", "direction clock", "oracle")  # references that are no trigger


def policies(scores: Scores, estimand: Estimand = "all_attempted") -> Table:
    """Return what every rule gains per deployment, references apart from the others."""
    rows = []
    for key, score in scores.items():
        gains, digits = score.policies[estimand].per_deployment, digits_for(score.effect.all_attempted)
        forks = score.forks.attempted if estimand == "all_attempted" else score.forks.retained
        rules: list[_Rule] = [("fixed", "always", gains["always"], forks, None)]
        for name, trigger in score.triggers[estimand].items():
            rules.append((trigger.standing, name, trigger.per_deployment, trigger.fires, trigger))
        rules += [("reference", name, gains[name.replace(" ", "_")], None, None) for name in KNOWING]
        for rule in sorted(rules, key=lambda rule: list(GROUPS).index(rule[0])):
            (title, term), name = GROUPS[rule[0]], rule[1]
            shown = Cell(name, note=TERMS[name]) if name in KNOWING else name
            kind = Cell(title, note=TERMS.get(term, ""))
            rows.append(Row((*key, kind, shown), _rule_cells(rule, digits), _rule_strip(rule)))
    return Table.of(
        "policies",
        "Return gained per deployment, thresholds fitted leave-one-checkpoint-out, "
        f"{estimand.replace('_', ' ')} forks; and what firing as often at random gains. p: the larger of two, "
        "against random fires and against its own fires shifted in time, corrected.",
        (*KEYS, "Kind", ""),
        rows,
    )


# An update rule: its group and name, what it gains per deployment, its fires, and the trigger, if it needs one.
_Rule = tuple[str, str, MeanOf, int | Undefined | None, TriggerScore | None]


def _rule_cells(rule: _Rule, digits: int) -> Cells:
    group, _, gained, fires, trigger = rule
    fired = trigger if fires != 0 else None
    tested = fired if group != "reference" else None
    chance = number(fired.per_deployment.random, digits) if fired else ""
    threshold = text_of(fired.threshold, lambda fitted: text_of(fitted.value, _all_digits)) if fired else ""
    return [
        (Column("gained", term="per deployment"), number(gained.mean, digits) if fires != 0 else "never fired"),
        (Column("95%", optional=True), span(gained.student_t, digits) if fires != 0 else ""),
        (Column("fires", term="fires"), word(fires)),
        (Column("fires from", term="threshold"), threshold),
        (Column("chance", term="chance", optional=True), chance),
        (Column("p, Holm", term="Holm"), rate(tested.control_p) if tested else ""),
        (Column("beats chance", term="useful"), _finding(tested) if tested else ""),
        (Column("AUC", term="AUC"), rate(trigger.auc) if trigger else ""),
    ]


def _all_digits(threshold: float) -> str:
    return Cell(f"{threshold:.4g}", values=(threshold,))


def _rule_strip(rule: _Rule) -> Strip:
    """Return the chart of a rule beside its chance; references are not tested, and always may lie far outside."""
    group, name, gained, _, trigger = rule
    tested = trigger if group != "reference" else None
    return Strip(
        mean=gained.mean,
        student_t=gained.student_t,
        chance=trigger.per_deployment.random if trigger else None,
        chance_interval=trigger.per_deployment.random_interval if trigger else None,
        kind="grey" if tested is None else "" if tested.passes_control is True else "hollow",
        far=name == "always",
    )


def _finding(trigger: TriggerScore) -> str:
    """Return how far a trigger comes: it beats chance, or all that a useful one has to."""
    useful, beats = defined(trigger.useful), _yes(defined(trigger.passes_control))
    if useful and useful.useful:
        return Cell("yes, useful", "good")
    fails = [WORDS[name] for name in useful.does_not_beat] if useful else []
    note = f"Not shown to beat {listed(fails, last='or')}." if fails else ""
    return Cell(beats, "good" if beats == "yes" else "", note=note)


def _yes(answer: bool | None) -> str:
    return DASH if answer is None else Cell("yes", "good") if answer else "no"


def controls(scores: Scores) -> Table:
    """Return the random control within ever shorter stretches of the stream."""
    rows = []
    for key, trigger, digits in _chosen(scores):
        blocks = defined(trigger.random_blocks)
        if blocks is not None:
            cells: Cells = [
                ("total", number(trigger.policy_total, digits)),
                ("random", _null(trigger.random, digits)),
                *((f"{count} blocks", _null(null, digits)) for count, null in blocks.items()),
                ("shifted", _null(trigger.random_shift, digits)),
            ]
            rows.append(Row(key, cells))
    return Table.of(
        "controls",
        "Random controls: the mean total of firing as often anywhere in a cell, within blocks of it, or shifted.",
        KEYS_OF_TRIGGER,
        rows,
    )


def _null(null: RandomControl | Undefined, digits: int) -> str:
    return text_of(null, lambda null: f"{number(null.mean, digits)}, p {rate(null.p)}")


def proxies(scores: Scores) -> Table:
    """Return the correlation of each signal with dR, and with r_hold."""
    return Table.of(
        "proxies",
        "What a signal goes with on retained forks, and where in its distribution the excluded forks lie.",
        KEYS_OF_TRIGGER,
        [
            Row(
                key,
                [
                    ("with dR", number(trigger.correlation, 3)),
                    ("given r_hold", number(trigger.partial_correlation, 3)),
                    ("Spearman with r_hold", number(trigger.spearman_hold, 3)),
                    ("quantile of excluded", unsigned(trigger.excluded_quantile, 2)),
                ],
            )
            for key, trigger, _ in _chosen(scores)
        ],
    )


Trigger = tuple[tuple[str, str, str], TriggerScore, int]  # task, arm and name, figures, decimals of a total


def _retained(scores: Scores) -> Iterator[Trigger]:
    """Yield every trigger of every task on retained forks."""
    for key, score in scores.items():
        for name, trigger in score.triggers.retained.items():
            yield (*key, name), trigger, _digits(score)


def _chosen(scores: Scores) -> Iterator[Trigger]:
    """Yield the paper's triggers of each task, or else the first two candidates there are."""
    for key, score in scores.items():
        rows = list(_retained({key: score}))
        names = [name for (*_, name), _, _ in rows]
        chosen = [name for name in SHOWN if name in names] or [name for name in names if not is_reference(name)][:2]
        yield from (row for name in chosen for row in rows if row[0][-1] == name)


def position(scores: Scores) -> Table:
    """Return what a signal knows beyond its place in the stream."""
    rows = []
    for key, trigger, _ in _retained(scores):
        if (given := defined(trigger.given_position)) is None:
            continue
        inside, ends, pairs = DASH, DASH, "0"
        if not isinstance(given.auc, Undefined):
            inside, pairs = rate(given.auc), str(given.pairs)
            ends = f"{rate(given.without_one_low)} to {rate(given.without_one_high)}"
        cells: Cells = [
            ("AUC", auc_with_checkpoints(trigger)),
            ("AUC at one (direction, k)", inside),
            ("without one checkpoint", ends),
            ("pairs", pairs),
        ]
        rows.append(Row(key, cells))
    return Table.of(
        "position",
        "What a signal knows beyond its place in the stream, retained forks: its AUC, and its AUC over pairs of "
        f"forks at one (direction, k), pooled, with the range when one checkpoint is left out. {AUC_RESTS_ON}",
        KEYS_OF_TRIGGER,
        rows,
    )


def endpoints(scores: Scores) -> Table:
    """Return the registered primary endpoint."""
    rows = []
    for key, trigger, _ in _retained(scores):
        fitted, running = trigger.endpoint.leave_one_checkpoint_out, trigger.endpoint.running_quantile
        if not (isinstance(fitted, Undefined) and isinstance(running, Undefined)):
            cells: Cells = [
                ("threshold fitted", text_of(fitted, _endpoint)),
                ("running quantile", text_of(running, _endpoint)),
            ]
            rows.append(Row(key, cells))
    return Table.of(
        "endpoints",
        "The registered primary endpoint, (mean dR where fired - mean dR) / sigma_ep, with its Student-t interval "
        "over the checkpoints that have a fire (their number in brackets), retained forks.",
        KEYS_OF_TRIGGER,
        rows,
    )


def _endpoint(endpoint: Endpoint) -> str:
    return f"{with_span(endpoint.value, endpoint.student_t, 2)} ({endpoint.clusters})"


def usefulness(scores: Scores) -> Table:
    """Return every trigger against what it has to beat."""
    rows = []
    for key, score in scores.items():
        for name, trigger in score.triggers.all_attempted.items():
            useful, gains, digits = defined(trigger.useful), defined(trigger.gains), _digits(score)
            if useful is None or gains is None or isinstance(trigger.earned, Undefined):
                continue
            unbeaten = ", ".join(BEATEN[test] for test in useful.does_not_beat)
            cells: Cells = [
                ("standing", trigger.standing),
                ("total of a checkpoint", estimate(trigger.earned, digits)),
                ("over never and always", _gained(gains["better_of_both"], digits)),
                ("over the position table", _gained(gains["position_table"], digits)),
                ("p, swapped", text_of(trigger.swapped, lambda swapped: rate(swapped.p))),
                ("useful", "yes" if useful.useful else unbeaten),
            ]
            rows.append(Row((*key, name), cells))
    return Table.of(
        "useful",
        "Triggers on all attempted forks: the mean total of a checkpoint with its Student-t 95% interval, what it "
        "earns more than the better of never and always and than a table that knows only direction and k, and the "
        "p value of the fires of other checkpoints. Anew: the 95% interval with thresholds and table fitted anew "
        "without each checkpoint (jackknife). A useful trigger beats these and both random controls, "
        "adjusted over candidates, tasks and arms; otherwise the last column says what it does not beat.",
        KEYS_OF_TRIGGER,
        rows,
    )


def _gained(gain: Gain, digits: int) -> str:
    anew = "" if isinstance(gain.refitted, Undefined) else f", anew {span(gain.refitted, digits)}"
    return f"{estimate(gain, digits)}, p {rate(gain.p_sign_flip)}{anew}"


def _digits(score: TaskScore) -> int:
    """Return the decimals of a total: one less than a mean has."""
    return digits_for(score.effect.all_attempted) - 1
