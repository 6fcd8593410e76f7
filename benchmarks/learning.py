"""Triggers that learn from forks: prices, transfer between tasks, number of labels, trials that confirm.

    python benchmarks/learning.py                 # all tables, and docs/media/benchmark-*.png
    python benchmarks/learning.py transfer        # one of: prices, transfer, labels, trials, permuted, closed-loop

Everything is read from the published data set (results/dataset), fitted on the models of other folds, and given in
return per deployment of 24 decision points.
"""

import argparse
import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import scipy.stats
from jaxtyping import Bool, Int
from matplotlib.figure import Figure

import worldfork as wf
from worldfork.benchmark import TASKS, Entry, Task, built_in, load, read_task, score_entry, write
from worldfork.benchmark.board import Recorded
from worldfork.benchmark.harness import Answers, Decided, Policy, entry_policy, gains_of, interval_of_lead, policies
from worldfork.triggers.learned import Features, Ridge, history

MEDIA = Path(__file__).parents[1] / "docs" / "media"
NAMES = [name for name in TASKS if not name.endswith("steps")]
RIDGE = Entry("ridge", Ridge())
PRICE = 30.0
COUNTS = (25, 50, 100, 200, 400, 800)
DRAWS = 20


def main() -> None:
    """Print the tables that are asked for, or all."""
    sections: dict[str, Callable[[dict[str, Task]], None]] = {
        "prices": prices,
        "transfer": transfer,
        "labels": labels,
        "trials": trials,
        "permuted": permuted,
        "closed-loop": closed_loop,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="*", help=f"tables to print, of {', '.join(sections)}; all by default")
    asked = parser.parse_args().section
    if unknown := set(asked) - set(sections):
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(sections)}")
    data = load()
    tasks = {name: read_task(data, name) for name in NAMES}
    for name in asked or sections:
        print(f"\n## {name}\n", flush=True)
        sections[name](tasks)


def prices(tasks: dict[str, Task]) -> None:
    """Draw what policies earn at each price of an update."""
    grid = np.linspace(0, 200, 21).tolist()
    figure = Figure(figsize=(10, 8), layout="constrained")
    heads = "task | price | always | position | one trial | best signal | ridge | oracle | ridge less best signal"
    print(f"| {heads} |\n|---|" + "---:|" * 8)
    for axes, (name, task) in zip(figure.subplots(3, 3).flat, tasks.items(), strict=True):
        curves = {
            each: [row.earned for row in score_entry(task, each, prices=grid, intervals=False)]
            for each in ("always", "position", "one-trial")
        }
        curves["best signal"] = _best_signal(task, grid)
        for each in (RIDGE, "oracle"):
            label = each if isinstance(each, str) else each.name
            curves[label] = [row.earned for row in score_entry(task, each, prices=grid, intervals=False)]
        for label, values in curves.items():
            axes.plot(
                grid, values, label=label, lw=2 if label == "ridge" else 1, ls=":" if label == "oracle" else "-"
            )
        axes.axhline(0, color="grey", lw=0.6)
        axes.set_ylim(min(-300, -0.1 * curves["oracle"][0]), max(400, 1.08 * curves["oracle"][0]))
        axes.set_title(name, fontsize=9)
        signals = [entry_policy(task, Entry(each, Recorded(signal=each))) for each in task.signals]
        for price in (0.0, 30.0, 100.0):
            place = grid.index(price)
            lead = curves["ridge"][place] - curves["best signal"][place]
            low, high = interval_of_lead(task, entry_policy(task, RIDGE), signals, price)
            cells = [f"{values[place]:,.0f}" for values in curves.values()]
            print(
                f"| {name} | {price:g} | {' | '.join(cells)} | {lead:+,.0f} [{low:+,.0f}, {high:+,.0f}] |",
                flush=True,
            )
    figure.axes[0].legend(fontsize=7)
    figure.supxlabel("price of an update")
    figure.supylabel("return per deployment, less price")
    figure.savefig(MEDIA / "benchmark-prices.png", dpi=110)


def _best_signal(task: Task, grid: list[float]) -> list[float]:
    """Return what the best recorded signal earns at each price, the best in hindsight."""
    entries = [Entry(name, Recorded(signal=name)) for name in task.signals]
    earned = [[row.earned for row in score_entry(task, entry, prices=grid, intervals=False)] for entry in entries]
    return np.max(earned, axis=0).tolist()


def transfer(tasks: dict[str, Task]) -> None:
    """Fit on one task, test on another: return at a price less that of the target's best signal."""
    rows = [*NAMES, "all others"]
    lead = np.zeros((len(rows), len(NAMES)))
    for column, target in enumerate(tasks.values()):
        best = _best_signal(target, [PRICE])[0]
        for row, source in enumerate(rows):
            sources = (
                [tasks[source]] if source in tasks else [each for each in tasks.values() if each is not target]
            )
            lead[row, column] = _transferred(sources, target) - best
    print("| fitted on | " + " | ".join(NAMES) + " |\n|---|" + "---:|" * len(NAMES))
    for name, values in zip(rows, lead, strict=True):
        print(f"| {name} | " + " | ".join(f"{value:+,.0f}" for value in values) + " |")
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    axes = figure.subplots()
    shown = axes.imshow(np.clip(lead, -1000, 1000), cmap="RdBu", vmin=-1000, vmax=1000, aspect="auto")
    axes.set_xticks(range(len(NAMES)), NAMES, rotation=35, ha="right", fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    for (row, column), value in np.ndenumerate(lead):
        colour = "white" if abs(value) > 600 else "black"
        axes.text(column, row, f"{value:+,.0f}", ha="center", va="center", fontsize=7, color=colour)
    axes.set_xlabel("tested on")
    axes.set_ylabel("fitted on")
    figure.colorbar(shown, label=f"return less that of the target's best signal, price {PRICE:g}")
    figure.savefig(MEDIA / "benchmark-transfer.png", dpi=110)


def _transferred(sources: list[Task], target: Task) -> float:
    """Return what a ridge in relative units earns on the target; no model of the target's fold was fitted on."""
    updates = np.zeros(len(target.delta), bool)
    for fold, here in _folds(target):
        lessons = [
            labelled
            for source in sources
            for each, labelled in zip(source.deployments, source.labelled, strict=True)
            if source.world != target.world or source.fold[each.model] != fold
        ]
        fitted = Ridge(relative=True).fit(lessons)
        updates[here] = fitted.predict(_features(target, relative=True)[here]) > PRICE
    return _earned(target, updates)


def labels(tasks: dict[str, Task]) -> None:
    """Draw what a ridge earns against the number of labelled forks, and which to label next."""
    chosen = ("cartpole-full", "cartpole-tenth", "cartpole-rehearsal", "cheetah-tenth", "cheetah-ewc", "walker-ewc")
    figure = Figure(figsize=(10, 6), layout="constrained")
    print(
        "| task | labels next | "
        + " | ".join(map(str, COUNTS))
        + " | all |\n|---|---|"
        + "---:|" * (len(COUNTS) + 1)
    )
    for axes, name in zip(figure.subplots(2, 3).flat, chosen, strict=True):
        task = tasks[name]
        everything = _earned(task, _labelled_by(task, _at_random, len(task.delta), seed=0))
        signal = _best_signal(task, [PRICE])[0]
        for label, order in (("at random", _at_random), ("whole deployments", _whole), ("uncertain", _uncertain)):
            usable = [count for count in COUNTS if count <= 0.8 * len(task.delta)]
            curve = [
                [_earned(task, _labelled_by(task, order, count, seed=seed)) for seed in range(DRAWS)]
                for count in usable
            ]
            mean, error = np.mean(curve, axis=1), np.std(curve, axis=1, ddof=1)
            axes.errorbar(usable, mean, error, label=label, capsize=2, lw=1)
            cells = [f"{value:,.0f} ± {spread:,.0f}" for value, spread in zip(mean, error, strict=True)]
            cells += [""] * (len(COUNTS) - len(usable))
            print(f"| {name} | {label} | " + " | ".join(cells) + f" | {everything:,.0f} |", flush=True)
        axes.axhline(everything, color="grey", lw=0.8, ls="--", label="all labels")
        axes.axhline(signal, color="black", lw=0.8, ls=":", label="best signal, all labels")
        axes.set_xscale("log")
        axes.set_xticks(COUNTS, list(map(str, COUNTS)))
        axes.minorticks_off()
        axes.set_title(name, fontsize=9)
    figure.axes[0].legend(fontsize=7)
    figure.supxlabel("labelled forks of other models")
    figure.supylabel(f"return per deployment at a price of {PRICE:g}")
    figure.savefig(MEDIA / "benchmark-labels.png", dpi=110)


Pool = Int[np.ndarray, "pool"]


def _labelled_by(
    task: Task, order: Callable[[Task, Pool, int, np.random.Generator], Pool], count: int, *, seed: int
) -> Bool[np.ndarray, "forks"]:
    """Return the decisions of a ridge that was fitted on `count` forks of other models, picked in this order."""
    inputs, updates = _features(task), np.zeros(len(task.delta), bool)
    for fold, here in _folds(task):
        pool = np.flatnonzero(~here)
        picked = order(task, pool, min(count, len(pool)), np.random.default_rng([seed, int(fold)]))
        fitted = Ridge()
        fitted = fitted.model_copy(update={"state": fitted.learn(inputs[picked], task.delta[picked])})
        updates[here] = fitted.predict(inputs[here]) > PRICE
    return updates


def _at_random(task: Task, pool: Pool, count: int, draws: np.random.Generator) -> Pool:
    """Return forks of the pool at random."""
    return draws.permutation(pool)[:count]


def _whole(task: Task, pool: Pool, count: int, draws: np.random.Generator) -> Pool:
    """Return whole deployments in random order, as studies are run."""
    owner = np.concatenate(
        [np.full(each.rows.stop - each.rows.start, i) for i, each in enumerate(task.deployments)]
    )
    rank = draws.permutation(len(task.deployments))
    return pool[np.argsort(rank[owner[pool]], kind="stable")][:count]


def _uncertain(task: Task, pool: Pool, count: int, draws: np.random.Generator) -> Pool:
    """Return, one after another, the fork whose value a ridge on those before is least certain of."""
    inputs = _features(task)[pool]
    spread = inputs.std(axis=0)
    design = np.clip((inputs - inputs.mean(axis=0)) / np.where(spread > 0, spread, 1.0), -5, 5)
    covariance = np.eye(design.shape[1]) / Ridge().penalty
    free, picked = np.ones(len(pool), bool), []
    for place in range(count):
        variance = np.einsum("ij,jk,ik->i", design, covariance, design, optimize=True)
        next_one = int(draws.integers(len(pool))) if place == 0 else int(np.argmax(np.where(free, variance, -1)))
        free[next_one] = False
        picked.append(next_one)
        along = covariance @ design[next_one]
        covariance -= np.outer(along, along) / (1 + design[next_one] @ along)
    return pool[picked]


def trials(tasks: dict[str, Task]) -> None:
    """Compare trying every update with trying those that a ridge proposes: it learns what a trial is worth."""
    print(
        "| task | price | try all | trials | ridge proposes, trial confirms | trials | ridge alone |\n|---|"
        + "---:|" * 6
    )
    for name, task in tasks.items():
        propose = _proposals(task)
        for price in (0.0, 10.0, 30.0, 100.0):
            confirmed = gains_of(task, "ridge + trial", propose, [price])[0]
            all_tried = score_entry(task, "one-trial", prices=[price], intervals=False)[0]
            alone = score_entry(task, RIDGE, prices=[price], intervals=False)[0]
            lead = (
                f"{confirmed.earned:,.0f} ({confirmed.gain:+,.0f} [{confirmed.low:+,.0f}, {confirmed.high:+,.0f}])"
            )
            print(
                f"| {name} | {price:g} | {all_tried.earned:,.0f} | 24.0 | {lead} | {confirmed.updates:.1f} "
                f"| {alone.earned:,.0f} |",
                flush=True,
            )


def _proposals(task: Task) -> Policy:
    """Return the policy that tries an update where a ridge expects more of a trial than its price."""
    tried = policies(task)["one-trial"](0.0, task.all_models).worth
    expected = Answers(dataclasses.replace(task, delta=tried), RIDGE)

    def propose(price: float, models: Bool[np.ndarray, "models"]) -> Decided:
        updates = np.zeros(len(task.delta), bool)
        for fold in np.unique(task.fold[models]):
            here = (models & (task.fold == fold))[task.model]
            updates[here] = expected.on(models & (task.fold != fold))[here] > price
        return Decided(updates, updates * tried)

    return propose


def permuted(tasks: dict[str, Task], count: int = 200) -> None:
    """Deal the outcomes out anew over all forks: nothing can be learnt, and entries must gain nothing."""
    print("| task | entry | mean gain | standard error | intervals above 0 |\n|---|---|---:|---:|---:|")
    for name in ("cheetah-ewc", "walker-ewc"):
        for entry in (RIDGE, next(each for each in built_in(tasks[name]) if getattr(each, "name", "") == "kl")):
            rows = [score_entry(tasks[name].permuted(seed), entry, prices=[PRICE])[0] for seed in range(count)]
            gains = np.array([row.gain for row in rows])
            above = sum(row.low > 0 for row in rows)
            label = entry if isinstance(entry, str) else entry.name
            error = gains.std(ddof=1) / np.sqrt(count)
            print(f"| {name} | {label} | {gains.mean():+.1f} | {error:.1f} | {above} of {count} |", flush=True)


CLOSED_LOOP = """
extends = "known-answer"
name = "learned-deployment"
about = "What does a trigger earn that learnt from the forks of other controllers?"
grid.checkpoints = [8, 9, 10, 11, 12, 13, 14, 15]

[deployment]
evaluate_at = [24]
episodes = 1

[deployment.policies.periodic]
trigger = "periodic"
"""
LINEAR_PRICES = (0.0, 0.1, 0.3)  # returns of this world are about -4


def closed_loop(tasks: dict[str, Task]) -> None:
    """Fit a ridge on the forks of eight controllers whose answer is known, and deploy it on eight others."""
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        forks = wf.run("known-answer", folder / "forks")
        write([forks], folder / "data")
        task = read_task(load(folder / "data"), "known-answer/known-answer/linear_quadratic")
        first = [int(each.cell.checkpoint) < 8 for each in task.deployments]
        fitted = Ridge().fit([each for each, early in zip(task.labelled, first, strict=True) if early])
        assert fitted.state is not None
        state = ", ".join(f"{name} = {values}" for name, values in fitted.state.items())
        registered = CLOSED_LOOP + "".join(
            f"\n[deployment.policies.ridge-{place}]\ntrigger = 'ridge'\nthreshold = {price}\n"
            f"settings.state = {{ {state} }}\n"
            for place, price in enumerate(LINEAR_PRICES)
        )
        (folder / "learned.toml").write_text(registered)
        episodes = wf.run(folder / "learned.toml", folder / "deployed").episodes()
    fixed = {"never", "always", "periodic"}
    print(
        "| price | policy | return less price | updates | less never, per controller |\n|---:|---|---:|---:|---:|"
    )
    for place, price in enumerate(LINEAR_PRICES):
        net = episodes.with_columns((pl.col("episode_return") - price * pl.col("fired")).alias("net"))
        cell = pl.col("net").sum().alias("net"), pl.col("fired").sum()
        per_cell = net.group_by("policy", "checkpoint", "direction").agg(cell)
        by_model = per_cell.group_by("policy", "checkpoint").agg(pl.col("net", "fired").mean())
        still = by_model.filter(policy="never").select("checkpoint", pl.col("net").alias("never"))
        for policy in [*sorted(fixed), f"ridge-{place}"]:
            own = by_model.filter(policy=policy).join(still, on="checkpoint")
            lead = (own["net"] - own["never"]).to_numpy()
            reach = scipy.stats.t.ppf(0.975, len(lead) - 1) * lead.std(ddof=1) / len(lead) ** 0.5
            print(
                f"| {price:g} | {policy.partition('-')[0]} | {own['net'].mean():.1f} | {own['fired'].mean():.1f} "
                f"| {lead.mean():+.1f} ± {reach:.1f} |"
            )


def _features(task: Task, *, relative: bool = False) -> Features:
    return np.concatenate([history(each, Ridge().signals, relative) for each in task.labelled])


def _folds(task: Task) -> Iterator[tuple[int, Bool[np.ndarray, "forks"]]]:
    """Yield each fold with the forks of its models."""
    for fold in np.unique(task.fold):
        yield int(fold), (task.fold == fold)[task.model]


def _earned(task: Task, updates: Bool[np.ndarray, "forks"]) -> float:
    return float((updates * (task.delta - PRICE)).sum() / len(task.deployments))


if __name__ == "__main__":
    main()
