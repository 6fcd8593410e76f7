"""A whole score in reading order: the verdicts, what to do, and the tables behind them.

`worldfork score` prints it, `score.summary()` returns it, and a notebook shows it.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from worldfork.analysis.present import render
from worldfork.analysis.present.table import Block, Heading, Paragraph, Table
from worldfork.analysis.present.tables import (
    deployments,
    design,
    effects,
    scores_of,
    stopping,
    triggers,
    value,
    without_lone_arm,
)
from worldfork.analysis.present.tables.effects import Scores
from worldfork.analysis.present.text.answers import MANY, answer, corrected, detectable, read_as, undefined_figures
from worldfork.analysis.present.text.arms import arms_of, changed, contrast_summary, contrast_words
from worldfork.analysis.present.text.deployments import deployment_words, followed_answer, forecast_words
from worldfork.analysis.present.text.formatting import auc_note, digits_for, listed
from worldfork.analysis.present.text.stopping import outcome_words, question_answers, rule_words
from worldfork.analysis.present.text.sweeps import dose_words, noise_words, window_words
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.present.text.triggers import USEFUL
from worldfork.analysis.present.text.value import (
    crossing_words,
    curve_lead,
    curve_words,
    price_words,
    skew_words,
    trial_words,
)
from worldfork.analysis.score import Score, TaskScore
from worldfork.analysis.score.deployment_records import TaskDeployment
from worldfork.counting import plural
from worldfork.ledger.pretraining import Seed

LARGER_P: Final = (
    "p, Holm: each trigger is compared with as many fires at random and with its own fires shifted in time; the "
    "larger of the two p is shown, corrected."
)
FEW_SIGNALS: Final = 3  # columns that are taken for signals without their prefix; more are something else
EXEMPT: Final = 3  # cells without a divergence rule that are listed
VERBOSE: Final = (
    *(effects.effects, value.robust, effects.directions, effects.quartiles, effects.contraction),
    *(value.curve, value.trials, value.prices),
    *(design.variance, design.budget),
)
SWEPT: Final = "Every figure: worldfork score STUDY --tables {}."


@dataclasses.dataclass(frozen=True, repr=False)
class Summary:
    """Headings, paragraphs and tables in reading order; prints as text and shows itself in a notebook.

    >>> print(Summary((Heading("walker-walk"), Paragraph(": -5.7 [-26.7, +15.4].", lead="Not resolved"))))
    ─...─ walker-walk ─...
    Not resolved: -5.7 [-26.7, +15.4].
    """

    blocks: tuple[Block, ...]

    def __str__(self) -> str:
        return render.plain(self.blocks)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "\n".join(render.html(block) for block in self.blocks)


def summarise(score: Score, verbose: bool = False, *, seeds: Iterable[Seed] = ()) -> Summary:
    """Return how the arms compare, then every task of every arm, then deployments and remarks.

    Args:
        score: what to write.
        verbose: also what no verdict reads. Of more than a few verdicts a line each is shown, unless `verbose`.
        seeds: the seeds that were trained.
    """
    brief = len(score) > MANY and not verbose
    blocks: list[Block] = [Paragraph(sentence, faint=True) for sentence in [*read_as(score), *_ignored(score)]]
    blocks += _stopping(score, verbose=verbose)
    blocks += _contrasts(score, verbose=verbose)
    blocks += _sweeps(score)
    scores = scores_of(score)
    if brief:
        blocks += _overview(scores)
    else:
        for (task, arm), figures in scores.items():
            blocks += _task(f"{arm} · {task}" if arm else task, figures, verbose=verbose)
    blocks += _titled("Predictions", without_lone_arm(effects.predictions(scores)))
    for task, deployed in score.deployment.items():
        blocks += of_deployment(task, deployed)
    # The gate selects on what dR is correlated with: seeds that it left out are listed.
    left_out = design.gate(seed for seed in seeds if not seed.fate.startswith("checkpoint"))
    blocks += _titled("Seeds that were not forked", left_out)
    blocks += [Heading("Notes"), *_notes(score, scores, brief=brief, verbose=verbose)]
    return Summary(tuple(blocks))


def _ignored(score: Score) -> list[str]:
    """Return the columns of a table that no figure reads: often signals without their prefix."""
    if not score.ignored:
        return []
    signals = [f"signal_{name}" for name in score.ignored if name.isidentifier()]
    meant = ""
    if 0 < len(signals) <= FEW_SIGNALS:
        meant = f" Did you mean {listed(signals, last='or')}? Such a column is scored as a trigger."
    return [f"Columns that no figure reads: {', '.join(score.ignored)}.{meant}"]


def _stopping(score: Score, *, verbose: bool) -> Iterator[Block]:
    """Yield after how many checkpoints a study stopped, and what its questions were answered."""
    if score.stopping is None:
        return
    yield Heading("Stopping")
    yield Paragraph("", lead=outcome_words(score.stopping))
    yield from (Paragraph(words) for words in question_answers(score))
    if verbose:
        yield from (dataclasses.replace(build(score), caption="") for build in (stopping.stopping, stopping.looks))
    yield Paragraph(rule_words(score.stopping), faint=True)


def _contrasts(score: Score, *, verbose: bool) -> Iterator[Block]:
    """Yield how each pair of arms compares: in one sentence, then task by task."""
    for pair, tasks in score.contrasts.items():
        arms = later, earlier = arms_of(score, pair)
        yield Heading(f"{later} - {earlier}")
        if score.registration is not None:
            names = pair.split(" - ")
            if settings := "; ".join(changed(score.registration, names[1], names[0])):
                yield Paragraph(f"{later} instead of {earlier}: {settings}", faint=True)
        attempted = {task: both.all_attempted for task, both in tasks.items()}
        yield Paragraph("", lead=contrast_summary(arms, attempted))
        yield from (Paragraph(contrast_words(arms, task, contrast)) for task, contrast in attempted.items())
        if verbose:
            yield design.arms(dataclasses.replace(score, contrasts={pair: tasks})).without("Arms")


def sweeps(score: Score) -> Iterator[tuple[str, str, Table]]:
    """Yield a heading, a sentence and a table for each number in which arms differ; nothing where none do."""
    if words := dose_words(score.doses):
        yield "Dose by dose", words, design.doses(score.doses, score.arms)
    if words := window_words(score):
        yield "Window by window", words, design.windows(score)
    if score.noises:
        yield "Noise by noise", noise_words(score.noises), design.noises(score.noises)


def _sweeps(score: Score) -> Iterator[Block]:
    for heading, words, table in sweeps(score):
        yield Heading(heading)
        if table.label == "noises":
            yield dataclasses.replace(table, caption="")
        yield Paragraph(f"{words} {SWEPT.format(table.label)}")


def _overview(scores: Scores) -> Iterator[Block]:
    yield Heading("Every arm")
    yield effects.overview(scores)
    yield Paragraph("Advice and triggers of one arm: worldfork score STUDY --arm ARM; of all: --verbose.")


def _task(name: str, score: TaskScore, *, verbose: bool) -> Iterator[Block]:
    """Yield the verdict, the advice, and what every rule gains."""
    verdict, attempted = answer(score), score.effect.all_attempted
    yield Heading(name)
    yield Paragraph(f": {verdict.size}", lead=verdict.lead, tone=verdict.tone)
    yield Paragraph(f" {verdict.advice.certainty}", lead=verdict.advice.what)
    yield from value_words(score)
    if verdict.triggers:
        yield Paragraph(f"{verdict.triggers} {verdict.not_beaten}".rstrip())
    by_rule = score.judgement.asked is not None
    interval = "The interval of the stopping rule at its last look;" if by_rule else "Student-t 95% over"
    skewed = "" if by_rule else skew_words(attempted.skew, digits_for(attempted))
    yield Paragraph(
        f"{interval} {plural(attempted.clusters, 'checkpoint')}, {plural(attempted.cells, 'cell')}, "
        f"{plural(attempted.forks, 'fork')} attempted. {verdict.helped_words}. {skewed}".rstrip(),
        faint=True,
    )
    points = int(score.evidence.forks.prefork.k.max())
    alone = {("", ""): score}
    yield _of_task(
        triggers.policies(alone),
        f"Gained per deployment: the sum of {plural(points, 'episode')}, one after each decision point. The mean "
        "above is per episode. The position table is a timetable: it updates where the other checkpoints gained. "
        f"{USEFUL}",
    )
    if note := auc_note(score.triggers.all_attempted):
        yield Paragraph(note, faint=True)
    if verbose:
        for build in VERBOSE:
            if (table := build(alone)).rows:
                yield _of_task(table, table.caption)
        if words := detectable(score):
            yield Paragraph(words)
        if exempt := score.divergence.off_in:
            more = f" and {plural(len(exempt) - EXEMPT, 'more cell')}" if len(exempt) > EXEMPT else ""
            yield Paragraph(f"No divergence rule in {'; '.join(exempt[:EXEMPT])}{more}.", faint=True)


def value_words(score: TaskScore, *, in_card: bool = False) -> Iterator[Paragraph]:
    """Yield where updates pay, what a trial is worth, and at which price of an update which policy is best.

    A card says below which return an update gains on average, and leaves the prices to the section below it.
    """
    if lead := curve_lead(score):
        yield Paragraph(f" {curve_words(score)} {crossing_words(score) if in_card else ''}".rstrip(), lead=lead)
    sentences = [trial_words(score), "" if in_card else price_words(score)]
    yield from (Paragraph(words) for words in sentences if words)


def _of_task(table: Table, caption: str) -> Table:
    """Return a table of one task and arm without their names; its kinds of rows, if it has them, are headings."""
    return dataclasses.replace(table.without(*effects.KEYS), caption=caption, grouped=table.heads[2:3] == ("Kind",))


def _titled(heading: str, table: Table) -> list[Block]:
    """Return a table that has rows under a heading; nothing of another."""
    return [Heading(heading), table] if table.rows else []


def of_deployment(task: str, deployed: TaskDeployment) -> Iterator[Block]:
    """Yield every policy of a task beside what the ledger says of it, cautions first."""
    yield Heading(f"{task} · closed-loop deployment")
    yield from (Paragraph(caution, tone="open") for caution in deployed.cautions)
    yield Paragraph(deployment_words(deployed))
    verdict = followed_answer(task, deployed)
    yield Paragraph(" ".join(filter(None, (verdict.sentence, verdict.advice, verdict.certainty))))
    alone = {task: deployed}
    yield dataclasses.replace(deployments.deployments(alone).without("Task"), caption="")
    yield dataclasses.replace(deployments.forecasts(alone).without("Task"), caption="", folded="")
    added = deployments.over_always(alone).without("Task")
    if added.rows:
        caption = "What the trigger adds to its update: over always firing the same."
        yield dataclasses.replace(added, caption=caption, folded="")
    kept = f" Kept: {TERMS['kept']}" if deployed.has_trials else ""
    yield Paragraph(
        f"p: the larger of Student's t and sign flips, by Holm over {deployed.family} comparisons with never or "
        "over all with always; and by step-down max-T over policies, which share checkpoints. Better at: so many "
        "checkpoints. One step: dR where a policy fires; carried: dR of the present decision from its first fire "
        f"on; both over the decisions that an episode follows. Rank: by one step / deployed.{kept}",
        faint=True,
    )
    yield Paragraph(forecast_words(deployed))
    order = deployments.orders(alone).without("Task")
    if order.rows:
        yield dataclasses.replace(order, caption=deployments.ORDERS)


def _notes(score: Score, scores: Scores, *, brief: bool, verbose: bool) -> Iterator[Block]:
    """Yield what was corrected, which triggers were left out, and why figures are undefined."""
    if score.deployment:
        yield Paragraph("Forks price one update at a time; in deployments updates last.", faint=True)
    yield Paragraph(f"{corrected(score)}{'' if brief else f' {LARGER_P}'}", faint=True)
    if score.family.registered:
        yield Paragraph("The candidates are those of the registration: [scoring] triggers.", faint=True)
    yield from (Paragraph(line) for line in _left_out(scores))
    if verbose:
        for why, figures in undefined_figures(score).items():
            yield Paragraph(f"{plural(len(figures), 'undefined figure')}: {why}.", faint=True)


def _left_out(scores: Scores) -> list[str]:
    """Return the triggers that were not scored, with the reason: those of one reason on one line."""
    places: dict[tuple[str, str], list[str]] = {}
    for (task, arm), figures in scores.items():
        for name, why in figures.triggers_unavailable.items():
            places.setdefault((name, why), []).append(f"{arm} · {task}" if arm else task)
    together: dict[tuple[str, str], list[str]] = {}
    for (name, why), of_parts in places.items():
        where = "" if len(of_parts) == len(scores) else f" of {', '.join(of_parts)}"
        together.setdefault((where, why), []).append(name)
    return [f"Left out{where}: {', '.join(names)} ({why})." for (where, why), names in together.items()]
