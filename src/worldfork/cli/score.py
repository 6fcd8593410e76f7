"""`worldfork score`: what updating was worth, and which triggers knew."""

from pathlib import Path
from typing import Any

import typer

__all__ = ["score"]


def score(
    ledger: Path = typer.Argument(help="A study folder, or a flat table: .csv, .parquet, .jsonl."),
    arm: str | None = typer.Option(None, help="Score this arm alone."),
    triggers: str | None = typer.Option(None, help="Compare these triggers alone, separated by commas."),
    contrast: str | None = typer.Option(
        None, help="Compare two arms on the cells they share: FIRST,SECOND; else every later arm with the first."
    ),
    replication: Path | None = typer.Option(
        None, help="A ledger of the same cells on other stream seeds, for the table of replications."
    ),
    seed: int = typer.Option(0, min=0, help="Of every resampling."),
    permutations: int = typer.Option(20_000, min=1, help="Draws of each random control."),
    rate: float | None = typer.Option(None, help="Of the running quantile; as registered, else 0.3."),
    divergence: float | None = typer.Option(
        None, help="A fork diverged below this share of its cell's mean r_hold; as registered, else 0.3."
    ),
    no_divergence: bool = typer.Option(False, "--no-divergence", help="Switch the divergence rule off."),
    as_json: bool = typer.Option(False, "--json", help="Every figure, for a program."),
    as_latex: bool = typer.Option(False, "--latex", help="Tables for a paper."),
    as_markdown: bool = typer.Option(False, "--markdown", help="Tables for a page."),
    paper: bool = typer.Option(
        False,
        "--paper",
        help="Tables with the paper's figures beside those of the first arm; for a page, or --latex.",
    ),
    only: str | None = typer.Option(
        None, "--tables", help="These tables alone, separated by commas: effects,arms."
    ),
) -> None:
    """Is updating harmful, helpful or unresolved, and which triggers beat a random one that fires as often?

    Example: worldfork score forks.csv

    The table has one row per fork: task, checkpoint, direction, stream_seed, k, r_update, r_hold; optionally arm,
    level, and any number of signal_NAME columns, each of which is scored as a trigger.
    """
    import dataclasses
    import json

    from rich.console import Console

    from worldfork.desk import tables
    from worldfork.desk.page.material import open_ledger
    from worldfork.errors import WorldforkError
    from worldfork.ledger.pretraining import read_seeds

    if as_json + as_latex + as_markdown > 1 or (as_json and (paper or only)):
        raise WorldforkError(
            "Choose one of --json, --latex and --markdown; --paper and --tables go with the last two."
        )
    if divergence is not None and no_divergence:
        raise WorldforkError(
            "--divergence sets the rule's fraction and --no-divergence switches it off: choose one."
        )
    table, rules, study = open_ledger(ledger)
    changes: dict[str, Any] = {"seed": seed, "permutations": permutations}
    changes |= {"rate": rate} if rate is not None else {}
    changes |= (
        {"divergence": None if no_divergence else divergence} if divergence is not None or no_divergence else {}
    )
    changes |= {"triggers": tuple(name.strip() for name in triggers.split(","))} if triggers else {}
    rules = dataclasses.replace(rules, **changes)
    arms, pairs = _choose(table.arms, arm, contrast)
    console = Console()
    found = _score(arms, rules, pairs, table.unscored)
    seeds = read_seeds(study) if study else []
    if as_json:
        print(json.dumps({**found.to_json(), "seeds": [dataclasses.asdict(one) for one in seeds]}, allow_nan=False))
    elif as_latex or as_markdown or paper or only:
        write = tables.latex if as_latex else tables.markdown
        repeated = None if replication is None else _only_arm(open_ledger(replication)[0].arms, replication)
        made = tables.paper_tables(found, rules, replication=repeated, seeds=seeds, paper=paper)
        print("\n".join(write(one) for one in tables.choose(made, only)))
    else:
        tables.show(found, console)
        tables.show_gate(seeds, console)
        if table.ignored:
            console.print(f"[dim]Columns that no figure reads: {', '.join(table.ignored)}.[/]")


def _only_arm(arms: Any, ledger: Path) -> Any:
    from worldfork.errors import WorldforkError

    if len(arms) != 1:
        raise WorldforkError(f"A replication has one arm; `{ledger}` has {', '.join(arms)}.")
    return next(iter(arms.values()))


def _choose(arms: Any, arm: str | None, contrast: str | None) -> tuple[Any, list[tuple[str, str]]]:
    """The arms to score, and the pairs to contrast."""
    from worldfork.errors import WorldforkError

    named = ", ".join(name or "(unnamed)" for name in arms)
    if arm is not None and arm not in arms:
        raise WorldforkError(f"There is no arm `{arm}`; the ledger has {named}.")
    if contrast is None:
        first, *others = arms
        return ({arm: arms[arm]}, []) if arm is not None else (arms, [(other, first) for other in others])
    pair = tuple(name.strip() for name in contrast.split(","))
    if len(pair) != 2 or any(name not in arms for name in pair):
        raise WorldforkError(f"--contrast takes two arms, FIRST,SECOND; got `{contrast}`. The ledger has {named}.")
    chosen = arms if arm is None else {name: arms[name] for name in dict.fromkeys((arm, *pair))}
    return chosen, [(pair[0], pair[1])]


def _score(arms: Any, rules: Any, pairs: list[tuple[str, str]], unscored: tuple[str, ...]) -> Any:
    """Score with a progress bar on stderr, where someone is watching."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from worldfork.desk.scoring import score

    total = sum(len(forks) for tasks in arms.values() for forks in tasks.values())
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("scoring", total=total)
        return score(
            arms,
            rules,
            contrasts=pairs,
            unscored=unscored,
            watch=lambda what: progress.update(bar, description=what),
            advance=lambda forks: progress.advance(bar, forks),
        )
