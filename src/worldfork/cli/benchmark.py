"""`worldfork benchmark`: what a trigger earns on published forks, beside those that come with worldfork."""

from pathlib import Path

import typer

from worldfork.cli import options


def benchmark(
    entries: list[str] | None = typer.Argument(
        None, help="Triggers: names, or my_module:Mine. None: all that come with worldfork."
    ),
    task: str | None = typer.Option(None, help="These tasks alone, with commas; or STUDY/ARM/WORLD of your data."),
    price: str = typer.Option("0,10,30,100", help="Of one update, in units of return, with commas."),
    data: Path | None = typer.Option(None, help="A data set of yours (worldfork dataset); else the published one."),
    as_csv: bool = typer.Option(False, "--csv", help="Every figure, for a program."),
    as_markdown: bool = typer.Option(False, "--markdown", help="Tables for a page."),
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what a trigger earns over never, always, the schedule and one trial, by the price of an update.

    Example: worldfork benchmark my_module:Mine

    Triggers are fed one decision point after another, and fitted on other models. One of your own is examined
    first: if it reads the future, it is refused.
    """
    from rich.console import Console

    from worldfork.analysis.present import render
    from worldfork.benchmark import enter, load, table_of_entries, table_of_one
    from worldfork.errors import WorldforkError
    from worldfork.progress import bars

    try:
        prices = [float(each) for each in price.split(",")]
    except ValueError as error:
        raise WorldforkError(f"--price: expected numbers with commas, as in 0,30; got {price!r}.") from error
    with bars(quiet=quiet or as_json, transient=True) as progress:
        board = enter(
            entries or (),
            data=load(data),
            tasks=[each.strip() for each in task.split(",")] if task else (),
            prices=prices,
            progress=progress,
        )
    if as_json:
        print(board.fill_nan(None).write_json())
        return
    if as_csv:
        print(board.write_csv(), end="")
        return
    tables = [table_of_one(board)] if entries else [table_of_entries(board, each) for each in prices]
    if as_markdown:
        print("\n".join(render.markdown(table) for table in tables))
    else:
        render.show(tables, Console())
    for (entry, why), part in board.filter(board["left_out"] != "").group_by(
        "entry", "left_out", maintain_order=True
    ):
        tasks = list(dict.fromkeys(part["task"]))
        typer.secho(f"Left out: {entry} on {', '.join(tasks)}: {why}", err=True, fg="yellow")
