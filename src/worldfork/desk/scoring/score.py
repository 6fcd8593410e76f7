"""Everything that is said about a ledger, as one tree of plain values (docs/scoring.md defines every figure)."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from worldfork.desk.scoring import contrast, effects, policies, power, proxies
from worldfork.desk.scoring.contraction import contraction
from worldfork.desk.scoring.decisions import Decisions, decide
from worldfork.desk.scoring.predictions import answer
from worldfork.desk.scoring.rivals import rivals
from worldfork.desk.scoring.rules import Rules
from worldfork.desk.scoring.undefined import Undefined, settle
from worldfork.desk.triggers import Unavailable, read_triggers
from worldfork.errors import WorldforkError
from worldfork.ledger.outcomes import Divergence, Forks, diverged

__all__ = ["SCHEMA", "Score", "TaskScore", "contrast_all", "score", "score_task"]

SCHEMA: Final = "worldfork.score/1"


@dataclasses.dataclass(frozen=True)
class TaskScore:
    """One task in one arm: its figures (with `Undefined` among them), and the decisions behind them."""

    figures: dict[str, Any]
    forks: Forks
    divergence: Divergence
    retained: Mapping[str, Decisions]  # thresholds fitted on retained forks
    all_attempted: Mapping[str, Decisions]


@dataclasses.dataclass(frozen=True)
class Score:
    """A whole score: `plain` is what `--json` prints, `tasks` (by arm and task) what it was made from."""

    plain: dict[str, Any]
    tasks: Mapping[str, Mapping[str, TaskScore]]


def score(
    arms: Mapping[str, Mapping[str, Forks]],
    rules: Rules,
    *,
    contrasts: Iterable[tuple[str, str]] = (),
    unscored: Iterable[str] = (),
    watch: Callable[[str], None] = lambda what: None,
    advance: Callable[[int], None] = lambda forks: None,
) -> Score:
    """Score every task of every arm. Neither arms nor tasks are ever pooled. `unscored` forks are listed."""
    found: dict[str, dict[str, TaskScore]] = {}
    for arm, tasks in arms.items():
        found[arm] = {}
        for task, forks in tasks.items():
            label = f"{arm} {task}".strip()
            found[arm][task] = score_task(
                forks, rules, arm=arm, watch=functools.partial(_said, watch, label), advance=advance
            )
    trees = {arm: {"tasks": {task: one.figures for task, one in tasks.items()}} for arm, tasks in found.items()}
    tree: dict[str, Any] = next(iter(trees.values())) if len(trees) == 1 else {"arms": trees}
    if pairs := list(contrasts):
        tree = {
            **tree,
            "contrasts": {f"{one} - {other}": contrast_all(arms, one, other, rules) for one, other in pairs},
        }
    plain, undefined = settle(tree)
    undefined += [{"figure": "delta", "why": why} for why in unscored]
    return Score({"schema": SCHEMA, **plain, "undefined": undefined}, found)


def contrast_all(
    arms: Mapping[str, Mapping[str, Forks]], first: str, second: str, rules: Rules
) -> dict[str, dict[str, Any]]:
    """Two arms compared on every task they share, all attempted and retained."""
    for name in (first, second):
        if name not in arms:
            raise WorldforkError(f"There is no arm `{name}`; the table has {', '.join(arms) or 'none'}.")
    found: dict[str, dict[str, Any]] = {}
    for task in [task for task in arms[first] if task in arms[second]]:
        pair = (arms[first][task], arms[second][task])
        kept = [forks.take(~diverged(forks, rules.divergence).dropped) for forks in pair]
        found[task] = {
            "all_attempted": contrast.contrast_arms(*pair, seed=rules.seed),
            "retained": contrast.contrast_arms(*kept, seed=rules.seed),
        }
    return found


def score_task(
    forks: Forks,
    rules: Rules,
    *,
    arm: str = "",
    watch: Callable[[str], None] = lambda what: None,
    advance: Callable[[int], None] = lambda forks: None,
) -> TaskScore:
    """Every figure of one task in one arm."""
    divergence = diverged(forks, rules.divergence)
    kept = forks.take(~divergence.dropped)
    readings = read_triggers(forks.prefork, names=rules.triggers, seed=rules.seed, watch=watch)
    usable = {name: reading for name, reading in readings.items() if not isinstance(reading, Unavailable)}
    masks = {"retained": ~divergence.dropped, "all_attempted": np.ones(len(forks), bool)}
    decisions = decide(usable, forks, scored=masks, rate=rules.rate)
    watch("random controls")
    retained, attempted = rivals(forks, divergence, decisions, rules, advance)
    unavailable = {name: Undefined(r.why) for name, r in readings.items() if isinstance(r, Unavailable)}
    edges = rules.edges.get(forks.task)
    figures: dict[str, Any] = {
        "forks": {
            "attempted": len(forks),
            "retained": len(kept),
            "diverged": int(divergence.dropped.sum()),
            "helped": int((kept.delta > 0).sum()),
            "hurt": int((kept.delta < 0).sum()),
        },
        "effect": {
            "all_attempted": effects.effect(forks, seed=rules.seed),
            "retained": effects.effect(kept, seed=rules.seed),
        },
        "drift_quartiles": effects.drift_quartiles(kept),
        "direction_contrast": {
            "all_attempted": contrast.contrast_directions(forks, seed=rules.seed),
            "retained": contrast.contrast_directions(kept, seed=rules.seed),
        },
        "policies": {
            "never": 0.0,
            "always": float(kept.delta.sum()),
            "oracle": policies.oracle_total(kept.delta),
        },
        "policies_all_attempted": {
            "never": 0.0,
            "always": float(forks.delta.sum()),
            "oracle": policies.oracle_total(forks.delta),
        },
        "triggers": retained,
        "triggers_all_attempted": attempted,
        "triggers_unavailable": unavailable,
        "contraction": contraction(kept, seed=rules.seed, edges=edges),
        "proxies": {
            "delta_k_given_hold": proxies.partial_correlation(
                kept.prefork.k.astype(np.float64), kept.delta, kept.outcomes.r_hold
            ),
            "cells_with_both_signs": proxies.cells_with_both_signs(kept),
        },
        "variance_components": power.variance_components(forks),
        "design": power.design_advice(forks, power.design_components(forks)),
        "crn": {"gain": power.crn_gain(forks)},
        "divergence": {
            "fraction": Undefined("the rule is switched off") if rules.divergence is None else rules.divergence,
            "off_in": list(divergence.off),
        },
    }
    figures["verdict"] = effects.verdict(figures["effect"]["all_attempted"])
    figures["predictions"] = [
        answer(said, figures) for said in rules.predictions if said.task == forks.task and said.arm in (None, arm)
    ]
    return TaskScore(figures, forks, divergence, decisions["retained"], decisions["all_attempted"])


def _said(watch: Callable[[str], None], label: str, what: str) -> None:
    watch(f"{label}: {what}")
