"""`worldfork test`: is a simulator, an agent or another plug-in exactly what a fork needs?"""

from typing import Any

import typer

from worldfork.cli import options
from worldfork.counting import plural


def examine(
    name: str = typer.Argument(help="module:attribute, or a name that worldfork knows."),
    world: str = typer.Option(
        "linear_quadratic", "--in", help="The world that an agent is tried in: a name, or a simulator of yours."
    ),
    checkpoint: list[str] = typer.Option([], help="A file of the agent. Repeat it for several."),
    setting: list[str] = typer.Option([], "--set", help="NAME=VALUE: a setting. Repeat it for several."),
    precision: str | None = typer.Option(None, help="What the agent computes in."),
    kind: str | None = typer.Option(None, help="environments, agents, ...: of a name that stands for several."),
    steps: int = typer.Option(1000, min=1, help="How far a simulator's episode is followed, unless it ends."),
    as_json: options.AsJson = False,
) -> None:
    """Ask a simulator, agent, mechanism, signal, trigger or executor for the promises that an exact fork needs.

    Example: worldfork test my_module:MyEnv

    A simulator needs no plug-in: a class or function with `reset(seed=...)`, `step(action)` and `action_space` will
    do. So will an agent with `reset`, `act`, `learn`, `get_state` and `set_state`, made for a world or from
    nothing. The report can be pasted into an issue as it is.

    Exit code 0: every promise is kept. 1: one is broken. 2: nothing could be examined.
    """
    from worldfork.errors import WorldforkError, printable
    from worldfork.testing.by_name import KITS, as_record, check_by_name
    from worldfork.testing.contract import ContractError

    if kind is not None and kind not in KITS:
        raise WorldforkError(f"--kind takes {', '.join(KITS)}; got `{kind}`.")
    try:
        report = check_by_name(
            name,
            kind=kind,  # type: ignore[arg-type]
            world=world,
            settings=options.settings_of(setting),
            checkpoints=checkpoint,
            precision=precision,
            steps=steps,
        )
    except ContractError as error:
        report = error.report
    record = as_record(report)
    if as_json:
        options.print_json(record)
    else:
        typer.echo(printable("\n".join(_lines(record))))
    if report.problems:
        raise typer.Exit(1)


def _lines(record: dict[str, Any]) -> list[str]:
    """Return the report as text: what it holds for, every promise, and the verdict last."""
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    lines = [record["subject"], f"versions: {versions}; {record['machine']}"]
    lines += [f"  kept          {promise}" for promise in record["kept"]]
    for problem in record["broken"]:
        lines += [f"  BROKEN        {problem['rule']}", f"    seen: {problem['seen']}"]
        lines += [f"    do:   {problem['remedy']}"]
    lines += [f"  not examined  {promise}" for promise in record["not_examined"]]
    if behind := len(record["not_reached"]):
        lines.append(f"  not reached   {plural(behind, 'promise')} behind the broken one")
    count = len(record["broken"])
    verdict = f"NOT exact: {plural(count, 'promise')} broken" if count else "exact: what was examined is kept"
    much = f" ({record['examined']})" if record["examined"] else ""
    return [*lines, f"verdict: {verdict}{much}"]
