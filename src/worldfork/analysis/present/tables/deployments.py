"""Tables of policies that were followed all the way, and of where they part from what the one-step ledger says."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from worldfork.analysis.present.tables.table import TextTable
from worldfork.analysis.present.text import (
    AN_ORDER,
    DASH,
    TERMS,
    best_first,
    followed_answer,
    followed_digits,
    known,
    number,
    rate,
    realised,
    with_span,
)
from worldfork.analysis.score.deployment_records import LedgerForecast, TaskDeployment
from worldfork.analysis.score.undefined import Undefined
from worldfork.counting import plural

__all__ = ["deployments", "followed_directions", "forecasts", "over_always", "show_deployments"]

Tasks = Mapping[str, TaskDeployment]
HEADS = (
    "Policy",
    "updates",
    "gradient steps",
    "return",
    "over never",
    "p",
    "grade",
    "evaluated over never",
    "regret",
)
ADDED = ("Policy", "beside", "over always", "p", "grade", "better at")
WAYS = ("Direction", "Policy", "updates", "over never", "by the ledger", "realised less ledger")
PARTED = (
    "Policy",
    "by the ledger",
    "realised",
    "realised less ledger",
    "its grade",
    "updates there",
    "updates here",
    "rank",
)
WIDE, NARROW_NAME = 136, 26  # columns of a screen with room for everything, and of a policy's name on another
# A narrow screen gets more tables of fewer columns, so that an interval stays on one line.
ON_NARROW = (
    ("Policy", "updates", "over never", "p", "grade"),
    ("Policy", "return", "evaluated over never", "regret"),
    ("Policy", "by the ledger", "realised less ledger", "rank"),
)


def deployments(tasks: Tasks) -> TextTable:
    """Every policy against never."""
    return _every_task(
        tasks,
        _outcomes,
        HEADS,
        "deployments",
        "Policies that were followed all the way: updates and gradient steps of one deployment, the mean return of "
        "its episodes, the paired difference with never (Student-t interval over checkpoints, the larger adjusted "
        "p of Student-t and sign flips, grade), the same on the matched evaluations, and what the best policy in "
        "hindsight returned more."
        + "".join(
            f" {caution}" for caution in dict.fromkeys(said for one in tasks.values() for said in one.cautions)
        ),
    )


def over_always(tasks: Tasks) -> TextTable:
    """What each trigger adds to its update."""
    return _every_task(
        tasks,
        _added,
        ADDED,
        "over_always",
        "What a trigger adds to its update: the paired difference of the return of an episode with the policy that "
        "always fires the same update, named beside it (Student-t interval over checkpoints, the larger adjusted p "
        "of Student-t and sign flips, grade), and at how many checkpoints it returned more.",
    )


def forecasts(tasks: Tasks) -> TextTable:
    """What the one-step ledger says of each policy, and what it came to."""
    return _every_task(
        tasks,
        _parted,
        PARTED,
        "forecasts",
        "What the one-step ledger says of a policy, what following it returned more than never, per episode, the "
        "difference of both with its grade, how often it fires there and here, and its rank by each. "
        f"By the ledger: {TERMS['by the ledger']}",
    )


def followed_directions(tasks: Tasks) -> TextTable:
    """The same for each direction of drift, where there are several."""
    return _every_task(
        tasks,
        _by_direction,
        WAYS,
        "followed_directions",
        "Policies that were followed all the way, by the direction of drift: updates of one deployment, what an "
        "episode returned more than under never, what the one-step ledger says per decision point, and what was "
        "realised less that. Student-t intervals over checkpoints, not adjusted.",
        keys=3,
    )


def show_deployments(tasks: Tasks, console: Console) -> None:
    """Print every task's policies, beside what the ledger says of them."""
    for task, one in tasks.items():
        console.rule(f"[bold]{escape(task)} · followed all the way")
        forecast = one.forecast
        console.print(
            f"[bold]{plural(len(one.policies), 'policy', 'policies')}[/] on "
            f"{plural(one.cells, 'cell')} of {plural(one.checkpoints, 'checkpoint')}, "
            f"{plural(one.episodes, 'episode')} each; the best in hindsight is {escape(one.best)}."
        )
        said = followed_answer(task, one)
        console.print(escape(" ".join(filter(None, (said.sentence, said.advice, said.certainty)))))
        outcomes = [dict(zip(HEADS, row, strict=True)) for row in _outcomes(one)]
        parted = [dict(zip(PARTED, row, strict=True)) for row in _parted(one)]
        policies = [{**outcome, **part} for outcome, part in zip(outcomes, parted, strict=True)]
        for heads in (HEADS, PARTED) if console.width >= WIDE else ON_NARROW:
            console.print(_table(heads, policies, console.width))
        added = [dict(zip(ADDED, row, strict=True)) for row in _added(one)]
        for always in dict.fromkeys(row["beside"] for row in added):
            console.print(f"What the trigger adds to its update: over {escape(always)}, which always fires it.")
            of_update = [row for row in added if row["beside"] == always]
            console.print(_table([head for head in ADDED if head != "beside"], of_update, console.width))
        console.print(f"[dim]{escape(_legend(one, narrow=console.width < WIDE))}[/]")
        if isinstance(forecast.rank_correlation, Undefined):
            console.print(f"Rank correlation with the ledger: undefined, {escape(forecast.rank_correlation.why)}.")
        else:
            console.print(
                f"Rank correlation with the ledger over {forecast.policies} policies: "
                f"{with_span(forecast.rank_correlation, forecast.bootstrap, 2)}, without one checkpoint "
                f"{number(forecast.without_one_low, 2)} to {number(forecast.without_one_high, 2)}. {AN_ORDER}"
            )
            if forecast.within:
                console.print(f"Among those that fire one update: {escape(_within(forecast))}.")
        for caution in one.cautions:
            console.print(f"[yellow]{escape(caution)}[/]")
        console.print()


def _table(heads: Sequence[str], policies: Sequence[Mapping[str, str]], width: int) -> Table:
    """Some columns of every policy."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in heads:
        whole, left = head in ("Policy", "grade"), head == "Policy"
        table.add_column(head, justify="left" if left else "right", no_wrap=whole, overflow="fold")
    for cells in policies:
        table.add_row(escape(_folded(cells["Policy"], width)), *(escape(cells[head]) for head in heads[1:]))
    return table


def _folded(name: str, width: int) -> str:
    """A policy's name, over several lines where the screen is narrow: broken at hyphens, and nowhere left out."""
    return name if width >= WIDE else "\n".join(textwrap.wrap(name, NARROW_NAME))


def _every_task(
    tasks: Tasks,
    rows_of: Callable[[TaskDeployment], Iterator[tuple[str, ...]]],
    heads: tuple[str, ...],
    label: str,
    caption: str,
    *,
    keys: int = 2,
) -> TextTable:
    """The rows of every task in one table, each behind its task's name."""
    rows = tuple((task, *row) for task, one in tasks.items() for row in rows_of(one))
    return TextTable(label, caption, ("Task", *heads), rows, keys=keys)


def _outcomes(one: TaskDeployment) -> Iterator[tuple[str, ...]]:
    digits = followed_digits(one)
    for name in best_first(one):
        outcome = one.policies[name]
        gained, evaluated = known(outcome.advantage), known(outcome.evaluation)
        yield (
            name,
            f"{outcome.updates:.1f}",
            f"{outcome.gradient_steps:,.0f}",
            number(outcome.returned, digits).lstrip("+"),
            DASH if gained is None else with_span(gained.mean, gained.student_t, digits),
            DASH if gained is None else rate(gained.adjusted_p),
            DASH if gained is None else known(gained.grade) or DASH,
            DASH if evaluated is None else with_span(evaluated.mean, evaluated.student_t, digits),
            number(outcome.regret, digits).lstrip("+"),
        )


def _added(one: TaskDeployment) -> Iterator[tuple[str, ...]]:
    digits = followed_digits(one)
    for name in best_first(one):
        added = known(one.policies[name].over_always)
        if added is not None:
            span, grade = with_span(added.mean, added.student_t, digits), known(added.grade) or DASH
            beside = one.policies[name].always or DASH
            yield name, beside, span, rate(added.adjusted_p), grade, f"{added.won} of {one.checkpoints}"


def _parted(one: TaskDeployment) -> Iterator[tuple[str, ...]]:
    digits, ranks = followed_digits(one), _ranks(one)
    for name in best_first(one):
        outcome = one.policies[name]
        parted = known(outcome.parted)
        yield (
            name,
            number(outcome.ledger_value, digits),
            number(realised(outcome), digits),
            DASH if parted is None else with_span(parted.mean, parted.student_t, digits),
            DASH if parted is None or isinstance(parted.grade, Undefined) else parted.grade,
            DASH if isinstance(outcome.ledger_updates, Undefined) else f"{outcome.ledger_updates:.1f}",
            f"{outcome.updates:.1f}",
            f"{ranks[0].get(name, DASH)} / {ranks[1][name]}",
        )


def _by_direction(one: TaskDeployment) -> Iterator[tuple[str, ...]]:
    digits = followed_digits(one)
    for way in one.directions if len(one.directions) > 1 else ():
        for name in best_first(one):
            if (found := one.policies[name].by_direction.get(way)) is not None:
                yield (
                    way,
                    name,
                    f"{found.updates:.1f}",
                    with_span(found.mean, found.student_t, digits),
                    number(found.ledger_value, digits),
                    with_span(found.parted, found.parted_student_t, digits),
                )


def _legend(one: TaskDeployment, *, narrow: bool) -> str:
    """What the columns are, and where the others are."""
    words = (
        f"p: the larger of Student's t and sign flips, corrected over {one.family} comparisons with never, or over "
        "all with always. Better at: so many checkpoints. Evaluated: on matched episodes after some decisions. "
        "Regret: what the best in hindsight returned more. Rank: by the ledger / followed. By the ledger: "
        f"{TERMS['by the ledger']}"
    )
    more = f" A screen of {WIDE} columns has more of them, and --tables deployments,forecasts all."
    return words + (more if narrow else "")


def _within(forecast: LedgerForecast) -> str:
    return "; ".join(
        f"{arm} {with_span(found.rank_correlation, found.bootstrap, 2)} ({found.policies} that fired)"
        for arm, found in forecast.within.items()
    )


def _ranks(one: TaskDeployment) -> tuple[dict[str, int], dict[str, int]]:
    """Each policy's place by the ledger and as realised, 1 being the best; policies that are equal share one. Where
    the ledger says nothing of a policy, it has no place by it."""
    values = {name: known(outcome.ledger_value) for name, outcome in one.policies.items()}
    by_ledger = {name: value for name, value in values.items() if value is not None}
    followed = {name: realised(outcome) or 0.0 for name, outcome in one.policies.items()}
    return _places(by_ledger), _places(followed)


def _places(values: Mapping[str, float]) -> dict[str, int]:
    """
    >>> _places({"never": 0.0, "always": -2.0, "adwin": 0.0})
    {'never': 1, 'always': 3, 'adwin': 1}
    """
    return {name: 1 + sum(other > value for other in values.values()) for name, value in values.items()}
