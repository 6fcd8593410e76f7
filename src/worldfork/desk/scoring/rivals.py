"""Triggers compared on the same labels, each against its own rate-matched control (paper, Table 3)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from jaxtyping import Bool

from worldfork.desk.scoring import controls, policies, proxies
from worldfork.desk.scoring.decisions import NO_SIGNAL, Decisions
from worldfork.desk.scoring.endpoint import endpoint
from worldfork.desk.scoring.partition import Partition, partition
from worldfork.desk.scoring.ranking import ranking
from worldfork.desk.scoring.rules import Rules
from worldfork.desk.scoring.undefined import Undefined
from worldfork.desk.triggers import is_reference
from worldfork.ledger.outcomes import Divergence, Forks

__all__ = ["rivals"]

SIGNIFICANT: Final = 0.05


def rivals(
    forks: Forks,
    divergence: Divergence,
    decisions: Mapping[str, Mapping[str, Decisions]],
    rules: Rules,
    advance: Callable[[int], None],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures of every trigger on retained and on all attempted forks, with their controls."""
    masks = {"retained": ~divergence.dropped, "all_attempted": np.ones(len(forks), bool)}
    tested = {
        side: {name: one.fired for name, one in decided.items() if not isinstance(one.fired, Undefined)}
        for side, decided in decisions.items()
    }
    sets = [
        controls.Policies(masks[side], np.array(list(flags.values()), bool).reshape(len(flags), len(forks)).T)
        for side, flags in tested.items()
    ]
    nulls = controls.control_totals(
        forks.prefork, forks.delta, sets, permutations=rules.permutations, seed=rules.seed, advance=advance
    )
    results = []
    for (side, decided), null in zip(decisions.items(), nulls, strict=True):
        column = {name: index for index, name in enumerate(tested[side])}
        figures = {
            name: _trigger(one, forks, masks[side], divergence, rules, null, column.get(name))
            for name, one in decided.items()
        }
        _judge_controls(figures)
        results.append(figures)
    return results[0], results[1]


def _trigger(
    one: Decisions,
    forks: Forks,
    scored: Bool[np.ndarray, "forks"],
    divergence: Divergence,
    rules: Rules,
    null: dict[str, np.ndarray],
    column: int | None,
) -> dict[str, Any]:
    """One trigger on one set of forks."""
    kept = forks.take(scored)
    parts = partition(kept.prefork)
    signal = None if one.signal is None else one.signal[scored]
    return {
        **_ranked(signal, kept, parts, rules),
        **_policy(one.fired, kept, parts, scored),
        "running_quantile": _policy(one.running, kept, parts, scored),
        **_random(one.fired, kept, scored, null, column),
        "endpoint": {
            rule: fired
            if isinstance(fired, Undefined)
            else endpoint(fired[scored], kept.delta, kept.outcomes.hold, parts, seed=rules.seed, task=forks.task)
            for rule, fired in (("leave_one_checkpoint_out", one.fired), ("running_quantile", one.running))
        },
        "excluded_quantile": NO_SIGNAL
        if one.signal is None
        else proxies.excluded_quantile(one.signal, divergence.dropped),
    }


def _ranked(signal: np.ndarray | None, kept: Forks, parts: Partition, rules: Rules) -> dict[str, Any]:
    names = ("auc", "auc_interval", "auc_interval_kind", "correlation", "partial_correlation", "spearman_hold")
    if signal is None:
        return {**dict.fromkeys(names, NO_SIGNAL), "auc_by_checkpoint": NO_SIGNAL, "n_defined": len(kept)}
    return {
        **ranking(signal, kept.delta, parts, seed=rules.seed, task=kept.task),
        "n_defined": int((~np.isnan(signal)).sum()),
        "correlation": proxies.correlation(signal, kept.delta),
        "partial_correlation": proxies.partial_correlation(signal, kept.delta, kept.outcomes.r_hold),
        "spearman_hold": proxies.spearman(signal, kept.outcomes.r_hold),
    }


def _policy(
    fired: Bool[np.ndarray, "forks"] | Undefined, kept: Forks, parts: Partition, scored: Bool[np.ndarray, "forks"]
) -> dict[str, Any]:
    if isinstance(fired, Undefined):
        return dict.fromkeys(("policy_total", "fires", "by_direction", "gradient_steps"), fired)
    flags = fired[scored]
    unknown = Undefined("the table does not say how many gradient steps an update takes")
    return {
        "policy_total": policies.policy_total(flags, kept.delta),
        "fires": int(flags.sum()),
        "by_direction": {
            direction: policies.policy_total(flags & (parts.direction == code), kept.delta)
            for code, direction in enumerate(parts.directions)
        },
        "gradient_steps": unknown if kept.gradient_steps is None else int(flags.sum()) * kept.gradient_steps,
    }


def _random(
    fired: Bool[np.ndarray, "forks"] | Undefined,
    kept: Forks,
    scored: Bool[np.ndarray, "forks"],
    null: dict[str, np.ndarray],
    column: int | None,
) -> dict[str, Any]:
    if isinstance(fired, Undefined) or column is None:
        return dict.fromkeys(("random", "random_blocks", "random_shift"), fired)
    observed = policies.policy_total(fired[scored], kept.delta)
    judged = {variant: controls.judge(observed, totals[:, column]) for variant, totals in null.items()}
    return {
        "random": judged["random"],
        "random_blocks": {str(count): judged[f"blocks-{count}"] for count in controls.BLOCKS},
        "random_shift": judged["shift"],
    }


def _judge_controls(figures: dict[str, dict[str, Any]]) -> None:
    """A trigger passes when its permuted and its shifted p, each Holm-adjusted, are both below 0.05.

    The candidates are adjusted among themselves; a reference is adjusted as one more of them, so that yardsticks
    nobody asked for do not make the candidates' test stricter.
    """
    tested = {name: one for name, one in figures.items() if not isinstance(one["random"], Undefined)}
    candidates = [name for name in tested if not is_reference(name)]
    for name, one in figures.items():
        if name not in tested:
            one["passes_control"] = one["random"]
            continue
        compared = candidates if name in candidates else [*candidates, name]
        one["passes_control"] = all(
            controls.holm({other: tested[other][null]["p"] for other in compared})[name] < SIGNIFICANT
            for null in ("random", "random_shift")
        )
